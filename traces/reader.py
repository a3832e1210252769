"""Reading a step trace front to back: runs, steps, notes, what is damaged, and whether the file was cut off.

`scan()` finds frames in a file that may be damaged or still growing; `Decoder` turns records into values; `events()`
joins the two. Standard library only: gdb loads this. Whole columns at once are table.py's.
"""

from __future__ import annotations

import os
import stat
import struct
from typing import Any, BinaryIO, Callable, Dict, Iterator, List, NamedTuple, Optional, Tuple, Union

from traces import fields, frames
from traces.fields import Column, FieldError
from traces.frames import HEADER_SIZE, Header, json_text
from traces.writer import TraceError

Read = Callable[[int, int], bytes]
"""(offset, length) -> up to that many bytes of the file"""

_WINDOW = 1 << 20


class Source:
    """The bytes of a trace by position: a file that may grow, or a byte string. Nothing is mapped, so a file that
    shrinks under us gives short reads, never a signal."""

    def __init__(self, path: Union[str, "os.PathLike[str]"], data: Optional[bytes] = None) -> None:
        """Raises TraceError where `path` is missing, a directory or unreadable."""
        self.path = os.fspath(path)
        self._data = data
        self._file: Optional[BinaryIO] = None
        if data is None:
            try:
                mode = os.stat(self.path).st_mode
                if not stat.S_ISREG(mode):  # opening a pipe would wait for a writer
                    what = "a directory" if stat.S_ISDIR(mode) else "not a regular file"
                    raise TraceError("%s: cannot read: it is %s" % (self.path, what))
                self._file = open(self.path, "rb", buffering=0)  # noqa: SIM115 - closed by close()
            except OSError as error:
                raise TraceError("%s: cannot read: %s" % (self.path, error.strerror)) from None
            except ValueError as error:  # a name with a NUL byte
                raise TraceError("%s: cannot read: %s" % (self.path, error)) from None

    @property
    def size(self) -> int:
        """Bytes there now."""
        if self._file is None:
            return len(self._data or b"")
        return os.fstat(self._file.fileno()).st_size

    def read(self, offset: int, length: int) -> bytes:
        """Up to `length` bytes from `offset`. Raises TraceError where the medium fails."""
        if self._file is None:
            return (self._data or b"")[offset : offset + length]
        try:
            return os.pread(self._file.fileno(), length, offset)
        except OSError as error:
            raise TraceError("%s: cannot read at byte %d: %s" % (self.path, offset, error.strerror)) from None
        except ValueError:
            raise TraceError("%s: was closed" % self.path) from None

    def replaced(self) -> bool:
        """Whether the path names another file now, or none."""
        if self._file is None:
            return False
        mine = os.fstat(self._file.fileno())
        try:
            there = os.stat(self.path)
        except OSError:
            return True
        return (mine.st_dev, mine.st_ino) != (there.st_dev, there.st_ino)

    def close(self) -> None:
        """Give the file back."""
        if self._file is not None:
            self._file.close()


class Frame(NamedTuple):
    """A frame in place: `start` is its header's offset. `damaged`: its payload fails the CRC, the header is sound."""

    start: int
    header: Header
    damaged: bool

    @property
    def end(self) -> int:
        return self.start + HEADER_SIZE + self.header.length


class Damage(NamedTuple):
    """Bytes [start, end) that hold no sound frame; `steps` of them keep their numbers (a damaged frame in place)."""

    start: int
    end: int
    steps: int


def probe(read: Read, offset: int, size: int, verify: bool = True) -> Optional[Frame]:
    """The frame at `offset` of a file of `size` bytes, or None where there is none.

    A frame is in place when its header is plausible and another plausible header, or the end, follows. With `verify`
    its CRC is computed; a frame that is in place and fails it is `damaged` but keeps its steps' numbers. A frame that
    is not in place counts only when its CRC holds.
    """
    header = frames.header_at(read(offset, HEADER_SIZE))
    if header is None:
        return None
    end = offset + HEADER_SIZE + header.length
    if end > size:
        return None
    in_place = end == size or size - end < HEADER_SIZE or frames.header_at(read(end, HEADER_SIZE)) is not None
    if in_place and not verify:
        return Frame(offset, header, False)
    intact = frames.intact(header, read(offset + HEADER_SIZE, header.length))
    return Frame(offset, header, not intact) if intact or in_place else None


