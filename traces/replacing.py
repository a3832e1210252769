"""Files in their place only when whole, and never in the place of somebody's work: traces, exports, reports."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from traces import frames
from traces.writer import TraceError


class Older(NamedTuple):
    """What a file must be to be replaced: `words` says it, it begins with `start`, its first 200 bytes hold `mark`."""

    words: str
    start: bytes
    mark: bytes = b""


TRACE = Older("a step trace", frames.MAGIC)


@contextmanager
def replacing(path: str | os.PathLike[str], older: Older = TRACE) -> Iterator[str]:
    """A file beside `path` to write to, which takes its place only when nothing went wrong.

    Raises TraceError where another kind of file is there (a trace, or anything else, is somebody's work), where another
    process is writing the file, and where nothing can be written.
    """
    path = os.fspath(path)
    if os.path.lexists(path) and not os.path.isfile(path):
        with _named(path):
            yield path  # a device, or a folder, which cannot be opened and says so
        return
    if os.path.isfile(path):
        _expect_replaceable(path, older)
    partial = f"{path}.{os.getpid()}.part"
    try:
        with _named(path):
            open(partial, "wb").close()
            yield partial
            os.replace(partial, path)
    finally:
        if os.path.exists(partial):
            os.unlink(partial)


def _expect_replaceable(path: str, older: Older) -> None:
    with open(path, "rb") as old:
        begins = old.read(200)
        if begins and not (begins.startswith(older.start) and older.mark in begins):
            raise TraceError(f"{path}: exists and is not {older.words}; choose another name or remove it")
        try:
            fcntl.flock(old, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            raise TraceError(f"{path}: another process is writing this trace; choose another name") from None
        except OSError:
            pass  # a file system without locks


@contextmanager
def _named(path: str) -> Iterator[None]:
    """Errors of writing, of which a full disk names no file and any other the one beside `path`, as `path`'s."""
    try:
        yield
    except BrokenPipeError:
        raise
    except TraceError as error:
        if not isinstance(error.__cause__, OSError):
            raise
        # of a trace that was written here, nothing is kept
        raise TraceError(f"{path}: cannot write: {error.__cause__.strerror}") from None
    except OSError as error:
        if error.filename is not None and not str(error.filename).startswith(path):
            raise
        raise TraceError(f"{path}: cannot write: {error.strerror or error}") from None
