"""The gdb commands: `stepscope probe|record|backend|status|break-on|follow|replay|goto|where|off`."""

from __future__ import annotations

import os
import time
from typing import Any, Dict, List, Optional, Set

from gdb_scripts import frozen, host, identity
from gdb_scripts import probe as probes
from gdb_scripts.backends.frozen import FrozenBackend
from gdb_scripts.backends.stop import StopBackend
from gdb_scripts.backends.tracepoint import DEFAULT_MB, TracepointBackend
from gdb_scripts.follow import Baseline
from gdb_scripts.hits import Hit
from gdb_scripts.layout import Absent
from gdb_scripts.replay import Replay
from gdb_scripts.session import Closed, Session
from traces.fields import FINISH_NAMES, PHASE_NAMES, FieldError
from traces.rules import RULES
from traces.writer import TraceError

OLDEST_GDB = (12, 0)


class Microscope:
    """What the commands work on: a probe, perhaps a recording, perhaps a replay."""

    def __init__(self) -> None:
        self.probe: Optional[probes.Probe] = None
        self.session: Optional[Session] = None
        self.backend: Optional[StopBackend] = None
        self.break_on: Set[str] = set()
        self.baseline: Optional[Baseline] = None
        self.replay: Optional[Replay] = None
        self.backend_kind, self.buffer_mb, self.is_circular = "stop", DEFAULT_MB, False
        self._layout: Optional[frozen.Layout] = None
        self._described: Optional[Session] = None
        self._pid = 0
        self._image: Any = None
        self._thread = 0
        self._told_threads = False

    def use(self, name: str) -> None:
        """Choose a probe and set its hooks."""
        layout = frozen.load(name) if frozen.is_layout(name) else None
        chosen = probes.load(name) if layout is None else layout.probe
        self.off()
        self.probe, self._layout = chosen, layout
        self.session = Session(self.probe, None, _run_facts())
        self._start()

    def record(self, path: str) -> None:
        """From the next step on, write a trace."""
        if self.probe is None:
            raise host.GdbError("choose a probe first: stepscope probe NAME (stepscope probe list shows them)")
        _refuse_what_is_no_trace(path)
        if self.backend is not None:
            self.backend.begin_again()
        if self.session is not None:
            self.session.close()
        self.session = Session(self.probe, path, _run_facts())
        if self.backend is None:
            self._start()
        host.say("recording to %s" % path)

    def off(self) -> None:
        """Remove every hook and end the trace."""
        backend, self.backend = self.backend, None
        if backend is not None:
            backend.remove()  # what it still holds belongs to the session
        session, self.session = self.session, None
        if session is not None:
            session.close()
            _tell_problems(session)

    def program_ended(self, code: Optional[int]) -> None:
        """The program exited by itself, or was ended by a signal (no code)."""
        if self.backend is not None:
            self.backend.ended()
        if self.session is not None:
            self._look_at(self.session.program_ended(None if code == 0 else "abort"))
            _tell_problems(self.session)
            if not self.session.steps:
                host.say("stepscope: the program ended and no hook of probe %s was hit" % self.session.probe.name)
        if self.baseline is not None:
            self.baseline.begin_again()
        self._pid = self._thread = 0  # what comes next is another process, and this one's end is told

    def gdb_ends(self) -> None:
        """The user leaves gdb; what is still running is left or killed."""
        if self.backend is not None:
            self.backend.flush()
        if self.session is not None:
            self.session.program_ended("abort" if host.pid() else None)
            self.session.close()

    def _start(self) -> None:
        assert self.probe is not None
        callbacks = (self._now_ns, self._hit, host.say, self._gap)
        if self._layout is not None:
            self.backend = FrozenBackend(self._layout, *callbacks)
        elif self.backend_kind == "stop":
            self.backend = StopBackend(self.probe, *callbacks)
        else:
            self.backend = TracepointBackend(
                self.probe,
                *callbacks,
                must_stop=self._must_stop,
                size_mb=self.buffer_mb,
                circular=self.is_circular,
            )
        try:
            self.backend.install()
        except Absent as problem:
            raise host.GdbError("probe %s: %s" % (self.probe.name, problem)) from None
        pending = self.backend.pending()
        if pending:
            host.say("stepscope: waiting for %s to be loaded" % ", ".join(pending))

    def choose(self, kind: str, buffer_mb: int, is_circular: bool) -> None:
        """Another back-end, from here on."""
        self.backend_kind, self.buffer_mb, self.is_circular = kind, buffer_mb, is_circular
        if self.backend is not None:
            self.backend.remove()
            self._start()

    def _must_stop(self) -> str:
        """Why each step has to be looked at where it happens; empty where it need not be."""
        if self.break_on:
            return "break-on stops at the very step"
        if self.baseline is not None:
            return "follow stops at the first step that differs"
        if self.backend_kind == "auto" and (self.session is None or self.session.path is None):
            return "nothing is recorded"
        return ""

    def reconsider(self) -> None:
        """What is asked of the steps has changed."""
        if self.backend is not None:
            self.backend.reconsider()

    def _now_ns(self) -> int:
        return self.session.now_ns() if self.session is not None else 0

    def _gap(self, why: str) -> None:
        if self.session is not None:
            self.session.gap(why)

    def _hit(self, hit: Hit) -> bool:
        session = self.session
        if session is None:
            return False
        pid = host.pid()
        if self._pid and (pid != self._pid or (self._image is not None and not self._image.is_valid())):
            session.program_ended("abort")  # `run` again, a fork that was followed, or exec: another program
            self._image = None
        self._pid = pid
        self._image = self._image or host.image()
        if "seq_id" not in hit.values and not hit.hook.conditions:
            self._expect_one_thread(session)
        if self._described is not session and hit.hook.event == "forward":
            self._describe(session)
        try:
            return self._look_at(session.hit(hit))
        finally:
            _tell_problems(session)

    def _describe(self, session: Session) -> None:
        """Say what is being recorded: only at a hit is it sure to be loaded."""
        assert self.probe is not None
        file, source = identity.hook_of(self.probe, self._layout)
        session.about(identity.engine_of(file, host.build_ids().get(file, ""), self._layout), source)
        self._described = session

    def _expect_one_thread(self, session: Session) -> None:
        """Without a seq_id, steps of several threads cannot be told apart: nothing is concluded across a switch."""
        thread = host.thread()
        if self._thread and thread != self._thread:
            if not self._told_threads:
                host.say("stepscope: several threads step and the probe reads no seq_id: rules across them are unknown")
                self._told_threads = True
            session.gap("another thread stepped")
        self._thread = thread

    def _look_at(self, closed: List[Closed]) -> bool:
        """Whether to stop the program because of the steps that were closed; says why."""
        stop = False
        for step in closed:
            for failure in step.failures:
                if failure.code in self.break_on:
                    host.say("stepscope: %s" % failure.message)
                    host.say("  %s" % RULES[failure.code].statement)
                    stop = True
            if self.baseline is not None:
                difference = self.baseline.compare(step)
                if difference is not None:
                    host.say("stepscope: %s" % difference)
                    self.baseline = None
                    stop = True
            show_step(step.step, step.record)
        return stop


