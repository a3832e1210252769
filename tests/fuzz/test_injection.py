"""Text that orders: to a terminal, a spreadsheet, gdb, or Python."""

from __future__ import annotations

import ast
import csv
import io
import os
import subprocess
import sys
from pathlib import Path

import pytest

from gdb_scripts import probe
from inspector.tui.save import write_csv
from tests.fuzz.running import OBEYED, behaves, run
from tests.gdb_scripts.running import gdb
from tests.programs import compiled
from traces import record
from traces.table import Table

ROOT = Path(__file__).parents[2]
EVIL = "\x1b]0;owned\x07\x1b[2J\u202e\x9b31m\r"
CODE = ("eval", "exec", "compile", "__import__")
ROOMS = ("traces", "engine", "inspector", "gdb_scripts")


def test_no_room_runs_text_as_code_or_unpickles() -> None:
    refused_modules = {"pickle", "marshal", "shelve", "dill", "cloudpickle", "yaml", "joblib"}
    for path in [path for room in ROOMS for path in (ROOT / room).rglob("*.py")]:
        for node in ast.walk(ast.parse(path.read_text(), str(path))):
            place = f"{path.relative_to(ROOT)}:{getattr(node, 'lineno', 0)}"
            if isinstance(node, (ast.Import, ast.ImportFrom)):
                names = [alias.name for alias in node.names] + [getattr(node, "module", None) or ""]
                assert not refused_modules & {name.split(".")[0] for name in names}, place
            if isinstance(node, ast.Call):
                called = getattr(node.func, "id", None) or getattr(node.func, "attr", None)
                is_name = isinstance(node.func, ast.Name)
                assert called not in ("system", "popen") and not (is_name and called in CODE), place
                if called != "shellcode":  # which writes for a shell, and runs nothing
                    assert not any(k.arg in ("shell", "allow_pickle") for k in node.keywords), place


@pytest.mark.parametrize(
    "words",
    [
        ["show", "{evil}"],
        ["check", "{evil}"],
        ["run", "{evil}", "-p", "x"],
        ["run", "-p", "x", "--prompt-file", "{evil}"],
        ["run", "--nonsense{evil}", "-p", "x"],
        ["{evil}"],
        ["rule", "{evil}"],
        ["check", "{evil}", "--select", "{evil}"],
        ["import", "{evil}", "x"],
        ["import", "auto", "{evil}"],
        ["export", "{evil}", "--to", "csv"],
        ["report", "{evil}"],
        ["probe", "plain", "{evil}"],
        ["probe", "draft", "{evil}"],
        ["gdb", "--probe", "{evil}", "--", "{evil}"],
        ["floor", "{evil}"],
        ["view", "{evil}"],
    ],
    ids=lambda words: " ".join(words).replace("{evil}", "*"),
)
def test_words_on_the_command_line_come_back_without_orders(words: list[str]) -> None:
    outcome = run(*(word.replace("{evil}", EVIL) for word in words))
    assert outcome.code == 2
    assert not OBEYED.search(outcome.err), outcome.err
    assert not OBEYED.search(outcome.out.decode())


