"""What every importer of an engine's log shares: lines out of text that may be anything, and a trace of what they say.

A log is read once, line by line, in constant memory. Colour codes, carriage returns and byte order marks are taken off;
JSON is recognised whether it stands on one line or is laid out over many. What an importer cannot be sure of it hands
to `LogTrace.doubt`: the trace keeps a message note for each such line, and no number that the log does not say.
"""

from __future__ import annotations

import codecs
import io
import json
import math
import os
import re
import stat
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple, Protocol, TextIO

from traces import fields
from traces.frames import bounded_int, has_large_integer
from traces.replacing import replacing
from traces.writer import TraceError, TraceWriter

MAX_LINE = 64 << 20
"""Characters of one line, or of one JSON value over many lines; a longer one is skipped and noted"""
MOST_LAYERS = 4096
"""A log that names a layer of a higher number is damaged, or is no log of a model"""
_MAX_TEXT = 20_000
_MAX_SOURCE = 200
_MOST_WAITING = 1000
_JSON_LINE = re.compile(r"[]\"{}\[,\d+\-tfnNI]|$")
_KEY = re.compile(r'\s*"\w+" *:')
_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])")
NUMBER = r"[-+]?(?:\d[\d.,]*(?:[eE][-+]?\d+)?|nan|inf(?:inity)?)"
"""A number as printf writes it in any locale"""


class Line(NamedTuple):
    """One line, or one JSON object. `ended` tells whether a line feed follows; `problem` what is wrong with it."""

    number: int
    text: str
    value: dict[str, Any] | None = None
    ended: bool = True
    problem: str = ""


class Reader(Protocol):
    """What an importer is: it takes the lines one by one and tells the trace what they say."""

    def line(self, line: Line) -> None:
        """One line."""

    def end(self) -> None:
        """No line is left: what is still open ends here."""


class Imported(NamedTuple):
    """What came of a log. notes: those that are no totals and no messages."""

    steps: int
    totals: int
    doubts: int
    notes: int = 0


def import_log(
    path: str | os.PathLike[str],
    out: str | os.PathLike[str],
    reader: Callable[[LogTrace], Reader],
    what: str,
    name: str | None = None,
    others: Mapping[str, str] | None = None,
) -> Imported:
    """Write the trace that the log at `path` ("-": standard input) amounts to, to `out`.

    reader makes the importer for a trace; what names the engine, for the run's facts; name the log, for errors. others:
    words of other engines' lines, and whose they are; the first line of each engine is doubted.
    Raises TraceError where the log cannot be read or holds nothing that the importer knows; `out` is then untouched.
    """
    with opened(path) as source, replacing(out) as partial:
        trace = LogTrace(partial, name or name_of(path), what)
        try:
            importer = reader(trace)
            strange = dict(others or {})
            for line in lines(source):
                trace.line = line
                for mark in strange:
                    if mark in line.text:
                        strange = _told_of(trace, strange, strange[mark])
                        break
                if line.problem:
                    trace.doubt(line, line.problem)
                    continue
                _doubting(trace, importer.line, line)
            _doubting(trace, importer.end)
            if not trace.events and not trace.doubts:
                known = f"is known as {what}'s; docs/engines.md says what is"
                raise TraceError(f"{trace.name}: no line of it {'matches --regex' if what == 'pattern' else known}")
        finally:
            trace.close()
    return Imported(trace.steps, trace.n_totals, trace.doubts, trace.events - trace.steps - trace.n_totals)


def _told_of(trace: LogTrace, strange: dict[str, str], engine: str) -> dict[str, str]:
    """Doubt the present line as another engine's; the marks of engines that are still to be told of."""
    trace.doubt(trace.line, f"{engine} printed this: its lines are left out; `stepscope import {engine}` reads them")
    return {mark: other for mark, other in strange.items() if other != engine}


def _doubting(trace: LogTrace, take: Callable[..., None], *line: Line) -> None:
    """Let the importer take a line, or the end. A number that no program counted to makes the line doubtful."""
    try:
        take(*line)
    except (ValueError, OverflowError) as error:
        trace.doubt(trace.line, str(error).partition(";")[0])


def name_of(path: str | os.PathLike[str]) -> str:
    """How errors call the log."""
    return "standard input" if path == "-" else os.fspath(path)


