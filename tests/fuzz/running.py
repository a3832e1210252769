"""Running the command line on hostile input, and what must hold of it whatever the input is.

A verb runs in this process, with a limit on the memory it may map and an alarm against hanging. What it may do: end
with 0, 1, 2 or 3; on 2 say one line that names the input; print nothing that a terminal would obey.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import resource
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from hypothesis import HealthCheck, settings

from inspector import cli

SECONDS = float(os.environ.get("FUZZ_SECONDS", "0"))
"""How long each property looks for a counterexample, above one round; `make fuzz` gives it longer."""
FUZZ = settings(suppress_health_check=list(HealthCheck))
ROOM = 1 << 30
"""Bytes that one command may map beyond what the process has already"""
PATIENCE_S = 60
# everything but tab and line feed that moves a cursor, changes a colour or turns a line around
OBEYED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")


class Outcome(NamedTuple):
    """How a command ended."""

    code: int
    out: bytes
    err: str


class HungError(BaseException):
    """The command did not end in time; no BaseException of the command's own is meant."""


def run(*words: object) -> Outcome:
    """`stepscope WORDS`, here. What it raises, it raises: a traceback is a fault."""
    out, err = io.BytesIO(), io.BytesIO()
    kept = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = io.TextIOWrapper(out, "utf-8"), io.TextIOWrapper(err, "utf-8")
    try:
        with limited():
            code = cli.main([str(word) for word in words])
    except SystemExit as stopped:
        code = int(stopped.code or 0)
    finally:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
            stream.detach()
        sys.stdout, sys.stderr = kept
    return Outcome(code, out.getvalue(), err.getvalue().decode())


@contextlib.contextmanager
def limited() -> Iterator[None]:
    """At most ROOM more memory, at most PATIENCE_S."""
    old = resource.getrlimit(resource.RLIMIT_AS)
    mapped = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    before = signal.signal(signal.SIGALRM, _hung)
    signal.setitimer(signal.ITIMER_REAL, PATIENCE_S)
    resource.setrlimit(resource.RLIMIT_AS, (mapped + ROOM, old[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, old)
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _hung(*_: object) -> None:
    raise HungError(f"no end after {PATIENCE_S} s")


def behaves(outcome: Outcome, *names: str, printed: bool = True) -> None:
    """What holds after any input. names: the line on stderr must name one of them; printed: stdout is for a
    terminal."""
    code, out, err = outcome
    assert code in (0, 1, 2, 3), outcome
    assert not OBEYED.search(err), repr(err)
    if printed:
        text = out.decode()
        assert not OBEYED.search(text), repr(text)
    assert "not enough memory" not in err, "an allocation that the input asked for"
    if code == 2:
        lines = err.splitlines()
        assert len(lines) == 1, err
        assert lines[0].startswith("stepscope: "), err
        assert any(name in lines[0] for name in names), err
        assert len(lines[0]) < 1100, err


def explore(property_: Callable[[], None]) -> None:
    """A hypothesis property on new examples, round after round, until its time is over; at least one round."""
    end = time.monotonic() + SECONDS
    property_()
    while time.monotonic() < end:
        property_()
