"""Pictures as SVG, styled by the page, so that they follow its light or dark scheme."""

from collections.abc import Mapping, Sequence

import numpy as np
from markupsafe import Markup

from keras_mmil._support.formatting import number_text, percent
from keras_mmil._support.types import Array, Config

__all__ = ["bar", "calibration_plot", "curves", "heat_map", "line", "points", "star"]

_CELL, _LEFT, _TOP, _BOTTOM, _LEAST_WIDTH = 46, 44, 24, 44, 300  # of a heat map, in pixels
_STRETCHED = Markup('<svg preserveAspectRatio="none"')  # to the width of its column
_MOST_NUMBERS = 12  # columns of a heat map with a number in each cell


def _svg(width: float, height: float, body: str, label: str, kind: str) -> Markup:
    head = Markup(
        '<svg class="{}" viewBox="0 0 {} {}" width="{}" height="{}" role="img" aria-label="{}">'
    ).format(kind, round(width, 1), round(height, 1), round(width), round(height), label)
    return Markup(f"{head}{body}</svg>")  # made of numbers and escaped texts


def bar(share: float, low: float | None = None, high: float | None = None) -> Markup:
    """A share and its interval."""
    body = '<rect class="back" width="200" height="12" rx="3"/>'
    body += f'<rect class="fill" width="{200 * share:.1f}" height="12" rx="3"/>'
    if low is not None and high is not None:
        ends = f'x1="{200 * low:.1f}" x2="{200 * high:.1f}"'
        body += f'<line class="whisker" {ends} y1="6" y2="6"/>'
        for end in (low, high):
            body += (
                f'<line class="whisker" x1="{200 * end:.1f}" x2="{200 * end:.1f}" y1="2" y2="10"/>'
            )
    return _svg(200, 12, body, percent(share), "bar").replace(Markup("<svg"), _STRETCHED, 1)


def heat_map(
    values: Array,
    rows: Sequence[object],
    columns: Sequence[object],
    chosen: tuple[int, int],
    titles: tuple[str, str],
) -> Markup:
    """Fidelities of pairs of numbers of clusters; NaN where none was tried.

    The first row is at the bottom. `titles` are those of the axis of rows and that of columns.
    """
    cell = _CELL if len(columns) <= _MOST_NUMBERS else 24
    width = max(_LEFT + cell * len(columns) + 8, _LEAST_WIDTH)
    height = _TOP + 28 * len(rows) + _BOTTOM
    # Tones go by rank, because small differences in fidelity may matter.
    ranks = np.unique(values[np.isfinite(values)])
    parts = []
    for r in range(len(rows)):
        y = _TOP + 28 * (len(rows) - 1 - r)
        parts.append(f'<text x="{_LEFT - 8}" y="{y + 18}" text-anchor="end">{rows[r]}</text>')
        for c in range(len(columns)):
            x, value = _LEFT + cell * c, values[r, c]
            if not np.isfinite(value):
                parts.append(f'<rect class="none" x="{x}" y="{y}" width="{cell}" height="28"/>')
                continue
            tone = 4 - 4 * int(len(ranks) - 1 - np.searchsorted(ranks, value)) // max(len(ranks), 1)
            parts.append(
                f'<g class="tone{tone}"><title>{rows[r]}, {columns[c]}: {percent(value, 2)}</title>'
                f'<rect x="{x}" y="{y}" width="{cell}" height="28"/>'
            )
            if len(columns) <= _MOST_NUMBERS:
                text = f"{100 * value:.1f}"
                parts.append(
                    f'<text x="{x + cell / 2}" y="{y + 18}" text-anchor="middle">{text}</text>'
                )
            parts.append("</g>")
    bottom = _TOP + 28 * len(rows)
    for c, name in enumerate(columns):
        middle = _LEFT + cell * (c + 0.5)
        parts.append(f'<text x="{middle}" y="{bottom + 16}" text-anchor="middle">{name}</text>')
    r, c = chosen
    parts.append(
        f'<rect class="chosen" x="{_LEFT + cell * c}" y="{_TOP + 28 * (len(rows) - 1 - r)}" '
        f'width="{cell}" height="28"/>'
    )
    for text, y in ((f"↑ {titles[0]}", 14), (f"→ {titles[1]}", bottom + 36)):
        parts.append(Markup('<text x="{}" y="{}">{}</text>').format(_LEFT - 16, y, text))
    return _svg(width, height, "".join(parts), f"{titles[0]} by {titles[1]}", "grid")


