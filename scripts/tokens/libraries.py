"""PKCS#11 libraries of Debian's archive, and how an HSM token is made with each. Every class is a row of scripts/test-tokens.

They run in a Debian that is thrown away, so they use the libraries' own paths and users.
"""
import contextlib
import glob
import os
import pathlib
import shutil
import subprocess

import deployment
import load
import service

BOOKWORM, TRIXIE = "bookworm", "trixie"


def library(name):
    """Returns the path of an installed library. Packages use different directories."""
    found = [path for pattern in (f"/usr/lib/*/{name}", f"/usr/lib/*/*/{name}", f"/usr/lib/{name}", f"/usr/lib/*/{name}.*")
             for path in sorted(glob.glob(pattern))]
    if not found:
        raise service.Failed(f"{name} is not installed")
    return found[0]


def background(*command, env=None, log=os.devnull):
    """Starts a program in a process group of its own."""
    with open(log, "ab") as output:
        return subprocess.Popen(command, env={**os.environ, **(env or {})}, stdin=subprocess.DEVNULL, stdout=output,
                                stderr=output, start_new_session=True)


def end(process):
    """Kills the program with its children."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, 9)
    process.wait()


class SoftHSM(deployment.SoftHSMToken):
    """The base of all rows.

    title: the first column of the table. has_service: true if the library calls another process, which restart() replaces.
    """
    title, release, has_service = "SoftHSM 2.6", BOOKWORM, False
    packages: tuple[str, ...] = ()
    # The program that made the HSM token. The label that the library gives it; None for the name.
    made_by = "paytokenctl"
    label: str | None = None

    def restart(self):
        """Ends the other process and starts it again."""

    def end(self):
        """Ends the other process."""


class NSS(deployment.NSSToken, SoftHSM):
    title, release, packages, made_by = "NSS softokn 3.87", BOOKWORM, ("libnss3", "libnss3-tools"), "certutil"


class NSS13(NSS):
    title, release = "NSS softokn 3.110", TRIXIE


class OpenCryptoki(SoftHSM):
    """Its soft token, which the daemon pkcsslotd serves. One exists in each system."""
    title, release, packages, has_service = "opencryptoki 3.8", BOOKWORM, ("opencryptoki",), True

    def __init__(self, name, place):
        self.name, self.place, self.pin, self.environment = name, place, f"{place}/{name}.pin", {}
        self.arguments, self.module = "", library("libopencryptoki.so")
        # Its PINs have four to eight characters; the security officer's is this until it is changed.
        for path, pin in ((self.pin, "31415926"), (f"{place}/{name}.so", "87654321")):
            pathlib.Path(path).write_text(pin)
            os.chmod(path, 0o600)
        self.restart()
        service.run("paytokenctl", "token", "init", "--module", self.module, "--label", name, "--so-pin-file",
                    f"{place}/{name}.so", "--pin-file", self.pin)

    def restart(self):
        self.end()
        # systemd-tmpfiles would make them.
        for folder in ["/run/opencryptoki", "/run/lock/opencryptoki",
                       *(f"/run/lock/opencryptoki/{slot}" for slot in os.listdir("/var/lib/opencryptoki"))]:
            os.makedirs(folder, exist_ok=True)
            shutil.chown(folder, group="pkcs11")
            os.chmod(folder, 0o770)
        # It goes into the background when it is ready.
        service.run("pkcsslotd")

    def end(self):
        for entry in glob.glob("/proc/[0-9]*/comm"):
            with contextlib.suppress(OSError, ProcessLookupError):
                if pathlib.Path(entry).read_text().strip() == "pkcsslotd":
                    process = int(entry.split("/")[2])
                    # At SIGTERM it waits for its clients' end.
                    os.kill(process, 9)
                    service.wait("pkcsslotd's end", lambda: not service.is_running(process), pause=0.01)


class OpenCryptoki13(OpenCryptoki):
    title, release = "opencryptoki 3.23", TRIXIE


class TPM(SoftHSM):
    """A TPM that swtpm emulates, through tpm2-pkcs11. A resource manager flushes the objects of clients that ended, as the kernel's
    /dev/tpmrm0 does; it is reached over D-Bus."""
    title, release, has_service, made_by = "tpm2-pkcs11 1.9, swtpm", BOOKWORM, True, "tpm2_ptool"
    packages = ("libtpm2-pkcs11-1", "libtpm2-pkcs11-tools", "swtpm", "tpm2-tools", "libtss2-tcti-swtpm0", "tpm2-abrmd",
                "libtss2-tcti-tabrmd0", "dbus")

    def __init__(self, name, place):
        self.name, self.place, self.pin, self.arguments = name, place, f"{place}/{name}.pin", ""
        self.module, self.processes = library("libtpm2_pkcs11.so"), []
        shutil.copy("pin", self.pin)
        self.store, self.state = os.path.abspath(f"{place}/{name}.store"), os.path.abspath(f"{place}/{name}.tpm")
        os.mkdir(self.store, 0o700)
        os.mkdir(self.state, 0o700)
        self.port = load.free_port()
        self.environment = {"TPM2_PKCS11_STORE": self.store, "TPM2_PKCS11_TCTI": '"tabrmd:"'}
        os.makedirs("/run/dbus", exist_ok=True)
        service.run("dbus-daemon", "--system", "--fork")
        self.restart()
        tools, pin = {**os.environ, "TPM2TOOLS_TCTI": "tabrmd:"}, pathlib.Path(self.pin).read_text().strip()
        service.run("tpm2_ptool", "init", "--path", self.store, env=tools)
        service.run("tpm2_ptool", "addtoken", "--pid", "1", "--label", name, "--sopin", pin, "--userpin", pin, "--path", self.store,
                    env=tools)

    def restart(self):
        self.end()
        self.processes = [background("swtpm", "socket", "--tpm2", "--tpmstate", f"dir={self.state}", "--server",
                                     f"type=tcp,port={self.port}", "--ctrl", f"type=tcp,port={self.port + 1}", "--flags",
                                     "not-need-init,startup-clear", log=f"{self.place}/swtpm.log")]
        # The control port: a connection to the other would be the TPM's only one.
        service.wait("swtpm", lambda: load.connects(self.port + 1), pause=0.05)
        self.processes.append(background("tpm2-abrmd", "--allow-root", f"--tcti=swtpm:host=127.0.0.1,port={self.port}",
                                         log=f"{self.place}/abrmd.log"))
        service.wait("the TPM's resource manager", lambda: subprocess.run(
            ["tpm2_getrandom", "--hex", "1"], env={**os.environ, "TPM2TOOLS_TCTI": "tabrmd:"}, capture_output=True).returncode == 0,
                     pause=0.1, limit=30)

    def end(self):
        for process in reversed(self.processes):
            end(process)


class P11Kit(deployment.RemoteToken, SoftHSM):
    """A SoftHSM token in another process, through the client module of p11-kit."""
    title, release, packages, has_service = "p11-kit 0.24 remoting", BOOKWORM, ("p11-kit", "p11-kit-modules"), True

    def restart(self):
        self.kill()
        self.serve()

    def end(self):
        self.kill()


class P11Kit13(P11Kit):
    title, release = "p11-kit 0.25 remoting", TRIXIE


class P11KitProxy(SoftHSM):
    """All modules of p11-kit's configuration as one; here SoftHSM, as its package registers it."""
    title, release, packages = "p11-kit-proxy 0.25", TRIXIE, ("p11-kit", "p11-kit-modules")

    def __init__(self, name, place):
        super().__init__(name, place)
        self.module = library("p11-kit-proxy.so")


