"""Pictures of screens at three sizes and in three kinds of colour, held against those that a person has looked at.

After a change that is meant: `pytest tests/inspector/tui -k screen --snapshot-update`, and look at them again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib.metadata import version
from typing import Any

import pytest
from textual.app import App
from textual.pilot import Pilot

DRAWN_WITH = "8.2"
"""Textual's version: another one may draw a border or a scroll bar otherwise"""
THEMES = {"default": "textual-dark", "light": "textual-light", "no-colour": None}
SIZES = [(80, 24), (120, 40), (200, 60)]
IN_SIZES = pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
IN_COLOURS = pytest.mark.parametrize("colours", THEMES)


def looks_as_before(
    snap_compare: Any, monkeypatch: pytest.MonkeyPatch, make: Callable[[str | None], App[Any]], keys: Sequence[str],
    colours: str, size: tuple[int, int],
) -> bool:  # fmt: skip
    """Whether the app, made with a theme, looks after these keys as its picture does."""
    if not version("textual").startswith(DRAWN_WITH + "."):
        pytest.fail(f"the pictures were made with Textual {DRAWN_WITH}: pip install 'textual~={DRAWN_WITH}.0'")
    monkeypatch.setenv("NO_COLOR", "1") if colours == "no-colour" else monkeypatch.delenv("NO_COLOR", False)

    async def press(pilot: Pilot[Any]) -> None:
        await pilot.pause()
        await pilot.press(*keys)
        await pilot.pause()

    return bool(snap_compare(make(THEMES[colours]), terminal_size=size, run_before=press))
