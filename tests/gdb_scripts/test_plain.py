"""A gdb without Python: the command file, run by gdb alone, and its printed lines as a trace."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from gdb_scripts import probe as probes
from gdb_scripts.backends.plain import convert, script
from gdb_scripts.probe import ProbeError
from tests.command_line import ROOT, stepscope
from tests.engine.native.conftest import built
from tests.gdb_scripts.running import letters, recorded
from tests.gdb_scripts.serving import BENCH, gdbserver
from tests.programs import compiled, need
from tests.reading import steps
from traces.columnar import check_table
from traces.table import Table


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


@pytest.fixture
def hooks(tmp_path: Path) -> Path:
    path = tmp_path / "hooks.gdb"
    assert stepscope("probe", "plain", "native", "-o", path).returncode == 0
    return path


@pytest.mark.parametrize("build", ["O0", "O2"])
def test_the_film_is_the_numpy_engines(
    tmp_path: Path, hooks: Path, build: str, reference: list[dict[str, Any]]
) -> None:
    log, path = tmp_path / "run.log", tmp_path / "run.steps"
    log.write_text(plain_gdb(hooks, "run", program=built(build), arguments=letters()))
    done = stepscope("import", "gdb", log, "--probe", "native", "-o", path)
    assert (done.returncode, done.stderr) == (0, f"stepscope: 8 steps written to {path}\n")
    assert recorded(path) == reference
    report = check_table(Table(path))
    assert report.verdict == "pass"
    assert {"KV01", "KV02", "KV03", "KV04", "KV05", "KV09", "KV11", "TK01", "TK03", "TK04"} <= {
        code for code, result in report.results.items() if result.passed
    }
    facts = Table(path).runs[0].facts
    assert facts["clock"] == "none"
    assert facts["kv"]["capacity"] == 2048
    assert all(s["t_ns"] is None for s in steps(path, "t_ns"))


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
    program = compiled(tmp_path, BENCH / "loop28.c", "-g", "-O2")
    text = (BENCH / "loop28.ini").read_text()
    probe = probes.read(
        text.replace("n_tokens = n\n", "n_tokens = n\naccumulated.attn_ms = st->attn_ms\n"), "loop28.ini"
    )
    hooks = tmp_path / "hooks.gdb"
    hooks.write_text(script(probe))
    out = plain_gdb(hooks, "run", program=program, arguments=["30"])
    path = tmp_path / "run.steps"
    convert(out.splitlines(), probe, str(path))
    assert [s["attn_ms"] for s in steps(path, "attn_ms")][:5] == [0.25, 0.25, 0.5, 0.75, 1.0]
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


NULLS = """
struct cfg { int n; };
struct inner { int len; };
struct state { struct cfg cfg; struct inner *inner; int *rows; };
__attribute__((noipa)) void step(struct state *st, int n) { if (st && st->inner) st->inner->len += n; }
int main(void)
{
    struct inner inner = {0};
    int rows[2] = {7, 7};
    struct state st = {{2}, 0, 0};
    step(0, 1);
    step(&st, 1);
    st.inner = &inner;
    step(&st, 1);
    st.rows = rows;
    step(&st, 1);
    return 0;
}
"""
NULLS_SPEC = """
[probe]
n_layers = st->cfg.n
[forward]
function = step
n_tokens = n
seq_before = st->inner->len
cache_before = st->rows[:st->cfg.n]
"""


@pytest.mark.parametrize("flags", ["-O0", "-O2"])
def test_a_null_pointer_costs_its_fields_and_the_run_goes_on(tmp_path: Path, flags: str) -> None:
    hooks, path = tmp_path / "hooks.gdb", tmp_path / "run.steps"
    probe = probes.read(NULLS_SPEC, "nulls.ini")
    hooks.write_text(script(probe))
    out = plain_gdb(hooks, "run", program=compiled(tmp_path, NULLS, "-g", flags))
    convert(out.splitlines(), probe, str(path))
    found = [(s["n_tokens"], s["seq_before"]) for s in steps(path)]
    assert found == [(1, None), (1, None), (1, 0), (1, 1)]
    assert "exited normally" in out
    assert "{7, 7}" in out


GARBAGE = [
    ("n_layers=2", "n_layers=99999999999999999999999"),
    ("n_layers=2", "n_layers={1, 2}"),
    ("n_layers=2", "n_layers=-7"),
    ("n_layers=2", "n_layers=1e300"),
    ("n_layers=2", "n_layers=" + "9" * 5000),
    ("vocab_size=100", "vocab_size={}"),
    ("capacity=50", "capacity=<optimized"),
    ("prompt_tokens=3", "prompt_tokens=" + "9" * 40 + " kind=gap"),
    ("prompt_ids={5, 6, 7}", "prompt_ids=5"),
    ("prompt_ids={5, 6, 7}", "prompt_ids={" + "9" * 30 + "}"),
    ("seq_id=0 token_id=64", "seq_id={1} token_id=1e5"),
    ("token_id=64", "token_id=" + "9" * 60),
    ("n_tokens=1", "n_tokens=" + "8" * 25),
    ("cache_before={3, 3}", "cache_before={3, " + "9" * 25 + "}"),
    ("finish=1", "finish={1}"),
]


@pytest.mark.parametrize(("was", "now"), GARBAGE)
def test_garbage_in_a_log_costs_its_field(tmp_path: Path, was: str, now: str) -> None:
    assert was in LOG
    log, spec, path = tmp_path / "run.log", tmp_path / "log.ini", tmp_path / "run.steps"
    log.write_text(LOG.replace(was, now))
    spec.write_text(PROBE)
    done = stepscope("import", "gdb", log, "--probe", spec, "-o", path)
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    assert len(recorded(path)) == 4
    assert check_table(Table(path)).verdict in ("pass", "unknown")


def test_from_standard_input(tmp_path: Path) -> None:
    spec, path = tmp_path / "log.ini", tmp_path / "run.steps"
    spec.write_text(PROBE)
    assert stepscope("import", "gdb", "-", "--probe", spec, "-o", path, input=LOG).returncode == 0
    assert len(recorded(path)) == 4


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["import", "gdb", "run.log"], "--probe P"),
        (["import", "jsonl", "run.log", "--probe", "native"], "--probe P"),
        (["import", "gdb", "/no/such.log", "--probe", "native"], "/no/such.log: cannot read: No such file"),
        (["import", "gdb", "/dev/null", "--probe", "nosuch"], "no probe 'nosuch'"),
        (["import", "gdb", "/dev/null", "--probe", "native"], "/dev/null: not a regular file; pipe it in"),
        (["import", "gdb", str(ROOT / "README.md"), "--probe", "native"], "holds no line of a [forward] hook"),
        (["probe", "plain", "nosuch"], "no probe 'nosuch'"),
        (["probe", "plain", "llama_cpp"], "slot: several sequences a forward need a gdb with Python"),
    ],
)
def test_bad_use_is_one_line(tmp_path: Path, words: list[str], told: str) -> None:
    out = tmp_path / "out.steps"
    done = stepscope(*words, *(["-o", out] if words[0] == "import" else []))
    assert (done.returncode, done.stdout) == (2, "")
    assert len(done.stderr.splitlines()) == 1
    assert told in done.stderr
    assert not out.exists()
