"""The times of several runs a side, compared like with like: one number a run and line, from steps that every run has.

A run's number for a line is the geometric mean over cells of the median over that cell's steps. A cell holds steps of
one phase that did the same work: as many tokens fed, as many sequences in the forward, the same stretch of context.
Only cells that every run has count, so runs of different length are compared where they overlap.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from traces.context import PREFILL, VERIFY, count
from traces.fields import PHASE_NAMES
from traces.metrics import requests_of
from traces.outputs import Ints, columns_at
from traces.run_columns import Rows, RunColumns, first_of_forward
from traces.significance import (
    ALPHA_PARTS,
    Floats,
    Judgement,
    against_the_others,
    judge_family,
    judge_totals,
)
from traces.table import Table

MIN_EFFECT = 0.03
PARTS = ("gemm", "attn", "sample", "other")
_STRETCHES = 8
_MOST_IN_A_CELL = 4096
_SHARE_OF_THE_WHOLE = 0.25
_WARM_UP, _WARM_UP_SHARE, _WARM_UP_STEPS = 1.10, 20, 60
_OUTLIER = 3.5
_FEWEST_LAYERS = 3


class Line(NamedTuple):
    """What is compared: phase "prefill", "decode", "verify", or "request" with the parts ttft and tpot; part "total",
    "gemm", "attn", "sample", "other"; layer None for all."""

    phase: str
    part: str
    layer: int | None


@dataclass(frozen=True)
class TimeLine:
    """One line and its verdict. base_ms, new_ms: the middle run's. For a layer the judgement is about its time against
    its run's other layers, and `raw_ratio` is new / base as it was measured."""

    line: Line
    base_ms: float
    new_ms: float
    raw_ratio: float
    runs: tuple[int, int]
    judgement: Judgement


@dataclass(frozen=True)
class Timing:
    """Every line, totals first; `notes` name warm-up, drift and outlier runs."""

    lines: list[TimeLine]
    notes: list[str]

    @property
    def verdict(self) -> str:
        """differs where any line is faster or slower; else cannot-decide where a total is undecided; else same."""
        verdicts = [t.judgement.verdict for t in self.lines]
        if any(v in ("faster", "slower") for v in verdicts):
            return "differs"
        totals = [t.judgement.verdict for t in self.lines if is_total(t.line)]
        return "cannot-decide" if not totals or "cannot-decide" in totals else "same"

    @property
    def direction(self) -> str | None:
        """faster, slower, or both where some lines are and some are not; None where none is either."""
        seen = {t.judgement.verdict for t in self.lines} & {"faster", "slower"}
        return " and ".join(sorted(seen)) or None


def is_total(line: Line) -> bool:
    """Whether it belongs to the family of totals."""
    return line.layer is None and line.part in ("total", "ttft", "tpot")


class TimedRun(NamedTuple):
    """A run with the file that it is in, and how it is called where runs are named."""

    name: str
    table: Table
    columns: RunColumns


def compare_times(base: list[TimedRun], new: list[TimedRun], min_effect: float = MIN_EFFECT) -> Timing:
    """The verdicts on time. Runs without a clock of their own have no lines."""
    runs = base + new
    cells = _common_cells([run.columns for run in runs])
    values = [
        {Line("prefill", "total", None): prefill, **_measure(run, keys)}
        for run, keys, prefill in zip(runs, cells, _prefill_totals(runs), strict=True)
    ]
    names = [line for line in values[0] if all(v.get(line, math.nan) > 0 for v in values)]
    if not names:
        return Timing([], [])
    matrix = np.array([[v[line] for line in names] for v in values])
    sides = matrix[: len(base)], matrix[len(base) :]
    lines = [_total_lines, _part_lines, _layer_lines]
    found = [line for make in lines for line in make(names, *sides, min_effect)]
    return Timing(found, _notes(base, new, names, sides, min_effect))


# -- like with like ----------------------------------------------------------------------------------------------------


