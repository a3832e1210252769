"""Engines that keep tokens and layers in containers: std::vector, std::span and slices of Rust, which travel in two
registers.
"""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.command_line import stepscope
from tests.gdb_scripts.running import gdb
from tests.programs import compiled
from tests.reading import steps

PROGRAMS = Path(__file__).parent / "programs"
FLAGS = {"vector": (), "span": ("-std=c++20", "-DTOKENS_IN_A_SPAN")}


def recorded_by_a_drafted_probe(program: Path, folder: Path) -> list[dict[str, Any]]:
    probe, trace = folder / "drafted.ini", folder / "run.steps"
    assert stepscope("probe", "draft", program, "-o", probe).returncode == 0
    done = gdb([f"stepscope probe {probe}", f"stepscope record {trace}", "run"], program)
    assert "exited" in done.stdout, done.stdout + done.stderr
    return steps(trace)


@pytest.mark.parametrize("optimized", ["-O0", "-O2"])
@pytest.mark.parametrize("tokens", FLAGS)
def test_a_drafted_probe_sees_what_the_program_prints(tmp_path: Path, tokens: str, optimized: str) -> None:
    program = compiled(tmp_path, PROGRAMS / "containers.cpp", "-g", optimized, *FLAGS[tokens])
    printed = subprocess.run([str(program)], capture_output=True, text=True, check=True).stdout
    recorded = recorded_by_a_drafted_probe(program, tmp_path)
    # a step's first token is known of decode steps alone: a prompt has many
    firsts = [11, *(step["token_id"] for step in recorded[1:])]
    seen = [
        [first, step["n_tokens"], step["seq_before"], *step["cache_before"]]
        for first, step in zip(firsts, recorded, strict=True)
    ]
    assert seen == [[int(word) for word in line.split()] for line in printed.splitlines()]


def test_slices_of_rust(tmp_path: Path) -> None:
    program = compiled(tmp_path, PROGRAMS / "slices.s", "-g")
    recorded = recorded_by_a_drafted_probe(program, tmp_path)
    # by hand: (11 + 12 + 13) % 50 = 36, then (36 + 36) % 50 = 22, (72 + 22) % 50 = 44, (94 + 44) % 50 = 38
    assert [step["token_id"] for step in recorded] == [None, 36, 22, 44, 38]
    assert [step["n_tokens"] for step in recorded] == [3, 1, 1, 1, 1]
    assert [step["seq_before"] for step in recorded] == [0, 3, 4, 5, 6]
    assert [step["cache_before"] for step in recorded] == [[n] * 3 for n in (0, 3, 4, 5, 6)]
