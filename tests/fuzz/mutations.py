"""Changes to a sound input that keep most of its structure, so that what is broken is met deep inside a reader."""

from __future__ import annotations

import copy
import json
import struct
import zlib
from typing import Any

from hypothesis import strategies as st

HUGE = "@9…9@"
"""Becomes a number of 5,000 digits, which Python itself refuses to convert"""
INFINITE = "@1e999@"
STRINGS = ["", "\0", "\x1b]0;owned\x07", "\x1b[2J", "\u202etxet", "\ud83d", "a\nb", "=1+1", "<script>alert(1)</script>",
           "x" * 5000, "../../etc/passwd", "%s%n", "٣", "nan"]  # fmt: skip  # noqa: RUF001
NUMBERS = [
    0,
    1,
    -1,
    2,
    7,
    255,
    256,
    65535,
    65536,
    2**31 - 1,
    2**31,
    -(2**31),
    2**32,
    2**53 + 1,
    2**63 - 1,
    2**63,
    2**64,
    -(2**63) - 1,
    10**40,
    10**400,  # no float holds it
    0.5,
    -0.0,
    1e-320,
    1e308,
    float("nan"),
    float("inf"),
    float("-inf"),
    HUGE,
    INFINITE,
]
OTHERS = [None, True, False, [], {}, [[]], [None], [0] * 40, {"": None}, {"kind": []}, [{}], [1, "a", None]]
hostile = st.one_of(*map(st.sampled_from, (STRINGS, NUMBERS, OTHERS))).map(copy.deepcopy)
WORDS = st.sampled_from([0, 1, 2, 7, 8, 12, 0x7F, 0x80, 0xFF, 0x100, 0xFFFF, 0x10000, 0x7FFFFFFF, 0x80000000,
                         0xFFFFFFFF, 1 << 40, (1 << 63) - 1, 1 << 63, (1 << 64) - 1])  # fmt: skip


@st.composite
def changed_json(draw: st.DrawFn, value: Any) -> Any:
    """A JSON value with one to three of its parts replaced, removed, doubled or added to."""
    value = {"": copy.deepcopy(value)}
    for _ in range(draw(st.integers(1, 3))):
        _change(draw, value)
    return value.get("")


def _change(draw: st.DrawFn, value: Any) -> None:
    place = value
    while True:
        keys = list(place) if isinstance(place, dict) else list(range(len(place)))
        if not keys:
            return
        key = draw(st.sampled_from(keys))
        below = place[key]
        if isinstance(below, (dict, list)) and below and draw(st.integers(0, 3)):
            place = below
            continue
        break
    how = draw(st.sampled_from(["replace", "replace", "replace", "remove", "double", "add", "near"]))
    if how == "remove":
        del place[key]
    elif how == "double" and isinstance(place, list):
        place.insert(key, copy.deepcopy(below))
    elif how == "add" and isinstance(below, dict):
        below[draw(st.sampled_from(["kind", "seq_id", "text", "x\x1b[31m"]))] = draw(hostile)
    elif how == "near" and isinstance(below, int):
        place[key] = int(below) + draw(st.sampled_from([-1, 1, 8, -8]))
    else:
        place[key] = draw(hostile)


def json_text(value: Any, **options: Any) -> bytes:
    """As JSON, with the numbers that no Python value is."""
    text = json.dumps(value, **options)
    return text.replace(json.dumps(HUGE), "9" * 5000).replace(json.dumps(INFINITE), "1e999").encode()


@st.composite
def changed_lines(draw: st.DrawFn, text: str) -> bytes:
    """Text with lines dropped, doubled, swapped and cut, and numbers in them replaced."""
    lines = text.splitlines(keepends=True)
    for _ in range(draw(st.integers(1, 5))):
        at, other = (draw(st.integers(0, len(lines) - 1)) for _ in range(2))
        how = draw(st.sampled_from(["drop", "double", "swap", "number", "number", "cut", "insert"]))
        if how == "drop":
            lines[at] = ""
        elif how == "double":
            lines[at] *= 2
        elif how == "swap":
            lines[at], lines[other] = lines[other], lines[at]
        elif how == "number":
            lines[at] = _other_number(draw, lines[at])
        elif how == "cut":
            lines[at] = lines[at][: draw(st.integers(0, len(lines[at])))]
        else:
            lines[at] += str(draw(st.one_of(st.sampled_from(STRINGS), st.text(max_size=20)))) + "\n"
    return "".join(lines).encode("utf-8", "surrogatepass")


def _other_number(draw: st.DrawFn, line: str) -> str:
    places = [i for i, c in enumerate(line) if c.isdigit() and (not i or not line[i - 1].isdigit())]
    if not places:
        return line
    begin = draw(st.sampled_from(places))
    end = begin
    while end < len(line) and line[end].isdigit():
        end += 1
    new = draw(st.sampled_from(NUMBERS))
    return line[:begin] + {HUGE: "9" * 5000, INFINITE: "1e999"}.get(new, str(new)) + line[end:]


