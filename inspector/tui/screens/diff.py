"""The diff view: two runs side by side by output token, the time of each layer, and the verdicts."""

from __future__ import annotations

import gc
from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Container
from textual.screen import Screen
from textual.widgets import Footer

from inspector.diff_words import ABOUT, lines
from inspector.tui import keys, places
from inspector.tui.aligned import beyond
from inspector.tui.comparing import Compared, Comparison
from inspector.tui.feed import Feed
from inspector.tui.lines import FAIL, PLAIN, STRONG, UNKNOWN, Page, wrap
from inspector.tui.panels import ratios, verdict
from inspector.tui.screens.main import SAID_S, TICK_S, MainScreen
from inspector.tui.widgets.beside import Beside
from inspector.tui.widgets.lines import Panel

HELP = """\
marks, between the sides
  =   the same token           ≠   the first that differs
  ·   behind it: two texts, nothing is compared there
  ?   an id is not known       !   lengths, rows or finish differ
marks, at the left
  >   the selected place       ✗   something differs here first

n goes from one first difference to the next: of the tokens of
each request, of the layers' fingerprints (hidden_rms), and of
each length, each layer's rows and each finish.

time, new / base
  △ ▲ slower by 3 %, by 25 %   ▽ ▼ faster   · level
  of the selected steps, as they were measured, or (t) of the
  whole runs with their verdict. The unit is the run: one run a
  side never decides about time.

the word at the top is about tokens and state, as that of
stepscope diff is, whose words r shows.
"""


