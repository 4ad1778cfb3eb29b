"""Writes an SVG plot of each row: releases a second, compared with the raw loop, and the time that a caller waits. It is
readable on light and dark pages."""
import html
import math

import peers

LABELS, PLOT, GAP, RIGHT = 290, 300, 60, 40
TOP, STEP, BAR = 74, 24, 12
WIDTH = LABELS + PLOT + GAP + PLOT + RIGHT
STYLE = """
text { font: 12px system-ui, sans-serif; fill: #1f2328; }
.title { font-weight: 600; font-size: 13px; }
.soft { fill: #59636e; font-size: 11px; }
.grid { stroke: #d1d9e0; }
.bar { fill: #0969da; }
.peer { fill: #8c959f; }
.spread, .range { stroke: #1f2328; stroke-width: 1.5; }
.range { stroke: #0969da; stroke-width: 2; }
.dot { fill: #0969da; }
.tail { fill: #ffffff; stroke: #0969da; stroke-width: 2; }
.raw { stroke: #bc4c00; stroke-width: 2.5; }
.word { fill: #bc4c00; font-size: 11px; }
@media (prefers-color-scheme: dark) {
text { fill: #e6edf3; }
.soft { fill: #9198a1; }
.grid { stroke: #3d444d; }
.bar, .dot { fill: #4493f8; }
.peer { fill: #656c76; }
.spread { stroke: #e6edf3; }
.range, .tail { stroke: #4493f8; }
.tail { fill: #0d1117; }
.raw { stroke: #f0883e; }
.word { fill: #f0883e; }
}"""


def step(largest):
    """Returns the distance of grid lines: 1, 2 or 5 with zeros, so that there are at most six."""
    for power in range(0, 10):
        for digit in (1, 2, 5):
            if largest / (digit * 10 ** power) <= 6:
                return digit * 10 ** power
    return largest


def text(x, y, words, kind="", anchor="start"):
    return f'<text x="{x:.0f}" y="{y:.0f}" class="{kind}" text-anchor="{anchor}">{html.escape(words)}</text>'


def rule(x1, y1, x2, y2, kind):
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" class="{kind}"/>'


def svg(bench, made):
    figures = bench.figures
    lines = [(row.name, row.title, "bar") for row in bench.rows if row.name in figures]
    lines += [(name, title, "peer") for name, title in peers.TITLES.items() if name in figures]
    bottom = TOP + STEP * len(lines)
    parts = [
        text(0, 16, "paytokend: releases a second, and how long callers wait", "title"),
        text(0, 34, f"{made['processor']}, {made['cores']} cores; {made['build']}, commit {made['commit']}, {made['date'][:10]}", "soft"),
        text(LABELS, TOP - 14, "releases a second", "soft"),
        text(LABELS + PLOT, TOP - 14, "the raw loop on the same token", "word", "end"),
        text(LABELS + PLOT + GAP, TOP - 14, "milliseconds: p50 to p99 ●, p99.9 ○", "soft")]

    fastest = max(max(figures.values(name, "rate") + figures.values(name, "raw")) for name, _, _ in lines)
    each = step(fastest)
    def rate_x(value):
        return LABELS + PLOT * value / fastest
    for number in range(int(fastest / each) + 1):
        x = rate_x(number * each)
        parts += [rule(x, TOP - 6, x, bottom, "grid"), text(x, bottom + 16, f"{number * each:,}", "soft", "middle")]

    shortest = min(figures.median(name, "p50") for name, _, _ in lines)
    longest = max(figures.median(name, "p999") for name, _, _ in lines)
    low, high = math.floor(math.log10(shortest / 1000)), math.ceil(math.log10(longest / 1000))
    def time_x(microseconds):
        return LABELS + PLOT + GAP + PLOT * (math.log10(microseconds / 1000) - low) / max(high - low, 1)
    for power in range(low, high + 1):
        x = time_x(1000 * 10.0 ** power)
        parts += [rule(x, TOP - 6, x, bottom, "grid"), text(x, bottom + 16, f"{10.0 ** power:g}", "soft", "middle")]

    for number, (name, title, kind) in enumerate(lines):
        middle = TOP + STEP * number + STEP / 2 - 3
        rate, rates = figures.median(name, "rate"), figures.values(name, "rate")
        parts.append(text(0, middle + 4, title))
        parts.append(f'<rect x="{LABELS}" y="{middle - BAR / 2:.1f}" width="{rate_x(rate) - LABELS:.1f}" height="{BAR}" class="{kind}"/>')
        parts.append(rule(rate_x(min(rates)), middle, rate_x(max(rates)), middle, "spread"))
        raw = figures.median(name, "raw")
        if raw is not None:
            parts.append(rule(rate_x(raw), middle - BAR / 2 - 3, rate_x(raw), middle + BAR / 2 + 3, "raw"))
        if raw is None or rate_x(rate) + 45 < rate_x(raw):
            parts.append(text(max(rate_x(rate), rate_x(max(rates))) + 5, middle + 4, f"{rate:,.0f}", "soft"))
        p50, p99, p999 = (time_x(figures.median(name, figure)) for figure in ("p50", "p99", "p999"))
        parts += [rule(p50, middle, p999, middle, "range"),
                  *[f'<circle cx="{x:.1f}" cy="{middle:.1f}" r="3.5" class="dot"/>' for x in (p50, p99)],
                  f'<circle cx="{p999:.1f}" cy="{middle:.1f}" r="3" class="tail"/>']
    height = bottom + 26
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:.0f}" width="{WIDTH}" height="{height:.0f}" '
            f'role="img" aria-label="Releases a second and waiting times of paytokend">\n<style>{STYLE}\n</style>\n'
            + "\n".join(parts) + "\n</svg>\n")
