"""The C engine, built once and run as its users run it."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.engine.conftest import ORACLE
from tests.programs import need
from traces.table import Rows, Table

NATIVE = Path(__file__).parents[3] / "engine" / "native"
QWEN2 = ORACLE / "tiny-qwen2-f32-tied"


@cache
def built(name: str, fault: str = "") -> Path:
    """engine/native/build/[FAULT/]engine-NAME, made where it is not there or older than its sources."""
    need("gcc", "make")
    target = Path("build") / fault / f"engine-{name}"
    (NATIVE / "build").mkdir(exist_ok=True)
    with open(NATIVE / "build" / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # tests run in several processes
        command = ["make", "-s", "CC=gcc", "CFLAGS=-Werror", str(target), *([f"FAULT={fault}"] if fault else [])]
        done = subprocess.run(command, cwd=NATIVE, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return NATIVE / target


FAMILIES = {"LlamaForCausalLM", "Qwen2ForCausalLM", "Qwen3ForCausalLM"}
"""What the C engine reads."""


def oracle_runs() -> list[tuple[str, dict[str, Any]]]:
    """(model, run) of every float32 run with a known answer, of what the C engine reads: windows it does not."""
    described = [json.loads(path.read_text()) for path in sorted(ORACLE.glob("*.expected.json"))]
    configs = {d["model"]: _config(d["model"]) for d in described}
    read = [
        d
        for d in described
        if FAMILIES & set(configs[d["model"]]["architectures"])
        and "sliding_attention" not in configs[d["model"]].get("layer_types", ())
    ]
    return [(d["model"], run) for d in read for run in d["runs"] if run["compute_dtype"] == "float32"]


def _config(model: str) -> dict[str, Any]:
    config: dict[str, Any] = json.loads((ORACLE / model / "config.json").read_text())
    return config


def spelled(ids: Sequence[int]) -> str:
    return ",".join(map(str, ids))


def run(engine: Path, *words: object) -> subprocess.CompletedProcess[str]:
    """Run to the end; a sanitizer's report makes it exit with 99."""
    options = "exitcode=99:allocator_may_return_null=1:detect_leaks=0"
    environment = os.environ | {"ASAN_OPTIONS": options, "UBSAN_OPTIONS": "exitcode=99"}
    command = [str(engine), *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, errors="replace", env=environment, timeout=120)


def generated(engine: Path, *words: object) -> list[list[int]]:
    """The ids of each request."""
    done = run(engine, *words)
    assert (done.returncode, done.stderr) == (0, "")
    return [[int(word) for word in line.split(",") if word] for line in done.stdout.splitlines()]


def rows(path: Path) -> Rows:
    """Every step of a sound, complete trace."""
    table = Table(path)
    assert table.complete
    assert not table.damage
    read, bad = table.rows(0, table.steps)
    assert bad is None
    return read


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    return tmp_path / "run.steps"


@pytest.fixture
def prompt() -> str:
    """A prompt of 26 ids for the oracle's Qwen models."""
    return spelled(
        next(run["prompt"] for model, run in oracle_runs() if model == QWEN2.name and len(run["prompt"]) == 26)
    )
