"""`stepscope gdb`: a real gdb with the scripts, the probe and the facts of the binary; and what a trace says of it."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from gdb_scripts import replay
from tests.command_line import ROOT, STEPSCOPE
from tests.engine.native.conftest import built
from tests.gdb_scripts.running import SCRIPTS, gdb, letters
from tests.gdb_scripts.serving import gdbserver
from tests.inspector.programs import ARGUMENTS, ARGUMENTS_SPEC
from tests.programs import compiled, need
from tests.reading import steps
from traces.table import Table


def stepscope_gdb(*words: Any, stdin: str = "", path: str | None = None) -> subprocess.CompletedProcess[str]:
    """The verb as a user types it; it becomes gdb."""
    environment = os.environ | {"PYTHONPATH": str(ROOT), "LC_ALL": "C.UTF-8", "HOME": "/nonexistent"}
    if path is not None:
        environment["PATH"] = path
    done = subprocess.run(
        [*STEPSCOPE, "gdb", *map(str, words)],
        input=stdin, capture_output=True, text=True, timeout=120, env=environment,
    )  # fmt: skip
    assert "Traceback" not in done.stdout + done.stderr
    return done


def engine_facts(trace: Path) -> dict[str, Any]:
    facts: dict[str, Any] = Table(trace).runs[0].facts["engine"]
    return facts


def build_id(program: Path) -> str:
    text = subprocess.run(["readelf", "-n", str(program)], capture_output=True, text=True, check=True).stdout
    return next(line.split()[-1] for line in text.splitlines() if "Build ID" in line)


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """A small engine, its spec beside it."""
    need("gdb")
    (tmp_path / "p.ini").write_text(ARGUMENTS_SPEC)
    return compiled(tmp_path, ARGUMENTS, "-g", "-O1")


def test_the_script_path() -> None:
    done = stepscope_gdb("--script-path")
    assert (done.returncode, done.stdout) == (0, f"{SCRIPTS}\n")


def test_one_line_records_a_run(tmp_path: Path) -> None:
    need("gdb")
    engine, trace = built("O2"), tmp_path / "run.steps"
    done = stepscope_gdb(
        "--probe", "native", "--record", trace, "--break-on", "any", "--batch", "--", engine, *letters()
    )
    assert "exited normally" in done.stdout, done.stderr
    assert len(steps(trace)) == 8
    facts = engine_facts(trace)
    assert facts["build_id"] == build_id(engine)
    assert facts["binary"] == engine.name
    assert facts["compiler"].startswith("GNU C")
    assert "-O2" in facts["flags"].split()


def test_the_trace_names_the_hooks_source(tmp_path: Path, program: Path) -> None:
    trace = tmp_path / "run.steps"
    stepscope_gdb("--probe", tmp_path / "p.ini", "--record", trace, "--batch", "--", program)
    first, *lines = replay.Replay(str(trace)).source_lines()
    assert first.startswith(f"{tmp_path}/program.c:")
    assert first.endswith(" forward")
    assert any("forward(struct state *st" in line for line in lines)


def test_sourced_by_hand_the_build_is_known_too(tmp_path: Path, program: Path) -> None:
    trace = tmp_path / "run.steps"
    gdb([f"stepscope probe {tmp_path / 'p.ini'}", f"stepscope record {trace}", "run"], program)
    facts = engine_facts(trace)
    assert (facts["build_id"], facts["binary"]) == (build_id(program), "program")
    assert "flags" not in facts, "nobody looked into the binary"


def test_facts_of_another_build_do_not_count(tmp_path: Path, program: Path) -> None:
    other = compiled(tmp_path, ARGUMENTS, "-g", "-O0", name="other")
    trace = tmp_path / "run.steps"
    commands = f"file {other}\nrun\nquit\n"
    stepscope_gdb("--probe", tmp_path / "p.ini", "--record", trace, "--", program, stdin=commands)
    facts = engine_facts(trace)
    assert facts["build_id"] == build_id(other)
    assert "flags" not in facts


def test_the_program_inherits_nothing_of_ours(tmp_path: Path) -> None:
    source = (
        '#include <stdlib.h>\n#include <stdio.h>\n__attribute__((noinline)) void forward(int n) { printf("%d %s\\n", n,'
        ' getenv("STEPSCOPE_FACTS") ? "told" : "clean"); }\nint main(void) { forward(1); return 0; }\n'
    )
    (tmp_path / "p.ini").write_text("[probe]\n[forward]\nfunction = forward\nn_tokens = n\n")
    program = compiled(tmp_path, source, "-g")
    done = stepscope_gdb("--probe", tmp_path / "p.ini", "--batch", "--", program)
    assert "1 clean" in done.stdout


def test_stdin_is_gdbs(tmp_path: Path, program: Path) -> None:
    done = stepscope_gdb("--probe", tmp_path / "p.ini", "--", program, stdin="stepscope status\nprint 6 * 7\nquit\n")
    assert "$1 = 42" in done.stdout
    assert "0 steps" in done.stdout


def test_follow_and_break_on_are_handed_on(tmp_path: Path) -> None:
    good, bad = tmp_path / "good.steps", tmp_path / "bad.steps"
    stepscope_gdb("--probe", "native", "--record", good, "--batch", "--", built("O0"), *letters())
    faulty = built("O0", "skip_increment")
    done = stepscope_gdb(
        "--probe", "native", "--record", bad, "--break-on", "KV02", "--batch", "--", faulty, *letters()
    )
    assert "KV02" in done.stdout
    assert "exited" not in done.stdout
    done = stepscope_gdb("--probe", "native", "--follow", good, "--batch", "--", faulty, *letters())
    assert "step 3 differs from the good run" in done.stdout
    assert "exited" not in done.stdout


def test_the_backend_is_handed_on() -> None:
    done = stepscope_gdb("--backend", "auto", "--probe", "native", "--batch", "--", built("O0"), *letters())
    assert done.returncode == 0
    assert "backend stop: nothing is recorded" in done.stdout


def test_attach_to_a_running_process(tmp_path: Path) -> None:
    source = "#include <unistd.h>\n" + ARGUMENTS
    for text, slow in {
        "i < 3": "i < 10000",
        "+ i)": ")",
        "tokens[i]": "tokens[0]",
        "sum += f": "usleep(99999); sum += f",
    }.items():
        source = source.replace(text, slow)
    (tmp_path / "p.ini").write_text(ARGUMENTS_SPEC)
    need("gdb")
    program, trace = compiled(tmp_path, source, "-g"), tmp_path / "run.steps"
    with subprocess.Popen([str(program)], stdout=subprocess.DEVNULL) as running:
        try:
            words = ["--probe", tmp_path / "p.ini", "--record", trace, "--attach", running.pid]
            commands = "python import threading, os, signal\n" + (
                f"python threading.Timer(3, lambda: os.kill({running.pid}, signal.SIGINT)).start()\n"
                "continue\ndetach\nquit\n"
            )
            stepscope_gdb(*words, stdin=commands)
            assert running.poll() is None, "the program goes on without us"
        finally:
            running.kill()
    table = Table(trace)
    assert table.steps > 3
    assert engine_facts(trace)["flags"]


def test_a_remote_stub(tmp_path: Path, program: Path) -> None:
    trace = tmp_path / "run.steps"
    with gdbserver(program) as place:
        words = ["--probe", tmp_path / "p.ini", "--record", trace, "--remote", place, "--batch"]
        done = stepscope_gdb(*words, "--", program)
    assert [step["seq_before"] for step in steps(trace)] == [0, 3, 4], done.stderr
    assert engine_facts(trace)["flags"]


# -- what cannot be started --------------------------------------------------------------------------------------------


def refused(*words: Any, path: str | None = None) -> str:
    done = stepscope_gdb(*words, path=path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1
    return done.stderr


def test_words_that_do_not_fit(tmp_path: Path, program: Path) -> None:
    assert "need a probe" in refused("--record", tmp_path / "a.steps", "--", program)
    assert "no probe 'nothing'" in refused("--probe", "nothing", "--", program)
    assert "no rule KV99" in refused("--probe", "native", "--break-on", "KV99", "--", program)
    assert "no.steps: cannot read: No such file or directory" in refused(
        "--probe", "native", "--follow", tmp_path / "no.steps", "--", program
    )
    assert "no such program" in refused("--probe", "native", "--", tmp_path / "nothing")
    assert "--batch needs a program" in refused("--batch")
    (tmp_path / "bad.layout.json").write_text("{")
    assert "is not JSON" in refused("--probe", tmp_path / "bad.layout.json", "--", program)


def test_no_gdb(tmp_path: Path) -> None:
    assert "gdb is not installed; type: apt-get install gdb\n" in refused(path=str(tmp_path))
    said = refused("--gdb", "gdb-multiarch", path=str(tmp_path))
    assert "gdb-multiarch is not installed; type: apt-get install gdb-multiarch\n" in said


def test_a_gdb_without_python(tmp_path: Path) -> None:
    fake = tmp_path / "gdb"
    fake.write_text("#!/bin/sh\necho 'Python scripting is not supported in this copy of GDB.' >&2\nexit 1\n")
    fake.chmod(0o755)
    said = refused(path=f"{tmp_path}:{os.environ['PATH']}")
    assert "has no Python" in said
    assert "plain back-end" in said


def test_facts_in_the_environment_that_are_no_json(tmp_path: Path, program: Path) -> None:
    trace = tmp_path / "run.steps"
    for text in ("{", "[1, 2]", "[" * 20_000, json.dumps({"build_id": 3}), ""):
        environment = os.environ | {"STEPSCOPE_FACTS": text}
        words = ["gdb", "-batch", "-nx", "-ex", f"source {SCRIPTS}", "-ex", f"stepscope probe {tmp_path / 'p.ini'}"]
        words += ["-ex", f"stepscope record {trace}", "-ex", "run", str(program)]
        done = subprocess.run(words, capture_output=True, text=True, env=environment, timeout=60)
        assert "Traceback" not in done.stderr
        assert engine_facts(trace)["build_id"] == build_id(program)
        trace.unlink()
