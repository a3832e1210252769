"""The text panel: walking over its tokens walks over their steps."""

from __future__ import annotations

from typing import ClassVar

from textual.binding import BindingType

from inspector.tui import keys
from inspector.tui.lines import MARK
from inspector.tui.widgets.lines import Panel


class TextPanel(Panel):
    """The generation so far."""

    BINDINGS: ClassVar[list[BindingType]] = [*keys.TEXT]

    def __init__(self) -> None:
        super().__init__("text", id="text")
        self.selected = 0

    def action_line(self, by: int) -> None:
        """To the token above or below."""
        row, cell = self._mark()
        for line in self.page.steps[row + by :: by] if row + by >= 0 else []:
            step = next((step for end, step in line if end > cell and step is not None), None)
            step = step if step is not None else next((s for _, s in reversed(line) if s is not None), None)
            if step is not None:
                self.post_message(self.Picked(step))
                return
        self.post_message(self.Picked(self.selected + by))

    def _mark(self) -> tuple[int, int]:
        """(row, cell) where the selected token begins."""
        for row, line in enumerate(self.page.lines):
            before = 0
            for (_, role), (end, _) in zip(line, self.page.steps[row], strict=True):
                if role == MARK:
                    return row, before
                before = end
        return 0, 0
