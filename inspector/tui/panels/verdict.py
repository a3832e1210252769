"""The head of the diff view: the verdict in a word, both sides, each answer, and what differs at the selected place."""

from __future__ import annotations

from inspector import facts
from inspector.diff_words import ABOUT
from inspector.text import visible
from inspector.tui.aligned import Place
from inspector.tui.comparing import Compared, Progress
from inspector.tui.lines import (
    BETWEEN,
    DIM,
    FAIL,
    GOOD,
    PLAIN,
    SIGNS,
    STRONG,
    UNKNOWN,
    Line,
    Page,
    clip,
    elapsed,
    fit,
    joined,
    length,
    tail,
    wrap,
)

_ROLE = {"same": GOOD, "differs": FAIL, "cannot-decide": UNKNOWN}
_SIGN = {"same": "✓", "differs": "✗", "cannot-decide": "?"}


def height_for(height: int) -> int:
    """Lines the head takes on a screen of this height."""
    return 1 if height < 10 else 3


def head(progress: Progress, now: float, place: Place | None, said: str, width: int, height: int) -> list[Line]:
    """The head's lines. said: the answer to the last key, or what differs at the selected place."""
    word, role = state(progress)
    first: Line = [(f" {word} ", SIGNS[role]), (" ", PLAIN)]
    room = (width - length(first) - len(" → ")) // 2
    names = " → ".join(tail(_side(progress, side), room) for side in (0, 1))
    if height == 1:
        return [clip([*first, (said or names, PLAIN)], width)]
    if progress.compared is None:
        second: Line = [(" " + _waiting(progress, now), UNKNOWN)]
    else:
        second = joined(BETWEEN, answers(progress.compared))
        if length(second) >= width:
            second = joined(BETWEEN, answers(progress.compared, brief=True))
        second = [(" ", DIM), *second]
    third: list[Line] = [[(_where(place), STRONG)]] if place is not None else []
    third += [[(said, UNKNOWN)]] if said else []
    return [clip(line, width) for line in ([*first, (names, STRONG)], second, [(" ", DIM), *joined(BETWEEN, third)])]


def state(progress: Progress) -> tuple[str, str]:
    """(the word, its weight)."""
    if progress.problem:
        return "NOT COMPARED", FAIL
    if progress.compared is None:
        return "COMPARING", UNKNOWN
    verdict = progress.compared.diff.verdict(ABOUT)
    return verdict.replace("-", " ").upper(), _ROLE[verdict]


def _side(progress: Progress, side: int) -> str:
    paths = (progress.base, progress.new)[side]
    if progress.compared is not None:
        chosen = progress.compared.sides[side]
        more = f" (of {chosen.runs} runs)" if chosen.runs > 1 else ""
        return visible(chosen.path) + more
    return visible(paths[0]) + (f" (of {len(paths)})" if len(paths) > 1 else "")


def _waiting(progress: Progress, now: float) -> str:
    if progress.problem:
        return visible(progress.problem)
    if progress.steps is None:
        return "reading the traces"
    return f"comparing {progress.steps[0]:,} with {progress.steps[1]:,} steps: {elapsed(now - progress.began)}"


def answers(compared: Compared, brief: bool = False) -> list[Line]:
    """`✗ tokens differs`: each answer with a sign, and why it cannot be given. brief: the sign alone where it does."""
    out: list[Line] = []
    diff = compared.diff
    for name, verdict in diff.verdicts.items():
        word = (diff.timing.direction or verdict) if name == "time" else verdict
        why = f": {visible(diff.why[name])}" if name in diff.why else ""
        said = "" if brief and word in ("same", "differs") else " " + word.replace("-", " ")
        out.append([(f"{_SIGN[verdict]} {name}{said}{why}", _ROLE[verdict])])
    return out


def _where(place: Place) -> str:
    steps = " | ".join("-" if step is None else f"{step:,}" for step in place.steps)
    what = "prefill" if place.index is None else f"output {place.index:,}"
    return f"{what} of seq {place.seq_id}, step {steps}"


def waiting(progress: Progress, width: int) -> Page:
    """What ran on both sides, while they are compared or where they cannot be."""
    lines: list[Line] = []
    for name, run in zip(("base", "new"), progress.facts or (), strict=False):
        for i, words in enumerate(facts.describe(run)):
            lines += wrap([(fit(name if not i else "", 6), DIM), (words, PLAIN)], width)
    return Page(lines=lines)
