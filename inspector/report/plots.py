"""The pictures of a report as inline SVG: text stays text, colours are the page's own variables, each has a name and a
description for those who do not see it.

matplotlib draws them. It is an extra and slow to import, so this module is imported only where a page is made.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from xml.etree import ElementTree

import matplotlib
import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter, MaxNLocator

from inspector.film import milliseconds
from traces.significance import Floats

# matplotlib knows no CSS variables: each is drawn in a colour that nothing else has and named afterwards
_COLOURS = {
    name: f"#0f0e{number:02x}"
    for number, name in enumerate(("ink", "grid", "total", "gemm", "attn", "floor", "slower", "faster", "undecided"))
}
_SETTINGS: dict[Any, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "stepscope",
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.linewidth": 0.6,
    "legend.frameon": False,
    "figure.constrained_layout.use": True,
    **{f"{part}.color": _COLOURS["ink"] for part in ("text", "xtick", "ytick")},
    "axes.labelcolor": _COLOURS["ink"],
    "axes.edgecolor": _COLOURS["ink"],
    "grid.color": _COLOURS["grid"],
}
_SVG = "http://www.w3.org/2000/svg"
_LINK = "http://www.w3.org/1999/xlink"
_WIDTH = 7.6
_MOST_POINTS = 200
_WIDE = 8
_MOST_NAMED_TICKS = 12
STRETCHES = 60


@dataclass(frozen=True)
class Plot:
    """svg: the element, with its accessible name in it. said: what the picture leaves out, for its caption."""

    svg: str
    said: str


@contextmanager
def _ours() -> Iterator[None]:
    """Our settings alone, whatever the user's matplotlibrc says."""
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(_SETTINGS)
        yield


def time_against_context(context: Floats, parts: dict[str, Floats], floor: list[tuple[float, float]]) -> Plot:
    """Milliseconds of steps against the sequence's length.

    context: (steps,) tokens. parts: "total", "gemm", "attn", each (steps,) ms, NaN where absent, or left out. floor:
    (tokens, least ms) of points on the floor, empty where it is not known.
    """
    words = {"total": "whole step", "gemm": "GEMM", "attn": "attention"}
    with _ours():
        figure = Figure(figsize=(_WIDTH, 3.2))
        axes = figure.subplots()
        for name, values in parts.items():
            _steps_or_band(axes, context, values, name, words[name])
        if floor:
            axes.plot(*zip(*floor, strict=True), color=_COLOURS["floor"], linestyle="--", label="floor")
        axes.set_ylabel("ms a step")
        _count_tokens(axes, 8)
        said = _scale(axes, parts.get("total", next(iter(parts.values()))))
        figure.legend(loc="outside upper center", ncols=4)
    if len(context) > _MOST_POINTS:
        said = f"lines are medians of {STRETCHES} stretches, the bands hold the middle 80 % of their steps{said}"
    else:
        said = f"one dot a step{said}"
    return Plot(_svg(figure, "Time a step against context length", _trend(context, parts, words, floor)), said)


def layer_map(context: Floats, parts: dict[str, Floats]) -> Plot:
    """Milliseconds of each layer, by the sequence's length, as colours.

    context: (steps,) tokens. parts: "gemm", "attn", each (steps, layers) ms, or left out.
    """
    words = {"gemm": "GEMM", "attn": "attention"}
    with _ours():
        figure = Figure(figsize=(_WIDTH, 3.4))
        panels = figure.subplots(1, len(parts), sharey=True, squeeze=False)[0]
        for axes, (name, values) in zip(panels, parts.items(), strict=True):
            image = _layer_colours(axes, context, values)
            figure.colorbar(image, ax=axes, label=f"{words[name]}, ms", extend="both")
        panels[0].set_ylabel("layer")
    slowest = [
        f"In {words[name]} layer {int(np.nanargmax(middle))} is the slowest with {milliseconds(np.nanmax(middle))} ms, "
        f"the median layer takes {milliseconds(np.nanmedian(middle))} ms."
        for name, middle in ((name, layer_medians(values)) for name, values in parts.items())
        if np.isfinite(middle).any()
    ]
    said = "each cell is the median of its steps; colours end at the 1st and 99th percentile"
    return Plot(_svg(figure, "Time of each layer by context length", " ".join(slowest)), said)


