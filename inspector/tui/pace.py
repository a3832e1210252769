"""How fast tokens come, from the recorded times: sums over columns, a chunk at a time.

Tokens are those a sampled step added to its sequence (a token that was not fed adds none). Each forward's time counts
once, also where several sequences share it. Where a trace records no total_ms the steps' beginnings are used.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from traces.fields import ABSENT_U64, FINISH, PHASES

NEWEST = 32
"""Steps that the speed "now" is taken over."""


class Speed:
    """Tokens a second over the steps given so far, in order."""

    def __init__(self) -> None:
        self._timed = self._ms = 0.0
        self._tokens = self._last_tokens = 0
        self._first_ns = self._last_ns = -1
        self._forward = -1

    def add(self, rows: Any) -> None:
        """Sound records (a structured array) that follow those given before."""
        rows = rows[rows["phase"] != PHASES["prefill"]]
        if not len(rows):
            return
        tokens = _grown(rows)
        self._add_totals(rows, tokens)
        self._add_beginnings(rows, tokens)

    def _add_totals(self, rows: Any, tokens: Any) -> None:
        names = rows.dtype.names
        if "total_ms" not in names:
            return
        total = rows["total_ms"].astype(np.float64)
        timed = np.isfinite(total)
        own = np.ones(len(rows), np.bool_)
        if "forward_id" in names:
            forward = rows["forward_id"]
            before = np.concatenate([[self._forward], forward[:-1]])
            own = (forward < 0) | (forward != before)
            self._forward = int(forward[-1])
        self._timed += float(tokens[timed].sum())
        self._ms += float(total[timed & own].sum())

    def _add_beginnings(self, rows: Any, tokens: Any) -> None:
        if "t_ns" not in rows.dtype.names:
            return
        there = rows["t_ns"] != ABSENT_U64
        if not there.any():
            return
        began = rows["t_ns"][there]
        if self._first_ns < 0:
            self._first_ns = int(began[0])
        self._last_ns = int(began[-1])
        self._tokens += int(tokens[there].sum())
        self._last_tokens = int(tokens[there][-1])

    @property
    def tok_s(self) -> float | None:
        """Tokens a second, or None where no time is recorded."""
        if self._timed and self._ms > 0:
            return self._timed / self._ms * 1e3
        span, tokens = self._last_ns - self._first_ns, self._tokens - self._last_tokens
        return tokens / span * 1e9 if span > 0 and tokens > 0 else None


class Latency:
    """TTFT and TPOT of the first request, from when steps began; docs/reference.md says what they are."""

    def __init__(self) -> None:
        self.ttft_ms: float | None = None
        self._asked: tuple[int, int] | None = None
        self._seq_id: int | None = None
        self._until: int | None = None
        self._sent = 0
        self._first_ns = self._last_ns = -1

    def request(self, step: int, note: dict[str, Any]) -> None:
        """A request note before a step. The first one counts; its sequence's next one ends it."""
        seq_id, asked = note.get("seq_id", 0), note.get("t_ns")
        if self._seq_id is None:
            self._seq_id = seq_id
            self._asked = (step, asked) if isinstance(asked, int) else None
        elif seq_id == self._seq_id and self._until is None:
            self._until = step

    def add(self, rows: Any, first_step: int) -> None:
        """Sound records that follow those given before, from about first_step."""
        names = rows.dtype.names
        over = self._until is not None and first_step >= self._until
        if over or "t_ns" not in names or not len(rows):
            return
        if self._seq_id is None:
            self._seq_id = int(rows["seq_id"][0])
        if self._until is not None:
            rows = rows[: self._until - first_step]
        mine = rows[(rows["phase"] != PHASES["prefill"]) & (rows["seq_id"] == self._seq_id)]
        mine = mine[mine["t_ns"] != ABSENT_U64]
        if not len(mine):
            return
        if self._first_ns < 0:
            self._first_ns = int(mine["t_ns"][0])
            if self._asked is not None and self._first_ns >= self._asked[1]:
                self.ttft_ms = (self._first_ns - self._asked[1]) / 1e6
        accepted = np.maximum(mine["n_accepted"], 0) if "n_accepted" in names else 0
        sent = np.where(mine["phase"] == PHASES["verify"], 1 + accepted, 1) - (mine["finish"] == FINISH["eos"])
        self._sent += int(sent.sum())
        out = np.flatnonzero(sent > 0)
        if len(out):
            self._last_ns = int(mine["t_ns"][out[-1]])

    @property
    def tpot_ms(self) -> float | None:
        """(last token - first token) / (tokens sent - 1), so far."""
        span = self._last_ns - self._first_ns
        return span / 1e6 / (self._sent - 1) if self._sent > 1 and span >= 0 else None


def _grown(rows: Any) -> Any:
    before, after = rows["seq_before"], rows["seq_len"]
    fed = (rows["n_tokens"] > 0).astype(np.int64)
    grown = np.where((before >= 0) & (after >= 0), after.astype(np.int64) - before, fed)
    return np.maximum(grown, 0)


def speed_now(rows: Any) -> float | None:
    """Tokens a second over the last NEWEST sampled steps of these records."""
    speed = Speed()
    speed.add(rows[rows["phase"] != PHASES["prefill"]][-NEWEST:])
    return speed.tok_s
