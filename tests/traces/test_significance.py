"""The statistics of time: known p values, verdicts that swap with the sides, and answers that stay."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from traces.significance import (
    ALPHA_PARTS,
    Judgement,
    against_the_others,
    judge_family,
    judge_totals,
    runs_to_reach,
)

OPPOSITE = {"slower": "faster", "faster": "slower", "same": "same", "cannot-decide": "cannot-decide"}
seeds = st.integers(0, 2**32 - 1)


def one_line(base: list[float], new: list[float]) -> Judgement:
    return judge_totals(np.array(base)[:, None], np.array(new)[:, None], 0.03)[0]


def drawn(seed: int, runs: int, effect: float, noise: float) -> tuple[list[float], list[float]]:
    chance = np.random.default_rng(seed)
    base = np.exp(chance.normal(0, noise, runs))
    return list(base), list(np.exp(chance.normal(math.log(effect), noise, runs)))


def test_separated_sides_of_six_runs() -> None:
    """2 of the C(12, 6) = 924 relabellings are as extreme: p = 0.00216, less the share of one total by itself."""
    seen = one_line([10, 10.1, 10.2, 10.3, 10.4, 10.5], [12, 12.1, 12.2, 12.3, 12.4, 12.5])
    assert seen.verdict == "slower"
    assert seen.p == pytest.approx(2 / 924 * 0.9)
    assert seen.ratio == pytest.approx(1.195, abs=0.002)
    assert seen.low is not None
    assert seen.high is not None
    assert 1.15 < seen.low < seen.ratio < seen.high < 1.24


def test_fewer_than_four_runs_decide_nothing() -> None:
    for n in (1, 2, 3):
        seen = one_line([10.0] * n, [20.0] * n)
        assert (seen.verdict, seen.p, seen.low, seen.ratio) == ("cannot-decide", None, None, pytest.approx(2))
        assert seen.needs == 4
    assert one_line([10, 10.1, 10.2, 10.3], [20, 20.1, 20.2, 20.3]).verdict == "slower"


def test_a_difference_below_the_smallest_that_counts_is_same() -> None:
    base = [10, 10.01, 10.02, 10.03, 10.04, 10.05]
    seen = one_line(base, [b * 1.02 for b in base])
    assert seen.verdict == "same"
    assert seen.within == pytest.approx(0.02, abs=0.01)
    assert seen.p is not None
    assert seen.p < 0.05


def test_noisy_runs_cannot_decide_and_say_how_many_would() -> None:
    seen = one_line([10, 13, 9, 12, 8, 11], [11, 9, 13, 10, 14, 12])
    assert seen.verdict == "cannot-decide"
    assert seen.needs is not None
    assert seen.needs > 6


def test_one_outlier_run_does_not_hide_a_slowdown() -> None:
    base = [10, 10.1, 10.2, 10.05, 10.15, 25.0]
    assert one_line(base, [11.1, 11.2, 11.0, 11.15, 11.05, 11.3]).verdict in ("slower", "cannot-decide")
    longer = [*base, 10.12, 10.08, 10.03, 10.11]
    assert one_line(longer, [11.1, 11.2, 11.0, 11.15, 11.05, 11.3, 11.12, 11.08, 11.03, 11.2]).verdict == "slower"


@pytest.mark.parametrize("runs", [30, 200, 1000])
def test_the_interval_of_many_runs_is_as_wide_as_theory_says(runs: int) -> None:
    """1.96 standard errors of the Hodges-Lehmann shift of normal samples, noise * sqrt(2 / n * pi / 3), either way."""
    seen = one_line(*drawn(5, runs, 1.0, 0.02))
    assert seen.low is not None
    assert seen.high is not None
    half = 1.96 * 0.02 * math.sqrt(2 / runs * math.pi / 3)
    assert math.log(seen.high / seen.low) / 2 == pytest.approx(half, rel=0.25)
    assert seen.verdict == "same"


def test_many_runs_name_a_small_change_of_a_layer() -> None:
    base, new = (np.exp(np.random.default_rng(seed).normal(0, 0.02, (150, 3))) for seed in (1, 2))
    new[:, 1] *= 1.04
    assert [j.verdict for j in judge_family(base, new, ALPHA_PARTS / 4, 0.03)] == ["same", "slower", "same"]


@pytest.mark.parametrize(("lines", "share", "runs"), [(1, 1, 6), (4, 6, 8), (28, 4, 9), (28, 6, 10)])
def test_how_many_runs_a_family_needs(lines: int, share: int, runs: int) -> None:
    """The least n with 2 * lines / C(2n, n) <= 0.005 / share, by hand."""
    assert runs_to_reach(lines, ALPHA_PARTS / share) == runs


def test_a_slow_layer_stands_out_of_a_slow_run() -> None:
    chance = np.random.default_rng(3)
    sides = []
    for slow in (1.0, 1.05):
        runs = np.exp(chance.normal(0, 0.05, (10, 1)) + chance.normal(0, 0.004, (10, 28)))
        runs[:, 11] *= slow
        sides.append(runs)
    base, new, change = against_the_others(*sides)
    assert change == pytest.approx(1, abs=0.1)
    seen = judge_family(base, new, ALPHA_PARTS / 4, 0.03)
    assert [i for i, judgement in enumerate(seen) if judgement.verdict == "slower"] == [11]
    assert seen[11].ratio == pytest.approx(1.05, abs=0.01)
    assert {judgement.verdict for judgement in seen} == {"slower", "same"}


@given(seeds, st.integers(4, 9), st.integers(4, 9), st.floats(0.8, 1.25), st.floats(0.001, 0.1))
@settings(max_examples=60)
def test_swapped_sides_swap_the_verdict(seed: int, n: int, m: int, effect: float, noise: float) -> None:
    base, new = drawn(seed, max(n, m), effect, noise)
    there, back = one_line(base[:n], new[:m]), one_line(new[:m], base[:n])
    assert back.verdict == OPPOSITE[there.verdict]
    assert back.ratio == pytest.approx(1 / there.ratio)
    assert back.p == pytest.approx(there.p)
    assert there.low is not None
    assert back.high == pytest.approx(1 / there.low)


@given(st.lists(st.floats(0.1, 10), min_size=1, max_size=8))
@settings(max_examples=60)
def test_a_side_is_never_slower_than_itself(runs: list[float]) -> None:
    assert one_line(runs, runs).verdict in ("same", "cannot-decide")


@given(seeds, st.sampled_from([1 / 1.15, 1.15]))
@settings(max_examples=30)
def test_more_runs_never_lose_a_true_difference(seed: int, effect: float) -> None:
    base, new = drawn(seed, 14, effect, 0.01)
    verdicts = [one_line(base[:n], new[:n]).verdict for n in range(4, 15)]
    assert set(verdicts) == {"slower" if effect > 1 else "faster"}


def test_alarms_are_rare_and_slowdowns_are_found() -> None:
    """200 simulated pairs a figure; tests/bench/bench_diff.py has 1,000 and whole traces."""
    for noise in (0.02, 0.06):
        alarms = sum(one_line(*drawn(seed, 6, 1.0, noise)).verdict in ("slower", "faster") for seed in range(200))
        assert alarms <= 0.05 * 200 + 2.33 * math.sqrt(200 * 0.05 * 0.95)
    found = sum(one_line(*drawn(seed, 6, 1.05, 0.02)).verdict == "slower" for seed in range(200))
    assert found >= 0.9 * 200 - 2.33 * math.sqrt(200 * 0.9 * 0.1)