def gap_histogram(gaps: Floats, percentiles: dict[str, float]) -> Plot:
    """How the gaps between tokens are distributed. gaps: (n,) ms; percentiles: name -> ms, drawn as lines."""
    low, high = float(gaps.min()), float(gaps.max())
    is_wide = low > 0 and high > 10 * low
    # gaps that are all alike are one bar, not the noise of their last digits
    edges = np.geomspace(low, high, 41) if is_wide else np.linspace(low, max(high, low * 1.01, low + 0.001), 41)
    with _ours():
        figure = Figure(figsize=(_WIDTH, 2.6))
        axes = figure.subplots()
        axes.hist(gaps, edges.tolist(), color=_COLOURS["total"])
        for (name, value), style in zip(percentiles.items(), ("-", "--", ":"), strict=False):
            axes.axvline(value, color=_COLOURS["ink"], linestyle=style, label=f"{name} {milliseconds(value)} ms")
        axes.set(xlabel="ms from token to token" + (" (logarithmic)" if is_wide else ""), ylabel="gaps")
        axes.yaxis.set_major_locator(MaxNLocator(integer=True))
        if is_wide:
            axes.set_xscale("log")
            axes.xaxis.set_major_formatter("{x:g}")
        figure.legend(loc="outside upper center", ncols=4)
    told = ", ".join(f"{name} {milliseconds(value)} ms" for name, value in percentiles.items())
    desc = f"{len(gaps):,} gaps from {milliseconds(low)} to {milliseconds(high)} ms; {told}."
    return Plot(_svg(figure, "Inter-token latency", desc), f"all {len(gaps):,} gaps")


def ratios(lines: Sequence[tuple[str, float, float | None, float | None, str]]) -> Plot:
    """new / base of each line with its 95 % interval. lines: (name, ratio, low, high, verdict)."""
    with _ours():
        figure = Figure(figsize=(_WIDTH, 0.9 + 0.24 * len(lines)))
        axes = figure.subplots()
        axes.axvline(1, color=_COLOURS["ink"], linewidth=1)
        for y, (_, ratio, low, high, verdict) in enumerate(lines):
            colour = _COLOURS.get(verdict, _COLOURS["undecided"])
            if low is not None and high is not None:
                axes.plot([low, high], [y, y], color=colour, linewidth=2)
            axes.plot([ratio], [y], color=colour, marker="o", markersize=5)
        axes.set_yticks(range(len(lines)), [name for name, *_ in lines])
        axes.set_ylim(len(lines) - 0.5, -0.5)
        axes.set_xlabel("new / base: left of 1 is faster")
    desc = " ".join(f"{name}: {ratio:.3f}, {verdict.replace('-', ' ')}." for name, ratio, _, _, verdict in lines)
    return Plot(_svg(figure, "Times of the new build over those of the base", desc), "bars are 95 % intervals")


