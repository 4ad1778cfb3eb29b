"""HSM tokens, a configuration and a daemon in a separate directory, into which soaks inject faults."""
import concurrent.futures
import contextlib
import glob
import os
import pathlib
import re
import resource
import shutil
import signal
import sqlite3
import subprocess
import tempfile

import load
import service

MERCHANTS = {"ec": "merchant.com.example.curve", "rsa": "merchant.com.example.modulus"}


def programs():
    """Returns the directory with the built programs and libraries."""
    return pathlib.Path(shutil.which("paytokend")).resolve().parent


def make_merchants():
    for kind, identifier in MERCHANTS.items():
        service.make_merchant(kind, identifier, type=kind)


class SoftHSMToken:
    """A SoftHSM token with a separate token directory."""

    @classmethod
    def is_installed(cls):
        return True

    def __init__(self, name, place, store=None):
        """store: an empty directory for its files; by default, a new one in `place`, or the one that a kept `place` has."""
        self.name, self.place = name, place
        self.tokens, self.pin = store or f"{place}/{name}", f"{place}/{name}.pin"
        is_new = not os.path.exists(self.tokens) or store is not None
        if store is None:
            os.makedirs(self.tokens, 0o700, exist_ok=True)
        shutil.copy("pin", self.pin)
        self.softhsm = os.environ["SOAK_MODULE"]
        configuration = pathlib.Path("softhsm2.conf").read_text()
        self.conf = os.path.abspath(f"{place}/{name}.conf")
        pathlib.Path(self.conf).write_text(
            re.sub(r"(?m)^directories\.tokendir = .*", f"directories.tokendir = {os.path.abspath(self.tokens)}",
                   configuration))
        self.environment = {"SOFTHSM2_CONF": self.conf}
        self.module, self.arguments = self.softhsm, ""
        if is_new:
            service.run("paytokenctl", "token", "init", "--module", self.softhsm, "--label", name, "--so-pin-file", "so-pin",
                        "--pin-file", self.pin, env={**os.environ, **self.environment})

    def yaml(self, settings):
        lines = {"module": self.module, "uri": f'"pkcs11:token={self.name.replace(" ", "%20")}"',
                 "pin_file": os.path.abspath(self.pin), "sessions": 2, "call_timeout": "1s",
                 "allow_extractable_secret": "true",
                 "environment": "{ " + ", ".join(f"{key}: {value}" for key, value in self.environment.items()) + " }",
                 "init_args": f'"{self.arguments}"', **settings}
        return f"  - name: {self.name}\n" + "".join(f"    {key}: {value}\n" for key, value in lines.items())


class InMemoryToken(SoftHSMToken):
    """A SoftHSM token for many keys, stored in memory. SoftHSM writes several files for every object, which takes a tenth of the
    time there."""

    def __init__(self, name, place):
        # The directory is removed when the program ends.
        memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
        self.directory = tempfile.TemporaryDirectory(prefix="paytokend.", dir=memory)
        super().__init__(name, place, self.directory.name)


class NSSToken(SoftHSMToken):
    """An NSS softoken with a separate database."""
    # The directories are Debian's for each processor, and those of other distributions.
    LIBRARIES = ["/usr/lib/*/libsoftokn3.so", "/usr/lib/*/nss/libsoftokn3.so", "/usr/lib64/libsoftokn3.so"]

    @classmethod
    def library(cls):
        return next((path for pattern in cls.LIBRARIES for path in sorted(glob.glob(pattern))), None)

    @classmethod
    def is_installed(cls):
        return cls.library() is not None and shutil.which("certutil") is not None

    def __init__(self, name, place):
        self.name, self.place, self.pin, self.environment = name, place, f"{place}/{name}.pin", {}
        self.module, database = self.library(), "sql:" + os.path.abspath(f"{place}/{name}")
        os.mkdir(f"{place}/{name}", 0o700)
        shutil.copy("pin", self.pin)
        service.run("certutil", "-N", "-d", database, "-f", self.pin)
        self.arguments = (f"configdir='{database}' certPrefix='' keyPrefix='' secmod='secmod.db' flags='' "
                          f"dbTokenDescription='{name}'")


