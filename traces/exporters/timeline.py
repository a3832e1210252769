"""A trace's steps laid out in time, for tools that draw slices.

A step begins at its `t_ns`; where a trace has none, behind the step before it. Inside a step only durations are
recorded, and so its parts are laid one behind another in the loop's order: sampling, then the forward with its layers
(each attention, then products) and the lm_head. What no part accounts for is the gap at the end.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

from traces.table import Chunk, Run, Table
from traces.writer import TraceError

_PARTS = ("qkv", "o", "gate_up", "down")


class Slice(NamedTuple):
    """A stretch of time with the stretches inside it; times in ns from the run's start."""

    name: str
    start: int
    end: int
    inside: list[Slice]


class TimedStep(NamedTuple):
    """One step: its slice, what a counter shows at its end, and its plain record."""

    number: int
    slice: Slice
    counters: dict[str, int]
    record: dict[str, Any]

    @property
    def seq_id(self) -> int:
        """The request."""
        value = self.record.get("seq_id")
        return value if isinstance(value, int) else -1


_SHOWN = ("token_id", "text", "n_tokens", "seq_before", "seq_len", "n_drafted", "n_accepted", "margin", "finish")


def shown(step: TimedStep) -> dict[str, Any]:
    """What is written beside a step's slice, as far as it is known."""
    values = {"step": step.number, **{name: step.record.get(name) for name in _SHOWN}}
    return {name: value for name, value in values.items() if value is not None}


def title(run: Run) -> str:
    """The model's and the engine's name, as far as they are known."""
    named = [part.get("name") for part in (run.facts.get("model"), run.facts.get("engine")) if isinstance(part, dict)]
    return " on ".join(str(name) for name in named if name) or "unknown"


def timed_steps(table: Table, run: Run, first: int = 0, stop: int | None = None) -> Iterator[TimedStep]:
    """The steps of a run from number `first` to before `stop`, sequence by sequence in order; damaged ones left out.

    A step is told when the next of its sequence is known: it ends there at the latest, so that slices never cross.
    Raises TraceError where steps have neither t_ns nor total_ms.
    """
    layer = _shown_layer(run)
    pending: dict[int, TimedStep] = {}
    clock = 0
    for number, record in _records(table, run, first, stop):
        start, total = _begin(record, clock), record.get("total_ms")
        if start is None:
            raise TraceError(f"{table.path}: step {number} has neither t_ns nor total_ms, and time is what is drawn")
        step = TimedStep(number, _slice(record, start), _counters(record, layer), record)
        clock = start + _ns(total)
        before = pending.pop(step.seq_id, None)
        if before is not None:
            yield _ending_by(before, start)
        if record.get("finish"):
            yield step
        else:
            pending[step.seq_id] = step
    yield from sorted(pending.values(), key=lambda step: step.number)


def _records(table: Table, run: Run, first: int, stop: int | None) -> Iterator[tuple[int, dict[str, Any]]]:
    for chunk in table.chunks_of(run, first, stop):
        yield from plain_records(chunk)


def plain_records(chunk: Chunk) -> Iterator[tuple[int, dict[str, Any]]]:
    """(step number, record as people read it) of the sound steps of a chunk."""
    decoder = chunk.run.decoder
    for number, record in enumerate(decoder.raw(chunk.rows.tobytes(), len(chunk.rows)), chunk.first_step):
        if chunk.bad is None or not chunk.bad[number - chunk.first_step]:
            yield number, decoder.plain(record)


def _begin(record: dict[str, Any], clock: int) -> int | None:
    t_ns = record.get("t_ns")
    if isinstance(t_ns, int):
        return t_ns
    return clock if record.get("total_ms") is not None else None


def _ns(ms: Any) -> int:
    return round(ms * 1e6) if isinstance(ms, (int, float)) and math.isfinite(ms) and ms > 0 else 0


def _slice(record: dict[str, Any], start: int) -> Slice:
    """A step's slice; as long as its total, or as its parts where those are all that is known."""
    inside: list[Slice] = []
    at = _lay(inside, "sample", start, _ns(record.get("sample_ms")))
    layers = _layers(record, at)
    rest = layers[-1].end if layers else at
    _lay(layers, "lm_head", rest, _ns(record.get("lm_head_ms")))
    spent = layers[-1].end - at if layers else 0
    forward = max(_ns(record.get("forward_ms")), spent)
    if record.get("forward_ms") is not None:
        inside.append(Slice("forward", at, at + forward, layers))
    else:
        inside += layers
    end = max(start + _ns(record.get("total_ms")), inside[-1].end if inside else start)
    return Slice(str(record.get("phase") or "step"), start, end, inside)


def _lay(slices: list[Slice], name: str, at: int, length: int) -> int:
    if length:
        slices.append(Slice(name, at, at + length, []))
    return at + length


def _layers(record: dict[str, Any], at: int) -> list[Slice]:
    """A slice a layer with its attention and products; these alone where only totals are recorded."""
    attention, products = record.get("attn_ms"), record.get("gemm_ms")
    count = max((len(part) for part in (attention, products) if isinstance(part, list)), default=0)
    if not count:
        return _parts(record, at, lambda value: value)
    slices = []
    for layer in range(count):
        parts = _parts(record, at, lambda value, layer=layer: _of_layer(value, layer))
        if parts:
            slices.append(Slice(f"layer {layer}", at, parts[-1].end, parts))
            at = parts[-1].end
    return slices


def _parts(record: dict[str, Any], at: int, of: Any) -> list[Slice]:
    slices: list[Slice] = []
    at = _lay(slices, "attn", at, _ns(of(record.get("attn_ms"))))
    length = _ns(of(record.get("gemm_ms")))
    if length:
        kinds: list[Slice] = []
        inner = at
        for kind in _PARTS:
            inner = _lay(kinds, kind, inner, _ns(of(record.get(kind + "_ms"))))
        slices.append(Slice("gemm", at, max(at + length, inner), kinds))
    return slices


def _of_layer(value: Any, layer: int) -> Any:
    return value[layer] if isinstance(value, list) and layer < len(value) else None


def _ending_by(step: TimedStep, limit: int) -> TimedStep:
    """The step, shortened where it would reach into the next one by the rounding of its times."""
    return step._replace(slice=_cut(step.slice, max(limit, step.slice.start)))


def _cut(piece: Slice, limit: int) -> Slice:
    if piece.end <= limit:
        return piece
    inside = [_cut(part, limit) for part in piece.inside if part.start < limit]
    return Slice(piece.name, piece.start, limit, inside)


def _shown_layer(run: Run) -> int:
    """The layer whose rows a counter shows: the first one with a full cache."""
    kinds = [layer.get("kind") for layer in run.layers]
    return kinds.index("full") if "full" in kinds else 0


def _counters(record: dict[str, Any], layer: int) -> dict[str, int]:
    rows = record.get("cache_len")
    rows = _of_layer(rows, layer) if isinstance(rows, list) else rows
    found = {"seq_len": record.get("seq_len"), "cache_len": rows}
    return {name: value for name, value in found.items() if isinstance(value, int)}
