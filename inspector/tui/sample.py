"""A run's steps at a glance: up to a few thousand of them, spread evenly, as columns to draw and to take medians of.

Reading them costs milliseconds whatever the length of the trace, so pictures of ten million steps come at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from traces.fields import ABSENT_U64, PHASES
from traces.writer import TraceError

if TYPE_CHECKING:
    from traces.table import Run, Table

PIECES, PIECE = 128, 16
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Medians:
    """Medians in ms, one a layer where layers are timed, over the sampled steps of one phase; `steps` of them."""

    gemm: tuple[float | None, ...] = ()
    attention: tuple[float | None, ...] = ()
    head: float | None = None
    all_gemm: float | None = None
    all_attention: float | None = None
    steps: int = 0


@dataclass(frozen=True, eq=False)
class Sample:
    """Sampled steps of a run: `rows` are sound records, `numbers` their steps; `of` steps stand in the run.

    piece: which records are neighbours in the trace.
    """

    rows: Any
    numbers: npt.NDArray[np.int64]
    piece: npt.NDArray[np.int64]
    of: int

    def medians(self, phase: str) -> Medians:
        """The medians over the steps of a phase that fed something."""
        rows = self.rows[(self.rows["phase"] == PHASES.get(phase, 0)) & (self.rows["n_tokens"] > 0)]
        if not len(rows):
            return Medians()
        gemm, attention, head = (_columns(rows, name) for name in ("gemm_ms", "attn_ms", "lm_head_ms"))
        return Medians(
            gemm=_medians(gemm) if gemm.shape[1] > 1 else (),
            attention=_medians(attention) if attention.shape[1] > 1 else (),
            head=_medians(head)[0],
            all_gemm=_medians(_gemm(rows)[:, None])[0],
            all_attention=_medians(_sum(attention)[:, None])[0],
            steps=len(rows),
        )

    def by_context(self) -> tuple[npt.NDArray[np.int64], Floats, Floats]:
        """(sequence's length, GEMM, attention: ms a token) of the steps that made a sequence longer by sampling."""
        grown = self.rows["seq_len"].astype(np.int64) - self.rows["seq_before"]
        known = (self.rows["seq_len"] >= 0) & (self.rows["seq_before"] >= 0) & (grown > 0)
        rows = self.rows[known & (self.rows["phase"] != PHASES["prefill"])]
        grown = rows["seq_len"].astype(np.int64) - rows["seq_before"]
        return rows["seq_len"].astype(np.int64), _gemm(rows) / grown, _sum(_columns(rows, "attn_ms")) / grown

    def gaps(self) -> Floats:
        """ITL in ms: from each sampled step to the next of its sequence; where no beginnings are recorded, totals."""
        return gaps_ms(self.rows, self.piece)


def take(table: Table, run: Run, steps: int) -> Sample:
    """Up to PIECES * PIECE steps of a run, of which `steps` in the whole trace are there to be read."""
    first, stop = run.first_step, min(table.run_end(run), steps)
    n = max(stop - first, 0)
    if n <= PIECES * PIECE:
        starts = list(range(first, stop, PIECE))
    else:
        starts = [first + round(i * (n - PIECE) / (PIECES - 1)) for i in range(PIECES)]
    rows, numbers, pieces = [np.zeros(0, run.dtype)], [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    for start in starts:
        try:
            found, bad = table.rows(start, min(start + PIECE, stop))
        except TraceError:
            break  # the head says what became of the file
        sound = np.ones(len(found), np.bool_) if bad is None else ~bad
        rows.append(found[sound])
        numbers.append(np.flatnonzero(sound) + start)
        pieces.append(np.full(int(sound.sum()), 0 if n <= PIECES * PIECE else start))
    return Sample(np.concatenate(rows), np.concatenate(numbers), np.concatenate(pieces), n)


def gaps_ms(rows: Any, piece: Any = None) -> Floats:
    """ITL in ms of neighbouring records, in their order. piece: only records of one piece are neighbours."""
    sampled = rows["phase"] != PHASES["prefill"]
    rows = rows[sampled]
    names = rows.dtype.names
    if "t_ns" in names and len(rows) and not (rows["t_ns"] == ABSENT_U64).any():
        pieces = np.zeros(len(rows), np.int64) if piece is None else piece[sampled]
        order = np.lexsort((np.arange(len(rows)), rows["seq_id"], pieces))
        began = rows["t_ns"][order].astype(np.int64)
        alike = (np.diff(rows["seq_id"][order]) == 0) & (np.diff(pieces[order]) == 0)
        behind = order[1:][alike]
        gaps = (np.diff(began)[alike] / 1e6)[np.argsort(behind)]
        return np.asarray(gaps[gaps >= 0])
    total = rows["total_ms"].astype(np.float64) if "total_ms" in names else np.zeros(0)
    return np.asarray(total[np.isfinite(total)])


def _columns(rows: Any, name: str) -> Floats:
    """A time as (steps, layers) or (steps, 1); NaN where absent."""
    if name not in rows.dtype.names:
        return np.full((len(rows), 1), np.nan)
    values = rows[name].astype(np.float64)
    return np.asarray(values[:, None] if values.ndim == 1 else values)


def _sum(values: Floats) -> Floats:
    """Over the layers that have a value; NaN where none has."""
    total = np.nansum(values, axis=1)
    total[np.isnan(values).all(axis=1)] = np.nan
    return np.asarray(total)


def _gemm(rows: Any) -> Floats:
    return _sum(np.stack([_sum(_columns(rows, "gemm_ms")), _sum(_columns(rows, "lm_head_ms"))], axis=1))


def _medians(values: Floats) -> tuple[float | None, ...]:
    out: list[float | None] = []
    for column in values.T:
        finite = column[np.isfinite(column)]
        out.append(float(np.median(finite)) if len(finite) else None)
    return tuple(out)
