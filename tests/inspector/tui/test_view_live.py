"""The view of a trace that grows while it is looked at, and of the engine process that writes it."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

from textual.pilot import Pilot

from inspector.tui.engine import Engine
from inspector.tui.viewer import Viewer
from tests.inspector.tui.small_traces import (
    letters,
    run_facts,
    seen,
    selected,
    until,
    view,
    write_request,
    write_step,
)
from traces.writer import TraceWriter


def grow(writer: TraceWriter, first: int, stop: int) -> None:
    """Steps `first` up to `stop` of a trace whose step 0 is the prefill."""
    for i in range(first, stop):
        write_step(writer, 5, b"%d," % i, before=24 + i)


def test_the_view_follows_the_tail_until_it_is_left_and_again_after_f(tmp_path: Path) -> None:
    writer = TraceWriter(tmp_path / "a.steps", run_facts())
    write_request(writer)
    grow(writer, 1, 40)

    async def script(app: Viewer, pilot: Pilot[int]) -> None:
        await until(app, pilot, lambda screen: "40 steps" in screen and "LIVE" in screen)
        assert selected(app) == 39
        grow(writer, 40, 50)
        await until(app, pilot, lambda screen: "50 steps" in screen)
        assert selected(app) == 49
        await pilot.press("k", "k")
        grow(writer, 50, 73)
        await until(app, pilot, lambda screen: "23 new steps below" in screen)
        assert selected(app) == 47
        await pilot.press("f")
        await until(app, pilot, lambda screen: "new steps below" not in screen)
        assert selected(app) == 72
        writer.close()
        await until(app, pilot, lambda screen: "ENDED" in screen)

    view(tmp_path / "a.steps", script, follow=True)


def test_scrolling_back_with_the_wheel_leaves_the_tail(tmp_path: Path) -> None:
    writer = TraceWriter(tmp_path / "a.steps", run_facts())
    write_request(writer)
    grow(writer, 1, 100)

    async def script(app: Viewer, pilot: Pilot[int]) -> None:
        await until(app, pilot, lambda screen: "100 steps" in screen)
        app.screen.query_one("#film").scroll_relative(y=-5, animate=False)
        await pilot.pause(0.1)
        grow(writer, 100, 107)
        screen = await until(app, pilot, lambda screen: "7 new steps below" in screen)
        assert "106 decode" not in screen
        writer.close()

    view(tmp_path / "a.steps", script, follow=True)


def test_space_freezes_the_view_and_says_what_waits(tmp_path: Path) -> None:
    writer = TraceWriter(tmp_path / "a.steps", run_facts())
    write_request(writer)
    grow(writer, 1, 10)

    async def script(app: Viewer, pilot: Pilot[int]) -> None:
        await until(app, pilot, lambda screen: "10 steps" in screen)
        await pilot.press("space")
        grow(writer, 10, 25)
        screen = await until(app, pilot, lambda screen: "15 new steps wait" in screen)
        assert "PAUSED" in screen and "10 steps" in screen
        await pilot.press("space")
        screen = await until(app, pilot, lambda screen: "25 steps" in screen)
        assert "PAUSED" not in screen
        assert selected(app) == 24
        writer.close()

    view(tmp_path / "a.steps", script, follow=True)


def test_a_failure_is_seen_when_it_comes(tmp_path: Path) -> None:
    writer = TraceWriter(tmp_path / "a.steps", run_facts())
    write_request(writer)
    grow(writer, 1, 10)

    async def script(app: Viewer, pilot: Pilot[int]) -> None:
        await until(app, pilot, lambda screen: "✓ no failure" in screen)
        write_step(writer, 5, b"x", before=34, rows=[34, 35, 35, 35])
        grow(writer, 11, 15)
        await until(app, pilot, lambda screen: "✗ 2 failures" in screen)
        await pilot.press("N")
        await pilot.pause()
        assert selected(app) == 10
        writer.close()

    view(tmp_path / "a.steps", script, follow=True)


def test_a_file_that_comes_later_is_awaited(tmp_path: Path) -> None:
    async def script(app: Viewer, pilot: Pilot[int]) -> None:
        assert "WAITING" in seen(app)[0] and "not there yet" in seen(app)[0]
        letters(tmp_path / "later.steps")
        await until(app, pilot, lambda screen: "8 steps" in screen and "ENDED" in screen)

    view(tmp_path / "later.steps", script, (160, 50), follow=True)


def test_a_replaced_file_is_opened_again_with_r(tmp_path: Path) -> None:
    path = letters(tmp_path / "a.steps", end=False)

    async def script(app: Viewer, pilot: Pilot[int]) -> None:
        await until(app, pilot, lambda screen: "8 steps" in screen)
        other = tmp_path / "b.steps"
        with TraceWriter(other, run_facts()) as writer:
            write_request(writer)
            grow(writer, 1, 30)
        other.rename(path)
        screen = await until(app, pilot, lambda screen: "another file has taken its name" in screen)
        assert "8 steps" in screen
        await pilot.press("r")
        await until(app, pilot, lambda screen: "30 steps" in screen and "ENDED" in screen)
        assert selected(app) == 29

    view(path, script, (160, 50), follow=True)


ENGINE = """
import signal, sys, time
stopped = []
signal.signal(signal.SIGINT, lambda *_: stopped.append(1))
print("ready", flush=True)
while not stopped:
    time.sleep(0.01)
"""


def engine_process() -> subprocess.Popen[str]:
    """A process that ends well on SIGINT."""
    process = subprocess.Popen([sys.executable, "-c", ENGINE], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None and process.stdout.readline() == "ready\n"
    return process


def test_x_asks_the_engine_to_stop(tmp_path: Path) -> None:
    process = engine_process()

    async def script(app: Viewer, pilot: Pilot[int]) -> None:
        await until(app, pilot, lambda screen: f"engine runs as process {process.pid}" in screen)
        await pilot.press("x")
        await until(app, pilot, lambda screen: "engine ended" in screen)

    view(letters(tmp_path / "a.steps", end=False), script, (160, 50), follow=True, engine=Engine(process))
    assert process.wait(5) == 0


def test_q_asks_the_engine_to_stop_too(tmp_path: Path) -> None:
    process = engine_process()

    async def script(app: Viewer, pilot: Pilot[int]) -> None:
        await pilot.press("q")

    view(letters(tmp_path / "a.steps", end=False), script, follow=True, engine=Engine(process))
    assert process.wait(5) == 0


def test_an_engine_that_was_killed_is_told_from_one_that_ended(tmp_path: Path) -> None:
    process = engine_process()

    async def script(app: Viewer, pilot: Pilot[int]) -> None:
        process.send_signal(signal.SIGKILL)
        await until(app, pilot, lambda screen: "engine ended by SIGKILL" in screen)

    view(letters(tmp_path / "a.steps", end=False), script, (160, 50), follow=True, engine=Engine(process))


def test_an_engine_that_ends_without_a_trace_ends_the_view(tmp_path: Path) -> None:
    process = subprocess.Popen([sys.executable, "-c", "raise SystemExit(2)"])
    process.wait(20)

    async def script(app: Viewer, pilot: Pilot[int]) -> None:
        await pilot.pause(1.5)

    assert view(tmp_path / "never.steps", script, follow=True, engine=Engine(process)).return_code == 0
