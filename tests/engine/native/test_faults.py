"""Each planted fault is caught at the step where it happens, by the rule that README.md names."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import numpy as np
import pytest

from tests.engine.native.conftest import NATIVE, QWEN2, built, generated, rows, run
from tests.programs import need
from traces.columnar import check_table
from traces.table import Table

PROMPT_TOKENS = 26
N = ("--max-new-tokens", 6, "--ignore-eos")
"""Two requests of 7 steps each: the first one's are 0 to 6."""

CAUGHT = {
    # fault: (build, options, the first failures: code, step, seq_id, layer)
    "skip_increment": ("O0", N, [("KV02", 3, 0, 1)]),
    "double_increment": ("asan", N, [("KV02", 3, 0, 1)]),
    "stale_seq_len": ("O0", N, [("KV01", 3, 0, 0), ("KV03", 3, 0, None)]),
    "partial_reset": ("asan", N, [("KV02", 7, 1, 1)]),
    "past_capacity": ("asan", (*N, "--capacity", PROMPT_TOKENS + 3), [("KV05", 4, 0, None)]),
    "overwrite_row": ("O0", N, [("KV11", 3, 0, 0)]),
    "one_too_many": ("O0", N, [("TK03", 7, 0, None)]),
}
UNSEEN_BY_RULES = {"wrong_position": 0, "wrong_scale": 1}
"""fault: the first layer whose hidden_rms differs from a healthy build's, at step 3"""


def traced(name: str, fault: str, prompt: str, trace: Path, *options: object) -> Path:
    generated(built(name, fault), QWEN2, "--ids", prompt, "--ids", prompt, *options, "--trace", trace)
    return trace


@pytest.mark.parametrize("fault", CAUGHT)
def test_the_expected_rule_fails_first(fault: str, prompt: str, trace: Path) -> None:
    name, options, expected = CAUGHT[fault]
    failures = check_table(Table(traced(name, fault, prompt, trace, *options))).failures()
    first = [f for f in failures if f.step == failures[0].step]
    assert [(f.code, f.step, f.seq_id, f.finding.layer) for f in first] == expected
    codes = {code for code, *_ in expected}
    assert {f.code for f in failures} == codes


@pytest.mark.parametrize(("fault", "layer"), UNSEEN_BY_RULES.items())
def test_what_no_rule_sees_shows_in_the_layers(fault: str, layer: int, prompt: str, tmp_path: Path) -> None:
    healthy = rows(traced("O0", "", prompt, tmp_path / "healthy.steps", *N))
    faulty = traced("O0", fault, prompt, tmp_path / "faulty.steps", *N)
    assert check_table(Table(faulty)).verdict == "pass"
    differs = ~np.isclose(rows(faulty)["hidden_rms"], healthy["hidden_rms"], rtol=1e-5, equal_nan=True)
    steps, layers = np.nonzero(differs[:7])
    assert (steps[0], layers[0]) == (3, layer)


def test_a_wrong_position_is_recorded(prompt: str, trace: Path) -> None:
    steps = rows(traced("O0", "wrong_position", prompt, trace, *N))
    assert list(steps["pos"][:6]) == [0, 26, 27, 27, 28, 29]


def test_a_slow_layer_is_slow_and_right(prompt: str, tmp_path: Path) -> None:
    healthy = rows(traced("O0", "", prompt, tmp_path / "healthy.steps", *N))
    steps = rows(traced("O0", "slow_layer", prompt, tmp_path / "slow.steps", *N))
    assert check_table(Table(tmp_path / "slow.steps")).verdict == "pass"
    assert list(steps["token_id"]) == list(healthy["token_id"])
    gemm = np.nanmedian(steps["gemm_ms"], axis=0)
    assert gemm[1] > 2.5 * np.delete(gemm, 1).max()


def test_the_readme_lists_every_fault() -> None:
    declared = re.findall(r"FAULT_([A-Z_]+)", (NATIVE / "fault.h").read_text().split("enum {")[1].split("}")[0])
    listed = re.findall(r"^\| `([a-z_]+)` \|", (NATIVE / "README.md").read_text(), re.MULTILINE)
    assert [name.lower() for name in declared if name != "NONE"] == listed
    assert set(listed) == {*CAUGHT, *UNSEEN_BY_RULES, "slow_layer"}


def test_an_unknown_fault_does_not_build() -> None:
    need("make")
    make = shutil.which("make")
    assert make
    done = run(Path(make), "-s", "-C", NATIVE, "FAULT=no_such_fault", "build/no_such_fault/engine-O0")
    assert done.returncode != 0
    assert "FAULT_NO_SUCH_FAULT" in done.stderr
