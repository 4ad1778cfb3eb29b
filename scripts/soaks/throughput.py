"""Releases a second: fresh EC_v1 tokens, each released once, from N connections, and the ratio to the raw loop of HSM
operations (C_DeriveKey, read, destroy) on the same token in the same run. Wrong is every answer but a release.
"""
import argparse
import collections
import json
import resource
import sys

import load
import proof
import raw
import service


def main():
    parser = argparse.ArgumentParser(prog="scripts/soak throughput", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=20, help="of load (20; 5 with --short)")
    parser.add_argument("--clients", type=int, default=8, help="connections (8)")
    options = service.arguments(parser)
    seconds = 5 if options.short else options.seconds
    with service.Service() as daemon:
        daemon.start()
        daemon.import_merchant()
        # As many threads as the worker has sessions.
        with raw.RawLoop("sandbox", "authority/merchant.pem") as loop:
            own_key, copied = (loop.measure(2, 1 if options.short else 3, kind).rate for kind in ("object", "copy"))
        times, refusals = [], collections.Counter()

        def answered(tag, status, body, began, ended):
            times.append(ended - began)
            if status != 200:
                refusals[json.loads(body).get("code", status) if body else "no answer"] += 1
        cpu = own = 0.0

        def play(requests):
            nonlocal cpu, own
            before, used = daemon.cpu(), resource.getrusage(resource.RUSAGE_SELF)
            load.drive(daemon.socket, options.clients, requests, answered)
            after = resource.getrusage(resource.RUSAGE_SELF)
            cpu += daemon.cpu() - before
            own += after.ru_utime + after.ru_stime - used.ru_utime - used.ru_stime
        with service.Minter() as tokens:
            _, took = load.rounds(seconds, lambda count: [(None, load.decrypt(token, b"soak")) for token in tokens.take(count)],
                                  play)
        daemon.stop()
    times.sort()
    rate = len(times) / took
    print(f"requests    {len(times)} in {took:.1f} s from {options.clients} clients (tokens are minted while the clock stands)")
    print(f"throughput  {rate:.0f}/s; {cpu / len(times) * 1e6:.0f} µs of processor time each, and the client's "
          f"{own / len(times) * 1e6:.0f} µs")
    print(f"latency     p50 {load.percentile(times, 0.5):.2f} ms, p99 {load.percentile(times, 0.99):.2f} ms, longest "
          f"{times[-1] * 1000:.1f} ms")
    print(f"raw loop    {own_key:.0f}/s ({copied:.0f}/s on a session copy of the key)")
    print(f"ratio       {rate / own_key:.2f} of the raw loop ({rate / copied:.2f} of the one on a session copy)")
    return proof.verdict([f"{count} requests were refused with {code}" for code, count in sorted(refusals.items())])


if __name__ == "__main__":
    with service.cleaning():
        sys.exit(main())
