"""Time of the new run over the base's, a layer a cell: a strip of numbers, with a sign where one is off.

What one step took is shown as it was measured; what the whole runs took comes with the verdict of `traces.timing`,
which may be that nothing can be decided.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from inspector import film
from inspector.film import Step
from inspector.tui.lines import DIM, PLAIN, STRONG, TITLE, UNKNOWN, Line, Page, clip, fit, length, wrap

if TYPE_CHECKING:
    from traces.diff import Diff
    from traces.timing import TimeLine

FEW, MUCH = 1.03, 1.25
"""Off by less is level; off by more is a lot"""
SLOWER, MUCH_SLOWER, LEVEL, FASTER, MUCH_FASTER = "△", "▲", "·", "▽", "▼"
ROLES = {
    SLOWER: "slower", MUCH_SLOWER: "much-slower", LEVEL: PLAIN, FASTER: "faster", MUCH_FASTER: "much-faster", "?": DIM,
}  # fmt: skip
NAME, CELL, WHOLE = 6, 6, 8
_MOST_NAMED = 3


@dataclass(frozen=True)
class Part:
    """One part of the time. whole, layers: new / base, None where it is not known; no layers where none were timed."""

    name: str
    whole: float | None
    layers: tuple[float | None, ...] = ()


@dataclass(frozen=True)
class Ratios:
    """Every part, and what there is to say about them. why: why there are no times at all."""

    title: str
    parts: tuple[Part, ...] = ()
    words: tuple[str, ...] = ()
    why: str = ""


def of_steps(base: Step | str | None, new: Step | str | None) -> Ratios:
    """Two steps that stand beside each other, as they were measured."""
    if not isinstance(base, dict) or not isinstance(new, dict):
        return Ratios("layers' time", why="one side has no step here")
    title = f"layers' time, new / base, step {base['step']:,} | {new['step']:,}"
    if (base.get("phase"), base.get("n_tokens")) != (new.get("phase"), new.get("n_tokens")):
        work = " and ".join(f"{s.get('phase')} of {film.count(s.get('n_tokens'))}" for s in (base, new))
        return Ratios(title, why=f"the steps did other work: {work} tokens")
    parts = [
        Part(name, _ratio(whole(base), whole(new)), _layered(base.get(field), new.get(field)))
        for name, whole, field in (("GEMM", film.gemm, "gemm_ms"), ("attn", film.attention, "attn_ms"))
    ]
    parts.append(Part("total", _ratio(base.get("total_ms"), new.get("total_ms"))))
    known = tuple(part for part in parts if part.whole is not None or part.layers)
    if not known:
        return Ratios(title, why="no time is recorded on both sides")
    return Ratios(title, known, ("one step each: noise is in these numbers (t shows the whole runs)",))


def of_runs(diff: Diff, phase: str) -> Ratios:
    """The phase over the whole runs, with the verdicts."""
    title = f"layers' time, new / base, {phase} of the whole runs"
    lines = [line for line in diff.timing.lines if line.line.phase == phase]
    if not lines:
        return Ratios(title, why=diff.why.get("time", f"no {phase} steps of both sides did the same work"))
    parts = []
    for name, part in (("GEMM", "gemm"), ("attn", "attn"), ("total", "total")):
        own = [line for line in lines if line.line.part == part]
        whole = next((line.raw_ratio for line in own if line.line.layer is None), None)
        by_layer = {line.line.layer: line.raw_ratio for line in own if line.line.layer is not None}
        layers = tuple(by_layer.get(i) for i in range(max(by_layer) + 1)) if by_layer else ()
        if whole is not None or layers:
            parts.append(Part(name, whole, layers))
    return Ratios(title, tuple(parts), tuple(_said(lines)))


def _said(lines: Sequence[TimeLine]) -> list[str]:
    """What was decided: about the phase's total, and each layer that stands out."""
    out = []
    for line in lines:
        seen = line.judgement
        if line.line.layer is not None and seen.verdict in ("faster", "slower"):
            out.append(f"layer {line.line.layer} {line.line.part}: {seen.verdict} than the other layers")
        elif line.line.layer is None and line.line.part == "total":
            needs = f": needs {seen.needs} runs a side" if seen.needs is not None else ""
            within = f" within {seen.within:.1%}" if seen.within is not None else ""
            n = line.runs
            out.append(f"total: {seen.verdict.replace('-', ' ')}{within}{needs} (runs: {n[0]} and {n[1]})")
    return out


