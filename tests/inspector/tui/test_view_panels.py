"""What the panels do: failures beyond those kept, walking over text and rules, one sequence, notes, sources, ASCII."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from textual.pilot import Pilot

from inspector.tui.feed import KEPT_FAILURES
from inspector.tui.panels import layers, source
from inspector.tui.plot import Canvas, medians_along, nice_above, sparkline
from inspector.tui.sample import Medians
from inspector.tui.viewer import Viewer
from tests.inspector.tui.small_traces import (
    letters,
    run_facts,
    seen,
    selected,
    tokens,
    until,
    view,
    write_request,
    write_step,
)
from traces import record
from traces.check import Failure
from traces.columnar import Broken, TableChecker, check_table
from traces.table import Table
from traces.writer import TraceWriter


def all_broken(path: Path, steps: int) -> Path:
    """Every decode step breaks KV01: its rows are one short."""
    with TraceWriter(path, run_facts()) as writer:
        write_request(writer)
        for i in range(steps):
            write_step(writer, 5, b"x", before=25 + i, rows=[25 + i] * 4)
    return path


def test_failures_behind_those_kept_have_their_numbers_too(tmp_path: Path) -> None:
    path = all_broken(tmp_path / "a.steps", 300)
    checker = TableChecker(Table(path), limit=3)
    while checker.advance(64):
        pass
    every: dict[int, list[Failure]] = {}
    for failure in check_table(Table(path), limit=None).failures():
        every.setdefault(failure.step or 0, []).append(failure)
    for step in (1, 63, 64, 65, 200, 300):
        assert sorted(checker.failures_at(step)) == sorted(every[step])
    assert checker.failures_at(0) == []


def test_broken_steps_are_found_in_both_directions() -> None:
    broken = Broken(["KV01", "KV02"])
    broken.mark("KV01", [3, Broken.BLOCK - 1, 5 * Broken.BLOCK])
    broken.mark("KV02", [3])
    assert broken.at(3) == ("KV01", "KV02") and broken.at(4) == () and broken.at(Broken.BLOCK) == ()
    assert [broken.after(step) for step in (-1, 3, Broken.BLOCK - 1)] == [3, Broken.BLOCK - 1, 5 * Broken.BLOCK]
    assert broken.after(5 * Broken.BLOCK) is None and broken.before(3) is None
    assert broken.before(5 * Broken.BLOCK) == Broken.BLOCK - 1 and broken.after(3, "KV02") is None
    assert broken.steps().tolist() == [3, Broken.BLOCK - 1, 5 * Broken.BLOCK]


def test_n_goes_on_behind_the_failures_that_are_kept(tmp_path: Path) -> None:
    async def script(app: Viewer, pilot: Pilot[int]) -> None:
        await pilot.press("G", "n")
        await until(app, pilot, lambda screen: "no failure after" in screen)
        await pilot.press("N")
        last = KEPT_FAILURES + 19
        await until(app, pilot, lambda screen: f"KV01 step {last} seq 0" in screen)
        assert selected(app) == last

    view(all_broken(tmp_path / "a.steps", KEPT_FAILURES + 20), script)


def test_clicking_and_walking_over_text_selects_its_step(tmp_path: Path) -> None:
    async def script(app: Viewer, pilot: Pilot[int]) -> None:
        row = next(y for y, line in enumerate(seen(app)) if line.startswith("abcdef"))
        await pilot.click(offset=(3, row))
        await pilot.pause(0.1)
        assert selected(app) == 4  # d
        await pilot.press("1", "left")
        await until(app, pilot, lambda screen: "ab[c]def" in screen)
        await pilot.press("right", "right")
        await until(app, pilot, lambda screen: "abcd[e]f" in screen)

    view(letters(tmp_path / "a.steps"), script)


def test_clicking_a_line_of_the_film_selects_its_step(tmp_path: Path) -> None:
    async def script(app: Viewer, pilot: Pilot[int]) -> None:
        row = next(y for y, line in enumerate(seen(app)) if line[2:].split()[:2] == ["3", "decode"])
        await pilot.click(offset=(5, row))
        await pilot.pause(0.1)
        assert selected(app) == 3

    view(letters(tmp_path / "a.steps"), script)


def test_without_text_the_ids_stand_for_the_tokens(tmp_path: Path) -> None:
    with record(tmp_path / "a.steps", n_layers=1) as trace:
        trace.step(n_tokens=2, seq_before=0, seq_len=2, cache_len=[2])
        for i, token in enumerate((64, 293, 272)):
            trace.step(token_id=token, n_tokens=1, seq_before=2 + i, seq_len=3 + i, cache_len=[3 + i])

    async def script(app: Viewer, pilot: Pilot[int]) -> None:
        await pilot.press("j", "j")
        screen = await until(app, pilot, lambda screen: "64 [293] 272" in screen)
        assert "token ids (no text recorded)" in screen

    view(tmp_path / "a.steps", script)


def test_a_rule_of_the_list_is_shown_in_full_and_enter_goes_to_its_failure(tmp_path: Path) -> None:
    async def script(app: Viewer, pilot: Pilot[int]) -> None:
        await pilot.press("4", "down")
        screen = await until(app, pilot, lambda screen: "KV01 length equals rows: seq_len equals" in screen)
        assert "usually means: A prefix's rows were restored" in screen
        await pilot.press("enter")
        await until(app, pilot, lambda screen: "KV01 step 5 seq 0: seq_len is 30" in screen)

    view(letters(tmp_path / "a.steps", broken=(5,)), script, (200, 60))


def two_sequences(path: Path) -> Path:
    """Two requests take turns, with a note of each between."""
    with TraceWriter(path, run_facts()) as writer:
        write_request(writer)
        for i in range(6):
            write_step(writer, 64, b"a", before=25 + i)
            if i == 2:
                writer.note("rollback", seq_id=41, n=0)
            writer.step(phase="decode", seq_id=41, token_id=9, n_tokens=1, seq_before=3 + i, seq_len=4 + i,
                        cache_len=[4 + i] * 4, text=b"Z")  # fmt: skip
        writer.note("message", text="that is all")
    return path


def test_one_sequence_only_and_all_again(tmp_path: Path) -> None:
    def films(app: Viewer) -> list[list[str]]:
        return [row[2:].split()[:2] for row in seen(app) if "decode" in row]

    async def script(app: Viewer, pilot: Pilot[int]) -> None:
        assert {seq for _, seq in films(app)} == {"0", "41"}
        assert any("── rollback seq 41: 0 rows taken back" in row for row in seen(app))
        await pilot.press("j", "o")
        await until(app, pilot, lambda screen: "only sequence 0: o shows all" in screen)
        assert {seq for _, seq in films(app)} == {"0"}
        assert not any("rollback" in row for row in seen(app))
        await pilot.press("j", "j")
        await pilot.pause(0.1)
        assert selected(app) == 5
        await pilot.press("o", "G")
        await until(app, pilot, lambda screen: "── message: that is all" in screen)
        assert {seq for _, seq in films(app)} == {"0", "41"}

    view(two_sequences(tmp_path / "a.steps"), script, (120, 40))


@pytest.mark.parametrize("size", [(80, 24), (200, 60)])
def test_in_ascii_nothing_else_is_drawn(tmp_path: Path, size: tuple[int, int]) -> None:
    async def script(app: Viewer, pilot: Pilot[int]) -> None:
        for keys in ("n", "3 z", "escape b", "5", "question_mark"):
            await pilot.press(*keys.split())
            await pilot.pause(0.1)
            assert [row for row in seen(app) if not row.isascii()] == []

    view(letters(tmp_path / "日本.steps", broken=(2,)), script, size, ascii=True)


def test_a_source_is_read_where_the_mapping_says(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "loop.c").write_text("int x;\nint step(void);\n")
    maps = [("/build", str(tmp_path))]
    place = source.place_of({"kind": "source", "file": "/build/src/loop.c", "line": 2, "function": "step"})
    assert place is not None
    page = source.source(place, source.read(place.file, maps), 80)
    lines = ["".join(text for text, _ in line) for line in page.lines]
    assert lines == [" 1  int x;", ">2  int step(void);"] and page.cursor == 1


@pytest.mark.parametrize(("file", "maps", "found"), [
    ("/b/x.c", [("/b", "/s")], "/s/x.c"), ("/bb/x.c", [("/b", "/s")], "/bb/x.c"),
    ("/b/x.c", [("/b/", "/s/")], "/s/x.c"),
    ("x.c", [], "x.c"), ("/b/c/x.c", [("/b/c", "/1"), ("/b", "/2")], "/1/x.c"),
])  # fmt: skip
def test_a_mapping_replaces_whole_folders(file: str, maps: list[tuple[str, str]], found: str) -> None:
    assert source.mapped(file, maps) == found


@pytest.mark.parametrize("made", ["nothing", "folder", "binary"])
def test_a_source_that_is_not_there_says_so_and_what_to_do(tmp_path: Path, made: str) -> None:
    path = tmp_path / "x.c"
    if made == "folder":
        path.mkdir()
    elif made == "binary":
        path.write_bytes(b"\0\1")
    place = source.Place(str(path), 3, "f")
    said = "".join(text for line in source.source(place, source.read(str(path), []), 300).lines for text, _ in line)
    assert {"nothing": "not here", "folder": "not a file", "binary": "not a source file"}[made] in said
    assert "--source-map" in said


def test_curves_stand_where_their_numbers_are() -> None:
    canvas = Canvas(2, 2, ascii=True)
    canvas.curve([0.0, 0.9], "gemm", "#")
    assert ["".join(text for text, _ in canvas.row(y)) for y in (0, 1)] == [" #", "# "]
    braille = Canvas(1, 1)
    braille.curve([0.0, 0.99], "gemm", "#")
    # the left column's lowest dot; the right column's three above it and the top one
    assert braille.row(0)[0][0] == chr(0x2800 + 0x40 + 0x08 + 0x10 + 0x20)
    assert sparkline(np.array([0.0, 4.0, 8.0]), 9, ascii=False) == "▁▅█"
    assert [nice_above(v) for v in (0.9, 1.0, 1.2, 7.0, 81.0)] == [1.0, 1.0, 1.5, 8.0, 100.0]


def test_medians_along_do_not_follow_one_slow_step() -> None:
    x = np.arange(160)
    y = np.full(160, 2.0)
    y[80] = 500.0
    assert medians_along(x, y, 0, 159, 40).tolist() == [2.0] * 40
    assert np.isnan(medians_along(x[:0], y[:0], 0, 1, 4)).all()


def test_the_times_of_a_long_trace_reach_to_its_end(tmp_path: Path) -> None:
    async def script(app: Viewer, pilot: Pilot[int]) -> None:
        await pilot.press("3")
        # the axis ends at the longest sequence: 25 tokens and one a step
        await until(app, pilot, lambda screen: "15,025 tokens" in screen)

    # more than is read before the first picture
    view(tokens(tmp_path / "long.steps", [b"x"] * 15_000), script, size=(120, 40))


@pytest.mark.parametrize("width", [40, 60, 100])
def test_a_slow_layers_time_is_shown_whole(width: int) -> None:
    step = {"cache_len": [32768] * 2, "gemm_ms": [12_345.6, 0.25], "attn_ms": [1234.5, 0.5], "seq_len": 32768}
    page = layers.layers(step, {}, None, Medians(), width)
    said = ["".join(text for text, _ in line) for line in (*page.top, *page.lines)]
    assert [line.split()[1:3] for line in said[1:2]] == [["12345.9", "1235.0"]]
    assert "12345.6" in said[2] and "1234.5" in said[2]
    assert "0.250" in said[3] and "0.500" in said[3]
