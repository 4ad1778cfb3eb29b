"""Measures paytokend, with everything that a release needs, and compares it with what its HSM can do alone, in one run on one
machine. Prints one table.

The base has EC_v1 payment tokens of Apple Pay, a SoftHSM token with one key (tier C), an SQLite ledger and 32 connections. Each other row
changes one property of the base. Payment tokens are minted while nothing is measured, and each is released once. In every round,
every row runs for some seconds, with the raw loop before and after it. The raw loop makes the bare PKCS#11 calls of one payment
token, in as many threads as the worker has sessions, on a session copy of the key, as in the worker. The column "of" is the row's
rate divided by the raw loop's. For an HSM token with latency it is divided by sessions / latency, and for an open loop by the
maximum. Figures are the medians of the rounds.

With --against, the programs of another build are measured in turns with this build's, each with a ledger and an HSM token of its
own. The ratios of neighbouring measurements follow the table.

An open loop sends each request when it is due, at a constant rate, however late the answers are; times count from then. In all
other rows each connection sends when it has its answer.

Rows with PostgreSQL have their ledger on a durable server on the same disk, without a standby. The server's processor time is
not in the columns of daemon and worker, but in the cores in use, and in the JSON as `server`. The same holds for a gateway and its
processor, as `gateway` and `simulator`; a row through the gateway counts payments, each of which is submitted once.

Below the rows are the parts of a release, each measured by itself: the raw loops, P-256 verification, fdatasync, a round trip to
that server and a commit there. A key's restoration is measured through the worker's process and without it; the difference is the
cost of the process. Then come the targets for which enough was measured. A missed target does not change the exit status, which
is 1 if an answer was wrong, and with --short also if a row is far slower than it should be.
"""
import argparse
import os
import pathlib
import sys
import time

import machine
import peers
import plot
import report
import rounds
import rows
import service
import targets

EPILOG = "rows:\n" + "\n".join(f"  {row.name:16}{row.title}{'; only with --rows and --short' if row.is_extra else ''}"
                             for row in rows.ROWS) + """

examples:
  scripts/bench --quick                                  the beginning of the table, after a change: two minutes and the build
  scripts/bench --rows ec,ec-1 --rounds 9 --others 0.05 --against ../former/.build/release
                                                         this build and a former one, in turns on a quiet machine
  scripts/bench --json new.json --svg new.svg            all of it, for Speed.md
  scripts/bench --peer processout=../applepay            with github.com/processout/applepay, checked out there
  scripts/bench --short --debug                          what scripts/test runs
"""


def row_names(text):
    names = text.split(",")
    unknown = [name for name in names if name not in rows.NAMES]
    if unknown:
        raise argparse.ArgumentTypeError(f"there is no row {', '.join(unknown)}; the rows are {', '.join(rows.NAMES)}")
    return names


def peer(text):
    name, _, directory = text.partition("=")
    if name not in peers.PEERS or not directory:
        raise argparse.ArgumentTypeError(f"NAME=DIR, with a NAME of {', '.join(peers.PEERS)}")
    return name, directory


def parse():
    parser = argparse.ArgumentParser(prog="scripts/bench", description=__doc__, epilog=EPILOG,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=row_names, help="only these, separated by commas")
    parser.add_argument("--quick", action="store_true", help=f"the rows {', '.join(rows.QUICK)}, in three rounds of a second")
    parser.add_argument("--rounds", type=int, help="of everything (5; 3 with --short and --quick)")
    parser.add_argument("--seconds", type=float, help="of each row in each round (3; 1 with --short and --quick)")
    parser.add_argument("--against", metavar="DIR", help="another build's programs, each row of which is measured next to this build's")
    parser.add_argument("--others", type=float, metavar="CORES",
                        help="does not count a row's round in which other programs took more cores than this, such as 0.05")
    parser.add_argument("--json", metavar="FILE", help="all figures of all rounds")
    parser.add_argument("--svg", metavar="FILE", help="a plot")
    parser.add_argument("--peer", type=peer, action="append", default=[], metavar="NAME=DIR",
                        help=f"another program's rows, from its source: {', '.join(peers.PEERS)}")
    parser.add_argument("--check-arguments", action="store_true", help=argparse.SUPPRESS)
    service.add_options(parser)
    options = parser.parse_args()
    is_brief = options.short or options.quick
    options.rounds = options.rounds or (3 if is_brief else 5)
    options.seconds = options.seconds or (1 if is_brief else 3)
    if options.against:
        options.against = os.path.abspath(os.path.join(os.environ.get("BENCH_FROM", "."), options.against))
        if not os.access(os.path.join(options.against, "paytokend"), os.X_OK):
            parser.error(f"there is no program {options.against}/paytokend")
    return options


def choose(options):
    """Returns the rows in the table's order, including the one from which an open loop's maximum is taken."""
    usual = rows.SHORT if options.short else rows.QUICK if options.quick else [row.name for row in rows.ROWS if not row.is_extra]
    names = set(options.rows or usual)
    if any(row.load for row in rows.ROWS if row.name in names):
        names.add(rows.MAXIMUM)
    return [row for row in rows.ROWS if row.name in names]


def write(path, text):
    pathlib.Path(os.environ.get("BENCH_FROM", "."), path).write_text(text, encoding="utf-8")


def main():
    options = parse()
    if options.check_arguments:
        return 0
    began, made = time.monotonic(), machine.describe()
    with rounds.Bench(choose(options), options.seconds, options.others, options.against) as bench:
        for name, directory in options.peer:
            bench.add_peer(name, directory)
        bench.try_rows()
        for number in range(options.rounds):
            print(f"round {number + 1} of {options.rounds}", flush=True)
            bench.round(number)
        bench.finish()
    report.show(bench, made, time.monotonic() - began)
    chosen = targets.GUARDS if options.short else targets.TARGETS
    reached = report.show_targets(chosen, bench.figures)
    for name, why in bench.missing.items():
        print(f"missing     {name}: {why}")
    if options.json:
        write(options.json, report.as_json(bench, made, reached))
    if options.svg:
        write(options.svg, plot.svg(bench, made))
    wrong = bench.wrong
    if options.short:
        wrong += [f"badly slower: {each['title']}: {each['ratio']}" for each in reached if not each["met"]]
    return service.verdict(wrong)


if __name__ == "__main__":
    with service.cleaning("bench"):
        sys.exit(main())