def _layered(base: Any, new: Any) -> tuple[float | None, ...]:
    if not isinstance(base, list) or not isinstance(new, list):
        return ()
    return tuple(_ratio(a, b) for a, b in zip(base, new, strict=False))


def _ratio(base: float | None, new: float | None) -> float | None:
    if base is None or new is None or not base > 0 or not new >= 0:
        return None
    return new / base if math.isfinite(new / base) else None


# -- as lines ----------------------------------------------------------------------------------------------------------


def sign_of(ratio: float | None) -> str:
    """Which way it is off, and whether by a lot."""
    if ratio is None:
        return "?"
    if ratio >= FEW:
        return MUCH_SLOWER if ratio >= MUCH else SLOWER
    if ratio <= 1 / FEW:
        return MUCH_FASTER if ratio <= 1 / MUCH else FASTER
    return LEVEL


def ratios(found: Ratios, width: int, height: int) -> Page:
    """A number a layer where they fit into the height, else a sign a layer and the numbers of those furthest off."""
    if found.why:
        return Page(lines=wrap([(found.why, UNKNOWN)], width))
    layers = max((len(part.layers) for part in found.parts), default=0)
    notes = [line for words in found.words for line in wrap([(words, DIM)], width)]
    numbers = _numbers(found.parts, layers, width)
    lines = numbers if len(numbers) < max(height, 4) else _signs(found.parts, width)
    return Page(lines=[*lines, *notes, *wrap([(_legend(), DIM)], width)])


def _legend() -> str:
    return f"{SLOWER} slower by 3 % or more, {MUCH_SLOWER} by 25 %; {FASTER} {MUCH_FASTER} faster; {LEVEL} level"


def _numbers(parts: Sequence[Part], layers: int, width: int) -> list[Line]:
    """Rows of cells under the layers' numbers; what all layers took stands in the first column."""
    room = max(1, (width - NAME - WHOLE) // CELL)
    out: list[Line] = []
    for first in range(0, max(layers, 1), room):
        stop = min(first + room, layers)
        whole = "all" if not first else ""
        heads = "".join(fit(str(i), CELL, right=True) for i in range(first, stop))
        out.append(clip([(fit("layer" if layers else "", NAME) + fit(whole, WHOLE, right=True) + heads, TITLE)], width))
        for part in parts:
            if first and not part.layers:
                continue
            line: Line = [(fit(part.name, NAME), TITLE)]
            line += [_cell(part.whole, WHOLE)] if not first else [(" " * WHOLE, PLAIN)]
            line += [_cell(ratio, CELL) for ratio in part.layers[first:stop]]
            out.append(clip(line, width))
    return out


def _cell(ratio: float | None, size: int) -> tuple[str, str]:
    if ratio is None:
        return fit("-", size, right=True), DIM
    sign = sign_of(ratio)
    return fit(("" if sign == LEVEL else sign) + _number(ratio), size, right=True), ROLES[sign]


def _number(ratio: float) -> str:
    """In four cells: 0.03, 1.52, 12.3, 123, 9999."""
    return f"{ratio:.2f}" if ratio < 9.995 else f"{ratio:.1f}" if ratio < 99.95 else f"{min(ratio, 9999):.0f}"


def _signs(parts: Sequence[Part], width: int) -> list[Line]:
    """A part a line: what all layers took, a sign a layer, and below it the layers furthest off."""
    out: list[Line] = []
    for part in parts:
        line: Line = [(fit(part.name, NAME), TITLE), _cell(part.whole, WHOLE), (" ", PLAIN)]
        room = max(8, width - length(line))
        for first in range(0, max(len(part.layers), 1), room):
            shown = part.layers[first : first + room]
            begin = line if not first else [(" " * (NAME + WHOLE + 1), PLAIN)]
            out.append(clip([*begin, *((sign_of(r), ROLES[sign_of(r)]) for r in shown)], width))
        far = sorted(
            (i for i, r in enumerate(part.layers) if r and sign_of(r) != LEVEL),
            key=lambda i: -abs(math.log(part.layers[i] or 1)),
        )[:_MOST_NAMED]
        if far:
            words = ", ".join(f"layer {i} {_number(part.layers[i] or 0)}" for i in far)
            out.append(clip([(" " * NAME + f"furthest off: {words}", STRONG)], width))
    return out
