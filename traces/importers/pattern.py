"""Any text log, through regular expressions of the user's whose named groups are fields of the trace.

A group is named as the field it fills (`token_id`, `seq_len`, `total_ms`, …); a time may carry its unit instead of
`_ms` (`total_s`, `attn_us`, `t_ms` for `t_ns`), and any other name becomes a field of its own. An expression with the
groups of a request (`prompt_tokens`, `n_reused`, `max_new_tokens`) and none of a step makes request notes. Nothing is
filled in but the phase, where the log does not say it: verify with drafts, decode with an id. What the log never says
and the user knows comes as constants, such as `phase=decode`; `full_layers=28` says that the model's 28 layers each
have a full cache.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

from traces import fields
from traces.importers.log import MOST_LAYERS, Line, LogTrace, amount

NAME = "pattern"

_REQUEST = {"prompt_tokens", "max_new_tokens", "n_reused", "seq_id", "t_ns", "prompt"}
_UNITS = {"s": 1000.0, "us": 1e-3, "ns": 1e-6}
_CLOCKS = {"t_s": 1e9, "t_ms": 1e6, "t_us": 1e3}


class PatternError(ValueError):
    """An expression that cannot be used; the message says what to change."""


def compiled(expressions: list[str], constants: Mapping[str, str]) -> list[re.Pattern[str]]:
    """The expressions, checked. Raises PatternError."""
    if not expressions:
        raise PatternError(r"pattern needs --regex, such as --regex 'tok=(?P<token_id>\d+) len=(?P<seq_len>\d+)'")
    patterns = []
    for expression in expressions:
        try:
            patterns.append(re.compile(expression))
        except re.error as error:
            raise PatternError(f"--regex {expression!r}: {error}") from None
        if not patterns[-1].groupindex:
            raise PatternError(f"--regex {expression!r} has no named group, such as (?P<token_id>\\d+)")
    for name in [*constants, *(name for pattern in patterns for name in pattern.groupindex)]:
        if _field_of(name) in ("draft_ids", "hidden_sum", "hidden_rms"):
            raise PatternError(f"{name} is an array; a group is one value")
    for name, text in constants.items():
        fits = 0 < (_exact(text) or 0) <= MOST_LAYERS if name == "full_layers" else _value(name, text) is not None
        if not fits:
            problem = f"{name} cannot be {text!r}" if text else f"{name} has no value"
            raise PatternError(f"--set: {problem}; it is NAME=VALUE, such as n_tokens=1")
    return patterns


class Pattern:
    """Reads lines by the user's expressions; the first that matches a line takes it."""

    def __init__(self, trace: LogTrace, patterns: list[re.Pattern[str]], constants: Mapping[str, str]) -> None:
        self._trace, self._patterns = trace, patterns
        self._constants = dict(constants)
        layers = _exact(self._constants.pop("full_layers", ""))
        if layers:
            trace.fact("model", n_layers=layers)
            trace.facts["layers"] = [{"kind": "full"}] * layers
        groups = [name for pattern in patterns if not _is_request(pattern) for name in pattern.groupindex]
        named = dict.fromkeys(_field_of(name) for name in [*groups, *self._constants])
        optional = [name for name in named if name in fields.OPTIONAL]
        trace.names = optional
        trace.extra = [[name, "F64"] for name in named if name not in fields.FIELDS]
        if not named.keys() & {name for name in fields.FIELDS if name == "t_ns" or name.endswith("_ms")}:
            trace.facts["clock"] = "none"

    def line(self, line: Line) -> None:
        """One line."""
        for pattern in self._patterns:
            match = pattern.search(line.text)
            if not match:
                continue
            found = {**self._constants, **{name: text for name, text in match.groupdict().items() if text is not None}}
            if not line.ended and match.end() == len(line.text) and line.text[-1:].isdigit():
                self._trace.doubt(line, "the last line has no end, its last number may be cut: dropped")
            else:
                self._tell(line, found, _is_request(pattern))
            return

    def end(self) -> None:
        """Nothing is ever open."""

    def _tell(self, line: Line, found: dict[str, str], request: bool) -> None:
        values: dict[str, Any] = {}
        for name, text in found.items():
            if request and name not in _REQUEST:
                continue
            value = _value(name, text)
            if value is None:
                self._trace.doubt(line, f"{name} is {text!r}, which does not fit")
            else:
                values[_field_of(name)] = value
        values.setdefault("seq_id", 0)
        if request:
            self._trace.note("request", **values)
            return
        if "phase" not in values and ("n_drafted" in values or "token_id" in values):
            values["phase"] = "verify" if "n_drafted" in values else "decode"
        self._trace.step(**values)


def _is_request(pattern: re.Pattern[str]) -> bool:
    return pattern.groupindex.keys() <= _REQUEST and "prompt_tokens" in pattern.groupindex


def _field_of(group: str) -> str:
    """The field that a group fills: `total_s` fills total_ms."""
    if group in _CLOCKS:
        return "t_ns"
    stem, _, unit = group.rpartition("_")
    return stem + "_ms" if unit in _UNITS and stem + "_ms" in fields.FIELDS else group


def _value(group: str, text: str) -> Any:
    """The value of a group, None where it does not fit."""
    name = _field_of(group)
    if name in ("phase", "finish"):
        return _word(text, fields.PHASES if name == "phase" else fields.FINISH)
    if name in ("text", "prompt"):
        return text
    number = amount(text.strip())
    if not math.isfinite(number):
        return None
    if group in _CLOCKS:
        return round(number * _CLOCKS[group])
    if group != name:
        return number * _UNITS[group.rpartition("_")[2]]
    field = fields.FIELDS.get(name)
    if name in _REQUEST or (field is not None and field.dtype[0] in "IU"):
        return _exact(text.strip())
    return number


def _exact(text: str) -> int | None:
    try:
        return int(text)
    except ValueError:
        return None


def _word(text: str, codes: Mapping[str, int]) -> str | None:
    """A phase or a finish by its name, or the beginning of it: `pre`, `DEC`."""
    low = text.strip().lower()
    return next((name for name in codes if low and (name.startswith(low) or low.startswith(name))), None)
