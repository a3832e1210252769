"""What each panel says, as lines with roles: the run's head, the text, the layers and the rules. No Textual here."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

from rich.cells import cell_len

from inspector import facts, film
from inspector.film import Step
from inspector.text import visible
from inspector.tui.lines import (
    ATTENTION,
    DIM,
    FAIL,
    GEMM,
    GOOD,
    MARK,
    PLAIN,
    SIGNS,
    STRONG,
    TITLE,
    UNKNOWN,
    Line,
    Part,
    bar,
    clip,
    fit,
    length,
    wrap,
)
from inspector.tui.model import RuleState, Snapshot, State, Verdicts
from inspector.tui.pages import Passage

_MARKS = {"fail": "✗", "unknown": "?", "pass": "✓", "n/a": "-"}
_ROLES = {"fail": FAIL, "unknown": UNKNOWN, "pass": GOOD, "n/a": DIM}
BETWEEN = " │ "


# -- the head --------------------------------------------------------------------------------------------------------


def head(snapshot: Snapshot, state: State, tail: str, width: int, height: int, step: int) -> list[Line]:
    """The head's lines: the state and the file; steps, verdict and speed; the run. `tail`: what waits below."""
    first = _state_line(snapshot.path, state, width)
    lines = [first, _figures(snapshot, tail), *_run_lines(snapshot.run_facts(step), width)]
    if height == 1:
        said = _joined_by(" ", [[(f" {snapshot.steps:,} steps", STRONG)], *_tail_and_verdict(snapshot, tail)])
        lines[0] = [first[0], *said]
    return [clip(line, width) for line in lines[:height]]


def _state_line(path: str, state: State, width: int) -> Line:
    """The state, the file and what there is to say about them; a long path gives way from its left."""
    word: Part = (f" {state.word} ", SIGNS[state.weight])
    detail: Line = [(BETWEEN + visible(state.detail), state.weight)] if state.detail else []
    name = visible(path)
    room = max(12, width - length([word, *detail]) - 1)
    if cell_len(name) > room:
        name = "…" + name[-(room - 1) :] if name.isascii() else fit(name, room)
    return [word, (" " + name, STRONG), *detail]


def head_height(width: int, height: int) -> int:
    """Lines the head takes on a screen of this size."""
    return 1 if height < 10 else 2 if height < 18 else 3 if width >= 110 else 4


def _figures(snapshot: Snapshot, tail: str) -> Line:
    pace = snapshot.pace
    parts: list[Line] = [[(f" {snapshot.steps:,} steps", STRONG)], *_tail_and_verdict(snapshot, tail)]
    if snapshot.damage:
        parts.append([(f"✗ {_plural(len(snapshot.damage), 'damaged place')}", FAIL)])
    now = "" if pace.now is None else f"{_rate(pace.now)} now, "
    if pace.mean is not None:
        parts.append([(f"{now}{_rate(pace.mean)} mean tok/s", PLAIN)])
    if pace.ttft_ms is not None:
        which = "first TTFT" if pace.several_requests else "TTFT"
        parts.append([(f"{which} {film.milliseconds(pace.ttft_ms)} ms", PLAIN)])
    return _joined_by(BETWEEN, parts)


def _tail_and_verdict(snapshot: Snapshot, tail: str) -> list[Line]:
    parts: list[Line] = [[(tail, UNKNOWN)]] if tail else []
    verdicts = snapshot.verdicts
    if verdicts.failed:
        parts.append([(f"✗ {_plural(verdicts.failed, 'failure')}", FAIL)])
    elif verdicts.judged:
        word, role = ("✓ no failure", GOOD) if verdicts.overall == "pass" else ("? nothing could be judged", UNKNOWN)
        parts.append([(word + ("" if verdicts.judged >= snapshot.steps else " so far"), role)])
    return parts


def _run_lines(run: dict[str, Any], width: int) -> list[Line]:
    """The run's facts on one line if they fit, else on two."""
    if not run:
        return []
    words = [facts.model_words(run), facts.engine_words(run), facts.sampler_words(run), facts.host_words(run)]
    if run.get("clock") == "debugger":
        words.insert(1, "times seen under a debugger")
    parts: list[Line] = [[(word, DIM)] for word in words if word]
    line: Line = [(" ", DIM), *_joined_by(BETWEEN, parts)]
    if length(line) <= width or len(parts) < 2:
        return [line]
    return [[(" ", DIM), *parts[0]], [(" ", DIM), *_joined_by(BETWEEN, parts[1:])]]


def _joined_by(between: str, parts: list[Line]) -> Line:
    out: Line = []
    for part in parts:
        out += [(between, DIM), *part] if out else part
    return out