@contextmanager
def opened(path: str | os.PathLike[str]) -> Iterator[TextIO]:
    """The log as text: UTF-8, or UTF-16 where a byte order mark says so; bytes that are neither become U+FFFD.

    Raises TraceError where it cannot be read.
    """
    if path == "-":
        yield as_text(sys.stdin.buffer)
        return
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            raise TraceError(f"{name_of(path)}: not a regular file; pipe it in: … | stepscope import FORMAT -")
        source = as_text(open(path, "rb"))  # noqa: SIM115 - closed below
    except OSError as error:
        raise TraceError(f"{name_of(path)}: cannot read: {error.strerror}") from None
    except ValueError as error:  # a name with a NUL byte
        raise TraceError(f"{name_of(path)}: cannot read: {error}") from None
    with source:
        yield source


def as_text(source: Any) -> TextIO:
    """The binary file `source` decoded, every way to end a line read as a line feed."""
    buffered = source if hasattr(source, "peek") else io.BufferedReader(source)
    wide = buffered.peek(2).startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    return io.TextIOWrapper(buffered, encoding="utf-16" if wide else "utf-8-sig", errors="replace")


def lines(source: TextIO) -> Iterator[Line]:
    """The lines of a log, JSON objects as their values."""
    block: list[Line] = []
    indent, size = "", 0
    for line in _clean_lines(source):
        body = line.text.lstrip()
        if block:
            block.append(line)
            size += len(line.text)
            if line.text.startswith(indent + "}"):
                yield from _laid_out(block)
                block = []
            elif size > MAX_LINE or not _JSON_LINE.match(body):
                yield from _no_json(block)
                block = []
        elif body.rstrip() in ("{", "[{"):
            block, size = [line], 0
            indent = line.text[: len(line.text) - len(body)]
        elif body.startswith(("{", "[{", "data: {")):
            yield from _objects(line, body.removeprefix("data: "))
        else:
            yield line if len(line.text) <= _MAX_TEXT else line._replace(text=line.text[:_MAX_TEXT])
    if block:
        yield from _no_json([*block[:-1], block[-1]._replace(ended=False)])


def _clean_lines(source: TextIO) -> Iterator[Line]:
    """Lines without their end and without escape sequences."""
    number = 0
    while text := source.readline(MAX_LINE):
        number += 1
        ended, problem = text.endswith("\n"), ""
        if not ended and len(text) == MAX_LINE:
            text, problem = text[:_MAX_TEXT], "a line too long to be read"
            while (more := source.readline(MAX_LINE)) and not more.endswith("\n"):
                pass
        text = text.rstrip("\n")
        yield Line(number, _ESCAPES.sub("", text) if "\x1b" in text else text, None, ended, problem)


def _parsed(text: str) -> Any:
    """What JSON says. Raises ValueError or RecursionError for anything else."""
    return json.loads(text, parse_int=bounded_int if has_large_integer(text.encode("utf-8", "replace")) else None)


def _laid_out(block: list[Line]) -> Iterator[Line]:
    """The object that is laid out over the lines of `block`."""
    try:
        value = _parsed("\n".join(line.text for line in block).strip().strip("[],"))
    except (ValueError, RecursionError):
        yield from _no_json(block)
        return
    yield Line(block[0].number, block[0].text, value, block[-1].ended)


def _no_json(block: list[Line]) -> Iterator[Line]:
    """What began like JSON: lines like any other, doubtful where a key stands among them (a text may hold braces)."""
    keyed = any(_KEY.match(line.text) for line in block)
    problem = "JSON that breaks off, or cannot be read" if keyed else ""
    yield block[0]._replace(problem=problem, ended=block[-1].ended)
    yield from block[1:]


def _objects(line: Line, text: str) -> Iterator[Line]:
    """The objects in one line of JSON; a line that only looks like JSON stays text."""
    try:
        value = _parsed(text.strip().rstrip(","))
    except (ValueError, RecursionError):
        problem = "" if line.ended else "JSON that breaks off"
        yield line._replace(text=line.text[:_MAX_TEXT], problem=problem)
        return
    for item in value if isinstance(value, list) else [value]:
        if isinstance(item, dict):
            yield Line(line.number, line.text[:_MAX_SOURCE], item, line.ended)


