"""Writing a step trace: one frame a write, so that a file cut at any byte keeps every complete frame before it.

`record()` is what a Python engine uses (three lines, fields learnt from the first step); `TraceWriter` is the same
file one level down, for producers that declare their record themselves. Standard library only: gdb loads this.
"""

from __future__ import annotations

import fcntl
import operator
import os
import platform
import stat
import struct
import threading
import time
from datetime import datetime, timezone
from types import TracebackType
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Set, Tuple, Type, Union

from traces import fields, frames
from traces.fields import Column, FieldError, text_bytes

INTERVAL_MS = 50.0
_BUFFER_BYTES = 1 << 18


class TraceError(Exception):
    """A trace that cannot be written or read. The message names the file, the place and what to do."""


class TraceWriter:
    """Appends frames to one file.

    path: created or, if it already is a step trace (or empty), replaced; any other file is refused.
    run: the RUN object; needs `fields`. `format`, `version` and `started_at` are filled in.
    flush: "step" writes every step at once; "interval" gathers steps and writes them within `interval_ms`.
           At most what the policy names is lost when the process is killed.
    Raises TraceError where the file cannot be opened, is being written by somebody else, or the disk is full: what
    was written before stays readable.
    """

    def __init__(
        self,
        path: Union[str, "os.PathLike[str]"],
        run: Dict[str, Any],
        flush: str = "step",
        interval_ms: float = INTERVAL_MS,
    ) -> None:
        if flush not in ("step", "interval"):
            raise ValueError("flush is 'step' or 'interval', not %r" % (flush,))
        self.path = os.fspath(path)
        self.steps = 0
        self.cost_ns = 0
        self._start_ns = time.monotonic_ns()
        self._each_step = flush == "step"
        self._interval_s = interval_ms / 1000.0
        self._pending: List[bytes] = []
        self._pending_bytes = 0
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._flusher: Optional[threading.Thread] = None
        self._failed: Optional[TraceError] = None
        self._ended = False
        self._good_size = 0
        self._fd = -1
        layout = _Layout(run)  # a bad declaration must not cost the file that is there
        self._fd = _open_for_writing(self.path)
        self._layout = layout
        try:
            self._write(self._run_frame(run))
        except TraceError:
            self._give_up()
            raise

    def start_run(self, run: Dict[str, Any]) -> None:
        """Begin another run in the same file, with its own `fields`."""
        layout = _Layout(run)
        with self._lock:
            self._flush()
            self._layout = layout
            self._ended = False
            self._write(self._run_frame(run))

    def step(self, /, **values: Any) -> None:
        """Append one step, by field name; a field left out or None is absent.

        Per-layer fields take any sequence of the declared length. `phase` and `finish` take the code or its name.
        Raises FieldError for a name that the run did not declare or a value that does not fit.
        """
        began = time.perf_counter_ns()
        layout = self._layout
        text = values.get("text")
        if text is not None and (type(text) is not bytes or len(text) > fields.TEXT_BYTES or text[-1:] == b"\0"):
            values["text"] = text = _text_bytes(text)
            if len(text) > layout.text_bytes or text[-1:] == b"\0":
                self.note("text", step=self.steps, text=text.decode("utf-8", "surrogateescape"))
        record = layout.pack(values)
        with self._lock:
            if self._failed:
                raise self._failed
            self.steps += 1
            if self._each_step:
                self._write(frames.pack(frames.STEPS, 1, record))
            else:
                self._pending.append(record)
                self._pending_bytes += len(record)
                if self._pending_bytes >= _BUFFER_BYTES or len(self._pending) == frames.MAX_COUNT:
                    self._flush()
                else:
                    self._wake_flusher()
        self.cost_ns += time.perf_counter_ns() - began

    def append(self, record: bytes) -> None:
        """Append one step that is packed already, as fields.record_format(columns) says; nothing is checked."""
        began = time.perf_counter_ns()
        if not self._each_step:
            raise ValueError("packed records are for writers that write each step")
        self._write(frames.pack(frames.STEPS, 1, record))
        self.steps += 1
        self.cost_ns += time.perf_counter_ns() - began

    def note(self, /, kind: str, **facts: Any) -> None:
        """Append something that is not a step. It stands after every step written so far."""
        frame = frames.pack_json(frames.NOTE, {**facts, "kind": kind})
        with self._lock:
            self._flush()
            self._write(frame)

    def now_ns(self) -> int:
        """Nanoseconds since this writer was opened: the clock of `t_ns`."""
        return time.monotonic_ns() - self._start_ns

    def flush(self) -> None:
        """Write what is gathered now."""
        with self._lock:
            self._flush()

    def end(self, /, **facts: Any) -> None:
        """Write an END frame with just these facts; only another run may follow."""
        with self._lock:
            self._flush()
            self._write(frames.pack_json(frames.END, facts))
            self._ended = True

    def close(self, /, **end: Any) -> None:
        """Write the END frame, if it is not there, and close; a second call does nothing.

        It says how many steps were written and what writing them cost, unless the caller knows better.
        Raises TraceError where the disk is full.
        """
        if self._fd < 0:
            return
        try:
            if not self._ended:
                self.end(**{"steps": self.steps, "tracing_ms": round(self.cost_ns / 1e6, 3), **end})
        finally:
            self._give_up()

    def leave_unfinished(self) -> None:
        """Close without an END frame, because what was recorded was cut off: every view will say so."""
        try:
            self.flush()
        finally:
            self._give_up()

    def __enter__(self) -> "TraceWriter":
        return self

    def __exit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], where: Optional[TracebackType]
    ) -> None:
        self.close()

    def _run_frame(self, run: Dict[str, Any]) -> bytes:
        head = {
            "format": fields.FORMAT,
            "version": fields.VERSION,
            "started_at": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        }
        head.update(run)
        head["fields"] = [[c.name, c.dtype] + ([list(c.shape)] if c.shape else []) for c in self._layout.columns]
        return frames.pack_json(frames.RUN, head)

    def _flush(self) -> None:
        if self._pending:
            records, self._pending, self._pending_bytes = self._pending, [], 0
            self._write(frames.pack(frames.STEPS, len(records), b"".join(records)))

    def _write(self, frame: bytes) -> None:
        if self._failed:
            raise self._failed
        if self._fd < 0:
            raise TraceError("%s: the trace is already closed" % self.path)
        try:
            done = os.write(self._fd, frame)
            while done < len(frame):
                done += os.write(self._fd, frame[done:])
        except OSError as error:
            kept = "; the %d bytes written before are a readable trace" % self._good_size if self._good_size else ""
            self._failed = TraceError("%s: cannot write: %s%s" % (self.path, error.strerror, kept))
            self._cut_half_frame()
            raise self._failed from error
        self._good_size += len(frame)

    def _cut_half_frame(self) -> None:
        try:
            os.ftruncate(self._fd, self._good_size)
            os.lseek(self._fd, self._good_size, os.SEEK_SET)
        except OSError:
            pass  # a pipe or a device cannot be cut; a reader sees the half frame as a torn tail

    def _give_up(self) -> None:
        fd, self._fd = self._fd, -1
        self._wake.set()
        if fd >= 0:
            os.close(fd)

    def _wake_flusher(self) -> None:
        if self._flusher is None:
            self._flusher = threading.Thread(target=self._flush_pending, name="trace-flush", daemon=True)
            self._flusher.start()
        if not self._wake.is_set():
            self._wake.set()

    def _flush_pending(self) -> None:
        # a stalled engine must not keep finished steps to itself: what is gathered goes out within the interval
        while self._fd >= 0:
            self._wake.wait()
            time.sleep(self._interval_s)
            with self._lock:
                self._wake.clear()
                if self._fd < 0:
                    return
                try:
                    self._flush()
                except TraceError:
                    return  # the next step() raises it where the engine can see it


