"""The figures of every round by name, their medians and their spread."""
import collections
import statistics


class Figures:
    """Rates are per second, times in microseconds, memory in MiB."""

    def __init__(self):
        # For each name, a list with the figures of each round.
        self.rounds = collections.defaultdict(list)

    def add(self, name, figures):
        self.rounds[name].append(figures)

    def __contains__(self, name):
        return bool(self.rounds.get(name))

    def values(self, name, figure):
        return [figures[figure] for figures in self.rounds.get(name, []) if figures.get(figure) is not None]

    def median(self, name, figure):
        """Returns the median of the rounds, or None if the figure was not measured."""
        values = self.values(name, figure)
        return statistics.median(values) if values else None

    def summary(self, name):
        """Returns, for JSON, median, minimum and maximum of every figure, and the figures of every round."""
        kinds = {kind for figures in self.rounds[name] for kind in figures if self.values(name, kind)}

        def of(function):
            return {kind: round(function(self.values(name, kind)), 4) for kind in sorted(kinds)}
        return {"median": of(statistics.median), "least": of(min), "most": of(max),
                "rounds": [{kind: round(value, 4) for kind, value in figures.items() if value is not None}
                           for figures in self.rounds[name]]}
