"""Hits turned into steps: the state before each forward, as an entry hook sees it, closes the step before.

No debugger in here: a back-end hands over what it read at each hit, and gets back what was wrong with the step that
the hit closed. The step's after-values come from the next entry of the same sequence; where a request, a shift or a
rollback lies between, and on a last step that nothing closes, they stay absent.
"""

from __future__ import annotations

import contextlib
import math
import struct
import time
from typing import Any, Callable, Dict, Iterable, List, NamedTuple, Optional, Set, Tuple

from gdb_scripts.expressions import Number, Slice
from gdb_scripts.hits import Hit, Values
from gdb_scripts.layout import DEFAULT_CAP, UNREADABLE, Absent
from gdb_scripts.probe import Probe
from gdb_scripts.slots import Slots
from traces import fields
from traces.check import Checker, Failure
from traces.fields import Column
from traces.rules import Rule
from traces.writer import TraceError, TraceWriter

_LISTS = ("eos", "prompt_ids")
_PREFILL, _DECODE = fields.PHASES["prefill"], fields.PHASES["decode"]


class Closed(NamedTuple):
    """A step that is over: its number in the trace, the raw record, and the rules it broke."""

    step: int
    record: Dict[str, Any]
    failures: List[Failure]


class _Open:
    """A step that was entered and not yet left."""

    def __init__(self, values: Values, sums: Values) -> None:
        self.values, self.sums = values, sums


