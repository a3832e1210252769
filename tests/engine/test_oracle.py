"""The engine answers what transformers answers: oracle/README.md says how the expected values were made."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine.loop import StopSettings, run_generation
from engine.loop_settings import LoopSettings
from engine.model import Model
from engine.sampling import pick_greedy
from engine.tracing import record_batch, record_generation
from engine.weights import Array
from tests.engine.conftest import ORACLE, oracle_model
from traces.columnar import check_table
from traces.table import Table

RUNS = [
    pytest.param(described["model"], run, id=f"{described['model']}-{len(run['prompt'])}-tokens")
    for described in (json.loads(path.read_text()) for path in sorted(ORACLE.glob("*.expected.json")))
    for run in described["runs"]
    if run["compute_dtype"] == "float32"
]

LOOPS: dict[str, Callable[[Model], LoopSettings]] = {
    "cached": lambda model: LoopSettings(),
    "chunked": lambda model: LoopSettings(prefill_chunk=7),
    "naive": lambda model: LoopSettings("naive"),
    "speculative": lambda model: LoopSettings("speculative", draft_k=5),
    # the model as its own draft: every draft that matters is accepted
    "draft-model": lambda model: LoopSettings("speculative", draft_k=3, draft_model=model),
}
SHIFTED = json.loads((ORACLE / "context-shift.json").read_text())["runs"]


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


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize(("name", "run"), RUNS)
def test_every_loop_says_the_same(name: str, run: dict[str, Any], loop: str, tmp_path: Path) -> None:
    # without a cache 24 tokens after 300 are 24 prompts; the first few show as much
    n = 5 if loop == "naive" and len(run["prompt"]) > 64 else len(run["greedy"])
    stops, model = StopSettings(max_new_tokens=n), oracle_model(name)
    path = tmp_path / "run.steps"
    result = record_generation(model, run["prompt"], stops=stops, path=path, loop=LOOPS[loop](model))
    assert list(result.tokens) == run["greedy"][:n]
    assert check_table(Table(path)).verdict == "pass"


@pytest.mark.parametrize("name", sorted({run.values[0] for run in RUNS}))
def test_a_batch_says_the_same(name: str, tmp_path: Path) -> None:
    runs = [run.values[1] for run in RUNS if run.values[0] == name]
    stops = StopSettings(max_new_tokens=len(runs[0]["greedy"]))
    loop = LoopSettings("batched", max_batch=2, prefill_chunk=16)
    path = tmp_path / "run.steps"
    results = record_batch(oracle_model(name), [run["prompt"] for run in runs], stops=stops, path=path, loop=loop)
    assert [list(result.tokens) for result in results] == [run["greedy"] for run in runs]
    assert check_table(Table(path)).verdict == "pass"


@pytest.mark.parametrize("run", SHIFTED, ids=lambda run: run["model"])
def test_a_shifted_context_says_what_transformers_says(run: dict[str, Any], tmp_path: Path) -> None:
    loop = LoopSettings(capacity=run["context"], n_keep=run["n_keep"])
    stops = StopSettings(max_new_tokens=len(run["greedy"]))
    path = tmp_path / "run.steps"
    result = record_generation(oracle_model(run["model"]), run["prompt"], stops=stops, path=path, loop=loop)
    assert len(run["shifts"]) > 1
    assert list(result.tokens) == run["greedy"]
    assert check_table(Table(path)).verdict == "pass"


@pytest.mark.parametrize("name", ["tiny-mistral-f16-window", "tiny-qwen3-f16-window"])
def test_without_its_windows_a_model_says_something_else(name: str) -> None:
    model = oracle_model(name)
    unlimited = Model(replace(model.config, windows=()), model.weights)
    longest = max((run.values[1] for run in RUNS if run.values[0] == name), key=lambda run: len(run["prompt"]))
    stops = StopSettings(max_new_tokens=len(longest["greedy"]))
    assert list(run_generation(unlimited, longest["prompt"], stops=stops).tokens) != longest["greedy"]


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
