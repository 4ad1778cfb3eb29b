"""A paytokend that a soak starts, watches, kills and stops in the sandbox's directory, and other programs that soaks run."""
import base64
import collections
import contextlib
import json
import os
import pathlib
import random
import select
import signal
import subprocess
import sys
import threading
import time

import load

GUARD, Failed = load.GUARD, load.Failed
TEMPORARY_FAILURE = 75
GET_READY = load.get("/readyz")
# The roles of a caller who may do everything.
ROLES = "decrypt, monitor, audit, admin"
# The name of the merchant who is paid with Google Pay, and the file of the merchant's private key. There is no certificate.
GOOGLE, GOOGLE_KEY = "google", "authority/google.key.pem"
# The options with which token-forge mints each payment token of Google Pay with its twin, another message with the same messageId.
WITH_TWIN = ["--per-message-id", "2"]


def add_options(parser):
    """Adds the options that scripts/soak and scripts/bench evaluate before they start Python, so that --help lists them."""
    parser.add_argument("--short", action="store_true", help="as scripts/test runs it")
    parser.add_argument("--debug", action="store_true", help="a debug build instead of a release one")
    parser.add_argument("--skip-build", action="store_true", help="uses an existing build")


def parse(parser, seed=None, **numbers):
    """Parses the arguments. numbers: for each option, its default, its default with --short, and its help. seed: the help of
    --seed."""
    if seed:
        parser.add_argument("--seed", type=int, default=random.randrange(1 << 32), help=seed)
    for name, (usual, short, text) in numbers.items():
        defaults = f"({usual})" if short == usual else f"({usual}; {short} with --short)"
        parser.add_argument(f"--{name}", type=type(usual), help=f"{text} {defaults}")
    options = parser.parse_args()
    for name, (usual, short, _) in numbers.items():
        if getattr(options, name) is None:
            setattr(options, name, short if options.short else usual)
    return options


def verdict(wrong):
    """Prints what is wrong, and returns the exit status."""
    for fault in wrong[:20]:
        print(f"WRONG  {fault}")
    if len(wrong) > 20:
        print(f"WRONG  and {len(wrong) - 20} more")
    return 1 if wrong else 0


def wait(what, has_come, limit=GUARD, pause=0.05):
    """Waits until `has_come` returns a true value, and returns that value. what: the awaited event, for a failure's message, or a
    function that returns it."""
    until = time.monotonic() + limit
    while not (found := has_come()):
        if time.monotonic() > until:
            raise Failed(f"{what() if callable(what) else what} did not come within {limit} s")
        time.sleep(pause)
    return found


def seldom(question, pause):
    """Returns a function that calls `question` at most once in `pause` seconds, and returns False in between."""
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
    """Several context managers as one. Those that `begin` enters end together, even if `begin` fails."""

    def __enter__(self):
        try:
            self.begin()
        except BaseException:
            self.__exit__(*sys.exc_info())
            raise
        return self


@contextlib.contextmanager
def repeating(action, pause):
    """Calls `action` repeatedly in a separate thread, with `pause` seconds between calls, until the context ends."""
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
    """Makes SIGTERM and SIGINT exit through every `finally`, and makes Failed end the program with exit status 1."""
    def leave(number, frame):
        sys.exit(128 + number)
    signal.signal(signal.SIGTERM, leave)
    signal.signal(signal.SIGINT, leave)
    try:
        yield
    except Failed as failure:
        sys.exit(f"{name}: {failure}")


def become(number):
    """Makes this process one of the user and group of this number, for good."""
    os.setgroups([])
    os.setresgid(number, number, number)
    os.setresuid(number, number, number)


def run(*command, **options):
    """Runs a command that must succeed, and returns its standard output."""
    done = subprocess.run([str(word) for word in command], capture_output=True, **options)
    if done.returncode != 0:
        raise Failed(f"{' '.join(map(str, command))}: exit {done.returncode}: {done.stderr.decode(errors='replace').strip()}")
    return done.stdout


