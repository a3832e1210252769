"""Two runs side by side, request by request and step by step: where their tokens part, and their states and layers.

Tokens are compared as each request sent them out, a verify step owning a range of them. Steps stand side by side while
they cover the same tokens, and only up to the first token that differs: behind it the runs are two different texts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from traces.context import PREFILL
from traces.fields import ABSENT_I64, FINISH_NAMES
from traces.outputs import PIECE, Columns, Ints, Request, columns_at
from traces.run_columns import Rows, RunColumns, tokens_of
from traces.table import Table

Floats = npt.NDArray[np.float64]
Piece = tuple[Rows, Rows, dict[str, Any], dict[str, Any]]
"""Steps side by side: (rows of the base, rows of the new run, the fields of either)"""
Pairs = tuple[Rows, Rows, npt.NDArray[np.bool_]]
"""One request's steps side by side: (rows of the base, rows of the new run, whether the steps began alike)"""

FINGERPRINTS = ("hidden_rms", "hidden_sum")
"""Fields that tell what a layer computed, the better one first."""
RMS_NOISE = 1e-3
"""Relative difference of a layer's fingerprint that numerics explain where nothing before it tells more: builds that
sum in another order differ by less, a wrong position or a wrong weight by more."""
_AT_ONCE = 1 << 18
_RMS_LEAST, _RMS_MOST, _RMS_TIMES = 1e-5, 2e-2, 8.0
_LOGIT_NOISE = 1e-5
"""Relative to the logit: float32 rounding after a few hundred sums."""


@dataclass(frozen=True)
class Choice:
    """What one run sampled where the two part; None where its request had ended. text: None where none is known."""

    step: int | None
    token_id: int | None
    margin: float | None
    runner_up: int | None
    text: str | None = None


@dataclass(frozen=True)
class Divergence:
    """The first token that differs. request: its number in the alignment; index: among its output tokens, from 0.

    kind: "near-tie" (the margins lie within the numeric noise seen before), "fault", "length" (one side ended), or
    None where no margin tells. noise: the largest change of a margin between the two runs before, None where none was.
    """

    request: int
    seq_id: int
    index: int
    base: Choice
    new: Choice
    kind: str | None
    noise: float | None


@dataclass(frozen=True)
class Alignment:
    """One request of both runs by output token: token `i` belongs to step base_steps[i] and new_steps[i]; the first
    `agreed` tokens are the same. base or new is None where the other run has no such request."""

    base: Request | None
    new: Request | None
    agreed: int
    unknown: int
    """Places among the agreed ones where a side's id is unknown."""

    @property
    def base_steps(self) -> Ints:
        """The base's step of each output token."""
        return self.base.steps if self.base is not None else np.zeros(0, np.int64)

    @property
    def new_steps(self) -> Ints:
        """The new run's step of each output token."""
        return self.new.steps if self.new is not None else np.zeros(0, np.int64)


@dataclass(frozen=True)
class LayerDifference:
    """The first step, and in it the first layer, whose fingerprint differs beyond its noise; relative. field: which
    fingerprint."""

    field: str
    step: int
    new_step: int
    seq_id: int
    layer: int | None
    base: float
    new: float
    relative: float
    noise: float


@dataclass(frozen=True)
class StateDifference:
    """Two states that should be alike. step: in the base, None where it is about a whole request."""

    step: int | None
    new_step: int | None
    seq_id: int
    field: str
    layer: int | None
    base: Any
    new: Any


# -- side by side ------------------------------------------------------------------------------------------------------


def align(base: list[Request], new: list[Request]) -> list[Alignment]:
    """Requests by their ids and how often each came before, where both runs use the same ids; else by their order."""
    keys = [_keys(base), _keys(new)]
    if set(keys[0]) == set(keys[1]):
        other = dict(zip(keys[1], new, strict=True))
        pairs: list[tuple[Request | None, Request | None]] = [
            (request, other[key]) for key, request in zip(keys[0], base, strict=True)
        ]
    else:
        longest = max(len(base), len(new))
        pairs = [(base[i] if i < len(base) else None, new[i] if i < len(new) else None) for i in range(longest)]
    return [_aligned(b, n) for b, n in pairs]


def _keys(requests: list[Request]) -> list[tuple[int, int]]:
    seen: dict[int, int] = {}
    out = []
    for request in requests:
        seen[request.seq_id] = seen.get(request.seq_id, 0) + 1
        out.append((request.seq_id, seen[request.seq_id]))
    return out