def _common_cells(runs: list[RunColumns]) -> list[dict[int, tuple[Rows, Rows]]]:
    """For each run: phase -> (rows, cell of each row), cells numbered alike in all runs."""
    usable = [_usable(run) for run in runs]
    out: list[dict[int, tuple[Rows, Rows]]] = [{} for _ in runs]
    for phase in PHASE_NAMES:
        rows = [
            np.flatnonzero(mask & (run["phase"] == phase)).astype(np.int32)
            for run, mask in zip(runs, usable, strict=True)
        ]
        if any(not len(r) for r in rows):
            continue
        contexts = [_context(run)[r] for run, r in zip(runs, rows, strict=True)]
        if phase != PREFILL:
            low = max(int(c.min()) for c in contexts)
            high = min(int(c.max()) for c in contexts)
            if low > high:
                continue
            contexts = [_stretch(c, low, high) for c in contexts]
        keys = [_keys(run, r, c) for run, r, c in zip(runs, rows, contexts, strict=True)]
        common = np.unique(keys[0])
        for other in keys[1:]:
            common = np.intersect1d(common, np.unique(other), assume_unique=True)
        if phase != PREFILL:
            common = common[common >= 0]
        if not len(common):
            continue
        for i, (r, k) in enumerate(zip(rows, keys, strict=True)):
            at = np.minimum(np.searchsorted(common, k), len(common) - 1).astype(np.int32)
            inside = common[at] == k
            out[i][phase] = _thinned(r[inside], at[inside], len(common))
    return out


def _usable(run: RunColumns) -> npt.NDArray[np.bool_]:
    """Steps that fed something, each forward once; none where the clock was not the engine's own."""
    if not run.clocked:
        return np.zeros(len(run["phase"]), np.bool_)
    usable: npt.NDArray[np.bool_] = first_of_forward(run) & (run["n_tokens"] > 0) & (_context(run) >= 0)
    return usable


def _context(run: RunColumns) -> Ints:
    before = run["seq_before"].astype(np.int64)
    context: Ints = np.where(before >= 0, before, run["seq_len"].astype(np.int64) - run["n_tokens"])
    return context


def _stretch(context: Ints, low: int, high: int) -> Ints:
    """Which of eight equal stretches of the common range; -1 outside of it."""
    stretch = (context - low) * min(_STRETCHES, high - low + 1) // (high - low + 1)
    return np.where((context < low) | (context > high), -1, stretch)


def _keys(run: RunColumns, rows: Rows, context: Ints) -> Ints:
    """One number for what a step did: context or stretch, sequences in its forward, tokens fed."""
    ids = run["forward_id"]
    together = np.ones(len(rows), np.int64)
    shared = np.flatnonzero(ids[rows] >= 0)
    if len(shared):
        unique, counts = np.unique(ids[ids >= 0], return_counts=True)
        together[shared] = counts[np.searchsorted(unique, ids[rows[shared]])]
    tokens = np.minimum(run["n_tokens"][rows].astype(np.int64), (1 << 22) - 1)
    return np.where(context < 0, -1, ((context << 12) + np.minimum(together, 4095) << 22) + tokens)


def _thinned(rows: Rows, cells: Rows, n_cells: int) -> tuple[Rows, Rows]:
    """At most 4,096 evenly spaced steps of each cell: their median is as sure as a run's own luck lets it be."""
    sizes = np.bincount(cells, minlength=n_cells)
    if sizes.max() <= _MOST_IN_A_CELL:
        return rows, cells
    order = np.argsort(cells, kind="stable")
    starts = np.cumsum(sizes) - sizes
    kept = [
        order[start + np.unique(np.linspace(0, size - 1, min(size, _MOST_IN_A_CELL)).astype(np.int64))]
        for start, size in zip(starts, sizes, strict=True)
    ]
    chosen = np.sort(np.concatenate(kept))
    return rows[chosen], cells[chosen]


# -- one number a run and line -----------------------------------------------------------------------------------------


def _measure(run: TimedRun, cells: dict[int, tuple[Rows, Rows]]) -> dict[Line, float]:
    found: dict[Line, float] = {}
    for phase, (rows, cell) in cells.items():
        name = PHASE_NAMES[phase]
        parts = _parts(run.columns, rows)
        for part, values in parts.items():
            found[Line(name, part, None)] = _middle(values[:, None], cell)[0]
        for part, layered in _layers(run, rows).items():
            if layered.shape[1] >= _FEWEST_LAYERS:
                for layer, middle in enumerate(_middle(layered, cell)):
                    found[Line(name, part, layer)] = middle
    if run.columns.clocked:
        requests = requests_of(run.columns)
        for part in ("ttft", "tpot"):
            seen = [v for v in (getattr(r, part + "_ms") for r in requests) if v is not None]
            found[Line("request", part, None)] = float(np.median(seen)) if seen else math.nan
    return {line: float(value) for line, value in found.items() if value > 0}


