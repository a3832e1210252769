"""Hits become steps: closed by the next entry, absent where nothing closed them. No debugger."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from gdb_scripts import probe
from gdb_scripts.layout import UNREADABLE, Absent
from gdb_scripts.session import Closed, Hit, Session
from traces.table import Table

SPEC = probe.read(
    """
[probe]
name = toy
layers = full
n_layers = st->n
vocab_size = st->v
[request]
function = begin
prompt_tokens = n
n_reused = 0
[forward]
function = step
token_id = t
n_tokens = n
seq_before = st->len
cache_before = st->rows[:st->n]
accumulated.attn_ms = st->t
scale.attn_ms = 1000
after.logit = st->best
[finish]
function = end
token_id = t
finish = why
codes.finish = 7 eos
seq_before = st->len
cache_before = st->rows[:st->n]
""",
    "toy.ini",
)
FACTS = {"n_layers": 2, "vocab_size": 50}


class Toy:
    """A program under the debugger, as the hooks see it."""

    def __init__(self, path: Path | None) -> None:
        self.session = Session(SPEC, None if path is None else str(path), {})
        self.path = path
        self.began_ns = time.monotonic_ns()

    def hit(self, event: str, at: int = 0, missing: dict[str, Absent] | None = None, after: Any = None,
            sums: Any = None, **values: Any) -> list[Closed]:  # fmt: skip
        hook = SPEC.hooks_for(event)[0]
        return self.session.hit(Hit(hook, values, after or {}, sums or {}, missing or {}, FACTS, self.began_ns + at))

    def forward(self, length: int, n: int = 1, token: int = 5, rows: tuple[int, ...] | None = None, **more: Any) -> Any:
        rows = (length, length) if rows is None else rows
        return self.hit("forward", seq_before=length, n_tokens=n, token_id=token, cache_before=rows, **more)

    def steps(self) -> list[dict[str, Any]]:
        self.session.close()
        assert self.path is not None
        table = Table(self.path)
        return [s for s in table.plain(0, table.steps) if s is not None]


@pytest.fixture
def toy(tmp_path: Path) -> Toy:
    return Toy(tmp_path / "toy.steps")


def test_the_next_entry_closes_a_step(toy: Toy) -> None:
    toy.hit("request", prompt_tokens=3, n_reused=0)
    assert toy.forward(0, n=3, token=11) == []
    closed = toy.forward(3, token=7)
    assert [(c.step, c.record["seq_len"], c.record["cache_len"], c.failures) for c in closed] == [(0, 3, (3, 3), [])]
    toy.forward(4, token=8)
    first, second, last = toy.steps()
    assert (first["phase"], first["token_id"], first["n_tokens"]) == ("prefill", None, 3)
    assert (second["phase"], second["token_id"], second["seq_before"], second["seq_len"]) == ("decode", 7, 3, 4)
    assert (last["token_id"], last["seq_before"], last["seq_len"], last["cache_len"]) == (8, 4, None, None)
    assert last["cache_before"] == [4, 4]


def test_a_finish_hook_closes_the_last_and_adds_the_token_that_was_not_fed(toy: Toy) -> None:
    toy.forward(0, n=3)
    toy.forward(3, token=7)
    toy.hit("finish", token_id=2, finish=7, seq_before=4, cache_before=(4, 4))
    last = toy.steps()[-1]
    assert (last["token_id"], last["n_tokens"], last["seq_before"], last["seq_len"]) == (2, 0, 4, 4)
    assert (last["cache_len"], last["finish"]) == ([4, 4], "eos")


def test_a_finish_without_a_token_marks_the_step_it_closes(toy: Toy) -> None:
    toy.forward(0, n=3)
    toy.forward(3, token=7)
    toy.hit("finish", finish=7, seq_before=4, cache_before=(4, 4))
    assert [s["finish"] for s in toy.steps()] == [None, "eos"]


def test_a_request_between_leaves_the_after_values_absent(toy: Toy) -> None:
    toy.forward(0, n=3)
    toy.forward(3, token=7)
    closed = toy.hit("request", prompt_tokens=2, n_reused=0)
    assert [c.record["seq_len"] for c in closed] == [-1]
    toy.forward(0, n=2)
    steps = toy.steps()
    assert [s["seq_id"] for s in steps] == [0, 0, 1]
    assert steps[1]["seq_len"] is None


def test_a_broken_rule_is_told_with_the_hit_that_closes_its_step(toy: Toy) -> None:
    toy.forward(0, n=3)
    closed = toy.forward(3, rows=(3, 2))
    assert [f.code for c in closed for f in c.failures] == ["KV02"]
    assert closed[0].failures[0].message == "KV02 step 0 seq 0: layer 1 holds 2 rows, 1 other full layers 3"


def test_sums_are_differenced_and_scaled(toy: Toy) -> None:
    toy.forward(0, n=3, sums={"attn_ms": 0.5})
    toy.forward(3, sums={"attn_ms": 0.75})
    toy.forward(4, sums={"attn_ms": 0.25})  # it was reset in between
    assert [s["attn_ms"] for s in toy.steps()] == [250.0, None, None]


def test_what_the_program_still_holds_belongs_to_the_step_before(toy: Toy) -> None:
    toy.forward(0, n=3, after={"logit": 9.0})
    toy.forward(3, after={"logit": 1.5})
    assert [s["logit"] for s in toy.steps()] == [1.5, None]


def test_absences_are_noted_once_with_their_reason(toy: Toy) -> None:
    lost = {"cache_before": Absent(UNREADABLE, "cannot access memory")}
    for length in (3, 4, 5):
        toy.hit("forward", missing=lost, seq_before=length, n_tokens=1, token_id=5)
    assert [s["cache_len"] for s in toy.steps()] == [None, None, None]
    notes = [n for _, n in Table(toy.path or "").notes() if n["kind"] == "absent"]
    assert [(n["field"], n["why"]) for n in notes] == [("cache_len", "unreadable")]
    assert toy.session.report.results["KV01"].why_unknown == "cache_len (unreadable) absent"


def test_a_program_that_dies_leaves_a_whole_trace(toy: Toy) -> None:
    toy.hit("request", prompt_tokens=3, n_reused=0)
    toy.forward(0, n=3)
    toy.forward(3)
    toy.session.program_ended("abort")
    toy.session.close()
    table = Table(toy.path or "")
    assert table.complete
    assert table.steps == 2
    assert [n for _, n in table.notes() if n["kind"] == "finish"] == [
        {"kind": "finish", "seq_id": 0, "finish": "abort"}
    ]


def test_a_restart_is_a_new_sequence(toy: Toy) -> None:
    toy.forward(0, n=3)
    toy.session.program_ended("abort")
    toy.forward(0, n=3)
    assert [s["seq_id"] for s in toy.steps()] == [0, 1]


def test_a_full_disk_ends_the_recording_and_nothing_else() -> None:
    toy = Toy(Path("/dev/full"))
    toy.forward(0, n=3)
    assert len(toy.session.problems) == 1
    assert "No space left" in toy.session.problems[0]
    closed = toy.forward(3)
    assert closed[0].record["seq_len"] == 3
    toy.session.close()


def test_run_facts_come_from_the_probe(toy: Toy) -> None:
    toy.forward(0, n=3)
    toy.steps()
    facts = Table(toy.path or "").runs[0].facts
    assert facts["layers"] == [{"kind": "full"}] * 2
    assert facts["model"] == {"n_layers": 2, "vocab_size": 50}
    assert facts["clock"] == "debugger"


SEQ = probe.read(
    """
