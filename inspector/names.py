"""Names for new trace files: never one that exists."""

from __future__ import annotations

import os
import time


def new_trace(stem: str) -> str:
    """A path in the current folder that does not exist yet: STEM.steps, else STEM-2.steps and so on."""
    stem = stem or "trace"
    path, n = f"{stem}.steps", 2
    while os.path.lexists(path):
        path, n = f"{stem}-{n}.steps", n + 1
    return path


def named(word: str | None) -> str | None:
    """The word behind -o, where a trace is to be written. Raises UsageError for standard output."""
    if word == "-":
        from inspector.cli import UsageError

        raise UsageError("a trace is not written to standard output: name a file, such as -o a.steps")
    return word


def new_run() -> str:
    """A new trace named after the moment: run-20260131-142501.steps."""
    return new_trace(time.strftime("run-%Y%m%d-%H%M%S"))
