"""Two threads that step in turn, seen by each back-end: nothing is concluded from one to the other."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from gdb_scripts import probe as probes
from gdb_scripts.backends.plain import convert, script
from tests.gdb_scripts.running import gdb
from tests.gdb_scripts.serving import gdbserver
from tests.programs import compiled
from tests.reading import steps
from traces.columnar import check_table
from traces.table import Table

PROGRAMS = Path(__file__).parent / "programs"
SPEC = """\
[probe]
name = two
layers = full
[forward]
function = forward
n_tokens = n
seq_before = st->seq_len
cache_before = st->rows[:2]
"""


def recorded(program: Path, spec: Path, backend: str, path: Path) -> Table:
    commands = [f"stepscope backend {backend}", f"stepscope probe {spec}", f"stepscope record {path}"]
    if backend == "stop":
        gdb([*commands, "run"], program)
    elif backend == "tracepoint":
        with gdbserver(program) as place:
            out = gdb(["set sysroot /", f"target remote {place}", *commands, "continue"], program).stdout
        assert "is collected by tracepoint" in out
    else:
        hooks, probe = path.with_suffix(".gdb"), probes.load(str(spec))
        hooks.write_text(script(probe))
        words = ["gdb", "-nx", "-batch", "-x", str(hooks), "-ex", "run", str(program)]
        done = subprocess.run(
            words, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120,
            env={"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8", "HOME": "/nonexistent"},
        )  # fmt: skip
        convert(done.stdout.splitlines(), probe, str(path))
    return Table(path)


@pytest.mark.parametrize("backend", ["stop", "tracepoint", "plain"])
def test_without_seq_id_rules_across_threads_are_unknown(tmp_path: Path, backend: str) -> None:
    program = compiled(tmp_path, PROGRAMS / "two_threads.c", "-g", "-O1", "-pthread")
    spec = tmp_path / "two.ini"
    spec.write_text(SPEC)
    table = recorded(program, spec, backend, tmp_path / "run.steps")
    assert table.steps == 10
    notes = [note for chunk in table.chunks(0, table.steps, 0) for _, note in chunk.notes]
    assert [note["why"] for note in notes if note["kind"] == "gap"] == ["another thread stepped"] * 9
    results = check_table(table).results
    assert not [code for code, result in results.items() if result.failed]
    assert results["KV03"].passed == 0  # no step was seen to its end
    assert results["KV01"].passed == 10


@pytest.mark.parametrize("backend", ["stop", "tracepoint", "plain"])
def test_a_seq_id_tells_them_apart(tmp_path: Path, backend: str) -> None:
    program = compiled(tmp_path, PROGRAMS / "two_threads.c", "-g", "-O1", "-pthread")
    spec = tmp_path / "two.ini"
    spec.write_text(SPEC + "seq_id = st->id\n")
    table = recorded(program, spec, backend, tmp_path / "run.steps")
    for seq_id in (0, 1):
        assert [s["seq_before"] for s in steps(tmp_path / "run.steps") if s["seq_id"] == seq_id] == [0, 3, 4, 5, 6]
    assert check_table(table).results["KV03"].passed == 8
