"""The trace that an adapter writes from inside somebody else's generation, which no fault of ours may stop.

What goes wrong here ends the recording with one warning on the logger `stepscope`; the generation goes on. The file is
opened at the first run, so that a script that never generates leaves what stands there alone.
"""

from __future__ import annotations

import functools
import logging
import os
import platform
import time
from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from traces.writer import TraceWriter

_LOG = logging.getLogger("stepscope")
T = TypeVar("T")
MOST_DRAFTS = 64
"""Draft ids that a step holds; of a step with more only their number is recorded"""


class Recording:
    """One trace file. Its clock is time.perf_counter_ns; `t_ns` counts from where the run began."""

    def __init__(self, path: str | os.PathLike[str], flush: str) -> None:
        self.path, self.stopped = os.fspath(path), False
        self._flush, self._said = flush, set[str]()
        self._writer: TraceWriter | None = None
        self._run: dict[str, Any] = {}
        self._declared: set[str] = set()
        self._began_ns = self._next_seq_id = 0

    def run(self, facts: dict[str, Any], began_ns: int) -> None:
        """A run with these facts, from `began_ns` on: the one that is being written, where its facts are the same."""
        if self._writer is not None and facts == self._run:
            return
        self._run, self._began_ns, self._next_seq_id = facts, began_ns, 0
        self._declared = {field[0] for field in facts["fields"]}
        whole = {
            "producer": {"name": "traces.adapters"},
            "clock": "monotonic",
            "resolution_ms": time.get_clock_info("perf_counter").resolution * 1000,
            **facts,
        }
        if self._writer is None:
            self._writer = TraceWriter(self.path, whole, flush=self._flush)
        else:
            self._writer.start_run(whole)

    def request(self, began_ns: int, **facts: Any) -> int:
        """Note a request that came at `began_ns`; its seq_id."""
        seq_id = self._next_seq_id
        self._next_seq_id += 1
        self.note("request", seq_id=seq_id, t_ns=began_ns - self._began_ns, **facts)
        return seq_id

    def step(self, began_ns: int, **values: Any) -> None:
        """One step that began at `began_ns`; fields that the run does not declare are left out."""
        assert self._writer is not None
        known = {name: value for name, value in values.items() if name in self._declared and value is not None}
        self._writer.step(t_ns=began_ns - self._began_ns, **known)

    def note(self, kind: str, **facts: Any) -> None:
        """Something that is not a step; what is None is left out."""
        assert self._writer is not None
        self._writer.note(kind, **{name: value for name, value in facts.items() if value is not None})

    def warn(self, text: str) -> None:
        """One line to the user, once."""
        if text not in self._said:
            self._said.add(text)
            _LOG.warning("stepscope: %s", text)

    def stop(self, error: Exception) -> None:
        """Give up: say why, and leave a trace without an end, as everything that was cut off."""
        if self.stopped:
            return
        self.stopped = True
        self.warn(f"recording stopped, the generation goes on: {type(error).__name__}: {error}")
        if self._writer is not None:
            try:
                self._writer.note("message", text=f"recording stopped: {error}")
                self._writer.leave_unfinished()
            except Exception:  # the disk is full, most likely, and that was the error
                self._writer = None

    def close(self) -> None:
        """End the trace."""
        if self.stopped:
            return
        try:
            if self._writer is None:
                self.warn(f"nothing was generated: {self.path} is not written")
            else:
                self._writer.close()
        except Exception as error:
            self.stop(error)


class HasRecording(Protocol):
    """What `harmless` methods belong to."""

    recording: Recording


def harmless(method: Callable[..., T]) -> Callable[..., T | None]:
    """A method of an adapter that runs inside the user's generation: an error in it ends the recording, not that."""

    @functools.wraps(method)
    def guarded(self: HasRecording, *args: Any) -> T | None:
        if self.recording.stopped:
            return None
        try:
            return method(self, *args)
        except Exception as error:
            self.recording.stop(error)
            return None

    return guarded


def host_facts(threads: int | None) -> dict[str, Any]:
    """`host` of a run."""
    facts: dict[str, Any] = {"machine": platform.machine()}
    if threads:
        facts["threads"] = threads
    return facts
