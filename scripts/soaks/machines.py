"""Machines for one run. Each is an overlay of this machine with a separate root directory, accounts and services. Commands run
there exactly as an article has them. Needs root, and a mount namespace and a network namespace for the run."""
import os
import pathlib
import shutil
import subprocess
import sys

import service

REPOSITORY = pathlib.Path(os.environ.get("RESTORE_REPOSITORY", "."))
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class Machine:
    """One machine. name: the name of its directory. packages: the packages whose accounts and directories it gets."""

    def __init__(self, name, packages=()):
        self.name, place = name, pathlib.Path("machines", name).absolute()
        self.root = place / "root"
        for directory in ("root", "changes", "work"):
            (place / directory).mkdir(parents=True)
        service.run("mount", "-t", "overlay", "-o", f"lowerdir=/,upperdir={place}/changes,workdir={place}/work", name, self.root)
        for directory in ("proc", "dev"):
            service.run("mount", "--rbind", f"/{directory}", self.root / directory)
        # If the toolchain is mounted on this machine, it is mounted on the overlay too, which does not contain mounts of its
        # lower directory.
        for directory in os.environ.get("RESTORE_MOUNTED", "").split():
            (self.root / directory.lstrip("/")).mkdir(parents=True, exist_ok=True)
            service.run("mount", "--bind", directory, self.root / directory.lstrip("/"))
        # /run and /tmp are empty, as at a first start, without the sockets of this machine.
        for directory, mode in (("run", 0o755), ("tmp", 0o1777)):
            service.run("mount", "-t", "tmpfs", "-o", f"mode={mode:o}", name, self.root / directory)
        # systemctl.py replaces systemd, and needs the other two files.
        for file in ("systemctl.py", "service.py", "load.py"):
            shutil.copy(REPOSITORY / "scripts/soaks" / file, self.root / "usr/local/bin")
        starter = self.root / "usr/local/bin/systemctl"
        starter.write_text(f'#!/bin/sh\nexec {os.path.realpath(sys.executable)} /usr/local/bin/systemctl.py "$@"\n')
        starter.chmod(0o755)
        for package in packages:
            self._install(package)

    def _install(self, package):
        for program in ("paytokend", "paytokend-hsm", "paytokenctl"):
            (self.root / "usr/bin" / program).touch()
            service.run("mount", "--bind", shutil.which(program), self.root / "usr/bin" / program)
        shutil.copy(REPOSITORY / f"hsm-config/{package}.service", self.root / "usr/lib/systemd/system")
        for program, *options in (["systemd-sysusers"], ["systemd-tmpfiles", "--create"]):
            name = program.removeprefix("systemd-")
            shutil.copy(REPOSITORY / f"scripts/packaging/{package}/{name}.conf", self.root / f"run/{name}.conf")
            self.type(" ".join([program, *options, f"/run/{name}.conf"]))

    def path(self, path):
        """Returns the path, as seen from here, of a path on the machine."""
        return self.root / path.lstrip("/")

    def write(self, path, text, owner=None, mode=0o644):
        """owner: an account of the machine; root by default."""
        self.path(path).parent.mkdir(parents=True, exist_ok=True)
        self.path(path).write_text(text)
        self.path(path).chmod(mode)
        if owner:
            self.type(f"chown {owner} {path}")

    def try_to_type(self, commands):
        """Runs commands as root, in a shell that stops at the first failure. Returns the exit status and the output."""
        try:
            done = subprocess.run(["chroot", self.root, "/usr/bin/env", "-i", f"PATH={PATH}", "HOME=/root", "LC_ALL=C.UTF-8",
                                   "/bin/bash", "-euo", "pipefail", "-c", commands],
                                  stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=service.GUARD)
        except subprocess.TimeoutExpired as late:
            said = (late.stdout or b"").decode(errors="replace")
            raise service.Failed(f"{self.name}: no end after {service.GUARD} s: {commands}\n{said[-3000:]}\n{self.log()}") from None
        return done.returncode, done.stdout.decode(errors="replace")

    def type(self, commands):
        """Runs commands that must succeed."""
        status, said = self.try_to_type(commands)
        if status != 0:
            raise service.Failed(f"{self.name}: exit {status}: {commands}\n{said}\n{self.log()}")
        return said

    def log(self):
        """Returns the last log lines of its daemon."""
        path = self.path("/var/log/paytokend.log")
        return "\n".join(path.read_text(errors="replace").splitlines()[-12:]) if path.exists() else ""

    def give(self, other, *directories):
        """Copies directories to another machine, as if a disk of this machine were mounted there."""
        for directory in directories:
            other.path(directory).mkdir(parents=True, exist_ok=True)
            service.run("cp", "-a", f"{self.path(directory)}/.", other.path(directory))
