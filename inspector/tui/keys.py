"""Every key of the view, in one place: the screen takes them from here, the help and the palette are made from them.

An id names an action for good: `keymap.py` reads other keys for it from the user's file.
"""

from __future__ import annotations

from collections.abc import Mapping

from textual.binding import Binding
from textual.keys import format_key

MAIN = [
    Binding("up,k", "step(-1)", "One step back", show=False, id="film.up"),
    Binding("down,j", "step(1)", "One step on", show=False, id="film.down"),
    Binding("left,h", "step_of_sequence(-1)", "Back in the sequence", tooltip="one step of the same sequence back",
            show=False, id="film.left"),
    Binding("right,l", "step_of_sequence(1)", "On in the sequence", tooltip="one step of the same sequence on",
            show=False, id="film.right"),
    Binding("pageup,ctrl+b", "page(-1)", "One page back", show=False, id="film.page_up"),
    Binding("pagedown,ctrl+f", "page(1)", "One page on", show=False, id="film.page_down"),
    Binding("home,g", "first", "First step", show=False, id="film.first"),
    Binding("end,G,f", "follow", "Newest", tooltip="the newest step; follow", id="film.follow",
            key_display="f"),
    Binding("n", "failure(1)", "Next failure", tooltip="the next failing step", id="rules.next"),
    Binding("N", "failure(-1)", "Previous failure", tooltip="the previous failing step", show=False,
            id="rules.previous"),
    Binding("slash", "search", "Search", tooltip="text, an id, or filters (below)", id="search.open",
            key_display="/"),
    Binding("enter,ctrl+n", "hit(1)", "Next step found", show=False, id="search.next"),
    Binding("backspace", "hit(-1)", "Previous step found", show=False, id="search.previous"),
    Binding("colon", "go_to", "Go to step", tooltip="go to step 120, -1 (last) or 50%", show=False,
            id="film.go_to", key_display=":"),
    Binding("m", "mark", "Mark", tooltip="mark the step, or unmark it", show=False, id="marks.set"),
    Binding("apostrophe", "next_mark", "Next mark", show=False, id="marks.next", key_display="'"),
    Binding("y", "save", "Copy, save", tooltip="copy or save steps, the screen",
            show=False, id="save.open"),
    Binding("1", "panel('text')", "Text", tooltip="the text; arrows walk its tokens", show=False, id="panel.text"),
    Binding("2", "panel('layers')", "Layers", tooltip="the layers", show=False, id="panel.layers"),
    Binding("3", "panel('time')", "Time", tooltip="the times", show=False, id="panel.time"),
    Binding("b", "histogram", "Histogram", tooltip="the times: ITL as a histogram", show=False, id="time.histogram"),
    Binding("4", "panel('rules')", "Rules", tooltip="the rules; arrows choose one", show=False, id="panel.rules"),
    Binding("5", "panel('source')", "Source", tooltip="the source", show=False, id="panel.source"),
    Binding("z", "zoom", "Whole screen", tooltip="the panel on the whole screen", show=False, id="panel.zoom"),
    Binding("o", "sequence", "One sequence", tooltip="this sequence only, or all", show=False, id="film.sequence"),
    Binding("space", "pause", "Pause", tooltip="pause a live view; play a recording",
            id="view.pause"),
    Binding("plus", "speed(1)", "Faster", tooltip="play faster", show=False, id="replay.faster", key_display="+"),
    Binding("minus", "speed(-1)", "Slower", tooltip="play slower", show=False, id="replay.slower", key_display="-"),
    Binding("x", "stop_engine", "Stop engine", tooltip="ask the engine to stop", id="engine.stop"),
    Binding("r", "reopen", "Open again", tooltip="open the file again", show=False, id="view.reopen"),
    Binding("escape", "give_up", "Give up", tooltip="end a search, a replay; to the film", show=False,
            id="view.give_up"),
    Binding("ctrl+z", "suspend_view", "Suspend", tooltip="to the shell; fg comes back", show=False,
            id="view.suspend"),
    Binding("question_mark", "help", "Help", id="view.help", key_display="?"),
    Binding("q", "quit_view", "Quit", tooltip="quit; asks an engine to stop", id="view.quit"),
]  # fmt: skip
TEXT = [
    Binding("up,k", "line(-1)", "A line of text up", show=False, id="text.up"),
    Binding("down,j", "line(1)", "A line of text down", show=False, id="text.down"),
]
RULES = [
    Binding("up,k", "choose(-1)", "The rule above", show=False, id="list.up"),
    Binding("down,j", "choose(1)", "The rule below", show=False, id="list.down"),
    Binding("enter", "failure", "Its next failure", tooltip="the chosen rule's next failure", show=False, id="list.go"),
]
HELP = [Binding("escape,q,question_mark", "close", "Close", id="help.close")]
SAVE = [
    Binding("y", "choose('copy')", "Copy the steps as text", id="saving.copy"),
    Binding("i", "choose('step')", "Copy the step as JSON", id="saving.copy_json"),
    Binding("c", "choose('csv')", "Save the steps as CSV", id="saving.csv"),
    Binding("j", "choose('json')", "Save the steps as JSON", id="saving.json"),
    Binding("C", "choose('film.csv')", "Save the film as CSV", id="saving.film_csv"),
    Binding("J", "choose('film.json')", "Save the film as JSON", id="saving.film_json"),
    Binding("s", "choose('svg')", "Save the screen as SVG", id="saving.screen"),
    Binding("escape,q", "choose('')", "Close", id="saving.close"),
]
DIFF = [
    Binding("up,k", "place(-1)", "One token back", show=False, id="diff.up"),
    Binding("down,j", "place(1)", "One token on", show=False, id="diff.down"),
    Binding("pageup,ctrl+b", "page(-1)", "One page back", show=False, id="diff.page_up"),
    Binding("pagedown,ctrl+f", "page(1)", "One page on", show=False, id="diff.page_down"),
    Binding("home,g", "edge(-1)", "First token", show=False, id="diff.first"),
    Binding("end,G", "edge(1)", "Last token", show=False, id="diff.last"),
    Binding("n", "difference(1)", "Next difference", id="diff.next"),
    Binding("N", "difference(-1)", "Previous difference", show=False, id="diff.previous"),
    Binding("left,h", "request(-1)", "Request before", tooltip="the request before", show=False, id="diff.left"),
    Binding("right,l", "request(1)", "Request behind", tooltip="the request behind", show=False, id="diff.right"),
    Binding("colon", "go_to", "Go to output", tooltip="go to output 120, -1 (last) or 50%", show=False,
            id="diff.go_to", key_display=":"),
    Binding("t", "times", "Times", tooltip="times of the steps, or of the whole runs", id="diff.times"),
    Binding("r", "report", "Report", tooltip="what diff says, on the whole screen", id="diff.report"),
    Binding("d,tab", "flip", "Films", tooltip="the base's film, the new run's, back", id="diff.flip",
            key_display="d"),
    Binding("escape", "back", "Back", tooltip="from the report to the runs", show=False, id="diff.back"),
    Binding("ctrl+z", "suspend_view", "Suspend", tooltip="to the shell; fg comes back", show=False,
            id="diff.suspend"),
    Binding("question_mark", "help", "Help", id="diff.help", key_display="?"),
    Binding("q", "quit_view", "Quit", id="diff.quit"),
]  # fmt: skip
SIDE = [
    Binding("d", "flip", "Other film, diff", tooltip="the new run's film, then the diff", id="side.flip"),
    Binding("D", "back", "Diff", tooltip="back to the diff", show=False, id="side.back"),
]


def default_keys() -> dict[str, str]:
    """Each action's keys, comma-separated, by its id."""
    return {binding.id: binding.key for binding in (*MAIN, *TEXT, *RULES, *HELP, *SAVE, *DIFF, *SIDE) if binding.id}


def described(bindings: list[Binding], own: Mapping[str, str]) -> list[tuple[str, str, str]]:
    """(keys as they are read, what they do, id) of each action; `own` keys in place of the default ones."""
    rows = []
    for binding in bindings:
        names = own.get(binding.id or "", binding.key).split(",")
        keys = "  ".join(format_key(name.strip()) for name in names)
        rows.append((keys, binding.tooltip or _first_lower(binding.description), binding.id or ""))
    return rows


def _first_lower(words: str) -> str:
    return words[:1].lower() + words[1:]