def _open_for_writing(path: str) -> int:
    try:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    except OSError as error:
        if not os.path.exists(path) or os.path.isdir(path) or not stat.S_ISCHR(os.stat(path).st_mode):
            raise TraceError("%s: cannot write a trace here: %s" % (path, error.strerror)) from None
        fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        if stat.S_ISREG(os.fstat(fd).st_mode):
            _claim(fd, path)
            os.ftruncate(fd, 0)
        return fd
    except TraceError:
        os.close(fd)
        raise
    except OSError as error:
        os.close(fd)
        raise TraceError("%s: cannot write a trace here: %s" % (path, error.strerror)) from None


def _claim(fd: int, path: str) -> None:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise TraceError("%s: another process is writing this trace; choose another name" % path) from None
    except OSError:
        pass  # a file system without locks
    start = os.pread(fd, len(frames.MAGIC), 0)
    if start and start != frames.MAGIC:
        raise TraceError("%s: exists and is not a step trace; choose another name or remove it" % path)


class _Segment(NamedTuple):
    """Part of a record: given scalars [first, last), a given array of `size`, or absent values."""

    first: int
    last: int
    size: int
    absent: Optional[List[Any]]


class _Layout:
    """How a run's records are packed, prepared once."""

    def __init__(self, run: Dict[str, Any]) -> None:
        self.columns = fields.columns(run.get("fields"))
        missing = [name for name in fields.REQUIRED if name not in {c.name for c in self.columns}]
        if missing:
            raise FieldError("the run's fields lack %s (their values may be absent)" % ", ".join(missing))
        self.names = frozenset(c.name for c in self.columns)
        self.text_bytes = max([c.size for c in self.columns if c.name == "text"] or [0])
        self._struct = struct.Struct(fields.record_format(self.columns))
        self._plans: Dict[Tuple[str, ...], Tuple[Callable[[Dict[str, Any]], Any], List[_Segment]]] = {}

    def pack(self, values: Dict[str, Any]) -> bytes:
        """One record. The fast way first; a value that does not fit as it is takes the careful way."""
        names = tuple(values)
        try:
            present, segments = self._plans.get(names) or self._plan(names)
            found = present(values)
            flat: List[Any] = []
            for first, last, size, absent in segments:
                if absent is not None:
                    flat += absent
                elif size:
                    array = found[first]
                    if len(array) != size:
                        return self._pack_carefully(values)
                    flat.extend(array)  # += would let a numpy array add itself
                else:
                    flat += found[first:last]
            return self._struct.pack(*flat)
        except (struct.error, TypeError, OverflowError, KeyError):
            return self._pack_carefully(values)

    def _plan(self, names: Tuple[str, ...]) -> Tuple[Callable[[Dict[str, Any]], Any], List[_Segment]]:
        """How to fill a record from values of these names: engines give the same names step after step, so the loop
        over columns is done once. Raises KeyError for a name that the run did not declare."""
        if not self.names.issuperset(names):
            raise KeyError(names)
        given = [c.name for c in self.columns if c.name in names]
        segments: List[_Segment] = []
        at = 0
        for column in self.columns:
            array = bool(column.shape) and not column.is_bytes
            if column.name not in names:
                absent = [b""] if column.is_bytes else [column.absent] * column.size
                segments.append(_Segment(0, 0, 0, absent))
                continue
            last = segments[-1] if segments else None
            if not array and last is not None and last.absent is None and not last.size:
                segments[-1] = last._replace(last=at + 1)
            else:
                segments.append(_Segment(at, at + 1, column.size if array else 0, None))
            at += 1
        present: Callable[[Dict[str, Any]], Any] = (
            operator.itemgetter(*given) if len(given) > 1 else (lambda values: [values[name] for name in given])
        )
        plan = present, segments
        if len(self._plans) < 256:  # a caller with ever new names gains nothing and must not fill the memory
            self._plans[names] = plan
        return plan

    def _pack_carefully(self, values: Dict[str, Any]) -> bytes:
        unknown = sorted(values.keys() - self.names)
        if unknown:
            raise FieldError(
                "the run does not declare %s: name it in `fields` before the first step (declared: %s)"
                % (", ".join(unknown), ", ".join(c.name for c in self.columns))
            )
        flat: List[Any] = []
        for column in self.columns:
            flat.extend(_fitted(column, values.get(column.name)))
        return self._struct.pack(*flat)


