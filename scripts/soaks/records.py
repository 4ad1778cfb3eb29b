"""Measures the cost of reading a long record. While the daemon is stopped, its ledger, a file or a PostgreSQL database, is filled
with records like those of releases. The audit key in the HSM token seals them every 1,000 records. Then the daemon serves the
ledger. For each length, the soak measures the export, verification live and of the export, scripts/verify-audit, and a page of
`audit list`. It measures times, and the largest memory of the reader and of the daemon. Then it releases payments while an export
runs.

The soak fails if a record does not verify, if memory grows with the record, or if an export delays releases. Releases must also
be answered while an export cannot end because its reader has stopped reading.
"""
import contextlib
import os
import pathlib
import socket
import subprocess
import threading
import time

import database
import load
import proof
import service

# The additional memory in MiB, compared with the smallest length, that counts as growth.
GROWTH = 48


def fill(place, count):
    """place: the ledger's file or URL."""
    began = time.monotonic()
    service.run("ledger-filler", place, count, os.environ["SOAK_MODULE"], "sandbox", "pin")
    return time.monotonic() - began


def measure(daemon, ledger, wrong):
    """Yields rows of name, seconds and the reader's memory."""
    listing = ["paytokenctl", "audit", "list"]
    return [row[:3] for row in proof.measured(daemon, {
        **proof.commands(daemon), "audit list, last 100": [*listing, "--limit", "100"],
        "audit list, one found": [*listing, "--transaction", ledger.transaction_amid()],
        "audit list, all seen": [*listing, "--merchant", "merchant.com.example.none"]}, wrong)]


def opened(engine, ending):
    """Returns the configuration's ledger section, and the ledger's file or URL. engine: sqlite, or postgresql, whose server ends
    with the exit stack."""
    if engine == "sqlite":
        return proof.LedgerFile(), "ledger.sqlite"
    ledger = ending.enter_context(database.Server()).ledger("ledger")
    file = pathlib.Path("paytokend.yaml")
    file.write_text(file.read_text().replace("ledger:\n  url: sqlite:ledger.sqlite\n", ledger.settings("node-1", timeout="60s")))
    # The directory for the host's own files.
    os.environ["STATE_DIRECTORY"] = os.getcwd()
    return ledger, ledger.server.url(ledger.name, database.DAEMON)


def releases(daemon, tokens, wrong):
    """Releases payments on four connections, one after another on each, and returns their times in ascending order."""
    times = []

    def answered(tag, status, body, began, ended):
        times.append(ended - began)
        if status != 200:
            wrong.append(f"{tag} was answered {status} {body[:200]}")
    load.drive(daemon.socket, 4, [(index, load.decrypt(token)) for index, token in enumerate(tokens)], answered,
               limit=service.GUARD)
    return sorted(times)


def releases_with_export(daemon, count, wrong):
    """Prints the times of releases alone, and while exports run."""
    alone = releases(daemon, service.mint(count), wrong)
    tokens, begun = service.mint(count), threading.Event()

    def export():
        with subprocess.Popen(["paytokenctl", "audit", "export"], stdout=subprocess.PIPE, env=daemon.environment) as process:
            while process.stdout.read1(1 << 20):
                begun.set()
    with service.repeating(export, 0):
        begun.wait(service.GUARD)
        busy = releases(daemon, tokens, wrong)
    for name, times in (("alone", alone), ("with export", busy)):
        print(f"  releases {name:14} p50 {load.percentile(times, 0.5):7.2f} ms   p99 {load.percentile(times, 0.99):7.2f} ms"
              f"   longest {times[-1] * 1000:7.2f} ms")


def held_open(daemon, count, wrong):
    """Releases payments while an export makes no progress because its reader does not read. No release may wait for the export's
    end."""
    tokens, taken = service.mint(count), 0
    with socket.socket(socket.AF_UNIX) as export:
        export.settimeout(service.GUARD)
        export.connect(daemon.admin)
        export.sendall(load.get("/v1/audit/export").replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
        for token in tokens:
            # The reader reads a little, so that the export does not count as abandoned.
            piece = export.recv(8192)
            taken += len(piece)
            if not piece:
                wrong.append("an export that was read slowly was ended before a release was answered")
                return
            releases(daemon, [token], wrong)
        left = 0
        while piece := export.recv(1 << 20):
            left += len(piece)
    # The kernel buffers less than a megabyte for a reader.
    if left < 1 << 20:
        raise service.Failed(f"the export had only {left} bytes to go: the record is too short to tell what waits for it")
    print(f"  {count} releases were answered while an export made no progress, {left / 1e6:.1f} MB before its end")


def main(parser):
    parser.add_argument("--ledger", choices=["sqlite", "postgresql"], default="sqlite", help="where it is kept (sqlite)")
    options = service.parse(parser, records=(1_000_000, 10_000, "the longest record, after a tenth and a hundredth of it"))
    longest = options.records
    lengths = [longest // 10, longest] if options.short else [longest // 100, longest // 10, longest]
    wrong, table, there = [], [], 0
    with contextlib.ExitStack() as ending:
        ledger, place = opened(options.ledger, ending)
        daemon = ending.enter_context(service.serving())
        for length in lengths:
            wrong += daemon.stop()
            seconds = fill(place, length - there)
            added, there = length - there, length
            started = daemon.start()
            before = daemon.peak()
            rows = measure(daemon, ledger, wrong)
            size = pathlib.Path("record.jsonl").stat().st_size
            print(f"{length} records: {size / 1e6:.1f} MB as an export, {ledger.size() / 1e6:.1f} MB as a "
                  f"ledger; {added} filled in {seconds:.1f} s "
                  f"({added / seconds:.0f}/s); the daemon was ready in {started:.1f} s")
            for name, took, memory in rows:
                rate = f"{length / took:9.0f}/s" if "list" not in name else ""
                print(f"  {name:22} {took:8.2f} s   {memory:6.1f} MiB   {rate}", flush=True)
            print(f"  {'daemon':22} {'':10}   {daemon.peak():6.1f} MiB   ({before:.1f} MiB before)", flush=True)
            table.append((length, rows + [("daemon", 0, daemon.peak())]))
        releases_with_export(daemon, 100 if options.short else 2000, wrong)
        held_open(daemon, 20, wrong)
        first, last = table[0], table[-1]
        for (name, _, small), (_, _, large) in zip(first[1], last[1]):
            if large > small + GROWTH:
                wrong.append(f"{name}: {small:.1f} MiB for {first[0]} records, {large:.1f} MiB for {last[0]}")
        grown = max(large - small for (_, _, small), (_, _, large) in zip(first[1], last[1]))
        print(f"memory     from {first[0]} to {last[0]} records no reader, nor the daemon, needs more than {grown:.1f} MiB more")
        wrong += daemon.stop()
    return wrong