def _aligned(base: Request | None, new: Request | None) -> Alignment:
    if base is None or new is None:
        return Alignment(base, new, 0, 0)
    n = min(len(base.tokens), len(new.tokens))
    a, b = base.tokens[:n], new.tokens[:n]
    unknown = (a == ABSENT_I64) | (b == ABSENT_I64)
    differs = (a != b) & ~unknown
    agreed = int(np.argmax(differs)) if differs.any() else n
    return Alignment(base, new, agreed, int(unknown[:agreed].sum()))


def parts_at(alignment: Alignment, lengths_count: bool) -> bool:
    """Whether the two requests part behind their agreed tokens. A side that was cut off there does not tell, and
    where the runs stop by other rules a different length is no difference."""
    base, new = alignment.base, alignment.new
    if base is None or new is None:
        return False
    lengths = len(base.tokens), len(new.tokens)
    if alignment.agreed < min(lengths):
        return True
    shorter = base if lengths[0] < lengths[1] else new
    return lengths_count and lengths[0] != lengths[1] and shorter.cut is None


def step_pairs(runs: tuple[RunColumns, RunColumns], alignments: list[Alignment]) -> list[Pairs]:
    """For each request the steps that stand side by side: (rows of the base, rows of the new run, whether they began
    alike).

    Sampling steps that cover the same output tokens, all of them agreed. Prefill steps one by one; where the prompt
    was fed in other pieces, only its last: they ended alike and did not begin alike.
    """
    base, new = (run.take("phase", "n_accepted") for run in runs)
    return [_pairs_of(base, new, alignment) for alignment in alignments]


def _pairs_of(base: Columns, new: Columns, alignment: Alignment) -> Pairs:
    a, b = alignment.base, alignment.new
    if a is None or b is None:
        return np.zeros(0, np.int32), np.zeros(0, np.int32), np.zeros(0, np.bool_)
    ends = []
    for columns, request in ((base, a), (new, b)):
        phase = columns["phase"][request.rows]
        size = tokens_of(phase, columns["n_accepted"][request.rows])
        to = np.cumsum(size, dtype=np.int32)
        ends.append((phase == PREFILL, to - size, to))
    (pre_a, from_a, to_a), (pre_b, from_b, to_b) = ends
    fill_a, fill_b = a.rows[pre_a], b.rows[pre_b]
    alike = len(fill_a) == len(fill_b)
    if not alike:
        fill_a, fill_b = (rows[-1:] if len(fill_a) and len(fill_b) else rows[:0] for rows in (fill_a, fill_b))
    took_a, took_b = ~pre_a & (to_a <= alignment.agreed), ~pre_b & (to_b <= alignment.agreed)
    from_a, to_a, rows_a = from_a[took_a], to_a[took_a], a.rows[took_a]
    from_b, to_b, rows_b = from_b[took_b], to_b[took_b], b.rows[took_b]
    if not np.array_equal(from_a, from_b):
        _, i, j = np.intersect1d(from_a, from_b, assume_unique=True, return_indices=True)
        to_a, to_b, rows_a, rows_b = to_a[i], to_b[j], rows_a[i], rows_b[j]
    same = to_a == to_b
    rows_a, rows_b = np.concatenate([fill_a, rows_a[same]]), np.concatenate([fill_b, rows_b[same]])
    began = np.ones(len(rows_a), np.bool_)
    began[: len(fill_a)] = alike
    if (rows_a[1:] < rows_a[:-1]).any():
        order = np.argsort(rows_a, kind="stable")
        rows_a, rows_b, began = rows_a[order], rows_b[order], began[order]
    return rows_a, rows_b, began


def divergence(
    base: RunColumns,
    new: RunColumns,
    alignments: list[Alignment],
    pairs: list[Pairs],
    lengths_count: bool,
    layers: LayerDifference | None,
) -> Divergence | None:
    """The first place, in the base's order, where tokens part. pairs: what step_pairs makes of the alignments."""
    found = [(i, a) for i, a in enumerate(alignments) if parts_at(a, lengths_count)]
    if not found:
        return None
    number, first = min(found, key=lambda f: _where(f[1]))
    assert first.base is not None
    assert first.new is not None
    choices = _choice(base, first.base, first.agreed), _choice(new, first.new, first.agreed)
    noise, floor = _margin_noise(base, new, pairs, _where(first))
    kind = _kind(choices, noise, floor, layers is not None and layers.step < _where(first))
    return Divergence(number, first.base.seq_id, first.agreed, *choices, kind, noise)


