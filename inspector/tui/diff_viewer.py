"""The Textual application behind `view --against`: two builds' traces, opened before the first picture."""

from __future__ import annotations

import gc
from collections.abc import Iterable, Sequence

from textual.binding import Binding
from textual.screen import Screen

from inspector.tui import keys
from inspector.tui.app import forget_exported_size
from inspector.tui.comparing import Comparison
from inspector.tui.screens.diff import DiffScreen, SideScreen
from inspector.tui.viewer import Terminal


class DiffViewer(Terminal):
    """Two builds' traces in a terminal."""

    CSS_PATH = ["view.tcss", "diff.tcss"]

    def __init__(
        self, comparison: Comparison, theme: str | None = None, source_maps: Sequence[tuple[str, str]] = (),
        ascii: bool = False,
    ) -> None:  # fmt: skip
        """Raises UsageError as Terminal does."""
        super().__init__(theme, ascii)
        self.view = DiffScreen(comparison, self.own_keys, source_maps, ascii)

    def get_default_screen(self) -> DiffScreen:
        """The view."""
        return self.view

    def actions_of(self, screen: Screen[object]) -> Iterable[Binding]:
        """The actions of the diff view; on a side's film also the way back."""
        if isinstance(screen, DiffScreen):
            return keys.DIFF
        own = super().actions_of(screen)
        return [*keys.SIDE, *own] if isinstance(screen, SideScreen) else own


def run_diff(
    base: Sequence[str], new: Sequence[str], theme: str | None = None,
    source_maps: Sequence[tuple[str, str]] = (), ascii: bool = False,
) -> int:  # fmt: skip
    """Show two sides, one or several traces each, until the user leaves; 0.

    Raises TraceError or OSError where a path is no trace, UsageError for a theme or for keys that there are not.
    """
    comparison = Comparison(base, new)
    comparison.start()
    forget_exported_size()
    viewer = DiffViewer(comparison, theme, source_maps, ascii)
    try:
        comparison.opened(timeout=2.0)
        gc.disable()  # until the picture stands
        viewer.run()
        return viewer.return_code or 0
    finally:
        gc.enable()
        comparison.stop()
        viewer.view.close_films()


def refuse_early(base: Sequence[str], new: Sequence[str], theme: str | None) -> None:
    """Raises what run_diff would raise at its start."""
    comparison = Comparison(base, new)
    comparison.open()
    DiffViewer(comparison, theme)
