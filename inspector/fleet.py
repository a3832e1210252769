"""Many traces at once: folders are searched for them, and the work on each is spread over the processors.

What cannot be read is told and does not stop the rest. A task runs in a process of its own and gives back plain data,
so that a thousand traces take the memory of one a processor.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from typing import Any

_ENDING = ".steps"
_FEW = 8
"""So many are done sooner than processes begin"""
_PIECES_EACH = 8


def traces_in(words: Iterable[str]) -> list[str]:
    """The traces that words on the command line name: a folder stands for the *.steps in it and below, by name.

    Raises UsageError for a folder without any.
    """
    from inspector.cli import UsageError

    found: list[str] = []
    for word in words:
        if not os.path.isdir(word):
            found.append(word)
            continue
        inside = sorted(
            os.path.join(folder, name) for folder, _, names in os.walk(word) for name in names if name.endswith(_ENDING)
        )
        if not inside:
            raise UsageError(f"{word}: holds no traces (*{_ENDING}); name the traces, or another folder")
        found += inside
    return found


def of_each(task: Callable[[str], Any], paths: list[str]) -> Iterator[tuple[str, Any]]:
    """(path, what the task made of it) in the order given; None where it cannot be read, which is told on stderr.

    task: a function of a module, or a partial of one, whose results can be pickled.
    """
    from inspector.cli import complain

    is_told = len(paths) > _FEW and sys.stderr.isatty()
    outcomes = _outcomes(partial(_attempt, task), paths)
    for done, (path, (value, error)) in enumerate(zip(paths, outcomes, strict=True), 1):
        if is_told:
            _on_terminal("")
        if error is not None:
            complain(error)
        yield path, value
        if is_told and done < len(paths):
            _on_terminal(f"{done:,} of {len(paths):,} traces\r")


def _on_terminal(words: str) -> None:
    """In place of the line that the cursor stands on."""
    sys.stderr.write(f"\r\x1b[K{words}")
    sys.stderr.flush()


def _outcomes(attempt: Callable[[str], tuple[Any, str | None]], paths: list[str]) -> Iterator[tuple[Any, str | None]]:
    from inspector.cli import UsageError

    workers = min(os.cpu_count() or 1, len(paths))
    if workers == 1 or len(paths) <= _FEW:
        yield from map(attempt, paths)
        return
    pool = ProcessPoolExecutor(workers, initializer=_leave_interrupts_to_the_parent)
    try:
        yield from pool.map(attempt, paths, chunksize=-(-len(paths) // (workers * _PIECES_EACH)))
    except BrokenProcessPool:
        raise UsageError("a process that was reading traces was killed (no memory left?); name fewer of them") from None
    finally:
        pool.shutdown(cancel_futures=True)


def _leave_interrupts_to_the_parent() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _attempt(task: Callable[[str], Any], path: str) -> tuple[Any, str | None]:
    """(result, None), or (None, what is wrong with the trace)."""
    from traces.fields import FieldError
    from traces.writer import TraceError

    try:
        return task(path), None
    except (TraceError, FieldError) as error:
        return None, str(error)
    except OSError as error:
        return None, f"{error.filename or path}: {error.strerror or error}"
    except MemoryError:
        return None, f"{path}: not enough memory for this trace"
