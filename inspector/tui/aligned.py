"""Two runs as one list of places: each output token of a request, and before them its prefill steps, side by side.

Where the tokens part, the places go on by number, but nothing is compared there: behind it the runs are two different
texts. No Textual here.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from inspector.diff_words import divergence_words
from traces.diff import DIFFERS, Diff
from traces.fields import ABSENT_I64
from traces.paired import Alignment, StateDifference, parts_at

if TYPE_CHECKING:
    from traces.outputs import Ints, Request

SAME, PARTED, BEHIND, UNKNOWN, NOTHING = "=", "≠", "·", "?", " "
"""What stands between the sides: the same token, the first that differs, behind that one (not compared), a token
whose id is not known, and no token"""


@dataclass(frozen=True)
class Place:
    """One line of the view. index: among the request's output tokens, None in its prefill. steps: of the base and of
    the new run, None where it has none here; drafts: which token of its step, 0 the step's own, above 0 a draft."""

    seq_id: int
    index: int | None
    steps: tuple[int | None, int | None]
    tokens: tuple[int | None, int | None]
    drafts: tuple[int, int]
    sign: str

    @property
    def beside(self) -> bool:
        """Whether the two steps did the same work: their states should be alike."""
        both = None not in self.steps and self.drafts == (0, 0)
        return both and (self.sign in (SAME, UNKNOWN) or self.index is None)


class Aligned:
    """The places of two runs by number. lengths_count: whether a run that ended sooner has parted."""

    def __init__(self, alignments: Sequence[Alignment], first_steps: tuple[int, int], lengths_count: bool) -> None:
        self._alignments = alignments
        self._parted = [parts_at(alignment, lengths_count) for alignment in alignments]
        self._prefill = [
            (_prefill_steps(a.base, first_steps[0]), _prefill_steps(a.new, first_steps[1])) for a in alignments
        ]
        sizes = [
            self._n_prefill(i) + max(len(a.base_steps), len(a.new_steps)) for i, a in enumerate(alignments)
        ]  # fmt: skip
        self._starts: list[int] = [0, *np.cumsum(sizes, dtype=np.int64).tolist()]

    def __len__(self) -> int:
        return int(self._starts[-1])

    def _n_prefill(self, request: int) -> int:
        return max(len(steps) for steps in self._prefill[request])

    def request_at(self, place: int) -> int:
        """The number of the request that a place is of."""
        return max(0, bisect_right(self._starts, place, hi=len(self._starts) - 1) - 1)

    def span(self, request: int) -> tuple[int, int]:
        """[first, stop) of a request's places; empty where there is no such request."""
        if not 0 <= request < len(self._alignments):
            return 0, 0
        return self._starts[request], self._starts[request + 1]

    @property
    def requests(self) -> int:
        """How many requests there are, on either side."""
        return len(self._alignments)

    def output(self, request: int, index: int) -> int:
        """The place of an output token."""
        return self._starts[request] + self._n_prefill(request) + index

    def __getitem__(self, place: int) -> Place:
        request = self.request_at(place)
        index = place - self.output(request, 0)
        alignment = self._alignments[request]
        seq_id = (alignment.base or alignment.new).seq_id  # type: ignore[union-attr] # one of them is there
        if index < 0:
            base, new = (_from_end(steps, -index) for steps in self._prefill[request])
            return Place(seq_id, None, (base, new), (None, None), (0, 0), NOTHING)
        sides = alignment.base, alignment.new
        steps = _at(sides[0], index), _at(sides[1], index)
        tokens = _token(sides[0], index), _token(sides[1], index)
        drafts = _draft(sides[0], index), _draft(sides[1], index)
        return Place(seq_id, index, steps, tokens, drafts, self._sign(request, index, steps, tokens))

    def _sign(
        self, request: int, index: int, steps: tuple[int | None, int | None], tokens: tuple[int | None, int | None]
    ) -> str:
        agreed = self._alignments[request].agreed
        if index < agreed:
            return UNKNOWN if None in tokens else SAME
        if self._parted[request]:
            return PARTED if index == agreed else BEHIND
        return NOTHING  # one side's trace ends here: nobody knows

    def parting(self, request: int) -> int | None:
        """The place where a request's tokens part, None where they do not."""
        return self.output(request, self._alignments[request].agreed) if self._parted[request] else None

    def place_of(self, side: int, step: int) -> int | None:
        """The place of a step of the base (0) or of the new run (1): of the first token that it owns."""
        for request, alignment in enumerate(self._alignments):
            steps = alignment.new_steps if side else alignment.base_steps
            at = int(np.searchsorted(steps, step))
            if at < len(steps) and steps[at] == step:
                return self.output(request, at)
            fill = self._prefill[request][side]
            at = int(np.searchsorted(fill, step))
            if at < len(fill) and fill[at] == step:
                return self.output(request, at - len(fill))
        return None

    def request_of(self, seq_id: int) -> int:
        """The first request of a sequence; 0 where there is none."""
        return next((i for i, a in enumerate(self._alignments) if a.base is not None and a.base.seq_id == seq_id), 0)


