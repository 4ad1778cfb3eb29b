"""A paytokend on sockets that outlive it, like those of systemd's socket units, and the replacement of its programs on the disk
by another version."""
import fcntl
import json
import os
import shutil
import socket
import time

import load
import service

PROGRAMS = ["paytokend", "paytokend-hsm", "paytokenctl"]
# Gives the daemon its sockets at the descriptors 3 and 4 (sd_listen_fds(3)). Until then they have other numbers, so that the
# shell does not use them.
ACTIVATION = """exec 3<&"$1" 4<&"$2"; shift 2; export LISTEN_PID=$$ LISTEN_FDS=2 LISTEN_FDNAMES=paytokend:admin; exec "$@" """
# The exit status with which the daemon asks not to be started again.
REFUSED = 78
# RestartSec= of paytokend.service.
RESTART = 1.0


def install(version, place):
    """Installs programs as a package manager does: writes each file next to its place, and then moves it there while the old
    program runs."""
    os.makedirs(place, exist_ok=True)
    for name in PROGRAMS:
        shutil.copy(f"{version}/{name}", f"{place}/{name}.new")
        os.rename(f"{place}/{name}.new", f"{place}/{name}")


class Activated(service.Service):
    """The daemon of a deployment with activated sockets. programs: the directory that `install` fills."""

    def __init__(self, there, programs):
        daemon = there.daemon
        self.programs = os.path.abspath(programs)
        self.listening = [self._listen(path) for path in (daemon.socket, daemon.admin)]
        super().__init__(socket=daemon.socket, admin=daemon.admin, log=daemon.log, command=[
            "bash", "-c", ACTIVATION, "bash", *map(str, self.listening), *daemon.command])

    @staticmethod
    def _listen(path):
        """Returns a descriptor that stays open while the soak runs."""
        with socket.socket(socket.AF_UNIX) as listening:
            # The path is absolute, as in systemd's socket units.
            listening.bind(os.path.abspath(path))
            listening.listen(512)
            # The descriptors 3 and 4 are reserved for the daemon.
            return fcntl.fcntl(listening.fileno(), fcntl.F_DUPFD_CLOEXEC, 100)

    def spawn(self, more=()):
        super().spawn(more, pass_fds=self.listening)

    def start_again_and_again(self):
        """Starts the daemon as systemd does, again after a second for as long as it exits 75. Returns the number of starts once
        it serves."""
        times = 0
        while True:
            self.spawn()
            while not self.is_ready():
                if self.process.poll() is not None:
                    break
                time.sleep(0.01)
            else:
                return times
            if self.process.returncode != service.TEMPORARY_FAILURE:
                self.must_run()
            times += 1
            time.sleep(RESTART)

    def start_refused(self):
        """Starts the daemon, which must exit by itself. Returns its exit status and its last line."""
        self.spawn()
        return self.process.wait(service.GUARD), service.last_lines(self.log)

    def is_ready(self):
        # While no daemon runs, the request waits in the socket.
        answers = []
        load.drive(self.socket, 1, [(None, service.GET_READY)],
                   lambda tag, status, body, began, ended: answers.append(status), limit=1)
        return answers == [200]

    def schema(self):
        return json.loads(self.ctl("status", "--output", "json"))["ledger"]["schemaVersion"]

    @property
    def environment(self):
        """Returns the environment in which paytokenctl of the installed version runs."""
        known = super().environment
        return {**known, "PATH": f"{self.programs}:{known['PATH']}"}
