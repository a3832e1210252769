"""Are two sets of runs different in time, and can they tell? The statistics of `stepscope diff`, on plain arrays.

The unit is the run: one number a run and line, never a step (the steps of one run share its luck). `docs/diff.md`
explains the choices for those who use them. A line is one quantity that is compared, such as decode's total.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import combinations

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

ALPHA_LINE = 0.05
"""Chance of a false alarm of one total by itself, where the minimum effect keeps noise out."""
BY_CHANCE = 0.10
"""How often a run's noise may reach the minimum effect by chance before totals are corrected for each other."""
ALPHA_TOTALS, ALPHA_PARTS = 0.045, 0.005
"""Chances of a false alarm anywhere among the totals, and anywhere among parts and layers: 5 % together."""
CONFIDENCE = 0.95
MOST_RUNS_TOLD = 99
"""More than that are told as that: a quieter machine is the better advice."""
FEWEST_RUNS = 4
"""On the smaller side, for any verdict: with 3 and 3 not even complete separation is rarer than 1 in 10."""
_RESAMPLES = 999
_MOST_RELABELLINGS = 20_000
_MOST_LABELS = 4_000_000
_MOST_DRAWN = 64
_MOST_PAIRS_EXACT = 10_000
_SEED = 20_011


@dataclass(frozen=True)
class Judgement:
    """One line's verdict. ratio: new / base; low, high: its 95 % interval, None with too few runs.

    verdict: "faster", "slower", "same" or "cannot-decide". within: what a "same" excludes, 0.02 is 2 %. needs: runs a
    side that would probably decide. p: corrected for the other lines of its family; None where no test was made.
    """

    ratio: float
    low: float | None
    high: float | None
    p: float | None
    verdict: str
    within: float | None = None
    needs: int | None = None


def judge_totals(base: Floats, new: Floats, min_effect: float) -> list[Judgement]:
    """Lines that share their runs' luck: phase totals, TTFT, TPOT.

    base, new: (runs, lines), positive. An exact permutation test a line: the share of relabellings of whole runs that
    set the sides' mean logarithms as far apart as they are. Where the runs' own noise could reach the minimum effect
    by chance, p is corrected for all lines together (Westfall and Young's step-down maxT on the same relabellings).
    """
    logs, n = np.log(np.concatenate([base, new])), len(base)
    smallest = math.log1p(min_effect)
    can = min(n, len(new)) >= FEWEST_RUNS and reachable(n, len(new), 1, ALPHA_TOTALS)
    p = None
    if can:
        alone, together = _relabelled(logs, n)
        scale = np.sqrt(np.var(logs[:n], axis=0, ddof=1) / n + np.var(logs[n:], axis=0, ddof=1) / len(new))
        # brought to one threshold: a corrected p has the smaller share of the 5 %
        p = np.where(_chance_of(smallest, scale) <= BY_CHANCE, alone * (ALPHA_TOTALS / ALPHA_LINE), together)
    return _judged(logs, n, p, 1, ALPHA_TOTALS, smallest, smallest)


def judge_family(base: Floats, new: Floats, alpha: float, min_effect: float, to_name: float = 0.0) -> list[Judgement]:
    """Lines of one family (parts of a phase, layers of a part): exact Mann-Whitney U tests, corrected after Holm.

    base, new: (runs, lines), positive. to_name: an effect, as the absolute logarithm of a ratio, that a line must reach
    to be faster or slower, where that is more than the minimum effect.
    """
    lines = base.shape[1]
    logs = np.log(np.concatenate([base, new]))
    can = min(len(base), len(new)) >= FEWEST_RUNS and reachable(len(base), len(new), lines, alpha)
    p = _holm(_u_test(logs[: len(base)], logs[len(base) :])) if can else None
    smallest = math.log1p(min_effect)
    return _judged(logs, len(base), p, lines, alpha, smallest, max(smallest, to_name))


