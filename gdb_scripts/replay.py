"""A recorded trace gone through without a process."""

from __future__ import annotations

import os
from typing import Any, Dict, Iterator, List, Optional, Tuple

from traces.check import Checker, Failure
from traces.reader import Reader, Source

_AROUND = 2
_MOST_READ = 16 << 20


class Replay:
    """A trace in memory, checked. Raises TraceError where it cannot be read."""

    def __init__(self, path: str) -> None:
        self.position = 0
        self._steps: List[Optional[Dict[str, Any]]] = []
        self._source: Dict[str, Any] = {}
        checker = Checker()
        reader = Reader(Source(path))
        for kind, value in reader.events():
            if kind == "run":
                checker.start_run(value)
            elif kind == "step":
                self._steps.append(value)
                checker.step(value)
            elif kind == "note":
                checker.note(value)
                if value.get("kind") == "source":
                    self._source = value
            elif kind == "damage":
                self._steps.extend([None] * value.steps)
                checker.skip(value.steps)
        self.complete = reader.complete
        self._report = checker.report

    @property
    def steps(self) -> int:
        """How many there are, damaged ones included."""
        return len(self._steps)

    def records(self, first: int, stop: int) -> Iterator[Tuple[int, Dict[str, Any]]]:
        """(index, raw record) of the steps that could be read."""
        for index in range(first, min(stop, len(self._steps))):
            record = self._steps[index]
            if record is not None:
                yield index, record

    def failures(self) -> List[Failure]:
        """What the rules found."""
        return self._report.failures()

    def source_lines(self) -> List[str]:
        """The place of the hook or the loop, with the lines around it where the file is here."""
        file, number = self._source.get("file"), self._source.get("line")
        if not isinstance(file, str) or not isinstance(number, int):
            return []
        out = ["%s:%d %s" % (file, number, self._source.get("function") or "")]
        if os.path.isfile(file):
            with open(file, encoding="utf-8", errors="replace") as text:
                lines = text.read(_MOST_READ).splitlines()  # the trace says which file: it may be any
            for at in range(max(1, number - _AROUND), min(len(lines), number + _AROUND) + 1):
                out.append("%s%5d  %s" % (">" if at == number else " ", at, lines[at - 1]))
        return out
