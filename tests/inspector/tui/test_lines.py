"""Cells, bars, wrapping and the choice of columns: what the panels are made of, without a terminal."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from inspector.text import token_text
from inspector.tui import reel
from inspector.tui.lines import bar, elapsed, fit, padded, wrap
from inspector.tui.pages import Passage
from inspector.tui.panels.layers import layers, layers_of
from inspector.tui.panels.text import text
from inspector.tui.sample import Medians


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (0.4, "0 s"), (59.4, "59 s"), (59.6, "1 min 0 s"), (125, "2 min 5 s"), (3600, "1 h 0 min"),
        (86_399, "23 h 59 min"), (90_061, "1 d 1 h"), (10**8, "1,157 d 9 h"),
    ],
)  # fmt: skip
def test_a_time_that_passed_is_said_in_its_two_largest_units(seconds: float, expected: str) -> None:
    assert elapsed(seconds) == expected


@pytest.mark.parametrize(
    ("text", "width", "right", "expected"),
    [
        ("ab", 4, False, "ab  "), ("ab", 4, True, "  ab"), ("abcdef", 4, False, "abc…"), ("日本", 5, False, "日本 "),
        ("日本語", 5, False, "日本…"), ("日本語", 4, False, "日 …"), ("", 2, False, "  "), ("x", 0, False, ""),
        ("\u0301x", 3, False, "◌\u0301x "), ("שלום", 6, False, "שלום\u200e  "),
    ],
)  # fmt: skip
def test_text_fits_its_cells(text: str, width: int, right: bool, expected: str) -> None:
    assert fit(text, width, right) == expected


@given(st.text(max_size=30), st.integers(1, 20))
def test_any_token_takes_exactly_its_cells(text: str, width: int) -> None:
    assert cell_len(fit(token_text(text), width)) == width


@pytest.mark.parametrize(
    ("share", "expected"),
    [
        (0.0, "    "), (1.0, "━━━━"), (0.5, "━━  "), (0.37, "━╸  "), (0.001, "╸   "), (7.0, "━━━━"),
        (float("nan"), "    "),
    ],
)  # fmt: skip
def test_a_bar_of_four_cells(share: float, expected: str) -> None:
    assert bar(share, 4) == expected


def test_lines_break_at_blanks_and_long_words_anywhere() -> None:
    lines = wrap([("one two three", "plain"), (" incomprehensible", "dim")], 8)
    assert ["".join(text for text, _ in line) for line in lines] == ["one two", "three", "incompre", "hensible"]
    assert lines[2] == [("incompre", "dim")]


def test_wide_characters_wrap_by_cells() -> None:
    lines = wrap([("日本語です", "plain")], 5)
    assert [line[0][0] for line in lines] == ["日本", "語で", "す"]


@given(st.text(alphabet=st.sampled_from("ab 日\u0301🙂\n❤\ufe0f"), max_size=60), st.integers(2, 12))
def test_no_wrapped_line_is_too_long(text: str, width: int) -> None:
    lines = wrap([(text, "plain")], width)
    assert all(cell_len("".join(part for part, _ in line)) <= width for line in lines)


def test_a_line_is_padded_and_cut() -> None:
    assert padded([("ab", "x")], 4) == [("ab", "x"), ("  ", "plain")]
    assert padded([("abc", "x"), ("def", "y")], 5) == [("abc", "x"), ("d…", "y")]


EVERYTHING = frozenset(("gemm_ms", "attn_ms", "total_ms", "margin"))


@pytest.mark.parametrize(
    ("width", "keys"),
    [
        (20, "step token text"),
        (45, "step token text grown cache"),
        (79, "step phase token text grown cache growth gemm attn total"),
        (100, "step phase token text grown cache growth gemm attn total margin"),
    ],
)
def test_a_width_has_its_columns(width: int, keys: str) -> None:
    chosen = reel.Widths().chosen(width, EVERYTHING, several=False)
    assert " ".join(column.key for column, _ in chosen) == keys


def test_columns_of_fields_that_are_not_recorded_are_left_out() -> None:
    chosen = reel.Widths().chosen(200, frozenset(), several=False)
    assert not {"gemm", "attn", "total", "margin", "seq_id"} & {column.key for column, _ in chosen}


STEP = {"step": 9, "phase": "decode", "seq_len": 30, "cache_len": [30, 29, 16, 0, 30, 30]}
KINDS = [
    {"kind": "full"}, {"kind": "full"}, {"kind": "window", "window": 16}, {"kind": "recurrent"},
    {"kind": "shared", "owner": 0}, {"kind": "shared", "owner": 1},
]  # fmt: skip


def test_layers_are_held_against_what_their_kind_says() -> None:
    found = layers_of(STEP, {"layers": KINDS})
    assert [layer.agrees for layer in found] == [True, False, True, True, True, False]
    assert [layer.kind for layer in found] == ["", "", "win 16", "recurrent", "as 0", "as 1"]


def test_layers_that_nobody_described_are_not_judged() -> None:
    assert [layer.agrees for layer in layers_of(STEP, {})] == [None] * 6


def test_a_step_with_one_count_for_all_layers_has_one_line() -> None:
    page = layers({"step": 0, "cache_len": 25, "gemm_ms": 3.0}, {}, None, Medians(), 40)
    assert "".join(text for text, _ in page.top[1]).split() == ["all", "25", "3.00", "-"]
    assert page.lines == []


def test_the_text_keeps_the_selected_token_in_sight() -> None:
    before = "\n".join(f"line {i}" for i in range(100))
    passage = Passage(prompt="", before=((0, before + " "),), selected="X", after=((2, "\nmore" * 50),))
    lines = text(passage, 1, {"step": 1, "phase": "decode"}, 40, 6).lines
    said = ["".join(part for part, _ in line) for line in lines]
    assert len(said) == 6
    assert "line 99 [X]" in said
    assert said.index("line 99 [X]") == 4


def test_an_escape_in_the_text_is_only_shown() -> None:
    passage = Passage(before=((0, "\x1b[2J"),), selected="\x07", after=((2, "\u202e"),))
    lines = text(passage, 1, {"step": 1, "phase": "decode"}, 60, 3).lines
    assert "".join(part for part, _ in lines[0]) == r"\e[2J[\x07]\u202e"
