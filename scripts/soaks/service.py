"""A paytokend that a soak starts, watches, kills and stops in the sandbox's directory."""
import collections
import contextlib
import os
import pathlib
import select
import signal
import subprocess
import sys
import threading
import time

import load

GUARD, Failed = load.GUARD, load.Failed
GET_READY = load.get("/readyz")


def add_options(parser):
    """Those that scripts/soak and scripts/bench themselves understand."""
    parser.add_argument("--short", action="store_true", help="as scripts/test runs it")
    parser.add_argument("--debug", action="store_true", help="a debug build instead of a release one")
    parser.add_argument("--skip-build", action="store_true", help="what is there is built already")


def verdict(wrong):
    """The exit status, and why."""
    for fault in wrong[:20]:
        print(f"WRONG  {fault}")
    if len(wrong) > 20:
        print(f"WRONG  and {len(wrong) - 20} more")
    return 1 if wrong else 0


def wait(what, has_come, limit=GUARD, pause=0.05):
    """Until it has come; what it gives then. what: words for a failure, or a function that has them."""
    until = time.monotonic() + limit
    while not (found := has_come()):
        if time.monotonic() > until:
            raise Failed(f"{what() if callable(what) else what} did not come within {limit} s")
        time.sleep(pause)
    return found


def seldom(question, pause):
    """The same question for one who asks all the time: it is false until so many seconds after the last time."""
    following = 0.0

    def answer():
        nonlocal following
        if time.monotonic() < following:
            return False
        found = question()
        following = time.monotonic() + pause
        return found
    return answer


class Contexts(contextlib.ExitStack):
    """Several contexts as one: those that its `begin` enters end together, also where it fails."""

    def __enter__(self):
        try:
            self.begin()
        except BaseException:
            self.__exit__(*sys.exc_info())
            raise
        return self


@contextlib.contextmanager
def repeating(action, pause):
    """Acts again and again in a thread of its own, so many seconds apart, until the context is left."""
    ended = threading.Event()

    def run():
        while not ended.is_set():
            action()
            ended.wait(pause)
    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join(GUARD)


@contextlib.contextmanager
def cleaning(name="soak"):
    """Turns SIGTERM and SIGINT into an exit that runs every `finally`, and a Failed into exit status 1."""
    def leave(number, frame):
        sys.exit(128 + number)
    signal.signal(signal.SIGTERM, leave)
    signal.signal(signal.SIGINT, leave)
    try:
        yield
    except Failed as failure:
        sys.exit(f"{name}: {failure}")


def run(*command, **options):
    """A command that must succeed: its standard output."""
    done = subprocess.run([str(word) for word in command], capture_output=True, **options)
    if done.returncode != 0:
        raise Failed(f"{' '.join(map(str, command))}: exit {done.returncode}: {done.stderr.decode(errors='replace').strip()}")
    return done.stdout


def mint(count, *arguments, certificate="authority/merchant.pem"):
    """Payment tokens, one JSON a line."""
    lines = run("token-forge", "mint", "authority", "--certificate", certificate, "--count", count, *arguments)
    return lines.splitlines()


class Minter:
    """Payment tokens minted as they are used: `token-forge mint --endless` on the other end of a pipe, which waits when the
    pipe is full. However many are taken they do not run out, and none was signed long before. A context."""

    def __init__(self, *arguments, certificate="authority/merchant.pem", with_payloads=False):
        self.forge = subprocess.Popen(
            ["token-forge", "mint", "authority", "--certificate", certificate, "--endless", *arguments,
             *(["--with-payloads"] if with_payloads else [])], stdout=subprocess.PIPE)
        self.lines, self.rest, self.with_payloads = collections.deque(), b"", with_payloads

    def _read(self, seconds):
        pipe = self.forge.stdout.fileno()
        if not select.select([pipe], [], [], seconds)[0]:
            return False
        piece = os.read(pipe, 1 << 18)
        if not piece:
            raise Failed(f"token-forge ended with {self.forge.wait()}")
        *lines, self.rest = (self.rest + piece).split(b"\n")
        self.lines.extend(lines)
        return True

    def ready(self):
        """One, or None when none is minted yet."""
        if not self.lines:
            self._read(0)
        return self.lines.popleft() if self.lines else None

    def take(self, count):
        """So many, as soon as they are minted; with payloads, pairs of a payload and its token."""
        each = 2 if self.with_payloads else 1
        while len(self.lines) < count * each:
            if not self._read(GUARD):
                raise Failed(f"token-forge minted nothing for {GUARD} s")
        taken = [self.lines.popleft() for _ in range(count * each)]
        return list(zip(taken[::2], taken[1::2])) if self.with_payloads else taken

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.forge.stdout.close()
        self.forge.terminate()
        self.forge.wait()


def last_lines(path, count=1):
    """What a program wrote last."""
    return "\n".join(pathlib.Path(path).read_text(errors="replace").splitlines()[-count:])


