"""What each request of a run sent out: its tokens one by one, the steps that own them, and where its trace ends.

A decode step sends one token, a verify step its own and the drafts that it kept. Where steps were lost, or a count is
absent, a request is cut there: what may have followed is unknown.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from traces.context import PREFILL, VERIFY, count
from traces.fields import ABSENT_I64, FINISH_NAMES
from traces.metrics import RequestSteps, RunColumns, request_steps
from traces.table import Table

Ints = npt.NDArray[np.int64]

KEPT = ("token_id", "seq_before", "margin", "logit", "runner_up", "n_drafted", "n_reused")
"""Fields that RunColumns is to keep beside its own where runs are compared."""
_GAP = 1024
PIECE = 1 << 15


class _Lost(NamedTuple):
    """Steps from `step` on are unknown. why: in words, where the gap is one request's own; else empty."""

    step: int
    why: str


@dataclass(frozen=True)
class Request:
    """One request of one run. tokens: what it sent out, end token included, -2**63 where the id is unknown; steps: the
    step of the trace that owns each token. cut: why what follows is unknown, None where the request is whole."""

    seq_id: int
    prompt_ids: tuple[int, ...] | None
    prompt_tokens: int | None
    evaluated: int | None
    reused: int | None
    drafted: int | None
    accepted: int | None
    generated: int | None
    finish: str | None
    tokens: Ints
    steps: Ints
    rows: Ints
    """Rows of its run's columns."""
    cut: str | None


def requests_of(run: RunColumns, table: Table, complete: bool) -> list[Request]:
    """The requests of a run in the order of their first step; those that a log has only totals of behind them."""
    gaps = [(step, note) for step, note in run.notes if note.get("kind") == "gap"]
    parts = request_steps(run)
    found = [_request(run, table, part, complete, _lost_from(run, part, parts, gaps)) for part in parts]
    recorded = {part.seq_id for part in parts}
    totals = (note for _, note in run.notes if note.get("kind") == "totals")
    return found + [_from_totals(note) for note in totals if count(note, "seq_id") not in recorded]


def _lost_from(
    run: RunColumns, part: RequestSteps, parts: list[RequestSteps], gaps: list[tuple[int, dict[str, Any]]]
) -> _Lost | None:
    """The first step of a request that may follow one that was not recorded, or was lost to damage."""
    first = int(run["step"][part.rows[0]])
    later = [int(run["step"][p.rows[0]]) for p in parts if p.seq_id == part.seq_id and p.rows[0] > part.rows[0]]
    places = [] if run.damaged_from is None else [_Lost(run.damaged_from, "")]
    for step, note in gaps:
        if note.get("seq_id") is None:
            places.append(_Lost(step, ""))
        elif note["seq_id"] == part.seq_id and first < step <= min(later, default=step):
            places.append(_Lost(step, str(note.get("why") or "its next steps were not recorded")))
    return min(places, default=None)


def _request(run: RunColumns, table: Table, part: RequestSteps, complete: bool, lost: _Lost | None) -> Request:
    rows, finish, cut = _known_part(run, part, complete, lost)
    phase, accepted = run["phase"][rows], run["n_accepted"][rows]
    verify = phase == VERIFY
    sizes = np.where(phase == PREFILL, 0, np.where(verify, 1 + accepted, 1))
    owner = np.repeat(rows, sizes)
    tokens = _with_drafts(run, table, rows, sizes, run["token_id"][owner])
    fed = run["n_tokens"][rows][phase == PREFILL]
    speculates = bool(verify.any())
    return Request(
        part.seq_id,
        _ids(part.note.get("prompt_ids")),
        _known(count(part.note, "prompt_tokens")),
        _known_sum(fed) if len(fed) else None,
        _reused(run, rows, part.note),
        _known_sum(run["n_drafted"][rows][verify]) if speculates and "n_drafted" in run else None,
        int(accepted[verify].sum()) if speculates else None,
        int(sizes.sum()),
        finish,
        tokens,
        run["step"][owner],
        rows,
        cut,
    )


