"""A day of an engine that makes 20 steps a second, written as fast as it can be, for views with a clock that is set.

Requests of REQUEST steps follow one another; every tenth pair of them takes turns. Steps begin 50 ms apart and took
40 ms. A message stands in the trace every quarter of an hour. The engine's own clock is set on by an hour at 1:30 and
back by half an hour at 2:00, each time in the middle of a request.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from textual.pilot import Pilot

from inspector.tui.feed import Feed
from inspector.tui.screens.main import MainScreen
from inspector.tui.viewer import Viewer
from tests.bench.bench_tui import facts, single_frames
from tests.inspector.tui.small_traces import Clock
from traces import frames
from traces.fields import ABSENT_I64, FINISH, PHASES
from traces.table import Table
from traces.writer import TraceWriter

RATE, HOUR = 20, 3600
TURN_S, DRAWN_S = 60, 600
REQUEST, PROMPT = 200, 20
SET_ON, SET_BACK = RATE * 3 * HOUR // 2 + REQUEST // 2, RATE * 2 * HOUR + REQUEST // 2
_STEP_NS = 10**9 // RATE
_MESSAGE_EVERY = RATE * HOUR // 4
_LAYERS = 4


class Producer:
    """The engine: run() writes what it does in so many seconds, each step in a frame of its own."""

    def __init__(self, path: Path) -> None:
        TraceWriter(path, facts(_LAYERS)).leave_unfinished()
        self._dtype = Table(path).runs[0].dtype
        self._file = path.open("ab", buffering=0)
        self.steps = 0

    def run(self, seconds: float) -> None:
        """Go on for so long."""
        first, self.steps = self.steps, self.steps + round(seconds * RATE)
        rows = self._records(first, self.steps)
        noted = np.flatnonzero(
            (rows["phase"] == PHASES["prefill"]) | (np.arange(first, self.steps) % _MESSAGE_EVERY == 0)
        )
        out = []
        for a, b in zip([0, *noted.tolist()], [*noted.tolist(), len(rows)], strict=True):
            out.append(single_frames(rows[a:b]))
            if b < len(rows):
                out += [frames.pack_json(frames.NOTE, note) for note in self._notes(first + b, rows[b])]
        self._file.write(b"".join(out))

    def end(self) -> None:
        """Say that nothing follows."""
        self._file.write(frames.pack_json(frames.END, {"steps": self.steps}))
        self._file.close()

    def _records(self, first: int, stop: int) -> Any:
        step = np.arange(first, stop)
        pair, place = np.divmod(step, 2 * REQUEST)
        in_turns = pair % 10 == 9
        second = np.where(in_turns, place % 2, place // REQUEST)
        k = np.where(in_turns, place // 2, place % REQUEST)
        rows = np.zeros(len(step), self._dtype)
        rows["seq_id"], rows["phase"] = 2 * pair + second, np.where(k, PHASES["decode"], PHASES["prefill"])
        rows["token_id"], rows["n_tokens"] = np.where(k, 5, ABSENT_I64), np.where(k, 1, PROMPT)
        rows["seq_before"], rows["seq_len"] = np.where(k, PROMPT + k - 1, 0), PROMPT + k
        rows["cache_len"] = (PROMPT + k)[:, None]
        rows["finish"] = np.where(k == REQUEST - 1, FINISH["length"], FINISH["none"])
        seconds = np.where(step >= SET_ON, HOUR, 0) - np.where(step >= SET_BACK, HOUR // 2, 0)
        rows["t_ns"] = step * _STEP_NS + seconds * 10**9
        rows["gemm_ms"], rows["attn_ms"], rows["total_ms"], rows["text"] = 6.0, 1.0, 40.0, b" token"
        return rows

    def _notes(self, step: int, row: Any) -> list[dict[str, Any]]:
        """What stands before a step."""
        notes: list[dict[str, Any]] = []
        if step % _MESSAGE_EVERY == 0:
            notes.append({"kind": "message", "text": f"{step // RATE} s"})
        if row["phase"] == PHASES["prefill"]:
            notes.append({"kind": "request", "seq_id": int(row["seq_id"]), "t_ns": int(row["t_ns"]),
                          "prompt": "Once upon a time", "prompt_tokens": PROMPT, "n_reused": 0})  # fmt: skip
        return notes


class Watched:
    """The view of a trace that an engine writes meanwhile. Its feed has no thread: pass_time() turns its rounds."""

    def __init__(self, path: Path) -> None:
        self.clock, self.producer = Clock(), Producer(path)
        self.feed = Feed(str(path), follow=True, clock=self.clock)
        self.app = Viewer(self.feed)

    def pass_time(self, seconds: float) -> None:
        """So much later the feed takes in what was written."""
        self.clock.now += seconds
        while self.feed.turn():
            pass

    async def drawn(self, pilot: Pilot[int]) -> None:
        """Let it show what there is now."""
        main = self.app.screen
        assert isinstance(main, MainScreen)
        main.tick()
        await pilot.pause()

    async def go_on(self, pilot: Pilot[int], hours: float) -> None:
        """The engine goes on for so long, read every minute and drawn every ten."""
        for second in range(TURN_S, round(hours * HOUR) + 1, TURN_S):
            self.producer.run(TURN_S)
            self.pass_time(TURN_S)
            if second % DRAWN_S == 0:
                await self.drawn(pilot)