[probe]
name = toy
[forward]
function = step
seq_id = s
n_tokens = n
seq_before = st->len
[finish]
function = end
seq_id = s
token_id = t
finish = why
""",
    "seq.ini",
)


def entered(session: Session, length: int, seq_id: int = 0) -> list[Closed]:
    values = {"seq_id": seq_id, "seq_before": length, "n_tokens": 3 if not length else 1}
    return session.hit(Hit(SEQ.hooks_for("forward")[0], values, {}, {}, {}, {}, time.monotonic_ns()))


def test_another_process_counts_its_sequences_from_0_again_and_they_are_others() -> None:
    session = Session(SEQ, None, {})
    entered(session, 0)
    entered(session, 3)
    session.program_ended("abort")
    entered(session, 0)
    closed = entered(session, 3)
    assert [(c.record["seq_id"], c.failures) for c in closed] == [(1, [])]


def test_a_negative_token_at_the_end_is_none() -> None:
    session = Session(SEQ, None, {})
    entered(session, 0)
    values = {"seq_id": 0, "token_id": -1, "finish": 2}
    closed = session.hit(Hit(SEQ.hooks_for("finish")[0], values, {}, {}, {}, {}, time.monotonic_ns()))
    assert [(c.record["n_tokens"], c.record["finish"]) for c in closed] == [(3, 2)]


def test_garbage_costs_its_field_and_nothing_else(toy: Toy) -> None:
    toy.forward(0, n=3)
    toy.forward(3, token=2**70, rows=(3, 2**70))
    toy.forward(4)
    first, second, _ = toy.steps()
    assert (first["cache_len"], second["token_id"]) == (None, None)
    assert (first["seq_len"], second["n_tokens"], second["seq_len"]) == (3, 1, 4)
    assert toy.session.problems == []


def test_a_fingerprint_of_nothing_but_zeros_was_never_measured(tmp_path: Path) -> None:
    toy = Toy(tmp_path / "a.steps")
    toy.forward(0, n=3, after={})
    toy.forward(3, after={"hidden_rms": (0.0, 0.0)})
    assert "hidden_rms" not in toy.steps()[0]


@pytest.mark.parametrize("value", [2**64, 10**5000, float("inf"), "text", (1, 2), -1], ids=list("abcdef"))
def test_garbage_among_the_facts_and_in_a_request_is_left_out(tmp_path: Path, value: Any) -> None:
    path = tmp_path / "a.steps"
    session = Session(SPEC, str(path), {})
    request, forward = SPEC.hooks_for("request")[0], SPEC.hooks_for("forward")[0]
    session.hit(Hit(request, {"prompt_tokens": value, "n_reused": 0}, {}, {}, {}, {}, None))
    values = {"seq_before": 0, "n_tokens": 3, "token_id": 1, "cache_before": (0, 0)}
    session.hit(Hit(forward, values, {}, {}, {}, {"n_layers": value, "vocab_size": value, "capacity": 9}, None))
    session.close()
    assert session.problems == []
    table = Table(path)
    assert table.runs[0].facts["model"] == {"n_layers": 2}
    assert table.runs[0].facts["kv"] == {"capacity": 9}
    assert [n.get("prompt_tokens") for _, n in table.notes() if n["kind"] == "request"] == [None]


def test_a_forward_of_which_nothing_could_be_read_is_judged_by_nothing(tmp_path: Path) -> None:
    toy = Toy(tmp_path / "a.steps")
    lost = {n: Absent(UNREADABLE, "gone") for n in ("seq_before", "n_tokens", "token_id", "cache_before")}
    for _ in range(3):
        toy.hit("forward", missing=lost)
    steps = toy.steps()
    assert [(s["phase"], s["t_ns"]) for s in steps] == [(0, None)] * 3
    assert toy.session.report.verdict == "unknown"
