"""A terminal with a shell in it, and in the shell perhaps gdb: what a reader of the documentation types into.

What is shown is compared with what comes by these rules, which CONTRIBUTING.md states:
- `…` stands for anything within a line, and alone on a line for any number of lines;
- a number with a decimal point stands for any number: most are times of the machine that the page was written on;
- runs of blanks are one blank, and blank lines do not count;
- where nothing is shown, nothing is compared, but the command has to succeed.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

import pexpect

_SHELL = re.compile(r"(?:\A|[\r\n]+)?⟦(\d+)⟧ \Z")
_GDB = re.compile(r"(?:\A|[\r\n]+)\(gdb\) \Z")
_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_=>])")
_FULL_SCREEN, _FULL_SCREEN_LEFT = re.compile(r"\x1b\[\?1049h"), re.compile(r"\x1b\[\?1049l")
_OPEN = re.compile(r"(…|(?<![\w.])\d[\d,]*\.\d+(?![.\d]))")
"""What stands for something else than itself"""
SECONDS = 120


class Terminal:
    """A shell in `folder`; the environment is this one's, without colours and with `home` as the home folder."""

    def __init__(self, folder: Path, home: Path) -> None:
        environment = {
            "PATH": f"{folder}/.venv/bin:{os.environ['PATH']}", "HOME": str(home), "PYTHONPATH": str(folder),
            "TERM": "dumb", "NO_COLOR": "1", "LC_ALL": "C.UTF-8", "PS1": "⟦$?⟧ ", "PS2": "", "PAGER": "cat",
            "VIRTUAL_ENV_DISABLE_PROMPT": "1",
        }  # fmt: skip
        words = ["--norc", "--noprofile", "--noediting"]
        self._child = pexpect.spawn(
            "bash", words, cwd=str(folder), env=environment, encoding="utf-8", codec_errors="replace",
            echo=False, dimensions=(50, 160), timeout=SECONDS,
        )  # fmt: skip
        self._child.expect(_SHELL)
        self.in_gdb = False
        """Whether the last prompt was gdb's"""

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._child.close(force=True)

    def type(self, text: str) -> tuple[list[str], int]:
        """Type a command and wait for the next prompt: the lines that it printed, and in the shell its exit code."""
        was_in_gdb = self.in_gdb
        try:
            said = self._send(text)
        except pexpect.TIMEOUT:
            raise AssertionError(f"no prompt for {SECONDS} s behind: {text}\n{self._child.before}") from None
        code = 0 if self.in_gdb else int(self._child.match[1])
        if self.in_gdb and not was_in_gdb:
            for setting in ("editing off", "confirm off", "pagination off", "width 0", "debuginfod enabled off"):
                self._send(f"set {setting}")
        return [line.rstrip() for line in _ESCAPES.sub("", said).splitlines() if line.strip()], code

    def leave_gdb(self) -> None:
        """Back to the shell; a program that still runs is ended."""
        self.type("quit")

    def _send(self, text: str) -> str:
        self._child.sendline(text)
        found = self._child.expect([_SHELL, _GDB, _FULL_SCREEN])
        if found == 2:
            while self._child.expect([_FULL_SCREEN_LEFT, pexpect.TIMEOUT], timeout=2) == 1:
                self._child.send("q")
            found = self._child.expect([_SHELL, _GDB])
        self.in_gdb = found == 1
        return str(self._child.before)


def differs(shown: Sequence[str], said: Sequence[str]) -> str:
    """What of the shown lines did not come; empty where all did."""
    wanted = [" ".join(line.split()) for line in shown if line.strip()]
    lines = "\n".join(" ".join(line.split()) for line in said)
    if re.fullmatch("".join(_pattern(line) for line in wanted), lines + "\n"):
        return ""
    return "shown:\n  " + "\n  ".join(wanted) + "\nprinted:\n  " + lines.replace("\n", "\n  ")


def _pattern(line: str) -> str:
    if line == "…":
        return r"(?:.*\n)*?"
    parts = _OPEN.split(line)  # every second is one that is open
    parts[::2] = map(re.escape, parts[::2])
    parts[1::2] = [".*" if part == "…" else r"\d[\d,]*(?:\.\d+)?" for part in parts[1::2]]
    return "".join(parts) + r"\n"
