"""The gdb commands: `stepscope probe|record|backend|status|break-on|follow|replay|goto|where|off|batch`."""

from __future__ import annotations

import re
import time
from typing import List, Optional

from gdb_scripts import host, identity
from gdb_scripts import probe as probes
from gdb_scripts.backends.tracepoint import DEFAULT_MB
from gdb_scripts.follow import Baseline
from gdb_scripts.layout import Absent
from gdb_scripts.microscope import HEAD, REFUSED, Microscope, line, show_step, verdict
from gdb_scripts.replay import Replay
from traces.fields import FieldError
from traces.rules import RULES
from traces.writer import TraceError

OLDEST_GDB = (12, 0)

_NO_PROBE = "no probe; type: stepscope probe NAME"

_scope = Microscope()


class _Command(host.Command):
    """A subcommand whose errors are one line and never a traceback."""

    def __init__(self, words: str, complete: Optional[int] = None) -> None:
        if complete is None:
            super().__init__("stepscope " + words, host.COMMAND_CLASS)
        else:
            super().__init__("stepscope " + words, host.COMMAND_CLASS, complete)

    def invoke(self, argument: str, from_tty: bool) -> None:
        try:
            self.do(host.string_to_argv(argument))
            return
        except (probes.ProbeError, TraceError, FieldError, Absent, host.GdbError, host.Error) as error:
            problem = str(error)
        except Exception as error:  # noqa: BLE001 - one line, whatever it is
            problem = "%s: %s" % (type(error).__name__, error)
        _scope.outcome = REFUSED
        raise host.GdbError(problem)

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
            raise host.GdbError("name one trace; type: stepscope record FILE")
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
        sizes = [int(word) for word in words[1:] if re.fullmatch("[0-9]{1,4}", word) and 0 < int(word) < 4096]
        others = [word for word in words[1:] if not word.isdecimal()]
        if words:
            if words[0] not in ("auto", "stop", "tracepoint") or others not in ([], ["circular"]):
                raise host.GdbError("no such back-end; type: stepscope backend auto|stop|tracepoint [MB] [circular]")
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
            host.say(_NO_PROBE)
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
        host.say("rules: %s" % verdict(session, set()))
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
            raise host.GdbError("name one trace; type: stepscope follow TRACE")
        _scope.baseline = Baseline(words[0])
        _scope.reconsider()
        cut = "" if _scope.baseline.complete else ", cut off: no END frame"
        host.say("following %s (%d steps%s)" % (words[0], _scope.baseline.steps, cut))


class ReplayCommand(_Command):
    """Go through a recorded trace without a process: stepscope replay TRACE, then stepscope goto N."""

    def do(self, words: List[str]) -> None:
        if len(words) != 1:
            raise host.GdbError("name one trace; type: stepscope replay TRACE")
        began = time.monotonic()
        _scope.replay = Replay(words[0])
        replay = _scope.replay
        cut = "" if replay.complete else ", cut off: no END frame"
        host.say("%s: %s steps%s" % (words[0], replay.steps or "has no", cut))
        if replay.steps:
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
            raise host.GdbError("no trace is replayed; type: stepscope replay TRACE")
        if not replay.steps:
            raise host.GdbError("the trace that is replayed has no steps")
        if len(words) != 1 or re.fullmatch("[0-9]{1,18}", words[0]) is None or int(words[0]) >= replay.steps:
            raise host.GdbError("no such step; type: stepscope goto N, with N from 0 to %d" % (replay.steps - 1))
        replay.position = int(words[0])
        found = list(replay.records(replay.position, replay.position + 1))
        if not found:
            raise host.GdbError("step %d is damaged" % replay.position)
        index, record = found[0]
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
        if _scope.backend is None and _scope.replay is None:
            host.say(_NO_PROBE)
        if _scope.backend is not None:
            for text in _scope.backend.places():
                host.say(text)
        if _scope.replay is not None:
            for text in _scope.replay.source_lines():
                host.say(text)
        if _scope.session is not None and _scope.session.last is not None:
            host.say(HEAD)
            host.say(line(_scope.session.last.step, _scope.session.last.record))


class OffCommand(_Command):
    """Remove the hooks and end the trace."""

    def do(self, words: List[str]) -> None:
        _scope.off()
        host.say("off")


class BatchCommand(_Command):
    """Run the program unattended, then leave gdb: stepscope batch run|continue.

    gdb's exit code is 1 after a stop by break-on or follow, where the run ended earlier than the one followed, or
    where a signal stopped or ended the program; 2 where a stepscope command was refused (the program is not run then),
    the program cannot be run, or the recording ended before it, as on a full disk; 3 where the probe saw no step, or
    nothing that break-on asks for could be judged; 4 where a field of the probe had no value at any hit; else 0,
    whatever the program's own was.
    """

    def do(self, words: List[str]) -> None:
        if words not in (["run"], ["continue"]):
            raise host.GdbError("say how to go on; type: stepscope batch run, or stepscope batch continue")
        if _scope.outcome != REFUSED:
            try:
                host.run(words[0])
            except host.Error as problem:
                host.say(str(problem))
                _scope.outcome = REFUSED
        host.run("quit %d" % _scope.answer())

    def complete(self, text: str, word: str) -> List[str]:
        return [how for how in ("run", "continue") if how.startswith(word)]


class _Prefix(host.Command):
    """Record, check and compare the steps of a token loop. Start with: stepscope probe NAME."""

    def __init__(self) -> None:
        super().__init__("stepscope", host.COMMAND_CLASS, prefix=True)

    def invoke(self, argument: str, from_tty: bool) -> None:
        """What gdb calls where no subcommand, or none that there is, stands behind."""
        if argument:
            _scope.outcome = REFUSED
            raise host.GdbError("no command stepscope %s; type: help stepscope" % argument.split()[0])
        host.run("help stepscope")


def register() -> None:
    """Make the commands known to gdb."""
    if host.version() < OLDEST_GDB:
        host.say("stepscope: this gdb is %d.%d; %d or newer is needed" % (*host.version(), OLDEST_GDB[0]))
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
    BatchCommand("batch")
    host.on_exit(_scope.program_ended)
    host.on_gdb_exit(_scope.gdb_ends)