@st.composite
def changed_bytes(draw: st.DrawFn, data: bytes, first: int = 0, last: int | None = None) -> bytes:
    """Bytes with words overwritten in [first, last), pieces cut out or doubled, and perhaps the end cut off."""
    out = bytearray(data)
    for _ in range(draw(st.integers(1, 4))):
        stop = max(first + 1, min(len(out), last or len(out)))
        at = draw(st.integers(first, stop - 1))
        how = draw(st.sampled_from(["word", "word", "word", "flip", "out", "double"]))
        if how == "word":
            size = draw(st.sampled_from([1, 2, 4, 8]))
            out[at : at + size] = (draw(WORDS) & (1 << 8 * size) - 1).to_bytes(size, "little")
        elif how == "flip":
            out[at : at + 1] = bytes([(out[at] if at < len(out) else 0) ^ 1 << draw(st.integers(0, 7))])
        elif how == "out":
            del out[at : at + draw(st.integers(1, 64))]
        else:
            out[at:at] = out[at : at + draw(st.integers(1, 64))]
    return bytes(out[: draw(st.integers(0, len(out)))] if draw(st.integers(0, 5)) == 0 else out)


Frame = tuple[int, int, bytes]
"""(kind, count, payload) of a frame of a step trace"""


def plain_json(payload: bytes) -> Any:
    """What a JSON payload says; digits beyond what Python converts are left out."""
    return json.loads(payload, parse_int=lambda digits: int(digits[:4000]))


def frames_of(data: bytes) -> list[Frame]:
    """The frames of a sound trace, as FORMAT.md says; nothing of the reader is used."""
    out = []
    while data:
        magic, kind, count, length, _ = struct.unpack_from("<4sHHII", data)
        assert magic == b"STEP"
        out.append((kind, count, data[16 : 16 + length]))
        data = data[16 + length :]
    return out


def framed(kind: int, count: int, payload: bytes) -> bytes:
    """A sound frame."""
    payload += (b"\0" if kind == 2 else b" ") * (-len(payload) % 8)
    crc = zlib.crc32(payload, zlib.crc32(struct.pack("<HHI", kind, count, len(payload))))
    return struct.pack("<4sHHII", b"STEP", kind, count, len(payload), crc) + payload


@st.composite
def changed_trace(draw: st.DrawFn, data: bytes) -> bytes:
    """A trace with frames dropped, doubled and swapped; their JSON, records and headers changed."""
    parts = frames_of(data)
    raw: dict[int, bytes] = {}
    for _ in range(draw(st.integers(1, 4))):
        if not parts:
            break
        # the run description decides how all else is read
        at = 0 if draw(st.integers(0, 2)) == 0 else draw(st.integers(0, len(parts) - 1))
        kind, count, payload = parts[at]
        how = draw(st.sampled_from(["inside", "inside", "inside", "header", "drop", "double", "swap", "junk"]))
        if how == "inside" and kind != 2:
            payload = json_text(draw(changed_json(plain_json(payload))))
            parts[at] = (kind, count, payload)
        elif how == "inside":
            changed = draw(changed_bytes(payload))
            parts[at] = (kind, count, changed[: len(payload)].ljust(len(payload), b"\0"))
        elif how == "header":
            raw[at] = _wrong_header(draw, framed(kind, count, payload))
        elif how == "drop":
            del parts[at]
        elif how == "double":
            parts.insert(at, parts[at])
        elif how == "swap":
            other = draw(st.integers(0, len(parts) - 1))
            parts[at], parts[other] = parts[other], parts[at]
        else:
            raw[at] = framed(kind, count, payload) + draw(st.sampled_from([b"STEP", b"\0" * 24, b"STEP\2\0\1\0", b"x"]))
    out = b"".join(raw.get(i) or framed(*part) for i, part in enumerate(parts))
    return out[: draw(st.integers(0, len(out)))] if draw(st.integers(0, 6)) == 0 else out


def _wrong_header(draw: st.DrawFn, frame: bytes) -> bytes:
    """Kind, count or length changed; the CRC then right again, or not."""
    place, size = draw(st.sampled_from([(4, 2), (6, 2), (8, 4), (12, 4)]))
    value = draw(st.one_of(WORDS, st.integers(0, 300)))
    head = bytearray(frame[:16])
    head[place : place + size] = (value & (1 << 8 * size) - 1).to_bytes(size, "little")
    if draw(st.booleans()):
        covered = zlib.crc32(frame[16:], zlib.crc32(head[4:12]))
        head[12:16] = covered.to_bytes(4, "little")
    return bytes(head) + frame[16:]
