"""Signals that come while gdb stands at a hook: the program's own, and the user's Ctrl-C."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.gdb_scripts.running import SCRIPTS, gdb
from tests.gdb_scripts.serving import gdbserver
from tests.programs import compiled, need
from tests.reading import steps
from traces.columnar import check_table
from traces.table import Table

# words: how many tokens after the prompt, and the microseconds between two alarms (0: none)
ENGINE = r"""
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/time.h>
struct state { int seq_len; int cache_len[2]; };
static volatile int alarms;
static void tick(int number) { (void)number; alarms++; }
__attribute__((noipa)) void begin(int n_prompt) { (void)n_prompt; }
__attribute__((noipa)) void forward(struct state *st, int token, int n)
{
    st->cache_len[0] += n;
    st->cache_len[1] += n;
    st->seq_len += n;
}
int main(int argc, char **argv)
{
    int n = argc > 1 ? atoi(argv[1]) : 0, every = argc > 2 ? atoi(argv[2]) : 0;
    struct state st = {0};
    struct itimerval timer = {{0, every}, {0, every}};
    signal(SIGALRM, tick);
    setitimer(ITIMER_REAL, &timer, 0);
    begin(3);
    forward(&st, 9, 3);
    for (int i = 0; i < n; i++)
        forward(&st, 10 + i, 1);
    printf("%s\n", alarms ? "with alarms" : "without");
    return 0;
}
"""
SPEC = """\
[probe]
name = interrupted
layers = full
n_layers = 2
[request]
function = begin
prompt_tokens = n_prompt
n_reused = 0
[forward]
function = forward
token_id = token
n_tokens = n
seq_before = st->seq_len
cache_before = st->cache_len[:2]
"""


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    path = tmp_path / "p.ini"
    path.write_text(SPEC)
    return path


def test_a_signal_while_gdb_steps_off_a_hook_makes_no_second_hit(tmp_path: Path, spec: Path) -> None:
    program, path = compiled(tmp_path, ENGINE, "-g", "-O1"), tmp_path / "run.steps"
    commands = [f"stepscope probe {spec}", f"stepscope record {path}", "stepscope break-on any", "run"]
    done = gdb(commands, program, ["600", "1500"])
    assert "with alarms" in done.stdout
    table = Table(path)
    assert [step["token_id"] for step in steps(path)] == [None, *range(10, 610)]
    assert check_table(table).verdict == "pass"
    assert sum(note["kind"] == "request" for _, note in table.notes()) == 1


def test_ctrl_c_is_shown_to_gdb_between_two_hits_and_none_is_lost(tmp_path: Path, spec: Path) -> None:
    need("gdb")
    program, path = compiled(tmp_path, ENGINE, "-g", "-O1"), tmp_path / "run.steps"
    with gdbserver(program, ["100000000"]) as place, open(tmp_path / "log", "w+") as log:
        words = ["set sysroot /", f"target remote {place}", f"stepscope probe {spec}", f"stepscope record {path}"]
        commands = [f"source {SCRIPTS}", *words, *["continue"] * 12, "stepscope off", "kill"]
        debugger = subprocess.Popen(
            ["gdb", "-batch", "-nx", *[word for command in commands for word in ("-ex", command)], str(program)],
            stdin=subprocess.DEVNULL, stdout=log, stderr=log,
        )  # fmt: skip
        try:
            while not path.exists() and debugger.poll() is None:
                time.sleep(0.05)
            for _ in range(400):
                time.sleep(0.1)
                if debugger.poll() is not None:
                    break
                os.kill(debugger.pid, signal.SIGINT)
            assert debugger.wait(60) is not None
        finally:
            debugger.kill()
        log.seek(0)
        told = log.read()
    assert "Python Exception" not in told, told
    assert "Traceback" not in told, told
    assert "stepscope: stopped by Ctrl-C" in told, told
    table = Table(path)
    assert table.steps > 12
    assert [step["token_id"] for step in steps(path)][:-1] == [None, *range(10, 10 + table.steps - 2)]
    assert check_table(table).verdict == "pass"
