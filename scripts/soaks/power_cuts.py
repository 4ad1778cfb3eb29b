"""Power cuts. The ledger, the gateway's store or a PostgreSQL cluster is on an ext4 file system, on a disk that logs every write and every
flush (logged_disk.py). Load runs on it once. Then the log is replayed many times: to a random flush, and a random part of the writes
between it and the next one, also torn at sectors. Each result is what a power cut could have left. It is mounted, the programs start on
it, and its record, claims and payments are compared with what had been answered until then.

Kinds of loads and cuts:
  ledger      releases with attempts, repeats, suspensions and resumptions of the key; the ledger is a file
  postgresql  the same, with the ledger in a database
  store       payments through paytoken-gateway to processor-simulator, which has its disk elsewhere; store and ledger are files

The HSM token's directory is on another disk, which loses nothing; each cut gets it as it was then. No answered release or payment may be
lost. None may be released or submitted twice: callers repeat what was answered and what was not. A third of the payment tokens are of
Google Pay, and callers also send another message with the messageId of one that was released (kill.py). The record must verify, have each answer's
line, and agree with the claims. Suspensions and keys must be as answered, and every program must start without help.

As a control, the load runs again under libeatmydata, with which programs sync nothing. Cuts of that run must lose what was answered.
"""
import contextlib
import datetime
import glob
import json
import os
import pathlib
import random
import shutil
import sqlite3
import time
from typing import Any, Iterator

import database
import history
import kill
import load
import logged_disk
import proof
import service
import shop as shops

KINDS = ("ledger", "postgresql", "store")
SIZES = {"postgresql": 192 << 20}
# The newest answers, of which a loss is likeliest, and random older ones.
NEWEST, OLDER = 24, 8
KEPT = pathlib.Path(__file__).resolve().parent.parent.parent / ".build/power-cuts"


def sample(chance: random.Random, things: list[Any], newest: int = NEWEST, older: int = OLDER) -> list[Any]:
    """Returns the last of the things, and random other ones."""
    first = things[:-newest]
    return things[-newest:] + chance.sample(first, min(older, len(first)))


def history_until(path: str, moment: float) -> list[history.Operation]:
    """Returns the operations that had been invoked before this time. Those that had not been answered are unknown."""
    found = []
    for operation in history.read(path):
        if operation.began < moment:
            if operation.ended >= moment:
                operation.ended, operation.result = float("inf"), "unknown"
            found.append(operation)
    return found


class Callers(kill.Callers):
    """Callers that remember their requests with times."""

    def __init__(self, chance: random.Random, keys: dict[str, str], past: history.History | None = None) -> None:
        super().__init__(chance, keys, past)
        self.asks: list[tuple[Any, float, float, str]] = []

    def take(self, ask: Any, status: int | None, body: bytes, began: float, ended: float) -> str:
        result = super().take(ask, status, body, began, ended)
        self.asks.append((ask, began, ended, result))
        return result

    def until(self, moment: float, chance: random.Random, past: history.History) -> "Callers":
        """Returns the callers as they were at this time."""
        other: Callers = Callers(chance, self.keys, past)
        payments: dict[str, Any] = {}
        for ask, began, ended, result in sorted(self.asks, key=lambda each: each[1]):
            if began >= moment:
                break
            old = ask.payment
            if old.transaction not in payments:
                first = old if old.message in (None, old.transaction) else old.twin
                copied = kill.Payment(first.reference, first.token, first.is_named, first.twin and first.twin.token)
                payments |= {each.transaction: each for each in (copied, copied.twin) if each}
            payment = payments[old.transaction]
            if ask.attempt and not ask.forgets:
                payment.attempts.append(ask.attempt)
            if ended < moment and result in history.RELEASED:
                other.released[payment.transaction] = payment
                other.close(payment)
            elif payment.transaction not in other.released and not other.is_lost(payment) and (
                    ended >= moment or result == "unanswered"):
                other.open[payment.transaction] = payment
        return other

    def repeat(self, daemon: service.Service, payments: list[Any]) -> None:
        """Repeats answered payments under their references."""
        def repeated(ask: Any, status: int | None, body: bytes, began: float, ended: float) -> None:
            self.take(ask, status, body, began, ended)
            if status != 200 or not json.loads(body)["repeated"]:
                self.wrong.append(f"{ask.reference} was answered, and its repetition answers {status} {body[:200]!r}")
        load.drive(daemon.socket, 4, [self.pair(kill.Ask(payment, self.chance)) for payment in payments], repeated)

    def release(self, daemon: service.Service, tokens: list[bytes], name: str) -> None:
        """Releases fresh payment tokens."""
        def released(ask: Any, status: int | None, body: bytes, began: float, ended: float) -> None:
            self.take(ask, status, body, began, ended)
            if status != 200 or json.loads(body)["repeated"]:
                self.wrong.append(f"a fresh payment token answers {status} {body[:200]!r}")
        load.drive(daemon.socket, 4, [self.pair(kill.Ask(kill.Payment(f"{name}-{number}", token, False), self.chance))
                                      for number, token in enumerate(tokens)], released)


