"""The file of keys with anything wrong in it: the view begins with it, or refuses it in one line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inspector.tui import keys
from tests.command_line import SAMPLE
from tests.fuzz.mutations import changed_bytes, hostile, json_text
from tests.fuzz.running import FUZZ, Outcome, behaves, explore, run

SOUND = """film.up = "w"
film.down = "s, f5"  # two keys
"rules.next" = "ctrl+r"
[saving]
copy = 'question_mark'
"""
NAMES = st.one_of(st.sampled_from([*keys.default_keys(), "film", "film.down.x", ""]), st.text(max_size=30))
KEYS = st.one_of(
    st.sampled_from(["w", "s,down", "ctrl+shift+f5", "question_mark", ",", " ", "ctrl+", "\x1b[A"]), st.text()
)
VALUES = st.one_of(
    KEYS.map(json.dumps),
    hostile.map(lambda value: json_text(value).decode("utf-8", "replace")),
    st.sampled_from(
        ["1979-05-27", "inf", "0x" + "f" * 9999, "[" * 5000, "{a=" * 5000, "'''\n'''", "{}", "[[]]", "9" * 5000]
    ),
)


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the view looks for keys."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    (tmp_path / "stepscope").mkdir()
    return tmp_path / "stepscope" / "keys.toml"


def opened() -> Outcome:
    """What the view says of its keys. With good ones it goes on, to an address that no machine has."""
    return run("view", SAMPLE, "--web", "--host", "203.0.113.1")


def is_used_or_refused(outcome: Outcome) -> None:
    """One line, about the file or about that address."""
    behaves(outcome, "keys.toml", "203.0.113.1")
    assert outcome.code == 2


def test_lines_of_any_actions_and_keys(file: Path) -> None:
    line = st.tuples(NAMES, st.booleans(), VALUES).map(
        lambda parts: (json.dumps(parts[0]) if parts[1] else parts[0]) + " = " + parts[2]
    )

    @settings(FUZZ, max_examples=60)
    @given(st.lists(line, max_size=6).map("\n".join))
    def ends_well(text: str) -> None:
        file.write_bytes(text.encode("utf-8", "replace"))
        is_used_or_refused(opened())

    explore(ends_well)


def test_changed_bytes(file: Path) -> None:
    @settings(FUZZ, max_examples=40)
    @given(changed_bytes(SOUND.encode()))
    def ends_well(data: bytes) -> None:
        file.write_bytes(data)
        is_used_or_refused(opened())

    explore(ends_well)


@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        (b"film.down = 3", "3 is no key"), (b"film.downn = 's'", "no action is called 'film.downn'"),
        (b"film.down = 's'\nfilm.down = 'w'", "overwrite"), (b"'film.down' = 's'\nfilm.down = 'w'", "keys twice"),
        (b"film.down = '\xff'", "not UTF-8"), (b"a." * 5000 + b"b = 1", "each line is an action"),
        (b"film.down = " + b"[" * 5000, "each line is an action"),
        (b"film.down = " + b"9" * 5000, "each line is an action"),
        (b"#" * (1 << 22), "larger than"), (b'"\\u001b[2J" = "s"', "no action is called '\\x1b[2J'"),
    ],
    ids=lambda value: "",
)  # fmt: skip
def test_what_cannot_be_a_file_of_keys_says_why(file: Path, data: bytes, complaint: str) -> None:
    file.write_bytes(data)
    outcome = opened()
    is_used_or_refused(outcome)
    assert complaint in outcome.err


def test_a_folder_in_its_place_says_why(file: Path) -> None:
    file.mkdir()
    outcome = opened()
    is_used_or_refused(outcome)
    assert "keys.toml: cannot read: Is a directory" in outcome.err
