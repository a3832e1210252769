"""Opening what a user names on the command line: a step trace, or JSON Lines of one."""

from __future__ import annotations

import os
import stat
import tempfile

from traces.table import Table
from traces.writer import TraceError


def open_trace(path: str, index: bool = True) -> Table:
    """The trace at `path`; JSON Lines are converted on the way. Raises TraceError with one clear line.

    index: read it through at once; without, refresh() does, as far as it is told (JSON Lines are read in any case).
    """
    if _is_json_lines(path):
        from traces.importers.jsonl import import_jsonl

        handle, copy = tempfile.mkstemp(suffix=".steps")
        os.close(handle)
        try:
            import_jsonl(path, copy)
            table = Table(copy)
        finally:
            os.unlink(copy)
        table.path = path
        return table
    return Table(path, index=index)


def _is_json_lines(path: str) -> bool:
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            return False  # reading from a pipe or a device may never end
        with open(path, "rb") as file:
            return file.read(4).removeprefix(b"\xef\xbb\xbf")[:1] == b"{"
    except OSError as error:
        raise TraceError(f"{path}: cannot read: {error.strerror}") from None
    except ValueError:  # a NUL byte, half a surrogate pair: from a file that names others
        raise TraceError(f"{path}: cannot read: no file has such a name") from None


def state_of(table: Table) -> list[str]:
    """What is wrong with the file as such, one line each: cut off, torn, damaged. Empty for a sound, complete trace."""
    lines = []
    if not table.complete:
        torn = table.torn
        tail = f"; bytes {torn[0]} to {torn[1]} are half a frame" if torn else ""
        lines.append(
            f"cut off: no END frame after step {table.steps - 1}{tail}"
            if table.steps
            else f"cut off: no END frame, and no step was recorded{tail}"
        )
    elif table.torn:
        lines.append("bytes {} to {} behind the END frame are no frame".format(*table.torn))
    for damage in table.damage[:5]:
        lost = f", steps in it: {damage.steps}" if damage.steps else ""
        lines.append(f"damaged: bytes {damage.start} to {damage.end}{lost}")
    if len(table.damage) > 5:
        lines.append(f"damaged: {len(table.damage) - 5} more places")
    return lines