def _known_part(
    run: RunColumns, part: RequestSteps, complete: bool, lost: _Lost | None
) -> tuple[Ints, str | None, str | None]:
    """(rows up to where something is unknown, how the request finished, why it is cut there or None)."""
    rows, cut = part.rows, None
    if lost is not None and run["step"][rows[-1]] >= lost.step:
        rows = rows[run["step"][rows] < lost.step]
        cut = f"steps from {lost.step} on were not recorded or are damaged"
    elif lost is not None and lost.why:
        cut = lost.why
    uncounted = (run["phase"][rows] == VERIFY) & (run["n_accepted"][rows] < 0)
    if uncounted.any():
        rows = rows[: int(np.argmax(uncounted))]
        cut = "n_accepted is absent"
    code = int(run["finish"][rows[-1]]) if len(rows) else 0
    finish = FINISH_NAMES.get(code) if code else part.ended if isinstance(part.ended, str) else None
    if cut is None and finish is None and not complete:
        cut = "the trace was cut off"
    return rows, finish, cut


def _with_drafts(run: RunColumns, table: Table, rows: Ints, sizes: Ints, tokens: Ints) -> Ints:
    """A verify step's own id, then the drafts that it kept; those that were not recorded are absent."""
    tokens = tokens.copy()
    place = np.arange(len(tokens)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    is_draft = place > 0
    tokens[is_draft] = ABSENT_I64
    if "draft_ids" not in run.run.names or not is_draft.any():
        return tokens
    several = sizes > 1
    pieces = columns_at(table, run["step"][rows[several]], ("draft_ids",))
    drafts = np.concatenate([p["draft_ids"].reshape(len(p["draft_ids"]), -1) for p in pieces])
    line = np.repeat(np.cumsum(several) - 1, sizes)
    known = is_draft & (place <= drafts.shape[1])
    tokens[known] = drafts[line[known], place[known] - 1]
    return tokens


def _from_totals(note: dict[str, Any]) -> Request:
    none = np.zeros(0, np.int64)
    finish = note.get("finish")
    return Request(
        count(note, "seq_id"),
        None,
        _known(count(note, "prompt_tokens")),
        _known(count(note, "fed")),
        _known(count(note, "n_reused")),
        _known(count(note, "n_drafted")),
        _known(count(note, "n_accepted")),
        _known(count(note, "generated")),
        finish if isinstance(finish, str) else None,
        none,
        none,
        none,
        "its log has no steps",
    )


def _reused(run: RunColumns, rows: Ints, note: dict[str, Any]) -> int | None:
    noted = _known(count(note, "n_reused"))
    if noted is None and "n_reused" in run and len(rows):
        return _known(int(run["n_reused"][rows[0]]))
    return noted


def _ids(value: Any) -> tuple[int, ...] | None:
    return tuple(value) if isinstance(value, list) and all(isinstance(i, int) for i in value) else None


def _known(value: int) -> int | None:
    return value if value >= 0 else None


def _known_sum(values: Any) -> int | None:
    return int(values.sum()) if (values >= 0).all() else None


def columns_at(table: Table, steps: Ints, names: tuple[str, ...], at_once: int = PIECE) -> Iterator[dict[str, Any]]:
    """Fields of chosen steps of one run, in the order given, in pieces: {name: (steps in the piece, …)}."""
    for begin in range(0, len(steps), at_once):
        chosen = steps[begin : begin + at_once]
        unique, back = np.unique(chosen, return_inverse=True)
        parts: dict[str, list[Any]] = {name: [] for name in names}
        # spans that end where frames of many steps do, so that no frame is read twice
        apart = (np.diff(unique) > _GAP) | (np.diff(unique // PIECE) > 0)
        for span in np.split(unique, np.flatnonzero(apart) + 1):
            rows, _ = table.rows(int(span[0]), int(span[-1]) + 1)
            taken = rows if len(span) == len(rows) else rows[span - span[0]]
            for name in names:
                parts[name].append(np.ascontiguousarray(taken[name]))
        yield {n: _in_order(np.concatenate(p) if len(p) > 1 else p[0], back) for n, p in parts.items()}


def _in_order(values: Any, back: Any) -> Any:
    return values if (back == np.arange(len(back))).all() and len(values) == len(back) else values[back]
