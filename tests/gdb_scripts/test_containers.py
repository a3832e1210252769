"""Engines that keep tokens and layers in containers: std::vector, std::span and slices of Rust, which travel in two
registers.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.gdb_scripts.running import gdb
from tests.gdb_scripts.serving import compiled
from traces.table import Table

PROGRAMS = Path(__file__).parent / "programs"
FLAGS = {"vector": (), "span": ("-std=c++20", "-DTOKENS_IN_A_SPAN")}


def recorded_by_a_drafted_probe(program: Path, folder: Path) -> list[dict[str, Any]]:
    probe, trace = folder / "drafted.ini", folder / "run.steps"
    words = [sys.executable, "-m", "inspector.cli", "probe", "draft", str(program), "-o", str(probe)]
    subprocess.run(words, check=True)
    done = gdb([f"stepscope probe {probe}", f"stepscope record {trace}", "run"], program)
    assert "exited" in done.stdout, done.stdout + done.stderr
    table = Table(trace)
    return [step for step in table.plain(0, table.steps) if step is not None]


@pytest.mark.parametrize("optimized", ["-O0", "-O2"])
@pytest.mark.parametrize("tokens", FLAGS)
def test_a_drafted_probe_sees_what_the_program_prints(tmp_path: Path, tokens: str, optimized: str) -> None:
    program = compiled(PROGRAMS / "containers.cpp", tmp_path / "engine", optimized, *FLAGS[tokens])
    printed = subprocess.run([str(program)], capture_output=True, text=True, check=True).stdout
    steps = recorded_by_a_drafted_probe(program, tmp_path)
    # a step's first token is known of decode steps alone: a prompt has many
    firsts = [11, *(step["token_id"] for step in steps[1:])]
    seen = [
        [first, step["n_tokens"], step["seq_before"], *step["cache_before"]]
        for first, step in zip(firsts, steps, strict=True)
    ]
    assert seen == [[int(word) for word in line.split()] for line in printed.splitlines()]


def test_slices_of_rust(tmp_path: Path) -> None:
    program = compiled(PROGRAMS / "slices.s", tmp_path / "engine")
    steps = recorded_by_a_drafted_probe(program, tmp_path)
    # by hand: (11 + 12 + 13) % 50 = 36, then (36 + 36) % 50 = 22, (72 + 22) % 50 = 44, (94 + 44) % 50 = 38
    assert [step["token_id"] for step in steps] == [None, 36, 22, 44, 38]
    assert [step["n_tokens"] for step in steps] == [3, 1, 1, 1, 1]
    assert [step["seq_before"] for step in steps] == [0, 3, 4, 5, 6]
    assert [step["cache_before"] for step in steps] == [[n] * 3 for n in (0, 3, 4, 5, 6)]
