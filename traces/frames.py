"""Framing: how records and notes are packed into a file that survives being cut at any byte.

    frame := "STEP" | kind u16 | count u16 | length u32 | crc32 u32 | payload      (little-endian)

`length` is the payload's size including the padding that makes it a multiple of 8; the CRC covers kind, count,
length and payload. Nothing here knows what a payload means.
"""

from __future__ import annotations

import json
import struct
import zlib
from typing import Any, Dict, NamedTuple, Optional

MAGIC = b"STEP"
RUN, STEPS, NOTE, END = 1, 2, 3, 4
MAX_KIND = 15
"""Kinds 5 to 15 are for later versions: a reader steps over those it does not know."""

HEADER = struct.Struct("<4sHHII")
HEADER_SIZE = HEADER.size
MAX_COUNT = 0xFFFF
MAX_LENGTH = 1 << 28
"""No honest frame is larger (256 MiB); a length beyond it is damage and is never allocated."""

_COVERED = struct.Struct("<HHI")


class Header(NamedTuple):
    """The 16 bytes before a payload."""

    kind: int
    n_records: int
    length: int
    crc: int


def pack(kind: int, count: int, payload: bytes) -> bytes:
    """One frame, padded: JSON payloads with spaces, records with zero bytes."""
    short = -len(payload) % 8
    if short:
        payload += (b"\0" if kind == STEPS else b" ") * short
    crc = zlib.crc32(payload, zlib.crc32(_COVERED.pack(kind, count, len(payload))))
    return HEADER.pack(MAGIC, kind, count, len(payload), crc) + payload


def pack_json(kind: int, value: Dict[str, Any]) -> bytes:
    """A RUN, NOTE or END frame. NaN and infinity become null: JSON has neither."""
    return pack(kind, 1, json_text(value).encode("ascii"))


def json_text(value: Any) -> str:
    """Compact ASCII JSON of plain data; NaN and infinity are null."""
    try:
        return json.dumps(value, separators=(",", ":"), allow_nan=False)
    except ValueError:
        return json.dumps(_finite(value), separators=(",", ":"), allow_nan=False)


def json_kind(value: Any) -> str:
    """What a value read from JSON is, for a message: `a list`, `null`."""
    kinds = {dict: "an object", list: "a list", str: "a string", bool: "true or false", type(None): "null"}
    return kinds.get(type(value), "a number")


def _finite(value: Any) -> Any:
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return None
    if isinstance(value, dict):
        return {k: _finite(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(v) for v in value]
    return value


def header_at(data: bytes, offset: int = 0) -> Optional[Header]:
    """The header at `offset`, or None where 16 bytes of a plausible one are not there."""
    if len(data) - offset < HEADER_SIZE:
        return None
    magic, kind, count, length, crc = HEADER.unpack_from(data, offset)
    if magic != MAGIC or not RUN <= kind <= MAX_KIND or length % 8 or length > MAX_LENGTH:
        return None
    return Header(kind, count, length, crc)


def intact(header: Header, payload: bytes) -> bool:
    """Whether the payload is the one the header was written for."""
    crc = zlib.crc32(_COVERED.pack(header.kind, header.n_records, header.length))
    return len(payload) == header.length and zlib.crc32(payload, crc) == header.crc


def parse_json(payload: bytes) -> Optional[Dict[str, Any]]:
    """A JSON payload as a dict, or None where it is not one (damage that the CRC did not see, or a foreign writer)."""
    decoder = _BOUNDED if has_large_integer(payload) else _PLAIN
    try:
        value = decoder.decode(payload.decode("utf-8"))
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def has_large_integer(text: bytes) -> bool:
    """Whether JSON may hold an integer that wants bounded_int; a call for each integer takes longer than all else."""
    return _LARGE in text.translate(_DIGITS_ALIKE)


def bounded_int(digits: str) -> Any:
    """For json.loads: an integer of more than 20 digits, which no field holds, as a float.

    A large int raises OverflowError wherever it meets a float, and nothing here counts that far.
    """
    return int(digits) if len(digits) <= 20 else float(digits)


_PLAIN = json.JSONDecoder(parse_constant=lambda _: None)
_BOUNDED = json.JSONDecoder(parse_constant=lambda _: None, parse_int=lambda digits: _finite(bounded_int(digits)))
_DIGITS_ALIKE, _LARGE = bytes.maketrans(b"123456789", b"000000000"), b"0" * 20
