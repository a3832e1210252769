"""`stepscope` as the tests type it: in a process of its own, or here."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from inspector import cli

ROOT = Path(__file__).parents[1]
STEPSCOPE = (sys.executable, "-m", "inspector.cli")
SAMPLE = ROOT / "traces" / "samples" / "restored-prefix.steps"
"""The trace that ships with stepscope: 14 steps, which break KV01 from step 8 on"""


def stepscope(*words: object, cwd: Path = ROOT, **options: Any) -> subprocess.CompletedProcess[str]:
    """A process of its own, run to its end; `options` are those of subprocess.run."""
    command = [*STEPSCOPE, *map(str, words)]
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=120, **options)
    assert "Traceback" not in done.stderr
    return done


def fails(capsys: pytest.CaptureFixture[str], *words: object) -> str:
    """The one line that the command, run here, leaves on stderr. It prints nothing else and ends with 2."""
    try:
        code = cli.main([str(word) for word in words])
    except SystemExit as stopped:  # argparse leaves so
        code = int(stopped.code or 0)
    out, err = capsys.readouterr()
    assert (code, out) == (2, "")
    (line,) = err.splitlines()
    assert line.startswith("stepscope: ")
    return line
