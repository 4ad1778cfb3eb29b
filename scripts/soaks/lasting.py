"""Releases a million payments of Apple Pay, each with a new payment token, and measures what grows. With --repeats, each payment
token is also sent again with its reference, which decrypts it again. The worker is recycled ten times, and its successor takes over
while it finishes. A row has the rate, the times of an answer, the processor time of one, what daemon and worker use, and the
ledger's size.

With --keep, HSM token and ledger stay in a directory. A run with the same directory continues there until the number is reached,
however the last run ended, with the same --ledger. So ten million releases need not be made in one go.

Every request must be answered 200 with the minted content. Claims and records must be as many as releases, and the record must
verify. In each run, memory, descriptors and threads may not grow after its first fifth beyond a limit. If the run is long enough,
its last fifth is compared with its second: processor time and p99 of an answer, and the bytes that a release adds to the ledger.
"""
import contextlib
import json
import os
import pathlib
import shutil
import statistics
import time

import database
import deployment
import load
import outcome
import proof
import service

# The permitted growth after the first fifth of a run: of the daemon in MiB, of descriptors and threads, and of a worker in MiB
# beyond the larger of the first two workers.
DAEMON_GROWTH, HANDLES, WORKER_GROWTH = 48, 16, 32
# SoftHSM 2.6.1 leaks about 265 bytes with each derivation.
LOST = 265
# The permitted ratio of the last fifth to the second. Other programs delay single answers, so that of p99 is large. They also make
# processor time longer, so it is divided by that of minting a payment token, which is always the same work.
CPU_RATIO, P99_RATIO, SIZE_RATIO = 1.4, 5, 1.5
# The answers that a fifth needs at least for such a ratio, and those of a row at most.
ENOUGH, ROW = 10_000, 50_000
# The size in bytes at which the daemon's log is emptied.
LOG = 100_000_000
PLACE, SERIES, COMPLETE = "lasting", pathlib.Path("series.jsonl"), pathlib.Path("complete")
# Not the process that started it, but this one ends the daemon, also if this one is killed.
PROGRAM = ("setpriv", "--pdeathsig", "TERM", "paytokend", "--config")
HEAD = (f"{'releases':>10}{'seconds':>9}{'per s':>7}{'p50 ms':>8}{'p99 ms':>8}{'CPU µs':>8}{'server':>8}{'mint':>8}   "
        f"{'daemon MiB, fds, threads':24}   {'worker MiB, fds, threads':24}{'ledger MB':>11}{'log MB':>8}")


