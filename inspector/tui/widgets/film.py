"""The film as a widget: a line a step, drawn when it is seen, none of them a widget of its own."""

from __future__ import annotations

from typing import Any

from textual import events
from textual.cache import LRUCache
from textual.geometry import Size
from textual.message import Message
from textual.strip import Strip

from inspector import film
from inspector.tui import reel
from inspector.tui.model import Snapshot
from inspector.tui.pages import Pages
from inspector.tui.widgets.lines import Roles

KEPT_STRIPS = 1000


class Film(Roles, inherit_bindings=False):
    """Steps as lines under one line of titles.

    `selected` is the step under the cursor; with `tail` it is the newest one, and the view keeps to the end.
    """

    COMPONENT_CLASSES = {*Roles.COMPONENT_CLASSES, "film--selected"}

    class Selected(Message):
        """The selected step changed, or the tail was left."""

    def __init__(self) -> None:
        super().__init__(id="film")
        self.selected = 0
        self.tail = False
        self.steps = 0
        self.marks: frozenset[int] = frozenset()
        self._pages: Pages | None = None
        self._snapshot: Snapshot | None = None
        self._widths = reel.Widths()
        self._columns: list[tuple[reel.Column, int]] = []
        self._strips: LRUCache[tuple[Any, ...], Strip] = LRUCache(KEPT_STRIPS)

    # -- what is shown -----------------------------------------------------------------------------------------------

    def show(self, snapshot: Snapshot, pages: Pages) -> None:
        """Show this moment of the trace."""
        if pages is not self._pages:
            self._pages, self._widths = pages, reel.Widths()
            self._strips.clear()
            self.selected = 0
        old, self._snapshot = self._snapshot, snapshot
        self.steps = snapshot.steps
        height = max(snapshot.steps, 0) + 1
        if height != self.virtual_size.height or self.room.width != self.virtual_size.width:
            self.virtual_size = Size(self.room.width, height)
        if self.tail:
            self._to_tail()
        if old is None or self._looks(old) != self._looks(snapshot):
            self._choose_columns()
            self.refresh()

    @staticmethod
    def _looks(snapshot: Snapshot) -> tuple[Any, ...]:
        return snapshot.steps, snapshot.verdicts.kept, snapshot.several_sequences, snapshot.table

    def mark(self, steps: frozenset[int]) -> None:
        """Show these steps as marked."""
        self.marks = steps
        self.refresh()

    def step(self, number: int) -> film.Step | str | None:
        """A step as people read it, a few words where it cannot be read, None where there is none."""
        if self._pages is None or not 0 <= number < self.steps:
            return None
        return self._pages.step(number, self.steps)

    @property
    def lines_in_sight(self) -> int:
        """Steps that fit below the titles."""
        return max(1, self.room.height - 1)

    def on_resize(self, event: events.Resize) -> None:
        """Another width chooses other columns; the selected step stays in sight."""
        self.virtual_size = Size(self.room.width, self.steps + 1)
        self._choose_columns()
        self._keep_in_sight()

    def notify_style_update(self) -> None:
        """A theme or the focus changed."""
        super().notify_style_update()
        self._strips.clear()

    # -- moving ------------------------------------------------------------------------------------------------------

    def select(self, number: int, jump: bool = False) -> None:
        """Put the cursor on a step and bring it into sight; leaves the tail. jump: with what stands around it."""
        out_of_sight = not 0 <= number - self.scroll_offset.y < self.lines_in_sight
        self._select(number, tail=False)
        if jump and out_of_sight:
            self._scroll(self.selected - self.lines_in_sight // 2)

    def follow(self) -> None:
        """Keep to the newest step."""
        self.tail = True
        self._to_tail()
        self.post_message(self.Selected())

    def _to_tail(self) -> None:
        self._select(self.steps - 1, tail=True)

    def _select(self, number: int, tail: bool) -> None:
        number = max(0, min(number, self.steps - 1))
        changed = (number, tail) != (self.selected, self.tail)
        self.selected, self.tail = number, tail
        self._keep_in_sight()
        if changed:
            self.refresh()
            self.post_message(self.Selected())

    def _keep_in_sight(self) -> None:
        top, seen = self.scroll_offset.y, self.lines_in_sight
        if self.selected < top:
            top = self.selected
        elif self.selected >= top + seen:
            top = self.selected - seen + 1
        if self.tail:
            top = self.steps - seen
        self._scroll(top)

    def _scroll(self, top: int) -> None:
        self.scroll_to(y=max(0, top), animate=False, immediate=True, force=True)

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """Scrolling back, with whatever, leaves the tail."""
        super().watch_scroll_y(old_value, new_value)
        if self.tail and new_value < old_value and new_value < self.max_scroll_y:
            self.tail = False
            self.post_message(self.Selected())

    def on_click(self, event: events.Click) -> None:
        """A click selects the step under it."""
        at = event.get_content_offset(self)
        if at is not None and at.y > 0:
            number = at.y - 1 + self.scroll_offset.y
            if number < self.steps:
                self.select(number)

    # -- drawing -----------------------------------------------------------------------------------------------------

    def _choose_columns(self) -> None:
        snapshot = self._snapshot
        if snapshot is None:
            return
        fields = reel.fields_of(snapshot.run_facts(self.selected))
        chosen = self._widths.chosen(self.room.width, fields, snapshot.several_sequences)
        if chosen != self._columns:
            self._columns = chosen
            self._strips.clear()

    def render_lines(self, crop: Any) -> list[Strip]:
        """The lines of a region. Widths first: a wider number must not leave lines of two layouts on one screen."""
        self._measure()
        return super().render_lines(crop)

    def _measure(self) -> None:
        first = self.scroll_offset.y
        grew = False
        for number in range(first, min(first + self.lines_in_sight, self.steps)):
            step = self.step(number)
            if isinstance(step, dict):
                grew |= self._widths.see(reel.cells(step, None))
        if grew or not self._columns:
            self._choose_columns()

    def render_line(self, y: int) -> Strip:
        """The titles, then steps."""
        width = self.room.width
        if y == 0 and self._columns:
            return self.strip(reel.titles(self._columns, width), width)
        number = self.scroll_offset.y + y - 1
        step = self.step(number)
        if step is None or self._snapshot is None:
            return Strip.blank(width, self.rich_style)
        codes = tuple(dict.fromkeys(failure.code for failure in self._snapshot.verdicts.at(number)))
        selected = number == self.selected
        key = (number, width, codes, selected, number in self.marks)
        strip = self._strips.get(key)
        if strip is None:
            strip = self._strips[key] = self._draw(number, step, codes, selected, width)
        return strip

    def _draw(self, number: int, step: film.Step | str, codes: tuple[str, ...], selected: bool, width: int) -> Strip:
        assert self._snapshot is not None
        full = film.full_layers(self._snapshot.run_facts(number))
        said = reel.cells(step, full) if isinstance(step, dict) else {}
        line = reel.line(self._columns, width, number, step, said, codes, selected, number in self.marks)
        return self.strip(line, width, *(["film--selected"] if selected else []))
