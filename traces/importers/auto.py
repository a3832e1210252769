"""Which engine's log is this? Asked of its lines, never of its name."""

from __future__ import annotations

import importlib
import os
from itertools import islice
from types import ModuleType

from traces import frames
from traces.importers import ENGINES
from traces.importers.log import lines, opened
from traces.writer import TraceError

_LOOKED_AT = 50_000
JSON_LINES = "jsonl"


def engines() -> dict[str, ModuleType]:
    """The importers of engines' logs by the name of their format."""
    modules = [importlib.import_module(f"traces.importers.{name}") for name in ENGINES]
    return {module.NAME: module for module in modules}


def marks_of_others(name: str) -> dict[str, str]:
    """Words that only other engines' lines have, and whose they are: in a mixed log their numbers are not read."""
    return {mark: other for other, module in engines().items() if other != name for mark in module.MARKS}


def recognise(path: str | os.PathLike[str], name: str) -> str:
    """The name of the format of the file at `path`. Raises TraceError where no line of it tells."""
    with opened(path) as source:
        if source.read(len(frames.MAGIC)) == frames.MAGIC.decode():
            raise TraceError(f"{name}: is a step trace already")
    known = engines()
    with opened(path) as source:
        for line in islice(lines(source), _LOOKED_AT):
            if line.value is not None and line.value.get("format") == "stepscope":
                return JSON_LINES
            for format_name, module in known.items():
                if module.knows(line):
                    return format_name
    raise TraceError(
        f"{name}: no line says which engine wrote it; name the format: {', '.join(known)}, jsonl or pattern"
    )