def _where(alignment: Alignment) -> int:
    steps = alignment.base_steps
    return int(steps[alignment.agreed]) if alignment.agreed < len(steps) else int(steps[-1]) + 1 if len(steps) else 0


def _choice(run: RunColumns, request: Request, index: int) -> Choice:
    if index >= len(request.tokens):
        return Choice(None, None, None, None)
    step = int(request.steps[index])
    row = int(np.searchsorted(run["step"], step))
    own = index == 0 or request.steps[index - 1] != step  # a verify step's margin is that of its own id, not of drafts
    margin = float(run["margin"][row]) if own and "margin" in run else float("nan")
    runner_up = int(run["runner_up"][row]) if own and "runner_up" in run else ABSENT_I64
    return Choice(
        step,
        int(request.tokens[index]),
        None if np.isnan(margin) else margin,
        None if runner_up == ABSENT_I64 else runner_up,
    )


def _margin_noise(base: RunColumns, new: RunColumns, pairs: list[Pairs], parted: int) -> tuple[float | None, float]:
    """(largest change of a margin between the runs before the divergence, what float32 rounding alone may do)."""
    if "margin" not in base or "margin" not in new:
        return None, 0.0
    changes: list[float] = []
    logit = 1.0
    columns, margin = base.take("step", "margin", "logit"), new["margin"]
    for a, b, _ in pairs:
        before = columns["step"][a] < parted
        if not before.any():
            continue
        change = np.abs(columns["margin"][a[before]].astype(np.float64) - margin[b[before]])
        changes += [float(np.nanmax(change))] if np.isfinite(change).any() else []
        if "logit" in columns:
            seen = np.abs(columns["logit"][a[before]])
            logit = max(logit, float(np.nanmax(seen))) if np.isfinite(seen).any() else logit
    return (max(changes) if changes else None), _LOGIT_NOISE * logit


def _kind(choices: tuple[Choice, Choice], noise: float | None, floor: float, faulty_before: bool) -> str | None:
    base, new = choices
    if base.token_id is None or new.token_id is None:
        return "length"
    margins = [c.margin for c in choices if c.margin is not None]
    if faulty_before:
        return "fault"
    if not margins:
        return None
    if any(
        mine.runner_up is not None and mine.runner_up != other.token_id for mine, other in ((base, new), (new, base))
    ):
        return "fault"
    # the gap between the two ids went from one margin to the other with its sign turned: by the sum of both
    if sum(margins) / len(margins) <= max(noise or 0.0, floor):
        return "near-tie"
    return "fault" if noise is not None else None


# -- layers and states -------------------------------------------------------------------------------------------------


Beside = tuple[LayerDifference | None, list[StateDifference]]


def beside(
    tables: tuple[Table, Table], runs: tuple[RunColumns, RunColumns], pairs: list[tuple[Rows, Rows]], fingerprints: bool
) -> list[Beside]:
    """Per-layer fields of each request's steps side by side: the first fingerprint that differs beyond
    its noise, and each layer's first difference in cache_len.

    pairs: (rows of the base, rows of the new run) of every request. Requests are read together, so many steps
    at a time: those that took turns lie spread over the whole file.

    The noise of a layer at a step is eight times what it, or a layer before it in the same step, differed by so far;
    at least 1e-5 and at most 2 % (nothing above is noise); 1e-3 where nothing came before. Relative differences; of a
    sum, whose terms may cancel, to the largest sum of the step up to that layer.
    """
    fingerprint = fingerprint_of(runs) if fingerprints else None
    names = ("cache_len",) if fingerprint is None else (fingerprint, "cache_len")
    found: list[Beside] = []
    for group in _together(pairs):
        if len(group) == 1:
            found.append(_compared(runs, fingerprint, _side_by_side(tables, runs, group[0], names)))
            continue
        joined = np.concatenate([a for a, _ in group]), np.concatenate([b for _, b in group])
        for whole in _side_by_side(tables, runs, joined, names, max(1, len(joined[0]))):
            found += [_compared(runs, fingerprint, [_part(whole, begin, stop)]) for begin, stop in _edges(group)]
        if not len(joined[0]):
            found += [(None, [])] * len(group)
    return found


