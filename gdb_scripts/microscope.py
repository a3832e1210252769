"""What the gdb commands work on: a probe, the recording that its hits feed, and what is asked of each step."""

from __future__ import annotations

import errno
import os
from typing import Any, Dict, List, Optional, Set

from gdb_scripts import frozen, host, identity
from gdb_scripts import probe as probes
from gdb_scripts.backends.frozen import FrozenBackend
from gdb_scripts.backends.stop import StopBackend
from gdb_scripts.backends.tracepoint import DEFAULT_MB, TracepointBackend
from gdb_scripts.follow import Baseline
from gdb_scripts.hits import Hit, Values
from gdb_scripts.layout import Absent
from gdb_scripts.replay import Replay
from gdb_scripts.session import Closed, Session
from traces.check import RuleResult
from traces.context import PREFILL
from traces.fields import ABSENT_I64, FIELDS, FINISH_NAMES, PHASE_NAMES
from traces.frames import MAGIC
from traces.rules import RULES

FINE, STOPPED, REFUSED, UNDECIDED, UNREAD = 0, 1, 2, 3, 4
"""What a batch ends with: nothing found, a break-on or follow stop, something asked for that could not be done, nothing
seen that could be judged, a field of the probe that never had a value."""


class Microscope:
    """What the commands work on: a probe, perhaps a recording, perhaps a replay."""

    def __init__(self) -> None:
        self.probe: Optional[probes.Probe] = None
        self.session: Optional[Session] = None
        self.backend: Optional[StopBackend] = None
        self.break_on: Set[str] = set()
        self.baseline: Optional[Baseline] = None
        self.replay: Optional[Replay] = None
        self.outcome = FINE
        self._stopped = False
        self.backend_kind, self.buffer_mb, self.is_circular = "stop", DEFAULT_MB, False
        self._layout: Optional[frozen.Layout] = None
        self._described: Optional[Session] = None
        self._pid = 0
        self._image: Any = None
        self._read: Set[str] = set()
        self._met: Set[str] = set()

    def use(self, name: str) -> None:
        """Choose a probe and set its hooks."""
        layout = frozen.load(name) if frozen.is_layout(name) else None
        chosen = probes.load(name) if layout is None else layout.probe
        self.off()
        self.probe, self._layout = chosen, layout
        self._read.clear()
        self._met.clear()
        self.session = Session(self.probe, None, _run_facts())
        self._start()

    def record(self, path: str) -> None:
        """From the next step on, write a trace."""
        if self.probe is None:
            raise host.GdbError("choose a probe first; type: stepscope probe NAME (stepscope probe list shows them)")
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
            self._tell_problems(session)
        if self.baseline is not None:
            self.baseline.begin_again()

    def program_ended(self, code: Optional[int]) -> None:
        """The program exited by itself, or was ended by a signal (no code); or gdb let go of it, as at `detach`."""
        if code is None and host.was_killed():
            self.outcome = max(self.outcome, STOPPED)
        word = "ended" if code is not None or host.was_killed() else "was left"
        if self.backend is not None:
            self.backend.ended()
        if self.session is not None:
            self._process_over(self.session, is_whole=code == 0, word=word)
            if not self.session.steps:
                host.say("stepscope: the program %s and probe %s saw no step" % (word, self.session.probe.name))
        self._pid = 0  # what comes next is another process, and this one's end is told

    def gdb_ends(self) -> None:
        """The user leaves gdb; what is still running is left or killed."""
        if self.backend is not None:
            self.backend.flush()
        session, self.session = self.session, None
        if session is not None:
            if host.pid():
                self._process_over(session, is_whole=False, word="was left")
            session.close()
            self._tell_problems(session)

    def answer(self) -> int:
        """End it, and what a batch ends with: what was never seen is no pass, nor a program that did not come to its
        end."""
        session, is_cut_short = self.session, host.pid() != 0 and not self._stopped
        self.gdb_ends()
        if is_cut_short and self.outcome == FINE:
            host.say("stepscope: the program was stopped before its end, by no rule: a signal, or a breakpoint")
            self.outcome = STOPPED
        if self.outcome == FINE and session is not None:
            judged = judging(session, self.break_on)
            if not session.steps or (self.break_on and not any(result.passed for result in judged.values())):
                return UNDECIDED
            unread = self._unread(session)
            if unread:
                host.say("stepscope: %s: had no value at any hit: %s" % (session.probe.path, ", ".join(unread)))
                return UNREAD
        return self.outcome

    def _unread(self, session: Session) -> List[str]:
        """Fields that the probe names and no hit had, or only as garbage: told when they were met, which a batch's
        reader may not see."""
        told = {name.partition(".")[2] for _, name in self.backend.told_missing} if self.backend is not None else set()
        named = {name for hook in session.probe.hooks for name in (*hook.reads, *hook.after)} | set(session.probe.facts)
        return sorted(((told | self._met) - self._read - set(session.facts)) | (session.never_sound & named))

    def _process_over(self, session: Session, is_whole: bool, word: str = "ended") -> None:
        """The end of one process; what is asked of the steps is answered for it, unless it stands where they stopped
        it."""
        stands = self._stopped and word != "ended"
        closed = session.program_ended(None if is_whole else "abort")
        if not stands:
            self._look_at(closed)
        self._tell_problems(session)
        is_helper = session.steps > 0 and self.baseline is not None and not self.baseline.has_begun
        if not stands and not is_helper and (self.break_on or self.baseline is not None):
            end = "after %d steps" % session.steps
            if self.baseline is not None:
                sees_ends = bool(session.probe.hooks_for("finish"))
                is_same, end = self.baseline.at_the_end(is_whole, sees_ends)
                self.outcome = self.outcome if is_same else max(self.outcome, STOPPED)
            host.say("stepscope: the program %s %s; rules: %s" % (word, end, verdict(session, self.break_on)))
        if self.baseline is not None:
            self.baseline.begin_again()

    def _tell_problems(self, session: Session) -> None:
        while session.remarks:
            host.say("stepscope: %s: %s" % (session.probe.path, session.remarks.pop(0)))
        while session.problems:
            self.outcome = REFUSED
            host.say("stepscope: %s; recording has ended, the program goes on" % session.problems.pop(0))

    def _start(self) -> None:
        assert self.probe is not None
        callbacks = (self._hit, host.say, self._gap)
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
            if self._layout is None and host.program() and host.is_stripped():
                name = os.path.basename(host.program())
                host.say("stepscope: %s is stripped: hooks in it need a frozen layout (stepscope probe layout)" % name)

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

    def _gap(self, why: str) -> None:
        if self.session is not None:
            self.session.gap(why)

    def _hit(self, hit: Hit) -> bool:
        session = self.session
        if session is None:
            return False
        pid = host.pid()
        if self._pid and (pid != self._pid or (self._image is not None and not self._image.is_valid())):
            self._process_over(session, is_whole=False)  # `run` again, a fork that was followed, exec: another program
            self._image = None
        self._pid = pid
        self._image = self._image or host.image()
        if self._described is not session and hit.hook.event == "forward":
            self._describe(session)
        self._read.update(_with_value(hit.values), _with_value(hit.after))
        self._met.update(hit.values, hit.after)
        if hit.missing and self.backend is not None:
            group = {name: ("reads." if name in hit.hook.reads else "after.") + name for name in hit.missing}
            self.backend.tell_missing(hit.hook, {group[name]: absent for name, absent in hit.missing.items()})
        try:
            return self._look_at(session.hit(hit))
        finally:
            self._tell_problems(session)

    def _describe(self, session: Session) -> None:
        """Say what is being recorded: only at a hit is it sure to be loaded."""
        assert self.probe is not None
        file, source = identity.hook_of(self.probe, self._layout)
        session.about(identity.engine_of(file, host.build_ids().get(file, ""), self._layout), source)
        self._described = session

    def _look_at(self, closed: List[Closed]) -> bool:
        """Whether to stop the program because of the steps that were closed; says why, on a line of its own whatever
        the program has printed, as gdb does."""
        stop = False
        for step in closed:
            for failure in step.failures:
                if failure.code in self.break_on:
                    host.say("\nstepscope: %s" % failure.message)
                    host.say("  %s" % RULES[failure.code].statement)
                    stop = True
            if self.baseline is not None:
                difference = self.baseline.compare(step)
                if difference is not None:
                    host.say("\nstepscope: %s" % difference)
                    self.baseline = None
                    stop = True
            show_step(step.step, step.record)
        self._stopped = stop
        if stop:
            self.outcome = max(self.outcome, STOPPED)
        return stop