class Releases:
    """Programs and load of the kinds ledger and postgresql."""

    def __init__(self, options: Any, chance: random.Random, server: "Server | None") -> None:
        self.options, self.chance, self.server = options, chance, server
        self.daemon = service.Service()
        self.ledger: Any = proof.LedgerFile("disk/ledger.sqlite")
        self.wrong: list[str] = []
        self.keys: list[Any] = []

    def begin(self) -> None:
        if self.server:
            self.server.create()
            self.ledger = self.server.ledger("ledger")
            configure(self.ledger.settings("node-1", with_google=True, timeout="60s"))
        self.daemon.start()
        self.daemon.import_merchant()
        self.daemon.import_merchant(service.GOOGLE)
        self.keys, _ = self.list_keys()
        self.callers = Callers(self.chance, self.daemon.keys(), history.History("load.jsonl"))
        self.disturbances = kill.Disturbances(self.daemon, self.callers.past, self.callers.keys, self.chance)

    def list_keys(self) -> tuple[list[Any], dict[str, str]]:
        """Returns what never changes about each key, and its state by its publicKeyHash."""
        keys = json.loads(self.daemon.ctl("key", "list", "--output", "json"))
        return sorted([key.get(name) for name in ("publicKeyHash", "merchantIdentifier", "algorithm", "use", "notAfter")]
                      for key in keys), {key["publicKeyHash"]: key["state"] for key in keys}

    def load(self) -> None:
        fresh = self.callers.mint(self.options.requests, 0)
        self.disturbances.start()
        load.drive(self.daemon.socket, self.options.clients, self.callers.requests(fresh), self.callers.under_load)
        self.disturbances.ended.set()
        self.disturbances.finish()
        self.callers.past.file.flush()
        self.wrong += self.callers.wrong

    def end(self) -> None:
        """Ends all programs as a power cut does."""
        if self.daemon.process is not None and self.daemon.process.poll() is None:
            self.daemon.kill()
        if self.server:
            self.server.end()

    def answered(self) -> str:
        return ", ".join(f"{count} {name}" for name, count in sorted(self.callers.outcomes.items()))

    def start(self) -> float:
        began = time.monotonic()
        if self.server:
            self.server.start()
        self.daemon.start()
        return time.monotonic() - began

    def check(self, cut: logged_disk.Cut, fresh: list[bytes]) -> tuple[list[str], str]:
        """Starts the programs after a cut. Returns what is wrong, and a summary."""
        chance = random.Random(cut.number)
        callers = self.callers.until(cut.moment, chance, history.History("cut.jsonl"))
        answered, under_way = list(callers.released.values()), len(callers.open)
        seconds = self.start()
        before = history_until("load.jsonl", cut.moment)
        wrong = self._check_keys(before, callers)
        callers.settle(self.daemon, sample(chance, answered))
        callers.repeat(self.daemon, sample(chance, answered))
        callers.release(self.daemon, fresh, f"cut-{cut.number}")
        wrong += callers.wrong + check_record(self.daemon, self.ledger, callers.past, before)
        claimed = callers.outcomes["claimed before"]
        return wrong, f"ready in {seconds:.1f} s, {len(answered)} answered, {under_way} under way, {claimed} of these claimed"

    def _check_keys(self, before: list[history.Operation], callers: Callers) -> list[str]:
        """Compares the keys with those before the cut, and ends suspensions. Returns what is wrong."""
        keys, states = self.list_keys()
        wrong = [] if keys == self.keys else [f"the keys were {self.keys}, and are {keys}"]
        for key, state in states.items():
            # The thread that changes keys waits for each answer, so only the last change can be unknown.
            changes = [each for each in before if each.name in ("suspend", "resume") and each.key == key]
            if changes and changes[-1].result == "done" and state != {"suspend": "suspended", "resume": "active"}[changes[-1].name]:
                wrong.append(f"the key {key} is {state}, and {changes[-1]} had been answered")
            if state != "active":
                service.wait("the key's resumption", lambda: callers.past.change(self.daemon, "node-1", "resume", key) == "done")
        return wrong


