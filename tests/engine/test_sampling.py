"""Choosing a token, by hand arithmetic on small distributions and by repetition under a seed."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

from engine.errors import EngineError
from engine.sampling import SamplerSettings, candidates, make_sampler, pick_greedy, resolve_sampling
from engine.weights import Array

PROBABILITIES = [0.15, 0.5, 0.1, 0.25]


def logits_of(probabilities: list[float]) -> Array:
    return np.log(np.array(probabilities)).astype(np.float32)


def allowed(**settings: Any) -> dict[int, float]:
    """Id -> probability after the settings, for PROBABILITIES."""
    ids, probabilities = candidates(logits_of(PROBABILITIES), SamplerSettings(**{"temperature": 1.0} | settings))
    return {int(i): pytest.approx(p, abs=1e-6) for i, p in zip(ids, probabilities, strict=True)}


def draws(settings: SamplerSettings, n: int, probabilities: list[float] = PROBABILITIES) -> list[int]:
    sample = make_sampler(settings)
    return [sample(logits_of(probabilities), [0]).token_id for _ in range(n)]


def test_greedy_takes_the_best_and_knows_the_second() -> None:
    pick = pick_greedy(np.array([1.0, 4.5, -2.0, 3.0], np.float32))
    assert (pick.token_id, pick.logit, pick.margin, pick.runner_up) == (1, 4.5, 1.5, 3)


def test_greedy_takes_the_lowest_id_of_equals() -> None:
    pick = pick_greedy(np.array([1.0, 2.0, 2.0], np.float32))
    assert (pick.token_id, pick.margin, pick.runner_up) == (1, 0.0, 2)


def test_greedy_leaves_the_logits_as_they_were() -> None:
    logits = np.array([1.0, 4.5, 3.0], np.float32)
    pick_greedy(logits)
    np.testing.assert_array_equal(logits, [1.0, 4.5, 3.0])


@pytest.mark.parametrize("temperature", [0.0, -1.0])
def test_a_temperature_of_zero_or_less_is_greedy(temperature: float) -> None:
    assert set(draws(SamplerSettings(temperature=temperature, top_k=3), 20)) == {1}


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_logits_that_are_not_finite_are_refused(bad: float) -> None:
    with pytest.raises(EngineError, match="best logit is"):
        pick_greedy(np.array([1.0, bad, 2.0], np.float32))


def test_everything_off_keeps_the_distribution() -> None:
    off = {1: 0.5, 3: 0.25, 0: 0.15, 2: 0.1}
    assert allowed() == allowed(top_k=0, top_p=1.0, min_p=0.0) == allowed(top_k=99, top_p=2.0) == off


def test_temperature_raises_probabilities_to_its_inverse() -> None:
    squares = {1: 0.25, 3: 0.0625, 0: 0.0225, 2: 0.01}
    assert allowed(temperature=0.5) == {i: p / 0.345 for i, p in squares.items()}


def test_top_k_keeps_the_k_best() -> None:
    assert allowed(top_k=2) == {1: 2 / 3, 3: 1 / 3}
    assert allowed(top_k=1) == {1: 1.0}


def test_top_p_keeps_the_fewest_that_reach_p() -> None:
    assert allowed(top_p=0.7) == {1: 2 / 3, 3: 1 / 3}
    assert allowed(top_p=0.76) == {1: 5 / 9, 3: 2.5 / 9, 0: 1.5 / 9}
    assert allowed(top_p=0.01) == {1: 1.0}


def test_min_p_is_relative_to_the_best() -> None:
    assert allowed(min_p=0.4) == {1: 2 / 3, 3: 1 / 3}
    assert allowed(min_p=1.0) == {1: 1.0}


def test_top_k_comes_before_top_p() -> None:
    # among the best three (0.5, 0.25, 0.15 of 0.9), 0.8 is reached by two
    assert allowed(top_k=3, top_p=0.8) == {1: 2 / 3, 3: 1 / 3}
    assert allowed(top_p=0.8) == {1: 5 / 9, 3: 2.5 / 9, 0: 1.5 / 9}


def test_repetition_penalty_by_hand() -> None:
    logits = np.array([2.0, -1.0, 1.0], np.float32)
    pick = make_sampler(SamplerSettings(repetition_penalty=4.0))(logits, [0, 1, 0])
    # seen ids: 2 / 4 = 0.5 and -1 · 4 = -4; once each, however often they were seen
    assert (pick.token_id, pick.logit, pick.margin, pick.runner_up) == (2, 1.0, 0.5, 0)
    np.testing.assert_array_equal(logits, [2.0, -1.0, 1.0])


def test_draws_follow_the_distribution() -> None:
    seen = Counter(draws(SamplerSettings(temperature=1.0, seed=1), 20_000))
    for token_id, probability in enumerate(PROBABILITIES):
        assert seen[token_id] / 20_000 == pytest.approx(probability, abs=0.015)


def test_a_seed_repeats_and_another_differs() -> None:
    first, again, other = (draws(SamplerSettings(temperature=1.0, top_p=0.95, seed=seed), 200) for seed in (7, 7, 8))
    assert first == again
    assert first != other


def test_a_drawn_token_reports_its_own_logit_and_the_best_margin() -> None:
    sample = make_sampler(SamplerSettings(temperature=1.0, seed=3))
    for _ in range(50):
        pick = sample(logits_of(PROBABILITIES), [0])
        assert pick.logit == pytest.approx(np.log(PROBABILITIES[pick.token_id]), abs=1e-6)
        assert pick.margin == pytest.approx(np.log(2), abs=1e-6)
        assert pick.runner_up == 3


def test_a_missing_seed_is_drawn_once() -> None:
    settled = SamplerSettings(temperature=1.0).with_seed()
    assert settled.seed is not None
    assert settled.with_seed() == settled
    assert SamplerSettings().with_seed().seed is None


@pytest.mark.parametrize(
    "wrong",
    [
        {"temperature": float("nan")},
        {"top_k": -1},
        {"top_p": 0.0},
        {"min_p": 1.5},
        {"repetition_penalty": 0.0},
        {"repetition_penalty": 1e-300},
        {"repetition_penalty": 10**400},
        {"seed": -1},
    ],
)
def test_values_out_of_range_are_refused_by_name(wrong: dict[str, Any]) -> None:
    with pytest.raises(EngineError, match=next(iter(wrong))):
        SamplerSettings(**wrong)


def test_the_bounds_themselves_are_in_range() -> None:
    assert SamplerSettings(temperature=1.0, seed=0).with_seed().seed == 0
    assert [SamplerSettings(repetition_penalty=p).repetition_penalty for p in (1e-3, 1e3)] == [1e-3, 1e3]
    assert SamplerSettings(top_k=0, top_p=1.0, min_p=1.0).is_greedy


ADVICE = {"do_sample": True, "temperature": 0.7, "top_k": 20, "top_p": 0.8, "repetition_penalty": 1.05}


def test_the_default_is_plain_greedy_whatever_the_model_advises() -> None:
    assert resolve_sampling(ADVICE) == SamplerSettings()
    assert resolve_sampling(ADVICE, temperature=0.0) == SamplerSettings()


def test_advice_fills_what_was_left_open() -> None:
    asked = resolve_sampling(ADVICE, temperature=0.9, top_p=1.0, seed=5)
    assert asked == SamplerSettings(0.9, top_k=20, top_p=1.0, repetition_penalty=1.05, seed=5)


def test_no_temperature_takes_the_models_own() -> None:
    assert resolve_sampling(ADVICE, temperature=None) == SamplerSettings(0.7, 20, 0.8, 0.0, 1.05)
    assert resolve_sampling({"temperature": 0.7}, temperature=None).is_greedy
    assert resolve_sampling(None, temperature=None) == SamplerSettings()


def test_an_explicit_penalty_holds_for_greedy() -> None:
    assert resolve_sampling(ADVICE, repetition_penalty=1.3) == SamplerSettings(repetition_penalty=1.3)
