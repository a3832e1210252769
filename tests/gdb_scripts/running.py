"""Real gdb, run unattended: no start-up files, no terminal, a clean environment."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from engine.model import DEMO_MODEL, load_model
from tests.engine.native.conftest import spelled
from tests.programs import need
from tests.reading import steps

SCRIPTS = Path(__file__).parents[2] / "gdb_scripts" / "stepscope.py"
LETTERS = "List the first six letters of the alphabet"


@cache
def prompt(text: str = LETTERS) -> tuple[int, ...]:
    """The ids that the embedded model reads for a request."""
    model = load_model(DEMO_MODEL)
    assert model.tokenizer is not None
    return tuple(model.tokenizer.encode(model.tokenizer.chat_prompt(text)))


def letters(*requests: str) -> list[str]:
    """The C engine's arguments for requests to the embedded model."""
    words = [str(DEMO_MODEL)]
    for text in requests or (LETTERS,):
        words += ["--ids", spelled(prompt(text))]
    return words


COMPARED = ("phase", "token_id", "n_tokens", "seq_before", "seq_len", "cache_len", "finish")


def recorded(path: Path) -> list[dict[str, Any]]:
    """What two recordings of one run must agree in, of every step of a whole trace."""
    return steps(path, *COMPARED)


def gdb(
    commands: Sequence[str],
    program: Path | None = None,
    arguments: Sequence[str] = (),
    timeout: float = 120,
    debugger: str = "gdb",
) -> subprocess.CompletedProcess[str]:
    """One batch run: the commands in order, with the scripts sourced first."""
    need(debugger)
    words = [debugger, "-batch", "-nx", "-ex", f"source {SCRIPTS}"]
    for command in commands:
        words += ["-ex", command]
    if program is not None:
        words += ["--args", str(program), *arguments]
    environment = {"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8", "HOME": "/nonexistent"}
    done = subprocess.run(
        words, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=timeout, env=environment
    )
    assert "Traceback" not in done.stderr + done.stdout, done.stderr
    return done
