"""Archives old records, and measures the cost and the effect of kills. The daemon's ledger, a file or a database, begins with
records from 430 days ago and their audit checkpoints. The soak starts the daemon with ledger.retain_records under load, and kills
it repeatedly while it archives and removes records. Then it lets the daemon finish.

The soak fails if a release is refused or lost, or if a record is neither in the files nor in the ledger. It also fails if an
archive exists twice or no record names it, or if records are removed before their archive is recorded and sealed. It prints
times, memory, and the times of releases during the archiving.
"""
import contextlib
import json
import os
import pathlib
import time

import load
import proof
import records
import service

DAYS = 430
ARCHIVES = pathlib.Path("archives")


def recorded(ledger):
    """Returns the number of records in the ledger that name an archive."""
    return sum(json.loads(line)["event"] == "record_archive" for line in ledger.lines())


def configure():
    file = pathlib.Path("paytokend.yaml")
    file.write_text(file.read_text().replace(
        "ledger:\n", f"ledger:\n  retain_records: 397d\n  archive_directory: {ARCHIVES}\n"))


def drive(daemon, minter, answers, until, times):
    """Releases payment tokens on four connections until a condition is true. A request without an answer is repeated with its
    reference."""
    def requests():
        number = 0
        while True:
            token = minter.ready()
            number += 1
            reference = f"{id(times)}-{number}"
            yield None if token is None else (reference, load.decrypt(token, reference.encode()))

    def answered(reference, status, body, began, ended):
        times.append(ended - began)
        if status == 200:
            answers.take(reference, body)
        elif status is not None:
            answers.wrong.append(f"{reference} was answered {status} {body[:200]}")
    load.drive(daemon.socket, 4, requests(), answered, tick=until, limit=service.GUARD)


def archived(daemon):
    """Returns the last archived record, or None."""
    return json.loads(daemon.ctl("status", "--output", "json"))["ledger"].get("archivedSequence")


def figures(name, times):
    times = sorted(times)
    print(f"  releases {name:16} {len(times):6}   p50 {load.percentile(times, 0.5):7.2f} ms   "
          f"p99 {load.percentile(times, 0.99):7.2f} ms   longest {times[-1] * 1000:7.2f} ms", flush=True)


def verify(daemon, count, wrong):
    # The oldest first.
    files = sorted(ARCHIVES.glob("*.jsonl"), key=lambda file: int(file.stem.rsplit(".", 1)[1].split("-")[0]))
    for name, seconds, memory, said in proof.measured(daemon, proof.commands(daemon, "rest.jsonl", files), wrong):
        print(f"  {name:22} {seconds:8.2f} s   {memory:6.1f} MiB", flush=True)
        if "verif" in name and "records 1 to" not in said:
            wrong.append(f"{name}: not from record 1 on: {said[-300:]}")
    if not files or sum(file.stat().st_size for file in files) < count * 100:
        wrong.append(f"the archives are too small: {files}")
    left = [path.name for path in ARCHIVES.iterdir() if path not in files]
    if left:
        wrong.append(f"in the archives' directory was left: {left}")


def main(parser):
    parser.add_argument("--ledger", choices=["sqlite", "postgresql"], default="sqlite", help="where it is kept (sqlite)")
    options = service.parse(parser, records=(1_000_000, 20_000, "old ones"), kills=(6, 6, "while it archives and removes"))
    count, wrong, answers = options.records, [], proof.Answers()
    with contextlib.ExitStack() as ending:
        ledger, place = records.opened(options.ledger, ending)
        service.run("ledger-filler", "old", place, count, DAYS)
        daemon = ending.enter_context(service.serving())
        with service.Minter() as minter:
            alone = []
            drive(daemon, minter, answers, lambda: len(alone) >= (200 if options.short else 4000), alone)
            wrong += daemon.stop()
            service.run("ledger-filler", "seal", place, count, DAYS, os.environ["SOAK_MODULE"], "sandbox", "pin")
            configure()
            size, kills, during = ledger.size(), 0, []
            began = time.monotonic()
            # All old records have left the ledger except the last, from which its chain continues.
            done = service.seldom(lambda: ledger.first_record() >= count, 0.5)
            # Each round is slightly longer than the previous one, so that the kills interrupt every step.
            while kills < options.kills and not done():
                daemon.start()
                end = time.monotonic() + 0.1 * 2 ** kills * (0.2 if options.short else 1)
                drive(daemon, minter, answers, lambda: time.monotonic() > end or done(), during)
                daemon.kill()
                kills += 1
            daemon.start()
            before, meanwhile, started = daemon.peak(), [], time.monotonic()
            drive(daemon, minter, answers, lambda: done() or time.monotonic() > started + service.GUARD, meanwhile)
            took = time.monotonic() - began
        if archived(daemon) != count:
            wrong.append(f"archived through {archived(daemon)}, and not {count}")
        lines = sum(1 for _ in ledger.lines())
        if (named := recorded(ledger)) != 1:
            wrong.append(f"{named} records name an archive, and not 1")
        print(f"{count} old records were archived and removed in {took:.1f} s with {kills} kills; {lines} are left; the ledger has "
              f"{ledger.size() / 1e6:.1f} MB ({size / 1e6:.1f} MB before), the archives "
              f"{sum(file.stat().st_size for file in ARCHIVES.glob('*.jsonl')) / 1e6:.1f} MB")
        print(f"  {'daemon':22} {daemon.peak():8.1f} MiB   ({before:.1f} MiB at its start)")
        figures("alone", alone)
        if during:
            figures("between kills", during)
        if meanwhile:
            figures("meanwhile", meanwhile)
        verify(daemon, count, wrong)
        wrong += answers.wrong
        wrong += daemon.stop()
    return wrong
