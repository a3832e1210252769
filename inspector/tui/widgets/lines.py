"""Panels that draw prepared lines: the roles' styles come from the style sheet, the lines from panels.py."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

from rich.segment import Segment
from textual import events
from textual.geometry import Size
from textual.scroll_view import ScrollView
from textual.strip import Strip

from inspector.tui.lines import ROLES, Line

Build = Callable[[int, int], tuple[list[Line], list[Line]]]
"""(width, height) -> (lines that stay at the top, lines that scroll)"""


class Roles(ScrollView):
    """A view whose lines are parts with roles."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {f"role--{role}" for role in ROLES}

    @property
    def room(self) -> Size:
        """What is left for lines beside the scrollbar."""
        return self.scrollable_content_region.size

    def strip(self, line: Line, width: int, *more: str) -> Strip:
        """A line as it is drawn, padded to `width`. more: component classes laid over every part."""
        over = [self.get_component_rich_style(name, partial=True) for name in more]
        segments = []
        for text, role in line:
            style = self.get_component_rich_style(f"role--{role}")
            for layer in over:
                style += layer
            segments.append(Segment(text, style))
        return Strip(segments).adjust_cell_length(width, segments[-1].style if over and segments else self.rich_style)


class Panel(Roles):
    """A panel of lines that are made anew for its size whenever show() or a resize asks."""

    def __init__(self, title: str, id: str) -> None:  # noqa: A002 - Textual's own word
        super().__init__(id=id)
        self.border_title = title
        self._build: Build | None = None
        self._kept: list[Line] = []
        self._lines: list[Line] = []

    def show(self, build: Build) -> None:
        """Show what `build` makes of the panel's size."""
        self._build = build
        self._make()

    def on_resize(self, event: events.Resize) -> None:
        """The lines depend on the width."""
        self._make()

    def notify_style_update(self) -> None:
        """A theme or the focus changed."""
        super().notify_style_update()
        self.refresh()

    def _make(self) -> None:
        if self._build is None or not self.room:
            return
        kept, lines = self._build(self.room.width, self.room.height)
        if (kept, lines) == (self._kept, self._lines):
            return
        self._kept, self._lines = kept, lines
        self.virtual_size = Size(self.room.width, len(kept) + len(lines))
        self.refresh()

    @property
    def shown(self) -> Sequence[str]:
        """Every line's text, those out of sight included."""
        return ["".join(text for text, _ in line) for line in [*self._kept, *self._lines]]

    def render_line(self, y: int) -> Strip:
        """One line of the panel."""
        width = self.room.width
        if y < len(self._kept):
            return self.strip(self._kept[y], width)
        at = y + self.scroll_offset.y - len(self._kept)
        if y + self.scroll_offset.y < len(self._kept) or at >= len(self._lines) or not self._lines[at]:
            return Strip.blank(width, self.rich_style)
        return self.strip(self._lines[at], width)
