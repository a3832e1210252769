"""A line to type into, over the bottom of the view: what to search for, which step to go to."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import ModalScreen
from textual.widgets import Input


class PromptScreen(ModalScreen[str | None]):
    """One line; enter gives it back, escape gives up (None).

    refuse: what is wrong with a line, None where it is fine; the words are shown and the line stays open.
    """

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "give_up", "Give up", id="prompt.give_up")]
    DEFAULT_CSS = """
    PromptScreen { align: left bottom; background: transparent; }
    PromptScreen Input { width: 100%; height: 3; border: round $foreground 60%; background: $surface; }
    PromptScreen.-tiny Input { height: 1; border: none; }
    """
    VERTICAL_BREAKPOINTS = [(0, "-tiny"), (10, "-tall")]

    def __init__(self, title: str, hint: str, refuse: Callable[[str], str | None]) -> None:
        super().__init__()
        self._title, self._hint, self._refuse = title, hint, refuse
        self._open = False
        self._early: list[events.Key] = []

    def compose(self) -> ComposeResult:
        """The line."""
        line = Input(placeholder=self._hint)
        line.border_title = self._title
        yield line

    async def on_mount(self) -> None:
        """Take what was typed on while the line was opening."""
        self._open = True
        for event in self._early:
            await self.take(event)

    async def take(self, event: events.Key) -> None:
        """A key that was meant for the line and came before it had the focus."""
        line = self.query_one(Input) if self._open else None
        if line is None:
            self._early.append(event)
        elif event.is_printable and event.character:
            line.insert_text_at_cursor(event.character)
        elif event.key == "enter":
            await line.action_submit()

    def on_input_changed(self, event: Input.Changed) -> None:
        """What was wrong is being mended."""
        event.input.border_subtitle = ""

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Give the line back, unless something is wrong with it."""
        wrong = self._refuse(event.value)
        if wrong is None:
            self.dismiss(event.value.strip())
        else:
            event.input.border_subtitle = wrong.replace("[", r"\[")

    def action_give_up(self) -> None:
        """Back to the view."""
        self.dismiss(None)