def check_record(daemon: service.Service, ledger: Any, past: history.History, before: list[history.Operation],
                 more: list[history.Operation] | None = None) -> list[str]:
    """Verifies the record, and judges the history before and after a cut with it. Returns what is wrong."""
    daemon.ctl("audit", "verify")
    past.file.flush()
    lines = list(ledger.lines())
    wrong = proof.recorded(ledger)[0]
    return wrong + history.check([*before, *history.read(past.path), *(more or [])], map(json.loads, lines))


class Payments(Releases):
    """Programs and load of the kind store."""

    def begin(self) -> None:
        super().begin()
        os.makedirs("disk/store", mode=0o700)
        self.shop = shops.Shop(self.daemon, self.chance, with_google=True)
        self.shop.past = history.History("load.jsonl")
        self.shop.configure(store="disk/store")
        pathlib.Path("simulator.log").unlink(missing_ok=True)
        self.shop.simulator.start()
        self.shop.gateway.start()

    def load(self) -> None:
        payments = self.shop.mint(self.options.requests)
        self.shop.settle(self.shop.send(payments, self.options.clients))
        self.shop.past.file.flush()
        self.by_name = {payment.identifier: payment for payment in payments}

    def end(self) -> None:
        for program in (self.shop.gateway, self.shop.simulator) if hasattr(self, "shop") else ():
            if program.process is not None and program.process.poll() is None:
                program.kill()
        super().end()

    def answered(self) -> str:
        # The simulator's log is complete here.
        shutil.copyfile("simulator.log", "simulator-load.log")
        return f"{self.shop.counts['answers']} answers, {self.shop.counts['sent again']} sent again"

    def start(self) -> float:
        self.shop.simulator.start()
        seconds = super().start()
        began = time.monotonic()
        self.shop.gateway.start()
        return seconds + time.monotonic() - began

    @staticmethod
    def _outcomes() -> set[str]:
        """Returns the payments of which the cut left an outcome in the store. It reads a copy, since a reader completes the file."""
        shutil.rmtree("small/store", ignore_errors=True)
        shutil.copytree("disk/store", "small/store")
        with contextlib.closing(sqlite3.connect("small/store/payments.sqlite")) as store:
            return {name for (name,) in store.execute(
                "SELECT lower(hex(transaction_id)) FROM payment WHERE state IN ('authorized', 'declined', 'error')")}

    def _truncate(self, moment: float, answered: set[str]) -> None:
        """Makes the simulator's log what it was at this time. answered: payments that it certainly had answered before."""
        # The log has whole milliseconds, and an outcome can be on the disk a millisecond after the submission.
        until = moment + time.time() - time.monotonic() - 0.001
        with open("simulator-load.log", encoding="utf-8") as old, open("simulator.log", "w", encoding="utf-8") as new:
            for line in old:
                entry = json.loads(line)
                if datetime.datetime.fromisoformat(entry["time"]).timestamp() <= until or entry["payment"] in answered:
                    new.write(line)

    def check(self, cut: logged_disk.Cut, fresh: list[bytes]) -> tuple[list[str], str]:
        chance, before = random.Random(cut.number), history_until("load.jsonl", cut.moment)
        answered, asked = {}, {}
        for operation in before:
            asked[operation.payment] = None
            if operation.result != "unknown":
                answered[operation.payment] = None
        # Payments with a 503 are open too, and as many as those of lost answers; some of them are enough.
        under_way = [name for name in asked if name not in answered]
        self._truncate(cut.moment, set(answered) | self._outcomes())
        self.shop.past, self.shop.payments, self.shop.wrong = history.History("cut.jsonl"), [], []
        seconds = self.start()
        payments = [self.by_name[name].again() for name in [*sample(chance, list(answered)), *sample(chance, under_way)]]
        payments += [shops.Payment(token, 1000, self.shop.key) for token in fresh]
        self.shop.settle(self.shop.send(payments, 16))
        wrong = self._lost(answered)
        submitted = []
        for payment, outcomes in self.shop.submissions().items():
            for _ in outcomes:
                line = {"id": 0, "time": cut.moment, "process": "simulator", "operation": "submit", "payment": payment}
                submitted.append(history.Operation(line))
        wrong += check_record(self.daemon, self.ledger, self.shop.past, before, submitted)
        return wrong, f"ready in {seconds:.1f} s, {len(answered)} answered, {len(under_way)} under way"

    @staticmethod
    def _lost(answered: dict[str, None]) -> list[str]:
        with contextlib.closing(sqlite3.connect("file:disk/store/payments.sqlite?mode=ro", uri=True)) as store:
            stored = {name for (name,) in store.execute("SELECT lower(hex(transaction_id)) FROM payment")}
        return [f"{name} was answered, and is not in the store" for name in answered if name not in stored]


