"""The Textual application behind `view` and `run --live`."""

from __future__ import annotations

import os

from textual.app import App

from inspector.tui.engine import Engine
from inspector.tui.feed import Feed
from inspector.tui.screens.main import MainScreen

PLAIN_THEME = "ansi-dark"
"""The terminal's own sixteen colours; without any, its own foreground and background"""


class Viewer(App[int]):
    """One trace in a terminal."""

    TITLE = "stepscope"
    CSS_PATH = "view.tcss"

    def __init__(self, feed: Feed, engine: Engine | None = None) -> None:
        # with NO_COLOR Textual would turn colours into greys; nothing but the terminal's own colours is meant
        super().__init__(ansi_color=True if os.environ.get("NO_COLOR") else None)
        self._feed, self._engine = feed, engine
        few = self.no_color or self.console.color_system in (None, "standard", "windows")
        if few and "TEXTUAL_THEME" not in os.environ:
            self.theme = PLAIN_THEME

    def get_default_screen(self) -> MainScreen:
        """The view."""
        return MainScreen(self._feed, self._engine)
