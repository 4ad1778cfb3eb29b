"""Prints the table on the terminal, and writes it with every round's figures as JSON."""
import json
import statistics

import peers

KEYS = {"object": "the token's key", "copy": "a session copy"}
OPERATIONS = {
    **{f"raw-{kind}-{key}-{threads}": f"raw loop, {kind.upper()}, {KEYS[key]}, {threads} thread{'s' if threads > 1 else ''}"
       for kind in ("ec", "rsa") for key in KEYS for threads in (1, 2, 4)},
    "p256-libcrypto": "P-256 verification by libcrypto", "verification": "paytokend's check of a token's signature",
    "boundary-worker": "restoration through the worker's process", "boundary-within": "restoration within one process",
    "boundary-bare": "restoration by the sessions' own threads", "fdatasync": "4 KiB appended, fdatasync",
    "server-round-trip": "a round trip to the PostgreSQL server",
    "server-commit": "a commit there of one row of 500 bytes"}
WIDTH = 52


def number(value, digits=0):
    return "–" if value is None else f"{value:,.{digits}f}"


def milliseconds(value):
    """Formats microseconds with three digits."""
    if value is None:
        return "–"
    value /= 1000
    return f"{value:.3f}" if value < 1 else f"{value:.2f}" if value < 10 else f"{value:.1f}" if value < 100 else f"{value:,.0f}"


def spread(figures, name):
    """Formats how far the rounds' rates are below and above their median."""
    values, median = figures.values(name, "rate"), figures.median(name, "rate")
    return f"{(min(values) / median - 1) * 100:+.0f} {(max(values) / median - 1) * 100:+.0f} %"


def ratio(figures, row):
    """Formats the row's ratio to its reference, and the name of that reference."""
    for figure, name in (("of_raw", "raw"), ("of_ceiling", "sessions/latency"), ("of_maximum", "maximum")):
        if (value := figures.median(row.name, figure)) is not None:
            return f"{value:.2f} {name}"
    return "–"


def line(title, *columns):
    widths = (9, 11, 22, 9, 9, 9, 8, 8, 7, 7, 8, 8)
    return f"{title:{WIDTH}}" + "".join(f"{column:>{width}}" for column, width in zip(columns, widths))


def service_line(figures, name, title, share):
    def of(figure):
        return figures.median(name, figure)
    return line(title, number(of("rate")), spread(figures, name), share, *[milliseconds(of(kind)) for kind in ("p50", "p99", "p999")],
                *[number(of(kind)) for kind in ("daemon", "worker", "load")], number(of("cores"), 2),
                *[number(of(kind)) for kind in ("memory_daemon", "memory_worker")])


