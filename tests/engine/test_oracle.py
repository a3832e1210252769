"""The engine answers what transformers answers: oracle/README.md says how the expected values were made."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from engine.loop import StopSettings, run_generation
from engine.sampling import pick_greedy
from engine.weights import Array
from tests.engine.conftest import ORACLE, oracle_model

RUNS = [
    pytest.param(described["model"], run, id=f"{described['model']}-{len(run['prompt'])}-tokens")
    for described in (json.loads(path.read_text()) for path in sorted(ORACLE.glob("*.expected.json")))
    for run in described["runs"]
    if run["compute_dtype"] == "float32"
]


class Norms:
    """A timer that keeps the L2 norm of the last token's residual stream after each layer."""

    def __init__(self) -> None:
        self.norms: dict[int, float] = {}

    def now(self) -> int:
        return 0

    def add(self, part: str, layer: int, since: int) -> None:
        pass

    def layer_done(self, layer: int, residual: Array, write_pos: int, place: int = 0) -> None:
        self.norms[layer] = float(np.linalg.norm(residual))


def test_every_family_and_dtype_is_compared() -> None:
    assert len(RUNS) == 33


@pytest.mark.parametrize(("name", "run"), RUNS)
def test_greedy_ids(name: str, run: dict[str, Any]) -> None:
    stops = StopSettings(max_new_tokens=len(run["greedy"]))
    assert list(run_generation(oracle_model(name), run["prompt"], stops=stops).tokens) == run["greedy"]


@pytest.mark.parametrize(("name", "run"), RUNS)
def test_logits_and_margins(name: str, run: dict[str, Any]) -> None:
    model = oracle_model(name)
    cache = model.new_cache(model.config.context_length)
    logits = model.forward(run["prompt"], cache)
    np.testing.assert_allclose(logits[:16], run["prefill_last_logits_first16"], rtol=0, atol=1e-4)
    for token_id, logit, margin in zip(run["greedy"], run["step_max_logit"], run["step_margin"], strict=True):
        pick = pick_greedy(logits)
        assert pick.token_id == token_id
        assert pick.logit == pytest.approx(logit, abs=1e-4)
        assert pick.margin == pytest.approx(margin, abs=1e-4)
        logits = model.forward([token_id], cache)


@pytest.mark.parametrize(("name", "run"), RUNS)
def test_hidden_state_norms(name: str, run: dict[str, Any]) -> None:
    model, timer = oracle_model(name), Norms()
    model.forward(run["prompt"], model.new_cache(model.config.context_length), timer)
    # transformers' list: the embedding, every layer but the last, and the last after the final norm
    for layer, expected in enumerate(run["hidden_state_l2_last_token"][1:-1]):
        assert timer.norms[layer] == pytest.approx(expected, rel=1e-5)