def _together(pairs: list[tuple[Rows, Rows]]) -> Iterator[list[tuple[Rows, Rows]]]:
    """Neighbouring requests of at most _AT_ONCE steps in all; a longer one by itself."""
    group: list[tuple[Rows, Rows]] = []
    steps = 0
    for pair in pairs:
        if group and steps + len(pair[0]) > _AT_ONCE:
            yield group
            group, steps = [], 0
        group.append(pair)
        steps += len(pair[0])
    if group:
        yield group


def _edges(group: list[tuple[Rows, Rows]]) -> Iterator[tuple[int, int]]:
    begin = 0
    for rows, _ in group:
        yield begin, begin + len(rows)
        begin += len(rows)


def _part(piece: Piece, begin: int, stop: int) -> Piece:
    rows_a, rows_b, a, b = piece
    fields = [{name: values[begin:stop] for name, values in side.items()} for side in (a, b)]
    return rows_a[begin:stop], rows_b[begin:stop], fields[0], fields[1]


def _compared(runs: tuple[RunColumns, RunColumns], fingerprint: str | None, pieces: Iterable[Piece]) -> Beside:
    """One request's."""
    layer: LayerDifference | None = None
    seen: Floats | None = None
    rows: dict[int, StateDifference] = {}
    for rows_a, rows_b, a, b in pieces:
        if not len(rows_a):
            continue
        _rows_in(runs, (rows_a, rows_b), a["cache_len"], b["cache_len"], rows)
        if fingerprint is not None and layer is None:
            layer, seen = _layer_in(runs, (rows_a, rows_b), fingerprint, a[fingerprint], b[fingerprint], seen)
    return layer, list(rows.values())


def fingerprint_of(runs: tuple[RunColumns, RunColumns]) -> str | None:
    """The field that both runs tell their layers apart by; None where they have none in common."""
    return next((name for name in FINGERPRINTS if all(name in run.run.names for run in runs)), None)