def _rate(tok_s: float) -> str:
    return f"{tok_s:,.0f}" if tok_s >= 1000 else f"{tok_s:.1f}" if tok_s >= 10 else f"{tok_s:.2f}"


def _plural(n: int, word: str) -> str:
    return f"{n:,} {word}" + ("" if n == 1 else "s")


# -- the text --------------------------------------------------------------------------------------------------------


def text(passage: Passage, step: Step | str, width: int, height: int) -> list[Line]:
    """`height` lines of the generation so far around the selected token, which is marked."""
    lines = wrap(_text_parts(passage, step), width)
    at = next((i for i, line in enumerate(lines) if any(role == MARK for _, role in line)), len(lines) - 1)
    first = max(0, min(at - (2 * height) // 3, len(lines) - height))
    shown = lines[first : first + height]
    if passage.lost and shown:
        shown = [[(f"text of {_plural(passage.lost, 'damaged step')} is missing", FAIL)], *shown[: height - 1]]
    return shown


def _text_parts(passage: Passage, step: Step | str) -> list[Part]:
    parts: list[Part] = []
    if passage.clipped_before:
        parts.append(("… ", DIM))
    if passage.prompt:
        parts.append((_shown(passage.prompt) + "\n", DIM))
    parts.append((_shown(passage.before), PLAIN))
    parts += _selected(passage, step)
    parts.append((_shown(passage.after), PLAIN))
    if passage.clipped_after:
        parts.append((" …", DIM))
    return [part for part in parts if part[0]]


def _selected(passage: Passage, step: Step | str) -> list[Part]:
    """The selected token between brackets that its role also sets off: a mark that needs no colour."""
    if isinstance(step, str):
        return [("[?]", MARK)]
    if not passage.selected:
        return [] if step.get("phase") == "prefill" else [("[]", MARK)]
    inner = visible(passage.selected.rstrip(" ") if passage.ids else passage.selected)
    after = "\n" if passage.selected.endswith("\n") else " " if passage.ids else ""
    return [(f"[{inner}]", MARK), (after, PLAIN)]


def _shown(text: str) -> str:
    return visible(text, keep_newlines=True)


# -- the layers ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Layer:
    """One layer of a step. `agrees`: whether its rows are what the sequence says they should be; None: not judged."""

    index: int
    kind: str
    rows: int | None
    agrees: bool | None
    gemm: float | None
    attention: float | None


def layers_of(step: Step, run: dict[str, Any]) -> list[Layer]:
    """The layers a step records, in order; as many as the longest per-layer field has."""
    rows, gemm, attention = (_per_layer(step.get(name)) for name in ("cache_len", "gemm_ms", "attn_ms"))
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
        )  # fmt: skip
        for i in range(max(len(rows), len(gemm), len(attention)))
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


def layers(step: Step | str | None, run: dict[str, Any], width: int) -> tuple[list[Line], list[Line]]:
    """(lines that stay, lines that scroll): the column names and the whole step; then each layer."""
    if not isinstance(step, dict):
        return [], [[(step, FAIL)]] if step else []
    found = layers_of(step, run)
    grid = _Grid(found, width)
    kept = [grid.titles(), grid.whole(step)]
    lines = [grid.layer(layer) for layer in found]
    if step.get("lm_head_ms") is not None and lines:
        lines.append(grid.head(step["lm_head_ms"]))
    return kept, lines


class _Grid:
    """Columns of the layers panel: numbers as wide as they must be, bars in what is left."""

    NAME, TIME, LONGEST_BAR = 5, 5, 16

    def __init__(self, found: list[Layer], width: int) -> None:
        self._width = width
        kind = max((len(layer.kind) for layer in found), default=0)
        self._name = min(self.NAME + 1 + kind, 16) if kind else self.NAME
        self._rows = max([4, *(len(film.count(layer.rows)) for layer in found)])
        self._gemm_most = max((layer.gemm or 0.0 for layer in found), default=0.0)
        self._attention_most = max((layer.attention or 0.0 for layer in found), default=0.0)
        if width < self._numbers + 8:
            self._name = max(4, self._name - 2)  # a bar says more than the word "layer"
        self._bar = max(0, min(self.LONGEST_BAR, (width - self._numbers) // 2 - 1))

    @property
    def _numbers(self) -> int:
        return self._name + 1 + self._rows + 1 + self.TIME + 1 + self.TIME

    def titles(self) -> Line:
        """The column names."""
        names = fit("layer" if self._name >= self.NAME else "", self._name) + " " + fit("rows", self._rows, right=True)
        gap = " " * (self._bar + 1 if self._bar else 0)
        times = f" {'GEMM':>{self.TIME}}{gap} {'attn':>{self.TIME}}"
        return clip([(names + times, TITLE)], self._width)

    def whole(self, step: Step) -> Line:
        """The step over all layers."""
        rows = step.get("cache_len")
        one_count = None if isinstance(rows, list) else rows
        return self._line("all", TITLE, one_count, None, (film.gemm(step), 0.0), (film.attention(step), 0.0))

    def layer(self, layer: Layer) -> Line:
        """One layer."""
        indent = 3 if self._name != self.NAME else self.NAME
        name = f"{layer.index:>{indent}} {layer.kind}".rstrip()
        gemm = layer.gemm, self._share(layer.gemm, self._gemm_most)
        attention = layer.attention, self._share(layer.attention, self._attention_most)
        return self._line(name, PLAIN, layer.rows, layer.agrees, gemm, attention)

    def head(self, ms: float) -> Line:
        """The product that makes the logits: of no layer."""
        return self._line("head", TITLE, None, None, (ms, 0.0), (None, 0.0))

    def _line(
        self, name: str, role: str, rows: int | None, agrees: bool | None,
        gemm: tuple[float | None, float], attention: tuple[float | None, float],
    ) -> Line:  # fmt: skip
        """A row of the grid; `!` behind rows that disagree. A time comes with its share of the longest bar."""
        said = "" if rows is None and role == TITLE else film.count(rows)
        wrong = agrees is False
        out: Line = [(fit(name, self._name) + " ", role)]
        out.append((fit(said, self._rows, right=True) + ("!" if wrong else " "), FAIL if wrong else PLAIN))
        out += self._time(*gemm, GEMM)
        out.append((" ", PLAIN))
        out += self._time(*attention, ATTENTION)
        return clip(out, self._width)

    def _time(self, ms: float | None, share: float, role: str) -> Line:
        number: Line = [(fit(film.milliseconds(ms), self.TIME, right=True), PLAIN)]
        return [*number, (" " + bar(share, self._bar), role)] if self._bar else number

    @staticmethod
    def _share(value: float | None, most: float) -> float:
        return value / most if value is not None and most > 0 else 0.0


# -- the rules -------------------------------------------------------------------------------------------------------


def rules(snapshot: Snapshot, step: int, width: int) -> list[Line]:
    """What the selected step breaks; how far the rules have come; every rule, the failing ones first."""
    verdicts = snapshot.verdicts
    lines = _against(verdicts, step, width)
    lines += wrap([_progress(verdicts, snapshot)], width)
    order = {"fail": 0, "unknown": 1, "pass": 2}
    for rule in sorted((r for r in verdicts.rules if r.verdict != "n/a"), key=lambda r: order[r.verdict]):
        lines.append(_rule_line(rule, width))
    silent = [rule.code for rule in verdicts.rules if rule.verdict == "n/a"]
    if silent and verdicts.judged:
        lines += wrap([(f"- n/a: {' '.join(silent)}", DIM)], width)
    if verdicts.failed > verdicts.kept:
        words = f"{verdicts.kept:,} of {verdicts.failed:,} failures are marked; stepscope check --all lists the rest"
        lines += wrap([(words, UNKNOWN)], width)
    return lines


def _against(verdicts: Verdicts, step: int, width: int) -> list[Line]:
    lines: list[Line] = []
    faults = {rule.code: rule.fault for rule in verdicts.rules}
    for failure in verdicts.at(step):
        lines += wrap([("✗ " + visible(failure.message), FAIL)], width)
    for code in dict.fromkeys(failure.code for failure in verdicts.at(step)):
        lines += wrap([(f"{code} has caught: ", STRONG), (faults.get(code, ""), DIM)], width)
    return [*lines, []] if lines else []


def _progress(verdicts: Verdicts, snapshot: Snapshot) -> Part:
    if not snapshot.steps:
        return "no step to judge yet", DIM
    far = verdicts.judged / snapshot.steps
    if verdicts.judged < snapshot.steps:
        return f"judged {verdicts.judged:,} of {snapshot.steps:,} steps ({far:.0%})", UNKNOWN
    return f"{_plural(verdicts.judged, 'step')} judged", DIM


def _rule_line(rule: RuleState, width: int) -> Line:
    counted = (rule.failed, "fail"), (rule.unknown, "unknown"), (rule.passed, "pass")
    counts = [f"{n:,} {word}" for n, word in counted if n]
    said: Line = [(f"{_MARKS[rule.verdict]} {rule.code} ", _ROLES[rule.verdict])]
    tail: Line = [(", ".join(counts), PLAIN)]
    if rule.verdict == "unknown" and rule.why_unknown:
        tail = [(f"unknown: {visible(rule.why_unknown)}", UNKNOWN)]
    name: Line = [(rule.name, DIM)]
    if width >= 48:
        gap = max(1, 34 - length(said + name))
        return clip([*said, *name, (" " * gap, PLAIN), *tail], width)
    return clip([*said, *tail], width)
