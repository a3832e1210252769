"""The terminal that pages are typed into is one: a shell, gdb in it, and the full-screen view."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.command_line import SAMPLE
from tests.docs.terminal import Terminal


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    (tmp_path / ".venv").symlink_to(sys.prefix)
    with Terminal(tmp_path, tmp_path) as opened:
        yield opened


def test_a_shell_remembers_and_tells_how_commands_ended(terminal: Terminal) -> None:
    assert terminal.type("word=hello") == ([], 0)
    assert terminal.type("echo $word; false") == (["hello"], 1)
    assert terminal.type("no-such-command")[1] == 127
    assert terminal.type("cat <<'END'\none\ntwo\nEND") == (["one", "two"], 0)


def test_gdb_is_entered_and_left(terminal: Terminal) -> None:
    terminal.type("gdb -q")
    assert terminal.in_gdb
    assert terminal.type("print 6 * 7") == (["$1 = 42"], 0)
    terminal.leave_gdb()
    assert not terminal.in_gdb
    assert terminal.type("echo out") == (["out"], 0)


def test_the_view_is_left_when_it_has_drawn(terminal: Terminal) -> None:
    assert terminal.type(f"stepscope view {SAMPLE}")[1] == 0
