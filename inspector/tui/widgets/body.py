"""Everything under the head: the film, and the panels about the step selected in it.

Which panels are in sight is a matter of the screen's size (see view.tcss) and of the one that was chosen.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from textual.app import ComposeResult
from textual.containers import Container
from textual.message import Message

from inspector.film import Step
from inspector.tui.feed import Feed
from inspector.tui.lines import Page
from inspector.tui.model import Snapshot
from inspector.tui.pages import Pages
from inspector.tui.panels import layers, rules, source, tabs, text, times
from inspector.tui.sample import Medians, Sample, gaps_ms, take
from inspector.tui.widgets.film import Film
from inspector.tui.widgets.lines import Panel
from inspector.tui.widgets.rules import RulesPanel
from inspector.tui.widgets.text import TextPanel
from traces.writer import TraceError

if TYPE_CHECKING:
    from inspector.tui.plot import Floats

NEWEST_GAPS = 64
LOOK_BACK = 64
"""Steps among which a sequence's previous step is looked for"""


class Body(Container):
    """The film and its panels."""

    class Go(Message):
        """A panel asks for another step."""

        def __init__(self, step: int) -> None:
            super().__init__()
            self.step = step

    def __init__(self, source_maps: Sequence[tuple[str, str]] = (), ascii: bool = False) -> None:
        super().__init__(id="body")
        self.chosen = "layers"
        self.histogram = False
        self._maps, self._ascii = source_maps, ascii
        self._snapshot: Snapshot | None = None
        self._feed: Feed | None = None
        self._pages: Pages | None = None
        self._only: int | None = None
        self._rule: str | None = None
        self._sample: tuple[tuple[object, int], Sample] | None = None
        self._listings: dict[str, source.Listing] = {}

    def compose(self) -> ComposeResult:
        """The panels; the style sheet places them by the screen's size."""
        yield Film()
        line = Panel("", id="tabs")
        line.can_focus = False
        yield line
        yield TextPanel()
        yield Panel("layers", id="layers")
        yield Panel("time", id="time")
        yield RulesPanel()
        yield Panel("source", id="source")

    def on_mount(self) -> None:
        """One panel is chosen from the start."""
        self._mark_chosen()

    @property
    def film(self) -> Film:
        """The film."""
        return self.query_one(Film)

    def panel(self, name: str) -> Panel:
        """A panel by its name."""
        return self.query_one(f"#{name}", Panel)

    # -- which panel -------------------------------------------------------------------------------------------------

    def choose(self, name: str, go: bool = True) -> None:
        """Bring a panel into sight, and go to it."""
        self.chosen = name
        self._mark_chosen()
        if go:
            self.panel(name).focus()
        self.call_after_refresh(self.show_step)

    def zoom(self, on: bool) -> None:
        """The chosen panel alone, or the film with the panels beside it."""
        focused = self.screen.focused
        if on and isinstance(focused, Panel) and focused.id in tabs.NAMES:
            self.chosen = focused.id
        self.set_class(on, "-zoomed")
        self._mark_chosen()
        (self.panel(self.chosen) if on else self.film).focus()
        self.call_after_refresh(self.show_step)

    @property
    def zoomed(self) -> bool:
        """Whether one panel stands alone."""
        return self.has_class("-zoomed")

    def _mark_chosen(self) -> None:
        for name in tabs.NAMES:
            self.panel(name).set_class(name == self.chosen, "-chosen")
            self.set_class(name == self.chosen, f"-{name}")
        self.panel("tabs").show(lambda width, height: Page(lines=[tabs.tabs(self.chosen, width)]))

    # -- what is shown -----------------------------------------------------------------------------------------------

    def show(self, snapshot: Snapshot, feed: Feed, pages: Pages) -> None:
        """Another moment of the trace."""
        before, self._snapshot, self._feed = self._snapshot, snapshot, feed
        if pages is not self._pages:
            self._pages, self._sample, self._only, self._rule = pages, None, None, None
        self.film.show(snapshot, pages, self._filter())
        if before is None or before.steps != snapshot.steps or before.table is not snapshot.table:
            self.show_step()
        elif before.verdicts is not snapshot.verdicts:
            self._show_rules()

    def _filter(self) -> tuple[int, Sequence[int]] | None:
        if self._only is None or self._feed is None or self._snapshot is None:
            return None
        own: Sequence[int] = self._feed.sequences.steps_of(self._only, self._snapshot.steps)  # type: ignore[assignment]
        return (self._only, own) if len(own) else None

    def only(self, seq_id: int | None) -> None:
        """Show the steps of one sequence, or of all."""
        self._only = seq_id
        if self._snapshot is not None and self._pages is not None:
            self.film.show(self._snapshot, self._pages, self._filter())

    def only_with(self, number: int) -> None:
        """Show all sequences again if a step is not among those shown."""
        step = self.film.step(number)
        if self._only is not None and isinstance(step, dict) and step.get("seq_id") != self._only:
            self.only(None)

    def show_step(self) -> None:
        """Another step is selected, or the panels have another size: all of them are about that step."""
        step = self.film.step(self.film.selected)
        self._show_text(step)
        self._show_layers(step)
        self._show_time()
        self._show_source()
        self._show_rules()

    def _show_text(self, step: Step | str | None) -> None:
        number = self.film.selected
        panel = self.query_one(TextPanel)
        panel.selected = number
        panel.show(partial(self._text, step, number))

    def _text(self, step: Step | str | None, number: int, width: int, height: int) -> Page:
        snapshot, feed, pages = self._snapshot, self._feed, self._pages
        if snapshot is None or feed is None or pages is None or step is None:
            return Page()
        tokens = max(64, width * height)
        found = pages.passage(feed.requests, number, snapshot.steps, tokens)
        self.panel("text").border_title = text.title(found, snapshot.several_sequences)
        return text.text(found, number, step, width, height)

    def _show_layers(self, step: Step | str | None) -> None:
        panel, snapshot = self.panel("layers"), self._snapshot
        if snapshot is None:
            return
        run = snapshot.run_facts(self.film.selected)
        panel.border_title = "layers" if step is None else f"layers of step {self.film.selected:,}"
        panel.show(lambda width, height: layers.layers(step, run, self._step_before(step), self._medians(step), width))

    def _step_before(self, step: Step | str | None) -> Step | None:
        """The step before of the same sequence, if it is near."""
        if not isinstance(step, dict):
            return None
        for number in range(step["step"] - 1, max(-1, step["step"] - LOOK_BACK), -1):
            found = self.film.step(number)
            if isinstance(found, dict) and found.get("seq_id") == step.get("seq_id"):
                return found
        return None

    def _medians(self, step: Step | str | None) -> Medians:
        sample = self._sampled()
        return sample.medians(str(step.get("phase"))) if sample is not None and isinstance(step, dict) else Medians()

    def _sampled(self) -> Sample | None:
        """The selected step's run at a glance; taken anew when it grew by a twentieth, if the index has caught up.

        While a long file is read that would be at every picture, and each would wait for it.
        """
        snapshot = self._snapshot
        if snapshot is None or snapshot.table is None or not snapshot.steps:
            return None
        run = snapshot.table.run_at(self.film.selected)
        grown = min(snapshot.table.run_end(run), snapshot.steps) - run.first_step
        last = self._sample[0] if self._sample is not None else (None, 0)
        if last[0] is not run or (snapshot.indexed and grown > 1.05 * last[1]):
            self._sample = (run, grown), take(snapshot.table, run, snapshot.steps)
        return self._sample[1] if self._sample is not None else None

    def _show_time(self) -> None:
        self.panel("time").show(self._time)

    def _time(self, width: int, height: int) -> Page:
        sample = self._sampled()
        if sample is None or self._snapshot is None:
            return Page()
        if self.histogram:
            return times.histogram(sample, width, height)
        run = self._snapshot.run_facts(self.film.selected)
        return times.times(sample, self._newest_gaps(), run, width, height, self._ascii)

    def _newest_gaps(self) -> Floats:
        """The gaps before the selected step; following a trace that is the newest one."""
        snapshot = self._snapshot
        assert snapshot is not None and snapshot.table is not None
        run = snapshot.table.run_at(self.film.selected)
        first = max(run.first_step, self.film.selected - NEWEST_GAPS)
        try:
            rows, bad = snapshot.table.rows(first, self.film.selected + 1)
        except TraceError:
            return np.zeros(0)  # the head says what became of the file
        return gaps_ms(rows if bad is None else rows[~bad])

    def _show_source(self) -> None:
        self.panel("source").show(self._source)

    def _source(self, width: int, height: int) -> Page:
        notes = self._feed.sources if self._feed is not None else []
        near = [note for at, note in notes if at <= self.film.selected] or [note for _, note in notes]
        place = source.place_of(near[-1]) if near else None
        if place is not None and place.file not in self._listings:
            self._listings[place.file] = source.read(place.file, self._maps)
        return source.source(place, self._listings[place.file] if place is not None else None, width)

    def _show_rules(self) -> None:
        snapshot = self._snapshot
        if snapshot is None:
            return
        broken = snapshot.verdicts.at(self.film.selected)
        self.panel("rules").show(
            lambda width, height: rules.rules(snapshot, broken, self._rule, width, height)
        )  # fmt: skip

    # -- what the panels ask -----------------------------------------------------------------------------------------

    def on_panel_picked(self, message: Panel.Picked) -> None:
        """Text of a step was picked."""
        message.stop()
        self.post_message(self.Go(message.step))

    def on_rules_panel_chosen(self, message: RulesPanel.Chosen) -> None:
        """Walk through the list of rules."""
        message.stop()
        if self._snapshot is None:
            return
        listed = [rule.code for rule in rules.in_order(self._snapshot.verdicts)]
        now = self.panel("rules").page.cursor
        if listed:
            self._rule = listed[0 if now is None else max(0, min(now + message.by, len(listed) - 1))]
            self._show_rules()

    def on_rules_panel_wanted(self, message: RulesPanel.Wanted) -> None:
        """To the next step that breaks the chosen rule; behind the last one, to the first."""
        message.stop()
        if self._snapshot is None or self._rule is None:
            return
        verdicts = self._snapshot.verdicts
        found = verdicts.after(self.film.selected, self._rule)
        found = found if found is not None else verdicts.after(-1, self._rule)
        if found is not None:
            self.post_message(self.Go(found))

    def forget_rule(self) -> None:
        """Show again what the selected step breaks."""
        self._rule = None
