"""Which request a forward belongs to, from its slot and its length alone; and the steps that a session makes of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gdb_scripts import probe
from gdb_scripts.hits import Hit
from gdb_scripts.session import Session
from gdb_scripts.slots import Slots
from traces.fields import PHASE_NAMES
from traces.table import Table

LAST = "last"


def place(slots: Slots, before: int | None, n: int = 1, outputs: str | None = LAST, slot: int = 0) -> tuple[int, str]:
    gives = {LAST: [0] * (n - 1) + [1], "all": [1] * n, "none": [0] * n, None: None}[outputs]
    placed = slots.place(slot, before, n, gives)
    return placed.seq_id, PHASE_NAMES[placed.phase]


@pytest.mark.parametrize(
    ("forwards", "expected"),
    [
        ([(0, 5), (5, 1), (6, 1)], [(0, "prefill"), (0, "decode"), (0, "decode")]),
        ([(0, 1), (1, 1)], [(0, "prefill"), (0, "decode")]),  # a prompt of one token
        ([(0, 8, "none"), (8, 3)], [(0, "prefill"), (0, "prefill")]),  # a prompt in two pieces
        ([(0, 8, "none"), (8, 1)], [(0, "prefill"), (0, "prefill")]),  # its last piece is one token
        ([(0, 8), (8, 3)], [(0, "prefill"), (0, "prefill")]),  # each piece asks for its last row
        ([(0, 5), (5, 1), (0, 5)], [(0, "prefill"), (0, "decode"), (1, "prefill")]),
        ([(0, 5), (5, 1), (3, 4)], [(0, "prefill"), (0, "decode"), (1, "prefill")]),  # a common prefix was kept
        ([(0, 5), (5, 1), (4, 1)], [(0, "prefill"), (0, "decode"), (1, "prefill")]),  # all but one token of it
        ([(0, 5), (5, 1), (6, 4)], [(0, "prefill"), (0, "decode"), (1, "prefill")]),  # the next turn of a conversation
        ([(0, 5), (3, 4)], [(0, "prefill"), (1, "prefill")]),  # one token was asked for, so none was fed
        ([(0, 5), (5, 4, "all"), (7, 4, "all")], [(0, "prefill"), (0, "verify"), (0, "verify")]),
        ([(0, 5), (5, 1), (6, 4, "all"), (7, 1)], [(0, "prefill"), (0, "decode"), (0, "verify"), (0, "decode")]),
        ([(0, 5, "all"), (5, 3, "all")], [(0, "prefill"), (0, "prefill")]),  # a prompt that asks for every row
        ([(0, 5, None), (5, 1, None), (0, 1, None)], [(0, "prefill"), (0, "decode"), (1, "prefill")]),
        ([(None, 5), (None, 1)], [(0, "prefill"), (0, "decode")]),
        ([(7, 1), (8, 1)], [(0, "decode"), (0, "decode")]),  # attached in the middle of an answer
        ([(7, 2)], [(0, "prefill")]),  # rows that were restored
    ],
)
def test_where_a_forward_belongs(forwards: list[Any], expected: list[tuple[int, str]]) -> None:
    slots = Slots()
    assert [place(slots, *forward) for forward in forwards] == expected


def test_slots_are_apart_and_requests_are_numbered_as_they_come() -> None:
    slots = Slots()
    assert [place(slots, 0, 3, slot=s)[0] for s in (4, 2)] == [0, 1]
    assert [place(slots, 3, slot=s) for s in (4, 2)] == [(0, "decode"), (1, "decode")]
    assert place(slots, 0, 3, slot=4) == (2, "prefill")
    assert slots.live == [2, 1]
    slots.forget()
    assert place(slots, 0, 3, slot=2) == (3, "prefill")


def test_a_shift_explains_a_shorter_length() -> None:
    slots = Slots()
    place(slots, 0, 8)
    place(slots, 8)
    assert slots.shifted(0, 4) == 0
    assert place(slots, 5) == (0, "decode")
    assert slots.shifted(7, 4) is None


SPEC = probe.read(
    "[probe]\nname = toy\nlayers = full\nn_layers = 2\n[forward]\nfunction = f\nslot = s\noutputs = o\ntoken_id = t\n"
    "n_tokens = n\nseq_before = p\ncache_before = r\nafter.kv_used = u\n[shift]\nfunction = g\nslot = s\n"
    "n_keep = k\nn_discard = d\n",
    "toy.ini",
)


class Engine:
    """What a hook on an engine with slots sees of its forwards."""

    def __init__(self, path: Path) -> None:
        self.session, self.path, self.forwards = Session(SPEC, str(path), {}), path, 0

    def forward(self, *fed: tuple[int, int, int], used: int) -> None:
        """(slot, length before, tokens) of each sequence; used: the pool as the entry finds it."""
        for number, (slot, before, n) in enumerate(fed):
            values = {"token_id": 10 + before, "n_tokens": n, "seq_before": before, "cache_before": before}
            outputs = (0,) * (n - 1) + (1,)
            hit = Hit(SPEC.hooks[0], values, {"kv_used": used}, {}, {}, {"n_layers": 2}, None, slot, outputs)
            self.session.hit(hit._replace(forward_id=self.forwards, last=number == len(fed) - 1))
        self.forwards += 1

    def shift(self, slot: int, n_keep: int, n_discard: int) -> None:
        values = {"n_keep": n_keep, "n_discard": n_discard}
        self.session.hit(Hit(SPEC.hooks[1], values, {}, {}, {}, {}, None, slot))

    def steps(self, *names: str) -> list[list[Any]]:
        self.session.close()
        table = Table(self.path)
        return [[step[name] for name in names] for step in table.plain(0, table.steps) if step is not None]


@pytest.fixture
def engine(tmp_path: Path) -> Engine:
    return Engine(tmp_path / "toy.steps")


def test_a_record_a_sequence_and_one_forward_id(engine: Engine) -> None:
    engine.forward((0, 0, 3), (1, 0, 5), used=0)
    engine.forward((0, 3, 1), (1, 5, 1), used=8)
    engine.forward((1, 6, 1), used=10)
    engine.session.program_ended(None)
    steps = engine.steps("seq_id", "forward_id", "phase", "n_tokens", "seq_before", "seq_len", "cache_len", "kv_used")
    assert sorted(steps, key=lambda s: (s[1], s[0])) == [
        [0, 0, "prefill", 3, 0, 3, 3, None],  # the pool grew by the other sequence's rows before it was seen
        [1, 0, "prefill", 5, 0, 5, 5, 8],
        [0, 1, "decode", 1, 3, None, None, None],
        [1, 1, "decode", 1, 5, 6, 6, 10],
        [1, 2, "decode", 1, 6, None, None, None],
    ]
    report = engine.session.report
    assert report.verdict == "pass"
    assert report.results["KV02"].verdict == "unknown"  # one count for all layers
    assert report.results["KV01"].passed == 5


def test_what_a_next_request_finds_is_not_the_last_ones_length(engine: Engine) -> None:
    engine.forward((0, 0, 3), used=0)
    engine.forward((0, 3, 1), used=3)
    engine.forward((0, 2, 4), used=2)
    assert engine.steps("seq_id", "token_id", "seq_before", "seq_len") == [
        [0, None, 0, 3], [0, 13, 3, None], [1, None, 2, None],
    ]  # fmt: skip


def test_a_shift_is_noted_and_judged(engine: Engine) -> None:
    engine.forward((0, 0, 8), used=0)
    engine.forward((0, 8, 1), used=8)
    engine.shift(0, 2, 4)
    engine.shift(0, 2, -4)  # rows that move up make no room
    engine.forward((0, 5, 1), used=5)
    engine.forward((0, 6, 1), used=6)
    assert [s[0] for s in engine.steps("seq_id")] == [0, 0, 0, 0]
    report = engine.session.report
    assert report.verdict == "pass"
    notes = [note for _, note in Table(engine.path).notes() if note["kind"] == "shift"]
    assert [(n["seq_id"], n["n_keep"], n["n_discard"]) for n in notes] == [(0, 2, 4)]


def test_a_position_that_jumps_is_a_broken_rule(engine: Engine) -> None:
    engine.forward((0, 0, 8), used=0)
    engine.forward((0, 8, 1), used=8)
    engine.forward((0, 11, 1), used=11)
    assert engine.session.report.results["KV03"].verdict == "fail"


def test_a_warm_up_is_noted_once(engine: Engine) -> None:
    for _ in range(2):
        engine.session.hit(Hit(SPEC.hooks[0], {}, {}, {}, {}, {}, None, skipped=True))
    engine.forward((0, 0, 3), used=0)
    assert engine.steps("n_tokens") == [[3]]
    assert [n["text"] for _, n in Table(engine.path).notes()] == ["warm-up forwards are not recorded"]