class Session:
    """One recording of one program under the debugger.

    path: the trace, or None to judge without recording. run: more facts for RUN (engine build id, host ...).
    Nothing raises but `FieldError` for a broken probe at the start: a full disk ends the recording, says so in
    `problems`, and the program goes on. remarks: fields that were left out because they cannot be true.
    """

    def __init__(
        self, probe: Probe, path: Optional[str], run: Dict[str, Any], rules: Optional[Iterable[Rule]] = None
    ) -> None:
        self.probe, self.path = probe, path
        self.steps = 0
        self.problems: List[str] = []
        self.remarks: List[str] = []
        self.last: Optional[Closed] = None
        self.run = run
        self.facts: Dict[str, Any] = {}
        self._checker = Checker(rules)
        self._writer: Optional[TraceWriter] = None
        self._by_name: Dict[str, Column] = {}
        self._absent: Dict[str, Any] = {}
        self._pack: Callable[[Dict[str, Any]], bytes] = _packer([])
        self._scales = {n: a.scale for hook in probe.hooks for n, a in hook.accumulators.items()}
        self._blind = {hook.section for hook in probe.hooks if all(isinstance(n, Number) for n in hook.reads.values())}
        self._told_requests = any(hook.event == "request" for hook in probe.hooks)
        self._waiting: List[Dict[str, Any]] = []
        self._open: Dict[int, _Open] = {}
        self._sequence = self._base = 0
        self._slots = Slots()
        self._last_fed: Optional[int] = None
        self._thread: Optional[int] = None
        self._told_threads = False
        self._prompts: Dict[int, Values] = {}
        self._decoding: Set[int] = set()
        self._started = False
        self._told: Dict[str, str] = {}
        self._garbage: Dict[str, bool] = {}  # what was left out, and whether a record ever held a value of it
        self._start_ns = time.monotonic_ns()
        self._events = {
            "forward": self._forward,
            "request": self._request,
            "finish": self._finish,
            "shift": self._shift,
        }

    @property
    def report(self) -> Any:
        """The verdicts so far."""
        return self._checker.report

    @property
    def never_sound(self) -> Set[str]:
        """Fields and facts of which the program gave nothing but garbage."""
        return {name for name, was_held in self._garbage.items() if not was_held}

    @property
    def has_stopped_recording(self) -> bool:
        """Whether a trace was asked for and is written no more, as on a full disk."""
        return self._started and self.path is not None and self._writer is None

    def hit(self, hit: Hit) -> List[Closed]:
        """Take in what a hook read; the steps that it closed, in order."""
        if hit.thread is not None and "seq_id" not in hit.values and not hit.hook.conditions:
            self._expect_one_thread(hit.thread)
        if hit.skipped:
            return self._skip()
        for name, absent in hit.missing.items():
            self._tell_absent(name, absent)
        return self._events[hit.hook.event](hit)

    def about(self, engine: Dict[str, Any], source: Dict[str, Any]) -> None:
        """What is being recorded, before its first step: facts of the engine, and where the hook stands."""
        self.run.setdefault("engine", {}).update(engine)
        if source:
            self._note({"kind": "source", **source})

    def gap(self, why: str) -> None:
        """Steps will not have been recorded."""
        self._close_all()  # nobody saw how these ended
        self._note({"kind": "gap", "why": why})

    def _expect_one_thread(self, thread: int) -> None:
        """Without a seq_id, steps of several threads cannot be told apart: nothing is concluded across a switch."""
        if self._thread is not None and thread != self._thread:
            if not self._told_threads:
                self.remarks.append("several threads step and no seq_id is read: rules across them are unknown")
                self._told_threads = True
            self.gap("another thread stepped")
        self._thread = thread

    def program_ended(self, finish: Optional[str] = None) -> List[Closed]:
        """The program is over, or was left: nothing will close what is open. finish: "abort" or "error" where the
        sequences did not end by themselves."""
        closed = self._close_all()
        if finish is not None:
            live = self._slots.live or sorted(self._checker.sequences)
            for seq_id in live:
                if not self._checker.sequences[seq_id].finished:
                    self._note({"kind": "finish", "seq_id": seq_id, "finish": finish})
        # ids that another process gives are other sequences, also where it counts from 0 again
        self._sequence = self._base = max(self._checker.sequences, default=-1) + 1
        self._slots.forget()
        self._decoding.clear()
        self._thread = None
        return closed

    def close(self) -> None:
        """End the trace."""
        self._close_all()
        if self._writer is not None:
            try:
                self._writer.close()
            except TraceError as error:
                self.problems.append(str(error))
            self._writer = None

    # -- events ------------------------------------------------------------------------------------------------------

    def _request(self, hit: Hit) -> List[Closed]:
        seq_id = self._seq_id(hit.values)
        closed = [self._close(seq_id, {}, {}, {})] if seq_id in self._open else []
        if "seq_id" not in hit.values and seq_id in self._checker.sequences:
            self._sequence += 1
            seq_id = self._sequence
        self._prompts[seq_id] = dict(hit.values)
        self._decoding.discard(seq_id)
        note: Dict[str, Any] = {"kind": "request", "seq_id": seq_id, "t_ns": self._since_start(hit)}
        note.update(self._sound({k: v for k, v in hit.values.items() if k != "seq_id" and v is not None}))
        self._note(note)
        return closed

    def _skip(self) -> List[Closed]:
        if "skip" not in self._told:
            self._told["skip"] = "warm-up"
            self._note({"kind": "message", "text": "warm-up forwards are not recorded"})
        return []

    def _shift(self, hit: Hit) -> List[Closed]:
        """The oldest rows leave a slot; what adds rows or moves other ones is no shift."""
        n_keep, n_discard = _count(hit.values.get("n_keep")), _count(hit.values.get("n_discard"))
        if not n_discard or hit.slot is None:
            return []
        seq_id = self._slots.shifted(hit.slot, n_discard)
        if seq_id is None:
            return []
        closed = [self._close(seq_id, {}, {}, {})] if seq_id in self._open else []
        self._note({"kind": "shift", "seq_id": seq_id, "n_keep": n_keep, "n_discard": n_discard})
        return closed

    def _forward(self, hit: Hit) -> List[Closed]:
        if not self._started:
            self._start(hit)
        closed = []
        drafted = None
        if self._goes_on(hit):
            seq_id, phase = hit.values["seq_id"], _DECODE
        elif hit.slot is None:
            seq_id = self._seq_id(hit.values)
            if self._begins_again(hit, seq_id):
                closed += [self._close(seq_id, {}, {}, {})] if seq_id in self._open else []
                self._sequence += 1
                seq_id = self._sequence
            phase = self._phase(hit, seq_id)
            (self._decoding.add if phase == _DECODE else self._decoding.discard)(seq_id)
        else:
            n = _count(hit.values.get("n_tokens")) or 1
            seq_id, phase, drafted, ended = self._slots.place(
                hit.slot, _count(hit.values.get("seq_before")), n, hit.outputs
            )
            if ended in self._open and ended is not None:
                closed.append(self._close(ended, {}, {}, {}))
        if seq_id in self._open:
            closed.append(self._close(seq_id, hit.values, hit.after, hit.sums))
        values = {**hit.values, "seq_id": seq_id, "t_ns": self._since_start(hit), "phase": phase}
        if hit.missing and _nothing_read(hit) or hit.hook.section in self._blind:
            values.update(t_ns=None, phase=0)  # the debugger's clock and our guess would be all that rules judge
        if hit.forward_id is not None:
            values["forward_id"] = hit.forward_id
        if drafted is not None:
            values["n_drafted"] = drafted
        if phase == _PREFILL:
            values.pop("token_id", None)
        self._open[seq_id] = _Open(values, hit.sums)
        if hit.last:
            self._last_fed = seq_id
        return closed

    def _since_start(self, hit: Hit) -> Optional[int]:
        """The time of the debugger's clock: it counts the stops too."""
        return None if hit.t_ns is None else hit.t_ns - self._start_ns

    def _goes_on(self, hit: Hit) -> bool:
        """The usual hit: one more token in a sequence whose prompt is fed, and nothing that says otherwise."""
        values = hit.values
        return (
            values.get("seq_id") in self._decoding
            and values.get("n_tokens") == 1
            and not values.get("n_drafted")
            and "phase" not in values
            and hit.slot is None
        )

    def _begins_again(self, hit: Hit, seq_id: int) -> bool:
        """Rows from 0 on in a sequence that had some: where no hook tells of requests, this is one."""
        told = self._told_requests or "seq_id" in hit.values
        return not told and hit.values.get("seq_before") == 0 and self._checker_knows(seq_id)

    def _checker_knows(self, seq_id: int) -> bool:
        return seq_id in self._open or seq_id in self._checker.sequences

    def _finish(self, hit: Hit) -> List[Closed]:
        seq_id = self._seq_id(hit.values)
        code = fields.FINISH.get(self._word(hit, "finish"), fields.FINISH["none"])
        sampled = hit.values.get("token_id")
        if isinstance(sampled, int) and sampled < 0:
            sampled = None  # the program's word for: none was sampled
        closed = []
        if seq_id in self._open:
            if sampled is None and code:
                self._open[seq_id].values["finish"] = code
            closed.append(self._close(seq_id, hit.values, hit.after, hit.sums))
        if sampled is not None and self._started:
            values = {"phase": fields.PHASES["decode"], "seq_id": seq_id, "token_id": sampled, "n_tokens": 0}
            values.update(t_ns=self._since_start(hit), finish=code, seq_before=hit.values.get("seq_before"))
            if "cache_before" in hit.values:
                values["cache_before"] = hit.values["cache_before"]
            self._open[seq_id] = _Open(values, {})
            closed.append(self._close(seq_id, hit.values, {}, {}))
        elif not closed and code:
            self._note({"kind": "finish", "seq_id": seq_id, "finish": fields.FINISH_NAMES[code]})
        return closed

    # -- steps -------------------------------------------------------------------------------------------------------

    def _close(self, seq_id: int, entry: Values, after: Values, sums: Values) -> Closed:
        """End a step with what the next entry saw."""
        step = self._open.pop(seq_id)
        values = step.values
        if entry.get("seq_before") is not None:
            values["seq_len"] = entry["seq_before"]
        if entry.get("cache_before") is not None:
            values["cache_len"] = entry["cache_before"]
        if seq_id != self._last_fed:  # the pool has grown further since this sequence's own rows
            after = {k: v for k, v in after.items() if k not in ("kv_used", "kv_free")}
        if after:
            values.update({k: v for k, v in after.items() if v is not None and not _never_measured(k, v)})
        if step.sums:
            for name, (before, now, scale) in _differences(step.sums, sums, self._scales).items():
                values[name] = (now - before) * scale
        return self._write(values)

    def _close_all(self) -> List[Closed]:
        return [self._close(seq_id, {}, {}, {}) for seq_id in sorted(self._open)]

    def _write(self, values: Values) -> Closed:
        record = {**self._absent, **values}
        try:
            packed = self._pack(record)
        except (struct.error, TypeError, OverflowError):
            record = {name: _raw(column, record[name]) for name, column in self._by_name.items()}
            self._leave_out_what_does_not_fit(record)
            packed = self._pack(record)
        if self._writer is not None:
            try:
                self._writer.append(packed)
            except TraceError as error:
                self._stop_recording(str(error))
        for name in self._garbage:
            self._garbage[name] |= self._holds(record, name)
        closed = Closed(self.steps, record, self._checker.step(record))
        self.steps += 1
        self.last = closed
        return closed

    def _leave_out_what_does_not_fit(self, record: Dict[str, Any]) -> None:
        """A number beyond its field, or none at all, is garbage from the program: that field is absent, and why."""
        for name, column in self._by_name.items():
            values = record[name] if column.shape and not column.is_bytes else [record[name]]
            try:
                struct.pack(fields.record_format([column]), *values)
            except (struct.error, TypeError, OverflowError):
                self._leave_out(name, "%s does not hold %s" % (column.dtype, _shown(record[name])))
                record[name] = self._absent[name]

    def _note(self, note: Dict[str, Any]) -> None:
        if not self._started:
            self._waiting.append(note)
            return
        self._checker.note(note)
        if self._writer is not None:
            try:
                self._writer.note(**note)
            except TraceError as error:
                self._stop_recording(str(error))

    def _stop_recording(self, problem: str) -> None:
        self.problems.append(problem)
        writer, self._writer = self._writer, None
        if writer is not None:
            with contextlib.suppress(TraceError):  # the problem that ended it is already told
                writer.leave_unfinished()

    def _tell_absent(self, name: str, absent: Absent) -> bool:
        """One note for each reason that a field has no value, not one a step; whether this was the first."""
        field = {"seq_before": "seq_len", "cache_before": "cache_len"}.get(name, name)
        if self._told.get(field) == absent.why:
            return False
        self._told[field] = absent.why
        self._note({"kind": "absent", "field": field, "why": absent.why, "text": str(absent)})
        return True

    def _leave_out(self, name: str, problem: str) -> None:
        """A number that the program gave and no record can hold."""
        self._garbage.setdefault(name, self.last is not None and self._holds(self.last.record, name))
        if self._tell_absent(name, Absent(UNREADABLE, problem)):
            self.remarks.append("%s: %s" % (name, problem))

    def _holds(self, record: Dict[str, Any], name: str) -> bool:
        return name in record and record[name] != self._absent[name]

    # -- beginning ---------------------------------------------------------------------------------------------------

    def _start(self, hit: Hit) -> None:
        """Shapes are known at the first forward: declare the record, write RUN and what waited for it."""
        self.facts = self._sound({k: v for k, v in hit.facts.items() if v is not None})
        n_layers = self.facts.get("n_layers")
        if n_layers is not None and n_layers > DEFAULT_CAP:
            self._leave_out("n_layers", "%d layers must be garbage" % n_layers)
            n_layers = None
        rows = hit.values.get("cache_before")
        if n_layers is None and isinstance(rows, tuple):
            n_layers = len(rows)
        run = self._run_facts(hit, n_layers)
        self._by_name = {c.name: c for c in fields.columns(run["fields"])}
        self._absent = {name: _raw(column, None) for name, column in self._by_name.items()}
        self._pack = _packer(list(self._by_name.values()))
        self._checker.start_run(run)
        self._started = True
        if self.path is not None:
            try:
                self._writer = TraceWriter(self.path, run, flush="step")
            except TraceError as error:
                self.problems.append(str(error))
        waiting, self._waiting = self._waiting, []
        for note in waiting:
            self._note(note)

    def _sound(self, values: Values) -> Values:
        """Counts and lists of ids as a RUN or a request may hold them. A negative count is the program's word for
        none; what is no count at all is garbage."""
        sound: Values = {}
        for name, value in values.items():
            is_list = isinstance(value, tuple)
            if (is_list and name not in _LISTS) or not all(map(_is_number, value if is_list else [value])):
                self._leave_out(name, "%s must be garbage" % _shown(value))
            elif is_list or value >= 0 or name in _LISTS:
                sound[name] = list(value) if is_list else [value] if name in _LISTS else value
        return sound

    def _run_facts(self, hit: Hit, n_layers: Optional[int]) -> Dict[str, Any]:
        probe = self.probe
        facts = self.facts
        run: Dict[str, Any] = {
            "producer": {"name": "stepscope-gdb"},
            "clock": "debugger",
            "model": {k: facts[k] for k in ("n_heads", "n_kv_heads", "head_dim", "vocab_size") if k in facts},
            **self.run,
        }
        run.setdefault("engine", {}).setdefault("name", probe.engine)
        if n_layers is not None:
            run["model"]["n_layers"] = n_layers
        if isinstance(probe.layers, list):
            run["layers"] = probe.layers
        elif probe.layers == "full" and n_layers is not None:
            run["layers"] = [{"kind": "full"}] * n_layers
        if "capacity" in facts:
            run["kv"] = {"capacity": facts["capacity"]}
        stop = {k: facts[k] for k in ("max_new_tokens",) if k in facts}
        if "eos" in facts:
            stop["eos"] = facts["eos"]
        if stop:
            run["stop"] = stop
        run["fields"] = self._declared(hit, n_layers)
        return run

    def _declared(self, hit: Hit, n_layers: Optional[int]) -> List[List[Any]]:
        hooks = [h for h in self.probe.hooks if h.event in ("forward", "finish")]
        named = {n for h in hooks for n in (*h.reads, *h.after, *h.accumulators)}
        if any("slot" in h.conditions for h in hooks):
            named |= {"forward_id"}
        if any("outputs" in h.conditions for h in hooks):
            named |= {"n_drafted"}
        names = list(fields.REQUIRED) + ["t_ns"]
        names += [n for n in fields.OPTIONAL if n in named and n not in names]
        shapes: Dict[str, int] = {}
        for name, value in {**hit.values, **hit.after}.items():
            if isinstance(value, tuple) and value and fields.FIELDS[name].per_layer != "no":
                shapes[name] = len(value)
        sliced = any("cache_before" in h.reads and isinstance(h.reads["cache_before"], Slice) for h in hooks)
        if "cache_before" in names and "cache_before" not in shapes and sliced and n_layers:
            shapes["cache_before"] = n_layers
        if "cache_before" in shapes:
            shapes["cache_len"] = shapes["cache_before"]
        for hook in hooks:
            for name, node in hook.after.items():
                if isinstance(node, Slice) and n_layers:
                    shapes.setdefault(name, n_layers)
        return fields.declaration(names, shapes)

    def _seq_id(self, values: Values) -> int:
        seq_id = _count(values.get("seq_id"))
        return self._sequence if seq_id is None else self._base + seq_id

    def _phase(self, hit: Hit, seq_id: int) -> int:
        """As the probe reads it; else a forward that feeds several tokens, or what is left of the prompt, is a
        prefill."""
        prompt = self._feeds_prompt(hit, seq_id)
        if "phase" in hit.values:
            word = self._word(hit, "phase")
            if word in fields.PHASES:
                return fields.PHASES[word]
        several = (_count(hit.values.get("n_tokens")) or 1) > 1
        drafted = _count(hit.values.get("n_drafted"))
        if drafted:
            return fields.PHASES["verify"]
        return fields.PHASES["prefill" if prompt or several else "decode"]

    def _feeds_prompt(self, hit: Hit, seq_id: int) -> bool:
        """Whether the request's prompt was not yet fed; counts what this forward feeds of it."""
        prompt = self._prompts.get(seq_id)
        total = _count(prompt.get("prompt_tokens")) if prompt is not None else None
        if prompt is None or total is None:
            return False
        if "fed" not in prompt:
            reused = _count(prompt.get("n_reused"))
            prompt["fed"] = (_count(hit.values.get("seq_before")) or 0) if reused is None else reused
        left = prompt["fed"] < total
        prompt["fed"] += _count(hit.values.get("n_tokens")) or 1
        return bool(left)

    def _word(self, hit: Hit, field: str) -> str:
        value = hit.values.get(field)
        code = hit.hook.codes.get(field, {}).get(value) if isinstance(value, int) else None
        if code is not None:
            return code
        names = {"phase": fields.PHASE_NAMES, "finish": fields.FINISH_NAMES}[field]
        return names.get(value, "") if isinstance(value, int) else ""