def _with_value(values: Values) -> List[str]:
    """The fields that were read: rows of no layer at all are none, as where the number of layers is misread."""
    return [n for n, value in values.items() if value != () or n not in FIELDS or FIELDS[n].per_layer == "no"]


def judging(session: Session, chosen: Set[str]) -> Dict[str, RuleResult]:
    """The rules, or those chosen, that had something to judge so far."""
    return {code: r for code, r in session.report.results.items() if r.applies and (code in chosen or not chosen)}


def verdict(session: Session, chosen: Set[str]) -> str:
    """What the rules, or those chosen, say so far, in words."""
    results = judging(session, chosen)
    broken = [code for code, result in results.items() if result.failed]
    if broken:
        return "%s broken" % " ".join(broken)
    if not any(result.passed for result in results.values()):
        return "unknown, nothing could be judged"
    open_ = [code for code, result in results.items() if result.verdict == "unknown"]
    return "pass" + (", unknown: %s" % " ".join(open_) if open_ else "")


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
        "%-8s" % ("-" if token == ABSENT_I64 else token),
        "%-10s" % _count(record["seq_before"]),
        "%-7s" % _count(record["seq_len"]),
        "%-10s" % cache,
    ]
    if record["n_tokens"] == 0 and record["phase"] != PREFILL:
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
    if not path:
        raise host.GdbError("the trace's name is empty; type: stepscope record FILE")
    problem = errno.EISDIR if os.path.isdir(path) else 0 if os.path.exists(target) else errno.ENOENT
    if not problem and not os.access(target, os.W_OK):
        problem = errno.EACCES
    if problem:
        raise host.GdbError("%s: cannot write a trace here: %s" % (path, os.strerror(problem)))
    if os.path.exists(path) and os.path.getsize(path):
        with open(path, "rb") as file:
            if file.read(len(MAGIC)) != MAGIC:
                raise host.GdbError("%s: exists and is not a step trace; choose another name or remove it" % path)


def _run_facts() -> Dict[str, Any]:
    return {"host": {"machine": host.machine()}, "engine": {"binary": os.path.basename(host.program())}}