class Run:
    """Load on one daemon, and rows of what it and its ledger need."""

    def __init__(self, there, ledger, clients):
        self.there, self.ledger, self.clients = there, ledger, clients
        self.outcome, self.rows = outcome.Outcome(keeps_history=False), []
        # The largest memory of each worker, by process.
        self.peaks = {}
        self.before = ledger.number("SELECT count(*) FROM claim")

    @property
    def releases(self):
        return self.before + self.outcome.released

    def look(self):
        """Measures daemon and workers. Returns the usage of the daemon and of the largest worker."""
        daemon, *workers = map(service.usage, (processes := self.there.daemon.processes()))
        for process, worker in zip(processes[1:], workers):
            self.peaks[process] = max(self.peaks.get(process, 0.0), worker.memory)
        return daemon, max(workers, default=service.Usage(0.0, 0, 0))

    def cpu(self, pool):
        """Returns the processor times of daemon and workers, of the database's server, and of the pool, in seconds."""
        server = self.ledger.server.cpu() if isinstance(self.ledger, database.Ledger) else 0.0
        return self.there.daemon.cpu(), server, pool.cpu()

    def drive(self, pool, count, until=None):
        """Sends `count` requests, or until a condition is true, and adds a row."""
        times, sampled = [], service.seldom(self.look, 0.25)
        ending = service.seldom(until or (lambda: False), 0.25)

        def requests():
            pairs = outcome.paced(pool, count=count)
            while not ending() and (pair := next(pairs, None)):
                sampled()
                yield pair

        def answered(known, status, body, began, ended):
            times.append(ended - began)
            self.outcome.answered(known, status, body, began, ended)
        began, minted, before = time.monotonic(), pool.minted, self.cpu(pool)
        load.drive(self.there.socket, self.clients, requests(), answered, limit=service.GUARD)
        took, cpu = time.monotonic() - began, [after - earlier for earlier, after in zip(before, self.cpu(pool))]
        # Each answer adds a line to the daemon's log. Programs append to it, so that it can be cut.
        if os.path.getsize(self.there.daemon.log) > LOG:
            os.truncate(self.there.daemon.log, 0)
        if not times:
            return None
        times.sort()
        daemon, worker = self.look()
        row = {"releases": self.releases, "answers": len(times), "seconds": took, "p50": load.percentile(times, 0.5),
               "p99": load.percentile(times, 0.99), "daemon": daemon, "worker": worker, "ledger": self.ledger.size(),
               "log": self.ledger.log_size(), "cpu": cpu[0] / len(times) * 1e6, "server": cpu[1] / len(times) * 1e6,
               "mint": cpu[2] / max(pool.minted - minted, 1) * 1e6}
        self.rows.append(row)
        return row

    def judge(self):
        """Returns what is wrong with the answers, and prints their number."""
        result = self.outcome
        print(f"answered    {result.right} of {result.sent} right, {sum(result.refused.values())} refused")
        wrong = list(result.wrong)
        if result.refused or result.right != result.sent:
            wrong.append(f"{result.sent - result.right} of {result.sent} were not answered right: {dict(result.refused)}")
        return wrong

    def judge_growth(self, recycle):
        """Returns what grew, and prints the growth."""
        wrong = []
        early = self.rows[:max(len(self.rows) // 5, 1)]
        for name, allowed, unit in ("memory", DAEMON_GROWTH, " MiB"), ("descriptors", HANDLES, ""), ("threads", HANDLES, ""):
            most = max(getattr(row["daemon"], name) for row in early)
            last = self.rows[-1]["daemon"]._asdict()[name]
            print(f"daemon      {name}: at most {most:.1f}{unit} in the first fifth, {last:.1f}{unit} at the end")
            if last > most + allowed:
                wrong.append(f"the daemon's {name} grew from {most:.1f}{unit} to {last:.1f}{unit}")
        for name in ("descriptors", "threads"):
            most, last = (max(getattr(row["worker"], name) for row in rows) for rows in (early, self.rows[-2:]))
            if last > most + HANDLES:
                wrong.append(f"the worker's {name} grew from {most} to {last}")
        sizes = list(self.peaks.values())
        allowed = max(sizes[:2]) + WORKER_GROWTH + recycle * LOST / 1048576
        if max(sizes) > allowed:
            wrong.append(f"a worker had {max(sizes):.0f} MiB, more than {allowed:.0f}")
        return wrong

    def judge_fifths(self):
        """Compares the last fifth with the second. Returns what is wrong."""
        rows, wrong = self.rows, []
        fifth = len(rows) // 5
        second, last = rows[fifth:2 * fifth], rows[len(rows) - fifth:]
        if min(sum(row["answers"] for row in part) for part in (second, last)) < ENOUGH:
            print(f"fifths      not compared: {ENOUGH} answers are needed for each")
            return wrong

        def each(first, end):
            """Returns the bytes that a release added between two rows."""
            return (end["ledger"] - first["ledger"]) / (end["releases"] - first["releases"])
        for name, value, allowed in (
                ("p50, ms", lambda row: row["p50"], None), ("p99, ms", lambda row: row["p99"], P99_RATIO),
                ("processor time of daemon and worker, µs", lambda row: row["cpu"], None),
                ("the same, of a minted payment token's", lambda row: row["cpu"] / row["mint"], CPU_RATIO),
                ("the server's, of a minted payment token's", lambda row: row["server"] / row["mint"], CPU_RATIO)):
            before, after = (statistics.median(map(value, part)) for part in (second, last))
            compare(name, before, after, allowed, wrong)
        middle = rows[len(rows) // 2]
        compare("bytes a release, of the halves", each(rows[0], middle), each(middle, rows[-1]), SIZE_RATIO, wrong)
        return wrong


def compare(name, before, after, allowed, wrong):
    """Prints two values and their ratio, if there are any, and adds to what is wrong a ratio that is not allowed."""
    if not before:
        return
    print(f"{name:42}{before:9.2f}{after:9.2f}   ratio {after / before:5.2f}")
    if allowed and after > before * allowed:
        wrong.append(f"{name}: {after:.2f} in the last fifth, {before:.2f} in the second")


def line(row):
    """Returns a row as text."""
    used = "   ".join(f"{memory:10.1f}{descriptors:6}{threads:8}"
                      for memory, descriptors, threads in (row["daemon"], row["worker"]))
    return (f"{row['releases']:10}{row['seconds']:9.1f}{row['answers'] / row['seconds']:7.0f}{row['p50']:8.2f}{row['p99']:8.2f}"
            f"{row['cpu']:8.0f}{row.get('server', 0):8.0f}{row.get('mint', 0):8.0f}   {used}{row['ledger'] / 1e6:11.1f}"
            f"{row['log'] / 1e6:8.1f}")


def opened(engine, ending, kept=False, settings=()):
    """Returns a ledger in PLACE, and the configuration's section for it. engine: sqlite, or postgresql, whose server ends with the
    exit stack. kept: True if it stays for a later run, or an earlier run has left it."""
    if engine == "sqlite":
        return proof.LedgerFile(f"{PLACE}/ledger.sqlite"), None
    place = "paytokend-database" if kept else None
    if place and not COMPLETE.exists():
        shutil.rmtree(pathlib.Path.cwd().parent / place, ignore_errors=True)
    server = ending.enter_context(database.Server(settings, kept=place))
    ledger = database.Ledger(server, "lasting") if COMPLETE.exists() else server.ledger("lasting")
    return ledger, ledger.settings("node-1", timeout="60s")


def check_ledger(ledger, releases):
    """Compares the numbers of claims and records with that of releases. Returns what is wrong. Prints what each release needs."""
    wrong, began = [], time.monotonic()
    claims = ledger.number("SELECT count(*) FROM claim")
    recorded = "audit_record WHERE event = 'decrypt' AND outcome = 'ok'"
    records = ledger.number(f"SELECT count(*) FROM {recorded}")
    without = ledger.number("SELECT count(*) FROM claim WHERE NOT EXISTS "
                            f"(SELECT 1 FROM {recorded} AND audit_record.transaction_id = claim.transaction_id)")
    print(f"ledger      {releases} releases, {claims} claims, {records} recorded releases; compared in "
          f"{time.monotonic() - began:.1f} s")
    if not claims == records == releases or without:
        wrong.append(f"{releases} releases, {claims} claims, {without} of them without a record, and {records} records of releases")
    return wrong


def show_parts(ledger, count):
    parts = ledger.parts()
    for name, size in sorted(parts.items(), key=lambda part: -part[1]):
        if size > sum(parts.values()) / 200:
            print(f"  {name:32}{size / 1e6:10.1f} MB   {size / count:7.1f} bytes a release")


def main(parser):
    parser.add_argument("--recycle-after", type=int, help="calls (a tenth of all)")
    parser.add_argument("--any-memory", action="store_true", help="judges no growth, as under a sanitizer, which needs more")
    parser.add_argument("--ledger", choices=["sqlite", "postgresql"], default="sqlite", help="where it is kept (sqlite)")
    parser.add_argument("--keep", metavar="DIRECTORY", help="keeps HSM token and ledger there, and continues an earlier run")
    options = service.parse(parser, releases=(1_000_000, 300, "releases"), repeats=(0, 9, "repeats of each"),
                            clients=(16, 16, "connections"))
    each = options.repeats + 1
    count = options.releases * each
    recycle = options.recycle_after or max(count // 10, 100)
    wrong, step = [], max(min(count // 20, ROW), 1)
    deployment.make_merchants()
    with contextlib.ExitStack() as ending:
        if options.keep and not COMPLETE.exists():
            shutil.rmtree(PLACE, ignore_errors=True)
        ledger, section = opened(options.ledger, ending, bool(options.keep))
        there = ending.enter_context(deployment.Deployment(
            PLACE, {"a": deployment.SoftHSMToken}, merchants=("ec",), program=PROGRAM, ledger=section, kept=COMPLETE.exists(),
            call_timeout="10s", recycle_after=recycle))
        COMPLETE.touch()
        pool = ending.enter_context(outcome.Pool(uses=each, ec=64))
        run = Run(there, ledger, options.clients)
        print(f"{options.releases} releases with {options.repeats} repeats each, {run.before} of them before this run; "
              f"recycled after {recycle} calls, {options.clients} clients")
        print(HEAD)
        for earlier in SERIES.read_text().splitlines() if SERIES.exists() else []:
            print(line(json.loads(earlier)))
        with SERIES.open("a") as series:
            # A run that is interrupted later has no verdict, so it ends at the first wrong answer.
            while (left := (options.releases - run.releases) * each) > 0 and not run.outcome.wrong:
                row = run.drive(pool, min(step, left))
                print(line(row), flush=True)
                print(json.dumps(row), file=series, flush=True)
        done = run.outcome.sent
        # A worker still serves while its successor starts. On a fast machine it answers many calls in that time, so more calls
        # are needed before as many workers were replaced.
        enough, end = done // recycle - 2, time.monotonic() + service.GUARD
        if there.restarts(reason="recycled") < enough:
            run.drive(pool, count, lambda: there.restarts(reason="recycled") >= enough or time.monotonic() > end)
        recycled, restarts = there.restarts(reason="recycled"), there.restarts()
        wrong += run.judge()
        print(f"workers     {recycled} recycled, {restarts - recycled} replaced for other reasons; largest of each in MiB: "
              + " ".join(f"{size:.0f}" for size in run.peaks.values()))
        if recycled < enough or recycled != restarts:
            wrong.append(f"{recycled} workers were recycled and {restarts - recycled} replaced for other reasons")
        if run.rows and not options.any_memory:
            wrong += run.judge_growth(recycle) + run.judge_fifths()
        wrong += check_ledger(ledger, run.releases)
        show_parts(ledger, run.releases)
        wrong += proof.verify(there.daemon, only_live=True)
        wrong += there.daemon.stop()
    return wrong
