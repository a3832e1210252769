"""The rules panel: a list to walk through, one rule of it in full."""

from __future__ import annotations

from typing import ClassVar

from textual.binding import BindingType
from textual.message import Message

from inspector.tui import keys
from inspector.tui.widgets.lines import Panel


class RulesPanel(Panel):
    """Every rule with its counts. Without a choice of the user's it shows what the selected step breaks."""

    BINDINGS: ClassVar[list[BindingType]] = [*keys.RULES]

    class Chosen(Message):
        """Another rule of the list is looked at: the one so many lines further."""

        def __init__(self, by: int) -> None:
            super().__init__()
            self.by = by

    class Wanted(Message):
        """The next step that breaks the chosen rule is wanted."""

    def __init__(self) -> None:
        super().__init__("rules", id="rules")

    def action_choose(self, by: int) -> None:
        """Look at another rule."""
        self.post_message(self.Chosen(by))

    def action_failure(self) -> None:
        """Go to the chosen rule's next failing step."""
        self.post_message(self.Wanted())
