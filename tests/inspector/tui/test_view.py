"""The view of recorded traces, driven by keys and read from the screen."""

from __future__ import annotations

from pathlib import Path

import pytest
from rich.cells import cell_len
from textual.pilot import Pilot

from inspector.tui.viewer import Viewer
from tests.inspector.tui.small_traces import (
    damage,
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
from traces.writer import TraceWriter

SIZES = [(80, 24), (160, 50), (20, 5)]


def screen_of(path: Path, size: tuple[int, int] = (80, 24), keys: str = "") -> list[str]:
    """The rows of the screen after pressing keys, separated by blanks."""
    rows: list[str] = []

    async def script(app: Viewer, pilot: Pilot[int]) -> None:
        await pilot.press(*keys.split())
        await pilot.pause(0.15)
        rows.extend(seen(app))

    view(path, script, size)
    return rows


def test_the_head_says_what_ran_and_how_fast(tmp_path: Path) -> None:
    rows = screen_of(letters(tmp_path / "a.steps"), (120, 40))
    head = "\n".join(rows[:4])
    assert "REPLAY" in rows[0] and "a.steps" in rows[0]
    assert "8 steps" in rows[1] and "✓ no failure" in rows[1]
    # six tokens were fed by seven sampled steps of 10 ms; the first began 12 ms after the request
    assert "85.7 now, 85.7 mean tok/s" in rows[2]
    # the other tokens follow 10 ms apart; the end token is not sent out
    assert "TTFT 12.0 ms" in rows[2] and "TPOT 10.0 ms" in rows[2]
    for fact in ("letters: 4 layers, 4/2 heads", "test-engine 7", "greedy", "riscv64, 3 threads"):
        assert fact in head


def test_the_film_has_a_line_a_step(tmp_path: Path) -> None:
    rows = screen_of(letters(tmp_path / "a.steps"), (120, 40))
    film = [row[:90] for row in rows[4:13]]
    assert film[0].split()[:9] == ["step", "phase", "token", "text", "seq_len", "cache", "Δ", "GEMM", "attn"]
    assert film[1].split()[:9] == [">", "0", "prefill", "-", "-", "0→25", "25", "+25", "4.50"]
    assert film[2].split()[:9] == ["1", "decode", "64", "a", "25→26", "26", "+1", "4.50", "1.00"]
    assert film[8].split()[:7] == ["7", "decode", "2", "<eos>", "31→31", "31", "+0"]


def test_the_last_step_says_why_it_is_the_last(tmp_path: Path) -> None:
    rows = screen_of(letters(tmp_path / "a.steps"), (160, 40), keys="G")
    assert any(row.startswith(">") and "finish=eos; not fed" in row for row in rows)


@pytest.mark.parametrize(
    ("keys", "step"),
    [
        ("down down", 2), ("j j j k", 2), ("down down up", 1), ("G", 7), ("end", 7), ("f", 7), ("G g", 0),
        ("end home", 0), ("up", 0), ("G down", 7), ("pagedown", 7), ("G pageup", 0), ("l l h", 1), ("right left", 0),
    ],
)  # fmt: skip
def test_keys_move_the_cursor(tmp_path: Path, keys: str, step: int) -> None:
    async def script(app: Viewer, pilot: Pilot[int]) -> None:
        await pilot.press(*keys.split())
        await pilot.pause()
        assert selected(app) == step

    view(letters(tmp_path / "a.steps"), script)


def test_a_page_is_what_fits_on_the_screen(tmp_path: Path) -> None:
    async def script(app: Viewer, pilot: Pilot[int]) -> None:
        lines = sum("decode" in row or "prefill" in row for row in seen(app))
        await pilot.press("pagedown")
        await pilot.pause()
        assert selected(app) == lines
        await pilot.press("pageup")
        await pilot.pause()
        assert selected(app) == 0

    view(tokens(tmp_path / "a.steps", [b"x"] * 200), script)


def test_n_jumps_to_failures_and_the_rules_say_what_is_wrong(tmp_path: Path) -> None:
    async def script(app: Viewer, pilot: Pilot[int]) -> None:
        for key, step in [("n", 2), ("n", 5), ("n", 5), ("N", 2), ("N", 2)]:
            await pilot.press(key)
            await pilot.pause()
            assert selected(app) == step
        screen = "\n".join(seen(app))
        assert "seq_len is 27, layer 0" in screen
        assert "holds 26 rows" in screen
        assert "✗ KV01" in screen
        await until(app, pilot, lambda screen: "no failure before step 2" in screen)

    # two steps break KV01 (layer 0) and KV02 (the layers differ)
    view(letters(tmp_path / "a.steps", broken=(2, 5)), script, (160, 50))


def test_a_failing_step_is_marked_without_colour(tmp_path: Path) -> None:
    rows = screen_of(letters(tmp_path / "a.steps", broken=(2,)), (120, 40), keys="n")
    line = next(row for row in rows if row.startswith(">"))
    assert line.startswith(">✗")
    assert "26–27!" in line and "KV01 KV02" in line
    assert any("✗ 2 failures" in row for row in rows)


def test_the_rules_count_and_tell_pass_from_unknown_and_not_applicable(tmp_path: Path) -> None:
    rows = screen_of(letters(tmp_path / "a.steps", broken=(2,)), (200, 60))
    rules = "\n".join(row[135:] for row in rows)
    assert "✗ KV01" in rules and "1 fail, 7 pass" in rules
    assert "? KV05" in rules  # the run does not say its capacity
    assert "✓ TK05" in rules and "7 pass" in rules
    assert "nothing to judge: KV06" in rules  # no window layers


def test_the_selected_token_is_marked_in_the_text(tmp_path: Path) -> None:
    rows = screen_of(letters(tmp_path / "a.steps"), keys="j j j")
    text = "\n".join(rows)
    assert "Say the alphabet." in text
    assert "ab[c]def<eos>" in text


def test_the_layers_show_rows_times_and_which_disagree(tmp_path: Path) -> None:
    rows = screen_of(letters(tmp_path / "a.steps", broken=(2,)), (200, 60), keys="n")
    at = next(i for i, row in enumerate(rows) if "layers of step 2" in row)
    panel = [row[135:].split() for row in rows[at + 1 : at + 7]]
    assert panel[0] == ["layer", "rows", "GEMM", "0", "1×", "2×", "attn", "0", "1×", "2×"]
    assert panel[1][:2] == ["all", "4.50"]
    assert panel[2][:3] == ["0", "26!", "1.00"]
    assert panel[3][:3] == ["1", "26!", "2.00"]
    assert panel[4][:3] == ["2", "27", "1.00"]
    # every step takes the same time, so each bar ends at its layer's median, which is marked
    assert all(line[3].rstrip("╸").endswith("╋") for line in panel[2:6])


def test_layers_that_do_not_fit_can_be_scrolled(tmp_path: Path) -> None:
    path = tmp_path / "deep.steps"
    facts = run_facts([{"kind": "full"}] * 40)
    with TraceWriter(path, facts) as writer:
        writer.step(phase="prefill", seq_id=0, n_tokens=3, seq_before=0, seq_len=3, cache_len=[3] * 40)

    def layers(app: Viewer) -> list[int]:
        firsts = [row[30:].split()[0] for row in seen(app)[16:] if row[30:].split() and "━" not in row]
        return [int(word) for word in firsts if word.isdigit()]

    async def script(app: Viewer, pilot: Pilot[int]) -> None:
        assert layers(app)[0] == 0
        await pilot.press("2", "down", "down")
        await pilot.pause(0.5)
        assert layers(app)[0] == 2
        assert selected(app) == 0

    view(path, script)


def test_a_damaged_step_keeps_its_line_and_says_so(tmp_path: Path) -> None:
    rows = screen_of(damage(letters(tmp_path / "a.steps"), step=4), (120, 40))
    lines = [row[:90] for row in rows[5:13]]
    assert "damaged: this step's frame fails its checksum" in lines[4]
    assert lines[3].split()[:4] == ["3", "decode", "272", "c"]
    assert lines[5].split()[:4] == ["5", "decode", "384", "e"]
    assert any("✗ 1 damaged place" in row for row in rows)


def test_text_of_a_damaged_step_is_missing_and_that_is_said(tmp_path: Path) -> None:
    text = "\n".join(screen_of(damage(letters(tmp_path / "a.steps"), step=4), (120, 40), keys="j j j"))
    assert "text of 1 damaged step is" in text
    assert "ab[c]ef<eos>" in text


def test_a_trace_without_its_end_is_cut_off(tmp_path: Path) -> None:
    path = letters(tmp_path / "a.steps", end=False)
    whole = path.read_bytes()
    path.write_bytes(whole[:-10])
    rows = screen_of(path)
    assert "CUT OFF" in rows[0] and "no END frame" in rows[0]
    assert "7 steps" in rows[1]  # the eighth is half a frame


NASTY = [
    b"\x1b[31mred", b"\n\n", b"a\tb", "日本".encode(), "e\u0301\u0301\u0301".encode(), "\u0301x".encode(),
    "שלום".encode(), "السلام".encode(), "\u202eabc".encode(), "🙂🙂🙂🙂".encode(), b"\xe6\x97", b"\xa5", b"\xff\xfe",
    b"    ", b"[bold]x[/]", b"\x07\x08", b"<|im_end|>", "❤️".encode(),
]  # fmt: skip


@pytest.mark.parametrize("size", [(80, 24), (160, 50)])
def test_no_token_text_moves_a_column(tmp_path: Path, size: tuple[int, int]) -> None:
    rows = screen_of(tokens(tmp_path / "a.steps", NASTY), size, keys="j")
    film = [row for row in rows if "decode" in row and "→" in row]
    assert len(film) > 5
    places = {cell_len(row[: row.index("→")]) for row in film}
    assert len(places) == 1
    assert not any(c in row for row in rows for c in "\x1b\x07\x08\t\u202e")


def test_a_character_cut_between_tokens_is_whole_in_the_text(tmp_path: Path) -> None:
    path = tokens(tmp_path / "a.steps", [b"x", b"\xe6\x97", b"\xa5y"])
    rows = screen_of(path, (120, 40), keys="j j")
    assert any(r"\xe6\x97" in row for row in rows if row.startswith(">"))
    assert any("x[日]y" in row for row in rows)


@pytest.mark.parametrize("size", SIZES)
def test_every_size_shows_the_film_and_the_state(tmp_path: Path, size: tuple[int, int]) -> None:
    rows = screen_of(letters(tmp_path / "a.steps", broken=(1,)), size, keys="n")
    assert "REPLAY" in rows[0]
    assert any(row.startswith(">✗") and " 1 " in row for row in rows)
    assert all(cell_len(row) <= size[0] for row in rows)


def test_resizing_at_any_moment_keeps_the_selected_step_in_sight(tmp_path: Path) -> None:
    async def script(app: Viewer, pilot: Pilot[int]) -> None:
        await pilot.press("G", "k", "k")
        edges = [(59, 17), (60, 18), (99, 9), (100, 10), (139, 40), (140, 40)]
        for size in [(20, 5), (200, 60), (1, 1), (1, 30), (2, 3), *edges, (20, 24), (80, 24)]:
            await pilot.resize_terminal(*size)
            await pilot.pause(0.05)
            if size >= (20, 3):
                assert selected(app) == 298
        await pilot.press("k")
        await pilot.pause()
        assert selected(app) == 297

    view(tokens(tmp_path / "a.steps", [b"x"] * 300), script)


def test_without_colour_every_sign_is_still_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")

    async def script(app: Viewer, pilot: Pilot[int]) -> None:
        await pilot.press("n")
        await pilot.pause(0.15)
        screen = "\n".join(seen(app))
        for sign in (">✗", "26–27!", "a[b]c", "REPLAY", "KV01"):
            assert sign in screen

    view(letters(tmp_path / "a.steps", broken=(2,)), script, (160, 40))


@pytest.mark.parametrize("theme", ["textual-dark", "textual-light", "ansi-dark", "ansi-light"])
def test_a_theme_can_be_changed_while_it_runs(tmp_path: Path, theme: str) -> None:
    async def script(app: Viewer, pilot: Pilot[int]) -> None:
        app.theme = theme
        await pilot.pause(0.1)
        assert selected(app) == 0

    view(letters(tmp_path / "a.steps"), script)


def test_help_opens_and_closes(tmp_path: Path) -> None:
    async def script(app: Viewer, pilot: Pilot[int]) -> None:
        await pilot.press("question_mark")
        await until(app, pilot, lambda screen: "the next failing step" in screen)
        await pilot.press("escape")
        await until(app, pilot, lambda screen: "the next failing step" not in screen)

    view(letters(tmp_path / "a.steps"), script, (80, 60))


def test_q_leaves_with_success(tmp_path: Path) -> None:
    async def script(app: Viewer, pilot: Pilot[int]) -> None:
        await pilot.press("q")

    assert view(letters(tmp_path / "a.steps"), script).return_code == 0


def test_a_token_longer_than_its_field_is_shown_whole(tmp_path: Path) -> None:
    path = tokens(tmp_path / "a.steps", [b"supercalifragilisticexpialidocious", b"!"])
    rows = screen_of(path, (200, 60), keys="j j")
    assert any("supercalifragilisticexpialidocious[!]" in row for row in rows)


def test_steps_of_two_requests_say_whose_they_are(tmp_path: Path) -> None:
    path = tmp_path / "two.steps"
    with TraceWriter(path, run_facts()) as writer:
        write_request(writer)
        writer.note("request", seq_id=41, t_ns=0, prompt="other", prompt_tokens=3, n_reused=0)
        writer.step(phase="prefill", seq_id=41, n_tokens=3, seq_before=0, seq_len=3, cache_len=[3] * 4)
        write_step(writer, 64, b"a", before=25)
        writer.step(phase="decode", seq_id=41, token_id=9, n_tokens=1, seq_before=3, seq_len=4, cache_len=[4] * 4,
                    text=b"Z")  # fmt: skip
        write_step(writer, 65, b"b", before=26)
    rows = screen_of(path, (160, 50), keys="j j j")
    assert any(row.startswith(">") and row.split()[1:5] == ["3", "41", "decode", "9"] for row in rows)
    text = "\n".join(rows)
    assert "other" in text and "[Z]" in text and "a[Z]" not in text


def test_requests_that_begin_at_one_step_keep_their_own_prompts(tmp_path: Path) -> None:
    path = tmp_path / "together.steps"
    with TraceWriter(path, run_facts()) as writer:
        for seq_id, prompt in ((0, "first prompt"), (1, "second prompt"), (2, "third prompt")):
            writer.note("request", seq_id=seq_id, t_ns=0, prompt=prompt, prompt_tokens=3, n_reused=0)
        for seq_id in range(3):
            writer.step(phase="prefill", seq_id=seq_id, n_tokens=3, seq_before=0, seq_len=3, cache_len=[3] * 4)
    for keys, own in (("", "first"), ("j", "second"), ("j j", "third"), ("j j k", "second")):
        text = "\n".join(screen_of(path, (160, 50), keys=keys))
        assert [word for word in ("first", "second", "third") if f"{word} prompt" in text] == [own]


def test_a_note_behind_the_last_step_comes_while_it_is_looked_at(tmp_path: Path) -> None:
    path = tmp_path / "growing.steps"
    writer = TraceWriter(path, run_facts(), flush="step")
    write_request(writer)

    async def script(app: Viewer, pilot: Pilot[int]) -> None:
        assert "the power went" not in "\n".join(seen(app))
        writer.note("message", text="the power went")
        await until(app, pilot, lambda screen: "the power went" in screen)
        write_step(writer, 64, b"a", before=25)
        writer.note("message", text="and came back")
        screen = await until(app, pilot, lambda screen: "and came back" in screen)
        assert "the power went" in screen

    view(path, script, (160, 50), follow=True)
    writer.close()
