"""Files that go wrong while they are followed: the head says so, and the view goes on."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from textual.pilot import Pilot

from inspector.tui.viewer import Viewer
from tests.inspector.tui.small_traces import letters, run_facts, seen, selected, until, view, write_request, write_step
from traces import frames
from traces.writer import TraceWriter

WIDE = (160, 50)


def long(path: Path, steps: int = 40, end: bool = False) -> Path:
    """A trace of `steps` steps, still open unless `end`."""
    writer = TraceWriter(path, run_facts())
    write_request(writer)
    for i in range(1, steps):
        write_step(writer, 5, b"%d," % i, before=24 + i)
    writer.close() if end else writer.leave_unfinished()
    return path


def append(path: Path, data: bytes) -> None:
    """Bytes behind the end."""
    with open(path, "ab") as file:
        file.write(data)


def last_frame(path: Path) -> bytes:
    """The last frame of a trace."""
    data = path.read_bytes()
    return data[data.rindex(b"STEP") :]


async def still_alive(app: Viewer, pilot: Pilot[int]) -> None:
    """Keys still move the cursor over what was read."""
    await pilot.press("g", "j", "j")
    await pilot.pause(0.1)
    assert selected(app) == 2
    await pilot.press("f")
    await pilot.pause(0.1)


def shrunk(path: Path) -> None:
    """The last twenty of its frames are gone."""
    os.truncate(path, path.stat().st_size - 20 * len(last_frame(path)))


def replaced(path: Path) -> None:
    """Another trace has its name."""
    os.replace(long(path.with_name("other.steps"), 60), path)


def rotated(path: Path) -> None:
    """It was moved aside, as log rotation does, and a new one begun."""
    path.rename(path.with_name("a.steps.1"))
    long(path, 5)


def removed(path: Path) -> None:
    """It is gone."""
    path.unlink()


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (shrunk, "became shorter while it was being read"), (replaced, "another file has taken its name"),
        (rotated, "another file has taken its name"), (removed, "the file was removed"),
    ],
)  # fmt: skip
def test_a_file_that_goes_wrong_is_said_and_the_view_goes_on(
    tmp_path: Path, spoil: Callable[[Path], None], says: str
) -> None:
    path = long(tmp_path / "a.steps")

    async def script(app: Viewer, pilot: Pilot[int]) -> None:
        await until(app, pilot, lambda screen: "40 steps" in screen)
        spoil(path)
        screen = await until(app, pilot, lambda screen: says in screen)
        assert "40 steps" in screen and "STALLED" in screen
        await still_alive(app, pilot)

    view(path, script, WIDE, follow=True)


@pytest.mark.parametrize(("spoil", "steps"), [(shrunk, 20), (replaced, 60), (rotated, 5)])
def test_r_opens_what_has_the_name_now(tmp_path: Path, spoil: Callable[[Path], None], steps: int) -> None:
    path = long(tmp_path / "a.steps")

    async def script(app: Viewer, pilot: Pilot[int]) -> None:
        await until(app, pilot, lambda screen: "40 steps" in screen)
        await pilot.press("g", "j", "j", "j")
        spoil(path)
        await pilot.press("r")
        await until(app, pilot, lambda screen: f" {steps} steps" in screen)
        await until(app, pilot, lambda screen: any(row.startswith(">") and row[2:].split()[0] == "3"
                                                   for row in screen.splitlines()))  # fmt: skip

    view(path, script, WIDE, follow=True)


def test_a_damaged_frame_that_comes_costs_its_own_step_only(tmp_path: Path) -> None:
    path = long(tmp_path / "a.steps")

    async def script(app: Viewer, pilot: Pilot[int]) -> None:
        await until(app, pilot, lambda screen: "40 steps" in screen)
        frame = last_frame(path)
        append(path, frame[:60] + bytes([frame[60] ^ 0xFF]) + frame[61:] + frame)
        screen = await until(app, pilot, lambda screen: "42 steps" in screen and "1 damaged place" in screen)
        assert "damaged: this step's frame fails its checksum" in screen
        await still_alive(app, pilot)

    view(path, script, WIDE, follow=True)


def test_bytes_that_are_no_frame_are_passed_over_once_a_sound_one_follows(tmp_path: Path) -> None:
    path = long(tmp_path / "a.steps")

    async def script(app: Viewer, pilot: Pilot[int]) -> None:
        await until(app, pilot, lambda screen: "40 steps" in screen)
        frame = last_frame(path)
        append(path, b"STEPnonsense" * 5)
        await pilot.pause(0.3)
        append(path, frame)
        await until(app, pilot, lambda screen: "41 steps" in screen and "1 damaged place" in screen)
        await still_alive(app, pilot)

    view(path, script, WIDE, follow=True)


def test_half_a_frame_waits_for_its_other_half(tmp_path: Path) -> None:
    path = long(tmp_path / "a.steps")

    async def script(app: Viewer, pilot: Pilot[int]) -> None:
        await until(app, pilot, lambda screen: "40 steps" in screen)
        frame = last_frame(path)
        append(path, frame[:50])
        await pilot.pause(0.3)
        assert any("40 steps" in row for row in seen(app))
        append(path, frame[50:])
        screen = await until(app, pilot, lambda screen: "41 steps" in screen)
        assert "damaged" not in screen

    view(path, script, WIDE, follow=True)


def test_a_frame_that_claims_gigabytes_is_not_waited_for_in_memory(tmp_path: Path) -> None:
    path = long(tmp_path / "a.steps")

    async def script(app: Viewer, pilot: Pilot[int]) -> None:
        await until(app, pilot, lambda screen: "40 steps" in screen)
        append(path, frames.HEADER.pack(frames.MAGIC, frames.STEPS, 1, 0xFFFFFFF8, 0) + b"x" * 100)
        append(path, last_frame(long(tmp_path / "b.steps")))
        await until(app, pilot, lambda screen: "41 steps" in screen)

    view(path, script, WIDE, follow=True)


@pytest.mark.parametrize("size", [(20, 5), (80, 3)])
def test_every_key_at_the_smallest_sizes(tmp_path: Path, size: tuple[int, int]) -> None:
    async def script(app: Viewer, pilot: Pilot[int]) -> None:
        for key in ("slash", "colon", "y", "question_mark", "ctrl+p"):
            await pilot.press(key)
            await pilot.pause(0.1)
            await pilot.press("escape")
            await pilot.pause(0.05)
        await pilot.press("m", "j", "n", "N", "apostrophe", "plus", "space", "space", "r", "G", "backspace", "l")
        await pilot.pause(0.2)
        await pilot.press("q")

    assert view(letters(tmp_path / "a.steps"), script, size).return_code == 0


def test_a_huge_token_is_shown_without_moving_anything(tmp_path: Path) -> None:
    path = tmp_path / "a.steps"
    with TraceWriter(path, run_facts()) as writer:
        write_request(writer)
        write_step(writer, 5, b"z" * 200_000, before=25)
        write_step(writer, 5, b"end", before=26)

    async def script(app: Viewer, pilot: Pilot[int]) -> None:
        await pilot.press("j")
        await pilot.pause(0.2)
        assert selected(app) == 1
        await pilot.press("slash", *"end", "enter")
        await until(app, pilot, lambda screen: any(row.startswith(">") and row[2:].split()[0] == "2"
                                                   for row in screen.splitlines()))  # fmt: skip

    view(path, script, (80, 24))