def show_step(index: int, record: Dict[str, Any]) -> None:
    """`$step $token_id $seq_len $cache_len` for the user's own conditions and printing."""
    rows = record["cache_len"]
    host.set_variable("step", index)
    host.set_variable("token_id", record["token_id"])
    host.set_variable("seq_len", record["seq_len"])
    host.set_variable("cache_len", rows[0] if isinstance(rows, tuple) else rows)


def line(index: int, record: Dict[str, Any]) -> str:
    """The film's line of one step."""
    rows = record["cache_len"]
    if isinstance(rows, tuple):
        seen = sorted({r for r in rows if r >= 0})
        cache = "-" if not seen else str(seen[0]) if len(seen) == 1 else "%d-%d!" % (seen[0], seen[-1])
    else:
        cache = _count(rows)
    token = record["token_id"]
    words = [
        "%-5d" % index,
        "%-8s" % PHASE_NAMES.get(record["phase"], "?"),
        "%-8s" % ("-" if token == -(2**63) else token),
        "%-10s" % _count(record["seq_before"]),
        "%-7s" % _count(record["seq_len"]),
        "%-10s" % cache,
    ]
    if record["n_tokens"] == 0 and record["phase"] != 1:
        words.append("not fed")
    if record["finish"]:
        words.append("finish=%s" % FINISH_NAMES.get(record["finish"], record["finish"]))
    return " ".join(words).rstrip()


HEAD = "step  phase    token    seq_before seq_len cache_len"


def _count(value: int) -> str:
    return "-" if value < 0 else str(value)


def _refuse_what_is_no_trace(path: str) -> None:
    """Told when the command is typed, not when the first step comes."""
    target = path if os.path.exists(path) else os.path.dirname(os.path.abspath(path))
    if os.path.isdir(path) or not os.access(target, os.W_OK):
        raise host.GdbError("%s: cannot write a trace here" % path)
    if os.path.exists(path) and os.path.getsize(path):
        with open(path, "rb") as file:
            if file.read(4) != b"STEP":
                raise host.GdbError("%s: exists and is not a step trace; choose another name" % path)


def _run_facts() -> Dict[str, Any]:
    return {"host": {"machine": host.machine()}, "engine": {"binary": os.path.basename(host.program())}}


