"""The film as a widget: a line a step, drawn when it is seen, none of them a widget of its own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from textual import events
from textual.cache import LRUCache
from textual.geometry import Size
from textual.message import Message
from textual.strip import Strip

from inspector import film
from inspector.tui import reel
from inspector.tui.model import Snapshot
from inspector.tui.pages import PAGE, Pages
from inspector.tui.widgets.lines import Roles
from traces.writer import TraceError

if TYPE_CHECKING:
    from traces.table import Table

KEPT_STRIPS = 1000
KEPT_NOTES = 4
Note = dict[str, Any]


class Film(Roles, inherit_bindings=False):
    """Steps as lines under one line of titles, with notes on lines of their own between them.

    `selected` is the step under the cursor; with `tail` it is the newest one, and the view keeps to the end.
    It scrolls by steps, so that a note's line needs no counting through the trace. `only` is the sequence whose steps
    are shown, None for all.
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
        self.only: int | None = None
        self._order: Sequence[int] = range(0)
        self._in_sight: tuple[tuple[Any, ...], list[int | Note]] = ((), [])
        self._pages: Pages | None = None
        self._snapshot: Snapshot | None = None
        self._widths = reel.Widths()
        self._columns: list[tuple[reel.Column, int]] = []
        self._strips: LRUCache[tuple[Any, ...], Strip] = LRUCache(KEPT_STRIPS)
        self._noted: LRUCache[tuple[int, int | None], list[tuple[int, Note]]] = LRUCache(KEPT_NOTES)

    # -- what is shown -----------------------------------------------------------------------------------------------

    def show(self, snapshot: Snapshot, pages: Pages, only: tuple[int, Sequence[int]] | None = None) -> None:
        """Show this moment of the trace. only: (a sequence, its steps): no others are shown."""
        if pages is not self._pages:
            self._pages, self._widths = pages, reel.Widths()
            self._strips.clear()
            self.selected = 0
        old, self._snapshot = self._snapshot, snapshot
        if old is None or self._extent(old) != self._extent(snapshot):
            self._noted.clear()
            self._in_sight = (), []
        self.steps = snapshot.steps
        refiltered = (None if only is None else only[0]) != self.only
        self.only, self._order = only if only is not None else (None, range(snapshot.steps))
        if self.room.width != self.virtual_size.width or self._height() != self.virtual_size.height:
            self.virtual_size = Size(self.room.width, self._height())
        if self.tail and not refiltered:
            with self.prevent(self.Selected):  # who shows a new moment shows the panels too: once
                self._to_tail()
        elif self.tail:
            self._to_tail()
        elif refiltered:
            self._select(self.selected, tail=False)
        if old is None or refiltered or self._looks(old) != self._looks(snapshot):
            self._choose_columns()
            self.refresh()

    @staticmethod
    def _looks(snapshot: Snapshot) -> tuple[Any, ...]:
        return *Film._extent(snapshot), snapshot.verdicts.failed, snapshot.several_sequences

    @staticmethod
    def _extent(snapshot: Snapshot) -> tuple[Any, ...]:
        return snapshot.table, snapshot.steps, snapshot.notes

    def _height(self) -> int:
        """Lines that there seem to be: scrolled to the end, the last step and the notes behind it are in sight."""
        top = self._top_showing(len(self._order) - 1, behind=True)
        return top + self.room.height if top else min(len(self._order) + 1, self.room.height)

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
        """Lines that fit below the titles."""
        return max(1, self.room.height - 1)

    def place(self, number: int) -> int:
        """The place of a step among those shown, or of the last one before it that is."""
        if isinstance(self._order, range):
            return number
        return max(0, int(np.searchsorted(self._order, number, side="right")) - 1)

    def _place_from(self, number: int) -> int:
        """The place of the first step shown from `number` on."""
        return number if isinstance(self._order, range) else int(np.searchsorted(self._order, number))

    def step_at(self, place: int) -> int:
        """The step at a place, or at the nearest there is."""
        return int(self._order[max(0, min(place, len(self._order) - 1))]) if len(self._order) else 0

    # -- which lines are in sight ------------------------------------------------------------------------------------

    def _notes(self, first: int, stop: int) -> dict[int, list[Note]]:
        """Notes of places [first, stop) by the place they stand before; those behind the last step at its end."""
        if self._snapshot is None or self._snapshot.table is None or (first >= stop and len(self._order)):
            return {}
        to_end = stop >= len(self._order)
        number = self.step_at(first - 1) + 1 if first else 0
        end = None if to_end and self.steps == self._snapshot.table.steps else self.step_at(stop - 1) + 1
        found: dict[int, list[Note]] = {}
        for step, note in self._shown_notes(self._snapshot.table, number, end):
            if self.only is None or note.get("seq_id") in (self.only, None):
                found.setdefault(self._place_from(step), []).append(note)
        return found

    def _shown_notes(self, table: Table, first: int, end: int | None) -> list[tuple[int, Note]]:
        """Notes of the kinds that are shown, and where another run begins. Read a little beyond, and kept for the next
        key: thousands may stand before one step."""
        key = first // PAGE * PAGE, None if end is None else -(-end // PAGE) * PAGE
        if key not in self._noted:
            try:
                self._noted[key] = list(_notes_and_runs(table, *key))
            except TraceError:
                return []  # the head says what became of the file
        return [(step, note) for step, note in self._noted[key] if step >= first and (end is None or step < end)]

    def _top_showing(self, place: int, behind: bool = False) -> int:
        """The least place that the view can begin at with `place` still in sight (`behind`: and what follows it)."""
        if place <= 0:
            return 0
        first, room = max(0, place - self.lines_in_sight), self.lines_in_sight
        notes = self._notes(first, place + 1)
        left = room - 1 - len(notes.get(place, ())) - (len(notes.get(place + 1, ())) if behind else 0)
        top = place
        while top > 0 and left > 0:
            left -= 1 + len(notes.get(top - 1, ()))
            if left < 0:
                break
            top -= 1
        return top

    def _lines(self) -> list[int | Note]:
        """What is in sight, from the top: steps by number, and notes."""
        top, room = self.scroll_offset.y, self.lines_in_sight
        key = (top, room, self.steps, self.only, len(self._order), self._pages)
        if self._in_sight[0] != key:
            stop = min(top + room, len(self._order))
            notes = self._notes(top, stop)
            lines: list[int | Note] = []
            for place in range(top, stop):
                # a step stays in sight however many notes stand before the first one
                own = notes.get(place, [])
                if place == top and len(own) >= room > 1:
                    own = [reel.more(len(own) - room + 2), *own[len(own) - room + 2 :]]
                lines += own if place > top or room > 1 else []
                lines.append(self.step_at(place))
            behind, left = notes.get(stop, []) if stop == len(self._order) else [], room - len(lines)
            if len(behind) > left > 0 and stop - top <= 1:  # nothing below brings the rest into sight
                behind = [*behind[: left - 1], reel.more(len(behind) - left + 1)]
            self._in_sight = key, (lines + behind)[:room]
        return self._in_sight[1]

    def on_resize(self, event: events.Resize) -> None:
        """Another width chooses other columns; the selected step stays in sight."""
        self.virtual_size = Size(self.room.width, self._height())
        self._choose_columns()
        self._keep_in_sight()

    def notify_style_update(self) -> None:
        """A theme or the focus changed."""
        super().notify_style_update()
        self._strips.clear()

    # -- moving ------------------------------------------------------------------------------------------------------

    def select(self, number: int, jump: bool = False) -> None:
        """Put the cursor on a step and bring it into sight; leaves the tail. jump: with what stands around it."""
        out_of_sight = number not in self._lines()
        self._select(number, tail=False)
        if jump and out_of_sight:
            self._scroll(self.place(self.selected) - self.lines_in_sight // 2)

    def move(self, by: int) -> None:
        """Move the cursor by so many of the steps that are shown."""
        self.select(self.step_at(self.place(self.selected) + by))

    def follow(self) -> None:
        """Keep to the newest step."""
        self.tail = True
        self._to_tail()
        self.post_message(self.Selected())

    def _to_tail(self) -> None:
        self._select(self.steps - 1, tail=True)

    def _select(self, number: int, tail: bool) -> None:
        number = self.step_at(self.place(max(0, min(number, self.steps - 1))))
        changed = (number, tail) != (self.selected, self.tail)
        self.selected, self.tail = number, tail
        self._keep_in_sight()
        if changed:
            self.refresh()
            self.post_message(self.Selected())

    def _keep_in_sight(self) -> None:
        top, at = self.scroll_offset.y, self.place(self.selected)
        least = self._top_showing(at, behind=at == len(self._order) - 1)
        self._scroll(least if self.tail else min(max(top, least), at))

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
        lines = self._lines()
        if at is not None and 0 < at.y <= len(lines):
            line = lines[at.y - 1]
            if isinstance(line, int):
                self.select(line)

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
        grew = False
        for number in self._lines():
            step = self.step(number) if isinstance(number, int) else None
            if isinstance(step, dict):
                grew |= self._widths.see(reel.cells(step, None))
        if grew or not self._columns:
            self._choose_columns()

    def render_line(self, y: int) -> Strip:
        """The titles, then steps and notes."""
        width, lines = self.room.width, self._lines()
        if y == 0 and self._columns:
            return self.strip(reel.titles(self._columns, width), width)
        number = lines[y - 1] if 0 < y <= len(lines) else None
        if isinstance(number, dict):
            return self.strip(reel.note_line(number, width), width)
        step = self.step(number) if number is not None else None
        if number is None or step is None or self._snapshot is None:
            return Strip.blank(width, self.rich_style)
        codes = self._snapshot.verdicts.codes_at(number)
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


def _notes_and_runs(table: Table, first: int, stop: int | None) -> Iterator[tuple[int, Note]]:
    """Notes before or among steps [first, stop); before those of every run but the first a line that tells of it."""
    begin = table.run_at(first - 1).number if first else 0
    for run in table.runs[begin:]:
        if stop is not None and run.first_step >= stop:
            return
        if run.number and run.first_step >= first:
            yield run.first_step, reel.run_begins(run.number, run.facts)
        for step, note in table.notes(first, stop, run):
            if note.get("kind") in film.NOTES:
                yield step, note
