"""Two runs side by side as a widget: a line an output token, drawn when it is seen, no line a widget of its own."""

from __future__ import annotations

from typing import Any

from textual import events
from textual.geometry import Size
from textual.message import Message
from textual.strip import Strip

from inspector import film
from inspector.tui import beside
from inspector.tui.aligned import Place
from inspector.tui.comparing import Compared, Side
from inspector.tui.lines import Page
from inspector.tui.reel import fields_of
from inspector.tui.widgets.lines import Roles


class Beside(Roles, inherit_bindings=False):
    """Places under one line of titles; `selected` is the one under the cursor. Until there are any, a page of words."""

    COMPONENT_CLASSES = {*Roles.COMPONENT_CLASSES, "beside--selected"}

    class Selected(Message):
        """Another place is under the cursor."""

    def __init__(self) -> None:
        super().__init__(id="beside")
        self.selected = 0
        self._compared: Compared | None = None
        self._meanwhile = Page()
        self._widths = beside.Widths()
        self._columns: list[tuple[str, int]] = []

    def show_words(self, page: Page) -> None:
        """Words in place of the places, which are not known yet."""
        if page != self._meanwhile:
            self._meanwhile = page
            self.refresh()

    def show(self, compared: Compared, at: int) -> None:
        """The places, with one of them selected and in the middle."""
        self._compared = compared
        self._resize()
        self.select(at, centre=True)
        self.refresh()

    @property
    def places(self) -> int:
        """How many there are."""
        return len(self._compared.places) if self._compared is not None else 0

    @property
    def lines_in_sight(self) -> int:
        """Lines that fit below the titles."""
        return max(1, self.room.height - 1)

    def place(self, number: int) -> Place | None:
        """A place, None where there is none."""
        return self._compared.places[number] if self._compared is not None and 0 <= number < self.places else None

    def halves(self, place: Place) -> tuple[beside.Half, beside.Half]:
        """What both sides have at a place."""
        assert self._compared is not None
        sides = self._compared.sides
        return _half(sides[0], place, 0), _half(sides[1], place, 1)

    # -- moving ------------------------------------------------------------------------------------------------------

    def select(self, number: int, centre: bool = False) -> None:
        """Put the cursor on a place, or the nearest there is, and bring it into sight; centre: into the middle."""
        number = max(0, min(number, self.places - 1))
        changed, self.selected = number != self.selected, number
        top = self.scroll_offset.y
        if centre:
            top = number - self.lines_in_sight // 2
        top = min(max(top, number - self.lines_in_sight + 1), number)
        self.scroll_to(y=max(0, top), animate=False, immediate=True, force=True)
        if changed:
            self.refresh()
            self.post_message(self.Selected())

    def on_resize(self, event: events.Resize) -> None:
        """The selected place stays in sight, in the middle again."""
        self._resize()
        self.select(self.selected, centre=True)

    def _resize(self) -> None:
        self._choose_columns()
        self.virtual_size = Size(self.room.width, self.places + 1)

    def on_click(self, event: events.Click) -> None:
        """A click selects the place under it."""
        at = event.get_content_offset(self)
        if at is not None and at.y > 0 and self.scroll_offset.y + at.y - 1 < self.places:
            self.select(self.scroll_offset.y + at.y - 1)

    def notify_style_update(self) -> None:
        """A theme or the focus changed."""
        super().notify_style_update()
        self.refresh()

    # -- drawing -----------------------------------------------------------------------------------------------------

    def _choose_columns(self) -> None:
        if self._compared is not None:
            fields = frozenset().union(*(fields_of(side.run.facts) for side in self._compared.sides))
            self._columns = self._widths.chosen(self.room.width, fields)

    def render_lines(self, crop: Any) -> list[Strip]:
        """The lines of a region. Widths first: a wider number must not leave lines of two layouts on one screen."""
        grew = False
        for y in range(self.lines_in_sight):
            place = self.place(self.scroll_offset.y + y)
            for half in self.halves(place) if place is not None else ():
                grew |= self._widths.see(half)
        if grew:
            self._choose_columns()
        return super().render_lines(crop)

    def render_line(self, y: int) -> Strip:
        """The titles, then a place a line."""
        width = self.room.width
        if self._compared is None:
            lines = self._meanwhile.lines
            return self.strip(lines[y] if y < len(lines) else [], width)
        if y == 0:
            return self.strip(beside.titles(self._columns, width), width)
        number = self.scroll_offset.y + y - 1
        place = self.place(number)
        if place is None:
            return Strip.blank(width, self.rich_style)
        selected = number == self.selected
        differs = number in self._compared.differences
        line = beside.line(self._columns, width, place, self.halves(place), selected, differs)
        return self.strip(line, width, *(["beside--selected"] if selected else []))


def _half(side: Side, place: Place, number: int) -> beside.Half:
    step = place.steps[number]
    found = None if step is None else side.pages.step(step, side.table.steps)
    return beside.Half(found, place.tokens[number], place.drafts[number], film.full_layers(side.run.facts))