def access_rules(roles=ROLES, with_google=False):
    """Returns the configuration's `access` section, with rules that have names, for this user and root."""
    more = f", {os.environ['SANDBOX_GOOGLE_RULE']}" if with_google else ""
    return "access:\n" + "".join(f'  - {{ name: caller-{user}, user: "{user}", roles: [{roles}]{more} }}\n'
                                 for user in sorted({os.geteuid(), 0}))


def make_merchant(name, identifier, **options):
    """Makes authority/NAME.pem and its key, or only the key for Google Pay, if they do not exist."""
    if name == GOOGLE and not pathlib.Path(GOOGLE_KEY).exists():
        run("openssl", "genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256", "-out", GOOGLE_KEY)
    if name != GOOGLE and not pathlib.Path(f"authority/{name}.pem").exists():
        run("token-forge", "merchant", "authority", "--merchant-identifier", identifier, "--name", name,
            *[word for option, value in options.items() for word in ("--" + option.replace("_", "-"), value)])


def public_key(file):
    """Returns the SubjectPublicKeyInfo of a certificate, or of the merchant who is paid with Google Pay."""
    if file == GOOGLE_KEY:
        return run("openssl", "pkey", "-in", file, "-pubout", "-outform", "DER")
    return run("openssl", "pkey", "-pubin", "-outform", "DER", input=run("openssl", "x509", "-in", file, "-noout", "-pubkey"))


def forge(certificate):
    """Returns the command that mints payment tokens. certificate: the merchant's, or GOOGLE_KEY for Google Pay."""
    if certificate != GOOGLE_KEY:
        return ["token-forge", "mint", "authority", "--certificate", certificate]
    # The key ends with its point.
    point = base64.b64encode(public_key(certificate)[-65:]).decode()
    return ["token-forge", "google-mint", "authority", "--merchant-identifier", load.GOOGLE_MERCHANT, "--public-key", point]


def mint(count, *arguments, certificate="authority/merchant.pem"):
    """Returns payment tokens, each one line of JSON. certificate: as for `forge`."""
    return run(*forge(certificate), "--count", count, *arguments).splitlines()


class Minter(contextlib.AbstractContextManager):
    """Payment tokens that token-forge mints without end as they are used, because it waits while the pipe is full. So they never
    run out, and none is signed long before its use. certificate: as for `forge`. A context manager."""

    def __init__(self, *arguments, certificate="authority/merchant.pem", with_payloads=False):
        self.forge = subprocess.Popen(
            [*forge(certificate), "--endless", *arguments, *(["--with-payloads"] if with_payloads else [])],
            stdout=subprocess.PIPE)
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
        """Returns a payment token, or None if none is minted yet."""
        if not self.lines:
            self._read(0)
        return self.lines.popleft() if self.lines else None

    def take(self, count):
        """Returns `count` payment tokens as soon as they are minted; with payloads, pairs of a payload and its payment token."""
        each = 2 if self.with_payloads else 1
        while len(self.lines) < count * each:
            if not self._read(GUARD):
                raise Failed(f"token-forge minted nothing for {GUARD} s")
        taken = [self.lines.popleft() for _ in range(count * each)]
        return list(zip(taken[::2], taken[1::2])) if self.with_payloads else taken

    def __exit__(self, *error):
        self.forge.stdout.close()
        self.forge.terminate()
        self.forge.wait()


def fill(path):
    """Fills the file system with this file, in parts. A single allocation of all free space would fail if another program wrote
    at the same time."""
    with open(path, "ab", buffering=0) as file:
        for size in (1 << 20, 4096, 512):
            with contextlib.suppress(OSError):
                while file.write(bytes(size)) == size:
                    pass


def last_lines(path, count=1):
    """Returns the last lines that a program wrote."""
    return "\n".join(pathlib.Path(path).read_text(errors="replace").splitlines()[-count:])


