"""Makes a million derivations through /v1/decrypt, and measures the memory of daemon and worker. The requests are releases, and
repeats with references, each of which decrypts again. The worker is recycled ten times, and its successor takes over while it
finishes. Every request must be answered 200 with the minted content. The soak also fails if the daemon, or a worker before its
replacement, grows without limit.
"""
import time

import deployment
import load
import outcome
import service

# The permitted growth in MiB: of the daemon after the first fifth of the run, and of a worker beyond the larger of the first two
# workers.
DAEMON_GROWTH, WORKER_GROWTH = 48, 32
# SoftHSM 2.6.1 leaks about 265 bytes with each derivation.
LOST = 265


def main(parser):
    parser.add_argument("--recycle-after", type=int, help="calls (a tenth of --count)")
    parser.add_argument("--any-memory", action="store_true", help="judges no memory, as under a sanitizer, which needs much of its own")
    options = service.parse(parser, count=(1_000_000, 3000, "derivations"), clients=(16, 16, "connections"))
    count = options.count
    recycle = options.recycle_after or max(count // 10, 100)
    enough = count // recycle - 2
    deployment.make_merchants()
    wrong, series = [], []
    result, peaks = outcome.Outcome(keeps_history=False), {}
    with deployment.Deployment("derives", {"a": deployment.SoftHSMToken}, merchants=("ec",), call_timeout="10s",
                               recycle_after=recycle) as there, outcome.Pool(ec=64) as pool:
        began = time.monotonic()
        print(f"{count} derivations, recycled after {recycle}, {options.clients} clients; MiB are resident memory")
        print(f"{'answered':>10}{'seconds':>9}{'per s':>8}{'daemon':>9}{'worker':>9}  pid")

        def look():
            daemon, *workers = there.daemon.processes()
            for worker in workers:
                peaks[worker] = max(peaks.get(worker, 0.0), service.memory(worker))
            return service.memory(daemon), max(workers, key=service.memory, default=0)

        def show():
            memory, worker = look()
            took = time.monotonic() - began
            series.append((result.sent, memory))
            print(f"{result.sent:10}{took:9.1f}{result.sent / took:8.0f}{memory:9.1f}{service.memory(worker):9.1f}  {worker}",
                  flush=True)

        def requests():
            looked, step = time.monotonic(), max(count // 20, 1)
            shown = result.sent
            pairs = outcome.paced(pool)
            for _ in range(count):
                if result.sent - shown >= step:
                    shown += step
                    show()
                elif time.monotonic() - looked > 0.25:
                    looked = time.monotonic()
                    look()
                yield next(pairs)
            # A worker still serves while its successor starts. On a fast machine it answers many calls in that time, so more
            # calls are needed before ten workers were replaced.
            end = time.monotonic() + service.GUARD
            while there.restarts(reason="recycled") < enough and time.monotonic() < end:
                for _ in range(100):
                    yield next(pairs)
                look()
        load.drive(there.socket, options.clients, requests(), result.answered, limit=service.GUARD)
        show()
        recycled, restarts = there.restarts(reason="recycled"), there.restarts()
        wrong += there.daemon.stop()
    sizes = list(peaks.values())
    print(f"answered    {result.right} of {result.sent} right, {sum(result.refused.values())} refused")
    print(f"workers     {recycled} recycled, {restarts - recycled} replaced for other reasons; largest of each in MiB: "
          + " ".join(f"{size:.0f}" for size in sizes))
    print(f"daemon      {series[0][1]:.1f} MiB after {series[0][0]}, {series[-1][1]:.1f} MiB after {series[-1][0]}")
    wrong += result.wrong
    if result.refused or result.right != result.sent:
        wrong.append(f"{result.sent - result.right} of {result.sent} were not answered right: {dict(result.refused)}")
    if recycled < enough or recycled != restarts:
        wrong.append(f"{recycled} workers were recycled and {restarts - recycled} replaced for other reasons")
    if options.any_memory:
        return wrong
    early = next(memory for sent, memory in series if sent >= count / 5)
    if series[-1][1] > early + DAEMON_GROWTH:
        wrong.append(f"the daemon grew from {early:.1f} to {series[-1][1]:.1f} MiB")
    allowed = max(sizes[:2]) + WORKER_GROWTH + recycle * LOST / 1048576
    if max(sizes) > allowed:
        wrong.append(f"a worker had {max(sizes):.0f} MiB, more than {allowed:.0f}")
    return wrong
