"""What gdbserver's tracepoints collected, read from the file that `tsave` writes.

    "\\x7fTRACE0\\n", text (R SIZE · status … · tsv N:VALUE:BUILTIN:HEXNAME · tp … · tdesc …), an empty one, frame*
    frame := tracepoint u16 | size u32 | block*            (little-endian, as the targets are; tracepoint 0: the end)
    block := "M" address u64, length u16, bytes | "V" variable i32, value i64 | "R" registers | "S" length u16, bytes

A circular buffer is saved with a fault: where it wraps, up to some thousand bytes are something else. Frames of one
tracepoint all have the same shape, so what has another one is damage; reading goes on at the next frame of a known
shape, and what was left out is a Lost.
"""

from __future__ import annotations

import re
import struct
from typing import Any, Container, Dict, Iterator, List, NamedTuple, Optional, Set, Tuple, Union

from gdb_scripts.layout import UNREADABLE, Absent, Memory

MAGIC = b"\x7fTRACE0\n"
_HEAD = struct.Struct("<HI")
_MEMORY = struct.Struct("<QH")
_VARIABLE = struct.Struct("<iq")
_LENGTH = struct.Struct("<H")
_Shape = Tuple[int, ...]
_NUMBERS = {"starttime", "tcreated", "tframes"}
"""What is read of the target's status."""


class TraceFileError(ValueError):
    """Not a trace file; the message says what is wrong."""


def _hexadecimal(text: str) -> int:
    """A number as the remote protocol writes it. Raises ValueError: int() would also take a sign, blanks and _."""
    if re.fullmatch("[0-9a-fA-F]{1,16}", text) is None:
        raise ValueError(text)
    return int(text, 16)


class Frame(NamedTuple):
    """One hit of a tracepoint: trace state variables by number, memory by address."""

    tracepoint: int
    variables: Dict[int, int]
    memory: Dict[int, bytes]


class Lost(NamedTuple):
    """Bytes that are no frames."""

    size: int