def show(bench, made, elapsed):
    figures, versions = bench.figures, made["versions"]
    rounds = max((len(figures.rounds[row.name]) for row in bench.rows), default=0)
    print(f"\nmachine     {made['processor']}, {made['cores']} cores, {made['memory_gib']} GiB, {made['system']}, Linux "
          f"{made['kernel']}, {made['file_system']}")
    print("versions    " + ", ".join(f"{name} {said}" for name, said in versions.items()))
    print(f"build       {made['build']}, commit {made['commit']}, {made['date']}")
    print(f"rounds      {rounds} of {bench.seconds:g} s each, {elapsed / 60:.0f} min; medians, and how far rates went from them")
    others = [value for row in bench.rows for value in figures.values(row.name, "others")]
    if others:
        busy = statistics.mean(others)
        print(f"meanwhile   other programs took {busy:.2f} cores" + ("" if busy < 0.1 else ": rates and their ratios say little, "
              "processor time says more"))
    if figures.dropped:
        print(f"dropped     {figures.dropped} measurements, in which other programs took more than {figures.others:g} cores")
    print()
    print(line("", "releases", "", "", "", "", "", "µs of processor", "", "", "", "MiB", ""))
    print(line("", "a second", "spread", "of", "p50 ms", "p99 ms", "p99.9", "daemon", "worker", "load", "cores", "daemon", "worker"))
    for row in bench.rows:
        if row.name in figures:
            print(service_line(figures, row.name, row.title, ratio(figures, row)))
    pairs = [(row, f"{row.name}/") for row in bench.rows if f"{row.name}/" in figures]
    if pairs:
        print("\n" + f"{'this build over the other: means, 95 % intervals':{WIDTH}}{'rounds':>9}{'rate':>25}{'processor time':>25}")
    for row, name in pairs:
        rate, processor = ("–" if (found := figures.interval(name, figure)) is None else "{:.3f} [{:.3f}, {:.3f}]".format(*found)
                           for figure in ("rate", "processor"))
        print(f"{row.title:{WIDTH}}{len(figures.rounds[name]):>9}{rate:>25}{processor:>25}")
    for name, title in peers.TITLES.items():
        if name in figures:
            failed = figures.median(name, "failed")
            print(service_line(figures, name, title, f"{failed:.1%} failed" if failed else "–"))
    print("\n" + f"{'':{WIDTH}}{'a second':>9}{'spread':>11}{'p50 µs':>10}{'p99 µs':>10}{'µs of processor':>17}")
    for name, title in OPERATIONS.items():
        if name in figures:
            p50, p99, processor = (number(figures.median(name, kind)) for kind in ("p50", "p99", "processor"))
            print(f"{title:{WIDTH}}{number(figures.median(name, 'rate')):>9}{spread(figures, name):>11}{p50:>10}{p99:>10}"
                  f"{processor:>17}")
    print()
    show_ceilings(figures)


def show_ceilings(figures):
    """Prints what would limit the releases on more cores: the processor time for a release of each kind of thread of which one release
    needs one, and the number of releases a second that one such thread could do if it never waited."""
    held = [(f"the ledger's writer with the log's, {connections} connections", figures.median(row, "writer"))
            for connections, row in ((32, "ec"), (128, "ec-128"))]
    held += [(f"one event loop or one session, {part}, 128 connections", figures.median("ec-128", part)) for part in ("loops", "sessions")]
    one, two = (figures.median(f"raw-ec-copy-{threads}", "rate") for threads in (1, 2))
    if one and two and two < 2 * one:
        # With two threads the rate is 1 / (serial + rest / 2) of a time of serial + rest (Amdahl). Two threads can also hide a lock.
        held.append(("SoftHSM's locks, at least, from the raw loops of 1 and 2 threads", 1e6 / one * (2 * one / two - 1)))
    held = [(title, value) for title, value in held if value]
    if held:
        print(f"{'processor time of one thread':{WIDTH + 12}}{'µs a release':>14}{'at most a second':>18}")
        for title, value in held:
            print(f"{title:{WIDTH + 12}}{number(value):>14}{number(1e6 / value):>18}")
        print()


def show_targets(chosen, figures):
    """Returns the targets for which enough was measured, as in the JSON."""
    shown = []
    for target in chosen:
        if (value := target.ratio(figures)) is None:
            continue
        met = target.is_met(value)
        print(f"{'met' if met else 'missed':8}{value:8.2f}   {target.title}: {target.bound}")
        shown.append({"title": target.title, "ratio": round(value, 4), "least": target.least, "most": target.most, "met": met})
    return shown


def as_json(bench, made, reached):
    """Returns the results for JSON. Rates are per second, times in microseconds, memory in MiB, and cores are those in use.
    Ratios such as `of_raw` are computed for each round."""
    titles = {**{row.name: row.title for row in bench.rows}, **{f"{row.name}/": f"{row.title}: ratio" for row in bench.rows},
              **peers.TITLES, **OPERATIONS}
    names = [name for name in titles if name in bench.figures]
    return json.dumps({
        **made, "seconds": bench.seconds,
        "rows": [{"name": name, "title": titles[name], **bench.figures.summary(name)} for name in names],
        "targets": reached, "missing": bench.missing}, indent=1, ensure_ascii=False) + "\n"