def _count(value: Any) -> Optional[int]:
    return value if _is_number(value) and value >= 0 else None


def _is_number(value: Any) -> bool:
    """An integer that a program can hold."""
    return isinstance(value, int) and not isinstance(value, bool) and -(2**63) <= value < 2**64


def _nothing_read(hit: Hit) -> bool:
    """Whether all that is known of a hit stands in the probe itself."""
    constants = {name for name, node in hit.hook.reads.items() if isinstance(node, Number)}
    return not any(value is not None for name, value in hit.values.items() if name not in constants)


def _differences(before: Values, now: Values, scales: Dict[str, float]) -> Dict[str, Tuple[float, float, float]]:
    """Times that were summed up between two hits; a sum that fell was reset in between and says nothing."""
    out = {}
    for name, start in before.items():
        end = now.get(name)
        if isinstance(end, (int, float)) and math.isfinite(end) and math.isfinite(start) and end >= start:
            out[name] = (float(start), float(end), scales.get(name, 1.0))
    return out


def _packer(columns: List[Column]) -> Callable[[Dict[str, Any]], bytes]:
    """A function that packs a raw record, made once a run: a step in a debugger has microseconds. It raises
    struct.error, OverflowError or TypeError where a value does not fit."""
    to_bytes = struct.Struct(fields.record_format(columns)).pack
    sizes = [(c.name, c.size if c.shape and not c.is_bytes else 0) for c in columns]

    def pack(record: Dict[str, Any]) -> bytes:
        flat: List[Any] = []
        for name, size in sizes:
            if not size:
                flat.append(record[name])
            elif len(record[name]) == size:
                flat += record[name]
            else:
                raise TypeError("%s is not %d values" % (name, size))
        return to_bytes(*flat)

    return pack


def _shown(value: Any) -> str:
    """A value for a message: Python refuses to spell very long numbers."""
    try:
        return "%.40r" % (value,)
    except ValueError:
        return "a number beyond all sizes"


def _never_measured(name: str, value: Any) -> bool:
    """A residual stream is never exactly zero in every layer: the program keeps the field and did not fill it."""
    return name == "hidden_rms" and isinstance(value, tuple) and not any(value)


def _raw(column: Column, value: Any) -> Any:
    """The value as Decoder.raw gives it: absent where it is missing or does not fit the record."""
    if column.is_bytes:
        return value if isinstance(value, bytes) else b""
    if column.shape:
        if isinstance(value, tuple) and len(value) == column.size:
            return value
        return (column.absent,) * column.size
    if value is None or isinstance(value, tuple):
        return 0 if column.name in ("phase", "finish") else column.absent
    return value
