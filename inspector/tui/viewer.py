"""The Textual application behind `view` and `run --live`."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterable, Mapping, Sequence
from functools import partial

from textual import events
from textual.app import App, SystemCommand
from textual.binding import Binding
from textual.filter import LineFilter
from textual.screen import Screen

from inspector.cli import UsageError
from inspector.tui import keymap, keys
from inspector.tui.ascii import Ascii
from inspector.tui.engine import Engine
from inspector.tui.feed import Feed
from inspector.tui.screens.main import MainScreen

PLAIN_THEME = "ansi-dark"
"""The terminal's own sixteen colours; without any, its own foreground and background"""


class Terminal(App[int]):
    """What every view has of a terminal: colours, keys, the palette, plain ASCII if that is wanted."""

    TITLE = "stepscope"
    CSS_PATH = ["view.tcss"]

    def __init__(self, theme: str | None = None, ascii: bool = False) -> None:
        """Raises UsageError where there is no such theme, or where the user's file of keys cannot be used."""
        # with NO_COLOR Textual would turn colours into greys; nothing but the terminal's own colours is meant
        super().__init__(ansi_color=True if os.environ.get("NO_COLOR") else None)
        self._ascii = ascii
        few = self.no_color or self.console.color_system in (None, "standard", "windows")
        if few and "TEXTUAL_THEME" not in os.environ:
            self.theme = PLAIN_THEME
        if theme is not None:
            if theme not in self.available_themes:
                raise UsageError(f"no theme is called {theme!r}; there are {', '.join(sorted(self.available_themes))}")
            self.theme = theme
        self.own_keys: Mapping[str, str] = keymap.own_keys(keys.default_keys())
        """Keys that the user gave actions, by the action's id"""
        self.set_keymap(self.own_keys)

    def on_mount(self) -> None:
        """Back from the shell (ctrl+z, fg) everything is drawn anew: what stands there is the shell's. Asked to end,
        the view gives the terminal back first."""
        for number in (signal.SIGTERM, signal.SIGHUP):
            asyncio.get_running_loop().add_signal_handler(number, partial(self.exit, return_code=128 + number))
        self.app_resume_signal.subscribe(self, lambda _: self.refresh(layout=True))

    async def on_event(self, event: events.Event) -> None:
        """Before a key does anything, the feed makes room for its picture."""
        if isinstance(event, (events.Key, events.MouseScrollDown, events.MouseScrollUp)):
            for screen in self.screen_stack:
                if isinstance(screen, MainScreen):
                    screen.feed.give_way()
        await super().on_event(event)

    async def on_key(self, event: events.Key) -> None:
        """Keys that were typed on before a line had the focus come here: they are for that line."""
        from inspector.tui.screens.prompt import PromptScreen

        line = self.screen
        if isinstance(line, PromptScreen) and (event.is_printable or line.focused is None):
            event.prevent_default()
            await line.take(event)

    def actions_of(self, screen: Screen[object]) -> Iterable[Binding]:
        """The actions that the palette offers on a screen."""
        return keys.MAIN if isinstance(screen, MainScreen) else ()

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:
        """The palette: every action of the screen, and themes."""
        for binding in self.actions_of(screen):
            what = binding.tooltip or binding.description
            yield SystemCommand(binding.description, what, partial(screen.run_action, binding.action))
        if isinstance(screen, MainScreen):
            ids = screen.feed.sequences.ids
            for seq_id in ids if len(ids) > 1 else ():
                yield SystemCommand(
                    f"Only sequence {seq_id}", "show no other's steps", partial(screen.show_sequence, seq_id)
                )
        yield SystemCommand("Theme", "choose other colours", self.action_change_theme)

    def get_line_filters(self) -> Sequence[LineFilter]:
        """What is done to every line drawn."""
        return [*super().get_line_filters(), *([Ascii()] if self._ascii else [])]


class Viewer(Terminal):
    """One trace in a terminal."""

    def __init__(
        self, feed: Feed, engine: Engine | None = None, theme: str | None = None,
        source_maps: Sequence[tuple[str, str]] = (), ascii: bool = False,
    ) -> None:  # fmt: skip
        """Raises UsageError as Terminal does."""
        super().__init__(theme, ascii)
        self._feed, self._engine, self._source_maps = feed, engine, source_maps

    def get_default_screen(self) -> MainScreen:
        """The view."""
        return MainScreen(self._feed, self._engine, self.own_keys, self._source_maps, self._ascii)
