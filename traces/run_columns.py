"""The columns of a run that figures and comparisons need, and which of their rows are whose.

A request is what a sequence did between two request notes; a forward may be shared by several sequences.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from traces.context import PREFILL, VERIFY, count
from traces.packed import Packed
from traces.table import Chunk, Run

Rows = npt.NDArray[np.int32]
"""Numbers of rows among a run's columns"""
_TIMES = ("total", "forward", "sample", "gemm", "attn", "lm_head")


class RunColumns:
    """The columns that figures need, of one whole run, packed: 5 to 40 bytes a step.

    chunks: the run's, as Table.chunks_of gives them; rows of damaged frames are left out, and `damaged_from` is the
    first of them. also: more scalar fields of the vocabulary to keep where the run has them.

    `run[name]` unpacks a column anew: what looks at one request after the other takes its columns before it begins.
    """

    def __init__(self, run: Run, chunks: Iterable[Chunk], also: Iterable[str] = ()) -> None:
        self.run = run
        self.damaged_from: int | None = None
        kept = tuple(name for name in also if name in run.names)
        self.notes: list[tuple[int, dict[str, Any]]] = []
        empty = {**_needed(np.zeros(0, run.dtype), run, kept), "step": np.zeros(0, np.int64)}
        self._columns = {name: Packed(values.dtype) for name, values in empty.items()}
        for chunk in chunks:
            self.notes += chunk.notes
            rows, steps = chunk.rows, np.arange(chunk.first_step, chunk.first_step + len(chunk.rows))
            if chunk.bad is not None:
                if self.damaged_from is None:
                    self.damaged_from = chunk.first_step + int(np.argmax(chunk.bad))
                rows, steps = rows[~chunk.bad], steps[~chunk.bad]
            for name, values in _needed(rows, run, kept).items():
                self._columns[name].add(values)
            self._columns["step"].add(steps)
        self.clocked = run.facts.get("clock") not in ("none", "debugger")
        self.naive = run.facts.get("loop") == "naive"

    @property
    def fed(self) -> npt.NDArray[np.bool_]:
        """The steps after prefill that fed something."""
        return np.asarray((self["phase"] != PREFILL) & (self["n_tokens"] > 0))

    def __getitem__(self, name: str) -> Any:
        return self._columns[name].whole()

    def __contains__(self, name: str) -> bool:
        return name in self._columns

    def note_rows(self) -> list[int]:
        """For each note the row that follows it; damaged steps have none."""
        steps = [step for step, _ in self.notes]
        rows: list[int] = np.searchsorted(self["step"], steps).tolist() if steps else []
        return rows

    def take(self, *names: str) -> dict[str, Any]:
        """Several columns, unpacked; those that the run has."""
        return {name: self[name] for name in names if name in self}


def _needed(rows: Any, run: Run, also: tuple[str, ...]) -> dict[str, Any]:
    out = {name: rows[name] for name in ("phase", "seq_id", "n_tokens", "seq_len", "finish", *also)}
    for name in ("n_accepted", "n_drafted", "forward_id"):
        out[name] = rows[name] if name in run.names else np.full(len(rows), -1, np.int32)
    t_ns = rows["t_ns"].astype(np.int64) if "t_ns" in run.names else np.full(len(rows), -1, np.int64)
    out["t_ns"] = np.where(t_ns < 0, -1, t_ns)
    for part in _TIMES:
        name = part + "_ms"
        if name not in run.names:
            out[part] = np.full(len(rows), np.nan, np.float32)
            continue
        values = rows[name]
        with np.errstate(invalid="ignore"):  # infinite times of both signs
            out[part] = _times(values if values.ndim == 1 else values.sum(axis=1, dtype=np.float64))
    cache = rows["cache_len"]
    if cache.ndim == 2:
        shared = {i for i, layer in enumerate(run.layers) if layer.get("kind") == "shared"}  # rows of another layer
        own = [i for i in range(cache.shape[1]) if i not in shared]
        cache = np.maximum(cache[:, own], 0).sum(axis=1)
    out["rows"] = cache.astype(np.int64)
    return out


def _times(values: Any) -> npt.NDArray[np.float32]:
    """Milliseconds; what no clock measures (negative, infinite, more than a float holds) is absent."""
    known = (values >= 0) & (values <= np.finfo(np.float32).max)
    return np.where(known, values, np.nan).astype(np.float32)


class RequestSteps(NamedTuple):
    """Which rows of a run's columns are one request's. ended: the finish that a note tells of, if one does."""

    seq_id: int
    rows: Rows
    note: dict[str, Any]
    ended: Any


def request_steps(run: RunColumns) -> list[RequestSteps]:
    """Every request of a run that has steps, in the order of their first one."""
    marks: dict[int, list[tuple[int, dict[str, Any]]]] = {}
    ends: dict[int, list[tuple[int, Any]]] = {}
    for at, (_, note) in zip(run.note_rows(), run.notes, strict=True):
        if note.get("kind") == "request":
            marks.setdefault(count(note, "seq_id"), []).append((at, note))
        elif note.get("kind") == "finish":
            ends.setdefault(count(note, "seq_id"), []).append((at, note.get("finish")))
    found = []
    for seq_id, rows in rows_by_sequence(run["seq_id"]):
        asked = marks.get(seq_id, [])
        cuts = [int(np.searchsorted(rows, at)) for at, _ in asked] + [len(rows)]
        if cuts[0]:
            until = asked[0][0] if asked else None
            found.append(RequestSteps(seq_id, rows[: cuts[0]], {}, _ended(ends.get(seq_id, []), 0, until)))
        for i, ((begins, note), a, b) in enumerate(zip(asked, cuts, cuts[1:], strict=False)):
            if a < b:
                ended = _ended(ends.get(seq_id, []), begins, asked[i + 1][0] if i + 1 < len(asked) else None)
                found.append(RequestSteps(seq_id, rows[a:b], note, ended))
    return sorted(found, key=lambda request: int(request.rows[0]))


def rows_by_sequence(seq_id: Any) -> list[tuple[int, Rows]]:
    """The rows of each sequence, ascending, by its number. seq_id: (steps,)."""
    if not len(seq_id):
        return []
    if seq_id[0] == seq_id[-1] and (seq_id == seq_id[0]).all():
        return [(int(seq_id[0]), np.arange(len(seq_id), dtype=np.int32))]
    order = np.argsort(seq_id, kind="stable").astype(np.int32)
    parts = np.split(order, np.flatnonzero(np.diff(seq_id[order])) + 1)
    return [(int(seq_id[rows[0]]), rows) for rows in parts]


def _ended(finishes: list[tuple[int, Any]], begins: int, until: int | None) -> Any:
    """What the finish notes of one id say about the request that stood between two places."""
    return next((why for at, why in finishes if at >= begins and (until is None or at <= until)), None)


def first_of_forward(run: RunColumns) -> npt.NDArray[np.bool_]:
    """The first record of every forward; records without a forward_id stand for themselves."""
    ids = run["forward_id"]
    first = np.ones(len(ids), np.bool_)
    shared = np.flatnonzero(ids >= 0)
    if len(shared):
        _, where = np.unique(ids[shared], return_index=True)
        first[shared] = False
        first[shared[where]] = True
    return first


def tokens_of(phase: Any, n_accepted: Any) -> Any:
    """How many tokens each step sent out: none of a prefill, one and the accepted drafts of a verify step. int32."""
    sizes = (phase != PREFILL).astype(np.int32)
    verify = phase == VERIFY
    if verify.any():
        sizes[verify] += np.maximum(n_accepted[verify], 0)
    return sizes