def line(xs: Sequence[float], shares: Sequence[float], chosen: int, title: str) -> Markup:
    """Fidelities of numbers of clusters of one level."""
    order = np.argsort(xs)
    x, y = np.asarray(xs, float)[order], 100 * np.asarray(shares)[order]
    low, high = y.min(), y.max()
    across = 60 + 380 * (x - x[0]) / max(x[-1] - x[0], 1)
    up = 140 - 120 * (y - low) / max(high - low, 1e-9)
    path = " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(across, up, strict=True))
    parts = [f'<polyline class="curve" points="{path}"/>']
    for a, b, n, share in zip(across, up, x, y, strict=True):
        parts.append(
            f'<circle class="dot" cx="{a:.1f}" cy="{b:.1f}" r="4"><title>{n:g}: {share:.2f} %'
            f'</title></circle><text x="{a:.1f}" y="164" text-anchor="middle">{n:g}</text>'
        )
    best = list(x).index(xs[chosen])
    parts.append(f'<circle class="chosen" cx="{across[best]:.1f}" cy="{up[best]:.1f}" r="9"/>')
    parts += [
        f'<text x="52" y="{height}" text-anchor="end">{value:.1f}</text>'
        for value, height in ((high, 24), (low, 144))
    ]
    parts.append(Markup('<text x="250" y="184" text-anchor="middle">{}</text>').format(title))
    return _svg(460, 190, "".join(parts), title, "grid")


def curves(losses: Mapping[str, Sequence[float]]) -> Markup:
    """Losses by epoch, which begins with 1, and where the last of them is lowest."""
    series = {name: np.asarray(values, float) for name, values in losses.items()}
    known = np.concatenate([values[np.isfinite(values)] for values in series.values()])
    n = max(map(len, series.values()))
    low, high = (float(known.min()), float(known.max())) if len(known) else (0.0, 1.0)
    scale = 150 / max(high - low, 1e-9)
    parts = ['<path class="axis" d="M56 10V170H450"/>']
    for i, (name, values) in enumerate(series.items()):
        at = [
            (56 + 384 * epoch / max(n - 1, 1), 165 - (value - low) * scale)
            for epoch, value in enumerate(values)
            if np.isfinite(value)
        ]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in at)
        parts.append(f'<polyline class="curve curve{i % 3}" points="{path}"/>')
        parts.append(f'<path class="curve curve{i % 3}" d="M{150 + 150 * i} 14h24"/>')
        parts.append(Markup('<text x="{}" y="18">{}</text>').format(180 + 150 * i, name))
        if i == len(series) - 1 and at:
            best = int(np.nanargmin(values))
            x, y = at[min(best, len(at) - 1)]
            parts.append(
                f'<circle class="dot" cx="{x:.1f}" cy="{y:.1f}" r="4">'
                f"<title>lowest in epoch {best + 1}: {values[best]:.4g}</title></circle>"
            )
    for value, y in ((high, 19), (low, 169)):
        parts.append(
            f'<text x="50" y="{y}" text-anchor="end">{number_text(float(f"{value:.3g}"))}</text>'
        )
    for x, text, anchor in ((56, "1", "start"), (440, f"epoch {n}", "end")):
        parts.append(f'<text x="{x}" y="186" text-anchor="{anchor}">{text}</text>')
    return _svg(456, 192, "".join(parts), f"losses by epoch: {', '.join(series)}", "plot")