def _fitted(column: Column, value: Any) -> Sequence[Any]:
    """The values of one field, converted and checked. Raises FieldError."""
    if column.name == "phase" and isinstance(value, str):
        value = fields.PHASES.get(value, value)
    if column.name == "finish" and isinstance(value, str):
        value = fields.FINISH.get(value, value)
    if column.is_bytes:
        return [b"" if value is None else _text_bytes(value, column.name)[: column.size]]
    if value is None:
        return [column.absent] * column.size
    if not column.shape:
        return [_number(column, value)]
    try:
        items = list(value)
    except TypeError:
        raise FieldError("%s takes %d values, not %r" % (column.name, column.size, value)) from None
    if column.name == "draft_ids" and len(items) < column.size:
        items += [None] * (column.size - len(items))
    if len(items) != column.size:
        raise FieldError("%s takes %d values, not %d" % (column.name, column.size, len(items)))
    return [_number(column, item) for item in items]


def _text_bytes(value: Any, name: str = "text") -> bytes:
    if isinstance(value, str):
        return text_bytes(value)
    try:
        return bytes(memoryview(value)) if not isinstance(value, (list, tuple)) else bytes(value)
    except (TypeError, ValueError):
        raise FieldError("%s takes bytes or a string, not %r" % (name, value)) from None


