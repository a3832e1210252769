"""The commands in a real gdb on the real C engine: record, stop at the first bad step, follow, replay."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.engine.native.conftest import built, run
from tests.gdb_scripts.running import LETTERS, gdb, letters, prompt, recorded
from traces.columnar import check_table
from traces.table import Table

FOUR = "List the first four letters of the alphabet"


@pytest.mark.parametrize("build", ["O0", "O2"])
def test_the_film_by_gdb_alone_is_the_numpy_engines(
    tmp_path: Path, build: str, reference: list[dict[str, Any]]
) -> None:
    path = tmp_path / "gdb.steps"
    done = gdb(["stepscope probe native", f"stepscope record {path}", "run"], built(build), letters())
    assert "exited normally" in done.stdout
    assert recorded(path) == reference
    assert [s["phase"] for s in reference] == ["prefill"] + ["decode"] * 7
    report = check_table(Table(path))
    assert report.verdict == "pass"
    assert {"KV01", "KV02", "KV03", "KV04", "KV09", "KV11", "TK04"} <= {
        code for code, result in report.results.items() if result.passed
    }
    facts = Table(path).runs[0].facts
    assert facts["clock"] == "debugger"
    assert facts["kv"]["capacity"] == 2048


# where the faults table of engine/native/README.md says that they show first
LENGTH_FAULTS = {
    "skip_increment": ("KV02", 3, [LETTERS]),
    "double_increment": ("KV02", 3, [LETTERS]),
    "stale_seq_len": ("KV01", 3, [LETTERS]),
    "overwrite_row": ("KV11", 3, [LETTERS]),
    "partial_reset": ("KV02", 8, [LETTERS, FOUR]),
}


@pytest.mark.parametrize("fault", LENGTH_FAULTS)
def test_break_on_any_stops_at_the_first_bad_step(fault: str) -> None:
    rule, step, requests = LENGTH_FAULTS[fault]
    done = gdb(
        ["stepscope probe native", "stepscope break-on any", "run", "bt 1", "stepscope status", "print $step"],
        built("O2", fault), letters(*requests),
    )  # fmt: skip
    told = re.search(r"stepscope: (\w+) step (\d+) seq", done.stdout)
    assert told is not None, done.stdout + done.stderr
    assert told.groups() == (rule, str(step))
    assert "exited" not in done.stdout
    assert re.search(r"#0 .*(forward|finish_request)", done.stdout)
    assert f"$1 = {step}" in done.stdout


def test_break_on_stops_at_capacity_and_length_faults() -> None:
    words = [*letters(), "--capacity", "28"]
    done = gdb(["stepscope probe native", "stepscope break-on KV05", "run"], built("O2", "past_capacity"), words)
    assert "stepscope: KV05 step 4 seq 0" in done.stdout
    words = [*letters(), "--max-new-tokens", "3"]
    done = gdb(["stepscope probe native", "stepscope break-on any", "run"], built("O2", "one_too_many"), words)
    assert "stepscope: TK03 step 4 seq 0" in done.stdout


def test_without_a_fault_nothing_stops(tmp_path: Path) -> None:
    good = tmp_path / "good.steps"
    run(built("O2"), *letters(), "--trace", good)
    commands = ["stepscope probe native", "stepscope break-on any", f"stepscope follow {good}", "run"]
    done = gdb(commands, built("O0"), [*letters(), "--trace", str(tmp_path / "own.steps")])
    assert "exited normally" in done.stdout
    assert "differs" not in done.stdout


@pytest.mark.parametrize(("fault", "layer"), [("wrong_position", 0), ("wrong_scale", 1)])
def test_follow_stops_at_the_first_fingerprint_that_differs(tmp_path: Path, fault: str, layer: int) -> None:
    good = tmp_path / "good.steps"
    run(built("O2"), *letters(), "--trace", good)
    commands = ["stepscope probe native", f"stepscope follow {good}", "run", "print $step"]
    done = gdb(commands, built("O2", fault), [*letters(), "--trace", str(tmp_path / "bad.steps")])
    assert f"step 3 differs from the good run: hidden_rms of layer {layer} is" in done.stdout
    assert "$1 = 3" in done.stdout


def test_follow_stops_at_the_first_token_that_differs(tmp_path: Path) -> None:
    good = tmp_path / "good.steps"
    run(built("O2"), *letters(), "--trace", good)
    commands = ["stepscope probe native", f"stepscope follow {good}", "run"]
    other = "List the last six letters of the alphabet"
    assert len(prompt(other)) == len(prompt())
    done = gdb(commands, built("O2"), letters(other))
    assert "step 1 differs from the good run: token_id is " in done.stdout
    assert ", was 64\n" in done.stdout


def test_replay_and_goto_need_no_process(tmp_path: Path) -> None:
    path = tmp_path / "bad.steps"
    run(built("O2", "skip_increment"), *letters(), "--trace", path)
    done = gdb(
        [f"stepscope replay {path}", "stepscope goto 3", "print $step", "print $token_id", "print $seq_len",
         "print $cache_len", "stepscope goto 99", "stepscope where"],
    )  # fmt: skip
    assert "8 steps" in done.stdout
    assert re.search(r"KV02 step 3 seq 0: layer 1 holds \d+ rows", done.stdout)
    assert "$1 = 3" in done.stdout
    assert "$3 = 28" in done.stdout
    assert "$4 = 28" in done.stdout
    assert "with N from 0 to 7" in done.stderr
    assert "generate" in done.stdout


def test_a_word_that_is_no_command_and_none_at_all() -> None:
    done = gdb(["stepscope", "stepscope where", "stepscope brake-on any", "stepscope break none"])
    assert "stepscope break-on -- Stop the program at the step that breaks a rule" in done.stdout
    assert "\nno probe; type: stepscope probe NAME\n" in done.stdout
    assert "no command stepscope brake-on; type: help stepscope" in done.stderr
    assert done.stdout.endswith("break on nothing\n")


def test_where_names_what_it_shows() -> None:
    done = gdb(
        ["stepscope probe native", "stepscope break-on KV02", "run", "stepscope where"],
        built("O2", "skip_increment"), letters(),
    )  # fmt: skip
    heading, row = done.stdout.splitlines()[-2:]
    assert heading.split()[:3] == ["step", "phase", "token"]
    assert row.split()[:3] == ["3", "decode", "302"]


def test_the_users_own_breakpoints_keep_working(tmp_path: Path) -> None:
    path = tmp_path / "gdb.steps"
    commands = ["break forward if n == 1", "stepscope probe native", f"stepscope record {path}", "run", "print n",
                "continue", "print st->seq_len", "delete", "continue"]  # fmt: skip
    done = gdb(commands, built("O0"), letters())
    assert "$1 = 1" in done.stdout
    assert "$2 = 26" in done.stdout
    assert "exited normally" in done.stdout
    assert len(recorded(path)) == 8


def test_run_again_is_another_sequence(tmp_path: Path) -> None:
    path = tmp_path / "gdb.steps"
    done = gdb(["stepscope probe native", f"stepscope record {path}", "run", "run"], built("O2"), letters())
    assert done.stdout.count("exited normally") == 2
    table = Table(path)
    assert table.steps == 16
    assert check_table(table).verdict == "pass"


def test_a_program_that_dies_by_a_signal_leaves_a_whole_trace(tmp_path: Path) -> None:
    path = tmp_path / "gdb.steps"
    commands = ["break forward if st->seq_len == 28", "stepscope probe native", f"stepscope record {path}", "run",
                "delete", "signal SIGKILL"]  # fmt: skip
    gdb(commands, built("O2"), letters())
    table = Table(path)
    assert table.complete
    assert table.steps == 5
    assert [n["finish"] for _, n in table.notes() if n["kind"] == "finish"] == ["abort"]
    assert check_table(table).verdict == "pass"


def test_off_ends_the_trace_and_the_program_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "gdb.steps"
    commands = ["break forward if st->seq_len == 28", "stepscope probe native", f"stepscope record {path}", "run",
                "stepscope off", "delete", "continue"]  # fmt: skip
    done = gdb(commands, built("O2"), letters())
    assert "exited normally" in done.stdout
    assert Table(path).complete


@pytest.mark.parametrize(
    ("commands", "words"),
    [
        (["stepscope probe nothing"], "no probe 'nothing'; those that come with stepscope are"),
        (["stepscope record a.steps"], "choose a probe first"),
        (
            ["stepscope probe native", "stepscope record /nowhere/a.steps"],
            "/nowhere/a.steps: cannot write a trace here",
        ),
        (["stepscope probe native", "stepscope record"], "stepscope record FILE"),
        (["stepscope break-on KV99"], "no rule KV99"),
        (["stepscope follow /nowhere.steps"], "/nowhere.steps: cannot read"),
        (["stepscope replay /nowhere.steps"], "/nowhere.steps: cannot read"),
        (["stepscope goto 1"], "no trace is replayed"),
        (["stepscope backend tracepoint " + "9" * 5000], "the buffer takes 1 to 4095 MB"),
    ],
)
def test_what_is_wrong_is_one_line(commands: list[str], words: str) -> None:
    done = gdb(commands)
    assert [line for line in done.stderr.splitlines() if words in line], done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_a_file_that_is_no_trace_is_not_overwritten(tmp_path: Path) -> None:
    other = tmp_path / "notes.txt"
    other.write_text("precious")
    done = gdb(["stepscope probe native", f"stepscope record {other}", "run"], built("O2"), letters())
    assert "not a step trace" in done.stderr
    assert other.read_text() == "precious"


def test_a_full_disk_does_not_disturb_the_program() -> None:
    commands = ["stepscope probe native", "stepscope record /dev/full", "run", "stepscope status"]
    done = gdb(commands, built("O2"), letters())
    assert "no longer recorded" in done.stdout
    assert "No space left" in done.stdout
    assert "the program goes on" in done.stdout
    assert "exited normally" in done.stdout


def test_the_wrong_program_for_the_probe_is_told(tmp_path: Path) -> None:
    done = gdb(["stepscope probe native", f"stepscope record {tmp_path / 'a.steps'}", "run", "stepscope status"],
               Path("/bin/true"))  # fmt: skip
    assert "waiting for" in done.stdout
    assert "forward" in done.stdout
    assert not (tmp_path / "a.steps").exists() or Table(tmp_path / "a.steps").steps == 0


def test_help_names_every_command() -> None:
    text = gdb(["help stepscope"]).stdout
    for name in "probe record status break-on follow backend replay goto where off batch".split():
        assert f"stepscope {name} --" in text