class ScriptedToken(SoftHSMToken):
    """A SoftHSM token that programs open through the tests' fault-injecting module. Tests/Equipment/ScriptedPKCS11 describes its
    scripts."""

    def __init__(self, name, place):
        super().__init__(name, place)
        self.script, self.log = os.path.abspath(f"{place}/{name}.script"), os.path.abspath(f"{place}/{name}.calls")
        self.module = str(programs() / "libScriptedPKCS11.so")
        self.environment["SCRIPTED_PKCS11"] = self.script
        self.play()

    def play(self, *instructions):
        """Writes a new script. Calls that begin later follow it, and are counted from 1."""
        for fired in pathlib.Path(self.place).glob(f"{self.name}.script.fired-*"):
            fired.unlink()
        lines = [f"module {self.softhsm}", *instructions]
        pathlib.Path(self.script + ".new").write_text("\n".join(lines) + "\n")
        os.replace(self.script + ".new", self.script)

    def calls(self, function):
        """Returns the return values of all logged calls of `function`."""
        with contextlib.suppress(FileNotFoundError), open(self.log) as log:
            return [int(value, 16) for name, value, _ in map(str.split, log) if name == function]
        return []


class OneStepToken(ScriptedToken):
    """An HSM token that derives with CKD_SHA256_KDF_SP800 and refuses CKD_NULL: tier A."""

    def __init__(self, name, place):
        super().__init__(name, place)
        self.play("one-step-kdf", "refuse-null-kdf")


class RemoteToken(SoftHSMToken):
    """A SoftHSM token in another process: `p11-kit server`, reached through its client module."""
    CLIENTS = ["/usr/lib/*/pkcs11/p11-kit-client.so", "/usr/lib64/pkcs11/p11-kit-client.so", "/usr/lib/pkcs11/p11-kit-client.so"]

    @classmethod
    def client(cls):
        found = [path for pattern in cls.CLIENTS for path in sorted(glob.glob(pattern))]
        return found[0] if found and shutil.which("p11-kit") else None

    @classmethod
    def is_installed(cls):
        return cls.client() is not None

    def __init__(self, name, place):
        super().__init__(name, place)
        self.module, self.server = self.client(), None
        self.address = os.path.abspath(f"{place}/{name}.p11")
        self.served = dict(self.environment)
        self.environment = {"P11_KIT_SERVER_ADDRESS": f"unix:path={self.address}"}
        self.serve()

    def serve(self):
        self.server = subprocess.Popen(
            ["p11-kit", "server", "-f", "-n", self.address, "--provider", self.softhsm, f"pkcs11:token={self.name}"],
            env={**os.environ, **self.served}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            start_new_session=True)
        service.wait("p11-kit server", lambda: os.path.exists(self.address), pause=0.01)

    def kill(self):
        """Kills the server and the processes that serve its clients."""
        if self.server is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.server.pid, signal.SIGKILL)
            self.server.wait()
            self.server = None
            pathlib.Path(self.address).unlink(missing_ok=True)


