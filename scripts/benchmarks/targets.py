"""The targets: ratios within one run that compare paytokend's performance with that of its parts."""
import dataclasses
import statistics


@dataclasses.dataclass(frozen=True)
class Target:
    title: str
    # A function of Figures that returns the ratio, or None if a figure for it was not measured.
    ratio: object
    # The minimum or the maximum of the ratio; None without one.
    least: float | None = None
    most: float | None = None

    def is_met(self, ratio):
        return (self.least is None or ratio >= self.least) and (self.most is None or ratio <= self.most)

    @property
    def bound(self):
        return f"at least {self.least:g}" if self.least is not None else f"at most {self.most:g}"


def of(row, figure):
    return lambda figures: figures.median(row, figure)


def quotient(above, below):
    return None if above is None or not below else above / below


def of_parts(row, kind):
    """Returns a row's latency divided by the sum of the latencies of its parts: one raw operation, one verification and one
    sync."""
    def ratio(figures):
        parts = [figures.median(name, kind) for name in ("raw-ec-copy-1", "p256-libcrypto", "fdatasync")]
        return None if None in parts else quotient(figures.median(row, kind), sum(parts))
    return ratio


def processor(row):
    """Returns the processor time of a release, divided by that of one raw operation in the same round: other programs hardly
    change it."""
    def ratio(figures):
        parts = [figures.median(row, part) for part in ("daemon", "worker")]
        return None if None in parts else quotient(sum(parts), figures.median(row, "raw_processor"))
    return ratio


def over_parts(row):
    """Returns the processor time of a release, divided by that of its necessary parts: one raw operation, and one verification."""
    def ratio(figures):
        above = [figures.median(row, part) for part in ("daemon", "worker")]
        parts = [figures.median(row, "raw_processor"), figures.median("p256-libcrypto", "processor")]
        return None if None in above + parts else quotient(sum(above), sum(parts))
    return ratio


def against_base(row):
    """Compares a row with the base, each divided by its own HSM token's raw loop: by rates or by processor time, whichever is
    better, since other programs change one or the other."""
    def ratio(figures):
        by_rate = quotient(figures.median(row, "of_raw"), figures.median("ec", "of_raw"))
        by_time = quotient(processor("ec")(figures), processor(row)(figures))
        return None if None in (by_rate, by_time) else max(by_rate, by_time)
    return ratio


def cost(row):
    """Returns the cost of a row's release divided by that of the base."""
    return lambda figures: quotient(1, against_base(row)(figures))


def waiting(row):
    """Returns a row's p50 divided by the sum of its processor time and one sync. The excess over 1 is waiting."""
    def ratio(figures):
        parts = [figures.median(row, "daemon"), figures.median(row, "worker"), figures.median("fdatasync", "p50")]
        return None if None in parts else quotient(figures.median(row, "p50"), sum(parts))
    return ratio


def over_row(row, other):
    """Returns a row's rate, divided by that of another row, or of another program in the same run."""
    return lambda figures: quotient(figures.median(row, "rate"), figures.median(other, "rate"))


def farther(row, near):
    """Returns how much longer a release takes with a server than with a file, by p50, divided by the minimum: a round trip, and
    another with a commit. The file's own commit is not subtracted."""
    def ratio(figures):
        parts = [figures.median(name, "p50") for name in ("server-round-trip", "server-commit")]
        both = [figures.median(name, "p50") for name in (row, near)]
        return None if None in parts + both else (both[0] - both[1]) / sum(parts)
    return ratio


def possible(row, ceiling):
    """Returns a row's rate, divided by what its HSM token allows, or by the base's rate if the machine can do no more."""
    def ratio(figures):
        rates = [figures.median(name, "rate") for name in (row, "ec")]
        return None if None in rates else rates[0] / min(ceiling, rates[1])
    return ratio


def boundary(figures):
    """Returns the processor time of a restoration through the worker's process, divided by that within one process: each ratio
    is of two neighbouring turns, and their median counts."""
    turns = zip(*(figures.values(f"boundary-{who}", "processor") for who in ("worker", "within")))
    ratios = [worker / within for worker, within in turns]
    return statistics.median(ratios) if ratios else None


TARGETS = [
    Target("EC, 128 connections, of the raw loop", of("ec-128", "of_raw"), least=0.45),
    Target("EC, 32 connections, of the raw loop", of("ec", "of_raw"), least=0.38),
    Target("EC, 8 connections, of the raw loop", of("ec-8", "of_raw"), least=0.27),
    Target("RSA, 32 connections, of the raw loop", of("rsa", "of_raw"), least=0.72),
    *[Target(f"{connections}, processor time of a release over its parts'", over_parts(row), most=most)
      for connections, row, most in (("128 connections", "ec-128", 1.6), ("32 connections", "ec", 1.7), ("8 connections", "ec-8", 2.2),
                                     ("1 connection", "ec-1", 3.2))],
    Target("32 connections, cores in use, of two", of("ec", "cores"), least=1.85),
    Target("1 connection, p50 over the sum of its parts' p50", of_parts("ec-1", "p50"), most=2),
    Target("half of the maximum, p99 over the sum of its parts' p99", of_parts("open-half", "p99"), most=4),
    *[Target(f"20 ms in the token, {sessions} sessions, of sessions / 20 ms", of(f"latency-20-{sessions}", "of_ceiling"), least=0.95)
      for sessions in (8, 32, 64)],
    Target("EC, 128 connections, over processout/applepay in process", over_row("ec-128", "processout-ec"), least=3),
    Target("RSA, 128 connections, over processout/applepay in process", over_row("rsa-128", "processout-rsa"), least=2.2),
    Target("10,000 keys against 1, of the tokens' own ratio", against_base("keys-10000"), least=0.97),
    Target("Google Pay, cost of a release over EC_v1's, 32 connections", cost("google"), most=1.15),
    Target("EC over the same with no ledger, 32 connections", over_row("ec", "no-ledger"), least=0.8),
    Target("Payments through the gateway over EC, 32 connections", over_row("gateway", "ec"), least=0.45),
    Target("The worker's process, processor time over that within one process", boundary, most=1.1),
    Target("PostgreSQL over SQLite, 32 connections", over_row("postgresql", "ec"), least=0.8),
    Target("PostgreSQL over SQLite, 128 connections", over_row("postgresql-128", "ec-128"), least=0.8),
    Target("PostgreSQL, 1 connection, p50 beyond SQLite's over two round trips and a commit", farther("postgresql-1", "ec-1"),
           most=1),
    Target("PostgreSQL, 128 connections, 2 ms away over near", over_row("away-128", "postgresql-128"), least=0.8),
]

# Targets for scripts/test. They hold even for a debug build on a busy machine, and fail only if a row is far slower.
GUARDS = [
    Target("EC, 32 connections, of the raw loop", of("ec", "of_raw"), least=0.01),
    Target("EC, processor time of a release over a raw operation's", processor("ec"), most=60),
    Target("RSA, processor time of a release over a raw operation's", processor("rsa"), most=16),
    Target("Google Pay, cost of a release over EC_v1's, 32 connections", cost("google"), most=2),
    Target("1 connection, p50 over its processor time and one sync", waiting("ec-1"), most=8),
    Target("EC over the same with no ledger, 32 connections", over_row("ec", "no-ledger"), least=0.2),
    Target("The worker's process, processor time over that within one process", boundary, most=3),
    Target("PostgreSQL over SQLite, 32 connections", over_row("postgresql", "ec"), least=0.2),
    Target("100 ms in the token, 8 sessions, of what is possible", possible("latency-100-8", 80), least=0.3),
]
