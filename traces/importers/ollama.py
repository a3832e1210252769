"""What Ollama says about an answer: the block of `ollama run --verbose`, and the last object of its API.

Both hold sums, so each answer becomes a totals note. Ollama calls the same number the prompt's tokens and the tokens
its prompt rate is worked out from; how many of them were found in a cache it does not say, and so it stays unknown.
"""

from __future__ import annotations

import math
import re
from typing import Any

from traces.importers.log import NUMBER, Line, LogTrace, amount, is_number, whole

NAME = "ollama"
MARKS = ("prompt eval rate: ",)
_MARK = re.compile(r"^\s*(?:prompt )?eval (?:count|duration): +\S")

_ENTRY = re.compile(r"(total duration|load duration|(?:prompt )?eval (?:count|duration|rate)):\s+(\S.*?)\s*$")
_PART = re.compile(rf"({NUMBER})(h|ms|us|µs|μs|ns|m|s)", re.IGNORECASE)
_MS = {"h": 3_600_000.0, "m": 60_000.0, "s": 1000.0, "ms": 1.0, "us": 1e-3, "µs": 1e-3, "μs": 1e-3, "ns": 1e-6}
_FINISH = {"length": "length"}
"""`stop` may be an end token or a stop string: it stays unknown"""


class Ollama:
    """Reads blocks and objects; see the module."""

    def __init__(self, trace: LogTrace) -> None:
        self._trace = trace
        self._seq_id = 0
        self._block: dict[str, str] = {}
        self._first = Line(0, "")

    def line(self, line: Line) -> None:
        """One line."""
        if line.value is not None:
            self._object(line, line.value)
        elif ":" in line.text and (match := _ENTRY.search(line.text)):
            self._entry(line, match[1], match[2])

    def end(self) -> None:
        """A block that broke off is told as far as it goes."""
        if self._block:
            self._trace.doubt(self._first, "a block without its last line, the eval rate: the log breaks off there")
            self._trace.cut = True
            self._tell()

    def _entry(self, line: Line, name: str, value: str) -> None:
        if name in self._block:
            self._trace.doubt(self._first, "a block without its last line, the eval rate")
            self._tell()
        if not self._block:
            self._first = line
        self._block[name] = value
        if name == "eval rate":
            self._tell()

    def _tell(self) -> None:
        block, self._block = self._block, {}
        times = {name: self._duration(name, block.get(name)) for name in block if name.endswith("duration")}
        self._totals(
            prompt=self._count(block.get("prompt eval count")),
            prefill_ms=times.get("prompt eval duration"),
            generated=self._count(block.get("eval count")),
            decode_ms=times.get("eval duration"),
            total_ms=times.get("total duration"),
            load_ms=times.get("load duration"),
        )

    def _totals(self, prompt: int | None, generated: int | None, decode_ms: float | None, **more: Any) -> None:
        seq_id, self._seq_id = self._seq_id, self._seq_id + 1
        self._trace.note("request", seq_id=seq_id, prompt_tokens=prompt)
        decode_ms = decode_ms if generated is None or generated > 1 else None  # no gap to measure
        self._trace.totals(seq_id, prompt_tokens=prompt, fed=prompt, generated=generated, decode_ms=decode_ms, **more)

    def _count(self, text: str | None) -> int | None:
        match = re.match(r"(\d+) token", text or "")
        if text and not match:
            self._trace.doubt(self._first, f"{text} is no count")
        return int(match[1]) if match else None

    def _duration(self, name: str, text: str | None) -> float | None:
        if text is None:
            return None
        ms = duration_ms(text)
        if ms is None:
            self._trace.doubt(self._first, f"the {name} is {text}")
        return ms

    def _object(self, line: Line, value: dict[str, Any]) -> None:
        if "eval_duration" not in value and not (value.get("done") is True and "total_duration" in value):
            return
        if isinstance(value.get("model"), str) and not self._trace.begun:
            self._trace.fact("model", name=value["model"])
        names = ("prompt_eval_duration", "eval_duration", "total_duration", "load_duration")
        prefill, decode, total, load = (self._ns(line, value, name) for name in names)
        self._totals(
            prompt=whole(value.get("prompt_eval_count")),
            prefill_ms=prefill,
            generated=whole(value.get("eval_count")),
            decode_ms=decode,
            total_ms=total,
            load_ms=load,
            finish=_FINISH.get(str(value.get("done_reason"))),
        )

    def _ns(self, line: Line, value: dict[str, Any], name: str) -> float | None:
        ns = value.get(name)
        if ns is None:
            return None
        if not is_number(ns) or ns < 0:
            self._trace.doubt(line, f"{name} is {ns}")
            return None
        return float(ns) / 1e6


def duration_ms(text: str) -> float | None:
    """A duration as Go prints it, `6m26.896337583s` or `75.311ms`; None for anything else."""
    parts = _PART.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        return None
    ms = sum(amount(number) * _MS[unit.lower()] for number, unit in parts)
    return ms if math.isfinite(ms) else None


READER = Ollama


def knows(line: Line) -> bool:
    """Whether the line is surely Ollama's."""
    if line.value is not None:
        return "eval_duration" in line.value or {"created_at", "model", "done"} <= line.value.keys()
    return _MARK.search(line.text) is not None
