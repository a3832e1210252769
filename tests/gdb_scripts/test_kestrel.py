"""The kestrel probe in a real gdb, on a small program with the shape that it names."""

from __future__ import annotations

import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from gdb_scripts.probe import PROBES
from tests.gdb_scripts.running import gdb
from tests.programs import compiled
from tests.reading import steps
from traces.columnar import check_table
from traces.table import Table

SOURCE = Path(__file__).parent / "programs" / "kestrel_shape.c"
SHIPPED = Path(PROBES) / "kestrel.ini"
PROMPT, NEW, LAYERS = 5, 7, 6


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """build(level, fault layer or None): the program, compiled once a module."""
    folder = tmp_path_factory.mktemp("programs")

    @cache
    def build(level: str, fault: int | None = None) -> Path:
        planted = () if fault is None else (f"-DFAULT={fault}",)
        flags = ("-std=c11", "-Wall", "-Werror", "-g", level, *planted)
        return compiled(folder, SOURCE, *flags, name=f"kestrel{level}{'' if fault is None else fault}")

    return build


@pytest.fixture
def with_requests(tmp_path: Path) -> Path:
    """The shipped probe with the hooks uncommented that it offers."""
    head, _, offered = SHIPPED.read_text().partition("stepscope probe ./mine.ini\n")
    path = tmp_path / "mine.ini"
    path.write_text(head + "\n" + "\n".join(line[1:].strip() for line in offered.splitlines()))
    return path


def sampled(program: Path, *words: object) -> list[list[int]]:
    done = subprocess.run([str(program), *map(str, words)], check=True, capture_output=True, text=True)
    return [[int(word) for word in line.split()] for line in done.stdout.splitlines()]


def run(probe: object, program: Path, words: list[object], path: Path, *more: str) -> str:
    commands = [f"stepscope probe {probe}", f"stepscope record {path}", *more, "run"]
    return gdb(commands, program, [str(word) for word in words]).stdout


def passed(path: Path) -> set[str]:
    report = check_table(Table(path))
    assert report.verdict == "pass", [failure.message for failure in report.failures()]
    return {code for code, result in report.results.items() if result.passed}


@pytest.mark.parametrize("level", ["-O0", "-O2"])
def test_decode_behind_a_batch_prefill(programs: Any, tmp_path: Path, level: str) -> None:
    words = ["batch", PROMPT, NEW]
    path = tmp_path / "run.steps"
    assert "exited normally" in run("kestrel", programs(level), words, path)
    made = steps(path)
    (ids,) = sampled(programs(level), *words)
    assert [s["token_id"] for s in made] == ids[:-1]  # the last one is sampled and never fed
    assert [s["seq_before"] for s in made] == list(range(PROMPT, PROMPT + NEW - 1))
    assert [s["pos"] for s in made] == [s["seq_before"] for s in made]
    assert [s["seq_len"] for s in made[:-1]] == [s["seq_before"] + 1 for s in made[:-1]]
    assert [s["cache_len"] for s in made[:-1]] == [[s["seq_len"]] * LAYERS for s in made[:-1]]
    assert made[-1]["seq_len"] is None  # nothing was entered behind it
    assert {s["phase"] for s in made} == {"decode"}
    assert passed(path) >= {"KV01", "KV02", "KV03", "KV04", "KV05", "TK01", "TK05", "TM01"}
    facts = Table(path).runs[0].facts
    assert (facts["model"]["n_layers"], facts["model"]["vocab_size"], facts["kv"]["capacity"]) == (LAYERS, 1000, 64)


@pytest.mark.parametrize("level", ["-O0", "-O2"])
def test_a_prompt_fed_token_by_token(programs: Any, tmp_path: Path, with_requests: Path, level: str) -> None:
    words = ["single", PROMPT, NEW, 2]
    path = tmp_path / "run.steps"
    run(with_requests, programs(level), words, path)
    made = steps(path)
    assert [s["phase"] for s in made] == (["prefill"] * PROMPT + ["decode"] * NEW) * 2
    assert [s["seq_id"] for s in made] == [0] * (PROMPT + NEW) + [1] * (PROMPT + NEW)
    for request, ids in enumerate(sampled(programs(level), *words)):
        mine = made[request * (PROMPT + NEW) :][: PROMPT + NEW]
        assert [s["token_id"] for s in mine] == [None] * PROMPT + ids
        assert [s["seq_len"] for s in mine] == [*range(1, PROMPT + NEW), PROMPT + NEW - 1]
        assert all(s["cache_len"] == [s["seq_len"]] * LAYERS for s in mine)
        assert (mine[-1]["n_tokens"], mine[-1]["finish"]) == (0, "length")
    assert passed(path) >= {"KV01", "KV02", "KV03", "KV04", "KV05", "KV09", "TK01", "TK02", "TK03", "TK04", "TK05"}


