"""Files that were cut, flipped, killed, or never were traces."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from traces import TraceError
from traces.columnar import check_table
from traces.fields import REQUIRED, declaration
from traces.reader import Reader, Source
from traces.table import Table
from traces.writer import TraceWriter

RUN = {"layers": [{"kind": "full"}] * 2, "fields": declaration([*REQUIRED, "total_ms"], {"cache_len": 2})}


def write(path: Path, steps: int = 12, frame: int = 1) -> bytes:
    """A healthy trace of one sequence, `frame` steps a frame."""
    with TraceWriter(path, RUN, flush="interval", interval_ms=60_000) as writer:
        writer.note("request", seq_id=0, prompt_tokens=5, n_reused=0)
        for i in range(steps):
            n = 5 if i == 0 else 1
            before = 0 if i == 0 else 4 + i
            writer.step(
                phase=1 if i == 0 else 2, seq_id=0, token_id=None if i == 0 else i, n_tokens=n, seq_before=before,
                seq_len=before + n, cache_len=[before + n] * 2, finish=0, total_ms=1.0,
            )  # fmt: skip
            if (i + 1) % frame == 0:
                writer.flush()
    return path.read_bytes()


def lengths(path: Path) -> list[int]:
    return [r["seq_len"] for r in Table(path).records(0, Table(path).steps) if r is not None]


@pytest.mark.parametrize("frame", [1, 4])
def test_cut_at_every_byte_keeps_every_complete_frame(tmp_path: Path, frame: int) -> None:
    path = tmp_path / "a.steps"
    data = write(path, frame=frame)
    ends = frame_ends(data)
    run_end = ends[0]
    for cut in range(len(data)):
        path.write_bytes(data[:cut])
        if cut < run_end:
            with pytest.raises(TraceError):
                Table(path)
            continue
        table = Table(path)
        whole = sum(1 for end in ends if end <= cut)
        assert table.steps == frame * max(0, min(whole - 2, 12 // frame))
        assert not table.complete
        assert (table.torn is None) == (cut in ends)
        assert lengths(path) == [5 + i for i in range(table.steps)]
        reader = Reader(Source(path))
        assert sum(1 for kind, _ in reader.events() if kind == "step") == table.steps


def frame_ends(data: bytes) -> list[int]:
    at, ends = 0, []
    while at < len(data):
        at += 16 + int.from_bytes(data[at + 8 : at + 12], "little")
        ends.append(at)
    return ends


@settings(max_examples=200)
@given(bit=st.integers(0), frame=st.sampled_from([1, 3]))
def test_one_flipped_bit_costs_at_most_one_frame(
    tmp_path_factory: pytest.TempPathFactory, bit: int, frame: int
) -> None:
    path = tmp_path_factory.getbasetemp() / "flip.steps"
    data = bytearray(write(path, frame=frame))
    run_end = frame_ends(bytes(data))[0]
    bit = run_end * 8 + bit % ((len(data) - run_end) * 8)
    data[bit // 8] ^= 1 << bit % 8
    path.write_bytes(data)
    table = Table(path)
    assert len(lengths(path)) >= 12 - frame
    assert set(lengths(path)) <= {5 + i for i in range(12)}
    report = check_table(table)
    assert table.damage or not table.complete
    assert all(r.failed == 0 for r in report.results.values()), "damage is no fault of the engine"


def test_a_damaged_step_keeps_its_number_and_nothing_is_judged_across(tmp_path: Path) -> None:
    path = tmp_path / "a.steps"
    data = bytearray(write(path))
    ends = frame_ends(bytes(data))
    data[ends[5] + 16 + 3] ^= 1  # in the payload of step 4: ends are RUN, NOTE, steps 0 to 3, so the sixth frame is it
    path.write_bytes(data)
    table = Table(path)
    steps = table.plain(0, 12)
    assert steps[4] is None
    assert [s["seq_len"] for s in steps if s is not None] == [5, 6, 7, 8, 10, 11, 12, 13, 14, 15, 16]
    assert [(d.start, d.end, d.steps) for d in table.damage] == [(ends[5], ends[6], 1)]
    result = check_table(table).results["KV04"]
    assert (result.passed, result.unknown, result.failed) == (10, 1, 0)


def test_a_destroyed_header_is_skipped_to_the_next_sound_frame(tmp_path: Path) -> None:
    path = tmp_path / "a.steps"
    data = bytearray(write(path))
    ends = frame_ends(bytes(data))
    data[ends[5] : ends[5] + 4] = b"XXXX"
    path.write_bytes(data)
    table = Table(path)
    assert table.steps == 11
    assert [(d.start, d.end) for d in table.damage] == [(ends[5], ends[6])]
    assert check_table(table).results["KV04"].failed == 0


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "empty"),
        (b"hello, I am a text file\n", "not a step trace"),
        (b"STEP", "no complete run description"),
        (b"\x7fELF" + bytes(100), "not a step trace"),
    ],
)
def test_what_is_no_trace_is_refused_in_one_line(tmp_path: Path, content: bytes, words: str) -> None:
    path = tmp_path / "a.steps"
    path.write_bytes(content)
    with pytest.raises(TraceError, match=words) as caught:
        Table(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_damaged_run_description_is_named(tmp_path: Path) -> None:
    path = tmp_path / "a.steps"
    data = bytearray(write(path))
    data[40] ^= 1
    path.write_bytes(data)
    with pytest.raises(TraceError, match="run description"):
        Table(path)
    data[0] ^= 1
    path.write_bytes(data)
    with pytest.raises(TraceError, match="run description"):
        Table(path)


def test_a_newer_version_is_named(tmp_path: Path) -> None:
    path = tmp_path / "a.steps"
    with TraceWriter(path, {**RUN, "version": 2}):
        pass
    with pytest.raises(TraceError, match="version 2.*update stepscope"):
        Table(path)


def test_a_directory_and_a_missing_file_are_named(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="cannot read"):
        Table(tmp_path)
    with pytest.raises(TraceError, match="cannot read"):
        Table(tmp_path / "missing.steps")


def test_a_file_that_becomes_shorter_is_said_so(tmp_path: Path) -> None:
    path = tmp_path / "a.steps"
    data = write(path)
    table = Table(path)
    os.truncate(path, len(data) // 2)
    with pytest.raises(TraceError, match="shorter"):
        table.refresh()
    with pytest.raises(TraceError, match="shorter"):
        table.plain(0, 12)


WRITER = """
import sys
from traces.writer import TraceWriter
from traces.fields import REQUIRED, declaration
run = {"fields": declaration([*REQUIRED], {"cache_len": 28})}
with TraceWriter(sys.argv[1], run, flush=sys.argv[2]) as writer:
    for i in range(10**9):
        writer.step(phase=2, seq_id=0, token_id=i, n_tokens=1, seq_before=i, seq_len=i + 1, cache_len=[i + 1] * 28,
                    finish=0)
        if i % 100 == 0:
            print(i, flush=True)
"""


@pytest.mark.parametrize("flush", ["step", "interval"])
def test_kill_9_at_random_moments_loses_at_most_what_the_policy_names(tmp_path: Path, flush: str) -> None:
    chance = random.Random(flush)
    for n in range(8):
        path = tmp_path / f"{flush}{n}.steps"
        process = subprocess.Popen([sys.executable, "-c", WRITER, str(path), flush], stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(chance.uniform(0.0, 0.15))
        process.send_signal(signal.SIGKILL)
        said = [int(line) for line in process.stdout.read().split("\n")[:-1]]
        process.wait()
        table = Table(path)
        assert not table.complete
        assert lengths(path) == list(range(1, table.steps + 1))
        if flush == "step" and said:
            assert table.steps > said[-1]
