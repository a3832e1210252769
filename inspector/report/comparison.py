"""The section of a page that compares two builds, in the words of the verb `diff`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from inspector import diff_words
from inspector.film import milliseconds
from inspector.report import plots
from traces.diff import Diff
from traces.timing import TimeLine


@dataclass(frozen=True)
class Answer:
    """One question's verdict in words, and what belongs to it, a line each."""

    name: str
    verdict: str
    words: str
    details: list[str]


@dataclass(frozen=True)
class Comparison:
    """times: a row a line of (name, base ms, new ms, ratio, interval, verdict in words, verdict)."""

    headline: str
    verdict: str
    sides: dict[str, list[str]]
    contrasts: list[tuple[str, str, str, str]]
    answers: list[Answer]
    times: list[tuple[str, ...]]
    hidden: str
    plot: plots.Plot | None
    notes: list[str]
    binary: list[str]


def comparison(
    diff: Diff, fail_on: list[str], base: list[str], new: list[str], binary: dict[str, Any] | None
) -> Comparison:
    """What the page says of `diff`. base, new: the traces' paths; fail_on, binary: as the verb has them."""
    told = [line for line in diff.timing.lines if diff_words.is_telling(line)]
    words = {
        "tokens": list(diff_words.token_words(diff)),
        "state": list(diff_words.state_words(diff)),
        "layers": list(diff_words.layer_words(diff)),
        "time": [diff_words.head("time", diff)],
    }
    colours = diff.verdicts | {"time": diff.timing.direction or diff.verdicts["time"]}
    return Comparison(
        diff_words.headline(diff, fail_on),
        diff.verdict(fail_on),
        {"base": base, "new": new},
        [(c.field, diff_words.short(c.base), diff_words.short(c.new), ", ".join(c.forbids)) for c in diff.comparable],
        [_answer(name, colours[name], lines) for name, lines in words.items()],
        [_time_row(line) for line in told],
        diff_words.hidden_words([line for line in diff.timing.lines if line not in told]),
        plots.ratios([_ratio(line) for line in told]) if told else None,
        diff.notes,
        [line.strip() for line in diff_words.binary_words(binary)][1:] if binary is not None else [],
    )


def _answer(name: str, verdict: str, lines: list[str]) -> Answer:
    return Answer(name, verdict, lines[0].removeprefix(name).strip(), [line.strip() for line in lines[1:]])


def _time_row(line: TimeLine) -> tuple[str, ...]:
    return (
        diff_words.line_name(line),
        milliseconds(line.base_ms),
        milliseconds(line.new_ms),
        f"{line.judgement.ratio:.3f}",
        diff_words.interval_word(line),
        diff_words.judged_words(line),
        line.judgement.verdict,
    )


def _ratio(line: TimeLine) -> tuple[str, float, float | None, float | None, str]:
    seen = line.judgement
    return diff_words.line_name(line), seen.ratio, seen.low, seen.high, seen.verdict
