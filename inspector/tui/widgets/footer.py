"""The line of keys below the view."""

from __future__ import annotations

from typing import Any

from textual.screen import Screen
from textual.widgets import Footer


class KeysLine(Footer):
    """Textual's footer, made anew only where the keys it shows changed: a line to type into that closes changes none,
    and making it anew lays the whole screen out several times.
    """

    _offered: object = None

    def bindings_changed(self, screen: Screen[Any]) -> None:
        """Other keys may be at hand."""
        offered = [
            (found.binding, found.enabled, found.tooltip)
            for found in screen.active_bindings.values()
            if found.binding.show
        ]
        if not screen.app.app_focus:
            self._offered = None  # not made now: it is on the next occasion
        elif offered == self._offered:
            return
        else:
            self._offered = offered
        super().bindings_changed(screen)