def _tell_problems(session: Session) -> None:
    while session.problems:
        host.say("stepscope: %s; recording has ended, the program goes on" % session.problems.pop(0))


_scope = Microscope()


class _Command(host.Command):  # type: ignore[misc]
    """A subcommand whose errors are one line and never a traceback."""

    def __init__(self, words: str, complete: Optional[int] = None) -> None:
        if complete is None:
            super().__init__("stepscope " + words, host.COMMAND_CLASS)
        else:
            super().__init__("stepscope " + words, host.COMMAND_CLASS, complete)

    def invoke(self, argument: str, from_tty: bool) -> None:
        try:
            self.do(host.string_to_argv(argument))
        except (probes.ProbeError, TraceError, FieldError, Absent) as error:
            raise host.GdbError(str(error)) from None
        except (host.GdbError, host.Error):
            raise
        except Exception as error:  # noqa: BLE001 - one line, whatever it is
            raise host.GdbError("%s: %s" % (type(error).__name__, error)) from None

    def do(self, words: List[str]) -> None:
        """The command's work."""
        raise NotImplementedError


class ProbeCommand(_Command):
    """Choose what to look at: stepscope probe NAME, or the path of a spec or frozen layout; stepscope probe list."""

    def do(self, words: List[str]) -> None:
        if words in ([], ["list"]):
            for name in probes.shipped():
                host.say("%-12s %s" % (name, probes.load(name).engine))
            return
        _scope.use(words[0])
        assert _scope.probe is not None
        host.say("probe %s: %s" % (_scope.probe.name, ", ".join(h.function for h in _scope.probe.hooks)))

    def complete(self, text: str, word: str) -> List[str]:
        return [name for name in ["list", *probes.shipped()] if name.startswith(word)]


class RecordCommand(_Command):
    """Write every step to a trace: stepscope record FILE. Look at it with `stepscope view FILE --follow` outside."""

    def do(self, words: List[str]) -> None:
        if len(words) != 1:
            raise host.GdbError("stepscope record FILE")
        _scope.record(words[0])


class BackendCommand(_Command):
    """How hooks are looked at: stepscope backend auto|stop|tracepoint [MB] [circular].

    stop        a breakpoint: each step is read, judged and written where it happens. The default.
    tracepoint  gdbserver collects the forwards without a stop, in a buffer of MB megabytes (64), which is read when a
                request is over, before the program exits, and at `stepscope status` or `off`. A buffer that is full
                loses the steps behind; a circular one the oldest. The trace says what is missing.
    auto        tracepoint where the target can and steps are only to be recorded, else stop; it says which and why.
    """

    def do(self, words: List[str]) -> None:
        sizes = [int(word) for word in words[1:] if word.isdecimal() and 0 < int(word) < 4096]
        others = [word for word in words[1:] if not word.isdecimal()]
        if words:
            if words[0] not in ("auto", "stop", "tracepoint") or others not in ([], ["circular"]):
                raise host.GdbError("stepscope backend auto|stop|tracepoint [MB] [circular]")
            if len(sizes) + len(others) != len(words) - 1 or len(sizes) > 1:
                raise host.GdbError("the buffer takes 1 to 4095 MB")
            _scope.choose(words[0], sizes[0] if sizes else DEFAULT_MB, bool(others))
        host.say("backend %s" % _scope.backend_kind)

    def complete(self, text: str, word: str) -> List[str]:
        return [kind for kind in ("auto", "stop", "tracepoint", "circular") if kind.startswith(word)]


class StatusCommand(_Command):
    """What was seen: steps, the last one, what a hit costs."""

    def do(self, words: List[str]) -> None:
        if _scope.backend is not None:
            _scope.backend.flush()
        session, backend = _scope.session, _scope.backend
        if session is None or backend is None:
            host.say("no probe; stepscope probe NAME")
            return
        where = session.path or "not recorded (stepscope record FILE)"
        if session.has_stopped_recording:
            where = "no longer recorded; %s holds what came before" % session.path
        host.say("probe %s, %d steps, %s" % (session.probe.name, session.steps, where))
        if backend.hits:
            each = backend.spent_s / max(backend.timed_hits, 1) * 1000
            host.say("%d hits, %.2f ms each, budget %.0f ms" % (backend.hits, each, session.probe.budget_ms))
        if session.last is not None:
            host.say(HEAD)
            host.say(line(session.last.step, session.last.record))
        broken = [c for c, r in session.report.results.items() if r.failed]
        host.say("broken rules: %s" % (", ".join(broken) or "none"))
        for place in backend.pending():
            host.say("waiting for %s" % place)


