"""JSON Lines to a step trace: the interchange text form, which any engine that can print can write.

Line 1 is the RUN object, then one object a step, `{"note": {"kind": ...}}` lines between, `{"note": {"kind": "end"}}`
last. The file is read twice: first to learn the record (fields may be undeclared), then to write it.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator
from typing import Any, NamedTuple

from traces import fields
from traces.fields import FieldError
from traces.frames import json_kind, json_text
from traces.replacing import replacing
from traces.writer import TraceError, TraceWriter

Line = tuple[int, str, dict[str, Any]]
"""(line number, "run", "step", "note" or "end", the object)"""


class _Run(NamedTuple):
    """What the first reading learnt about one run: its RUN object with complete `fields`, and the names that no record
    can hold (strings), which travel as message notes."""

    facts: dict[str, Any]
    words: frozenset[str]


def import_jsonl(path: str | os.PathLike[str], out: str | os.PathLike[str], name: str | None = None) -> int:
    """Write the trace that the JSON Lines file `path` describes to `out`; the number of steps.

    A file without an end note becomes a trace without END; so does one whose last line is torn.
    Raises TraceError naming the line where the text is not a trace; `out` is then untouched.
    """
    name = name or os.fspath(path)
    runs = _survey(path, name)
    with replacing(out) as partial, open(path, "rb") as source:
        lines = _lines(source, name)
        next(lines)
        writer = TraceWriter(partial, runs[0].facts, flush="interval", interval_ms=1000.0)
        finished = False
        try:
            finished = _write(writer, lines, runs, name)
        finally:
            steps = writer.steps
            if finished:
                writer.close()
            else:
                writer.leave_unfinished()
    return steps


def _write(writer: TraceWriter, lines: Iterator[Line], runs: list[_Run], name: str) -> bool:
    """Whether the last line was an end note."""
    at, finished = 0, False
    for number, kind, value in lines:
        try:
            finished = kind == "end"
            if kind == "run":
                at += 1
                writer.start_run(runs[at].facts)
            elif kind == "step":
                for word in runs[at].words & value.keys():
                    writer.note("message", step=writer.steps, field=word, text=str(value.pop(word)))
                writer.step(**value)
            elif kind == "note":
                writer.note(**value)
            else:
                writer.end(**{k: v for k, v in value.items() if k != "kind"})
        except FieldError as error:
            raise TraceError(f"{name}: line {number}: {error}") from None
    return finished


def _lines(source: Any, name: str) -> Iterator[Line]:
    """The lines, classified and checked one by one."""
    started = ended = False
    for number, raw in enumerate(source, 1):
        if not raw.strip():
            continue
        value = _object(raw, number, name)
        if value is None:
            return
        kind = _kind(value)
        if not started and kind != "run":
            raise TraceError(
                f'{name}: line {number}: the first line must be the run object, {{"format": "stepscope", "version": 1, '
                "...}; is this JSON Lines of a step trace?"
            )
        if ended and kind != "run":
            raise TraceError(f"{name}: line {number}: something follows the end note; only another run may")
        started, ended = True, kind == "end"
        if kind in ("note", "end"):
            value = value["note"]
        yield number, kind, value


def _object(raw: bytes, number: int, name: str) -> dict[str, Any] | None:
    """The line as a dict, None for a torn last line."""
    try:
        value = json.loads(raw.decode("utf-8-sig" if number == 1 else "utf-8"), parse_constant=lambda _: None)
    except (ValueError, RecursionError) as error:
        if not raw.endswith(b"\n") and number > 1:
            return None
        place = f" at column {error.colno}" if isinstance(error, json.JSONDecodeError) else ""
        raise TraceError(f"{name}: line {number}: not JSON{place}") from None
    if not isinstance(value, dict):
        raise TraceError(f"{name}: line {number}: a line is one JSON object, not {json_kind(value)}")
    if "note" in value:
        note = value["note"]
        if not isinstance(note, dict) or not isinstance(note.get("kind"), str):
            raise TraceError(f"{name}: line {number}: a note is an object with a kind")
    return value


def _kind(value: dict[str, Any]) -> str:
    if "note" in value:
        return "end" if value["note"]["kind"] == "end" else "note"
    return "run" if "format" in value else "step"


def _survey(path: str | os.PathLike[str], name: str) -> list[_Run]:
    """Learn every run's record. Raises TraceError for anything the second reading could stumble over but values."""
    runs: list[tuple[int, dict[str, Any], dict[str, Any]]] = []
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            raise TraceError(f"{name}: not a regular file; pipe it in: … | stepscope import jsonl -")
        with open(path, "rb") as source:
            for number, kind, value in _lines(source, name):
                if kind == "run":
                    _check_run(value, number, name)
                    runs.append((number, value, {}))
                elif kind == "step":
                    _learn(runs[-1][2], value, number, name)
    except OSError as error:
        raise TraceError(f"{name}: cannot read: {error.strerror}") from None
    if not runs:
        raise TraceError(f"{name}: the file is empty")
    return [_described(facts, seen, f"{name}: line {number}") for number, facts, seen in runs]


def _check_run(run: dict[str, Any], number: int, name: str) -> None:
    if run.get("format") != fields.FORMAT:
        raise TraceError(f'{name}: line {number}: format is {json_text(run["format"])}, not "{fields.FORMAT}"')
    version = run.get("version", fields.VERSION)
    if not isinstance(version, int) or isinstance(version, bool) or version > fields.VERSION:
        raise TraceError(
            f"{name}: line {number}: version {json_text(version)} of the format; this stepscope reads up to "
            f"{fields.VERSION}; update stepscope"
        )


def _learn(seen: dict[str, Any], step: dict[str, Any], number: int, name: str) -> None:
    """Remember each field's kind ("int", "float", "str") and its longest array (0: one value)."""
    for key, value in step.items():
        kind, length = _value_kind(value)
        if kind == "other":
            raise TraceError(f"{name}: line {number}: field {key} is {json_kind(value)}; a step holds numbers")
        was, longest = seen.get(key, ("none", 0))
        seen[key] = (max(was, kind, key=_WIDTH.index), max(longest, length))


_WIDTH = ["none", "int", "float", "str"]


def _value_kind(value: Any) -> tuple[str, int]:
    if isinstance(value, list):
        kinds = [_value_kind(v)[0] if not isinstance(v, list) else "other" for v in value]
        if any(k in ("other", "str") for k in kinds):
            return "other", 0
        return max(kinds, key=_WIDTH.index, default="none"), max(len(value), 1)
    if value is None:
        return "none", 0
    if isinstance(value, (bool, int)):
        return "int", 0
    return ("float", 0) if isinstance(value, float) else ("str", 0) if isinstance(value, str) else ("other", 0)


def _described(facts: dict[str, Any], seen: dict[str, Any], place: str) -> _Run:
    said = facts.get("fields")
    try:
        known = {c.name for c in fields.columns(said)} if said else set()
        declared = list(said or [])
        words = set()
        for key in [*fields.REQUIRED, *seen]:
            if key in known:
                continue
            known.add(key)
            kind, length = seen.get(key, ("none", 0))
            if key in fields.FIELDS:
                declared += fields.declaration([key], {key: length} if length else {})
            elif kind == "str":
                words.add(key)
            else:
                declared.append([key, "F64" if kind == "float" else "I64", *([[length]] if length else [])])
    except FieldError as error:
        raise TraceError(f"{place}: {error}") from None
    try:
        fields.columns(declared)
    except FieldError as error:
        raise TraceError(f"{place}: what the lines of this run hold makes no record: {error}") from None
    return _Run({**facts, "fields": declared}, frozenset(words))
