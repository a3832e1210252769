"""Files that verbs write: in their place only when whole, and never in the place of somebody's work."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple


class Older(NamedTuple):
    """What a file must be to be replaced: `words` says it, it begins with `start`, its first 200 bytes hold `mark`."""

    words: str
    start: bytes
    mark: bytes = b""


@contextmanager
def replacing(path: str, older: Older) -> Iterator[str]:
    """A file beside `path`, which takes its place when all is written.

    Raises UsageError where another kind of file is there: a trace, or anything else, is somebody's work.
    """
    from inspector.cli import UsageError

    if os.path.lexists(path) and not os.path.isfile(path):
        yield path  # a device, or a folder, which cannot be opened and says so
        return
    if os.path.isfile(path) and os.path.getsize(path):
        with open(path, "rb") as old:
            begins = old.read(200)
        if not begins.startswith(older.start) or older.mark not in begins:
            raise UsageError(f"{path}: exists and is not {older.words}; choose another name or remove it")
    partial = f"{path}.{os.getpid()}.part"
    try:
        yield partial
        os.replace(partial, path)
    finally:
        if os.path.exists(partial):
            os.unlink(partial)