def calibration_plot(bins: Sequence[Config], what: str) -> Markup:
    """How often what has a probability is so, with intervals: see `scores.calibration`."""
    parts = [
        '<path class="axis" d="M46 10V210H250"/>',
        '<path class="diagonal" d="M46 210L246 10"/>',
    ]
    for each in bins:
        observed = each["observed"]
        x, y = 46 + 200 * each["mean"], 210 - 200 * observed["estimate"]
        if observed["low"] is not None:
            ends = (210 - 200 * observed[end] for end in ("low", "high"))
            low, high = (f"{end:.1f}" for end in ends)
            parts.append(f'<path class="whisker" d="M{x:.1f} {low}V{high}"/>')
        parts.append(
            f'<circle class="dot" cx="{x:.1f}" cy="{y:.1f}" r="5"><title>{percent(each["mean"])}: '
            f"{percent(observed['estimate'])} of {observed['n']}</title></circle>"
        )
    for value, text in ((0, "0 %"), (0.5, "50 %"), (1, "100 %")):
        parts.append(f'<text x="40" y="{214 - 200 * value:.0f}" text-anchor="end">{text}</text>')
        x, anchor = (46 + 200 * value, "middle" if value else "start")
        parts.append(f'<text x="{x:.0f}" y="226" text-anchor="{anchor}">{text}</text>')
    parts.append(Markup('<text x="146" y="244" text-anchor="middle">{}</text>').format(what))
    label = f"how often it is so, by {what}"
    return _svg(270, 250, "".join(parts), label, "plot")


def points(
    dots: Array, classes: Sequence[str], label: str, others: Array | None = None, size: int = 220
) -> Markup:
    """Dots in the plane, each of a class of the page's style.

    Args:
        dots: x and y, upwards, float [n, 2].
        classes: of each: "decides", "limited", "checked", "idle".
        label: for screen readers.
        others: more dots, which extend the limits and are drawn faintly; None for none.
        size: of the longer side, pixels.
    """
    everything = dots if others is None else np.concatenate([others, dots])
    if not len(everything):
        return _svg(size, 20, "", label, "points")
    low, high = everything.min(axis=0), everything.max(axis=0)
    scale = (size - 16) / max(float((high - low).max()), 1e-9)
    width, height = (high - low) * scale + 16

    def at(dot: Array) -> str:
        x, y = (dot - low) * scale + 8
        return f'cx="{x:.0f}" cy="{height - y:.0f}"'

    parts = []
    if others is not None:
        squares = "".join(
            f"M{(p[0] - low[0]) * scale + 7:.0f} {height - (p[1] - low[1]) * scale - 9:.0f}h2v2h-2z"
            for p in others
        )
        parts.append(f'<path class="around" d="{squares}"/>')
    order = sorted(range(len(dots)), key=lambda i: classes[i] != "idle")
    parts += [
        f'<circle class="{classes[i]}" {at(dots[i])} r="{2 if classes[i] == "idle" else 3.5}"/>'
        for i in order
    ]
    return _svg(float(width), float(height), "".join(parts), label, "points")


def star(names: Sequence[str], classes: Sequence[str], label: str) -> Markup:
    """A node and its neighbours, given by their names and classes, as for `points`."""
    n = max(len(names), 1)
    angles = 2 * np.pi * np.arange(len(names)) / n - np.pi / 2
    parts, circles = [], []
    for name, kind, angle in zip(names, classes, angles, strict=True):
        x, y = 90 + 62 * np.cos(angle), 70 + 50 * np.sin(angle)
        parts.append(f'<line class="edge" x1="90" y1="70" x2="{x:.0f}" y2="{y:.0f}"/>')
        circles.append(
            Markup(
                '<circle class="{}" cx="{:.0f}" cy="{:.0f}" r="6"><title>{}</title></circle>'
            ).format(kind, x, y, name)
        )
    circles.append(Markup('<circle class="centre" cx="90" cy="70" r="7"/>'))
    return _svg(180, 140, "".join([*parts, *circles]), label, "points")
