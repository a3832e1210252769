"""Hostile trace buffers: what a target's tracepoints collected comes over a wire, and a circular buffer is saved with
damage. Whatever stands in the file, reading it ends, takes no more memory than the file has bytes, and says what was
left out.
"""

from __future__ import annotations

import struct
import time

from hypothesis import given
from hypothesis import strategies as st

from gdb_scripts.backends.tracefile import Frame, FrameMemory, Lost, TraceFile, TraceFileError
from gdb_scripts.layout import Absent
from tests.fuzz.mutations import changed_bytes, changed_lines
from tests.fuzz.running import FUZZ, explore, limited

MAGIC = b"\x7fTRACE0\n"
HEAD = """\
R 10
status 1;tstop::0;tframes:6;tcreated:8;tfree:4e0000;tsize:4e2000;circular:0;disconn:0;starttime:5f5e100;stoptime:0
tsv 1:0:1:74726163655f74696d657374616d70
tsv 2:0:0:7365715f6c656e
tp T4:0000000000401136:E:0:0
tp A4:0000000000401136:R03FF
tp T5:0000000000401200:E:0:0
"""


def block(variables: dict[int, int], memory: dict[int, bytes]) -> bytes:
    """The blocks of one frame, as gdb's documentation of the format has them."""
    out = b"R" + bytes(16)
    for number, value in variables.items():
        out += b"V" + struct.pack("<iq", number, value)
    for address, data in memory.items():
        out += b"M" + struct.pack("<QH", address, len(data)) + data
    return out


def frame(tracepoint: int, blocks: bytes) -> bytes:
    return struct.pack("<HI", tracepoint, len(blocks)) + blocks


FRAMES = [
    frame(4 + step % 2, block({1: 1000 * step, 2: 25 + step}, {0x7FFE0000: bytes(range(16)), 0x4000: b"rows" * 8}))
    for step in range(6)
]
SOUND = MAGIC + HEAD.encode() + b"\n" + b"".join(FRAMES) + b"\0\0"


def read(data: bytes) -> list[Frame | Lost]:
    """Everything in a file, and the promises that hold of any: refused with one line, or read to its end."""
    try:
        file = TraceFile(data)
        assert file.overwritten >= 0
        assert file.start_us is None or file.start_us >= 0
        found = list(file.frames())
    except TraceFileError as problem:
        assert str(problem)
        assert "\n" not in str(problem)
        return []
    frames = [part for part in found if isinstance(part, Frame)]
    assert sum(map(_size, frames)) + sum(part.size for part in found if isinstance(part, Lost)) <= len(data)
    for part in frames:
        memory = FrameMemory(part, {"a": 1, "b": 99}, by_address={"b"})
        for take in (lambda: memory.read_block(0x4000, 1 << 40), lambda: memory.read_variable("b", 8)):  # noqa: B023
            try:
                take()
            except Absent as absent:
                assert "not collected" in str(absent)
    return found


def _size(part: Frame) -> int:
    return 6 + 13 * len(part.variables) + sum(11 + len(data) for data in part.memory.values())


def test_the_sound_file_is_read_as_it_was_written() -> None:
    found = read(SOUND)
    assert [part.variables[2] for part in found if isinstance(part, Frame)] == [25, 26, 27, 28, 29, 30]
    assert TraceFile(SOUND).overwritten == 2
    assert TraceFile(SOUND).start_us == 100_000_000


def test_damage_costs_only_the_frames_that_it_touches() -> None:
    cut = MAGIC + HEAD.encode() + b"\n" + FRAMES[0] + FRAMES[1] + FRAMES[2][40:] + b"".join(FRAMES[3:]) + b"\0\0"
    found = read(cut)
    assert [part.variables[2] for part in found if isinstance(part, Frame)] == [25, 26, 28, 29, 30]
    assert [part.size for part in found if isinstance(part, Lost)] == [len(FRAMES[2]) - 40]


def test_a_damaged_head_is_refused_by_its_line() -> None:
    for line, number in (("R -10", 2), ("R 1_0", 2), ("tsv x:0:0:61", 2), ("tsv 1:0:0:6", 2), ("tp T:1", 2)):
        for data in (MAGIC + line.encode() + b"\n\n", MAGIC + b"status 1;starttime:zz\n\n"):
            try:
                TraceFile(data)
            except TraceFileError as problem:
                assert str(problem) == f"line {number} of its head is damaged"
            else:
                raise AssertionError(data)


def test_changed_frames() -> None:
    @FUZZ
    @given(changed_bytes(SOUND, first=SOUND.index(b"\n\n") + 2))
    def property_(data: bytes) -> None:
        with limited():
            read(data)

    explore(property_)


def test_changed_heads() -> None:
    @FUZZ
    @given(changed_lines(HEAD))
    def property_(head: bytes) -> None:
        with limited():
            read(MAGIC + head + b"\n" + b"".join(FRAMES))

    explore(property_)


@st.composite
def hostile_frames(draw: st.DrawFn) -> bytes:
    """Frames whose lengths lead beyond the frame or the file, of unknown kinds and tracepoints, cut anywhere."""
    out = b""
    for _ in range(draw(st.integers(1, 12))):
        length = draw(st.sampled_from([0, 1, 8, 0xFF, 0x7FFF, 0xFFFF]))
        piece = draw(
            st.sampled_from(
                [
                    b"M" + struct.pack("<QH", 2**64 - 1, length) + bytes(8),
                    b"V" + struct.pack("<iq", -(2**31), -(2**63)),
                    b"S" + struct.pack("<H", length),
                    b"R",
                    b"Q" * 5,
                    block({1: 2**63 - 1}, {0: b""}),
                ]
            )
        )
        size = draw(st.sampled_from([None, 0, 1, 0xFFFFFFFF, 0x7FFFFFFF, len(piece) - 1]))
        tracepoint = draw(st.sampled_from([4, 5, 6, 0xFFFF]))
        out += struct.pack("<HI", tracepoint, len(piece) if size is None else size) + piece
        out += draw(st.sampled_from([b"", FRAMES[0], FRAMES[1][: draw(st.integers(0, len(FRAMES[1])))]]))
    return out


def test_frames_that_lie_about_their_lengths() -> None:
    @FUZZ
    @given(hostile_frames())
    def property_(frames: bytes) -> None:
        with limited():
            read(MAGIC + HEAD.encode() + b"\n" + FRAMES[0] + frames)

    explore(property_)


def test_damage_that_begins_like_a_frame_at_every_place_does_not_cost_its_square() -> None:
    begin = MAGIC + HEAD.encode() + b"\n" + FRAMES[0] + FRAMES[1]

    def seconds(n: int) -> float:
        began = time.perf_counter()
        read(begin + FRAMES[0][:6] * n)
        return time.perf_counter() - began

    seconds(1000)
    small, large = (min(seconds(n) for _ in range(3)) for n in (20_000, 160_000))
    assert large < 8 * small * 3