def test_file_names_in_what_is_said_of_success(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    trace = f"{EVIL}.steps".replace("/", "")
    for words in (
        ["run", "-p", "List the first six letters", "-o", trace],
        ["show", trace], ["check", trace], ["stats", trace], ["report", trace, "-o", f"{EVIL}.html"],
        ["diff", trace, "--against", trace], ["export", trace, "--to", "jsonl", "-o", f"{EVIL}.jsonl"],
        ["import", "jsonl", f"{EVIL}.jsonl", "-o", f"{EVIL}2.steps"],
    ):  # fmt: skip
        outcome = run(*words)
        behaves(outcome, "steps")
        assert outcome.code in (0, 3), outcome


def test_csv_saved_from_the_view_holds_no_formula(tmp_path: Path) -> None:
    path = tmp_path / "a.steps"
    with record(path, n_layers=1) as trace:
        trace.request(prompt_tokens=1, n_reused=0)
        trace.step(n_tokens=1, seq_before=0, seq_len=1, cache_len=[1])
        for i, text in enumerate((b"=1+1", b"@SUM(A1)", b"+1", b"-1", b"\t=1", b"plain")):
            trace.step(token_id=i, n_tokens=1, seq_before=1 + i, seq_len=2 + i, cache_len=[2 + i], text=text)
    out = io.StringIO()
    table = Table(path)
    write_csv(table, 0, table.steps, {}, out, lambda done: True)
    rows = list(csv.DictReader(io.StringIO(out.getvalue())))
    assert [row["text"] for row in rows[1:]] == ["'=1+1", "'@SUM(A1)", "'+1", "'-1", "'\t=1", "plain"]


ACTING = r"""
#include <stdio.h>
int called;
int f(void) { called = 1; return 2; }
__attribute__((noipa)) void forward(int x) { (void)x; }
int main(void) { int x = 5; forward(x); forward(x + f() * 0); printf("called %d x %d\n", called, x); return 0; }
"""
ACTIONS = [
    "f()", "x = 1", "x++", "++x", "x += 1", "$pc = 0", "{char}0", "{char}0 = 1", "((int (*)(void))f)()", "(x = 1)",
    "(int)(x = 1)", "*(int *)(&x = 1)", "(char *)f()", "x, f()", "x ? f() : 0", "$_exit(1)", "x; shell touch owned",
]  # fmt: skip


def test_no_expression_of_a_probe_acts(tmp_path: Path) -> None:
    """Each is refused by the line that says where it stands; gdb then runs the program as if nothing had been."""
    program = compiled(tmp_path, ACTING, "-g", "-O1")
    commands = []
    for i, expression in enumerate(ACTIONS):
        spec = tmp_path / f"p{i}.ini"
        spec.write_text(f"[probe]\nname = p\n[forward]\nfunction = forward\nn_tokens = {expression}\n")
        with pytest.raises(probe.ProbeError, match=rf"p{i}\.ini: \[forward\] n_tokens: "):
            probe.load(str(spec))
        commands.append(f"stepscope probe {spec}")
    done = gdb([*commands, "break main", "run", "print called", "continue"], program)
    assert (done.stderr + done.stdout).count("[forward] n_tokens: ") == len(ACTIONS)
    assert "$1 = 0" in done.stdout
    assert "called 1 x 5" in done.stdout
    assert not (tmp_path / "owned").exists()


@pytest.mark.parametrize(
    "change",
    [
        ("name = p", "name = p\n  shell touch owned"),
        ("function = forward", "function = forward(int\n  )\n  shell touch owned"),
        ("function = forward", "function = forward\n file = a.c\n  shell touch owned"),
        ("[forward]", '[forward %s" , 1]'),
        ("[forward]", "[forward x\x1b]"),
    ],
)
def test_a_probe_adds_no_command_to_those_of_a_plain_gdb(tmp_path: Path, change: tuple[str, str]) -> None:
    spec = tmp_path / "p.ini"
    spec.write_text("[probe]\nname = p\n[forward]\nfunction = forward\nn_tokens = x\n".replace(*change))
    outcome = run("probe", "plain", spec)
    behaves(outcome, "p.ini")
    assert outcome.code == 2


def test_gdb_shows_no_orders_from_a_trace(tmp_path: Path) -> None:
    source = tmp_path / "evil.c"
    source.write_text(f"int a; // {EVIL}\n")
    trace = tmp_path / "a.steps"
    with record(trace, n_layers=1, model={"name": EVIL}, engine={"name": EVIL}) as writer:
        writer.note("source", file=str(source), line=1, function=EVIL)
        writer.request(prompt_tokens=1, n_reused=0, prompt=EVIL)
        writer.step(n_tokens=1, seq_before=0, seq_len=1, cache_len=[1])
        writer.step(token_id=1, n_tokens=1, seq_before=1, seq_len=2, cache_len=[9], text=EVIL[:8])
    done = gdb([f"stepscope replay {trace}", "stepscope goto 1", "stepscope where"])
    assert "evil.c" in done.stdout
    assert not OBEYED.search(done.stdout)
    assert not OBEYED.search(done.stderr)


@pytest.mark.parametrize(
    "template",
    [
        "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}",
        "{% for i in range(10**9) %}{% endfor %}",
        "{% for i in range(99999) %}{{ 'x' * 999 }}{% endfor %}",
        "{{ 'x' * 10**10 }}",
        "{{ 9 ** (9 ** 9) }}",
    ],
)
def test_a_chat_template_without_end_ends(tmp_path: Path, template: str) -> None:
    from engine.chat_template import TemplateError, rendered

    with pytest.raises(TemplateError, match="more than|too big"):
        rendered(template, {"messages": []})


def test_a_module_of_the_current_folder_is_not_taken_for_pythons(tmp_path: Path) -> None:
    """A template's process starts in the user's folder, where a json.py may lie."""
    (tmp_path / "json.py").write_text("raise SystemExit('taken')\n")
    code = "from engine.chat_template import rendered; print(rendered('{{ 1 + 1 }}', {}))"
    done = subprocess.run([sys.executable, "-P", "-c", code], cwd=tmp_path, capture_output=True, text=True)
    assert done.stdout == "2\n", done.stderr


def test_a_pipe_in_place_of_a_file_is_not_waited_for(tmp_path: Path) -> None:
    pipe, layout = tmp_path / "pipe", tmp_path / "pipe.layout.json"
    os.mkfifo(pipe)
    os.mkfifo(layout)
    for words in (
        ["probe", "draft", pipe],
        ["run", pipe, "-p", "x"],
        ["floor", pipe],
        ["diff", pipe, "--against", pipe],
        ["probe", "plain", pipe],
        ["gdb", "--probe", pipe],
        ["gdb", "--probe", layout],
        ["import", "gdb", pipe, "--probe", "native"],
    ):
        outcome = run(*words)
        behaves(outcome, "pipe")
        assert outcome.code == 2