class BreakOnCommand(_Command):
    """Stop the program at the step that breaks a rule: stepscope break-on KV01 KV02, or any, or none."""

    def do(self, words: List[str]) -> None:
        chosen = {w.upper() for w in words} or {"ANY"}
        if chosen == {"ANY"}:
            _scope.break_on = set(RULES)
        elif chosen == {"NONE"}:
            _scope.break_on = set()
        else:
            unknown = sorted(chosen - set(RULES))
            if unknown:
                raise host.GdbError("no rule %s; the rules are %s" % (unknown[0], " ".join(RULES)))
            _scope.break_on = chosen
        _scope.reconsider()
        host.say("break on %s" % (" ".join(sorted(_scope.break_on)) or "nothing"))

    def complete(self, text: str, word: str) -> List[str]:
        return [code for code in ["any", "none", *RULES] if code.lower().startswith(word.lower())]


class FollowCommand(_Command):
    """Compare with a recorded good run, step by step, and stop at the first difference: stepscope follow TRACE."""

    def do(self, words: List[str]) -> None:
        if len(words) != 1:
            raise host.GdbError("stepscope follow TRACE")
        _scope.baseline = Baseline(words[0])
        _scope.reconsider()
        host.say("following %s (%d steps)" % (words[0], _scope.baseline.steps))


class ReplayCommand(_Command):
    """Go through a recorded trace without a process: stepscope replay TRACE, then stepscope goto N."""

    def do(self, words: List[str]) -> None:
        if len(words) != 1:
            raise host.GdbError("stepscope replay TRACE")
        began = time.monotonic()
        _scope.replay = Replay(words[0])
        replay = _scope.replay
        host.say("%s: %d steps%s" % (words[0], replay.steps, "" if replay.complete else ", cut off: no END frame"))
        host.say(HEAD)
        for index, record in replay.records(0, 40):
            host.say(line(index, record))
        if replay.steps > 40:
            host.say("... %d more; stepscope goto N (read in %.1f s)" % (replay.steps - 40, time.monotonic() - began))
        for failure in replay.failures():
            host.say(failure.message)


class GotoCommand(_Command):
    """Stand at a step of the replayed trace: stepscope goto N. Sets $step $token_id $seq_len $cache_len."""

    def do(self, words: List[str]) -> None:
        replay = _scope.replay
        if replay is None:
            raise host.GdbError("no trace is replayed; stepscope replay TRACE")
        if len(words) != 1 or not words[0].isdecimal() or int(words[0]) >= replay.steps:
            raise host.GdbError("stepscope goto N, with N from 0 to %d" % (replay.steps - 1))
        replay.position = int(words[0])
        index, record = next(replay.records(replay.position, replay.position + 1))
        host.say(HEAD)
        host.say(line(index, record))
        show_step(index, record)
        for failure in replay.failures():
            if failure.step == index:
                host.say(failure.message)
        for text in replay.source_lines():
            host.say(text)


class WhereCommand(_Command):
    """The source line of the hook, and where the last step (or the replayed one) stands."""

    def do(self, words: List[str]) -> None:
        if _scope.probe is not None:
            for hook in _scope.probe.hooks:
                for place in host.location(hook.function, hook.file):
                    for pc, file, number in host.where(place):
                        host.say("%-8s %s at %s:%d (0x%x)" % (hook.event, hook.function, file, number, pc))
        if _scope.replay is not None:
            for text in _scope.replay.source_lines():
                host.say(text)
        if _scope.session is not None and _scope.session.last is not None:
            host.say(line(_scope.session.last.step, _scope.session.last.record))


class OffCommand(_Command):
    """Remove the hooks and end the trace."""

    def do(self, words: List[str]) -> None:
        _scope.off()
        host.say("off")


class _Prefix(host.Command):  # type: ignore[misc]
    """Record, check and compare the steps of a token loop. Start with: stepscope probe NAME."""

    def __init__(self) -> None:
        super().__init__("stepscope", host.COMMAND_CLASS, prefix=True)


def register() -> None:
    """Make the commands known to gdb."""
    if host.version() < OLDEST_GDB:
        host.say("stepscope: this gdb is %d.%d; 12 or newer is needed" % host.version())
        return
    identity.take_given()
    _Prefix()
    ProbeCommand("probe")
    RecordCommand("record", host.COMPLETE_FILENAME)
    BackendCommand("backend")
    StatusCommand("status")
    BreakOnCommand("break-on")
    FollowCommand("follow", host.COMPLETE_FILENAME)
    ReplayCommand("replay", host.COMPLETE_FILENAME)
    GotoCommand("goto")
    WhereCommand("where")
    OffCommand("off")
    host.on_exit(_scope.program_ended)
    host.on_gdb_exit(_scope.gdb_ends)
