"""What the durable ledger costs: releases a second with it, and with one in memory that writes nothing, on the same
machine in one run. Both daemons are there from the beginning, each with a token of its own; rounds alternate between
them and release the same payment tokens. The ratio is that of each pair of rounds, the middle one of all pairs.
"""
import argparse
import os
import resource
import statistics
import sys
import time

import load
import proof
import service


class Side:
    """One of the two daemons, and its figures."""

    def __init__(self, name, daemon):
        self.name, self.daemon = name, daemon
        self.rates, self.times, self.cpu, self.wrong = [], [], 0.0, []

    def round(self, tokens, number, clients):
        times = []

        def answered(tag, status, body, began, ended):
            times.append(ended - began)
            if status != 200:
                self.wrong.append(f"{self.name}: {tag} was answered {status} {body[:200]}")
        requests = [(index, load.decrypt(token, b"cost-%d-%d" % (number, index))) for index, token in enumerate(tokens)]
        cpu, began = self.daemon.cpu(), time.monotonic()
        load.drive(self.daemon.socket, clients, requests, answered)
        seconds = time.monotonic() - began
        self.cpu += self.daemon.cpu() - cpu
        self.times += times
        self.rates.append(len(times) / seconds)


def main():
    parser = argparse.ArgumentParser(prog="scripts/soak ledger-cost", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=12, help="pairs of rounds (12; 2 with --short)")
    parser.add_argument("--releases", type=int, default=4000, help="in each round (4000; 200 with --short)")
    parser.add_argument("--clients", type=int, default=32, help="connections (32)")
    options = service.arguments(parser)
    rounds, releases = (2, 200) if options.short else (options.rounds, options.releases)
    durable = Side("durable", service.Service())
    memory = Side("memory", service.Service(
        program="paytokend-memory-ledger", arguments=["memory.yaml"], socket="memory.sock", admin="memory-admin.sock",
        log="memory.log"))
    with durable.daemon, memory.daemon:
        for side in (durable, memory):
            side.daemon.start()
            side.daemon.import_merchant()
        client, busy = 0.0, 0.0
        # The first pair warms up and does not count.
        for number in range(rounds + 1):
            tokens = service.mint(releases)
            order = (durable, memory) if number % 2 else (memory, durable)
            before, began = resource.getrusage(resource.RUSAGE_SELF), time.monotonic()
            for side in order:
                side.round(tokens, number, options.clients)
            after = resource.getrusage(resource.RUSAGE_SELF)
            client += after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
            busy += time.monotonic() - began
            if number == 0:
                for side in (durable, memory):
                    side.rates, side.times, side.cpu = [], [], 0.0
            else:
                print(f"round {number:3}   durable {durable.rates[-1]:6.0f}/s   memory {memory.rates[-1]:6.0f}/s   "
                      f"ratio {durable.rates[-1] / memory.rates[-1]:.3f}", flush=True)
        wrong = durable.wrong + memory.wrong
        for side in (durable, memory):
            side.times.sort()
            print(f"{side.name:10}  {statistics.median(side.rates):.0f}/s, p50 {load.percentile(side.times, 0.5):.2f} ms, "
                  f"p99 {load.percentile(side.times, 0.99):.2f} ms, {side.cpu / len(side.times) * 1e6:.0f} µs of processor "
                  "time a release")
        ratios = [left / right for left, right in zip(durable.rates, memory.rates)]
        cost = 1 - statistics.median(ratios)
        print(f"ratio       {statistics.median(ratios):.3f} (from {min(ratios):.3f} to {max(ratios):.3f}): with "
              f"{options.clients} clients the durable ledger costs {cost * 100:.1f} %")
        durable.daemon.stop()
        print(f"ledger      {os.path.getsize('ledger.sqlite') / (releases * (rounds + 1)):.0f} bytes a release, with its claim "
              "and record")
        print(f"client      takes {client / busy * 100:.0f} % of one core itself; that is in both")
        if options.debug:
            print("            for a debug build it decides nothing")
        elif cost >= 0.25:
            wrong.append("the durable ledger costs a quarter or more")
    return proof.verdict(wrong)


if __name__ == "__main__":
    with service.cleaning():
        sys.exit(main())