class Server(database.Server):
    """A server whose data is on the disk."""

    def __init__(self) -> None:
        # The disk is too small for the usual number of log files.
        super().__init__(["max_wal_size=64MB", "min_wal_size=32MB", "shared_buffers=16MB"])
        self.place = f"{self.directory}/disk"
        os.mkdir(self.place)
        self.data = f"{self.place}/data"

    def create(self) -> None:
        """Makes the cluster on the disk, which is mounted, and starts the server."""
        if self.account:
            os.chown(self.place, self.account.pw_uid, self.account.pw_gid)
        super().__enter__()

    def __enter__(self) -> "Server":
        return self

    def end(self) -> None:
        if self.process is not None and self.process.poll() is None:
            service.end(self.process.pid)
            self.process.wait()


def configure(ledger: str) -> None:
    """Replaces the ledger's and the access rules' sections of the configuration."""
    file = pathlib.Path("paytokend.yaml")
    head, _, rest = file.read_text().partition("ledger:\n")
    file.write_text(head + ledger + rest[rest.index("log:"):].partition("access:\n")[0])


@contextlib.contextmanager
def eating_data(is_control: bool) -> Iterator[None]:
    """Programs that start within this context sync nothing, if this is the control."""
    if is_control:
        os.environ["LD_PRELOAD"] = max(glob.glob("/usr/lib/*/libeatmydata.so"))
    try:
        yield
    finally:
        os.environ.pop("LD_PRELOAD", None)