def _layer_in(
    runs: tuple[RunColumns, RunColumns], rows: tuple[Rows, Rows], field: str, a: Any, b: Any, seen: Floats | None
) -> tuple[LayerDifference | None, Floats | None]:
    """(the first difference among these steps, the largest ones so far of each layer)."""
    x, y = a.astype(np.float64).reshape(len(a), -1), b.astype(np.float64).reshape(len(b), -1)
    if x.shape != y.shape:
        return None, seen
    if np.array_equal(x, y):
        return None, seen if seen is not None else np.zeros(x.shape[1])
    scale = np.maximum(np.abs(x), np.abs(y))
    if field == "hidden_sum":
        scale = np.fmax.accumulate(scale, axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        relative = np.abs(x - y) / scale
    relative = np.nan_to_num(np.where(x == y, 0.0, relative), nan=0.0)  # absent on both sides: says nothing
    relative[_broke(x, y) | _broke(y, x)] = 1.0
    noise = _layer_noise(relative, seen)
    beyond = relative > noise
    if not beyond.any():
        most = relative.max(axis=0)
        return None, most if seen is None else np.maximum(seen, most)
    i = int(np.argmax(beyond.any(axis=1)))
    layer = int(np.argmax(beyond[i]))
    found = LayerDifference(
        field,
        int(runs[0]["step"][rows[0][i]]),
        int(runs[1]["step"][rows[1][i]]),
        int(runs[0]["seq_id"][rows[0][i]]),
        layer if a.ndim > 1 else None,
        float(x[i, layer]),
        float(y[i, layer]),
        float(relative[i, layer]),
        float(noise[i, layer]),
    )
    return found, seen


def _broke(x: Floats, y: Floats) -> npt.NDArray[np.bool_]:
    """Where y overflowed, or is not a number though y has the layers before it in that step, and x has a value."""
    before = np.zeros(y.shape, np.bool_)
    before[:, 1:] = np.logical_and.accumulate(~np.isnan(y), axis=1)[:, :-1]
    broke: npt.NDArray[np.bool_] = np.isfinite(x) & (np.isinf(y) | np.isnan(y) & before)
    return broke


def _layer_noise(relative: Floats, seen: Floats | None) -> Floats:
    before = np.zeros_like(relative)
    before[1:] = np.maximum.accumulate(relative, axis=0)[:-1]
    if seen is not None:
        before = np.maximum(before, seen)
    within = np.zeros_like(relative)
    within[:, 1:] = np.maximum.accumulate(relative, axis=1)[:, :-1]
    noise = np.clip(_RMS_TIMES * np.maximum(before, within), _RMS_LEAST, _RMS_MOST)
    if seen is None:
        noise[:1] = np.maximum(noise[:1], RMS_NOISE)
    return noise


def _rows_in(
    runs: tuple[RunColumns, RunColumns], rows: tuple[Rows, Rows], a: Any, b: Any, found: dict[int, StateDifference]
) -> None:
    """Add each layer's first difference in cache_len among these steps; absent counts say nothing."""
    x, y = a.reshape(len(a), -1), b.reshape(len(b), -1)
    layers = min(x.shape[1], y.shape[1])  # a producer that sees one layer has one
    x, y = x[:, :layers], y[:, :layers]
    differs = x != y
    if not differs.any():
        return
    differs &= (x >= 0) & (y >= 0)
    for layer in map(int, np.flatnonzero(differs.any(axis=0))):
        i = int(np.argmax(differs[:, layer]))
        seen = _difference(runs, rows[0][i], rows[1][i], "cache_len", layer, x[i, layer], y[i, layer])
        found.setdefault(layer, seen)


def length_differences(runs: tuple[RunColumns, RunColumns], pairs: list[Pairs]) -> list[list[StateDifference]]:
    """For each request the first difference of each length field, and of finish, over its steps side by side."""
    found: list[list[StateDifference]] = [[] for _ in pairs]
    for name in ("n_tokens", "seq_before", "seq_len", "finish"):
        base, new = (run[name] for run in runs)
        for (a, b, began), own in zip(pairs, found, strict=True):
            x, y = base[a], new[b]
            differs = x != y
            if name != "finish":
                differs &= (x >= 0) & (y >= 0)
            if name in ("n_tokens", "seq_before"):
                differs &= began
            if differs.any():
                i = int(np.argmax(differs))
                own.append(_difference(runs, a[i], b[i], name, None, x[i], y[i]))
    return found


def _difference(
    runs: tuple[RunColumns, RunColumns], a: int, b: int, field: str, layer: int | None, x: Any, y: Any
) -> StateDifference:
    base, new = runs
    values = [_plain(field, int(v)) for v in (x, y)]
    return StateDifference(int(base["step"][a]), int(new["step"][b]), int(base["seq_id"][a]), field, layer, *values)


def _plain(field: str, value: int) -> int | str | None:
    """A finish by its name, None where there is none; every other value as it is."""
    if field != "finish":
        return value
    return FINISH_NAMES.get(value, str(value)) if value else None


def request_differences(alignment: Alignment, lengths_count: bool) -> list[StateDifference]:
    """What differs between two requests as wholes: cache reuse, and what only whole requests have to tell."""
    base, new = alignment.base, alignment.new
    if base is None or new is None:
        return []
    names = ["reused", "evaluated"]
    only_totals = not len(base.rows) and not len(new.rows)
    whole = base.cut is None and new.cut is None and not parts_at(alignment, lengths_count)
    if lengths_count and (whole or only_totals):
        names += ["drafted", "accepted", "generated", "finish"]
    out = []
    for name in names:
        x, y = getattr(base, name), getattr(new, name)
        if x != y and (name == "finish" or None not in (x, y)):
            out.append(StateDifference(None, None, base.seq_id, name, None, x, y))
    return out


def _side_by_side(
    tables: tuple[Table, Table],
    runs: tuple[RunColumns, RunColumns],
    pairs: tuple[Rows, Rows],
    names: tuple[str, ...],
    at_once: int = PIECE,
) -> Iterator[Piece]:
    """(rows of the base, rows of the new run, the fields of either) in pieces."""
    steps = [np.asarray(run["step"][rows]) for run, rows in zip(runs, pairs, strict=True)]
    begin = 0
    sides = (columns_at(table, own, names, at_once) for table, own in zip(tables, steps, strict=True))
    for a, b in zip(*sides, strict=True):
        n = len(a[names[0]])
        yield pairs[0][begin : begin + n], pairs[1][begin : begin + n], a, b
        begin += n
