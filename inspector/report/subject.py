"""What a report tells of one trace: read once, chunk by chunk, so that a trace larger than memory has a page too.

Rules judge the chunks on their way into the columns that figures need; of the times that are one a layer, which would
not fit, a random sample of steps is kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from traces.check import Checker, Report
from traces.columnar import check_chunk
from traces.context import PREFILL
from traces.metrics import Request, requests_of, stats
from traces.run_columns import RunColumns, request_steps
from traces.significance import Floats
from traces.table import Chunk, Run, Table

_SAMPLED = 20_000
_SEED = 20_011
_PER_LAYER = {"gemm": "gemm_ms", "attn": "attn_ms"}


@dataclass(frozen=True)
class LayerTimes:
    """Times of decode and verify steps, one a layer: context (steps,), parts "gemm", "attn" (steps, layers) ms.

    sampled: how many of the `steps` there are were kept, None for all.
    """

    context: Floats
    parts: dict[str, Floats]
    sampled: int | None
    steps: int


@dataclass(frozen=True)
class StepTimes:
    """Times of decode and verify steps as a whole: context (steps,), parts "total", "gemm", "attn" (steps,) ms."""

    context: Floats
    parts: dict[str, Floats]


@dataclass(frozen=True)
class Subject:
    """One trace. requests: with the note that asked for each; layers: of the first run that timed them."""

    path: str
    table: Table
    report: Report
    figures: dict[str, Any]
    requests: list[tuple[Request, dict[str, Any]]]
    times: StepTimes | None
    layers: LayerTimes | None
    gaps: Floats


def read(path: str, table: Table) -> Subject:
    """Everything that a page tells of a trace but its film."""
    checker = Checker()
    columns, samples = [], []
    for run in table.runs:
        checker.start_run(run.facts)
        sample = _LayerSample(run, table.run_end(run) - run.first_step)
        columns.append(RunColumns(run, _seen(table.chunks_of(run), checker, sample)))
        samples.append(sample)
    requests = [pair for run in columns for pair in _requests(run)]
    gaps = [request.gaps_ms for request, _ in requests]
    return Subject(
        path,
        table,
        checker.report,
        stats(table),
        requests,
        _step_times([run for run in columns if run.clocked]),
        next((times for times in (s.times() for s in samples) if times is not None), None),
        np.concatenate(gaps) if gaps else np.zeros(0),
    )


def _seen(chunks: Iterable[Chunk], checker: Checker, sample: _LayerSample) -> Iterator[Chunk]:
    """The chunks, judged and sampled on their way: a trace is read once for all of it."""
    for chunk in chunks:
        check_chunk(checker, chunk)
        sample.add(chunk)
        yield chunk


class _LayerSample:
    """The times of about _SAMPLED of a run's steps, drawn at random: every nth would meet one sequence of a batch."""

    def __init__(self, run: Run, steps: int) -> None:
        clocked = run.facts.get("clock") not in ("none", "debugger")
        shapes = {part: run.dtype[name].shape for part, name in _PER_LAYER.items() if name in run.names}
        self._parts = [part for part, shape in shapes.items() if clocked and shape and shape[0] > 1]
        self._share = min(1.0, _SAMPLED / max(steps, 1))
        self._random = np.random.default_rng(_SEED)
        self._kept: list[tuple[Floats, list[Floats]]] = []
        self._steps = 0

    def add(self, chunk: Chunk) -> None:
        """Draw from a chunk."""
        if not self._parts:
            return
        rows = chunk.rows
        fed = (rows["phase"] != PREFILL) & (rows["n_tokens"] > 0) & (rows["seq_len"] >= 0)
        if chunk.bad is not None:
            fed &= ~chunk.bad
        self._steps += int(fed.sum())
        drawn = rows[fed & (self._random.random(len(rows)) < self._share)]
        values = [drawn[_PER_LAYER[part]].astype(np.float64) for part in self._parts]
        self._kept.append((drawn["seq_len"].astype(np.float64), values))

    def times(self) -> LayerTimes | None:
        """What was drawn; None where no layer was timed."""
        contexts = [context for context, _ in self._kept]
        if not sum(map(len, contexts)):
            return None
        columns = [np.concatenate([values[i] for _, values in self._kept]) for i in range(len(self._parts))]
        parts = {part: values for part, values in zip(self._parts, columns, strict=True) if np.isfinite(values).any()}
        context = np.concatenate(contexts)
        return LayerTimes(context, parts, len(context) if self._share < 1 else None, self._steps) if parts else None


def _requests(run: RunColumns) -> Iterator[tuple[Request, dict[str, Any]]]:
    """Each request with its note; those that a log has only totals of have none."""
    notes = [part.note for part in request_steps(run)]
    for i, request in enumerate(requests_of(run)):
        yield request, notes[i] if i < len(notes) else {}


def _step_times(runs: list[RunColumns]) -> StepTimes | None:
    chosen = [(run, run.fed & (run["seq_len"] >= 0)) for run in runs]
    if not sum(int(fed.sum()) for _, fed in chosen):
        return None
    parts = {
        "total": [run["total"][fed] for run, fed in chosen],
        "gemm": [run["gemm"][fed] + np.nan_to_num(run["lm_head"][fed]) for run, fed in chosen],
        "attn": [run["attn"][fed] for run, fed in chosen],
    }
    joined = {name: np.concatenate(values).astype(np.float64) for name, values in parts.items()}
    timed = {name: values for name, values in joined.items() if np.isfinite(values).any()}
    context = np.concatenate([run["seq_len"][fed] for run, fed in chosen]).astype(np.float64)
    return StepTimes(context, timed) if timed else None