def _prefill_totals(runs: list[TimedRun]) -> list[float]:
    """Of runs whose log has only totals: the geometric mean of their requests' prefill_ms, where all fed the same."""
    noted = [[r.totals for r in requests_of(run.columns) if r.totals is not None] for run in runs]
    fed = [[n for n in (count(note, "fed") for note in notes) if n > 0] for notes in noted]
    if not fed[0] or any(other != fed[0] for other in fed) or not all(run.columns.clocked for run in runs):
        return [math.nan] * len(runs)
    return [_geometric([_time_of(note) for note in notes if count(note, "fed") > 0]) for notes in noted]


def _time_of(note: dict[str, Any]) -> float:
    ms = note.get("prefill_ms")
    return float(ms) if isinstance(ms, (int, float)) and math.isfinite(ms) and ms > 0 else math.nan


def _geometric(values: list[float]) -> float:
    return math.exp(sum(map(math.log, values)) / len(values))


def _total(run: RunColumns, rows: Rows) -> Floats:
    """Times of steps in ms: that of the forward where no total was recorded."""
    total: Floats = run["total"][rows].astype(np.float64)
    holes = np.isnan(total)
    if holes.any():
        total[holes] = run["forward"][rows[holes]]
    return _between(run)[rows] if np.isnan(total).all() else total


def _parts(run: RunColumns, rows: Rows) -> dict[str, Floats]:
    """Times of steps in ms. GEMM counts the lm_head too, as everywhere; other is what no part accounts for."""
    at = {name: run[name][rows].astype(np.float64) for name in ("sample", "gemm", "attn", "lm_head")}
    total = _total(run, rows)
    gemm = at["gemm"] + np.nan_to_num(at["lm_head"])
    other = total - gemm - at["attn"] - np.nan_to_num(at["sample"])
    return {"total": total, "gemm": gemm, "attn": at["attn"], "sample": at["sample"], "other": other}


def _between(run: RunColumns) -> Floats:
    """Time from each step's beginning to the next one's, in ms: all there is where only t_ns was recorded."""
    t_ns: Floats = run["t_ns"].astype(np.float64)
    if not len(t_ns):
        return t_ns
    gaps: Floats = np.append(np.diff(t_ns), np.nan) / 1e6
    gaps[(t_ns < 0) | (np.append(t_ns[1:], -1) < 0) | (gaps < 0)] = np.nan  # less than nothing: the clock was set back
    return gaps


def _layers(run: TimedRun, rows: Rows) -> dict[str, Floats]:
    """gemm and attn of each layer, where they were recorded so: (steps, layers). What is no time is absent."""
    dtype = run.columns.run.dtype
    names = tuple(n for n in ("gemm_ms", "attn_ms") if n in run.columns.run.names and dtype[n].shape)
    if not names:
        return {}
    pieces = list(columns_at(run.table, run.columns["step"][rows], names))
    layered = {name.removesuffix("_ms"): np.concatenate([p[name] for p in pieces], dtype=np.float64) for name in names}
    return {part: np.where((ms >= 0) & np.isfinite(ms), ms, np.nan) for part, ms in layered.items()}


def _middle(values: Any, cells: Rows) -> Floats:
    """Geometric mean over cells of the cells' medians, a column; NaN where a cell has no positive one."""
    order = np.argsort(cells, kind="stable")
    edges = np.flatnonzero(np.diff(cells[order])) + 1
    medians = []
    for part in np.split(values[order], edges):
        holes = np.isnan(part)
        if not holes.any():
            medians.append(np.median(part, axis=0))
        else:
            known = [column[~hole] for column, hole in zip(part.T, holes.T, strict=True)]
            medians.append(np.array([np.median(c) if len(c) else np.nan for c in known]))
    middles = np.array(medians, np.float64)
    middles[~(middles > 0)] = np.nan
    result: Floats = np.exp(np.log(middles).mean(axis=0))
    return result


# -- families ----------------------------------------------------------------------------------------------------------


def _total_lines(names: list[Line], base: Floats, new: Floats, min_effect: float) -> list[TimeLine]:
    chosen = [i for i, line in enumerate(names) if is_total(line)]
    if not chosen:
        return []
    judged = judge_totals(base[:, chosen], new[:, chosen], min_effect)
    return [_line(names[i], base[:, i], new[:, i], j) for i, j in zip(chosen, judged, strict=True)]


def _part_lines(names: list[Line], base: Floats, new: Floats, min_effect: float) -> list[TimeLine]:
    out = []
    for phase in dict.fromkeys(line.phase for line in names):
        chosen = [i for i, n in enumerate(names) if n.phase == phase and n.layer is None and n.part in PARTS]
        if chosen:
            judged = judge_family(base[:, chosen], new[:, chosen], _share(names), min_effect)
            out += [_line(names[i], base[:, i], new[:, i], j) for i, j in zip(chosen, judged, strict=True)]
    return out


