"""Widgets made of lines with roles: the style of a role comes from the style sheet, nothing is drawn out of sight."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

from rich.segment import Segment
from textual import events
from textual.geometry import Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from inspector.tui.lines import ROLES, Line, Page

Build = Callable[[int, int], Page]
"""(width, height) -> what the panel shows"""


class Roles(ScrollView):
    """A view whose lines are parts with roles."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {f"role--{role}" for role in ROLES}

    @property
    def room(self) -> Size:
        """What is left for lines beside the scrollbar."""
        return self.scrollable_content_region.size

    def strip(self, line: Line, width: int, *more: str) -> Strip:
        """A line as it is drawn, padded to `width`. more: component classes laid over every part."""
        if not line:
            return Strip.blank(width, self.rich_style)
        over = [self.get_component_rich_style(name, partial=True) for name in more]
        segments = []
        for text, role in line:
            style = self.get_component_rich_style(f"role--{role}")
            for layer in over:
                style += layer
            segments.append(Segment(text, style))
        return Strip(segments).adjust_cell_length(width, segments[-1].style if over else self.rich_style)


class Panel(Roles):
    """A panel of lines that are made anew for its size whenever show() or a resize asks."""

    class Picked(Message):
        """A click on what belongs to a step."""

        def __init__(self, step: int) -> None:
            super().__init__()
            self.step = step

    def __init__(self, title: str, id: str) -> None:  # noqa: A002 - Textual's own word
        super().__init__(id=id)
        self.border_title = title
        self._build: Build | None = None
        self.page = Page()

    def show(self, build: Build) -> None:
        """Show what `build` makes of the panel's size."""
        self._build = build
        self._make()

    def on_resize(self, event: events.Resize) -> None:
        """The lines depend on the width."""
        self._make()

    def on_show(self, event: events.Show) -> None:
        """What was out of sight was not made."""
        self._make()

    def notify_style_update(self) -> None:
        """A theme or the focus changed."""
        super().notify_style_update()
        self.refresh()

    def _make(self) -> None:
        if self._build is None or not self.room or not self.display:
            return  # made when it comes into sight
        page = self._build(self.room.width, self.room.height)
        if page == self.page:
            return
        moved = page.cursor != self.page.cursor or len(page.bottom) != len(self.page.bottom)
        self.page = page
        self.virtual_size = Size(self.room.width, len(page.top) + len(page.lines) + len(page.bottom))
        if moved and page.cursor is not None:
            self._keep_in_sight(page.cursor)
        self.refresh()

    def _keep_in_sight(self, at: int) -> None:
        """Scroll so that a line is seen, in the middle if it was not."""
        seen = self.room.height - len(self.page.top) - len(self.page.bottom)
        top = self.scroll_offset.y
        if not top <= at < top + seen:
            self.scroll_to(y=max(0, at - seen // 2), animate=False, immediate=True, force=True)

    @property
    def shown(self) -> Sequence[str]:
        """Every line's text, those out of sight included."""
        page = self.page
        return ["".join(text for text, _ in line) for line in [*page.top, *page.lines, *page.bottom]]

    def on_click(self, event: events.Click) -> None:
        """A click on a step's text selects the step."""
        at = event.get_content_offset(self)
        if at is None:
            return
        row = at.y - len(self.page.top) + self.scroll_offset.y
        if 0 <= row < len(self.page.steps):
            step = next((step for end, step in self.page.steps[row] if at.x < end), None)
            if step is not None:
                self.post_message(self.Picked(step))

    def render_line(self, y: int) -> Strip:
        """One line of the panel."""
        page, width = self.page, self.room.width
        from_bottom = y - (self.room.height - len(page.bottom))
        at = y + self.scroll_offset.y - len(page.top)
        if y < len(page.top):
            line = page.top[y]
        elif from_bottom >= 0:
            line = page.bottom[from_bottom]
        else:
            line = page.lines[at] if 0 <= at < len(page.lines) else []
        return self.strip(line, width)