def next_frame(read: Read, offset: int, size: int) -> Optional[int]:
    """The offset of the next frame at or after `offset` whose CRC holds, or None."""
    at = offset
    while at < size:
        window = read(at, _WINDOW)
        if len(window) < HEADER_SIZE:
            return None
        found = window.find(frames.MAGIC)
        while found >= 0:
            here = at + found
            header = frames.header_at(read(here, HEADER_SIZE))
            if (
                header is not None
                and here + HEADER_SIZE + header.length <= size
                and frames.intact(header, read(here + HEADER_SIZE, header.length))
            ):
                return here
            found = window.find(frames.MAGIC, found + 1)
        at += len(window) - len(frames.MAGIC) + 1
    return None


def scan(read: Read, size: int, offset: int = 0) -> Iterator[Union[Frame, Damage]]:
    """The frames and the damage from `offset` on. What no sound frame follows is not reported: it is a torn tail,
    from the last end to `size`, and may still be growing."""
    while offset < size:
        frame = probe(read, offset, size)
        if frame is not None:
            yield frame
            offset = frame.end
            continue
        after = next_frame(read, offset + 1, size)
        if after is None:
            return
        yield Damage(offset, after, 0)
        offset = after


class Decoder:
    """Values of the records of one run."""

    def __init__(self, run: Dict[str, Any], path: str) -> None:
        """Raises TraceError where the RUN object is not one this version can read."""
        if run.get("format") not in (None, fields.FORMAT):
            raise TraceError(
                '%s: not a step trace: its format is %s, not "%s"' % (path, json_text(run.get("format")), fields.FORMAT)
            )
        version = run.get("version", fields.VERSION)
        if not isinstance(version, int) or isinstance(version, bool) or version > fields.VERSION:
            raise TraceError(
                "%s: written in version %s of the format, this stepscope reads up to %d; update stepscope"
                % (path, json_text(version), fields.VERSION)
            )
        try:
            self.columns: List[Column] = fields.columns(run.get("fields"))
        except FieldError as error:
            raise TraceError("%s: its run description is unusable: %s" % (path, error)) from None
        missing = [name for name in fields.REQUIRED if name not in {c.name for c in self.columns}]
        if missing:
            raise TraceError("%s: its run description lacks the fields %s" % (path, ", ".join(missing)))
        self.run = run
        self.record_size = fields.record_size(self.columns)
        self._struct = struct.Struct(fields.record_format(self.columns))
        self._slots: List[Tuple[str, int, int]] = []
        at = 0
        for column in self.columns:
            width = 1 if column.is_bytes else column.size
            self._slots.append((column.name, at, at + width if column.shape and not column.is_bytes else -1))
            at += width

    def holds(self, header: Header) -> bool:
        """Whether a STEPS header has the length that its count of this run's records needs."""
        used = header.n_records * self.record_size
        return header.length == used + (-used % 8)

    def raw(self, payload: bytes, count: int) -> Iterator[Dict[str, Any]]:
        """The records of a payload, by field name; absent values are the format's own (-1, NaN ...)."""
        for flat in self._struct.iter_unpack(payload[: count * self.record_size]):
            yield {name: flat[a] if b < 0 else flat[a:b] for name, a, b in self._slots}

    def plain(self, record: Dict[str, Any]) -> Dict[str, Any]:
        """A record as people and JSON read it: names for codes, None for absent, text as a string."""
        return {c.name: plain_value(c, record[c.name]) for c in self.columns}


def plain_value(column: Column, value: Any) -> Any:
    """One field as JSON says it. Half characters of `text` are lone surrogates."""
    if column.is_bytes:
        text = bytes(value).rstrip(b"\0")
        return text.decode("utf-8", "surrogateescape") if text else None
    if column.name == "phase":
        return fields.PHASE_NAMES.get(value, value)
    if column.name == "finish":
        return None if value == 0 else fields.FINISH_NAMES.get(value, value)
    if column.shape:
        items = [_present(column, v) for v in value]
        if column.name == "draft_ids":
            while items and items[-1] is None:
                items.pop()
        return None if all(v is None for v in items) else items
    return _present(column, value)


