"""The view: head, film, layers, text and rules of one trace, refreshed at 10 Hz while it grows."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.screen import Screen
from textual.worker import get_current_worker

from inspector.text import visible
from inspector.tui import keys, places, save, search
from inspector.tui.engine import Engine
from inspector.tui.feed import Feed
from inspector.tui.lines import Page
from inspector.tui.model import Snapshot, state_of
from inspector.tui.pages import Pages
from inspector.tui.panels import head
from inspector.tui.reel import fields_of
from inspector.tui.replay import SPEEDS, Playhead
from inspector.tui.widgets.body import Body
from inspector.tui.widgets.film import Film
from inspector.tui.widgets.footer import KeysLine
from inspector.tui.widgets.lines import Panel
from traces.writer import TraceError

TICK_S, SHOW_S = 0.1, 0.2
"""How often there is a look at what is new, and how often at most that is drawn: drawing costs more than reading"""
SAID_S = 4.0
LAST_WORDS_S = 1.0
"""What an engine wrote right before it ended is given this long to be seen."""


class MainScreen(Screen[None]):
    """One trace, recorded or growing."""

    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (60, "-medium"), (110, "-broad"), (170, "-wide")]
    VERTICAL_BREAKPOINTS = [(0, "-tiny"), (10, "-low"), (18, "-tall")]
    BINDINGS: ClassVar[list[BindingType]] = [*keys.MAIN]

    def __init__(
        self, feed: Feed, engine: Engine | None, own_keys: Mapping[str, str],
        source_maps: Sequence[tuple[str, str]] = (), ascii: bool = False,
    ) -> None:  # fmt: skip
        super().__init__()
        self.feed, self.engine, self._own_keys = feed, engine, own_keys
        self._source_maps, self._ascii = source_maps, ascii
        self.paused = False
        self._shown_at = 0.0
        self._shown = Snapshot(feed.path, feed.follow)
        self._pages: Pages | None = None
        self._left_tail_at = 0
        self._engine_ended: float | None = None
        self._said, self._said_until = "", 0.0
        self._doing = ""
        self._awaited: int | None = None
        self._query: search.Query = ()
        self._marks: list[int] = []
        self._playhead: Playhead | None = None
        self._speed = 1.0

    def compose(self) -> ComposeResult:
        """The panels; the style sheet places them by the screen's size."""
        line = Panel("", id="head")
        line.can_focus = False
        yield line
        yield Body(self._source_maps, self._ascii)
        yield KeysLine()

    def on_mount(self) -> None:
        """Start the clock; the rules start once the first picture stands."""
        self.film.tail = self.feed.follow
        self.film.focus()
        self.tick()
        self.set_interval(TICK_S, self.tick)
        self.call_after_refresh(self._first_picture_stands)

    def _first_picture_stands(self) -> None:
        gc.freeze()  # what stands until the end (modules, widgets, styles) is not gone through again: 50 ms each time
        gc.enable()
        self.feed.judge()

    def on_unmount(self) -> None:
        """What was kept for the picture may go with it."""
        gc.unfreeze()

    @property
    def film(self) -> Film:
        """The film."""
        return self.query_one(Film)

    @property
    def body(self) -> Body:
        """The film and its panels."""
        return self.query_one(Body)

    # -- what is new -------------------------------------------------------------------------------------------------

    def tick(self) -> None:
        """Take the feed's newest snapshot, unless paused."""
        newest, now = self.feed.snapshot, self.feed.clock()
        due = now - self._shown_at >= SHOW_S or self._shown.table is None or newest.complete
        if newest is not self._shown and due and not self.paused:
            before, self._shown, self._shown_at = self._shown, newest, now
            self._show(before)
        self._go_on()
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
        self.body.show(snapshot, self.feed, self._pages)

    def on_film_selected(self, message: Film.Selected) -> None:
        """Another step is under the cursor: the panels are about that one."""
        message.stop()
        if self.film.tail:
            self._left_tail_at = 0
        elif self.feed.follow and not self._left_tail_at:
            self._left_tail_at = self._shown.steps
        self.body.forget_rule()
        self.body.show_step()
        self._show_head()

    def on_body_go(self, message: Body.Go) -> None:
        """A panel asks for another step."""
        message.stop()
        self.film.select(message.step, jump=True)

    def _show_head(self) -> None:
        newest = self.feed.snapshot if self.paused else self._shown
        playing = self._playhead.speed if self._playhead is not None else None
        engine = self.engine.words if self.engine else None
        state = state_of(newest, self.feed.clock(), self.paused, engine, playing)
        height = head.height_for(self.size.width, self.size.height)
        panel = self.query_one("#head", Panel)
        if panel.styles.height is None or panel.styles.height.value != height:
            panel.styles.height = height
        make = partial(head.head, self._shown, state, self._tail(), step=self.film.selected)
        panel.show(lambda width, height: Page(lines=make(width=width, height=height)))

    def _tail(self) -> str:
        """The answer to the last key, or what waits below where the view does not follow a growing trace."""
        if self.feed.clock() < self._said_until:
            return self._said
        if self._doing:
            return f"{self._doing}: esc gives up"
        newest = self.feed.snapshot.steps
        if self.paused:
            return f"{newest - self._shown.steps:,} new steps wait: space goes on"
        new = newest - self._left_tail_at
        if self.film.tail or not self._left_tail_at or (not new and self.feed.snapshot.complete):
            return ""
        return f"{new:,} new steps below: f follows"

    # -- keys --------------------------------------------------------------------------------------------------------

    def _go(self, number: int, jump: bool = False) -> None:
        """Move the cursor because the user says so: what was awaited no longer is."""
        self._awaited = None
        self.film.select(number, jump)

    def action_step(self, by: int) -> None:
        """Move the cursor."""
        self._awaited = None
        self.film.move(by)

    def action_page(self, by: int) -> None:
        """Move the cursor by what fits in sight."""
        self._awaited = None
        self.film.move(by * self.film.lines_in_sight)

    def action_first(self) -> None:
        """To the first step."""
        self._go(0)

    def action_follow(self) -> None:
        """To the newest step, and on with it where the trace grows."""
        if self.feed.follow:
            self._shown_at = 0.0  # the newest of all, not of what was drawn last
            self.tick()
            self.film.follow()
        else:
            self._reach(sys.maxsize)

    def action_step_of_sequence(self, way: int) -> None:
        """To the next or the previous step of the same sequence."""
        step = self.film.step(self.film.selected)
        if isinstance(step, dict) and step.get("seq_id") is not None:
            self._search((search.Compare("seq_id", "=", float(step["seq_id"])),), way, wrap=False)

    def action_failure(self, way: int) -> None:
        """To the next or the previous step that breaks a rule."""
        verdicts, at = self._shown.verdicts, self.film.selected
        found = verdicts.after(at) if way > 0 else verdicts.before(at)
        if found is not None and found < self._shown.steps:
            self.body.only_with(found)
            self.body.choose("rules", go=False)
            self._go(found, jump=True)
            return
        where = "after" if way > 0 else "before"
        judging = verdicts.judged < self._shown.steps
        self._say(f"no failure {where} step {at}" + (f", {verdicts.judged:,} steps judged so far" if judging else ""))

    def action_go_to(self) -> None:
        """Ask for a step and go there."""

        def refuse(line: str) -> str | None:
            return None if places.step_of(line, self._shown.steps) is not None else "such as 120, -1 or 50%"

        def go(line: str | None) -> None:
            number = places.step_of(line, self._shown.steps) if line else None
            if number is not None:
                self._reach(number)

        self._ask("go to step", "120, -1 is the last, 50% half-way", refuse, go)

    def _ask(
        self, title: str, hint: str, refuse: Callable[[str], str | None], then: Callable[[str | None], None]
    ) -> None:
        from inspector.tui.screens.prompt import PromptScreen

        self.app.push_screen(PromptScreen(title, hint, refuse), then)

    def _reach(self, number: int) -> None:
        """Go to a step, now or once the file was read that far."""
        self._go(number, jump=True)
        if number >= self._shown.steps:
            self._awaited = number

    def _go_on(self) -> None:
        """What goes on by itself: to a step that is awaited, and playing."""
        snapshot = self._shown
        if self._awaited is not None and snapshot.steps:
            there, awaited = self._awaited < snapshot.steps, self._awaited
            self.film.select(awaited, jump=True)
            if there or snapshot.indexed:
                self._awaited = None
            if snapshot.indexed and not there and awaited < sys.maxsize:
                self._say(f"there is no step {awaited:,}: this is the last")
        if self._playhead is not None:
            self._play(self._playhead)

    def _play(self, playhead: Playhead) -> None:
        table, steps = self._shown.table, self._shown.steps
        if self.film.selected != playhead.at:  # the user went elsewhere: on from there
            playhead = self._playhead = Playhead(self.film.selected, self.feed.clock(), self._speed)
        if table is None:
            return
        try:
            self.film.select(playhead.move(table, steps, self.feed.clock()))
        except TraceError as error:
            self._playhead = None
            self._say(visible(str(error)))
        if playhead.at >= steps - 1 and self._shown.indexed:
            self._playhead = None

    # -- search ------------------------------------------------------------------------------------------------------

    def action_search(self) -> None:
        """Ask for words and go to the next step that they mean; no words: those of the last time."""

        def refuse(line: str) -> str | None:
            try:
                self._parsed(line)
            except search.SearchError as error:
                return str(error)
            return None

        def go(line: str | None) -> None:
            if line is not None:
                self._query = self._parsed(line)
                self._search(self._query, 1)

        self._ask("search", "text, an id, total > 5ms, layer 12 > 2ms, phase=verify, seq 3, fail", refuse, go)

    def _parsed(self, line: str) -> search.Query:
        if not line.strip() and self._query:
            return self._query
        return search.parse(line, fields_of(self._shown.run_facts(self.film.selected)))

    def action_hit(self, way: int) -> None:
        """To the next or the previous step that the last search means."""
        if self._query:
            self._search(self._query, way)
        else:
            self._say("nothing was searched for yet: / does")

    def _search(self, query: search.Query, way: int, wrap: bool = True) -> None:
        self.run_worker(partial(self._look_for, query, way, wrap), group="search", exclusive=True, thread=True)

    def _look_for(self, query: search.Query, way: int, wrap: bool) -> None:
        """In a thread of its own: find the step and tell the screen."""
        worker, snapshot, start = get_current_worker(), self._shown, self.film.selected
        if snapshot.table is None:
            return

        def go_on(looked_at: int) -> bool:
            self._doing = f"searched {looked_at:,} of {snapshot.steps:,} steps"
            return not worker.is_cancelled

        try:
            found = search.find(
                snapshot.table,
                query,
                start,
                way,
                snapshot.steps,
                snapshot.verdicts.steps(),
                self.feed.texts,
                go_on,
                wrap,
            )
            words = None
        except TraceError as error:
            found, words = None, visible(str(error))
        if not worker.is_cancelled:
            self._doing = ""
            self.app.call_from_thread(self._searched, found, start, way, words)

    def _searched(self, found: int | None, start: int, way: int, problem: str | None) -> None:
        if found is None or problem:
            self._say(problem or "no such step")
            return
        self._go(found, jump=True)
        if (found - start) * way < 0:
            self._say(f"on from the {'start' if way > 0 else 'end'}: step {found:,}")
        elif found == start:
            self._say("no other such step")

    def action_give_up(self) -> None:
        """End what goes on: a search, a saving, a replay; else leave the panel for the film."""
        if not self._doing and self._playhead is None:
            self.body.zoom(False)
        self._give_up()

    def _give_up(self) -> None:
        self.workers.cancel_node(self)
        self._doing, self._playhead, self._awaited = "", None, None
        self._show_head()

    # -- marks, copying, saving --------------------------------------------------------------------------------------

    def action_mark(self) -> None:
        """Mark the step, or take its mark away."""
        at = self.film.selected
        if at in self._marks:
            self._marks.remove(at)
        elif self._shown.steps:
            self._marks.append(at)
        self.film.mark(frozenset(self._marks))

    def action_next_mark(self) -> None:
        """To the next mark, from the last one on to the first."""
        number = places.next_mark(self._marks, self.film.selected)
        if number is None:
            self._say("no step is marked: m marks one")
        else:
            self._reach(number)

    def action_save(self) -> None:
        """Ask what to copy or to save."""
        from inspector.tui.screens.save import SaveScreen

        if self._shown.table is None:
            return
        first, stop = places.selection(self._marks, self.film.selected, self._shown.steps)
        words = f"step {first:,}" if stop - first == 1 else f"steps {first:,} to {stop - 1:,}, from the last mark"
        self.app.push_screen(SaveScreen(words, self._own_keys), self._chosen)

    def _chosen(self, what: str | None) -> None:
        table, steps = self._shown.table, self._shown.steps
        if not what or table is None:
            return
        first, stop = places.selection(self._marks, self.film.selected, steps)
        try:
            if what == "copy":
                self.app.copy_to_clipboard(save.as_text(table, first, stop, self.feed.texts))
                self._say(f"copied {min(stop - first, save.MOST_COPIED):,} steps to the terminal's clipboard")
            elif what == "step":
                self.app.copy_to_clipboard(save.as_json(table, self.film.selected, self.feed.texts))
                self._say("copied the step to the terminal's clipboard")
            elif what == "svg":
                at = self.film.selected
                path = save.new_file(self.feed.path, at, at + 1, "svg")
                self.app.save_screenshot(path)
                self._say(f"saved {path}")
            else:
                first, stop = (0, steps) if what.startswith("film.") else (first, stop)
                path = save.new_file(self.feed.path, first, stop, what.removeprefix("film."))
                self.run_worker(partial(self._write, path, first, stop), group="save", thread=True)
        except (TraceError, OSError) as error:
            self._say(visible(str(error)))

    def _write(self, path: str, first: int, stop: int) -> None:
        """In a thread of its own: write steps to a file; what was given up is not left behind."""
        worker, table = get_current_worker(), self._shown.table
        assert table is not None

        def go_on(done: int) -> bool:
            self._doing = f"saving: {done:,} of {stop - first:,} steps"
            return not worker.is_cancelled

        write = save.write_csv if path.endswith(".csv") else save.write_json
        words = save.to_file(path, lambda out: write(table, first, stop, self.feed.texts, out, go_on))
        self._doing = ""
        self.app.call_from_thread(self._say, words)

    # -- the view as a whole -----------------------------------------------------------------------------------------

    def _say(self, words: str) -> None:
        """An answer to a key, in the head for a moment: a popup would hide lines."""
        self._said, self._said_until = words, self.feed.clock() + SAID_S
        self._show_head()

    def action_panel(self, name: str) -> None:
        """Bring a panel into sight; alone, where there is no room beside the film."""
        body = self.body
        body.choose(name)
        if not body.panel(name).display:
            body.zoom(True)

    def action_zoom(self) -> None:
        """The panel alone, or all again."""
        self.body.zoom(not self.body.zoomed)

    def action_histogram(self) -> None:
        """The time panel's other picture."""
        self.body.histogram = not self.body.histogram
        self.action_panel("time")

    def action_sequence(self) -> None:
        """Only the selected step's sequence, or all again."""
        step = self.film.step(self.film.selected)
        if self.film.only is not None:
            self.show_sequence(None)
        elif isinstance(step, dict) and self._shown.several_sequences:
            self.show_sequence(step["seq_id"])
        else:
            self._say("the trace has one sequence")

    def show_sequence(self, seq_id: int | None) -> None:
        """Steps of one sequence, or of all."""
        self.body.only(seq_id)
        self._say("every sequence" if seq_id is None else f"only sequence {seq_id}: o shows all")

    def action_pause(self) -> None:
        """A growing trace: freeze what is shown; reading and judging go on. A recorded one: play it, or stop."""
        if self.feed.follow:
            self.paused = not self.paused
        elif self._playhead is not None:
            self._playhead = None
        elif self._shown.steps:
            if self.film.selected >= self._shown.steps - 1:
                self._go(0)
            self._playhead = Playhead(self.film.selected, self.feed.clock(), self._speed)
        self.tick()

    def action_speed(self, by: int) -> None:
        """Play faster or slower."""
        i = SPEEDS.index(self._speed) + by
        self._speed = SPEEDS[max(0, min(i, len(SPEEDS) - 1))]
        if self._playhead is not None:
            self._playhead = Playhead(self.film.selected, self.feed.clock(), self._speed)
        self._say(f"{self._speed:g}× as recorded")

    def action_suspend_view(self) -> None:
        """To the shell; `fg` comes back."""
        self.app.action_suspend_process()

    def action_stop_engine(self) -> None:
        """Ask the engine to stop."""
        if self.engine is not None:
            self.engine.ask_to_stop()
            self._show_head()

    def action_reopen(self) -> None:
        """Read the path anew: another file may have taken the name. The selected step stays in sight, if there is."""
        tail = self.film.tail
        self._give_up()
        self.feed.stop()
        self.feed = Feed(self.feed.path, self.feed.follow, self.feed.clock)
        self.feed.start()
        self.feed.judge()
        self._left_tail_at, self.paused = 0, False
        self._shown = Snapshot(self.feed.path, self.feed.follow)
        self.film.tail = tail
        self._awaited = None if tail else self.film.selected

    def action_help(self) -> None:
        """The keys and the words."""
        from inspector.tui.screens.help import HelpScreen

        self.app.push_screen(HelpScreen(self._own_keys))

    def action_quit_view(self) -> None:
        """Leave; a running engine is asked to stop."""
        if self.engine is not None:
            self.engine.ask_to_stop()
        self.app.exit(0)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Keys that have nothing to act on are not offered."""
        if action == "stop_engine":
            return self.engine is not None and self.engine.running
        if action == "speed":
            return not self.feed.follow
        return True