class Deployment:
    """One daemon and its HSM tokens. A context manager, which ends them.

    merchants: those whose keys are imported, by name. With service.GOOGLE the daemon serves Google Pay.
    program: the command that starts the daemon, without the configuration's path. listener: additional options of the two
    sockets. ledger: the configuration's section, with rules that have names if it needs them; by default, a file. kept: True if `place` has HSM tokens and keys of an earlier run. settings: options of every HSM token.
    """

    def __init__(self, place, tokens, descriptors=None, merchants=("ec", "rsa"), program=("paytokend", "--config"),
                 listener=None, ledger=None, kept=False, **settings):
        if not kept:
            os.mkdir(place, 0o700)
        self.place, self.tokens = place, [kind(name, place) for name, kind in tokens.items()]
        self.settings, self.merchants, self.kept = settings, merchants, kept
        make_merchants()
        with_google = service.GOOGLE in merchants
        self.configuration = f"{place}/paytokend.yaml"
        pathlib.Path(self.configuration).write_text(
            f"listener:\n  socket: {os.path.abspath(place)}/d.sock\n  admin_socket: {os.path.abspath(place)}/a.sock\n"
            + "".join(f"  {option}: {value}\n" for option, value in (listener or {}).items()) +
            "tokens:\n" + "".join(token.yaml(settings) for token in self.tokens)
            + f"trust:\n  roots: [{os.path.abspath('authority/root.pem')}]\n"
            + (f"  google_pay: {os.path.abspath('authority/google-pay-keys.json')}\n" if with_google else "")
            + "verification: { signing_time_window: 1d }\n"
            + (ledger or f"ledger:\n  url: sqlite:{os.path.abspath(place)}/ledger.sqlite\n"
               + (service.access_rules(with_google=True) if with_google else ""))
            + "log: { format: text }\n")
        # If the ledger is on a server, the daemon stores the host's own files in this directory.
        command = ["env", f"STATE_DIRECTORY={os.path.abspath(place)}", *program, self.configuration]
        if descriptors is not None:
            command = ["prlimit", f"--nofile={descriptors}:{descriptors}"] + command
        self.daemon = service.Service(socket=f"{place}/d.sock", admin=f"{place}/a.sock", log=f"{place}/paytokend.log",
                                      command=command)

    def __enter__(self):
        self.daemon.start()
        for name in () if self.kept else self.merchants:
            self.daemon.import_merchant(name, tokens=[token.name for token in self.tokens])
        return self

    def __exit__(self, kind, error, trace):
        self.daemon.__exit__()
        for token in self.tokens:
            if isinstance(token, RemoteToken):
                token.kill()
        if error is not None and os.path.exists(self.daemon.log):
            print(f"--- {self.daemon.log}:\n{service.last_lines(self.daemon.log, 8)}", flush=True)

    @property
    def socket(self):
        return self.daemon.socket

    def certificate(self, token):
        """Returns the path of the certificate of a key that `fill` makes."""
        return f"authority/{self.place}-{token.name}.pem"

    def fill(self, count):
        """Stops the daemon, which has made its audit key, and fills its HSM tokens with `count` keys together, each of a
        different merchant."""
        self.daemon.stop()
        with concurrent.futures.ThreadPoolExecutor() as pool:
            list(pool.map(lambda token: self._fill(token, count // len(self.tokens)), self.tokens))

    def _fill(self, token, count):
        """Fills one HSM token. Other HSM tokens are filled at the same time, so it uses a separate ledger. Its keys are then
        copied into the daemon's ledger."""
        own = f"{self.place}/{token.name}.sqlite"
        service.run("key-filler", own, count, token.module, token.name, token.pin, "authority", f"{self.place}-{token.name}",
                    env={**os.environ, **token.environment})
        with contextlib.closing(sqlite3.connect(f"{self.place}/ledger.sqlite", timeout=60)) as ledger:
            ledger.execute("ATTACH ? AS filled", (own,))
            with ledger:
                ledger.execute("INSERT INTO merchant_key SELECT * FROM filled.merchant_key")

    def workers(self):
        return self.daemon.processes()[1:]

    def kill_workers(self):
        for process in self.workers():
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)

    def metric(self, name, **labels):
        """Returns the sum of the samples with these labels."""
        text, total = load.once(self.daemon.admin, load.get("/metrics"))[1].decode(), 0.0
        for line in text.splitlines():
            head, _, value = line.rpartition(" ")
            if head.partition("{")[0] == name and all(f'{key}="{wanted}"' in head for key, wanted in labels.items()):
                total += float(value)
        return total

    def restarts(self, **labels):
        return int(self.metric("paytokend_worker_restarts_total", **labels))

    def decryptions(self, token):
        """Returns the number of calls that the HSM token has answered."""
        return self.metric("paytokend_hsm_call_seconds_count", token=token, operation="decrypt")


def flood(paths, there, ended, count=1500):
    """Opens connections to all paths and keeps those that stay open, until `ended` is set. Sets `there` after `count` attempts.
    Runs in a separate process."""
    import socket
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(limit, count + 500), limit))
    kept, turn = [], 0
    while not ended.is_set():
        for _ in range(200):
            turn += 1
            connection = socket.socket(socket.AF_UNIX)
            connection.setblocking(False)
            try:
                connection.connect(paths[turn % len(paths)])
                kept.append(connection)
            except OSError:
                connection.close()
        if turn >= count:
            there.set()
        if len(kept) > count:
            for connection in kept[:len(kept) - count + 200]:
                connection.close()
            del kept[:len(kept) - count + 200]
        ended.wait(0.02)
