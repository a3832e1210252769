"""The C engine answers what transformers and the numpy engine answer, at every level of optimisation."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine.loop import StopSettings
from engine.model import DEMO_MODEL, load_model
from engine.tracing import record_generation
from tests.engine.conftest import ORACLE, oracle_model
from tests.engine.native.conftest import QWEN2, built, generated, oracle_runs, rows, run, spelled
from traces.columnar import check_table
from traces.table import Table

RUNS = [pytest.param(model, run, id=f"{model}-{len(run['prompt'])}-tokens") for model, run in oracle_runs()]
EQUAL = ("phase", "seq_id", "token_id", "n_tokens", "seq_before", "seq_len", "cache_len", "finish", "write_pos")
REQUEST = "List the first six letters of the alphabet"


def test_every_family_and_dtype_is_compared() -> None:
    assert len(RUNS) == 15


@pytest.mark.parametrize("build", ["O0", "O2", "O3", "asan"])
@pytest.mark.parametrize(("name", "expected"), RUNS)
def test_ids_are_those_of_transformers(name: str, expected: dict[str, Any], build: str) -> None:
    ids, n = spelled(expected["prompt"]), len(expected["greedy"])
    assert generated(built(build), ORACLE / name, "--ids", ids, "--max-new-tokens", n, "--ignore-eos") == [
        expected["greedy"]
    ]


@pytest.mark.parametrize(("name", "expected"), RUNS)
def test_its_trace_is_the_numpy_engines(name: str, expected: dict[str, Any], tmp_path: Path) -> None:
    ours, theirs = tmp_path / "c.steps", tmp_path / "numpy.steps"
    n = len(expected["greedy"])
    model = oracle_model(name)
    record_generation(model, expected["prompt"], stops=StopSettings(model.defaults.eos, n), path=theirs)
    generated(built("O2"), ORACLE / name, "--ids", spelled(expected["prompt"]), "--max-new-tokens", n, "--trace", ours)
    _expect_same(ours, theirs)


def test_the_embedded_model_gives_the_same_trace(tmp_path: Path) -> None:
    ours, theirs = tmp_path / "c.steps", tmp_path / "numpy.steps"
    model = load_model(DEMO_MODEL)
    assert model.tokenizer
    ids = model.tokenizer.encode(model.tokenizer.chat_prompt(REQUEST))
    result = record_generation(model, ids, path=theirs)
    assert generated(built("O2"), DEMO_MODEL, "--ids", spelled(ids), "--trace", ours) == [list(result.tokens)]
    _expect_same(ours, theirs)


def test_requests_of_one_process_do_not_touch_each_other(prompt: str, tmp_path: Path) -> None:
    (tmp_path / "ids").write_text(prompt.replace(",", "\n"))
    alone = generated(built("O2"), QWEN2, "--ids", prompt, "--max-new-tokens", 6)
    other = generated(built("O2"), QWEN2, "--ids", "5,6", "--max-new-tokens", 6)
    words = ["--ids", prompt, "--ids", "5, 6", "--ids-file", tmp_path / "ids", "--max-new-tokens", 6]
    assert generated(built("O2"), QWEN2, *words) == alone + other + alone


def test_stops_at_an_end_token_the_limit_and_the_capacity(prompt: str, trace: Path) -> None:
    for words, finish, n_steps in (
        (["--max-new-tokens", 0], 2, 1),
        (["--max-new-tokens", 4], 2, 5),
        (["--capacity", 28], 5, 4),
    ):
        generated(built("O2"), QWEN2, "--ids", prompt, *words, "--ignore-eos", "--trace", trace)
        steps = rows(trace)
        assert (len(steps), steps["finish"][-1]) == (n_steps, finish)
        assert check_table(Table(trace)).verdict == "pass"


def test_help_and_usage(prompt: str) -> None:
    assert run(built("O2"), "--help").stdout.startswith("usage: engine MODEL")
    for words in ([], [QWEN2], [QWEN2, "--ids"], [QWEN2, "--nonsense"], [QWEN2, QWEN2, "--ids", "1"]):
        done = run(built("O2"), *words)
        assert done.returncode == 2
        assert done.stderr.count("\n") == 1


def _expect_same(ours: Path, theirs: Path) -> None:
    c, numpy = rows(ours), rows(theirs)
    assert check_table(Table(ours)).verdict == "pass"
    assert len(c) == len(numpy)
    for name in EQUAL:
        np.testing.assert_array_equal(c[name], numpy[name], err_msg=name)
    for name in ("logit", "margin"):
        np.testing.assert_allclose(c[name], numpy[name], rtol=0, atol=1e-3, err_msg=name)
    np.testing.assert_allclose(c["hidden_rms"], numpy["hidden_rms"], rtol=1e-4, err_msg="hidden_rms")
