"""An engine with a struct for each layer: the same rows by every way of looking, and the layer that forgot one."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.command_line import stepscope
from tests.gdb_scripts.running import gdb
from tests.gdb_scripts.serving import gdbserver
from tests.programs import compiled
from tests.reading import steps

PROGRAM = Path(__file__).parent / "programs" / "layer_structs.c"
SPEC = """\
[probe]
name = layer_structs
layers = full
n_layers = 3

[forward]
function = model_eval
token_id = toks[0]
n_tokens = n_toks
seq_before = m->n_past
cache_before = {rows}
"""
ROWS = ["m->layers[:3].kv.used", "m->layers[:3].own->used", "m->caches[:3]->used"]
IN_PLACE = ROWS[0]


@pytest.fixture(params=[4, 8000], ids=["near each other", "far from each other"])
def program(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return compiled(tmp_path, PROGRAM, "-g", "-O2", f"-DFLOATS={request.param}", name="engine")


@pytest.fixture
def told(program: Path) -> list[list[int]]:
    """seq_before and each layer's rows at each entry, as the program says."""
    lines = subprocess.run([str(program)], capture_output=True, text=True, check=True).stdout.splitlines()
    return [[int(word) for word in line.split()] for line in lines]


def seen(trace: Path) -> list[list[int]]:
    return [[s["seq_before"], *s["cache_before"]] for s in steps(trace)]


def spec(folder: Path, rows: str) -> Path:
    path = folder / "engine.ini"
    path.write_text(SPEC.format(rows=rows))
    return path


@pytest.mark.parametrize("rows", ROWS)
def test_under_gdb_and_from_a_frozen_layout(tmp_path: Path, program: Path, told: list[list[int]], rows: str) -> None:
    mine, layout, twin = spec(tmp_path, rows), tmp_path / "engine.layout.json", tmp_path / "stripped"
    assert stepscope("probe", "verify", program, mine).returncode == 0
    assert stepscope("probe", "layout", program, mine, "-o", layout).returncode == 0
    subprocess.run(["strip", "-o", str(twin), shutil.copy(program, tmp_path / "copy")], check=True)
    for name, where, trace in ((mine, program, "gdb.steps"), (layout, twin, "frozen.steps")):
        done = gdb([f"stepscope probe {name}", f"stepscope record {tmp_path / trace}", "run"], where)
        assert "exited normally" in done.stdout, done.stdout + done.stderr
        assert seen(tmp_path / trace) == told


def test_without_python(tmp_path: Path, program: Path, told: list[list[int]]) -> None:
    mine = spec(tmp_path, IN_PLACE)
    hooks, log, trace = tmp_path / "hooks.gdb", tmp_path / "run.log", tmp_path / "plain.steps"
    assert stepscope("probe", "plain", mine, "-o", hooks).returncode == 0
    with open(log, "w") as out:
        subprocess.run(["gdb", "-nx", "-batch", "-x", hooks, "-ex", "run", program], stdout=out, check=True, timeout=60)
    assert stepscope("import", "gdb", log, "--probe", mine, "-o", trace).returncode == 0
    assert seen(trace) == told


def test_behind_pointers_takes_a_gdb_with_python(tmp_path: Path) -> None:
    done = stepscope("probe", "plain", spec(tmp_path, ROWS[2]))
    assert (done.returncode, done.stdout) == (2, "")
    assert "[forward] cache_before: what lies behind each pointer of a slice needs a gdb with Python" in done.stderr


def test_collected_by_gdbserver(tmp_path: Path, program: Path, told: list[list[int]]) -> None:
    mine, trace = spec(tmp_path, IN_PLACE), tmp_path / "collected.steps"
    with gdbserver(program) as place:
        done = gdb(
            ["set sysroot /", f"target remote {place}", "stepscope backend tracepoint", f"stepscope probe {mine}",
             f"stepscope record {trace}", "continue"], program,
        )  # fmt: skip
    assert "is collected by tracepoint" in done.stdout
    assert seen(trace) == told


def test_a_draft_finds_them_and_the_layer_that_forgot_is_named(tmp_path: Path, program: Path) -> None:
    """Step 5 is the one in which the program forgets; its prompt of 4 and five tokens make 9 rows."""
    drafted = tmp_path / "drafted.ini"
    assert stepscope("probe", "draft", program, "-o", drafted).returncode == 0
    text = drafted.read_text()
    for line in ("layers = full", "n_layers = 3", "token_id = toks[0]", "n_tokens = n_toks", "seq_before = m->n_past",
                 f"cache_before = {IN_PLACE}"):  # fmt: skip
        assert f"\n{line}\n" in text
    assert "= ?" not in text
    done = gdb([f"stepscope probe {drafted}", "stepscope break-on any", "run", "print m->n_past"], program)
    assert "KV02 step 5 seq 0: layer 1 holds 8 rows, 2 other full layers 9" in done.stdout
    assert "$1 = 9" in done.stdout


def test_a_layout_with_a_distance_that_no_struct_has(tmp_path: Path, program: Path) -> None:
    layout = tmp_path / "engine.layout.json"
    assert stepscope("probe", "layout", program, spec(tmp_path, IN_PLACE), "-o", layout).returncode == 0
    sound = layout.read_text()
    stride = next(line.strip() for line in reversed(sound.splitlines()) if line.strip().isdigit())
    layout.write_text(sound.replace(f" {stride}\n", " -1\n"))
    assert layout.read_text() != sound
    done = gdb([f"stepscope probe {layout}"], program)
    assert "is damaged: -1 is no distance of numbers of 4 bytes; write it again" in done.stdout + done.stderr
