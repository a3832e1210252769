"""What to copy or to save, as a short list over the view."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Static

from inspector.tui import keys


class SaveScreen(ModalScreen[str]):
    """Gives back what was chosen: copy, step, csv, json, film.csv, film.json, svg, or nothing."""

    BINDINGS: ClassVar[list[BindingType]] = [*keys.SAVE]
    DEFAULT_CSS = """
    SaveScreen { align: center middle; }
    #save { width: 44; max-width: 100%; height: auto; max-height: 100%; border: round $foreground 60%; padding: 0 1;
            background: $surface; }
    #save Static { height: auto; }
    """

    def __init__(self, steps: str, own_keys: Mapping[str, str]) -> None:
        super().__init__()
        self._steps, self._own_keys = steps, own_keys

    def compose(self) -> ComposeResult:
        """The list; `steps` says which ones are meant."""
        rows = [f"{key:<8} {what}" for key, what, _ in keys.described(keys.SAVE, self._own_keys)]
        with VerticalScroll(id="save") as page:
            page.border_title = self._steps
            yield Static("\n".join(rows), markup=False)

    def action_choose(self, what: str) -> None:
        """Back to the view with it."""
        self.dismiss(what)