class Program(contextlib.AbstractContextManager):
    """A program that serves on a socket. A context manager, which kills the program if it still runs at the end.

    place: the socket's path, or a port of this host. log: a file for what it writes.
    """

    def __init__(self, place, *command, log=None):
        self.socket, self.command, self.log, self.process = place, command, log or f"{place}.log", None

    def spawn(self, more=(), **options):
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen((*self.command, *more), stdin=subprocess.DEVNULL, stdout=log, stderr=log, **options)

    def start(self):
        """Returns when the program accepts connections."""
        self.spawn()
        wait(f"{self.command[0]} on {self.socket}", lambda: self.must_run() and load.connects(self.socket), pause=0.01)

    def started(self):
        """Starts the program. Returns it as a context."""
        with contextlib.ExitStack() as ending:
            ending.enter_context(self)
            self.start()
            ending.pop_all()
        return self

    def must_run(self):
        if self.process.poll() is not None:
            raise Failed(f"{self.command[0]} ended with {self.process.returncode}: {last_lines(self.log)}")
        return True

    def kill(self):
        self.process.kill()
        self.process.wait()

    def stop(self):
        """Sends SIGTERM. Returns what is wrong, which is an exit status other than 0."""
        if self.process is None or self.process.poll() is not None:
            return []
        self.process.terminate()
        try:
            status = self.process.wait(GUARD)
        except subprocess.TimeoutExpired:
            self.process.kill()
            status = self.process.wait()
        return [f"{self.command[0]} at {self.socket} ended with {status} at SIGTERM"] if status != 0 else []

    def __exit__(self, *error):
        if self.process is not None and self.process.poll() is None:
            Program.kill(self)


class Answering(contextlib.AbstractContextManager):
    """A program that answers lines on its standard input with lines on its standard output. A context manager."""

    def __init__(self, *command, env=None):
        self.command = command
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env, text=True)

    def line(self):
        """Returns the words of its next line."""
        line = self.process.stdout.readline()
        if not line:
            raise Failed(f"{self.command[0]} ended with {self.process.wait()}")
        return line.split()

    def ask(self, *words):
        print(*words, file=self.process.stdin, flush=True)
        return self.line()

    def __exit__(self, *error):
        self.process.terminate()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()


class Service(Program):
    """A paytokend. A context manager, which stops the daemon at the end."""
    # True if a start that ends with EX_TEMPFAIL is repeated, as systemd does with the unit.
    starts_again = False

    def __init__(self, configuration="paytokend.yaml", socket="paytokend.sock", admin="admin.sock", log="paytokend.log",
                 command=None):
        super().__init__(socket, *(command or ["paytokend", "--config", configuration]), log=log)
        self.admin = admin

    def start(self, limit=GUARD, ready=True, more=()):
        """Starts the daemon. Returns the seconds until it was ready, or, with `ready` false, until it answered at all. more:
        additional arguments for this start."""
        began = time.monotonic()
        self.spawn(more)

        def serves():
            if self.starts_again and self.process.poll() == TEMPORARY_FAILURE:
                self.spawn(more)
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

    def import_merchant(self, name="merchant", identifier="merchant.com.example.soak", tokens=(), **options):
        """Imports authority/NAME.pem into these HSM tokens, or Google Pay's key. If it does not exist, makes it with these options
        of token-forge."""
        make_merchant(name, identifier, **options)
        merchant = (["--wallet", "google-pay", "--merchant-identifier", load.GOOGLE_MERCHANT] if name == GOOGLE else
                    ["--certificate", f"authority/{name}.pem"])
        made = json.loads(self.ctl("key", "import", "--private-key", f"authority/{name}.key.pem", *merchant, "--output", "json",
                                   *[word for token in tokens for word in ("--token", token)]))
        # A Google Pay key opens nothing before it is proved, and stated to be in Google's console.
        if made["state"] == "pre-activation":
            key = base64.b64decode(made["publicKeyHash"]).hex()
            self.ctl("key", "prove", key)
            self.ctl("rotate", "added", key)

    def keys(self):
        """Returns the publicKeyHash of each merchant key by its use: processing, for Apple Pay, or google-pay."""
        return {key["use"]: key["publicKeyHash"] for key in json.loads(self.ctl("key", "list", "--output", "json"))}

    def processes(self):
        """Returns the daemon and its workers, without those that have ended."""
        return family(self.process.pid)

    def cpu(self):
        """Returns the seconds of processor time that the daemon and its workers have taken, including workers that were
        replaced."""
        return family_time(self.process.pid)

    def peak(self):
        """Returns the daemon's largest resident memory since its start, in MiB."""
        return memory(self.process.pid, "VmHWM")

    def kill(self):
        """Sends SIGKILL, which is like a crash. Returns True if the workers then ended by themselves."""
        processes = self.processes()
        super().kill()
        with contextlib.suppress(Failed):
            wait("the worker's end", lambda: not any(os.path.exists(f"/proc/{process}") for process in processes), pause=0.005)
            return True
        return False

    def __exit__(self, *error):
        self.stop()