def stretches(context: Floats) -> tuple[Floats, Any]:
    """(centres, which one each step is in) of at most STRETCHES equal stretches of context."""
    low, high = float(context.min()), float(context.max())
    n = int(min(STRETCHES, high - low + 1))
    width = (high - low + 1) / n
    centres = np.asarray(low - 0.5 + width * (np.arange(n) + 0.5), np.float64)
    return centres, np.minimum((context - low) // width, n - 1).astype(np.int64)


def layer_medians(values: Floats) -> Floats:
    """The median ms of each layer over (steps, layers); NaN for a layer that was never timed."""
    return np.array([_quantiles(column, (50,))[0] for column in values.T])


def _quantiles(values: Floats, percents: Sequence[int]) -> Floats:
    """Of the values that are there; NaN where none is."""
    present = values[np.isfinite(values)]
    return np.percentile(present, percents) if len(present) else np.full(len(percents), np.nan)


def _steps_or_band(axes: Any, context: Floats, values: Floats, name: str, label: str) -> None:
    colour = _COLOURS[name]
    if len(context) <= _MOST_POINTS:
        axes.plot(context, values, color=colour, linestyle="", marker=".", markersize=5, label=label)
        return
    centres, which = stretches(context)
    low, middle, high = np.array([_quantiles(values[which == i], (10, 50, 90)) for i in range(len(centres))]).T
    axes.fill_between(centres, low, high, color=colour, alpha=0.2, linewidth=0)
    axes.plot(centres, middle, color=colour, label=label)


def _count_tokens(axes: Any, ticks: int) -> None:
    axes.set_xlabel("context (tokens)")
    axes.xaxis.set_major_locator(MaxNLocator(ticks, integer=True))
    axes.xaxis.set_major_formatter(EngFormatter(sep=""))


def _scale(axes: Any, values: Floats) -> str:
    """From 0 up; logarithmic where a few slow steps would press all others to the ground. What to say of it."""
    present = values[np.isfinite(values) & (values > 0)]
    if len(present) and np.percentile(present, 99) > _WIDE * np.median(present):
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter("{x:g}")
        return "; the scale is logarithmic"
    axes.set_ylim(bottom=0)
    return ""


def _layer_colours(axes: Any, context: Floats, values: Floats) -> Any:
    centres, which = stretches(context)
    cells = np.array([layer_medians(values[which == i]) for i in range(len(centres))]).T
    low, high = _quantiles(cells.reshape(-1), (1, 99))
    half = (centres[1] - centres[0]) / 2 if len(centres) > 1 else 0.5
    extent = (centres[0] - half, centres[-1] + half, len(cells) - 0.5, -0.5)
    axes.grid(False)
    axes.yaxis.set_major_locator(MaxNLocator(_MOST_NAMED_TICKS, integer=True))
    _count_tokens(axes, 5)
    # "none": the cells themselves are embedded, one pixel each
    return axes.imshow(cells, aspect="auto", interpolation="none", extent=extent, vmin=low, vmax=high)


def _trend(context: Floats, parts: dict[str, Floats], words: dict[str, str], floor: list[tuple[float, float]]) -> str:
    """What the lines do, in a sentence each."""
    centres, which = stretches(context)
    ends = [(round(float(context[which == i].mean())), which == i) for i in (0, len(centres) - 1)]
    told = []
    for name, values in parts.items():
        first, last = (milliseconds(float(_quantiles(values[inside], (50,))[0])) for _, inside in ends)
        told.append(f"{words[name]}: {first} ms at {ends[0][0]} tokens, {last} ms at {ends[1][0]}.")
    if floor:
        told.append(f"Floor: {milliseconds(floor[0][1])} ms to {milliseconds(floor[-1][1])} ms.")
    return " ".join(told)


def _svg(figure: Figure, title: str, desc: str) -> str:
    """The figure as an element to stand in a page: named, without what only a file of its own needs."""
    drawn = io.BytesIO()
    with _ours():
        figure.savefig(
            drawn, format="svg", transparent=True, metadata=dict.fromkeys(("Creator", "Date", "Format", "Type"))
        )
    for prefix, space in (("", _SVG), ("xlink", _LINK)):
        ElementTree.register_namespace(prefix, space)
    root = ElementTree.fromstring(drawn.getvalue())
    for group in root.iter(f"{{{_SVG}}}g"):
        group.attrib.pop("id", None)  # every figure numbers its parts alike
    for attribute in ("width", "height", "version"):
        root.attrib.pop(attribute, None)
    root.set("role", "img")
    for position, (tag, text) in enumerate((("title", title), ("desc", desc))):
        element = ElementTree.Element(f"{{{_SVG}}}{tag}")
        element.text = text
        root.insert(position, element)
    root.set("aria-label", f"{title}. {desc}")
    text = ElementTree.tostring(root, encoding="unicode")
    for name, colour in _COLOURS.items():
        text = text.replace(colour, f"var(--{name})")
    return text
