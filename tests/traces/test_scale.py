"""A trace of a day or of thousands of sequences: the index stays a few bytes a frame, and nothing is read for each
sequence anew.
"""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from inspector.tui.sequences import Sequences
from traces import frames
from traces import table as table_module
from traces.columnar import TableChecker, check_table
from traces.diff import compare
from traces.fields import ABSENT_I64, REQUIRED, declaration
from traces.metrics import stats
from traces.table import Table
from traces.writer import TraceWriter

FACTS = {
    "model": {"n_layers": 2, "vocab_size": 100},
    "layers": [{"kind": "full"}] * 2,
    "kv": {"capacity": 10**9},
    "stop": {"eos": [2], "max_new_tokens": 10**9},
    "fields": declaration((*REQUIRED, "t_ns", "total_ms", "attn_ms"), {"cache_len": 2}),
}


def begun(path: Path) -> np.dtype[Any]:
    """A trace with its run description; what a record is."""
    TraceWriter(path, FACTS).leave_unfinished()
    return Table(path).runs[0].dtype


def steps(dtype: np.dtype[Any], first: int, n: int) -> Any:
    """Steps of one healthy sequence, the first a prefill of one token."""
    rows = np.zeros(n, dtype)
    length = 1 + first + np.arange(n)
    rows["phase"], rows["token_id"], rows["n_tokens"] = 2, 5, 1
    rows["seq_before"], rows["seq_len"], rows["cache_len"] = length - 1, length, length[:, None]
    if not first:
        rows["phase"][0], rows["token_id"][0] = 1, ABSENT_I64
    return rows