def _present(column: Column, value: Any) -> Any:
    if value != value or (column.dtype not in ("U8", "U16") and value == column.absent):
        return None
    return shortest_f32(value) if column.dtype == "F32" else value


def shortest_f32(value: float) -> float:
    """The double with the fewest digits that is the same F32 value: 2.4, not 2.4000000953674316."""
    short = float("%.7g" % value)
    return short if _F32.unpack(_F32.pack(short))[0] == value else float("%.9g" % value)


_F32 = struct.Struct("<f")


Event = Tuple[str, Any]
"""("run", dict), ("step", record), ("note", dict), ("end", dict) or ("damage", Damage)"""


class Reader:
    """A trace front to back, and on from there while it grows.

    `decoder` is the current run's once its RUN frame was seen; `position` is the offset after the last event;
    `complete` says whether the last thing read was an END frame.
    """

    def __init__(self, source: Source) -> None:
        self.source = source
        self.position = 0
        self.steps = 0
        self.complete = False
        self.decoder: Optional[Decoder] = None

    def events(self) -> Iterator[Event]:
        """What is there now and was not yet read. Raises TraceError where the file is not a step trace at all."""
        size = self.source.size
        if size and self.position == 0:
            not_a_trace(self.source)
        for found in scan(self.source.read, size, self.position):
            if isinstance(found, Damage):
                self.position = found.end
                yield "damage", found
                continue
            yield from self._frame(found)
            self.position = found.end

    def _frame(self, frame: Frame) -> Iterator[Event]:
        header = frame.header
        if header.kind == frames.STEPS:
            yield from self._steps(frame)
            return
        if frame.damaged:
            if self.decoder is None:
                raise unreadable_run(self.source.path, frame)
            yield "damage", Damage(frame.start, frame.end, 0)
            return
        if header.kind not in (frames.RUN, frames.NOTE, frames.END):
            return  # of a later version
        value = frames.parse_json(self.source.read(frame.start + HEADER_SIZE, header.length))
        if value is None:
            yield "damage", Damage(frame.start, frame.end, 0)
        elif header.kind == frames.RUN:
            self.decoder = Decoder(value, self.source.path)
            self.complete = False
            yield "run", value
        elif header.kind == frames.NOTE:
            yield "note", value
        elif header.kind == frames.END:
            self.complete = True
            yield "end", value

    def _steps(self, frame: Frame) -> Iterator[Event]:
        if self.decoder is None:
            raise TraceError("%s: steps before any run description; not a step trace" % self.source.path)
        self.complete = False
        if not self.decoder.holds(frame.header):
            yield "damage", Damage(frame.start, frame.end, 0)
            return
        if frame.damaged:
            self.steps += frame.header.n_records
            yield "damage", Damage(frame.start, frame.end, frame.header.n_records)
            return
        payload = self.source.read(frame.start + HEADER_SIZE, frame.header.length)
        for record in self.decoder.raw(payload, frame.header.n_records):
            self.steps += 1
            yield "step", record


def not_a_trace(source: Source) -> None:
    """Raises TraceError where the file does not begin like a step trace."""
    start = source.read(0, len(frames.MAGIC))
    if start == frames.MAGIC[: len(start)]:
        return
    if next_frame(source.read, 0, source.size) is not None:
        raise TraceError("%s: its first frame, the run description, is damaged; nothing can be read" % source.path)
    hint = "; if it is JSON Lines: stepscope import jsonl %s" % source.path if start[:1] == b"{" else ""
    raise TraceError("%s: not a step trace (it does not begin with STEP)%s" % (source.path, hint))


def unreadable_run(path: str, frame: Frame) -> TraceError:
    """The error for a file whose run description is damaged."""
    return TraceError(
        "%s: its run description (bytes %d to %d) is damaged; nothing can be read" % (path, frame.start, frame.end)
    )
