"""Time: ms a token by context length as curves, the gaps between tokens as a sparkline, or as a histogram."""

from __future__ import annotations

from typing import Any

import numpy as np

from inspector import film
from inspector.tui.lines import ATTENTION, DIM, FLOOR, GEMM, PLAIN, STRONG, TITLE, UNKNOWN, Line, Page, bar, clip, fit
from inspector.tui.plot import Canvas, Floats, medians_along, nice_above, sparkline
from inspector.tui.sample import Sample
from traces.metrics import floor_of, least_ms

LABEL = 6
"""Cells of the y axis's numbers"""
END_LABELS = 11
LEAST_PLOT = 12


def times(sample: Sample, newest: Floats, run: dict[str, Any], width: int, height: int, ascii: bool) -> Page:
    """The ITL sparkline, then ms a token against context length. newest: the latest gaps in ms."""
    top = [_itl_line(newest, width, ascii)] if len(newest) else []
    lines = _plot(sample, run, width, height - len(top), ascii)
    return Page(top=top, lines=lines)


def _itl_line(gaps: Floats, width: int, ascii: bool) -> Line:
    words = f"{film.milliseconds(float(gaps[-1]))} ms"
    room = width - len("ITL ") - len(words) - 1
    spark = sparkline(gaps, max(0, min(room, 60)), ascii)
    return clip([("ITL ", TITLE), (spark, PLAIN), (" " + words, STRONG)], width)


def _plot(sample: Sample, run: dict[str, Any], width: int, height: int, ascii: bool) -> list[Line]:
    context, gemm, attention = sample.by_context()
    if not (np.isfinite(gemm).any() or np.isfinite(attention).any()):
        return [[("no time in matrix products or attention is recorded" if sample.of else "no step yet", UNKNOWN)]]
    ends = END_LABELS if width >= 40 else 0
    across, down = width - LABEL - 2 - ends, height - 3
    if across < LEAST_PLOT or down < 2:
        return [[("the window is too small for a plot", UNKNOWN)]]
    low, high = int(context.min()), int(context.max())
    canvas = Canvas(across, down, ascii)
    curves = [
        ("attn", ATTENTION, "o", 1 if ascii else 2, medians_along(context, attention, low, high, canvas.columns)),
        ("GEMM", GEMM, "#", 1, medians_along(context, gemm, low, high, canvas.columns)),
    ]
    floor = floor_of(run)
    if floor is not None:
        least = least_ms(floor, np.linspace(low, high, canvas.columns))
        curves.insert(0, ("floor", FLOOR, "-", 2 if ascii else 4, least))
    top = nice_above(max(float(np.nanmax(values)) for *_, values in curves if np.isfinite(values).any()) * 1.05 or 1.0)
    labels: dict[int, Line] = {}
    for name, role, sign, every, values in curves:
        canvas.curve((values / top).tolist(), role, sign, every)
        if ends and np.isfinite(values[-1]):
            last = float(values[-1])
            _label(labels, last / top, down, (f" {name} {film.milliseconds(last)}", role))
    title: Line = [("ms a token by context length", TITLE), (" (medians)", DIM)]
    return [clip(line, width) for line in (title, *_framed(canvas, labels, top, low, high))]


def _label(labels: dict[int, Line], share: float, rows: int, part: tuple[str, str]) -> None:
    """A curve's name where it ends, in the nearest row that is free."""
    y = rows - 1 - min(int(min(share, 1) * rows), rows - 1)
    for row in sorted(range(rows), key=lambda row: abs(row - y)):
        if row not in labels:
            labels[row] = [part]
            return


def _framed(canvas: Canvas, labels: dict[int, Line], top: float, low: int, high: int) -> list[Line]:
    """The canvas between its axes."""
    wall, corner, ground = ("|", "+", "-") if canvas.ascii else ("│", "└", "─")
    out: list[Line] = []
    for y in range(canvas.height):
        ms = {0: top, canvas.height // 2: top * (1 - (canvas.height // 2) / canvas.height)}.get(y)
        number = film.milliseconds(ms) if ms is not None and (y == 0 or canvas.height >= 6) else ""
        if len(number) > LABEL:
            number = f"{ms:.2g}"
        out.append([(fit(number, LABEL, right=True) + wall, DIM), *canvas.row(y), *labels.get(y, [])])
    out.append([(fit("0", LABEL, right=True) + corner + ground * canvas.width, DIM)])
    left, right = f"{low:,}", f"{high:,} tokens"
    gap = max(1, canvas.width - len(left) - len(right))
    out.append([(" " * (LABEL + 1) + left + " " * gap + right, DIM)])
    return out


def _told_apart(edges: Floats) -> list[str]:
    """The edges in ms, with as many digits as it takes until no two are the same."""
    names = [film.milliseconds(float(edge)) for edge in edges]
    digits = 3
    while len(set(names)) < len(names) and digits < 9:
        digits += 1
        names = [f"{edge:.{digits}f}" for edge in edges]
    return names


def histogram(sample: Sample, width: int, height: int) -> Page:
    """How the gaps between tokens (ITL) are spread: equal bins up to the 99th percentile, and what lies above."""
    gaps = sample.gaps()
    if not len(gaps):
        return Page(lines=[[("no time is recorded", UNKNOWN)]])
    p50, p90, p99 = (float(p) for p in np.percentile(gaps, (50, 90, 99)))
    words = f"p50 {film.milliseconds(p50)}  p90 {film.milliseconds(p90)}  p99 {film.milliseconds(p99)} ms"
    top: list[Line] = [clip([("ITL ", TITLE), (words, PLAIN), (f"  of {len(gaps):,} gaps", DIM)], width)]
    bins = max(2, min(height - 2, 16))
    low = float(gaps.min())
    edges = np.linspace(low, p99 if p99 > low else low + 1e-3, bins + 1)
    counts = np.histogram(gaps[gaps <= edges[-1]], edges)[0].tolist()
    names = _told_apart(edges)
    rows = [(f"{a}–{b}", n) for a, b, n in zip(names, names[1:], counts, strict=False)]
    above = int((gaps > edges[-1]).sum())
    if above:
        rows.append((f"above {names[-1]}", above))
    name = max(len(label) for label, _ in rows)
    size = len(f"{max(n for _, n in rows):,}")
    most = max(n for _, n in rows)
    room = width - name - size - 6
    lines: list[Line] = [
        clip([(fit(label, name, right=True) + " ms ", PLAIN), (fit(f"{n:,}", size, right=True) + " ", DIM),
              (bar(n / most, room), GEMM)], width)
        for label, n in rows
    ]  # fmt: skip
    return Page(top=top, lines=lines)
