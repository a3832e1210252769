"""A gdb without Python: the command file, run by gdb alone, and its printed lines as a trace."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from engine.loop import StopSettings
from engine.model import DEMO_MODEL, load_model
from engine.tracing import record_generation
from gdb_scripts import probe as probes
from gdb_scripts.backends.plain import convert, script
from gdb_scripts.probe import ProbeError
from tests.engine.native.conftest import built
from tests.gdb_scripts.running import letters, prompt
from tests.gdb_scripts.serving import BENCH, compiled, gdbserver, need
from traces.columnar import check_table
from traces.table import Table

ROOT = Path(__file__).parents[2]
COMPARED = ("phase", "token_id", "n_tokens", "seq_before", "seq_len", "cache_len", "finish")


def recorded(path: Path, names: tuple[str, ...] = COMPARED) -> list[dict[str, Any]]:
    table = Table(path)
    assert table.complete
    return [{name: s[name] for name in names} for s in table.plain(0, table.steps) if s is not None]


def plain_gdb(hooks: Path, *commands: str, program: Path, arguments: list[str] | None = None) -> str:
    """gdb with a command file and nothing else: what a gdb without Python does the same."""
    need("gdb")
    assert "python" not in hooks.read_text().lower().replace("without python", "")
    words = ["gdb", "-nx", "-batch", "-x", str(hooks)]
    for command in commands:
        words += ["-ex", command]
    words += ["--args", str(program), *(arguments or [])]
    done = subprocess.run(
        words, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120,
        env={"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8", "HOME": "/nonexistent"},
    )  # fmt: skip
    return done.stdout


def plain(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "gdb_scripts.backends.plain", *words], cwd=ROOT, capture_output=True, text=True
    )


@pytest.fixture
def hooks(tmp_path: Path) -> Path:
    path = tmp_path / "hooks.gdb"
    path.write_text(script(probes.load("native")))
    return path


@pytest.mark.parametrize("build", ["O0", "O2"])
def test_the_film_is_the_numpy_engines(tmp_path: Path, hooks: Path, build: str) -> None:
    log, path, reference = tmp_path / "run.log", tmp_path / "run.steps", tmp_path / "numpy.steps"
    log.write_text(plain_gdb(hooks, "run", program=built(build), arguments=letters()))
    done = plain("native", str(log), str(path))
    assert (done.returncode, done.stderr) == (0, "")
    model = load_model(DEMO_MODEL)
    record_generation(model, prompt(), stops=StopSettings(model.defaults.eos, 256), path=reference)
    assert recorded(path) == recorded(reference)
    report = check_table(Table(path))
    assert report.verdict == "pass"
    assert {"KV01", "KV02", "KV03", "KV04", "KV05", "KV09", "KV11", "TK01", "TK03", "TK04"} <= {
        code for code, result in report.results.items() if result.passed
    }
    facts = Table(path).runs[0].facts
    assert facts["clock"] == "none"
    assert facts["kv"]["capacity"] == 2048
    assert all(s["t_ns"] is None for s in recorded(path, ("t_ns",)))


def test_a_fault_shows_in_the_imported_trace(tmp_path: Path, hooks: Path) -> None:
    out = plain_gdb(hooks, "run", program=built("O2", "skip_increment"), arguments=letters())
    session = convert(out.splitlines(), probes.load("native"), None)
    failures = session.report.failures()
    assert (failures[0].code, failures[0].step) == ("KV02", 3)


def test_through_gdbserver(tmp_path: Path, hooks: Path) -> None:
    with gdbserver(built("O2"), letters()) as place:
        out = plain_gdb(hooks, "set sysroot /", f"target remote {place}", "continue", program=built("O2"))
    session = convert(out.splitlines(), probes.load("native"), str(tmp_path / "run.steps"))
    assert session.steps == 8
    assert session.report.verdict == "pass"


def test_times_that_add_up(tmp_path: Path) -> None:
    program = compiled(BENCH / "loop28.c", tmp_path / "loop28")
    text = (BENCH / "loop28.ini").read_text()
    probe = probes.read(
        text.replace("n_tokens = n\n", "n_tokens = n\naccumulated.attn_ms = st->attn_ms\n"), "loop28.ini"
    )
    hooks = tmp_path / "hooks.gdb"
    hooks.write_text(script(probe))
    out = plain_gdb(hooks, "run", program=program, arguments=["30"])
    path = tmp_path / "run.steps"
    convert(out.splitlines(), probe, str(path))
    assert [s["attn_ms"] for s in recorded(path, ("attn_ms",))][:5] == [0.25, 0.25, 0.5, 0.75, 1.0]
    assert len(recorded(path)[0]["cache_len"]) == 28


LOG = """\
Reading symbols from engine...
stepscope [request] seq_id=0 prompt_tokens=3 n_reused=0 max_new_tokens=9 prompt_ids={5, 6, 7}
stepscope [facts] n_layers=2 vocab_size=100 capacity=50
stepscope [forward] seq_id=0 token_id=5 n_tokens=3 seq_before=0 cache_before={0, 0}
64,stepscope [forward] seq_id=0 token_id=64 n_tokens=1 seq_before=3 cache_before={3, 3}
warning: something
,65stepscope [forward] seq_id=0 token_id=65 n_tokens=1 seq_before=4 cache_before={4 '\\004', 4 '\\004'}
stepscope [finish] seq_id=0 token_id=9 finish=1 seq_before=5 cache_before={5, 5}
[Inferior 1 (process 12) exited normally]
"""
PROBE = """\
[probe]
name = log
layers = full
n_layers = s->n
vocab_size = s->v
capacity = s->c
[request]
function = begin
seq_id = id
prompt_tokens = n
n_reused = 0
max_new_tokens = m
prompt_ids = p[:n]
[forward]
function = step
seq_id = s->id
token_id = t[0]
n_tokens = n
seq_before = s->len
cache_before = s->rows[:s->n]
[finish]
function = end
seq_id = id
token_id = t
finish = why
seq_before = s->len
cache_before = s->rows[:s->n]
"""


def test_lines_among_the_programs_own_output(tmp_path: Path) -> None:
    path = tmp_path / "run.steps"
    session = convert(LOG.splitlines(), probes.read(PROBE, "log.ini"), str(path))
    assert [s["seq_len"] for s in recorded(path)] == [3, 4, 5, 5]
    assert [s["token_id"] for s in recorded(path)] == [None, 64, 65, 9]
    assert recorded(path)[-1]["finish"] == "eos"
    assert session.report.verdict == "pass"


@pytest.mark.parametrize("cut", range(0, len(LOG), 23))
def test_a_log_cut_anywhere_gives_what_it_holds(tmp_path: Path, cut: int) -> None:
    session = convert(LOG[:cut].splitlines(), probes.read(PROBE, "log.ini"), None)
    assert session.steps <= 4
    assert session.report.verdict in ("pass", "unknown")


def test_death_by_a_signal_is_an_abort(tmp_path: Path) -> None:
    log = LOG.splitlines()[:5] + ["Program terminated with signal SIGSEGV, Segmentation fault."]
    path = tmp_path / "run.steps"
    convert(log, probes.read(PROBE, "log.ini"), str(path))
    table = Table(path)
    notes = [n for chunk in table.chunks(0, table.steps, 0) for _, n in chunk.notes]
    assert {"kind": "finish", "seq_id": 0, "finish": "abort"} in notes


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (("function = step", "function = /step.*/"), "takes a name"),
        (("n_tokens = n", "n_tokens = n\nslot = s->slots[:n]"), "slot"),
        (("token_id = t[0]", "token_id = dynamic_cast<Kind *>(t)->id"), "dynamic_cast"),
    ],
)
def test_what_plain_gdb_cannot_read(change: tuple[str, str], told: str) -> None:
    with pytest.raises(ProbeError, match=told):
        script(probes.read(PROBE.replace(*change), "log.ini"))


@pytest.mark.parametrize("words", [[], ["native", "log"], ["nosuch"], ["native", "/no/such.log", "/tmp/x.steps"]])
def test_bad_use_is_one_line(words: list[str]) -> None:
    done = plain(*words)
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    assert "Traceback" not in done.stderr