class Program:
    """A program that serves on a socket. A context: leaving it kills the program where it still runs.

    place: the socket's path, or a port of this host. log: a file for what it writes.
    """

    def __init__(self, place, *command, log=None):
        self.socket, self.command, self.log, self.process = place, command, log or f"{place}.log", None

    def spawn(self, **options):
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(self.command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, **options)

    def start(self):
        """Returns when it takes connections."""
        self.spawn()
        wait(f"{self.command[0]} on {self.socket}", lambda: self.must_run() and load.connects(self.socket), pause=0.01)

    def must_run(self):
        if self.process.poll() is not None:
            raise Failed(f"{self.command[0]} ended with {self.process.returncode}: {last_lines(self.log)}")
        return True

    def kill(self):
        self.process.kill()
        self.process.wait()

    def stop(self):
        """SIGTERM. Returns what is wrong: that it did not end with 0."""
        if self.process is None or self.process.poll() is not None:
            return []
        self.process.terminate()
        try:
            status = self.process.wait(GUARD)
        except subprocess.TimeoutExpired:
            self.process.kill()
            status = self.process.wait()
        return [f"{self.command[0]} at {self.socket} ended with {status} at SIGTERM"] if status != 0 else []

    def __enter__(self):
        return self

    def __exit__(self, *error):
        if self.process is not None and self.process.poll() is None:
            Program.kill(self)


class Answering:
    """A program that answers lines on its standard input with lines on its standard output. A context."""

    def __init__(self, *command, env=None):
        self.command = command
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env, text=True)

    def line(self):
        """The words of its next line."""
        line = self.process.stdout.readline()
        if not line:
            raise Failed(f"{self.command[0]} ended with {self.process.wait()}")
        return line.split()

    def ask(self, *words):
        print(*words, file=self.process.stdin, flush=True)
        return self.line()

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.process.terminate()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()


class Service(Program):
    """A paytokend. A context: leaving it stops the daemon."""

    def __init__(self, configuration="paytokend.yaml", socket="paytokend.sock", admin="admin.sock", log="paytokend.log",
                 command=None):
        super().__init__(socket, *(command or ["paytokend", "--config", configuration]), log=log)
        self.admin = admin

    def start(self, limit=GUARD, ready=True, more=()):
        """Returns after how many seconds it was ready, or only answered. more: further arguments, this time."""
        began, command = time.monotonic(), self.command
        self.command = (*command, *more)
        self.spawn()
        self.command = command

        def serves():
            return self.must_run() and (self.is_ready() if ready else load.once(self.socket, GET_READY)[0])
        wait(lambda: f"readiness ({load.once(self.socket, GET_READY)[1].decode(errors='replace')})", serves, limit, 0.01)
        return time.monotonic() - began

    def is_ready(self):
        return load.once(self.socket, GET_READY)[0] == 200

    def ctl(self, *arguments):
        return run("paytokenctl", *arguments, env=self.environment)

    @property
    def environment(self):
        return {**os.environ, "PAYTOKEND_SOCKET": self.socket, "PAYTOKEND_ADMIN_SOCKET": self.admin}

    def import_merchant(self, name="merchant"):
        """authority/NAME.pem, made when it is not there."""
        if not pathlib.Path(f"authority/{name}.pem").exists():
            run("token-forge", "merchant", "authority", "--merchant-identifier", "merchant.com.example.soak",
                "--type", "ec", "--name", name)
        self.ctl("key", "import", "--private-key", f"authority/{name}.key.pem", "--certificate", f"authority/{name}.pem")

    def processes(self):
        """The daemon and its workers, without those that have ended."""
        return family(self.process.pid)

    def cpu(self):
        """Seconds of processor time that daemon and worker have taken."""
        return sum(map(processor_time, self.processes()))

    def peak(self):
        """The daemon's largest resident memory in MiB, since its start."""
        return memory(self.process.pid, "VmHWM")

    def kill(self):
        """SIGKILL, as a crash; says whether the worker has ended by itself then."""
        processes = self.processes()
        super().kill()
        with contextlib.suppress(Failed):
            wait("the worker's end", lambda: not any(os.path.exists(f"/proc/{process}") for process in processes), pause=0.005)
            return True
        return False

    def __exit__(self, *error):
        self.stop()


def stat(process):
    """The fields of /proc/PID/stat after the name: state, parent, …"""
    with open(f"/proc/{process}/stat") as file:
        return file.read().rpartition(")")[2].split()


def family(process):
    """It and its children, without those that have ended."""
    found = [process]
    for entry in os.listdir("/proc"):
        with contextlib.suppress(OSError, IndexError):
            if entry.isdigit():
                state, parent, *_ = stat(int(entry))
                if parent == str(process) and state not in "ZX":
                    found.append(int(entry))
    return found


def stop(process):
    """SIGSTOP to it and its children. Returns them all, for go_on."""
    os.kill(process, signal.SIGSTOP)
    # It has no more of them from now on.
    stopped = family(process)
    for child in stopped[1:]:
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGSTOP)
    return stopped


def go_on(stopped):
    for process in stopped:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGCONT)


def end(process):
    """SIGKILL to it and its children; returns when they are gone."""
    ended = stop(process)
    for each in ended:
        with contextlib.suppress(ProcessLookupError):
            os.kill(each, signal.SIGKILL)
    wait("a process's end after SIGKILL", lambda: not any(map(is_running, ended)), pause=0.005)


def is_running(process):
    try:
        return stat(process)[0] not in "ZX"
    except OSError:
        return False


def processor_time(process):
    """Seconds that it has taken, those of its threads that have ended among them."""
    fields = stat(process)
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def memory(process, field="VmRSS"):
    """Resident memory in MiB, or that field of /proc/PID/status; 0 when the process has ended."""
    with contextlib.suppress(OSError), open(f"/proc/{process}/status") as status:
        return next((int(line.split()[1]) for line in status if line.startswith(field + ":")), 0) / 1024
    return 0.0


def child_memory(command, **options):
    """Runs a command: exit status, seconds, largest resident memory in MiB, standard output."""
    began = time.monotonic()
    with subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE, **options) as process:
        output = process.stdout.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    return process.returncode, time.monotonic() - began, usage.ru_maxrss / 1024, output