def against_the_others(base: Floats, new: Floats) -> tuple[Floats, Floats, float]:
    """Layers with their run's common factor taken out, and by what ratio the common factors of the sides differ.

    A run that is slow as a whole makes every layer slow: what is asked of a layer is whether it changed more than its
    fellows. The factor of a run is the median over layers of (its time / that layer's median over all runs of both
    sides); which side a run is of plays no part in it, so the test stays exact.
    """
    logs = np.log(np.concatenate([base, new]))
    common = np.median(logs - np.median(logs, axis=0), axis=1, keepdims=True)
    alone = np.exp(logs - common)
    change = float(np.median(common[len(base) :]) - np.median(common[: len(base)]))
    return alone[: len(base)], alone[len(base) :], math.exp(change)


def reachable(n: int, m: int, lines: int, alpha: float) -> bool:
    """Whether completely separated sides of n and m runs would be significant in a family of so many lines."""
    return 2 * lines / math.comb(n + m, n) <= alpha


def runs_to_reach(lines: int, alpha: float) -> int:
    """Runs a side with which a test can reject at all."""
    n = FEWEST_RUNS
    while not reachable(n, n, lines, alpha):
        n += 1
    return n


def _judged(
    logs: Floats, n: int, p: Floats | None, lines: int, alpha: float, smallest: float, to_name: float
) -> list[Judgement]:
    effects = [float(_shift(base, new)) for base, new in zip(logs[:n].T, logs[n:].T, strict=True)]
    runs = min(n, len(logs) - n)
    if runs < FEWEST_RUNS:
        needs = runs_to_reach(lines, alpha)
        return [Judgement(math.exp(e), None, None, None, "cannot-decide", needs=needs) for e in effects]
    lows, highs = _interval(logs, n)
    out = []
    for i, (effect, low, high) in enumerate(zip(effects, lows, highs, strict=True)):
        seen = Judgement(math.exp(effect), math.exp(low), math.exp(high), None, "cannot-decide")
        if p is None:
            out.append(replace(seen, needs=runs_to_reach(lines, alpha)))
            continue
        seen = replace(seen, p=float(p[i]))
        farthest = max(abs(low), abs(high))
        if p[i] <= alpha and abs(effect) >= to_name:
            seen = replace(seen, verdict="slower" if effect > 0 else "faster")
        elif abs(effect) < to_name and farthest <= 2 * smallest:
            seen = replace(seen, verdict="same", within=math.expm1(farthest))
        else:
            wanted = abs(effect) if abs(effect) >= to_name else 2 * smallest - abs(effect)
            seen = replace(seen, needs=_runs_for(wanted, (high - low) / 2, runs))
        out.append(seen)
    return out


def _runs_for(wanted: float, half: float, runs: int) -> int | None:
    """Runs a side that bring half an interval down to `wanted`: it shrinks with the root of their number."""
    if wanted <= 0:
        return None
    return min(max(math.ceil(runs * (half / wanted) ** 2), runs + 1), MOST_RUNS_TOLD)


def _shift(base: Floats, new: Floats) -> Floats:
    """Hodges and Lehmann's estimate: the median of all differences between a new run and a base run; runs are last."""
    pairs = new[..., :, None] - base[..., None, :]
    middle: Floats = np.median(pairs.reshape(*pairs.shape[:-2], -1), axis=-1)
    return middle


def _interval(logs: Floats, n: int) -> tuple[Floats, Floats]:
    """Bootstrap over runs of the shift, each side resampled by itself; percentiles widened for few runs.

    The widening is Hesterberg's expanded percentile interval (2015, What Teachers Should Know About the Bootstrap):
    without it, six runs a side give intervals that are too short. Of more than 64 runs a side 64 are drawn, and what
    they scatter is brought down to the number that there are (an m out of n bootstrap).
    """
    from scipy.stats import norm, t

    one, other, swapped = _ordered(logs, n)
    a, b = np.ascontiguousarray(one.T), np.ascontiguousarray(other.T)
    chance = np.random.default_rng(_SEED)
    sizes = [side.shape[1] for side in (a, b)]
    drawn = [min(size, _MOST_DRAWN) for size in sizes]
    picks = [chance.integers(size, size=(_RESAMPLES, count)) for size, count in zip(sizes, drawn, strict=True)]
    shifts = np.array([_shift(x[picks[0]], y[picks[1]]) for x, y in zip(a, b, strict=True)])
    if drawn != sizes:
        seen = np.array([_shift(x, y) for x, y in zip(a, b, strict=True)])[:, None]
        shifts = seen + (shifts - seen) * math.sqrt(sum(1 / size for size in sizes) / sum(1 / count for count in drawn))
    fewer = min(n, len(logs) - n)
    tail = norm.cdf(t.ppf((1 - CONFIDENCE) / 2, len(logs) - 2) * math.sqrt(fewer / (fewer - 1)))
    low, high = np.quantile(shifts, (tail, 1 - tail), axis=1)
    return (-high, -low) if swapped else (low, high)


