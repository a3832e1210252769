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
from traces.run_columns import RequestSteps, Rows, RunColumns, request_steps, tokens_of
from traces.table import Table

Ints = npt.NDArray[np.int64]
Columns = dict[str, Any]
"""Columns of a run, unpacked"""

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
    rows: Rows
    """Rows of its run's columns."""
    cut: str | None


def requests_of(run: RunColumns, table: Table, complete: bool) -> list[Request]:
    """The requests of a run in the order of their first step; those that a log has only totals of behind them."""
    gaps = [(step, note) for step, note in run.notes if note.get("kind") == "gap"]
    parts = request_steps(run)
    columns = run.take("phase", "n_accepted", "n_tokens", "n_drafted", "n_reused", "step", "finish", "token_id")
    lost = _lost_from(run.damaged_from, columns["step"], parts, gaps)
    known = [_known_part(columns, part, complete, at) for part, at in zip(parts, lost, strict=True)]
    drafts = _drafts(columns, table, [rows for rows, _, _ in known]) if "draft_ids" in run.run.names else None
    found = [_request(columns, part, *seen, drafts) for part, seen in zip(parts, known, strict=True)]
    recorded = {part.seq_id for part in parts}
    totals = (note for _, note in run.notes if note.get("kind") == "totals")
    return found + [_from_totals(note) for note in totals if count(note, "seq_id") not in recorded]


def _lost_from(
    damaged_from: int | None, step: Ints, parts: list[RequestSteps], gaps: list[tuple[int, dict[str, Any]]]
) -> list[_Lost | None]:
    """For each request the first step that may follow one that was not recorded, or was lost to damage."""
    of_all = [_Lost(at, "") for at, note in gaps if note.get("seq_id") is None]
    if damaged_from is not None:
        of_all.append(_Lost(damaged_from, ""))
    of_one: dict[int, list[_Lost]] = {}
    for at, note in gaps:
        if note.get("seq_id") is not None:
            why = str(note.get("why") or "its next steps were not recorded")
            of_one.setdefault(count(note, "seq_id"), []).append(_Lost(at, why))
    found = []
    next_of: dict[int, int] = {}
    for part in reversed(parts):  # by their first steps, so what came up last of a sequence is its next request
        first, following = int(step[part.rows[0]]), next_of.get(part.seq_id)
        own = [p for p in of_one.get(part.seq_id, []) if first < p.step and (following is None or p.step <= following)]
        found.append(min([*of_all, *own], default=None))
        next_of[part.seq_id] = first
    return found[::-1]


def _request(
    columns: Columns, part: RequestSteps, rows: Rows, finish: str | None, cut: str | None, drafts: _Drafts | None
) -> Request:
    phase, accepted = columns["phase"][rows], columns["n_accepted"][rows]
    verify = phase == VERIFY
    sizes = tokens_of(phase, accepted)
    owner = np.repeat(rows, sizes)
    tokens = columns["token_id"][owner]
    if verify.any():
        _put_drafts(tokens, rows, sizes, drafts)
    fed = columns["n_tokens"][rows][phase == PREFILL]
    speculates = bool(verify.any())
    return Request(
        part.seq_id,
        _ids(part.note.get("prompt_ids")),
        _known(count(part.note, "prompt_tokens")),
        _known_sum(fed) if len(fed) else None,
        _reused(columns, rows, part.note),
        _known_sum(columns["n_drafted"][rows][verify]) if speculates else None,
        int(accepted[verify].sum()) if speculates else None,
        int(sizes.sum()),
        finish,
        tokens,
        columns["step"][owner],
        rows,
        cut,
    )


def _known_part(
    columns: Columns, part: RequestSteps, complete: bool, lost: _Lost | None
) -> tuple[Rows, str | None, str | None]:
    """(rows up to where something is unknown, how the request finished, why it is cut there or None)."""
    rows, cut = part.rows, None
    if lost is not None and columns["step"][rows[-1]] >= lost.step:
        rows = rows[columns["step"][rows] < lost.step]
        cut = f"steps from {lost.step} on were not recorded or are damaged"
    elif lost is not None and lost.why:
        cut = lost.why
    uncounted = (columns["phase"][rows] == VERIFY) & (columns["n_accepted"][rows] < 0)
    if uncounted.any():
        rows = rows[: int(np.argmax(uncounted))]
        cut = "n_accepted is absent"
    code = int(columns["finish"][rows[-1]]) if len(rows) else 0
    finish = FINISH_NAMES.get(code) if code else part.ended if isinstance(part.ended, str) else None
    if cut is None and finish is None and not complete:
        cut = "the trace was cut off"
    return rows, finish, cut


class _Drafts(NamedTuple):
    """Draft ids of the verify steps of a run that kept some: ids (steps, drafts) of `rows`, ascending."""

    rows: Rows
    ids: Any


def _drafts(columns: Columns, table: Table, of_requests: list[Rows]) -> _Drafts | None:
    """Of all requests together, in file order: requests that take turns lie spread over the whole file."""
    keep = columns["n_accepted"] > 0
    keep &= columns["phase"] == VERIFY
    wanted = [rows[keep[rows]] for rows in of_requests]
    rows = np.sort(np.concatenate(wanted)) if wanted else np.zeros(0, np.int32)
    if not len(rows):
        return None
    pieces = columns_at(table, columns["step"][rows], ("draft_ids",))
    return _Drafts(rows, np.concatenate([p["draft_ids"].reshape(len(p["draft_ids"]), -1) for p in pieces]))


def _put_drafts(tokens: Ints, rows: Rows, sizes: Any, drafts: _Drafts | None) -> None:
    """Behind a verify step's own id the drafts that it kept; those that were not recorded are absent."""
    place = np.arange(len(tokens)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    is_draft = place > 0
    tokens[is_draft] = ABSENT_I64
    if drafts is None:
        return
    known = is_draft & (place <= drafts.ids.shape[1])
    line = np.searchsorted(drafts.rows, np.repeat(rows, sizes)[known])
    tokens[known] = drafts.ids[line, place[known] - 1]


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
        none.astype(np.int32),
        "its log has no steps",
    )


def _reused(columns: Columns, rows: Rows, note: dict[str, Any]) -> int | None:
    noted = _known(count(note, "n_reused"))
    if noted is None and "n_reused" in columns and len(rows):
        return _known(int(columns["n_reused"][rows[0]]))
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
