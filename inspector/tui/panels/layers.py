"""The layers of the selected step: cache rows, the fingerprint's change, and times against each layer's median."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

from inspector import film
from inspector.film import Step
from inspector.text import visible
from inspector.tui.lines import ATTENTION, DIM, FAIL, GEMM, PLAIN, TITLE, Line, Page, against, clip, fit
from inspector.tui.sample import Medians


@dataclass(frozen=True)
class Layer:
    """One layer of a step. `agrees`: whether its rows are what the sequence says they should be; None: not judged."""

    index: int
    kind: str
    rows: int | None
    agrees: bool | None
    gemm: float | None
    attention: float | None
    rms: float | None = None


def layers_of(step: Step, run: dict[str, Any]) -> list[Layer]:
    """The layers a step records, in order; as many as the longest per-layer field has."""
    rows, gemm, attention, rms = (
        _per_layer(step.get(name)) for name in ("cache_len", "gemm_ms", "attn_ms", "hidden_rms")
    )
    declared = run.get("layers")
    kinds = [k if isinstance(k, dict) else {} for k in declared] if isinstance(declared, list) else []
    expected = step.get("seq_len")
    if expected is None:
        seen = Counter(r for i, r in enumerate(rows) if r is not None and _kind(kinds, i).get("kind") == "full")
        expected = seen.most_common(1)[0][0] if seen else None
    return [
        Layer(
            i,
            _kind_word(_kind(kinds, i)),
            _at(rows, i),
            _agrees(i, rows, kinds, expected),
            _at(gemm, i),
            _at(attention, i),
            _at(rms, i),
        )
        for i in range(max(len(rows), len(gemm), len(attention), len(rms)))
    ]


def _per_layer(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _at(values: list[Any], i: int) -> Any:
    return values[i] if 0 <= i < len(values) else None


def _kind(kinds: list[dict[str, Any]], i: int) -> dict[str, Any]:
    return kinds[i] if i < len(kinds) else {}


def _kind_word(kind: dict[str, Any]) -> str:
    name = str(kind.get("kind") or "")
    if name == "window":
        return visible(f"win {kind.get('window', '?')}")
    if name == "shared":
        return visible(f"as {kind.get('owner', '?')}")
    if name == "other":
        return visible(str(kind.get("name") or "other"))
    return {"full": "", "none": "no cache"}.get(name, visible(name))


def _agrees(i: int, rows: list[Any], kinds: list[dict[str, Any]], expected: int | None) -> bool | None:
    seen, kind = _at(rows, i), _kind(kinds, i)
    if seen is None:
        return None
    name = kind.get("kind")
    if name == "recurrent":
        return bool(seen == 0)
    if name == "shared" and isinstance(kind.get("owner"), int):
        owner = _at(rows, kind["owner"])
        return None if owner is None else bool(seen == owner)
    if name == "window" and isinstance(kind.get("window"), int) and expected is not None:
        slack = kind.get("slack")
        most = kind["window"] + (slack if isinstance(slack, int) else 0)
        return bool(min(expected, kind["window"]) <= seen <= min(expected, most))
    return bool(seen == expected) if name == "full" and expected is not None else None


def layers(step: Step | str | None, run: dict[str, Any], before: Step | None, medians: Medians, width: int) -> Page:
    """The column names and the whole step stay; each layer's line scrolls.

    before: the same sequence's step before, which fingerprints are held against.
    """
    if not isinstance(step, dict):
        return Page(lines=[[(step, FAIL)]] if step else [])
    found = layers_of(step, run)
    earlier = [layer.rms for layer in layers_of(before, run)] if before else []
    grid = _Grid(step, found, earlier, medians, width)
    lines = [grid.layer(layer) for layer in found]
    if step.get("lm_head_ms") is not None and lines:
        lines.append(grid.head(step["lm_head_ms"]))
    return Page(top=[grid.titles(), grid.whole(step)], lines=lines)


class _Grid:
    """Columns of the panel: numbers as wide as they must be, bars in what is left.

    A bar's middle is the median of that layer over the run's steps of the same phase.
    """

    NAME, SHORTEST_TIME, CHANGE = 5, 5, 7
    SHORTEST_BAR, LONGEST_BAR = 7, 21

    def __init__(
        self, step: Step, found: list[Layer], earlier: list[float | None], medians: Medians, width: int
    ) -> None:
        self._width, self._earlier, self._medians = width, earlier, medians
        times = [
            film.gemm(step),
            film.attention(step),
            *(ms for layer in found for ms in (layer.gemm, layer.attention)),
        ]
        self._time_width = max([self.SHORTEST_TIME, *(len(film.milliseconds(ms)) for ms in times)])
        kind = max((len(layer.kind) for layer in found), default=0)
        self._name = min(self.NAME + 1 + kind, 16) if kind else self.NAME
        self._rows = max([4, *(len(film.count(layer.rows)) for layer in found)])
        numbers = self._name + 1 + self._rows + 2 + 2 * (self._time_width + 1)
        if width < numbers + 2 * (self.SHORTEST_BAR + 1):
            self._name, numbers = max(4, self._name - 2), numbers - 2  # a bar says more than the word "layer"
        with_change = numbers + self.CHANGE + 1 + 2 * (self.SHORTEST_BAR + 1) <= width
        self._change = self.CHANGE if with_change and any(layer.rms is not None for layer in found) else 0
        left = width - numbers - (self._change + 1 if self._change else 0)
        size = min(self.LONGEST_BAR, left // 2 - 1)
        self._bar = size - (size + 1) % 2 if size >= self.SHORTEST_BAR - 2 else 0  # odd: the median has a cell

    def titles(self) -> Line:
        """The column names; over each bar its scale."""
        names = fit("layer" if self._name >= self.NAME else "", self._name) + " " + fit("rows", self._rows, right=True)
        change = fit("Δrms", self._change, right=True) + " " if self._change else ""
        scale = " " + self._scale() if self._bar else ""
        times = f"{'GEMM':>{self._time_width}}{scale} {'attn':>{self._time_width}}{scale}"
        return clip([(f"{names}  {change}{times}", TITLE)], self._width)

    def _scale(self) -> str:
        middle = self._bar // 2
        if self._bar < 9:
            return fit(" " * middle + "1×", self._bar)
        left = "0" + " " * (middle - 1) + "1×"
        return left + " " * (self._bar - len(left) - 2) + "2×"

    def whole(self, step: Step) -> Line:
        """The step over all layers."""
        rows = step.get("cache_len")
        gemm, attention = film.gemm(step), film.attention(step)
        return self._line(
            "all", TITLE, None if isinstance(rows, list) else rows, None, "",
            (gemm, self._medians.all_gemm), (attention, self._medians.all_attention),
        )  # fmt: skip

    def layer(self, layer: Layer) -> Line:
        """One layer."""
        indent = 3 if self._name != self.NAME else self.NAME
        name = f"{layer.index:>{indent}} {layer.kind}".rstrip()
        gemm = layer.gemm, _at(list(self._medians.gemm), layer.index)
        attention = layer.attention, _at(list(self._medians.attention), layer.index)
        change = change_of(layer.rms, _at(self._earlier, layer.index))
        return self._line(name, PLAIN, layer.rows, layer.agrees, change, gemm, attention)

    def head(self, ms: float) -> Line:
        """The product that makes the logits: of no layer."""
        return self._line("head", TITLE, None, None, "", (ms, self._medians.head), (None, None))

    def _line(
        self, name: str, role: str, rows: int | None, agrees: bool | None, change: str,
        gemm: tuple[float | None, float | None], attention: tuple[float | None, float | None],
    ) -> Line:  # fmt: skip
        """A row of the grid; `!` behind rows that disagree. A time comes with its median."""
        said = "" if rows is None and role == TITLE else film.count(rows)
        wrong = agrees is False
        out: Line = [(fit(name, self._name) + " ", role)]
        out.append((fit(said, self._rows, right=True) + ("! " if wrong else "  "), FAIL if wrong else PLAIN))
        if self._change:
            out.append((fit(change, self._change, right=True) + " ", FAIL if change.endswith("!") else DIM))
        out += self._time(*gemm, GEMM)
        out.append((" ", PLAIN))
        out += self._time(*attention, ATTENTION)
        return clip(out, self._width)

    def _time(self, ms: float | None, median: float | None, role: str) -> Line:
        number: Line = [(fit(film.milliseconds(ms), self._time_width, right=True), PLAIN)]
        if not self._bar:
            return number
        if ms is None or not median:
            return [*number, (" " * (self._bar + 1), PLAIN)]
        return [*number, (" " + against(ms / median, self._bar), role)]


def change_of(rms: float | None, before: float | None) -> str:
    """How a fingerprint moved since the step before, in percent; `!` where it is no number."""
    if rms is None:
        return film.NOTHING
    if rms in (float("inf"), float("-inf")):
        return "inf!"
    if not before:
        return f"{rms:.3g}"
    return f"{rms / before - 1:+.1%}" if abs(rms / before) < 100 else f"{rms / before:.0f}x!"