def _ordered(logs: Floats, n: int) -> tuple[Floats, Floats, bool]:
    """The sides in an order of their own, and whether that swapped them: what is drawn at random must not depend on
    which side is called base."""
    base, new = logs[:n], logs[n:]
    keys = [(len(side), float(np.median(side)), side.tobytes()) for side in (base, new)]
    return (base, new, False) if keys[0] <= keys[1] else (new, base, True)


def _chance_of(effect: float, scale: Floats) -> Floats:
    """How often noise of that standard error alone gives at least this effect."""
    from scipy.stats import norm

    with np.errstate(divide="ignore"):
        chance: Floats = 2 * norm.cdf(-effect / scale)
    return chance


def _relabelled(logs: Floats, n: int) -> tuple[Floats, Floats]:
    """p of each line by itself, and corrected for the others: see judge_totals."""
    one, other, _ = _ordered(logs, n)
    logs, n = np.concatenate([one, other]), len(one)
    # an outlier run may not drown the rest; labels play no part in where it is cut, so the test stays exact
    middle = np.median(logs, axis=0)
    most = 3 * np.median(np.abs(logs - middle), axis=0)
    scores = np.clip(logs - middle, -most, most)
    scores -= scores.mean(axis=0)
    scores /= np.where(scores.std(axis=0) > 0, scores.std(axis=0), 1)
    observed = np.abs(scores[n:].sum(axis=0)) - 1e-9
    order = np.argsort(-observed)
    extreme = np.abs(_relabellings(len(logs), n) @ scores)
    alone = (extreme >= observed).mean(axis=0)
    # beside a line stand those that are not more extreme
    rest = np.maximum.accumulate(extreme[:, order[::-1]], axis=1)[:, ::-1]
    together = np.empty(len(order))
    together[order] = np.maximum.accumulate((rest >= observed[order]).mean(axis=0))
    return alone, together


@lru_cache(maxsize=4)
def _relabellings(runs: int, n: int) -> Floats:
    """Which runs could as well have been the new side: (relabellings, runs) of 0 and 1."""
    m = runs - n
    if math.comb(runs, m) <= _MOST_RELABELLINGS:
        chosen = np.array(list(combinations(range(runs), m)))
    else:
        number = min(_MOST_RELABELLINGS, _MOST_LABELS // runs)
        drawn = np.random.default_rng(_SEED).random((number - 1, runs))
        seen = np.arange(n, runs)[None]  # what was seen is one of them: p is never 0
        chosen = np.concatenate([np.argsort(drawn, axis=1)[:, :m], seen])
    out = np.zeros((len(chosen), runs))
    np.put_along_axis(out, chosen, 1, axis=1)
    return out


def _u_test(base: Floats, new: Floats) -> Floats:
    """Exact up to 100 runs a side; beyond, the normal approximation is as good and takes no minutes."""
    from scipy.stats import mannwhitneyu

    method = "exact" if len(base) * len(new) <= _MOST_PAIRS_EXACT else "asymptotic"
    p: Floats = np.atleast_1d(mannwhitneyu(new, base, method=method, axis=0).pvalue)
    return p


def _holm(p: Floats) -> Floats:
    """p corrected for their number (Holm 1979)."""
    order = np.argsort(p)
    out = np.empty_like(p)
    out[order] = np.minimum(1, np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1)))
    return out
