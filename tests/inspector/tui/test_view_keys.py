"""Every key of the view, pressed and read from the screen."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from textual.pilot import Pilot

from inspector.cli import UsageError
from inspector.tui.feed import Feed
from inspector.tui.keys import MAIN
from inspector.tui.viewer import Viewer
from tests.inspector.tui.small_traces import (
    letters,
    own_keys_file,
    run_facts,
    seen,
    selected,
    tokens,
    until,
    view,
    write_request,
)
from traces.writer import TraceWriter

WIDE = (160, 50)


async def typed(app: Viewer, pilot: Pilot[int], line: str, opens: str) -> None:
    """Open a line with a key, type into it, and submit it."""
    await pilot.press(opens)
    await pilot.pause()
    for c in line:
        await pilot.press({" ": "space", "%": "percent_sign"}.get(c, c))
    await pilot.press("enter")
    await pilot.pause(0.2)


async def at(app: Viewer, pilot: Pilot[int], step: int) -> None:
    """Wait until the cursor stands at a step."""
    await until(app, pilot, lambda screen: any(r.startswith(">") and r[2:].split()[0] == str(step)
                                               for r in screen.splitlines()))  # fmt: skip


def test_a_search_finds_goes_on_and_comes_back(tmp_path: Path) -> None:
    async def script(app: Viewer, pilot: Pilot[int]) -> None:
        await typed(app, pilot, "b", opens="slash")
        await at(app, pilot, 2)
        await pilot.press("enter")
        await at(app, pilot, 5)
        await pilot.press("ctrl+n")
        await at(app, pilot, 2)
        assert "on from the start" in "\n".join(seen(app))
        await pilot.press("backspace")
        await at(app, pilot, 5)
        await typed(app, pilot, "", opens="slash")  # no words: the last ones
        await at(app, pilot, 2)

    view(tokens(tmp_path / "a.steps", [b"a", b"b", b"c", b"a", b"b", b"c"]), script, WIDE)


def test_a_search_by_filters(tmp_path: Path) -> None:
    async def script(app: Viewer, pilot: Pilot[int]) -> None:
        await typed(app, pilot, "finish=eos", opens="slash")
        await at(app, pilot, 7)
        await typed(app, pilot, "fail", opens="slash")
        await at(app, pilot, 3)
        await typed(app, pilot, "layer 1 gemm >= 2ms phase=prefill", opens="slash")
        await at(app, pilot, 0)
        await typed(app, pilot, "total > 99ms", opens="slash")
        await until(app, pilot, lambda screen: "no such step" in screen)

    view(letters(tmp_path / "a.steps", broken=(3,)), script, WIDE)


def test_a_line_that_is_no_filter_stays_open_and_says_why(tmp_path: Path) -> None:
    async def script(app: Viewer, pilot: Pilot[int]) -> None:
        await typed(app, pilot, "total > much", opens="slash")
        await until(app, pilot, lambda screen: "no filter: 'total > much'" in screen)
        await pilot.press("escape")
        await until(app, pilot, lambda screen: "no filter" not in screen)
        await pilot.press("enter")
        await until(app, pilot, lambda screen: "nothing was searched for yet" in screen)

    view(letters(tmp_path / "a.steps"), script, WIDE)


@pytest.mark.parametrize(("line", "step"), [("3", 3), ("-1", 7), ("-3", 5), ("50%", 3), ("999", 7)])
def test_colon_goes_to_a_step(tmp_path: Path, line: str, step: int) -> None:
    async def script(app: Viewer, pilot: Pilot[int]) -> None:
        await typed(app, pilot, line, opens="colon")
        await at(app, pilot, step)
        if line == "999":
            await until(app, pilot, lambda screen: "there is no step 999" in screen)

    view(letters(tmp_path / "a.steps"), script, WIDE)


def test_marks_are_set_seen_jumped_to_and_taken_away(tmp_path: Path) -> None:
    async def script(app: Viewer, pilot: Pilot[int]) -> None:
        await pilot.press("apostrophe")
        await until(app, pilot, lambda screen: "no step is marked" in screen)
        await pilot.press("j", "m", "j", "j", "m", "g")
        await pilot.pause()
        assert [row.split()[1] for row in seen(app) if row.startswith("*")] == ["1", "3"]
        for step in (1, 3, 1):
            await pilot.press("apostrophe")
            await at(app, pilot, step)
        await pilot.press("m", "g", "apostrophe")
        await at(app, pilot, 3)

    view(letters(tmp_path / "a.steps"), script)


def test_h_and_l_stay_in_the_sequence(tmp_path: Path) -> None:
    with TraceWriter(tmp_path / "a.steps", run_facts()) as writer:
        for seq_id in (1, 2, 2, 1, 2):
            writer.step(phase="decode", seq_id=seq_id, token_id=5, n_tokens=1, cache_len=[1] * 4)

    async def script(app: Viewer, pilot: Pilot[int]) -> None:
        for key, step in [("l", 3), ("right", 3), ("h", 0), ("left", 0)]:
            await pilot.press(key)
            await at(app, pilot, step)
        await until(app, pilot, lambda screen: "no such step" in screen)

    view(tmp_path / "a.steps", script, WIDE)


def test_steps_are_copied_and_saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    async def choose(app: Viewer, pilot: Pilot[int], key: str, says: str) -> None:
        await pilot.press("y")
        await until(app, pilot, lambda screen: "Save the film as CSV".lower() in screen.lower())
        await pilot.press(key)
        await until(app, pilot, lambda screen: says in screen)

    async def script(app: Viewer, pilot: Pilot[int]) -> None:
        await pilot.press("j", "m", "j")
        await choose(app, pilot, "y", "copied 2 steps")
        assert [line.split()[0] for line in app.clipboard.splitlines()] == ["step", "1", "2"]
        await choose(app, pilot, "i", "copied the step")
        assert json.loads(app.clipboard)["token_id"] == 293
        await choose(app, pilot, "c", "saved a-1-2.csv")
        await choose(app, pilot, "j", "saved a-1-2.json")
        await choose(app, pilot, "C", "saved a-0-7.csv")
        await choose(app, pilot, "J", "saved a-0-7.json")
        await choose(app, pilot, "s", "saved a-2.svg")
        await pilot.press("y", "escape")
        await pilot.pause()
        assert selected(app) == 2

    view(letters(tmp_path / "a.steps"), script, WIDE)
    assert len((tmp_path / "a-1-2.csv").read_text().splitlines()) == 3
    assert [s["step"] for s in json.loads((tmp_path / "a-1-2.json").read_text())["steps"]] == [1, 2]
    assert len((tmp_path / "a-0-7.csv").read_text().splitlines()) == 9
    assert len(json.loads((tmp_path / "a-0-7.json").read_text())["steps"]) == 8
    assert "REPLAY" in (tmp_path / "a-2.svg").read_text()


def test_space_plays_a_recording_at_the_speed_it_had(tmp_path: Path) -> None:
    with TraceWriter(tmp_path / "a.steps", run_facts()) as writer:
        for i in range(400):
            writer.step(phase="decode", seq_id=0, token_id=5, n_tokens=1, cache_len=[1] * 4, t_ns=i * 50_000_000)

    async def script(app: Viewer, pilot: Pilot[int]) -> None:
        await pilot.press("space")
        await until(app, pilot, lambda screen: "PLAYING" in screen and "1× as recorded" in screen)
        await pilot.pause(1.0)
        assert 5 <= selected(app) <= 60  # 20 steps a second
        await pilot.press("plus")
        await until(app, pilot, lambda screen: "10× as recorded" in screen)
        await pilot.press("space")
        await until(app, pilot, lambda screen: "PLAYING" not in screen)
        stands = selected(app)
        await pilot.pause(0.4)
        assert selected(app) == stands
        await pilot.press("plus", "plus", "space")  # 100 times: 2,000 steps a second, so the end comes soon
        await at(app, pilot, 399)
        await until(app, pilot, lambda screen: "PLAYING" not in screen)
        await pilot.press("minus", "minus", "space")
        await until(app, pilot, lambda screen: "PLAYING" in screen and selected(app) < 399)  # from the start again
        await pilot.press("escape")
        await until(app, pilot, lambda screen: "PLAYING" not in screen)

    view(tmp_path / "a.steps", script, WIDE)


def test_a_growing_trace_is_not_played(tmp_path: Path) -> None:
    writer = TraceWriter(tmp_path / "a.steps", run_facts())
    write_request(writer)

    async def script(app: Viewer, pilot: Pilot[int]) -> None:
        await pilot.press("plus", "space")
        await until(app, pilot, lambda screen: "PAUSED" in screen and "as recorded" not in screen)

    view(tmp_path / "a.steps", script, follow=True)
    writer.close()


def test_r_keeps_the_selected_step_in_sight(tmp_path: Path) -> None:
    async def script(app: Viewer, pilot: Pilot[int]) -> None:
        await typed(app, pilot, "150", opens="colon")
        await pilot.press("r")
        await pilot.pause(0.3)
        await at(app, pilot, 150)
        tokens(tmp_path / "a.steps", [b"y"] * 50)
        await pilot.press("r")
        await at(app, pilot, 50)

    view(tokens(tmp_path / "a.steps", [b"x"] * 200), script)


def test_the_palette_offers_every_action(tmp_path: Path) -> None:
    async def script(app: Viewer, pilot: Pilot[int]) -> None:
        offered = {command.title for command in app.get_system_commands(app.screen)}
        assert {binding.description for binding in MAIN} <= offered
        await pilot.press("ctrl+p")
        await pilot.pause(0.2)
        for c in "Newest":
            await pilot.press(c)
        await pilot.pause(0.5)
        await pilot.press("enter")
        await at(app, pilot, 7)

    view(letters(tmp_path / "a.steps"), script)


def test_keys_can_be_bound_to_others_in_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own_keys_file(tmp_path, monkeypatch, 'film.down = "s"\nhelp.close = "f10"\n')

    async def script(app: Viewer, pilot: Pilot[int]) -> None:
        await pilot.press("s", "s", "j")
        await pilot.pause()
        assert selected(app) == 2
        await pilot.press("question_mark")
        await until(app, pilot, lambda screen: re.search(r"\bs +one step on", screen) is not None)
        await pilot.press("escape", "f10")
        await until(app, pilot, lambda screen: "one step on" not in screen)

    view(letters(tmp_path / "a.steps"), script, (80, 60))


def test_a_theme_that_does_not_exist_is_refused_with_those_that_do(tmp_path: Path) -> None:
    feed = Feed(str(letters(tmp_path / "a.steps")), follow=False)
    with pytest.raises(UsageError, match="no theme is called 'plaid'; there are .*textual-light"):
        Viewer(feed, theme="plaid")
    assert Viewer(feed, theme="textual-light").theme == "textual-light"
