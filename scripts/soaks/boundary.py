"""What it costs that the token's library runs in a process of its own: EC_v1 restorations through the worker (frames over
a socket pair, eight calls in flight for each session as in the daemon) against the same within one process, in turns: one
thread keeps as many calls in flight, and the sessions' threads make them, by the same queue. "bare" is less than a daemon
could do, whose own threads must not block: the sessions' threads ask themselves, and nothing is handed over.

The price is the processor time of both processes together, since that is what a machine has less of, whatever else runs on
it; each ratio is of two neighbouring turns, and the median of them counts. Wrong is an answer that is not what was
encrypted, or a price of more than 10 % (with --short the price decides nothing).
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
    parser.add_argument("--rounds", type=int, default=60, help="turns of each (60; 3 with --short)")
    parser.add_argument("--seconds", type=float, default=0.3, help="of each turn (0.3)")
    parser.add_argument("--sessions", type=int, default=2, help="and threads (2)")
    options = service.arguments(parser)
    rounds, seconds = (3, 0.3) if options.short else (options.rounds, options.seconds)
    output = service.run("boundary-price", os.environ["SOAK_MODULE"], "sandbox", "pin", shutil.which("paytokend-hsm"),
                         options.sessions, rounds, seconds).decode()
    turns = {"worker": [], "within": [], "bare": []}
    for line in output.splitlines():
        who, count, took, used = line.split()
        turns[who].append((int(count) / float(took), float(used) / int(count) * 1e6))
    for who, title in (("worker", "through the worker"), ("within", "within one process"), ("bare", "bare")):
        rate, used = (statistics.median(column) for column in zip(*turns[who]))
        print(f"{title:20} {rate:6.0f}/s, {used:5.0f} µs of processor time each")

    def compare(other, column):
        ratios = [worker[column] / within[column] for worker, within in zip(turns["worker"], turns[other])]
        quarter, median, three = statistics.quantiles(ratios, n=4)
        return median, f"{median:.3f} ({quarter:.2f} to {three:.2f} in half of the rounds)"
    price, shown = compare("within", 1)
    print(f"processor time       {shown} of what it takes within one process, {compare('bare', 1)[1]} of bare")
    print(f"rate                 {compare('within', 0)[1]} of within one process, {compare('bare', 0)[1]} of bare")
    print(f"price                {price - 1:.1%}; {rounds} rounds, {options.sessions} sessions")
    return proof.verdict([f"the process boundary costs {price - 1:.1%}, more than 10 %"]
                       if price > 1.1 and not options.short else [])


if __name__ == "__main__":
    with service.cleaning():
        sys.exit(main())
