"""The `tracepoint` back-end: the target collects what a forward's steps need, and gdb reads it when a request is over.

A tracepoint costs no packet a hit. The first hit of each forward hook is a stop: what it reads tells how long arrays
are. There the breakpoint gives way to a tracepoint; hooks for requests and ends stay stops, and at each of them, before
the program exits, and at `stepscope status|off`, the trace buffer is saved, read and turned into the same steps. So the
buffer has to hold one request. Where it fills up, the steps behind are missing and the trace says so (a gap); a
circular one keeps the newest instead.

    (gdb) target remote :2345
    (gdb) stepscope backend tracepoint 64          # a buffer of 64 MB; `circular` behind it
    (gdb) stepscope probe native
    (gdb) stepscope record run.steps
    (gdb) continue

`break-on` and `follow` have to stop at each step: with one of them the `stop` back-end works on.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
import time
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Set

from gdb_scripts import host, layout
from gdb_scripts.backends.collect import Collection, collection
from gdb_scripts.backends.stop import StopBackend
from gdb_scripts.backends.tracefile import Frame, FrameMemory, TraceFile, TraceFileError
from gdb_scripts.hits import HookPlan
from gdb_scripts.layout import Absent
from gdb_scripts.probe import Hook, Probe

DEFAULT_MB = 64
_PAGE = 4096
_SPARE = 1024
"""gdbserver reads up to 2000 bytes past a circular buffer's end: a size just above a page boundary leaves it room."""


class _Traced(NamedTuple):
    """A hook whose hits the target collects."""

    hook: Hook
    reads: HookPlan
    collection: Collection