def _prefill_steps(request: Request | None, first_step: int) -> Ints:
    """The steps of a request that own no token: all rows up to where something is unknown are in their places."""
    if request is None:
        return np.zeros(0, np.int64)
    steps = np.asarray(request.rows + first_step, np.int64)
    if not len(request.steps):
        return steps
    at = np.minimum(np.searchsorted(request.steps, steps), len(request.steps) - 1)
    return np.asarray(steps[request.steps[at] != steps], np.int64)


def _from_end(steps: Ints, back: int) -> int | None:
    """Prefills end together, however many pieces the prompt was fed in."""
    return int(steps[-back]) if back <= len(steps) else None


def _at(request: Request | None, index: int) -> int | None:
    return int(request.steps[index]) if request is not None and index < len(request.steps) else None


def _token(request: Request | None, index: int) -> int | None:
    if request is None or index >= len(request.tokens) or request.tokens[index] == ABSENT_I64:
        return None
    return int(request.tokens[index])


def _draft(request: Request | None, index: int) -> int:
    step = _at(request, index)
    if request is None or step is None:
        return 0
    return index - int(np.searchsorted(request.steps, step))


# -- differences -------------------------------------------------------------------------------------------------------

Differences = Mapping[int, tuple[str, ...]]
"""What differs, in words, by place, ascending"""


def differences(diff: Diff, aligned: Aligned) -> Differences:
    """The first difference of each kind: of each request's tokens, of the layers' fingerprints, of each state."""
    found: list[tuple[int, str]] = []
    for request in range(aligned.requests):
        at = aligned.parting(request)
        if at is not None:
            found.append((at, _tokens_part(diff, request)))
    if diff.layer is not None:
        at, layer = aligned.place_of(0, diff.layer.step), diff.layer
        where = "the fingerprint" if layer.layer is None else f"layer {layer.layer}'s fingerprint"
        found.append((at or 0, f"{where} {layer.base:.6g} → {layer.new:.6g}, first beyond its noise"))
    for seen in diff.state if diff.verdicts["state"] == DIFFERS else ():
        found.append((_place_of_state(seen, aligned), _state_words(seen)))
    out: dict[int, tuple[str, ...]] = {}
    for at, words in sorted(found, key=lambda f: f[0]):
        out[at] = (*out.get(at, ()), words)
    return out


def _tokens_part(diff: Diff, request: int) -> str:
    first = diff.first
    if diff.verdicts["tokens"] != DIFFERS:
        return f"the tokens part, which says nothing: {diff.why.get('tokens', '')}"
    if first is None or first.request != request:
        return "the tokens part"
    return f"the tokens part: {divergence_words(first)}"


def _place_of_state(seen: StateDifference, aligned: Aligned) -> int:
    at = aligned.place_of(0, seen.step) if seen.step is not None else None
    return at if at is not None else aligned.span(aligned.request_of(seen.seq_id))[0]


def _state_words(seen: StateDifference) -> str:
    layer = "" if seen.layer is None else f" of layer {seen.layer}"
    whole = "" if seen.step is not None else " in the whole request"
    return f"{seen.field}{layer} {_value(seen.base)} → {_value(seen.new)}{whole}"


def _value(value: Any) -> str:
    return "none" if value is None else str(value)


def beyond(found: Differences, at: int, way: int) -> int | None:
    """The next (way 1) or the previous (-1) place that differs, None where there is none."""
    places = list(found)
    i = bisect_right(places, at) if way > 0 else bisect_left(places, at) - 1
    return places[i] if 0 <= i < len(places) else None
