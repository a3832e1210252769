"""`stepscope chat` as its user has it: piped, at a terminal, and with turns that cannot be."""

from __future__ import annotations

import json
import os
import pty
import select
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.command_line import STEPSCOPE, stepscope


def chat(folder: Path, said: str, *words: str) -> subprocess.CompletedProcess[str]:
    return stepscope("chat", "-o", "talk.steps", *words, cwd=folder, input=said)


def test_piped_lines_are_turns(tmp_path: Path) -> None:
    done = chat(tmp_path, "Count to three\n\nName three months\n/new\nName two days of the week")
    assert (done.returncode, done.stdout) == (0, "1 2 3\nJanuary February March\nMonday Tuesday\n")
    assert done.stderr == "stepscope: talk.steps: 3 turns\n"
    assert stepscope("check", "talk.steps", cwd=tmp_path).returncode == 0
    requests = json.loads(stepscope("stats", "talk.steps", "--json", cwd=tmp_path).stdout)["requests"]
    assert [request["finish"] for request in requests] == ["eos"] * 3
    assert requests[0]["reused"] == 0
    # the first turn and its answer, without the end token, begin the second prompt
    assert requests[1]["reused"] == requests[0]["prompt_tokens"] + 3
    assert 0 < requests[2]["reused"] < requests[2]["prompt_tokens"]


def test_nothing_said_is_an_empty_trace(tmp_path: Path) -> None:
    done = chat(tmp_path, "")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "stepscope: talk.steps: 0 turns\n")
    assert stepscope("show", "talk.steps", cwd=tmp_path).returncode == 0


def test_a_piped_turn_that_does_not_fit_is_one_line(tmp_path: Path) -> None:
    done = chat(tmp_path, "Count to three\n" + "Count to ten, " * 30 + "\n", "--context", "60")
    assert (done.returncode, done.stdout) == (2, "1 2 3\n")
    assert "the context holds 60" in done.stderr and done.stderr.count("\n") == 1
    assert stepscope("check", "talk.steps", cwd=tmp_path).returncode == 0


@pytest.mark.parametrize("verb", [["chat"], ["run", "--prompt-file", "-"], ["run", "--prompts-file", "-"]])
@pytest.mark.parametrize("errors", ["strict", "surrogateescape"])  # as the locale has it
def test_bytes_that_are_no_text_are_refused(tmp_path: Path, verb: list[str], errors: str) -> None:
    command = [*STEPSCOPE, *verb, "-o", "talk.steps"]
    environment = os.environ | {"PYTHONIOENCODING": f"utf-8:{errors}"}
    options = {"cwd": tmp_path, "env": environment, "capture_output": True, "timeout": 60}
    done = subprocess.run(command, input=b"Count \xff\n", **options)  # type: ignore[call-overload]
    assert done.returncode == 2
    assert b"not UTF-8 text" in done.stderr and done.stderr.count(b"\n") == 1


def test_a_closed_standard_input_is_an_empty_one(tmp_path: Path) -> None:
    command = f"{sys.executable} -m inspector.cli chat -o talk.steps <&-"
    done = subprocess.run(command, shell=True, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "stepscope: talk.steps: 0 turns\n")


def test_at_a_terminal(tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    command = [*STEPSCOPE, "chat", "-o", "talk.steps"]
    process = subprocess.Popen(command, cwd=tmp_path, stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    try:
        seen = until(ours, "> ")
        for said in ("Count to three\n", "Name two days of the week\n", "/quit\n"):
            os.write(ours, said.encode())
            seen += until(ours, "stepscope: " if said == "/quit\n" else "> ")
        assert process.wait(timeout=30) == 0
    finally:
        process.kill()
        process.wait()
        os.close(ours)
    assert "1 2 3\r\n" in seen and "Monday Tuesday\r\n" in seen
    assert "prompt tokens from the cache" in seen


def until(terminal: int, mark: str) -> str:
    """What the terminal shows until the mark stands at its end, or a line begins with it."""
    seen, deadline = "", time.monotonic() + 60
    while not (seen.endswith(mark) or f"\n{mark}" in seen):
        assert time.monotonic() < deadline, seen
        if select.select([terminal], [], [], 1)[0]:
            seen += os.read(terminal, 4096).decode()
    return seen