def _layer_lines(names: list[Line], base: Floats, new: Floats, min_effect: float) -> list[TimeLine]:
    out = []
    for phase, part in dict.fromkeys((line.phase, line.part) for line in names if line.layer is not None):
        chosen = [i for i, n in enumerate(names) if (n.phase, n.part) == (phase, part) and n.layer is not None]
        if len(chosen) < _FEWEST_LAYERS:
            continue
        alone_base, alone_new, change = against_the_others(base[:, chosen], new[:, chosen])
        # what makes a whole part several times faster never makes every layer faster by the same
        to_name = _SHARE_OF_THE_WHOLE * abs(math.log(change))
        judged = judge_family(alone_base, alone_new, _share(names), min_effect, to_name)
        out += [_line(names[i], base[:, i], new[:, i], j) for i, j in zip(chosen, judged, strict=True)]
    return out


def _share(names: list[Line]) -> float:
    """The part of the alarm budget that each family of parts or layers has."""
    families = {(n.phase, n.part if n.layer is not None else None) for n in names if not is_total(n)}
    return ALPHA_PARTS / len(families)


def _line(line: Line, base: Floats, new: Floats, judgement: Judgement) -> TimeLine:
    middle = float(np.median(base)), float(np.median(new))
    return TimeLine(line, *middle, middle[1] / middle[0], (len(base), len(new)), judgement)


# -- warm-up, drift, outliers ------------------------------------------------------------------------------------------


def _notes(
    base: list[TimedRun], new: list[TimedRun], names: list[Line], sides: tuple[Floats, Floats], min_effect: float
) -> list[str]:
    out = []
    for side, runs, values in (("base", base, sides[0]), ("new", new, sides[1])):
        for i, line in enumerate(names):
            if line.part == "total" and line.layer is None:
                out += _outliers(side, runs, line.phase, values[:, i], min_effect)
                out += _drift(side, line.phase, values[:, i], min_effect)
        out += _warm_up(side, runs)
    return out


def _outliers(side: str, runs: list[TimedRun], phase: str, values: Floats, min_effect: float) -> list[str]:
    """Runs with a modified z-score above 3.5 (Iglewicz and Hoaglin 1993) that are off by more than the minimum."""
    if len(values) < 4:
        return []
    logs = np.log(values)
    off = logs - np.median(logs)
    spread = 1.4826 * float(np.median(np.abs(off)))
    far = (np.abs(off) > _OUTLIER * spread) & (np.abs(off) > math.log1p(min_effect))
    first = " (the first run: a cold start?)" if far[0] and off[0] > 0 else ""
    return [
        f"outlier: {side} {runs[i].name}: {phase} took {math.exp(off[i]):.2f} times its side's median"
        + (first if i == 0 else "")
        for i in np.flatnonzero(far)
    ]


def _drift(side: str, phase: str, values: Floats, min_effect: float) -> list[str]:
    """A side whose runs got slower or faster one after the other (Kendall's exact test against the run's number)."""
    if len(values) < 5:
        return []
    from scipy.stats import kendalltau, theilslopes

    tau = kendalltau(np.arange(len(values)), values)
    slope = float(theilslopes(np.log(values)).slope) * (len(values) - 1)
    if tau.pvalue > 0.01 or abs(slope) < math.log1p(min_effect):
        return []
    return [f"drift: {side}: {phase} changed by {math.expm1(slope):+.1%} from the first run to the last"]


def _warm_up(side: str, runs: list[TimedRun]) -> list[str]:
    """Whether the first twentieth of the decode steps is slower than the rest, though its context is shorter."""
    ratios = []
    for run in runs:
        rows = np.flatnonzero(_usable(run.columns) & (run.columns["phase"] != PREFILL))
        rows = rows[run.columns["phase"][rows] != VERIFY]
        total = _total(run.columns, rows)
        if len(rows) >= _WARM_UP_STEPS and np.isfinite(total).all():
            first = len(rows) // _WARM_UP_SHARE
            rest = float(np.median(total[first:]))
            ratios.append(float(np.median(total[:first])) / rest if rest > 0 else 1.0)
    if not ratios or float(np.median(ratios)) < _WARM_UP:
        return []
    return [f"warm-up: {side}: the first 5 % of the decode steps took {np.median(ratios):.2f} times the rest's median"]
