"""The effect of daemon replacements on callers: a table with a row for each replacement, and what is wrong."""
import collections

import load
import proof

# The seconds after a restart until the load counts as quiet again, and the length in seconds of the windows into which payments
# are grouped by their due times.
SETTLING, WINDOW = 3.0, 0.1

Restart = collections.namedtuple("Restart", "label nodes struck ended released")


class Restarts:
    """The replacements during a load. callers: a running callers.Callers. quiet: the seconds without a restart before and after
    each one."""

    def __init__(self, callers, quiet, heads=("drained", "serves")):
        self.callers, self.quiet, self.heads, self.all = callers, quiet, heads, []

    def note(self, label, nodes, struck, ended):
        """Notes a replacement between these times. Returns once each node has released a payment since, and the load is quiet
        again."""
        self.all.append(Restart(label, nodes, struck, ended, self.callers.wait_for_releases(nodes, ended)))
        self.callers.steady(SETTLING + self.quiet)

    def _percentile(self, payments):
        return load.percentile(sorted(payment.ended - payment.due for payment in payments), 0.99)

    def _doubled(self, payments, limit):
        """Returns the seconds during which p99 was more than the limit, which is twice that of quiet times."""
        windows = collections.defaultdict(list)
        for payment in payments:
            windows[int(payment.due / WINDOW)].append(payment)
        return sum(self._percentile(window) > limit for window in windows.values()) * WINDOW

    def table(self):
        payments = [payment for payment in self.callers.payments if payment.ended]
        spans = [(each.struck - 1, each.released + SETTLING) for each in self.all]
        still = [each for each in payments if not any(since <= each.due < until for since, until in spans)]
        print(f"{'':22}{self.heads[0]:>11}{self.heads[1]:>9}{'closed':>8}{'503':>6}{'p99 before':>12}{'during':>10}{'after':>10}"
              f"{'doubled':>9}")
        for each in self.all:
            until = each.released + SETTLING
            mine = [payment for payment in payments if payment.node in each.nodes]
            before = [payment for payment in mine if each.struck - 1 - self.quiet <= payment.due < each.struck - 1]
            during = [payment for payment in mine if each.struck <= payment.due < each.released]
            after = [payment for payment in mine if each.released <= payment.due < until]
            touched = [payment for payment in mine if each.struck - 1 <= payment.due < until]
            doubled = self._doubled([payment for payment in mine if each.struck <= payment.due < until],
                                    2 * self._percentile(before))
            print(f"{each.label:22}{each.ended - each.struck:9.2f} s{each.released - each.ended:7.2f} s"
                  f"{sum(payment.closed for payment in touched):8}{sum(payment.unavailable for payment in touched):6}"
                  f"{self._percentile(before):9.0f} ms{self._percentile(during):7.0f} ms{self._percentile(after):7.0f} ms"
                  f"{doubled:7.1f} s")
        quiet = 2 * self._percentile(still)
        print(f"quiet times {self._percentile(still):.0f} ms p99, doubled in {self._doubled(still, quiet):.1f} s of "
              f"{len({int(payment.due / WINDOW) for payment in still}) * WINDOW:.0f} s")

    def finish(self, ledger):
        """Ends the load and compares the answers with the ledger, as proof.compare takes it. Returns what is wrong."""
        self.callers.finish()
        self.table()
        payments, answers = self.callers.payments, self.callers.answers
        unanswered = sum(payment.ended is None for payment in payments)
        found, counts = proof.compare(ledger, answers)
        wrong = self.callers.wrong + answers.wrong + found
        wrong += [f"{count} payments were refused: {code}" for code, count in self.callers.refused.items()]
        if unanswered:
            wrong.append(f"{unanswered} payments were never answered")
        print(f"payments    {len(payments)}: refused {sum(self.callers.refused.values())}, lost {unanswered + counts['lost']}, "
              f"wrong {len(self.callers.wrong) + len(answers.wrong)}, released twice {counts['twice']}")
        print(f"repeated    {sum(payment.closed for payment in payments)} after a closed connection, "
              f"{sum(payment.unavailable for payment in payments)} after a 503; "
              f"{len(answers.repeated)} had been released before")
        return wrong