class TracepointBackend(StopBackend):
    """Tracepoints for the forward hooks, breakpoints for the others.

    must_stop(): why steps have to be looked at one by one, empty where they need not. size_mb, circular: the buffer.
    """

    def __init__(
        self,
        probe: Probe,
        *callbacks: Any,
        must_stop: Callable[[], str],
        size_mb: int = DEFAULT_MB,
        circular: bool = False,
    ) -> None:
        super().__init__(probe, *callbacks)
        self._must_stop, self._size_mb, self._circular = must_stop, size_mb, circular
        self._traced: Dict[int, _Traced] = {}
        self._disabled: List[host.Stop] = []
        self._refused: Set[str] = set()
        self._never: Set[str] = set()
        self._is_tracing = False
        self._pointer = ""
        self._began_ns = 0
        self._end: Optional[host.Stop] = None
        self.frames = 0

    # -- as any back-end ---------------------------------------------------------------------------------------------

    def flush(self) -> None:
        self._read_buffer()
        self._trace()

    def begin_again(self) -> None:
        self._read_buffer()
        self._back_to_stops()
        super().begin_again()

    def ended(self) -> None:
        if self._is_tracing:
            self._is_tracing = False
            self._lost("the program ended before its trace buffer could be read")
        self._back_to_stops()

    def reconsider(self) -> None:
        if self._traced and self._must_stop():
            self._tell("stepscope: back to stops: %s" % self._must_stop())
            self._read_buffer()
            self._back_to_stops()

    def remove(self, at_a_stop: bool = False) -> None:
        self._read_buffer()
        self._back_to_stops()
        if self._end is not None:
            self._breakpoints.append(self._end)
            self._end = None
        super().remove(at_a_stop)

    # -- hits --------------------------------------------------------------------------------------------------------

    def _thread(self) -> Optional[int]:
        """As a frame tells it: gdb's own numbers of threads are not in the buffer."""
        if not self._pointer:
            self._pointer = host.thread_pointer()
        return host.register(self._pointer) if self._pointer else super()._thread()

    def _hit(self, hook: Hook, here: host.Here, stop_: host.Stop) -> bool:
        self._read_buffer()
        try:
            return super()._hit(hook, here, stop_)
        finally:
            if hook.event == "forward" and not self.off_because:
                self._trace_from_here(hook, here)
            self._trace()

    def _trace_from_here(self, hook: Hook, here: host.Here) -> None:
        """Let a tracepoint take over a hook, where one can."""
        why = self._must_stop()
        if why:
            self._refuse(why)
            return
        if hook.section in self._never:
            return
        plans = self._plans.get((hook.section, here.pc))
        breakpoint_ = next((b for b in self._breakpoints if b.only_place == here.pc), None)
        if plans is None or plans.reads is None:
            return
        try:
            if breakpoint_ is None:
                raise Absent(layout.NO_SYMBOL, "%s is in several places" % hook.function)
            self._expect_told_in_c(hook, here.pc, set(plans.symbols))
            memory = host.GdbMemory(plans.symbols).at(here)
            references = {n: plans.registers.get(n, "") for n in host.of_kinds(plans.symbols, "reference")}
            scalars = host.of_kinds(plans.symbols, "int", "uint", "bool", "pointer")
            structs = host.structs_in_registers(plans.symbols, here)
            prefix = "stepscope_%d_" % len(self._traced)
            also = [self._pointer] if self._pointer else []
            wanted = collection(plans.reads.plan, memory, scalars, references, structs, prefix, also)
            number = self._set_tracepoint(here.pc, wanted)
        except Absent as problem:
            self._never.add(hook.section)
            self._refuse(str(problem))
            return
        self._traced[number] = _Traced(hook, plans.reads, wanted)
        breakpoint_.enabled = False
        self._disabled.append(breakpoint_)
        if self._end is None:
            self._end = host.Stop("-qualified -function _exit", lambda _: self._before_exit(), self._error)
        self._tell(
            "stepscope: %s is collected by tracepoint %d from here on, %d MB%s; steps appear when a request is over"
            % (hook.function, number, self._size_mb, ", circular" if self._circular else "")
        )

    def _expect_told_in_c(self, hook: Hook, pc: int, names: Set[str]) -> None:
        """Raises Absent where a hook cannot be put into the expressions of a tracepoint: gdb is not to find it out at a
        stop, since after an error there it lets the program run no further."""
        why = ""
        misread = sorted(host.at_frame_base(pc) & names)
        if "slot" in hook.conditions:
            why = "a forward that feeds several sequences is looked at one by one"
        elif not host.reads_c():
            why = "tracepoints are told in C, which gdb does not read in %s" % hook.function
        elif host.is_inlined_into(pc):
            why = "%s begins with a function that was inlined" % hook.function
        elif misread:
            why = "%s lies at the frame's base, where gdb misreads it" % misread[0]
        if why:
            raise Absent(layout.NO_SYMBOL, why)

    def _set_tracepoint(self, pc: int, wanted: Collection) -> int:
        """Raises Absent where the target or this gdb cannot."""
        if "can not be run" in host.execute("tstatus"):
            raise Absent(layout.NO_SYMBOL, "the target does not know tracepoints")
        for name in wanted.names.values():
            host.execute("tvariable $" + name)
        number = host.tracepoint(pc)
        try:
            has_clock = "$trace_timestamp" in host.execute("info tvariables")
            host.set_actions(number, ["collect $trace_timestamp"] * has_clock + wanted.lines)
            if not self._traced:
                self._size_buffer()
            self._start_tracing()
        except Absent:
            with contextlib.suppress(Absent):
                host.execute("delete %d" % number)
            raise
        return number

    def _size_buffer(self) -> None:
        host.execute("set trace-buffer-size %d" % ((self._size_mb << 20) // _PAGE * _PAGE + _SPARE))
        host.execute("set circular-trace-buffer %s" % ("on" if self._circular else "off"))

    def _refuse(self, why: str) -> None:
        if why not in self._refused:
            self._refused.add(why)
            self._tell("stepscope: backend stop: %s" % why)

    def _before_exit(self) -> bool:
        self._read_buffer()
        return False

    def _back_to_stops(self) -> None:
        """Delete the tracepoints; the breakpoints hit again."""
        for number in self._traced:
            with contextlib.suppress(Absent):
                host.execute("delete %d" % number)
        self._traced.clear()
        for breakpoint_ in self._disabled:
            if breakpoint_.is_valid():
                breakpoint_.enabled = True
        self._disabled.clear()

    # -- the buffer --------------------------------------------------------------------------------------------------

    def _trace(self) -> None:
        if self._traced and not self._is_tracing:
            try:
                self._start_tracing()
            except Absent as problem:
                self._error("tracing does not start again: %s" % problem)
                self._back_to_stops()

    def _start_tracing(self) -> None:
        if not self._is_tracing:
            host.execute("tstart")
            self._is_tracing = True
            self._began_ns = time.monotonic_ns()

    def _read_buffer(self) -> None:
        """What was collected since tracing began becomes steps; tracing is over then."""
        if not self._is_tracing:
            return
        self._is_tracing = False
        handle, path = tempfile.mkstemp(suffix=".tf")
        os.close(handle)
        try:
            with contextlib.suppress(Absent):  # a full buffer has stopped by itself
                host.execute("tstop")
            host.execute('tsave "%s"' % path)
            self._take(TraceFile.read(path))
        except (Absent, TraceFileError, OSError) as problem:
            why = problem.strerror if isinstance(problem, OSError) else problem
            self._lost("the trace buffer could not be read: %s" % why)
            self._error("the trace buffer could not be read: %s" % why)
        finally:
            with contextlib.suppress(OSError):
                os.unlink(path)

    def _take(self, file: TraceFile) -> None:
        numbers = {name: number for number, name in file.variables.items()}
        where = {
            number: {key: numbers[name] for key, name in traced.collection.names.items() if name in numbers}
            for number, traced in self._traced.items()
        }
        stamp = numbers.get("trace_timestamp", 0)
        if file.overwritten:
            self._lost("%d older steps were overwritten in the circular trace buffer" % file.overwritten)
        damaged = 0
        for found in file.frames():
            if not isinstance(found, Frame):
                damaged = found.size
                continue
            if damaged:
                self._lost("%d bytes of the trace buffer are damaged" % damaged)
                damaged = 0
            traced = self._traced.get(found.tracepoint)
            if traced is None:
                continue
            t_ns = self._began_ns
            if file.start_us is not None and stamp in found.variables:
                t_ns += max(found.variables[stamp] - file.start_us, 0) * 1000
            memory = FrameMemory(found, where[found.tracepoint], traced.collection.by_address)
            thread = found.variables.get(where[found.tracepoint].get(self._pointer, 0))
            for hit in traced.reads.hits(memory, t_ns, with_facts=False):
                self._on_hit(hit._replace(thread=thread))
            self.hits += 1
            self.frames += 1
        if damaged and not file.was_full:  # the last frame of a full buffer is cut off
            self._lost("%d bytes of the trace buffer are damaged" % damaged)
        if file.was_full:
            self._lost("the trace buffer of %d MB was full: what came behind is missing" % self._size_mb)
            self._error("the trace buffer was full; stepscope backend tracepoint MB takes a larger one")