class TraceFile:
    """A saved trace buffer.

    variables: number -> name, without $. status: what the target said of the run, keys as in the remote protocol
    (tframes, tcreated, tfree, tsize in hexadecimal; circular; tfull where the buffer filled up and tracing stopped).
    """

    def __init__(self, data: bytes) -> None:
        end = data.find(b"\n\n")
        if not data.startswith(MAGIC) or end < 0:
            raise TraceFileError("not a file that gdb's tsave wrote")
        self._data, self._at = data, end + 2
        self._registers = 0
        self._tracepoints: Set[int] = set()
        self.variables: Dict[int, str] = {}
        self.status: Dict[str, str] = {}
        for number, line in enumerate(data[len(MAGIC) : end].decode("latin-1").split("\n"), 2):
            try:
                self._define(*line.split(" ", 1))
            except ValueError:
                raise TraceFileError("line %d of its head is damaged" % number) from None

    def _define(self, word: str, rest: str = "") -> None:
        """Take in one line of the head. Raises ValueError."""
        if word == "R":
            self._registers = _hexadecimal(rest)
        elif word == "status":
            self.status = {key: value for key, _, value in (part.partition(":") for part in rest.split(";"))}
            for key in self.status.keys() & _NUMBERS:
                _hexadecimal(self.status[key])
        elif word == "tp" and rest.startswith("T"):
            self._tracepoints.add(_hexadecimal(rest[1:].partition(":")[0]))
        elif word == "tsv":
            number, _, more = rest.partition(":")
            self.variables[_hexadecimal(number)] = bytes.fromhex(more.rpartition(":")[2]).decode("latin-1")

    @classmethod
    def read(cls, path: str) -> "TraceFile":
        """The file at `path`. Raises TraceFileError, OSError."""
        with open(path, "rb") as file:
            return cls(file.read())

    @property
    def start_us(self) -> Optional[int]:
        """The target's clock when tracing began: the one of $trace_timestamp."""
        started = self.status.get("starttime")
        return int(started, 16) if started else None

    @property
    def was_full(self) -> bool:
        """Whether tracing stopped because the buffer had no more room."""
        return "tfull" in self.status

    @property
    def overwritten(self) -> int:
        """Frames that a circular buffer gave up for newer ones."""
        created, kept = self.status.get("tcreated"), self.status.get("tframes")
        return max(int(created, 16) - int(kept, 16), 0) if created and kept else 0

    def frames(self) -> Iterator[Union[Frame, Lost]]:
        """Every frame, oldest first, and what was damaged between them."""
        data, at = self._data, self._at
        shapes: Dict[int, _Shape] = {}
        places: Dict[bytes, int] = {}
        lost_from = -1
        while at + 2 <= len(data):
            if lost_from < 0 and data[at : at + 2] == b"\0\0":
                return
            found = self._frame(at, shapes)
            if found is not None:
                if lost_from >= 0:
                    yield Lost(at - lost_from)
                    lost_from = -1
                frame, at, head = found
                places.setdefault(head, at)
                yield frame
                continue
            lost_from = at if lost_from < 0 else lost_from
            at = _next_place(data, at + 1, places)
        if lost_from >= 0 or at < len(data):
            yield Lost(len(data) - (at if lost_from < 0 else lost_from))

    def _frame(self, at: int, shapes: Dict[int, _Shape]) -> Optional[Tuple[Frame, int, bytes]]:
        """The frame at a place, where it ends, and its first bytes; None where no sound frame stands there."""
        data = self._data
        if at + _HEAD.size > len(data):
            return None
        number, size = _HEAD.unpack_from(data, at)
        begin, end = at + _HEAD.size, at + _HEAD.size + size
        if end > len(data) or number not in self._tracepoints:
            return None
        variables: Dict[int, int] = {}
        memory: Dict[int, bytes] = {}
        shape: List[int] = [size]
        known = shapes.get(number)
        here = begin
        while here < end:
            if known is not None and shape[-1:] != list(known[len(shape) - 1 : len(shape)]):
                return None  # at once: damage may hold thousands of places that begin as a frame does
            kind = data[here]
            if kind == 0x56:  # V
                if here + 13 > end:
                    return None
                variable, value = _VARIABLE.unpack_from(data, here + 1)
                variables[variable] = value
                shape.append(-1 - variable)
                here += 13
            elif kind == 0x4D:  # M
                if here + 11 > end:
                    return None
                address, length = _MEMORY.unpack_from(data, here + 1)
                here += 11 + length
                if length > len(memory.get(address, b"")):
                    memory[address] = data[here - length : here]
                shape.append(length)
            elif kind == 0x52:  # R
                here += 1 + self._registers
            elif kind == 0x53 and here + 3 <= end:  # S
                here += 3 + int(_LENGTH.unpack_from(data, here + 1)[0])
            else:
                return None
        if here != end or shapes.setdefault(number, tuple(shape)) != tuple(shape):
            return None
        return Frame(number, variables, memory), end, data[at:begin]


def _next_place(data: bytes, behind: int, places: Dict[bytes, int]) -> int:
    """Where the next frame of a known head may stand, the data's end where none does. places: head -> its last place
    found, kept because a search that finds nothing goes through the whole file."""
    for head, place in places.items():
        if place < behind:
            found = data.find(head, behind)
            places[head] = found if found >= 0 else len(data)
    return min(places.values(), default=len(data))


class FrameMemory(Memory):
    """What one frame collected, for layout.Plan.

    numbers: variable or register -> the trace state variable with its value; with its address for those in
    `by_address`.
    """

    def __init__(self, frame: Frame, numbers: Dict[str, int], by_address: Container[str] = ()) -> None:
        self._frame, self._numbers, self._by_address = frame, numbers, by_address

    def read_block(self, address: int, size: int) -> bytes:
        data = self._frame.memory.get(address)
        if data is not None and len(data) >= size:
            return data if len(data) == size else data[:size]
        for start, data in self._frame.memory.items():
            if start <= address and address + size <= start + len(data):
                return data[address - start : address - start + size]
        raise Absent(UNREADABLE, "%d bytes at 0x%x were not collected" % (size, address))

    def read_variable(self, key: str, size: int) -> bytes:
        if key in self._by_address:
            return self.read_block(self._value(key), size)
        return (self._value(key) & ((1 << 8 * size) - 1)).to_bytes(size, "little")

    def read_scalar(self, key: str, size: int, kind: str) -> Any:
        if key in self._by_address or kind == "float":
            return super().read_scalar(key, size, kind)
        number = self._value(key) & ((1 << 8 * size) - 1)
        return number - (1 << 8 * size) if kind == "int" and number >> (8 * size - 1) else number

    def _value(self, key: str) -> int:
        try:
            return self._frame.variables[self._numbers[key]]
        except KeyError:
            raise Absent(UNREADABLE, "%s was not collected" % key) from None