class Spy(SoftHSM):
    """OpenSC's module that logs every call to another, here SoftHSM."""
    title, release, packages = "pkcs11-spy 0.23", BOOKWORM, ("opensc", "opensc-pkcs11")

    def __init__(self, name, place):
        super().__init__(name, place)
        self.module = library("pkcs11-spy.so")
        self.environment |= {"PKCS11SPY": self.softhsm, "PKCS11SPY_OUTPUT": os.devnull}


class PKCS11Proxy(SoftHSM):
    """A SoftHSM token in another process, through pkcs11-proxy."""
    title, release, packages, has_service = "pkcs11-proxy 0.4", TRIXIE, ("pkcs11-daemon", "libpkcs11-proxy0"), True

    def __init__(self, name, place):
        super().__init__(name, place)
        self.module, self.process, self.served = library("libpkcs11-proxy.so"), None, self.environment
        self.address = f"tcp://127.0.0.1:{load.free_port()}"
        self.environment = {"PKCS11_PROXY_SOCKET": f'"{self.address}"'}
        self.restart()

    def restart(self):
        self.end()
        self.process = background("pkcs11-daemon", self.softhsm, env={**self.served, "PKCS11_DAEMON_SOCKET": self.address})
        service.wait("pkcs11-daemon", lambda: load.connects(int(self.address.rpartition(":")[2])), pause=0.05)

    def end(self):
        if self.process is not None:
            end(self.process)


class YubiHSM(SoftHSM):
    """Yubico's library for the YubiHSM 2, with a connector that emulates the device (yubihsm_connector.py)."""
    title, release, has_service, made_by = "YubiHSM 2's library 2.6, emulated device", TRIXIE, True, "the emulation"
    label = "YubiHSM"
    packages = ("yubihsm-pkcs11", "libyubihsm-http2")

    def __init__(self, name, place):
        self.name, self.place, self.pin, self.arguments, self.process = name, place, f"{place}/{name}.pin", "", None
        self.module, self.port = library("yubihsm_pkcs11.so"), load.free_port()
        # The factory's authentication key and its password.
        pathlib.Path(self.pin).write_text("0001password")
        os.chmod(self.pin, 0o600)
        configuration = os.path.abspath(f"{place}/{name}.conf")
        pathlib.Path(configuration).write_text(f"connector = http://127.0.0.1:{self.port}\n")
        self.environment = {"YUBIHSM_PKCS11_CONF": configuration}
        self.restart()

    def yaml(self, settings):
        return super().yaml({**settings, "uri": f'"pkcs11:token={self.label}"'})

    def restart(self):
        self.end()
        self.process = background("python3", str(pathlib.Path(__file__).with_name("yubihsm_connector.py")), str(self.port),
                                  os.path.abspath(f"{self.place}/{self.name}.device"), log=f"{self.place}/{self.name}.log")
        service.wait("the emulated device", lambda: load.connects(self.port), pause=0.05)

    def end(self):
        if self.process is not None:
            end(self.process)


ROWS: dict[str, type[SoftHSM]] = {
    "softhsm": SoftHSM, "nss-12": NSS, "nss-13": NSS13, "opencryptoki-12": OpenCryptoki, "opencryptoki-13": OpenCryptoki13, "tpm2": TPM,
    "p11-kit-12": P11Kit, "p11-kit-13": P11Kit13, "p11-kit-proxy": P11KitProxy, "pkcs11-spy": Spy, "pkcs11-proxy": PKCS11Proxy,
    "yubihsm": YubiHSM}