@contextlib.contextmanager
def serving():
    """A paytokend with a merchant, as a context manager."""
    with Service().started() as daemon:
        daemon.import_merchant()
        yield daemon


def stat(process):
    """Returns the fields of /proc/PID/stat after the name: state, parent, …"""
    with open(f"/proc/{process}/stat") as file:
        return file.read().rpartition(")")[2].split()


def family(process):
    """Returns the process and its children, without those that have ended."""
    found = [process]
    for entry in os.listdir("/proc"):
        with contextlib.suppress(OSError, IndexError):
            if entry.isdigit():
                state, parent, *_ = stat(int(entry))
                if parent == str(process) and state not in "ZX":
                    found.append(int(entry))
    return found


def stop(process):
    """Sends SIGSTOP to the process and its children. Returns all of them, for `go_on`."""
    os.kill(process, signal.SIGSTOP)
    # A stopped process makes no more children.
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
    """Sends SIGKILL to the process and its children. Returns when they have ended."""
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


def processor_time(process, of_ended=False):
    """Returns the processor time of the process in seconds, including threads that have ended, or that of its children that have
    ended."""
    first = 13 if of_ended else 11
    return sum(map(int, stat(process)[first:first + 2])) / os.sysconf("SC_CLK_TCK")


def thread_times(process):
    """Returns the processor times of the process's threads in seconds, by name. Those of threads that have ended are missing."""
    found = collections.Counter()
    with contextlib.suppress(OSError):
        for thread in pathlib.Path(f"/proc/{process}/task").iterdir():
            found[(thread / "comm").read_text().strip()] += int((thread / "schedstat").read_text().split()[0]) / 1e9
    return found


def family_time(process):
    """Returns the processor time of the process and its children in seconds, including children that have ended."""
    total = 0.0
    for each in family(process):
        # A child that ends now is among those that have ended.
        with contextlib.suppress(OSError):
            total += processor_time(each)
    return total + processor_time(process, of_ended=True)


def memory(process, field="VmRSS"):
    """Returns the resident memory in MiB, or another field of /proc/PID/status. Returns 0 if the process has ended."""
    with contextlib.suppress(OSError), open(f"/proc/{process}/status") as status:
        return next((int(line.split()[1]) for line in status if line.startswith(field + ":")), 0) / 1024
    return 0.0


Usage = collections.namedtuple("Usage", "memory descriptors threads")


def usage(process):
    """Returns the resident memory in MiB, and the numbers of descriptors and threads. All are 0 if the process has ended."""
    with contextlib.suppress(OSError):
        return Usage(memory(process), *(len(os.listdir(f"/proc/{process}/{kind}")) for kind in ("fd", "task")))
    return Usage(0.0, 0, 0)


def child_memory(command, **options):
    """Runs a command. Returns exit status, seconds, largest resident memory in MiB, and standard output."""
    began = time.monotonic()
    with subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE, **options) as process:
        output = process.stdout.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    return process.returncode, time.monotonic() - began, usage.ru_maxrss / 1024, output