def _number(column: Column, value: Any) -> Any:
    if value is None:
        return column.absent
    letter = fields.DTYPES[column.dtype][0]
    try:
        number = float(value) if letter in "fd" else _whole(value)
        struct.pack("<" + letter, number)
    except (struct.error, TypeError, ValueError, OverflowError):
        raise FieldError("%s holds %s; %r does not fit" % (column.name, column.dtype, value)) from None
    return number


def _whole(value: Any) -> int:
    number = int(value)
    if number != value:
        raise ValueError(value)
    return number


class Recorder:
    """What `record()` returns: a trace whose fields are learnt from its first step.

    The record gets the required fields, `t_ns`, what the first step named, the names in `fields`, and what a later
    decode step usually adds (token text, margin, drafts, times as totals), so that prefill may know less than decode.
    """

    _USUAL = (
        "t_ns total_ms forward_ms sample_ms gemm_ms attn_ms n_drafted n_accepted logit margin runner_up text"
    ).split()

    def __init__(
        self,
        path: Union[str, "os.PathLike[str]"],
        n_layers: Optional[int],
        extra: Sequence[str],
        flush: str,
        run: Dict[str, Any],
    ) -> None:
        self._path, self._n_layers, self._extra, self._flush = path, n_layers, list(extra), flush
        self._run = run
        self._writer: Optional[TraceWriter] = None
        self._waiting: List[Tuple[str, Dict[str, Any]]] = []
        self._open: Set[int] = set()
        self._start_ns = time.monotonic_ns()
        self._previous_end_ns = 0
        # an unusable path should be known at the start, not after the first forward
        os.close(_open_for_writing(os.fspath(path)))

    def now_ns(self) -> int:
        """Nanoseconds since the recording began: the clock of `t_ns`."""
        return time.monotonic_ns() - self._start_ns

    def request(self, seq_id: int = 0, **facts: Any) -> None:
        """A request arrives: prompt_tokens, n_reused, max_new_tokens, prompt, prompt_ids; `t_ns` defaults to now."""
        facts.setdefault("t_ns", self.now_ns())
        self._open.add(seq_id)
        self.note("request", seq_id=seq_id, **facts)
        self._previous_end_ns = facts["t_ns"]

    def note(self, /, kind: str, **facts: Any) -> None:
        """Something that is not a step; kinds are listed in FORMAT.md."""
        if self._writer is None:
            self._waiting.append((kind, facts))
        else:
            self._writer.note(kind, **facts)

    def step(self, **values: Any) -> None:
        """One step, by field name, called when the step is over.

        `seq_id` is 0 unless given; `phase` is prefill without a token_id, verify with n_drafted, else decode;
        `t_ns` is when the previous step (or the request) ended. Nothing else is filled in: what you do not pass is
        absent, and the rules that need it say so.
        Raises FieldError for a field that the first step did not have, or a value that does not fit.
        """
        values.setdefault("seq_id", 0)
        if values.get("phase") is None:
            drafted, sampled = values.get("n_drafted") is not None, values.get("token_id") is not None
            values["phase"] = "verify" if drafted else "decode" if sampled else "prefill"
        values.setdefault("t_ns", self._previous_end_ns)
        for name, codes in (("phase", fields.PHASES), ("finish", fields.FINISH)):
            word = values.get(name)
            if isinstance(word, str) and word in codes:
                values[name] = codes[word]
        writer = self._writer or self._begin(values)
        writer.step(**values)
        if values.get("finish"):
            self._open.discard(values["seq_id"])
        self._previous_end_ns = self.now_ns()

    def close(self, **end: Any) -> None:
        """Write the END frame. A recording without a step still becomes a valid, empty trace."""
        (self._writer or self._begin({})).close(**end)

    def __enter__(self) -> "Recorder":
        return self

    def __exit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], where: Optional[TracebackType]
    ) -> None:
        if kind is not None and not issubclass(kind, TraceError):
            reason = "abort" if issubclass(kind, KeyboardInterrupt) else "error"
            for seq_id in sorted(self._open):
                self.note("finish", seq_id=seq_id, finish=reason)
        if kind is None or not issubclass(kind, TraceError):
            self.close()

    def _begin(self, first: Dict[str, Any]) -> TraceWriter:
        shapes = {n: len(v) for n, v in first.items() if hasattr(v, "__len__") and not isinstance(v, (str, bytes))}
        if self._n_layers and "cache_len" not in first:
            shapes["cache_len"] = self._n_layers
        names = list(fields.REQUIRED) + list(self._USUAL)
        names = list(dict.fromkeys(names + list(first) + self._extra))
        unknown = [n for n in names if n not in fields.FIELDS]
        if unknown:
            raise FieldError("%s: not in the vocabulary; see FORMAT.md for the names" % ", ".join(unknown))
        if "draft_ids" in names:
            most = int(self._run.get("draft", {}).get("k", 16))
            shapes["draft_ids"] = max(shapes.get("draft_ids", 0), most)
        for name in self._extra:
            if fields.FIELDS[name].per_layer != "no" and self._n_layers:
                shapes.setdefault(name, self._n_layers)
        run = dict(self._run)
        run["fields"] = fields.declaration(names, shapes)
        writer = self._writer = TraceWriter(self._path, run, flush=self._flush)
        for kind, facts in self._waiting:
            writer.note(kind, **facts)
        self._waiting.clear()
        return writer


def record(
    path: Union[str, "os.PathLike[str]"],
    n_layers: Optional[int] = None,
    fields: Sequence[str] = (),  # noqa: A002 - the run's own word
    flush: str = "step",
    **run: Any,
) -> Recorder:
    """Record a loop of your own: `with traces.record("run.steps", n_layers=28) as trace: ...`.

    n_layers: layers with a full KV cache; pass `layers=[{"kind": ...}, ...]` instead where they differ.
    fields: names that later steps will have and the first does not.
    flush: "step" or "interval" (50 ms), see TraceWriter.
    run: facts of the run, by the names of FORMAT.md: model={"vocab_size": ...}, kv={"capacity": ...} and so on.
    Raises TraceError at once where the file cannot be written.
    """
    run.setdefault("producer", {"name": "traces.record"})
    run.setdefault("clock", "monotonic")
    run.setdefault("host", {"machine": platform.machine()})
    if n_layers:
        run["model"] = {"n_layers": n_layers, **(run.get("model") or {})}
        run.setdefault("layers", [{"kind": "full"}] * n_layers)
    elif run.get("layers"):
        n_layers = len(run["layers"])
    return Recorder(path, n_layers, fields, flush, run)
