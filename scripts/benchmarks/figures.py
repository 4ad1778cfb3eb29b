"""The figures of every round by name, their medians and their spread."""
import collections
import math
import statistics


def student(freedom):
    """Returns Student's t for a two-sided 95 % interval, to one part in a hundred from two degrees of freedom on."""
    return 1.96 + 2.37 / freedom + 2.82 / freedom ** 2 + 2.56 / freedom ** 3 + 1.6 / freedom ** 4


class Figures:
    """Rates are per second, times in microseconds, memory in MiB."""

    def __init__(self, others=None):
        """others: rounds of a row in which other programs took more cores than this are not counted; None counts all."""
        # For each name, a list with the figures of each round.
        self.rounds = collections.defaultdict(list)
        self.others, self.dropped = others, 0

    def add(self, name, figures):
        """Returns false if the round is not counted."""
        counts = self.others is None or figures.get("others", 0) <= self.others
        if counts:
            self.rounds[name].append(figures)
        else:
            self.dropped += 1
        return counts

    def __contains__(self, name):
        return bool(self.rounds.get(name))

    def values(self, name, figure):
        return [figures[figure] for figures in self.rounds.get(name, []) if figures.get(figure) is not None]

    def median(self, name, figure):
        """Returns the median of the rounds, or None if the figure was not measured."""
        values = self.values(name, figure)
        return statistics.median(values) if values else None

    def interval(self, name, figure):
        """Returns the geometric mean of a ratio over the rounds, and the ends of its 95 % interval; None for fewer than three."""
        logarithms = [math.log(value) for value in self.values(name, figure)]
        if len(logarithms) < 3:
            return None
        mean, half = statistics.mean(logarithms), student(len(logarithms) - 1) * statistics.stdev(logarithms) / len(logarithms) ** 0.5
        return math.exp(mean), math.exp(mean - half), math.exp(mean + half)

    def summary(self, name):
        """Returns, for JSON, median, minimum and maximum of every figure, and the figures of every round."""
        kinds = {kind for figures in self.rounds[name] for kind in figures if self.values(name, kind)}

        def of(function):
            return {kind: round(function(self.values(name, kind)), 4) for kind in sorted(kinds)}
        return {"median": of(statistics.median), "least": of(min), "most": of(max),
                "rounds": [{kind: round(value, 4) for kind, value in figures.items() if value is not None}
                           for figures in self.rounds[name]]}
