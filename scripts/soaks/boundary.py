"""What it costs that the token's library runs in a process of its own: EC_v1 restorations through the worker (frames over
a socket pair, pipelined, eight calls in flight for each session as in the daemon) against the same in one process
(as many threads, no frames), in turns. Each ratio is of two neighbouring turns; the median of them counts. Wrong is an
answer that is not what was encrypted, or a price of more than 10 % (not judged with --short).
"""
import argparse
import os
import shutil
import statistics
import sys

import proof
import service


def main():
    parser = argparse.ArgumentParser(prog="scripts/soak boundary", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=40, help="turns of each (40; 2 with --short)")
    parser.add_argument("--seconds", type=float, default=0.5, help="of each turn (0.5)")
    parser.add_argument("--sessions", type=int, default=2, help="and threads (2)")
    options = service.arguments(parser)
    rounds, seconds = (2, 0.5) if options.short else (options.rounds, options.seconds)
    output = service.run("boundary-price", os.environ["SOAK_MODULE"], "sandbox", "pin", shutil.which("paytokend-hsm"),
                         options.sessions, rounds, seconds).decode()
    turns = {"worker": [], "within": []}
    for line in output.splitlines():
        who, count, took, used = line.split()
        turns[who].append((int(count) / float(took), float(used) / int(count) * 1e6))
    for who, title in (("within", "one process"), ("worker", "the worker")):
        rate, used = (statistics.median(column) for column in zip(*turns[who]))
        print(f"{title:12} {rate:7.0f}/s, {used:5.0f} µs of processor time each")
    rates = [within[0] / worker[0] - 1 for worker, within in zip(turns["worker"], turns["within"])]
    costs = [worker[1] / within[1] - 1 for worker, within in zip(turns["worker"], turns["within"])]
    price = statistics.median(rates)
    quarter, _, three = statistics.quantiles(rates, n=4)
    print(f"price        {price:.1%} of time (half of the rounds between {quarter:.1%} and {three:.1%}), "
          f"{statistics.median(costs):.1%} of processor time; {rounds} rounds, {options.sessions} sessions")
    return proof.judge([f"the process boundary costs {price:.1%}, more than 10 %"] if price > 0.1 and not options.short
                       else [])


if __name__ == "__main__":
    with service.cleaning():
        sys.exit(main())
