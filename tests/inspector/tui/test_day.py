"""A live view left open for a tenth of a day: what it keeps and what it shows. `make bench` has the whole day."""

from __future__ import annotations

import asyncio
import gc
import tracemalloc
from pathlib import Path

import numpy as np

from inspector.tui.sequences import Sequences
from tests.inspector.tui.simulated_day import HOUR, Watched
from tests.inspector.tui.small_traces import seen

MORE = 1_100_000
"""Bytes that may come in 1.4 hours: a byte a step, half a kB for each of 504 requests, pages of steps that were seen"""


def held() -> int:
    """Bytes that our own modules hold. Textual's and rich's caches have an end, but no early one."""
    gc.collect()
    ours = [tracemalloc.Filter(True, f"*/{room}/*") for room in ("inspector", "traces", "json")]
    return sum(trace.size for trace in tracemalloc.take_snapshot().filter_traces(ours).traces)


def test_a_view_left_open_keeps_little_and_shows_the_end(tmp_path: Path) -> None:
    watched = Watched(tmp_path / "day.steps")

    async def follow() -> None:
        async with watched.app.run_test(size=(160, 50)) as pilot:

            async def screen() -> str:
                await watched.drawn(pilot)
                return "\n".join(seen(watched.app))

            tracemalloc.start()
            await watched.go_on(pilot, 1.0)
            before = held()
            await watched.go_on(pilot, 1.4)
            more = held() - before
            tracemalloc.stop()
            assert more <= MORE

            shown = await screen()
            assert " LIVE " in shown
            # 2.4 h at 20 a second; 1 token in each 40 ms; a prefill takes until the next step, 50 ms on
            assert "172,800 steps" in shown
            assert "25.0 now, 25.0 mean tok/s" in shown
            assert "first TTFT 50.0 ms" in shown and "first TPOT 50.0 ms" in shown
            # the clock that was set on breaks nothing, the one that was set back the order of time, once
            assert "✗ 1 failure" in shown and "✗ TM01 time runs forward" in shown
            # the last of 864 requests has its 200th step: the prompt's 20 tokens and 199 more
            assert "> 172799 863 decode      5 ␣token             218→219 219" in shown

            watched.pass_time(25 * HOUR)
            assert "no new steps for 1 d 1 h" in await screen()
            watched.producer.end()
            watched.pass_time(1)
            assert " ENDED " in await screen()

    asyncio.run(follow())


def test_whose_steps_are_whose_takes_two_bytes_a_step_however_they_come() -> None:
    ids = np.arange(200_000, dtype=np.int32) % 300
    sequences = Sequences()
    tracemalloc.start()
    for first in range(0, len(ids), 2):
        sequences.add(ids[first : first + 2], None)
    taken = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert taken <= 2 * len(ids) + 200_000  # the block that is being filled, and the list of ids


def test_the_steps_of_a_sequence_are_found_in_every_block() -> None:
    # three sequences one after the other, then two that take turns, with a damaged step among them
    ids = np.concatenate([np.full(30_000, 7), np.full(20_000, 9), np.full(5_000, 7), np.arange(40_000) % 2])
    bad = np.arange(len(ids)) == 55_002
    sequences = Sequences()
    for first in range(0, len(ids), 9_999):
        part = slice(first, first + 9_999)
        sequences.add(ids[part].astype(np.int32), bad[part])
    assert sequences.ids == [7, 9, 0, 1]
    assert sequences.steps_of(7, 10**9).tolist() == [*range(30_000), *range(50_000, 55_000)]
    assert sequences.steps_of(9, 30_002).tolist() == [30_000, 30_001]
    assert sequences.steps_of(0, len(ids)).tolist()[:3] == [55_000, 55_004, 55_006]
    assert len(sequences.steps_of(0, len(ids))) == 19_999
    assert sequences.steps_of(5, len(ids)).tolist() == []
