"""Places in a trace as a person names them: a step number typed in, marks, what lies between. No Textual here."""

from __future__ import annotations

import re
from collections.abc import Sequence


def step_of(line: str, steps: int) -> int | None:
    """The step that `120`, `-1` (the last) or `50%` means in a trace of `steps`; None for other words.

    It may lie behind the last step: the trace may still be read, or grow.
    """
    found = re.fullmatch(r"\s*(-?)(\d[\d,_]{0,17})\s*(%?)\s*", line, re.ASCII)
    if not found or (found[1] and found[3]):
        return None
    number = int(re.sub("[,_]", "", found[2]))
    if found[3]:
        return min(number, 100) * max(steps - 1, 0) // 100
    return max(0, steps - number) if found[1] else number


def next_mark(marks: Sequence[int], at: int) -> int | None:
    """The first mark behind `at`, else the first of all; None where nothing is marked."""
    return min((m for m in marks if m > at), default=min(marks, default=None))


def selection(marks: Sequence[int], at: int, steps: int) -> tuple[int, int]:
    """[first, stop) from the mark that was set last to `at`, either way round; step `at` alone without marks."""
    last = marks[-1] if marks else at
    return min(last, at), min(max(last, at) + 1, max(steps, 1))
