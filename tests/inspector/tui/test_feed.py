"""Following a file, with a clock that the test turns; what the snapshots and the state say."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from inspector.tui.feed import Feed
from inspector.tui.model import Snapshot, state_of
from tests.inspector.tui.small_traces import Clock, damage, letters, run_facts, write_request, write_step
from traces.writer import TraceError, TraceWriter


def read(feed: Feed) -> Snapshot:
    """What the feed knows once it has nothing more to do."""
    feed.judge()
    while feed.turn():
        pass
    return feed.snapshot


def state(feed: Feed, paused: bool = False, engine: str | None = None) -> str:
    """The state as `WORD: detail`."""
    found = state_of(feed.snapshot, feed.clock(), paused, engine)
    return f"{found.word}: {found.detail}" if found.detail else found.word


def test_a_recorded_trace_is_read_to_its_end(tmp_path: Path) -> None:
    snapshot = read(Feed(str(letters(tmp_path / "a.steps")), follow=False))
    assert (snapshot.steps, snapshot.complete, snapshot.indexed) == (8, True, True)
    assert snapshot.verdicts.judged == 8
    assert snapshot.verdicts.failed == 0


def test_a_key_held_down_does_not_end_the_judging(tmp_path: Path) -> None:
    feed = Feed(str(letters(tmp_path / "a.steps")), follow=False)
    feed.start()
    feed.judge()
    until = time.monotonic() + 30
    while feed.snapshot.verdicts.judged < 8 and time.monotonic() < until:
        feed.give_way()
        time.sleep(0.01)
    feed.stop()
    assert feed.snapshot.verdicts.judged == 8


def test_speed_and_ttft_of_known_times(tmp_path: Path) -> None:
    # six tokens fed by seven sampled steps of 10 ms; the first sampled step begins at 14 ms, the request came at 2 ms
    pace = read(Feed(str(letters(tmp_path / "a.steps")), follow=False)).pace
    assert pace.mean == pytest.approx(6 / 0.070)
    assert pace.now == pytest.approx(6 / 0.070)
    assert pace.ttft_ms == pytest.approx(12.0)


def test_a_forward_shared_by_two_sequences_counts_its_time_once(tmp_path: Path) -> None:
    facts = run_facts()
    facts["fields"] = [*facts["fields"], ["forward_id", "I32"]]
    with TraceWriter(tmp_path / "a.steps", facts) as writer:
        for forward in range(4):
            for seq_id in range(2):
                writer.step(phase="decode", seq_id=seq_id, token_id=5, n_tokens=1, seq_before=forward,
                            seq_len=forward + 1, cache_len=[forward + 1] * 4, total_ms=20.0,
                            forward_id=forward)  # fmt: skip
    pace = read(Feed(str(tmp_path / "a.steps"), follow=False)).pace
    assert pace.mean == pytest.approx(8 / 0.080)


def test_without_totals_the_beginnings_of_steps_give_the_speed(tmp_path: Path) -> None:
    with TraceWriter(tmp_path / "a.steps", run_facts()) as writer:
        for i in range(5):
            writer.step(phase="decode", seq_id=0, token_id=5, n_tokens=1, seq_before=i, seq_len=i + 1,
                        cache_len=[i + 1] * 4, t_ns=i * 50_000_000)  # fmt: skip
    # four whole steps of 50 ms; how long the fifth took nobody knows
    assert read(Feed(str(tmp_path / "a.steps"), follow=False)).pace.mean == pytest.approx(20.0)


def test_failures_can_be_found_from_any_step(tmp_path: Path) -> None:
    verdicts = read(Feed(str(letters(tmp_path / "a.steps", broken=(2, 5))), follow=False)).verdicts
    assert [verdicts.after(step) for step in (0, 2, 4, 5)] == [2, 5, 5, None]
    assert [verdicts.before(step) for step in (2, 3, 5, 7)] == [None, 2, 2, 5]
    assert [failure.code for failure in verdicts.at(2)] == ["KV01", "KV02"]
    assert verdicts.at(3) == ()
    assert verdicts.failed == 4


def test_a_file_is_awaited_and_then_followed(tmp_path: Path) -> None:
    path = tmp_path / "later.steps"
    feed = Feed(str(path), follow=True, clock=Clock())
    read(feed)
    assert state(feed) == "WAITING: the file is not there yet"
    path.write_bytes(b"STE")
    read(feed)
    assert state(feed) == "WAITING: no complete run description in the file yet"
    path.unlink()
    feed = Feed(str(path), follow=True, clock=Clock())
    with TraceWriter(path, run_facts()) as writer:
        assert read(feed).steps == 0
        assert state(feed) == "LIVE"
        write_request(writer)
        assert read(feed).steps == 1
        write_step(writer, 64, b"a", before=25)
        snapshot = read(feed)
        assert (snapshot.steps, snapshot.verdicts.judged, snapshot.complete) == (2, 2, False)
    assert read(feed).complete
    assert state(feed) == "ENDED"


def test_a_writer_that_died_shows_as_no_new_steps(tmp_path: Path) -> None:
    clock = Clock()
    feed = Feed(str(letters(tmp_path / "a.steps", end=False)), follow=True, clock=clock)
    read(feed)
    assert state(feed) == "LIVE"
    clock.now += 7
    read(feed)
    assert state(feed, engine="engine ended by SIGKILL") == "STALLED: engine ended by SIGKILL; no new steps for 7 s"


def test_a_file_that_shrinks_is_said_and_what_was_read_stays(tmp_path: Path) -> None:
    path = letters(tmp_path / "a.steps", end=False)
    feed = Feed(str(path), follow=True, clock=Clock())
    read(feed)
    os.truncate(path, path.stat().st_size // 2)
    snapshot = read(feed)
    assert "became shorter" in str(snapshot.problem)
    assert snapshot.steps == 8
    assert state(feed).startswith("STALLED")


def test_a_file_that_is_replaced_or_removed_is_said(tmp_path: Path) -> None:
    path = letters(tmp_path / "a.steps", end=False)
    feed = Feed(str(path), follow=True, clock=Clock())
    read(feed)
    os.replace(letters(tmp_path / "b.steps"), path)
    assert "another file has taken its name" in str(read(feed).problem)
    path.unlink()
    assert read(feed).problem == "the file was removed"
    assert feed.snapshot.steps == 8


def test_pause_is_a_state_of_the_view_only(tmp_path: Path) -> None:
    feed = Feed(str(letters(tmp_path / "a.steps", end=False)), follow=True, clock=Clock())
    read(feed)
    assert state(feed, paused=True) == "PAUSED"


def test_without_following_a_missing_end_is_a_cut(tmp_path: Path) -> None:
    path = letters(tmp_path / "a.steps", end=False)
    path.write_bytes(path.read_bytes()[:-10])
    feed = Feed(str(path), follow=False)
    read(feed)
    assert state(feed).startswith("CUT OFF: no END frame, ")


def test_damage_is_known_once_its_steps_were_read(tmp_path: Path) -> None:
    snapshot = read(Feed(str(damage(letters(tmp_path / "a.steps"), step=4)), follow=False))
    assert [(place.steps) for place in snapshot.damage] == [1]
    assert snapshot.steps == 8


@pytest.mark.parametrize("follow", [False, True])
def test_what_is_no_trace_is_refused_at_once(tmp_path: Path, follow: bool) -> None:
    path = tmp_path / "a.txt"
    path.write_text("hello, I am a letter, not a trace")
    feed = Feed(str(path), follow)
    feed.start()
    with pytest.raises(TraceError, match="not a step trace"):
        feed.opened(5)
    feed.stop()


def test_a_missing_file_is_refused_unless_it_is_followed(tmp_path: Path) -> None:
    feed = Feed(str(tmp_path / "none.steps"), follow=False)
    feed.start()
    with pytest.raises(TraceError, match="No such file"):
        feed.opened(5)
    feed.stop()


def test_two_runs_in_one_file_keep_their_own_facts(tmp_path: Path) -> None:
    with TraceWriter(tmp_path / "a.steps", run_facts()) as writer:
        write_request(writer)
        second = {**run_facts(), "model": {"name": "second"}}
        writer.start_run(second)
        write_request(writer)
    snapshot = read(Feed(str(tmp_path / "a.steps"), follow=False))
    assert snapshot.run_facts(0)["model"]["name"] == "letters"
    assert snapshot.run_facts(1)["model"]["name"] == "second"