class DiffScreen(Screen[None]):
    """Two sides, compared in a thread of their own."""

    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (110, "-broad")]
    VERTICAL_BREAKPOINTS = [(0, "-tiny"), (10, "-low"), (18, "-tall")]
    BINDINGS: ClassVar[list[BindingType]] = [*keys.DIFF]

    def __init__(
        self, comparison: Comparison, own_keys: Mapping[str, str], source_maps: Sequence[tuple[str, str]] = (),
        ascii: bool = False,
    ) -> None:  # fmt: skip
        super().__init__()
        self.comparison, self._own_keys, self._source_maps, self._ascii = comparison, own_keys, source_maps, ascii
        self._compared: Compared | None = None
        self._whole_runs = False
        self._said, self._said_until = "", 0.0
        self._films: dict[int, Feed] = {}

    def compose(self) -> ComposeResult:
        """The panels; the style sheet places them by the screen's size."""
        line = Panel("", id="verdict")
        line.can_focus = False
        yield line
        with Container(id="compared"):
            yield Beside()
            yield Panel("layers' time", id="ratios")
            yield Panel("what diff says", id="report")
        yield Footer()

    def on_mount(self) -> None:
        """The comparison begins once the first picture stands."""
        self.beside.focus()
        self.tick()
        self.set_interval(TICK_S, self.tick)
        self.call_after_refresh(self._first_picture_stands)

    def _first_picture_stands(self) -> None:
        gc.freeze()  # as in the view of one trace
        gc.enable()
        self.comparison.go_on()

    def on_unmount(self) -> None:
        """What was kept for the picture may go with it."""
        gc.unfreeze()

    @property
    def beside(self) -> Beside:
        """The two runs."""
        return self.query_one(Beside)

    # -- what is shown -----------------------------------------------------------------------------------------------

    def tick(self) -> None:
        """Take what is known by now."""
        compared = self.comparison.progress.compared
        if compared is not None and self._compared is None:
            self._compared = compared
            self.beside.show(compared, self._begin_at(compared))
            self._show_place()
        self._show_head()

    @staticmethod
    def _begin_at(compared: Compared) -> int:
        """Where the tokens part; else what differs first; else the start."""
        first = compared.diff.first
        parted = compared.places.parting(first.request) if first is not None else None
        return parted if parted is not None else next(iter(compared.differences), 0)

    def on_beside_selected(self, message: Beside.Selected) -> None:
        """The panels are about the selected place."""
        message.stop()
        self._said_until = 0.0
        self._show_place()
        self._show_head()

    def _show_place(self) -> None:
        compared, place = self._compared, self.beside.place(self.beside.selected)
        if compared is None:
            return
        if place is None:
            found = ratios.Ratios("layers' time", why="no step on either side")
        else:
            halves = self.beside.halves(place)
            step = next((half.step for half in halves if isinstance(half.step, dict)), None)
            if "time" in compared.diff.why and not compared.diff.timing.lines:
                found = ratios.Ratios("layers' time", why=f"nothing to say of times: {compared.diff.why['time']}")
            elif self._whole_runs and step is not None:
                found = ratios.of_runs(compared.diff, str(step["phase"]))
            else:
                found = ratios.of_steps(halves[0].step, halves[1].step)
        panel = self.query_one("#ratios", Panel)
        panel.border_title = found.title
        panel.show(lambda width, height: ratios.ratios(found, width, height))
        self.query_one("#report", Panel).show(self._report)

    def _report(self, width: int, height: int) -> Page:
        compared, progress = self._compared, self.comparison.progress
        if compared is None:
            return Page()
        words = lines(compared.diff, list(ABOUT), list(progress.base), list(progress.new), False, None)
        return Page(lines=[part for i, line in enumerate(words) for part in wrap([(line, _weight(i, line))], width)])

    def _show_head(self) -> None:
        progress, now = self.comparison.progress, self.comparison.clock()
        place = self.beside.place(self.beside.selected)
        panel = self.query_one("#verdict", Panel)
        height = verdict.height_for(self.size.height)
        if panel.styles.height is None or panel.styles.height.value != height:
            panel.styles.height = height
        said = self._said if now < self._said_until else self._differs()
        panel.show(lambda width, height: Page(lines=verdict.head(progress, now, place, said, width, height)))
        if self._compared is None:
            self.beside.show_words(verdict.waiting(progress, max(20, self.size.width - 2)))

    def _differs(self) -> str:
        """What first differs at the selected place."""
        if self._compared is None:
            return ""
        return "; ".join(self._compared.differences.get(self.beside.selected, ()))

    def _say(self, words: str) -> None:
        self._said, self._said_until = words, self.comparison.clock() + SAID_S
        self._show_head()

    # -- keys --------------------------------------------------------------------------------------------------------

    def action_place(self, by: int) -> None:
        """Move the cursor, or the report."""
        report = self.query_one("#report", Panel)
        if self.has_class("-report"):
            report.scroll_relative(y=by, animate=False)
        else:
            self.beside.select(self.beside.selected + by)

    def action_page(self, by: int) -> None:
        """Move by what fits in sight."""
        in_sight = self.query_one("#report", Panel).room.height if self.has_class("-report") else 0
        self.action_place(by * (in_sight or self.beside.lines_in_sight))

    def action_edge(self, way: int) -> None:
        """To the first place, or the last."""
        self.action_place(way * (self.beside.places + 10_000))

    def action_difference(self, way: int) -> None:
        """To the next or the previous first difference."""
        compared = self._compared
        if compared is None:
            self._say("not compared yet")
            return
        self._report_off()
        found = beyond(compared.differences, self.beside.selected, way)
        if found is None:
            n = len(compared.differences)
            where = "behind" if way > 0 else "before"
            self._say(f"no difference {where} this place" if n else "nothing differs that can be placed")
            return
        self.beside.select(found, centre=True)

    def action_request(self, way: int) -> None:
        """To the request before, or behind."""
        if self._compared is None:
            return
        aligned, at = self._compared.places, self.beside.selected
        number = aligned.request_at(at)
        first = aligned.span(number)[0]
        target = number if way < 0 and at > first else number + way
        if 0 <= target < aligned.requests:
            self.beside.select(aligned.span(target)[0])
        else:
            self._say("no request " + ("behind" if way > 0 else "before") + " this one")

    def action_go_to(self) -> None:
        """Ask for an output token of the selected request, and go there."""
        from inspector.tui.screens.prompt import PromptScreen

        if self._compared is None or not self.beside.places:
            return
        aligned = self._compared.places
        request = aligned.request_at(self.beside.selected)
        first, stop = aligned.output(request, 0), aligned.span(request)[1]

        def refuse(line: str) -> str | None:
            return None if places.step_of(line, stop - first) is not None else "such as 120, -1 or 50%"

        def go(line: str | None) -> None:
            number = places.step_of(line, stop - first) if line else None
            if number is not None:
                self.beside.select(min(first + number, stop - 1), centre=True)

        self.app.push_screen(PromptScreen("go to output", "120, -1 is the last, 50% half-way", refuse), go)

    def action_times(self) -> None:
        """Times of the selected steps, or of the whole runs."""
        self._whole_runs = not self._whole_runs
        self._show_place()

    def action_report(self) -> None:
        """What `stepscope diff` says, on the whole screen; or the runs again."""
        self.toggle_class("-report")
        self.call_after_refresh(self._show_place)

    def _report_off(self) -> None:
        if self.has_class("-report"):
            self.action_report()

    def action_back(self) -> None:
        """The runs again."""
        self._report_off()

    def action_flip(self) -> None:
        """To the base's own film; from there to the new run's, and back here."""
        if self._compared is None:
            self._say("not compared yet")
        else:
            self._film(0)

    def _film(self, side: int) -> None:
        """Show a side's film at the selected step; where that side has none, at its nearest one before."""
        assert self._compared is not None
        at, step = self.beside.selected, None
        while at >= 0 and step is None:
            place = self.beside.place(at)
            step = place.steps[side] if place is not None else None
            at -= 1
        feed = self._films.get(side)
        if feed is None:
            feed = self._films[side] = Feed(self._compared.sides[side].path, follow=False)
            feed.start()

        def flipped() -> None:
            if side == 0:
                self._film(1)

        self.app.push_screen(SideScreen(feed, step or 0, self._own_keys, self._source_maps, self._ascii, flipped))

    def action_suspend_view(self) -> None:
        """To the shell; `fg` comes back."""
        self.app.action_suspend_process()

    def action_help(self) -> None:
        """The keys and the marks."""
        from inspector.tui.screens.help import HelpScreen

        self.app.push_screen(HelpScreen(self._own_keys, keys.DIFF, HELP))

    def action_quit_view(self) -> None:
        """Leave."""
        self.app.exit(0)

    def close_films(self) -> None:
        """Give the files of the sides' films back."""
        for feed in self._films.values():
            feed.stop()


def _weight(i: int, line: str) -> str:
    if not i:
        return STRONG
    words = line.split()
    if line.startswith(" ") or len(words) < 2:
        return PLAIN
    return FAIL if words[1].startswith("differs") else UNKNOWN if words[1].startswith("cannot") else PLAIN


class SideScreen(MainScreen):
    """One side's own film, over the diff view."""

    BINDINGS: ClassVar[list[BindingType]] = [*keys.SIDE]

    def __init__(
        self, feed: Feed, step: int, own_keys: Mapping[str, str], source_maps: Sequence[tuple[str, str]],
        ascii: bool, flipped: Callable[[], None],
    ) -> None:  # fmt: skip
        super().__init__(feed, None, own_keys, source_maps, ascii)
        self._awaited = step
        self._flipped = flipped

    def action_flip(self) -> None:
        """On to the other side's film, or back."""
        self.app.pop_screen()
        self._flipped()

    def action_back(self) -> None:
        """Back to the diff view."""
        self.app.pop_screen()