class Run:
    """One load, and its cuts."""

    def __init__(self, kind: str, number: int, options: Any, is_control: bool) -> None:
        self.kind, self.options, self.is_control = kind, options, is_control
        self.name = f"{kind}-{'control' if is_control else number}"
        self.seed = f"{options.seed} {self.name}"
        self.losses: list[str] = []
        self.failed = 0

    def play(self, count: int) -> list[str]:
        """Returns what is wrong with the load itself. Faults after cuts are in `losses`."""
        if not os.path.exists("tokens-before"):
            shutil.copytree("tokens", "tokens-before")
        # A busy machine is no fault.
        configure("ledger:\n  url: sqlite:disk/ledger.sqlite\n  timeout: 60s\n" + service.access_rules(with_google=True))
        with contextlib.ExitStack() as ending:
            server = ending.enter_context(Server()) if self.kind == "postgresql" else None
            self.place = server.place if server else "disk"
            os.makedirs(self.place, exist_ok=True)
            os.environ["STATE_DIRECTORY"] = os.getcwd()
            programs = (Payments if self.kind == "store" else Releases)(self.options, random.Random(self.seed), server)
            disk = logged_disk.Disk(f"small/{self.name}", self.place, SIZES.get(self.kind, 64 << 20))
            hsm = logged_disk.Disk(f"small/{self.name}-hsm", "tokens", 16 << 20, "noatime,sync,dirsync")
            with disk, hsm, contextlib.ExitStack() as loading:
                loading.callback(programs.end)
                shutil.copytree("tokens-before", "tokens", dirs_exist_ok=True)
                with eating_data(self.is_control):
                    programs.begin()
                service.run("sync", "-f", self.place)
                since = time.monotonic()
                programs.load()
                until = time.monotonic()
            log, hsm_log = logged_disk.Log(disk), logged_disk.Log(hsm)
            counts = log.counts(since, until)
            print(f"{self.name:12} load of {until - since:.1f} s: {programs.answered()}; {counts['writes']} writes, "
                  f"{counts['flushes']} flushes; {hsm_log.counts(since, until)['writes']} writes to the HSM token", flush=True)
            fresh = service.mint(2 * count, "--amount", "1000")
            for cut in log.cuts(self.seed, count, since, until):
                self._cut(log, hsm_log, cut, programs, [fresh.pop(), fresh.pop()])
            for each in (disk, hsm):
                os.unlink(each.path)
            return programs.wrong

    def _cut(self, log: logged_disk.Log, hsm_log: logged_disk.Log, cut: logged_disk.Cut, programs: Releases,
             fresh: list[bytes]) -> None:
        log.replay(cut, "small/cut.img")
        hsm_log.replay_until(cut.moment, "small/hsm.img")
        try:
            with logged_disk.mounted("small/cut.img", self.place), logged_disk.mounted("small/hsm.img", "tokens"):
                try:
                    wrong, summary = programs.check(cut, fresh)
                finally:
                    programs.end()
        except (service.Failed, OSError, ValueError, sqlite3.Error) as error:
            wrong, summary = [f"{error or type(error).__name__}"], "failed"
        print(f"{self.name:12} cut {cut.number:3}: {log.describe(cut)}; {summary}" + ("; WRONG" if wrong else ""), flush=True)
        if wrong and not self.is_control and not self.losses:
            self._keep(log, cut)
        self.failed += bool(wrong)
        self.losses += [f"{self.name} cut {cut.number}: {fault}" for fault in wrong]

    def _keep(self, log: logged_disk.Log, cut: logged_disk.Cut) -> None:
        """Keeps what the cut left, the history and the daemon's messages."""
        place = KEPT / f"{self.options.seed}-{self.name}-{cut.number}"
        place.mkdir(parents=True, exist_ok=True)
        log.replay(cut, str(place / "disk.img"))
        for file in ("load.jsonl", "cut.jsonl", "paytokend.log", "paytokend.yaml", "simulator.log", "gateway.sock.log"):
            if os.path.exists(file):
                shutil.copy(file, place)
        print(f"{self.name:12} kept in {place}")


def main(parser: Any) -> list[str]:
    parser.add_argument("--kinds", default=",".join(KINDS), help=f"of these ({','.join(KINDS)})")
    options = service.parse(
        parser, seed="of the load and the cuts", cuts=(500, 6, "cuts of each kind"), loads=(5, 1, "loads of each kind, which share its cuts"),
        requests=(2000, 200, "payment tokens of a load"), controls=(20, 4, "cuts of the control of each kind"), clients=(16, 16, "connections"))
    kinds = [kind for kind in KINDS if kind in options.kinds.split(",")]
    if "postgresql" in kinds and not database.is_installed():
        kinds.remove("postgresql")
        print("postgresql  skipped: PostgreSQL is not installed; scripts/install-packages installs it")
    if not glob.glob("/usr/lib/*/libeatmydata.so"):
        raise service.Failed("libeatmydata.so does not exist; scripts/install-packages installs it")
    KEPT.mkdir(parents=True, exist_ok=True)
    print(f"{options.cuts} cuts, {options.clients} clients, --seed {options.seed}")
    wrong = []
    for kind in kinds:
        cuts, failed = 0, 0
        for number in range(options.loads):
            run = Run(kind, number, options, is_control=False)
            count = options.cuts * (number + 1) // options.loads - options.cuts * number // options.loads
            wrong += run.play(count) + run.losses
            cuts, failed = cuts + count, failed + run.failed
        print(f"{kind:12} {cuts} cuts, {failed} with a fault", flush=True)
        control = Run(kind, 0, options, is_control=True)
        control.play(options.controls)
        print(f"{kind:12} control: {control.failed} of {options.controls} cuts with a fault, such as: "
              f"{control.losses[0] if control.losses else 'none'}", flush=True)
        if not control.failed:
            wrong.append(f"{kind}: no cut under libeatmydata has a fault, so the cuts show nothing")
    return wrong