def test_a_prompt_fed_as_a_batch_through_another_function(programs: Any, tmp_path: Path, with_requests: Path) -> None:
    path = tmp_path / "run.steps"
    run(with_requests, programs("-O2"), ["batch", PROMPT, NEW], path)
    made = steps(path)
    assert [(s["phase"], s["n_tokens"]) for s in made] == (
        [("prefill", PROMPT)] + [("decode", 1)] * (NEW - 1) + [("decode", 0)]
    )
    assert "KV09" in passed(path)


def test_a_new_request_is_a_new_sequence_without_a_hook_on_it(programs: Any, tmp_path: Path) -> None:
    path = tmp_path / "run.steps"
    run("kestrel", programs("-O2"), ["single", PROMPT, NEW, 3], path)
    made = steps(path)
    each = PROMPT + NEW - 1
    assert [s["seq_id"] for s in made] == [0] * each + [1] * each + [2] * each
    assert [s["seq_len"] for s in made[each - 1 :: each]] == [None] * 3  # what came after is another request's
    assert "KV04" in passed(path)


@pytest.mark.parametrize("level", ["-O0", "-O2"])
@pytest.mark.parametrize("layer", [0, 4])
def test_a_layer_that_forgets_its_increment_is_stopped_at(
    programs: Any, tmp_path: Path, level: str, layer: int
) -> None:
    path = tmp_path / "run.steps"
    words = ["batch", PROMPT, NEW]
    said = run("kestrel", programs(level, layer), words, path, "stepscope break-on any")
    # the step was closed by the entry behind it: the program stands there, before the next token is fed
    assert f"KV02 step 2 seq 0: layer {layer} holds {PROMPT + 2} rows, 5 other full layers {PROMPT + 3}" in said
    assert "exited" not in said.split("KV02 step 2")[1]
    assert len(steps(path)) >= 3


def test_without_a_fault_nothing_stops(programs: Any, tmp_path: Path) -> None:
    said = run(
        "kestrel", programs("-O2"), ["batch", PROMPT, NEW], tmp_path / "run.steps", "stepscope break-on any",
    )  # fmt: skip
    assert "exited normally" in said


TIMERS = {"qkv_ms": 1, "attn_ms": 2, "o_ms": 0.5, "gate_up_ms": 3, "down_ms": 1.5, "lm_head_ms": 4}


def test_timers_in_seconds_become_ms_a_step(programs: Any, tmp_path: Path) -> None:
    path = tmp_path / "run.steps"
    run("kestrel", programs("-O2"), ["batch", PROMPT, NEW], path, "set environment PROFILE_DECODE 1")
    for step in steps(path)[:-1]:
        assert {name: round(step[name], 4) for name in TIMERS} == TIMERS


def test_timers_in_ms_need_another_scale(programs: Any, tmp_path: Path) -> None:
    probe = tmp_path / "ms.ini"
    probe.write_text(SHIPPED.read_text().replace("scale = 1000", "scale = 1\nscale.o_ms = 1000"))
    path = tmp_path / "run.steps"
    run(probe, programs("-O2"), ["batch", PROMPT, NEW], path, "set environment PROFILE_DECODE 1")
    step = steps(path)[0]
    assert (round(step["qkv_ms"], 6), round(step["o_ms"], 4)) == (0.001, 0.5)


def test_timers_that_are_switched_off_are_absent_and_not_zero(programs: Any, tmp_path: Path) -> None:
    path = tmp_path / "run.steps"
    run("kestrel", programs("-O2"), ["batch", PROMPT, NEW], path)
    assert all(step[name] is None for step in steps(path) for name in TIMERS)
    why = {note["field"]: note["why"] for _, note in Table(path).notes() if note["kind"] == "absent"}
    assert {why.get(name) for name in TIMERS} == {"not_measured"}
