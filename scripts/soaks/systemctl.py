"""A systemctl for a machine without systemd. It starts and stops paytokend according to its unit and drop-ins: command, user,
environment, directories and readiness, but not the sandbox. It starts and stops PostgreSQL with Debian's program."""
import grp
import os
import pathlib
import pwd
import signal
import socket
import subprocess
import sys
import time

import service

LOG = pathlib.Path("/var/log/paytokend.log")
# The file with the pid of the running daemon, and the file with the last one's exit status, or the negative number of the signal
# that ended it.
PIDS, ENDED = pathlib.Path("/run/paytokend.pid"), pathlib.Path("/run/paytokend.ended")
SOCKETS = ["paytokend.socket", "paytokend-admin.socket"]


def settings(unit):
    """Returns the names and values of the section Service; an empty value clears earlier ones."""
    found = {}
    for file in [f"/usr/lib/systemd/system/{unit}", *sorted(map(str, pathlib.Path(f"/run/systemd/system/{unit}.d").glob("*.conf")))]:
        section = ""
        for line in pathlib.Path(file).read_text().splitlines():
            if line.startswith("["):
                section = line
            elif section == "[Service]" and "=" in line and not line.startswith("#"):
                name, _, value = line.partition("=")
                found[name] = found.get(name, []) + [value] if value else []
    return found


def watch(command, environment):
    """Runs the daemon in a separate process, and stores its exit status."""
    os.setsid()
    with open(LOG, "ab") as log:
        for descriptor in (1, 2):
            os.dup2(log.fileno(), descriptor)
    process = subprocess.Popen(command, env=environment, cwd="/", umask=0o077)
    PIDS.write_text(str(process.pid))
    status = process.wait()
    partial = ENDED.with_suffix(".new")
    partial.write_text(str(status))
    partial.rename(ENDED)
    # This is the last step, because the next daemon can start as soon as the file is gone.
    PIDS.unlink(missing_ok=True)
    os._exit(0)


def stop():
    if PIDS.exists():
        process = int(PIDS.read_text())
        if service.is_running(process):
            os.kill(process, signal.SIGTERM)
        service.wait("the daemon's end", lambda: not PIDS.exists())


def start(unit):
    if PIDS.exists():
        if service.is_running(int(PIDS.read_text())):
            return
        service.wait("the daemon's end", lambda: not PIDS.exists())
    found = settings(unit)
    account = pwd.getpwnam(found["User"][-1])
    names = [found["Group"][-1], *" ".join(found["SupplementaryGroups"]).split()]
    groups = ",".join(str(grp.getgrnam(name).gr_gid) for name in names)
    (command,) = found["ExecStart"]
    environment = {"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8", "HOME": account.pw_dir}
    environment |= dict(word.split("=", 1) for word in found["Environment"])
    for name, place in (("RuntimeDirectory", "/run"), ("StateDirectory", "/var/lib")):
        directory = f"{place}/{found[name][-1]}"
        os.makedirs(directory, exist_ok=True)
        os.chmod(directory, int(found[name + "Mode"][-1], 8))
        os.chown(directory, account.pw_uid, account.pw_gid)
        environment["RUNTIME_DIRECTORY" if name == "RuntimeDirectory" else "STATE_DIRECTORY"] = directory
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notified:
        # The socket is in the abstract namespace, so that it needs no place in a file system.
        notified.bind(f"\0paytokend-{os.getpid()}")
        notified.settimeout(0.05)
        environment["NOTIFY_SOCKET"] = f"@paytokend-{os.getpid()}"
        ENDED.unlink(missing_ok=True)
        if os.fork() == 0:
            watch(["setpriv", f"--reuid={account.pw_uid}", f"--regid={account.pw_gid}", f"--groups={groups}", *command.split()],
                  environment)
        until = time.monotonic() + service.GUARD
        while True:
            try:
                if "READY=1" in notified.recv(4096).decode().splitlines():
                    return
            except TimeoutError:
                if ENDED.exists():
                    sys.exit(f"Job for {unit} failed: exit status {ENDED.read_text()}")
            if time.monotonic() > until:
                sys.exit(f"systemctl: {unit} was not ready")


def main(verb, *units):
    if verb == "daemon-reload":
        return
    for unit in units:
        if unit.startswith("postgresql@"):
            fast = ["-m", "fast"] if verb in ("stop", "restart") else []
            done = subprocess.run(["pg_ctlcluster", "--skip-systemctl-redirect", *fast,
                                   unit.removeprefix("postgresql@").removesuffix(".service"), verb], stdin=subprocess.DEVNULL)
            # Status 2 means that the cluster is already stopped, or already running.
            if done.returncode not in (0, 2):
                sys.exit(f"Job for {unit} failed: exit status {done.returncode}")
        elif unit == "paytokend.service":
            if verb in ("stop", "restart"):
                stop()
            if verb in ("start", "restart"):
                start(unit)
        elif not (unit in SOCKETS and verb == "stop"):
            sys.exit(f"systemctl: {verb} {unit}?")


main(*sys.argv[1:])
