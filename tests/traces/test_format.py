"""FORMAT.md and the code say the same, and a file made by hand from FORMAT.md alone is read."""

from __future__ import annotations

import json
import re
import struct
import zlib
from pathlib import Path
from typing import Any

import pytest

import traces
from traces import fields, frames
from traces.reader import Reader, Source
from traces.table import Table
from traces.writer import TraceWriter

FORMAT = (Path(traces.__file__).parent / "FORMAT.md").read_text()


def test_every_field_stands_in_the_page_with_its_type_and_meaning() -> None:
    listed = re.findall(r"^\| `(\w+)` \| (\w+)(?:\[\w+\])? \| (\w+) \| ([^|]+) \| ([^|]+) \|$", FORMAT, re.M)
    assert [tuple(cell.strip() for cell in row) for row in listed] == [tuple(f) for f in fields.FIELDS.values()]


def test_every_note_kind_stands_in_the_page() -> None:
    section = FORMAT.split("## NOTE")[1].split("## END")[0]
    assert dict(re.findall(r"^\| `(\w+)` \| ([^|]+) \|$", section, re.M)) == fields.NOTES


def test_the_numbers_of_the_page_are_those_of_the_code() -> None:
    kinds = dict(re.findall(r"^\| (\d) \| (\w+) \|", FORMAT, re.M))
    assert kinds == {"1": "RUN", "2": "STEPS", "3": "NOTE", "4": "END"}
    assert (frames.RUN, frames.STEPS, frames.NOTE, frames.END) == (1, 2, 3, 4)
    assert f"version {fields.VERSION}" in FORMAT.splitlines()[0]
    assert f"A payload is at most {frames.MAX_LENGTH >> 20} MiB" in FORMAT
    assert f"A record is at most {fields.MAX_RECORD_BYTES >> 20} MiB" in FORMAT
    for dtype, (_, _, absent) in fields.DTYPES.items():
        assert f"{dtype}" in FORMAT
        if dtype[0] in "IU" and absent:
            assert str(absent).replace("-", "−") in FORMAT
    for name, code in [*fields.PHASES.items(), *fields.FINISH.items()]:
        assert f"{code} {name}" in FORMAT


@pytest.mark.parametrize(
    ("declared", "says"),
    [
        ([], "the run declares no fields"),
        ([["seq_len"]], "a field is [name, dtype] or [name, dtype, [n]], not ['seq_len']"),
        ([["a", "I32"], ["a", "I32"]], "field names are distinct, non-empty strings, not 'a'"),
        ([["a", "I32", [0]]], "field a has shape [0]; a shape is one length from 1 to 65535, or none"),
        ([["a", "I32", [65_536]]], "field a has shape [65536]; a shape is one length from 1 to 65535, or none"),
        ([["a", "I32", [2, 2]]], "field a has shape [2, 2]; a shape is one length from 1 to 65535, or none"),
        ([["total_ms", "I32"]], "field total_ms is F32 or F64, not I32"),
        ([["token_id", "I64", [2]]], "field token_id is one value, not an array"),
        ([["text", "U8"]], "field text is an array of bytes"),
        ([[name, "F64", [65_535]] for name in "abc"], "a record of 1572840 bytes is larger than 1048576"),
    ],
)
def test_a_record_that_cannot_be_says_why(declared: list[Any], says: str) -> None:
    with pytest.raises(fields.FieldError) as refused:
        fields.columns(declared)
    assert str(refused.value) == says


def by_hand(kind: int, count: int, payload: bytes, pad: bytes) -> bytes:
    payload += pad * (-len(payload) % 8)
    covered = struct.pack("<HHI", kind, count, len(payload))
    return b"STEP" + covered + struct.pack("<I", zlib.crc32(covered + payload)) + payload


RUN = {
    "format": "stepscope",
    "version": 1,
    "fields": [["phase", "U8"], ["seq_id", "I32"], ["token_id", "I64"], ["n_tokens", "I32"], ["seq_before", "I32"],
               ["seq_len", "I32"], ["cache_len", "I32", [2]], ["finish", "U8"], ["total_ms", "F32"],
               ["heads_used", "U16"], ["text", "U8", [16]]],
}  # fmt: skip
RECORD = struct.Struct("<BiqiiiiiBfH16s")


def a_file_by_hand() -> bytes:
    return (
        by_hand(1, 1, json.dumps(RUN).encode(), b" ")
        + by_hand(3, 1, b'{"kind":"request","seq_id":0,"prompt_tokens":3,"n_reused":0}', b" ")
        + by_hand(2, 2, RECORD.pack(1, 0, -(2**63), 3, 0, 3, 3, 3, 0, 2.5, 7, b"")
                  + RECORD.pack(2, 0, -1, 1, 3, 4, 4, -1, 2, float("nan"), 9, b"h\xc3\xa9"), b"\0")
        + by_hand(4, 1, b"{}", b" ")
    )  # fmt: skip


def test_a_file_made_by_hand_is_read(tmp_path: Path) -> None:
    path = tmp_path / "hand.steps"
    path.write_bytes(a_file_by_hand())
    table = Table(path)
    assert (table.steps, table.complete, table.damage, table.torn) == (2, True, [], None)
    first, second = table.plain(0, 2)
    assert first == {
        "step": 0, "phase": "prefill", "seq_id": 0, "token_id": None, "n_tokens": 3, "seq_before": 0, "seq_len": 3,
        "cache_len": [3, 3], "finish": None, "total_ms": 2.5, "heads_used": 7, "text": None,
    }  # fmt: skip
    assert second is not None
    assert (second["token_id"], second["cache_len"], second["finish"]) == (-1, [4, None], "length")
    assert (second["total_ms"], second["heads_used"], second["text"]) == (None, 9, "hé")
    events = list(Reader(Source(path)).events())
    assert [kind for kind, _ in events] == ["run", "note", "step", "step", "end"]


def test_the_writer_writes_what_the_page_says(tmp_path: Path) -> None:
    path = tmp_path / "written.steps"
    with TraceWriter(path, RUN) as writer:
        writer.note("request", seq_id=0, prompt_tokens=3, n_reused=0)
        writer.step(phase=1, seq_id=0, n_tokens=3, seq_before=0, seq_len=3, cache_len=[3, 3], finish=0, total_ms=2.5)
    data = path.read_bytes()
    at, seen = 0, []
    while at < len(data):
        magic, kind, count, length, crc = struct.unpack_from("<4sHHII", data, at)
        payload = data[at + 16 : at + 16 + length]
        assert magic == b"STEP"
        assert length % 8 == 0
        assert crc == zlib.crc32(data[at + 4 : at + 12] + payload)
        seen.append((kind, count))
        if kind == 2:
            assert RECORD.unpack(payload[: RECORD.size])[:9] == (1, 0, -(2**63), 3, 0, 3, 3, 3, 0)
        at += 16 + length
    assert seen == [(1, 1), (3, 1), (2, 1), (4, 1)]


def test_a_frame_of_a_later_kind_is_stepped_over(tmp_path: Path) -> None:
    path = tmp_path / "later.steps"
    data = a_file_by_hand()
    at = 16 + struct.unpack_from("<I", data, 8)[0]
    path.write_bytes(data[:at] + by_hand(9, 0, b"something new", b"\0") + data[at:])
    assert (Table(path).steps, Table(path).damage) == (2, [])
    assert [kind for kind, _ in Reader(Source(path)).events()] == ["run", "note", "step", "step", "end"]
