"""A comparison of two builds in words: what `diff` prints, and what the view and the report say of one."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

from inspector.text import token_text, visible

if TYPE_CHECKING:
    from collections.abc import Iterator

    from traces.diff import Diff
    from traces.paired import Choice, Divergence
    from traces.timing import TimeLine

ABOUT = ("tokens", "state")
"""What a verdict is about where nothing else is said"""
_SHOWN = 8


def lines(
    diff: Diff, fail_on: list[str], base: list[str], new: list[str], every: bool, binary: dict[str, Any] | None
) -> Iterator[str]:
    """The screen of text, safe for a terminal."""
    yield headline(diff, fail_on)
    for name, paths in (("base", base), ("new", new)):
        yield visible(f"{name:<5} {paths_word(paths)}")
    for contrast in diff.comparable:
        forbids = f"   says nothing about: {', '.join(contrast.forbids)}" if contrast.forbids else ""
        yield visible(f"      {contrast.field}: {short(contrast.base)} → {short(contrast.new)}{forbids}")
    yield from map(visible, token_words(diff))
    yield from map(visible, layer_words(diff))
    yield from map(visible, state_words(diff))
    yield from map(visible, _time(diff, every))
    for note in diff.notes:
        yield visible(f"      {note}")
    if binary is not None:
        yield from map(visible, binary_words(binary))


def headline(diff: Diff, fail_on: list[str]) -> str:
    """The verdict, and each answer's in a word."""
    verdicts = diff.verdicts | {"time": diff.timing.direction or diff.verdicts["time"]}
    said = ", ".join(f"{name} {verdict_word(verdict)}" for name, verdict in verdicts.items())
    return f"{verdict_word(diff.verdict(fail_on)).upper()} (by {', '.join(fail_on)}): {said}"


def verdict_word(verdict: str) -> str:
    """`cannot decide`."""
    return verdict.replace("-", " ")


def short(value: Any) -> str:
    """A fact in at most 60 characters."""
    text = value if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= 60 else text[:57] + "…"


def paths_word(paths: list[str]) -> str:
    """`set/base-1.steps … base-6.steps (6 runs)`."""
    return paths[0] if len(paths) == 1 else f"{paths[0]} … {os.path.basename(paths[-1])} ({len(paths)} runs)"


def head(name: str, diff: Diff) -> str:
    """An answer's name and verdict, and the reason where it has none."""
    why = diff.why.get(name)
    return f"{name:<7} {verdict_word(diff.verdicts[name])}" + (f": {why}" if why else "")


def token_words(diff: Diff) -> Iterator[str]:
    """The answer about tokens, what belongs to it indented."""
    first = diff.first
    if first is None:
        n = diff.compared
        yield f"{head('tokens', diff)} ({n} token{'' if n == 1 else 's'} compared)"
        return
    if diff.verdicts["tokens"] == "cannot-decide":
        yield f"{head('tokens', diff)}; the texts part at output {first.index} of seq {first.seq_id}"
        return
    yield f"{head('tokens', diff)} from output {first.index} of seq {first.seq_id}: {divergence_words(first)}"
    for name, choice in (("base", first.base), ("new", first.new)):
        yield f"      {name:<5} {_choice(choice)}"


def divergence_words(first: Divergence) -> str:
    """Whether numerics can have turned the first token that differs, as far as it is known."""
    noise = "" if first.noise is None else f"; margins differed by at most {first.noise:.3g} before"
    return {
        "near-tie": f"a near tie, numerics can turn it{noise}",
        "fault": f"a fault, no near tie{noise}",
        "length": "one side had ended",
    }.get(first.kind or "", "no margin tells whether it was a near tie")


def _choice(choice: Choice) -> str:
    if choice.token_id is None:
        return "nothing more"
    text = f" {token_text(choice.text)!r}" if choice.text else ""
    margin = f", margin {choice.margin:.4g}" if choice.margin is not None else ""
    second = f" over {choice.runner_up}" if choice.runner_up is not None else ""
    return f"step {choice.step}: {choice.token_id}{text}{margin}{second}"


def layer_words(diff: Diff) -> Iterator[str]:
    """The answer about layers, likewise."""
    layer = diff.layer
    if layer is None:
        yield head("layers", diff)
        return
    where = "" if layer.layer is None else f" layer {layer.layer}"
    yield f"{head('layers', diff)} first at step {layer.step}{where} of seq {layer.seq_id}"
    apart = f"{layer.relative:.2g} apart, noise {layer.noise:.2g}"
    yield f"      {layer.field} {layer.base:.6g} → {layer.new:.6g} ({apart})"