def test_following_a_day_takes_a_few_bytes_a_frame(tmp_path: Path) -> None:
    """A flush each 50 ms is 1.7 million frames a day. Here 20,000 of 2 or 3 steps come in rounds, as live mode takes
    them in: what they take by the frame tells what a day takes."""
    path = tmp_path / "day.steps"
    dtype = begun(path)
    table, sequences = Table(path), Sequences()
    checker = TableChecker(table, limit=10)
    rounds, per_round, done = 25, 2000, 0
    tracemalloc.start()
    with open(path, "ab") as file:
        for number in range(rounds):
            rows = steps(dtype, done, per_round)
            for n in [2, 3] * (per_round // 5):
                file.write(frames.pack(frames.STEPS, n, rows[:n].tobytes()))
                rows, done = rows[n:], done + n
            file.flush()
            table.refresh()
            for chunk in table.chunks(checker.steps):
                sequences.add(chunk.rows["seq_id"], chunk.bad)
            checker.advance()
            if number == 0:
                gc.collect()
                before = tracemalloc.get_traced_memory()[0]
    gc.collect()  # what was thrown away may wait for long in a process that holds much else
    grew = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert table.steps == checker.steps == done == 50_000
    assert checker.report.verdict == "pass"
    n_frames = (rounds - 1) * per_round * 2 // 5
    assert grew < 12 * n_frames, "12 bytes a frame are 20 MB a day"
    assert sequences.steps_of(0, done).tolist() == list(range(done))
    for step in (0, 1, 2, done // 2, done - 3, done - 1):
        assert table.rows(step, step + 1)[0]["seq_len"].tolist() == [step + 1]
    assert table.rows(1000, 5000)[0]["seq_len"].tolist() == list(range(1001, 5001))


def taking_turns(path: Path, n_sequences: int, each: int) -> Path:
    """Sequences that step in turn, every one from its prefill to its end."""
    dtype = begun(path)
    with open(path, "ab") as file:
        for k in range(each):
            rows = np.repeat(steps(dtype, k, 1), n_sequences)
            rows["seq_id"], rows["finish"] = np.arange(n_sequences), 2 if k == each - 1 else 0
            for part in np.split(rows, range(500, n_sequences, 500)):
                file.write(frames.pack(frames.STEPS, len(part), part.tobytes()))
        file.write(frames.pack_json(frames.END, {}))
    return path


def test_no_more_is_indexed_than_was_asked_for(tmp_path: Path) -> None:
    """Frames all alike, which are found by comparing headers far ahead."""
    path, n = tmp_path / "alike.steps", 20_000
    dtype = begun(path)
    with open(path, "ab") as file:
        file.writelines(frames.pack(frames.STEPS, 1, row.tobytes()) for row in steps(dtype, 0, n))
    table, frame = Table(path, index=False), path.stat().st_size / n
    seen, rounds, asked = 0, 0, path.stat().st_size // 8
    while table.refresh(asked):
        assert (table.steps - seen) * frame <= asked + frame
        seen, rounds = table.steps, rounds + 1
    assert (rounds, table.steps) == (7, n)


def test_comparing_thousands_of_sequences_reads_a_trace_a_few_times(tmp_path: Path) -> None:
    path = taking_turns(tmp_path / "a.steps", 3000, 8)
    tables, read = [Table(path), Table(path)], []
    for table in tables:
        plainly = table.source.read

        def counted(offset: int, length: int, plainly: Any = plainly) -> bytes:
            read.append(length)
            return bytes(plainly(offset, length))

        table.source.read = counted  # type: ignore[method-assign]
    diff = compare([("a", tables[0])], [("b", tables[1])])
    assert diff.verdicts["tokens"] == "same"
    assert diff.compared == 3000 * 7
    assert sum(read) < 4 * 2 * path.stat().st_size


def test_thousands_of_sequences_are_judged_in_order(tmp_path: Path) -> None:
    path = taking_turns(tmp_path / "a.steps", 3000, 4)
    report = check_table(Table(path))
    assert report.results["KV01"].passed == 12_000
    assert report.verdict == "pass"
    sequences = Sequences()
    for chunk in Table(path).chunks():
        sequences.add(chunk.rows["seq_id"], chunk.bad)
    assert sequences.ids == list(range(1000))  # who lists them shows no more
    assert sequences.steps_of(2999, 12_000).tolist() == [2999, 5999, 8999, 11_999]


def test_what_ended_sequences_left_behind_is_forgotten_but_not_that_they_ended(tmp_path: Path) -> None:
    """50 sequences, one after the other; behind them the first steps on after its end, and the last does. A checker
    that keeps 5 knows that both had ended; only of the last it knows how long it was."""
    path = tmp_path / "a.steps"
    dtype = begun(path)
    with open(path, "ab") as file:
        for seq_id in range(50):
            rows = steps(dtype, 0, 3)
            rows["seq_id"], rows["finish"][-1] = seq_id, 2
            file.write(frames.pack(frames.STEPS, 3, rows.tobytes()))
        for seq_id in (0, 49):
            late = steps(dtype, 5, 1)  # at length 6; 3 would be right
            late["seq_id"] = seq_id
            file.write(frames.pack(frames.STEPS, 1, late.tobytes()))
    checker = TableChecker(Table(path), keep_ended=5)
    while checker.advance(3):
        pass
    results, whole = checker.report.results, check_table(Table(path)).results
    assert (results["TK02"].failed, whole["TK02"].failed) == (2, 2)
    assert (results["KV04"].failed, results["KV04"].unknown) == (1, whole["KV04"].unknown + 1)
    assert checker.broken.at(150) == ("TK02",)
    assert checker.broken.at(151) == ("KV04", "TK02", "SQ01")
    assert [failure.code for failure in checker.failures_at(151)] == ["KV04", "TK02", "SQ01"]


def grows_by(make: Callable[[Table], object], folder: Path) -> float:
    """Bytes that the most memory in use grows by with each step, where there are many."""
    peaks, sizes = [], (200_000, 400_000)
    for n in sizes:
        path = folder / f"{n}.steps"
        dtype = begun(path)
        random = np.random.default_rng(n)
        with open(path, "ab") as file:
            for begin in range(0, n, 50_000):
                rows = steps(dtype, begin, 50_000)
                rows["t_ns"] = (begin + np.arange(50_000)) * 1_000_000 + random.integers(0, 100_000, 50_000)
                rows["total_ms"], rows["attn_ms"] = random.lognormal(size=(2, 50_000))
                file.write(frames.pack(frames.STEPS, len(rows), rows.tobytes()))
            file.write(frames.pack_json(frames.END, {}))
        tracemalloc.start()
        make(Table(path))
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    return (peaks[1] - peaks[0]) / (sizes[1] - sizes[0])


@pytest.fixture
def _small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a piece of a trace takes is the same for a trace of any length: here little, so that it hides nothing."""
    monkeypatch.setattr(table_module, "CHUNK_BYTES", 1 << 18)


@pytest.mark.usefixtures("_small_pieces")
def test_figures_take_a_few_bytes_a_step(tmp_path: Path) -> None:
    """Ten million steps then take less than half a gigabyte; every column held as a double would be two."""
    assert grows_by(stats, tmp_path) < 45


@pytest.mark.usefixtures("_small_pieces")
def test_comparing_takes_a_few_bytes_a_step(tmp_path: Path) -> None:
    """Of both sides together, their tokens and what stands beside what included."""
    assert grows_by(lambda table: compare([("a", table)], [("b", table)]), tmp_path) < 160
