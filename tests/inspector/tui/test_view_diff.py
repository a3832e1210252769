"""The diff view, driven by its keys and read from its screen."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from inspector import cli
from inspector.tui import keys
from inspector.tui.comparing import Comparison
from inspector.tui.diff_viewer import DiffViewer
from tests.command_line import fails
from tests.inspector.tui.pictures import IN_COLOURS, IN_SIZES, looks_as_before
from tests.inspector.tui.small_traces import (
    damage,
    letters,
    own_keys_file,
    run_facts,
    seen,
    until,
    write_request,
    write_step,
)
from tests.inspector.tui.two_builds import PARTS_AT, RMS_AT, ROWS_AT, build, compare
from traces.writer import TraceWriter

Press = Callable[..., Awaitable[str]]


def pair(folder: Path, **facts: Any) -> tuple[list[Path], list[Path]]:
    return [build(folder / "old.steps", **facts)], [build(folder / "new.steps", new=True, **facts)]


def shown(base: list[Path], new: list[Path], keys: str = "", size: tuple[int, int] = (120, 40)) -> list[str]:
    """The screen after some keys."""
    rows: list[str] = []

    async def script(app: DiffViewer, pilot: Pilot[int]) -> None:
        await pilot.press(*keys.split())
        await pilot.pause(0.1)
        rows.extend(seen(app))

    compare(base, new, script, size)
    return rows


def cursor(rows: list[str]) -> list[str]:
    """The words of the selected line."""
    return next(row for row in rows if row.startswith(">"))[2:].split()


async def at_output(app: DiffViewer, pilot: Pilot[int], number: int | str) -> None:
    where = f"output {number} of" if isinstance(number, int) else number
    await until(app, pilot, lambda screen: where in screen)


# -- what is shown -----------------------------------------------------------------------------------------------------


def test_it_opens_where_the_tokens_part_with_that_line_in_the_middle(tmp_path: Path) -> None:
    rows = shown(*pair(tmp_path))
    assert cursor(rows)[:4] == [str(PARTS_AT + 1), "decode", "293", "b"]
    assert "≠" in cursor(rows)
    assert cursor(rows)[cursor(rows).index("≠") + 1 :][:4] == [str(PARTS_AT + 1), "decode", "294", "d"]
    first = next(i for i, row in enumerate(rows) if "length" in row)
    last = next(i for i, row in enumerate(rows) if "layers' time" in row)
    assert abs(rows.index(next(r for r in rows if r.startswith(">"))) - (first + last) // 2) <= 1
    before, after = rows[first + 1 : last], [row for row in rows if " · " in row]
    assert any(" = " in row for row in before)
    assert after and all("≠" not in row for row in after)


def test_the_head_has_the_verdicts_of_diff(tmp_path: Path) -> None:
    rows = shown(*pair(tmp_path))
    assert rows[0].split()[0] == "DIFFERS"
    assert "old.steps → …" in rows[0] and rows[0].endswith("new.steps")
    words = ["✗ tokens differs", "✗ state differs", "✗ layers differs", "? time cannot decide: needs 4 runs a side"]
    assert rows[1].strip() == " │ ".join(words)
    assert f"output {PARTS_AT} of seq 0, step 25 | 25" in rows[2] and "a fault" in rows[2]


def test_the_layers_times_are_those_of_the_steps_or_of_the_whole_runs(tmp_path: Path) -> None:
    """GEMM: 1.5 ms for 1 in layer 2, 4.5 for 4 in all; the step 6.0 for 5.5."""
    for keys_, title in (("", "step 25 | 25"), ("t", "decode of the whole runs"), ("t t", "step 25 | 25")):
        rows = shown(*pair(tmp_path), keys=keys_)
        at = next(i for i, row in enumerate(rows) if "layers' time" in row)
        assert title in rows[at]
        words = [row[:58].split() for row in rows[at + 1 : at + 5]]
        assert words[0] == ["layer", "all", "0", "1", "2", "3"]
        assert words[1] == ["GEMM", "△1.12", "1.00", "1.00", "▲1.50", "1.00"]
        assert words[2] == ["attn", "1.00", "1.00", "1.00", "1.00", "1.00"]
        assert words[3] == ["total", "△1.09"]
    assert any("cannot decide: needs 4 runs a side (runs: 1 and 1)" in row for row in shown(*pair(tmp_path), keys="t"))


def test_many_layers_in_little_room_are_signs_and_the_numbers_furthest_off(tmp_path: Path) -> None:
    rows = shown(*pair(tmp_path, layers=28), size=(80, 24))
    gemm = next(row for row in rows if row.startswith("GEMM"))
    assert gemm.split()[-1] == "··▲" + 25 * "·"
    assert any("furthest off: layer 2 1.50" in row for row in rows)


def test_steps_that_did_other_work_have_no_ratio(tmp_path: Path) -> None:
    base, new = tmp_path / "a.steps", tmp_path / "b.steps"
    for path, pieces in ((base, [25]), (new, [10, 15])):
        with TraceWriter(path, run_facts()) as writer:
            writer.note("request", seq_id=0, t_ns=0, prompt="x", prompt_tokens=25, n_reused=0)
            before = 0
            for fed in pieces:
                write_step(writer, None, b"", before=before, fed=fed, t_ns=before)
                before += fed
            write_step(writer, 64, b"a", before=25)
    rows = shown([base], [new], keys="G up", size=(200, 60))
    assert any("prefill of 25 and prefill of 15 tokens" in row for row in rows)
    assert cursor(rows)[:2] == ["0", "prefill"]  # prefills end together
    assert "0 | 1" in rows[2]


def test_a_verify_step_owns_a_range_of_output_tokens(tmp_path: Path) -> None:
    """Tokens 5 6 7 8: one decode step each on one side, one verify step with three drafts, two kept, on the other."""
    base, new = tmp_path / "a.steps", tmp_path / "b.steps"
    with TraceWriter(base, run_facts()) as writer:
        write_request(writer)
        for i, token in enumerate((5, 6, 7, 8)):
            write_step(writer, token, b"%d" % token, before=25 + i)
    facts = run_facts()
    facts["fields"] += [["n_drafted", "I32", []], ["n_accepted", "I32", []], ["draft_ids", "I64", [3]]]
    with TraceWriter(new, facts) as writer:
        write_request(writer)
        writer.step(phase="verify", seq_id=0, token_id=5, n_tokens=4, seq_before=25, seq_len=28, cache_len=[28] * 4,
                    n_drafted=3, n_accepted=2, draft_ids=[6, 7, 9], text=b"5")  # fmt: skip
        write_step(writer, 8, b"8", before=28)
    rows = shown([base], [new], keys="G")
    lines = [row[2:].split() for row in rows if " = " in row]
    tokens = [line[line.index("=") + 1 :][:4] for line in lines]
    assert [t[0] for t in tokens] == ["1", "+1", "+2", "2"]
    assert [line[2] for line in lines] == ["5", "6", "7", "8"]
    assert "✓ tokens │ ✓ state" in rows[1]


def test_an_end_that_was_cut_off_is_not_a_difference(tmp_path: Path) -> None:
    rows = shown([build(tmp_path / "a.steps")], [build(tmp_path / "b.steps", outputs=20, end=False)])
    assert "? tokens cannot decide: new ends after 20 tokens of seq 0" in rows[1]
    assert not any("≠" in row for row in rows)


# -- keys --------------------------------------------------------------------------------------------------------------


def test_n_and_capital_n_go_from_difference_to_difference(tmp_path: Path) -> None:
    async def script(app: DiffViewer, pilot: Pilot[int]) -> None:
        for key, number, says in [
            ("N", RMS_AT, "layer 2's fingerprint 1.2 → 1.26"),
            ("N", ROWS_AT, "cache_len of layer 1 35 → 34"),
            ("N", ROWS_AT, "no difference before this place"),
            ("n", RMS_AT, "fingerprint"),
            ("n", PARTS_AT, "the tokens part"),
            ("n", PARTS_AT, "no difference behind this place"),
        ]:
            await pilot.press(key)
            await until(app, pilot, lambda screen, n=number, s=says: f"output {n} of" in screen and s in screen)  # type: ignore[misc]
        await pilot.press("N", "N")
        await at_output(app, pilot, ROWS_AT)
        assert "=!" in cursor(seen(app))

    compare(*pair(tmp_path), script)


def test_every_key_that_moves(tmp_path: Path) -> None:
    async def script(app: DiffViewer, pilot: Pilot[int]) -> None:
        page = app.view.beside.lines_in_sight
        moves: list[tuple[str, int | str]] = [
            ("g", "prefill of seq 0, step 0 | 0"), ("j", 0), ("down", 1), ("k", 0), ("up", "prefill"),
            ("G", 39), ("home", "prefill"), ("end", 39), ("pageup", 39 - page), ("pagedown", 39),
            ("ctrl+b", 39 - page), ("ctrl+f", 39),
        ]  # fmt: skip
        for key, where in moves:
            await pilot.press(key)
            await at_output(app, pilot, where)
        for typed, number in (("7", 7), ("-1", 39), ("999", 39), ("50%", 19)):
            await pilot.press("colon")
            await pilot.pause(0.1)
            await pilot.press(*({"%": "percent_sign", "-": "minus"}.get(c, c) for c in typed), "enter")
            await at_output(app, pilot, number)

    compare(*pair(tmp_path), script)


def two_requests(path: Path, second: int) -> Path:
    with TraceWriter(path, run_facts()) as writer:
        for seq_id, token in ((0, 64), (1, second)):
            writer.note("request", seq_id=seq_id, t_ns=0, prompt="x", prompt_tokens=3, n_reused=0)
            writer.step(phase="prefill", seq_id=seq_id, n_tokens=3, seq_before=0, seq_len=3, cache_len=[3] * 4)
            for i in range(2):
                writer.step(phase="decode", seq_id=seq_id, token_id=token, n_tokens=1, seq_before=3 + i,
                            seq_len=4 + i, cache_len=[4 + i] * 4, text=b"a")  # fmt: skip
    return path


def test_h_and_l_go_from_request_to_request(tmp_path: Path) -> None:
    async def script(app: DiffViewer, pilot: Pilot[int]) -> None:
        await at_output(app, pilot, "output 0 of seq 1")
        for key, where in [
            ("h", "prefill of seq 1"), ("left", "prefill of seq 0"), ("h", "no request before"),
            ("l", "prefill of seq 1"), ("right", "no request behind"),
        ]:  # fmt: skip
            await pilot.press(key)
            await at_output(app, pilot, where)

    compare([two_requests(tmp_path / "a.steps", 70)], [two_requests(tmp_path / "b.steps", 71)], script)


def test_d_shows_the_base_then_the_new_run_then_the_diff(tmp_path: Path) -> None:
    async def script(app: DiffViewer, pilot: Pilot[int]) -> None:
        for key, says, step in [("d", "old.steps", "25"), ("d", "new.steps", "25")]:
            await pilot.press(key)
            await until(app, pilot, lambda screen, s=says: "REPLAY" in screen and s in screen.splitlines()[0])  # type: ignore[misc]
            await until(app, pilot, lambda screen, n=step: f"layers of step {n}" in screen)  # type: ignore[misc]
        await pilot.press("d")
        await at_output(app, pilot, PARTS_AT)
        await pilot.press("tab")
        await until(app, pilot, lambda screen: "REPLAY" in screen)
        await pilot.press("D")
        await at_output(app, pilot, PARTS_AT)

    compare(*pair(tmp_path), script)


def test_r_shows_what_diff_says_and_escape_the_runs_again(tmp_path: Path) -> None:
    async def script(app: DiffViewer, pilot: Pilot[int]) -> None:
        await pilot.press("r")
        screen = await until(app, pilot, lambda screen: "what diff says" in screen)
        assert "DIFFERS (by tokens, state)" in screen and "engine.version: 7 → 8" in screen
        await pilot.press("j", "j", "j", "j")
        await until(app, pilot, lambda screen: "DIFFERS (by" not in screen)
        await pilot.press("g")
        await until(app, pilot, lambda screen: "DIFFERS (by" in screen)
        await pilot.press("G")
        await until(app, pilot, lambda screen: "--all shows every line" in screen)
        await pilot.press("escape")
        await until(app, pilot, lambda screen: "what diff says" not in screen and "≠" in screen)
        await pilot.press("r", "N")
        await at_output(app, pilot, RMS_AT)

    compare(*pair(tmp_path), script, (80, 24))


def test_help_palette_and_quit(tmp_path: Path) -> None:
    async def script(app: DiffViewer, pilot: Pilot[int]) -> None:
        assert {b.description for b in keys.DIFF} <= {c.title for c in app.get_system_commands(app.screen)}
        await pilot.press("question_mark")
        screen = await until(app, pilot, lambda screen: "diff.next" in screen)
        assert "film.down" not in screen
        await pilot.press("escape", "q")
        await pilot.pause(0.1)
        assert app.return_code == 0

    compare(*pair(tmp_path), script, (80, 60))


def test_keys_of_ones_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own_keys_file(tmp_path, monkeypatch, 'diff.previous = "p"\n')
    assert all(binding.id for binding in (*keys.DIFF, *keys.SIDE))

    async def script(app: DiffViewer, pilot: Pilot[int]) -> None:
        await pilot.press("N", "p")
        await at_output(app, pilot, RMS_AT)

    compare(*pair(tmp_path), script)


# -- any terminal, any input -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [(20, 5), (40, 12), (60, 15), (300, 80)])
def test_any_size_and_a_resize(tmp_path: Path, size: tuple[int, int]) -> None:
    async def script(app: DiffViewer, pilot: Pilot[int]) -> None:
        assert "DIFFERS" in seen(app)[0]
        await pilot.resize_terminal(100, 30)
        await pilot.pause(0.2)
        assert cursor(seen(app))[0] == str(PARTS_AT + 1)
        await pilot.resize_terminal(*size)
        await pilot.press("t", "n", "r", "r", "g", "G")
        await pilot.pause(0.1)
        assert "DIFFERS" in seen(app)[0]

    compare(*pair(tmp_path), script, size)


def test_the_first_picture_does_not_wait_for_the_comparison(tmp_path: Path) -> None:
    base, new = pair(tmp_path)
    comparison = Comparison([str(base[0])], [str(new[0])])
    comparison.open()  # and no more: it goes on for ever

    async def drive() -> list[str]:
        app = DiffViewer(comparison)
        async with app.run_test(size=(120, 40)) as pilot:
            await pilot.press("n", "g", "G", "t", "d", "colon", "h", "r", "r")
            await pilot.pause(0.2)
            return seen(app)

    rows = asyncio.run(drive())
    assert rows[0].split()[0] == "COMPARING"
    assert "reading the traces" in rows[1]
    assert any("letters: 4 layers" in row for row in rows) and any("test-engine 8" in row for row in rows)


def test_two_identical_traces(tmp_path: Path) -> None:
    path = build(tmp_path / "a.steps")
    rows = shown([path], [path], keys="n")
    assert rows[0].split()[0] == "SAME"
    assert "✓ tokens same │ ✓ state same │ ✓ layers same" in rows[1]
    assert "nothing differs that can be placed" in rows[2]
    assert cursor(rows)[:2] == ["0", "prefill"]


def test_two_models_that_cannot_be_compared(tmp_path: Path) -> None:
    rows = shown([letters(tmp_path / "a.steps")], [build(tmp_path / "b.steps", layers=6)])
    assert rows[0].split()[:2] == ["CANNOT", "DECIDE"]
    assert "? tokens cannot decide: model.n_layers forbids it" in rows[1]
    assert any("nothing to say of times: model.n_layers forbids it" in row for row in rows)


@pytest.mark.parametrize("outputs", [None, 0])
def test_a_trace_without_steps_or_with_one(tmp_path: Path, outputs: int | None) -> None:
    path = tmp_path / "b.steps"
    if outputs is None:
        TraceWriter(path, run_facts()).close()
    else:
        build(path, outputs=outputs)
    rows = shown([build(tmp_path / "a.steps")], [path], keys="n N g G t d D h l")
    assert "DIFFERS" in rows[0]
    both = shown([path], [path], keys="n N g G t d D h l")
    assert both[0].split()[0] in ("SAME", "CANNOT")


def test_a_damaged_step_is_said_where_it_is(tmp_path: Path) -> None:
    path = tmp_path / "b.steps"
    with TraceWriter(path, run_facts()) as writer:
        write_request(writer)
        for i in range(6):
            write_step(writer, 64, b"a", before=25 + i)
    whole = tmp_path / "a.steps"
    whole.write_bytes(path.read_bytes())
    rows = shown([whole], [damage(path, 4)])
    assert "? tokens cannot decide: new ends after 3 tokens of seq 0: steps from 4 on" in rows[1]


@pytest.mark.parametrize(("content", "words"), [(None, "cannot read"), (b"", "empty"), (b"a poem", "not a step trace")])
def test_a_side_that_is_no_trace(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    content: bytes | None,
    words: str,
) -> None:
    monkeypatch.setenv("TEXTUAL_DRIVER", "textual.drivers.linux_driver:LinuxDriver")  # as if there were a terminal
    base, bad = build(tmp_path / "a.steps"), tmp_path / "b.steps"
    if content is not None:
        bad.write_bytes(content)
    for sides in ((base, bad), (bad, base)):
        line = fails(capsys, "view", sides[0], "--against", sides[1])
        assert words in line and "b.steps" in line


def test_words_that_do_not_go_together(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    base, new = pair(tmp_path)
    assert "--follow is for one trace" in fails(capsys, "view", base[0], "--against", new[0], "--follow")
    assert "--against" in fails(capsys, "view", tmp_path)


def test_without_a_terminal_it_prints_what_diff_says(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    base, new = pair(tmp_path)
    assert cli.main(["view", str(base[0]), "--against", str(new[0])]) == 0
    out, err = capsys.readouterr()
    assert out.startswith("DIFFERS (by tokens, state)")
    assert "view needs a terminal" in err


def test_several_runs_a_side(tmp_path: Path) -> None:
    """Layer 2 slower than its run's other layers, and the total: five runs a side can decide about a total."""
    base = [build(tmp_path / f"old-{i}.steps") for i in range(5)]
    new = [build(tmp_path / f"new-{i}.steps", new=True) for i in range(5)]
    rows = shown(base, new, keys="t", size=(200, 60))
    assert "old-0.steps (of 5 runs)" in rows[0]
    assert "✗ time slower" in rows[1]
    assert any("total: slower (runs: 5 and 5)" in row for row in rows)


# -- pictures ----------------------------------------------------------------------------------------------------------

PICTURES = {"diff": (), "diff-runs": ("N", "t"), "diff-report": ("r",), "diff-help": ("question_mark",)}


@IN_SIZES
@IN_COLOURS
@pytest.mark.parametrize("screen", PICTURES)
def test_screen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, snap_compare: Any, screen: str, colours: str, size: tuple[int, int]
) -> None:
    monkeypatch.chdir(tmp_path)
    build(Path("old.steps"))
    build(Path("new.steps"), new=True)

    def view(theme: str | None) -> DiffViewer:
        comparison = Comparison(["old.steps"], ["new.steps"], clock=lambda: 0.0)
        comparison.open()
        comparison.compare()
        return DiffViewer(comparison, theme)

    assert looks_as_before(snap_compare, monkeypatch, view, PICTURES[screen], colours, size)
