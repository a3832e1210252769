"""The one error that the engine raises for input it cannot use.

Whoever shows it to a person prints `str(error)`: a single line that names the file, the place in it and what
to do.
"""

from __future__ import annotations


class EngineError(ValueError):
    """A model, a prompt or a setting that the engine cannot use; the message is one line for the person."""