def amount(text: str) -> float:
    """A printed number: `1908.02`, `1908,02` in some locales, `nan` and `inf` as they are. NaN for anything else."""
    try:
        return float(text)
    except ValueError:
        pass
    try:
        return float(text.replace(",", ".")) if "." not in text else math.nan
    except ValueError:
        return math.nan


def is_number(value: Any) -> bool:
    """Whether a value read from JSON is a number, and a finite one."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def whole(value: Any) -> int | None:
    """A count read from JSON; None for anything else."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


class LogTrace:
    """The trace that a log becomes. The RUN frame is written at the first event, with the facts known by then."""

    def __init__(self, path: str, name: str, what: str) -> None:
        self.name, self.what = name, what
        self.names: list[str] = []
        self.shapes: dict[str, int] = {}
        self.extra: list[list[Any]] = []
        self.events = self.doubts = self.n_totals = 0
        self.cut = False
        self.line = Line(0, "")
        self._path = path
        self._writer: TraceWriter | None = None
        self._begun = False
        self._waiting: list[dict[str, Any]] = []
        self.facts: dict[str, Any] = self._first_facts()

    def _first_facts(self) -> dict[str, Any]:
        return {
            "producer": {"name": f"stepscope import {self.what}"},
            "engine": {"name": self.what},
            "imported": {"file": os.path.basename(self.name)},
            "clock": "monotonic",
            "started_at": None,
        }

    @property
    def steps(self) -> int:
        """Steps written."""
        return self._writer.steps if self._writer is not None else 0

    @property
    def begun(self) -> bool:
        """Whether the present run has an event."""
        return self._begun

    def fact(self, section: str, **values: Any) -> None:
        """Something about the run, by the names of FORMAT.md. Behind a run's events it begins another run."""
        if self._begun:
            self.new_run()
        known = self.facts.setdefault(section, {})
        for name, value in values.items():
            if value is not None:
                known.setdefault(name, value)

    def new_run(self) -> None:
        """What follows has nothing to do with what came before."""
        if self._begun and self._writer is not None:
            self._writer.end()
            self._begun = False
            self.facts = self._first_facts()

    def step(self, **values: Any) -> None:
        """A step; what is not known may be None. Where a value does not fit its field the line is doubted."""
        if None in values.values():
            values = {name: value for name, value in values.items() if value is not None}
        values["phase"] = fields.PHASES.get(values.get("phase", ""), 0)
        self._open().step(**values)
        self.events += 1

    def note(self, kind: str, **values: Any) -> None:
        """A note, without what is not known."""
        self._open().note(kind, **{name: value for name, value in values.items() if not _is_none(value)})
        self.events += 1

    def totals(self, seq_id: int, **values: Any) -> None:
        """A request of which the log says only sums."""
        self.note("totals", seq_id=seq_id, **values)
        self.n_totals += 1

    def message(self, text: str, **values: Any) -> None:
        """A line for the reader. It does not begin a run: facts may still follow."""
        if self._begun:
            self._open().note("message", text=text, **values)
            return
        self._waiting.append({"text": text, **values})
        if len(self._waiting) > _MOST_WAITING:
            self._open()

    def doubt(self, line: Line, why: str) -> None:
        """A line that was dropped, or taken with a doubt: the reader is told which and why."""
        self.message(f"line {line.number}: {why}", line=line.number, source=line.text.strip()[:_MAX_SOURCE])
        self.doubts += 1
        self.cut = self.cut or not line.ended

    def close(self) -> None:
        """End the file; a log that was cut leaves a trace that says so."""
        if self._waiting:
            self._open()
        if self._writer is None:
            return
        if self.cut:
            self._writer.leave_unfinished()
        else:
            self._writer.end()  # with no word about what writing cost: it was not the engine's time
            self._writer.close()

    def _open(self) -> TraceWriter:
        if self._writer is None or not self._begun:
            declared = fields.declaration([*fields.REQUIRED, *self.names], self.shapes)
            run = {**self.facts, "fields": declared + self.extra}
            if self._writer is None:
                self._writer = TraceWriter(self._path, run, flush="interval", interval_ms=1000.0)
            else:
                self._writer.start_run(run)
            self._begun = True
            waiting, self._waiting = self._waiting, []
            for message in waiting:
                self._writer.note("message", **message)
        return self._writer


def _is_none(value: Any) -> bool:
    return value is None or (isinstance(value, float) and not math.isfinite(value))
