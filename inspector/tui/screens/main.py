"""The view: head, film, layers, text and rules of one trace, refreshed at 10 Hz while it grows."""

from __future__ import annotations

import gc
from functools import partial
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container
from textual.screen import Screen
from textual.widgets import Footer

from inspector.film import Step
from inspector.tui import panels
from inspector.tui.engine import Engine
from inspector.tui.feed import Feed
from inspector.tui.lines import Line
from inspector.tui.model import Snapshot, state_of
from inspector.tui.pages import Pages, Passage, passage
from inspector.tui.widgets.film import Film
from inspector.tui.widgets.lines import Panel

TICK_S = 0.1
SAID_S = 4.0
LAST_WORDS_S = 1.0
"""What an engine wrote right before it ended is given this long to be seen."""


class MainScreen(Screen[None]):
    """One trace, recorded or growing."""

    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (60, "-medium"), (100, "-broad"), (140, "-wide")]
    VERTICAL_BREAKPOINTS = [(0, "-tiny"), (10, "-low"), (18, "-tall")]
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "step(-1)", "Step back", show=False, id="film.up"),
        Binding("down,j", "step(1)", "Step on", show=False, id="film.down"),
        Binding("pageup,ctrl+b", "page(-1)", "Page back", show=False, id="film.page_up"),
        Binding("pagedown,ctrl+f", "page(1)", "Page on", show=False, id="film.page_down"),
        Binding("home,g", "first", "First step", show=False, id="film.first"),
        Binding("end,G,f", "follow", "Newest", id="film.follow", key_display="f"),
        Binding("n", "failure(1)", "Next failure", id="rules.next"),
        Binding("N", "failure(-1)", "Previous", id="rules.previous"),
        Binding("space", "pause", "Pause", id="view.pause"),
        Binding("x", "stop_engine", "Stop engine", id="engine.stop"),
        Binding("r", "reopen", "Open again", show=False, id="view.reopen"),
        Binding("question_mark", "help", "Help", id="view.help", key_display="?"),
        Binding("q", "quit_view", "Quit", id="view.quit"),
    ]

    def __init__(self, feed: Feed, engine: Engine | None) -> None:
        super().__init__()
        self.feed, self.engine = feed, engine
        self.paused = False
        self._shown = Snapshot(feed.path, feed.follow)
        self._pages: Pages | None = None
        self._left_tail_at = 0
        self._engine_ended: float | None = None
        self._said, self._said_until = "", 0.0

    def compose(self) -> ComposeResult:
        """The panels; the style sheet places them by the screen's size."""
        head = Panel("", id="head")
        head.can_focus = False
        text = Panel("text", id="text")
        text.can_focus = False
        yield head
        with Container(id="body"):
            yield Film()
            yield Panel("layers", id="layers")
            yield text
            yield Panel("rules", id="rules")
        yield Footer()

    def on_mount(self) -> None:
        """Start the clock; the rules start once the first picture stands."""
        self.film.tail = self.feed.follow
        self.film.focus()
        self.tick()
        self.set_interval(TICK_S, self.tick)
        self.call_after_refresh(self._first_picture_stands)

    def _first_picture_stands(self) -> None:
        gc.enable()
        self.feed.judge()

    @property
    def film(self) -> Film:
        """The film."""
        return self.query_one(Film)

    def _panel(self, name: str) -> Panel:
        return self.query_one(f"#{name}", Panel)

    # -- what is new -------------------------------------------------------------------------------------------------

    def tick(self) -> None:
        """Take the feed's newest snapshot, unless paused."""
        newest = self.feed.snapshot
        if newest is not self._shown and not self.paused:
            before, self._shown = self._shown, newest
            self._show(before)
        self._look_at_engine()
        self._show_head()

    def _look_at_engine(self) -> None:
        if self.engine is None or self.engine.running:
            return
        now = self.feed.clock()
        if self._engine_ended is None:
            self._engine_ended = now
            self.refresh_bindings()
        elif self.feed.snapshot.waiting and now - self._engine_ended > LAST_WORDS_S:
            self.app.exit(0)  # it never wrote a trace: what it complained of is shown outside

    def _show(self, before: Snapshot) -> None:
        snapshot = self._shown
        if snapshot.table is None:
            return
        if self._pages is None or before.table is not snapshot.table:
            self._pages = Pages(snapshot.table, self.feed.texts)
        self.film.show(snapshot, self._pages)
        if before.verdicts is not snapshot.verdicts or before.steps != snapshot.steps:
            self._show_rules()
        if before.steps != snapshot.steps or before.table is not snapshot.table:
            self._show_step()

    def on_film_selected(self, message: Film.Selected) -> None:
        """Another step is under the cursor: the panels are about that one."""
        message.stop()
        if self.film.tail:
            self._left_tail_at = 0
        elif self.feed.follow and not self._left_tail_at:
            self._left_tail_at = self._shown.steps
        self._show_step()
        self._show_rules()
        self._show_head()

    def _show_head(self) -> None:
        newest = self.feed.snapshot if self.paused else self._shown
        state = state_of(newest, self.feed.clock(), self.paused, self.engine.words if self.engine else None)
        height = panels.head_height(self.size.width, self.size.height)
        head = self._panel("head")
        if head.styles.height is None or head.styles.height.value != height:
            head.styles.height = height
        make = partial(panels.head, self._shown, state, self._tail(), step=self.film.selected)
        head.show(lambda width, height: (make(width=width, height=height), []))

    def _tail(self) -> str:
        """The answer to the last key, or what waits below where the view does not follow a growing trace."""
        if self.feed.clock() < self._said_until:
            return self._said
        newest = self.feed.snapshot.steps
        if self.paused:
            return f"{newest - self._shown.steps:,} new steps wait: space goes on"
        new = newest - self._left_tail_at
        if self.film.tail or not self._left_tail_at or (not new and self.feed.snapshot.complete):
            return ""
        return f"{new:,} new steps below: f follows"

    def _show_step(self) -> None:
        film, snapshot = self.film, self._shown
        step = film.step(film.selected)
        run = snapshot.run_facts(film.selected)
        layers, text = self._panel("layers"), self._panel("text")
        layers.border_title = "layers" if step is None else f"layers of step {film.selected:,}"
        layers.show(lambda width, height: panels.layers(step, run, width))
        text.show(lambda width, height: ([], self._text_lines(step, film.selected, width, height)))

    def _text_lines(self, step: Step | str | None, number: int, width: int, height: int) -> list[Line]:
        table = self._shown.table
        if table is None or step is None:
            return []
        tokens = max(64, width * height)
        found = passage(table, self.feed.requests, self.feed.texts, number, self._shown.steps, tokens)
        self._panel("text").border_title = _text_title(found)
        return panels.text(found, step, width, height)

    def _show_rules(self) -> None:
        snapshot, selected = self._shown, self.film.selected
        self._panel("rules").show(lambda width, height: ([], panels.rules(snapshot, selected, width)))

    # -- keys --------------------------------------------------------------------------------------------------------

    def action_step(self, by: int) -> None:
        """Move the cursor."""
        self.film.select(self.film.selected + by)

    def action_page(self, by: int) -> None:
        """Move the cursor by what fits in sight."""
        self.film.select(self.film.selected + by * self.film.lines_in_sight)

    def action_first(self) -> None:
        """To the first step."""
        self.film.select(0)

    def action_follow(self) -> None:
        """To the newest step, and on with it where the trace grows."""
        if self.feed.follow:
            self.film.follow()
        else:
            self.film.select(self.film.steps - 1)

    def action_failure(self, way: int) -> None:
        """To the next or the previous step that breaks a rule."""
        verdicts, at = self._shown.verdicts, self.film.selected
        found = verdicts.after(at) if way > 0 else verdicts.before(at)
        if found is not None and found < self._shown.steps:
            self.film.select(found, jump=True)
            return
        where = "after" if way > 0 else "before"
        judging = verdicts.judged < self._shown.steps
        self._say(f"no failure {where} step {at}" + (f", {verdicts.judged:,} steps judged so far" if judging else ""))

    def _say(self, words: str) -> None:
        """An answer to a key, in the head for a moment: a popup would hide lines."""
        self._said, self._said_until = words, self.feed.clock() + SAID_S
        self._show_head()

    def action_pause(self) -> None:
        """Freeze what is shown; reading and judging go on."""
        self.paused = not self.paused
        self.tick()

    def action_stop_engine(self) -> None:
        """Ask the engine to stop."""
        if self.engine is not None:
            self.engine.ask_to_stop()
            self._show_head()

    def action_reopen(self) -> None:
        """Read the path anew: another file may have taken the name."""
        self.feed.stop()
        self.feed = Feed(self.feed.path, self.feed.follow, self.feed.clock)
        self.feed.start()
        self.feed.judge()
        self._left_tail_at, self.paused = 0, False
        self.film.tail = self.feed.follow

    def action_help(self) -> None:
        """The keys and the words."""
        from inspector.tui.screens.help import HelpScreen

        self.app.push_screen(HelpScreen())

    def action_quit_view(self) -> None:
        """Leave; a running engine is asked to stop."""
        if self.engine is not None:
            self.engine.ask_to_stop()
        self.app.exit(0)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Keys that have nothing to act on are not offered."""
        if action == "stop_engine":
            return self.engine is not None and self.engine.running
        if action == "pause":
            return self.feed.follow
        return True


def _text_title(found: Passage) -> str:
    return "token ids (no text recorded)" if found.ids else "text"
