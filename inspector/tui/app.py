"""Starting the view: the feed first, Textual while it reads, and the engine's end after the last screen."""

from __future__ import annotations

import gc
import os
import subprocess
from collections.abc import Sequence

from inspector.cli import tell
from inspector.tui.engine import Engine
from inspector.tui.feed import Feed


def run_app(
    path: str, follow: bool, process: subprocess.Popen[bytes] | subprocess.Popen[str] | None = None,
    theme: str | None = None, source_maps: Sequence[tuple[str, str]] = (), ascii: bool = False,
) -> int:  # fmt: skip
    """Show the trace at `path` until the user leaves; 0.

    follow: the file may not be there yet and may grow. process: the engine that writes it; leaving asks it to stop
    and waits a little, so that its trace is complete. source_maps: (FROM, TO) of source paths. ascii: nothing else.
    Raises TraceError where the path cannot be shown at all, UsageError for a theme or for keys that there are not.
    """
    engine = Engine(process) if process is not None else None
    feed = Feed(path, follow)
    feed.start()
    # imports take most of the time to the first picture: the file is indexed meanwhile, and garbage, which they leave
    # none of, is not looked for until the picture stands
    gc.disable()
    forget_exported_size()
    try:
        from inspector.tui.viewer import Viewer

        feed.opened(timeout=2.0)
        viewer = Viewer(feed, engine, theme, source_maps, ascii)
        viewer.run()
        return viewer.return_code or 0
    finally:
        gc.enable()
        feed.stop()
        if engine is not None:
            _see_off(engine)


def forget_exported_size() -> None:
    """COLUMNS and LINES, exported by some shells: Textual would take them for the size and never resize."""
    if "TEXTUAL_DRIVER" not in os.environ:  # a browser's size comes in just these
        for name in ("COLUMNS", "LINES"):
            os.environ.pop(name, None)


def refuse_early(path: str, follow: bool, theme: str | None) -> None:
    """Raises what run_app would raise at its start."""
    feed = Feed(path, follow)
    feed.start()
    try:
        feed.opened(timeout=2.0)
        refuse_settings(theme)
    finally:
        feed.stop()


def refuse_settings(theme: str | None) -> None:
    """Raises UsageError for a theme or for keys that there are not, before there is a trace."""
    from inspector.tui.viewer import Viewer

    Viewer(Feed("", follow=True), theme=theme)


def _see_off(engine: Engine) -> None:
    """Let the engine finish its trace. Never killed: what it writes last may be what the user is after."""
    if not engine.running:
        return
    engine.ask_to_stop()
    if engine.wait(0.5):
        return
    tell("waiting for the engine to finish its trace")
    if not engine.wait():
        tell(f"the engine still runs: {engine.words}")