def state_words(diff: Diff) -> Iterator[str]:
    """The answer about state, likewise."""
    yield head("state", diff)
    for seen in diff.state[:_SHOWN]:
        place = f"seq {seen.seq_id}" if seen.step is None else f"step {seen.step} seq {seen.seq_id}"
        layer = "" if seen.layer is None else f" of layer {seen.layer}"
        yield f"      {place}: {seen.field}{layer} {short(seen.base)} → {short(seen.new)}"
    if len(diff.state) > _SHOWN:
        yield f"      and {len(diff.state) - _SHOWN} more fields or layers (--json has them)"
    for rule in diff.rules:
        if {rule.base, rule.new} == {"pass", "fail"}:
            yield f"      {rule.code} {rule.base} → {rule.new}: {rule.message}"


def _time(diff: Diff, every: bool) -> Iterator[str]:
    yield head("time", diff)
    told = [t for t in diff.timing.lines if every or is_telling(t)]
    if not told:
        return
    yield f"      {'':<22} {'base ms':>9} {'new ms':>9} {'ratio':>7}  95 % interval"
    for line in told:
        yield f"      {line_name(line):<22} {line.base_ms:>9.4g} {line.new_ms:>9.4g} {_ratio(line)}"
    hidden = hidden_words([t for t in diff.timing.lines if t not in told])
    if hidden:
        yield f"      {hidden}; --all shows every line"


def hidden_words(hidden: list[TimeLine]) -> str:
    """How the lines of the times that are not shown were judged; empty where there are none."""
    if not hidden:
        return ""
    verdicts = [t.judgement.verdict for t in hidden]
    counts = ", ".join(f"{verdicts.count(v)} {verdict_word(v)}" for v in dict.fromkeys(verdicts))
    needs = max((t.judgement.needs or 0 for t in hidden), default=0)
    more = f"; {_needed(needs)} a side would probably decide all" if needs else ""
    return f"parts and layers not shown: {counts}{more}"


def _needed(runs: int) -> str:
    from traces.significance import MOST_RUNS_TOLD

    return f"{runs} runs" if runs < MOST_RUNS_TOLD else f"{runs} runs or more"


def is_telling(line: TimeLine) -> bool:
    """Whether a line of the times is shown where not all are."""
    from traces.timing import is_total

    if line.judgement.verdict in ("faster", "slower") or is_total(line.line):
        return True
    return line.line.layer is None and line.judgement.p is not None


def line_name(line: TimeLine) -> str:
    """`decode gemm layer 3`, `TTFT`."""
    phase, part, layer = line.line
    if phase == "request":
        return part.upper()
    return f"{phase} {part}" + ("" if layer is None else f" layer {layer}")


def _ratio(line: TimeLine) -> str:
    return f"{_times(line.judgement.ratio):>7}  {interval_word(line):<16}  {judged_words(line)}".rstrip()


def interval_word(line: TimeLine) -> str:
    """The 95 % interval of a ratio; empty with too few runs."""
    seen = line.judgement
    return "" if seen.low is None or seen.high is None else f"{_times(seen.low)} to {_times(seen.high)}"


def judged_words(line: TimeLine) -> str:
    """`slower`, `same within 2.0%`, `cannot decide (needs 6 runs a side)`."""
    seen = line.judgement
    verdict = verdict_word(seen.verdict)
    if seen.within is not None:
        verdict = f"same within {seen.within:.1%}"
    if seen.needs is not None:
        verdict = f"cannot decide (needs {_needed(seen.needs)} a side)"
    if line.line.layer is not None:
        than = "than" if seen.verdict in ("faster", "slower") else "beside"
        verdict += f" {than} the other layers; {_times(line.raw_ratio)} as measured"
    return verdict


def _times(ratio: float) -> str:
    return f"{ratio:.3f}" if 0.01 <= ratio < 1000 else f"{ratio:.3g}"


def binary_words(binary: dict[str, Any]) -> Iterator[str]:
    """What differs in the programs, indented but for the first line."""
    yield "binary"
    for name in ("build_id", "compiler", "flags"):
        base, new = binary[name]
        yield f"      {name}: {base or 'unknown'}" + (f" → {new or 'unknown'}" if base != new else " (both)")
    for function in binary["functions"]:
        sizes = " → ".join("not there" if s is None else f"{s} bytes" for s in function["size"])
        yield f"      {function['name']}: {sizes}"
    for moved in binary["offsets"]:
        yield f"      {moved['hook']} {moved['field']}: {moved['base'] or 'nowhere'} → {moved['new'] or 'nowhere'}"
