"""The search line: what a few words mean, and the next step that they mean. No Textual here.

    query   := filter filter ...     every one of them must hold
             | anything else         text as generated, also across tokens; a whole number is an id too
    filter  := fail                  a step that breaks a rule, of those judged so far
             | seq N | id N          a step of request N; of token N
             | layer N [gemm|attn|rows] OP NUMBER    that layer's time (GEMM and attention together), or its rows
             | FIELD OP NUMBER       total, gemm, attn, forward, sample, margin, token, before, len, rows, n, drafted,
                                     accepted, or any recorded field by its name; with layers: their sum, rows: any
             | phase=NAME | finish=NAME
             | "TEXT"                text beside other filters, or text that looks like one
    OP      := < <= > >= = !=        NUMBER may end in s, ms or us where it is a time (ms without)

Lower-case ASCII letters in TEXT find both cases. What a run did not record, and a damaged step, never match.
"""

from __future__ import annotations

import operator
import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from traces.fields import ABSENT_I64, ABSENT_U64, FINISH, PHASES

if TYPE_CHECKING:
    from traces.table import Table

Steps = Sequence[int] | npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
Texts = Mapping[int, str]

NAMES = {
    "total": "total_ms", "gemm": "gemm_ms", "attn": "attn_ms", "forward": "forward_ms", "sample": "sample_ms",
    "token": "token_id", "id": "token_id", "seq": "seq_id", "before": "seq_before", "len": "seq_len",
    "rows": "cache_len", "cache": "cache_len", "n": "n_tokens", "drafted": "n_drafted", "accepted": "n_accepted",
}  # fmt: skip
"""Short words for fields"""
CODES: dict[str, Mapping[str, int]] = {"phase": PHASES, "finish": FINISH}
OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "<=": operator.le, ">=": operator.ge, "!=": operator.ne, "==": operator.eq, "<": operator.lt, ">": operator.gt,
    "=": operator.eq,
}  # fmt: skip
_MS = {"": 1.0, "ms": 1.0, "us": 1e-3, "µs": 1e-3, "s": 1e3}
PIECE = 1 << 14
"""Steps that are looked at in one go"""
_SEQUENCES_ACROSS = 32
"""Text across tokens is found beyond a piece's end where at most this many sequences take turns."""


class SearchError(ValueError):
    """Words that look like a filter and are none; the message says what would be."""


@dataclass(frozen=True)
class Fails:
    """Steps that break a rule."""


@dataclass(frozen=True)
class Text:
    """Steps where this text begins. or_id: those of the token of that number as well."""

    words: str
    or_id: int | None = None


@dataclass(frozen=True)
class Compare:
    """Steps whose field stands so to a value. layer: of that layer alone. `field` "layer" is its GEMM and attention."""

    field: str
    sign: str
    value: float
    layer: int | None = None


Term = Fails | Text | Compare
Query = tuple[Term, ...]

_SIGN = r"\s*(?P<sign><=|>=|!=|==|<|>|=)\s*"
_VALUE = r"(?P<value>-?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?)\s*(?P<unit>ms|us|µs|s)?(?![\w.])"
_FORMS: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (form, re.compile(pattern))
    for form, pattern in (
        ("fails", r"fail(?=\s|$)"),
        ("quoted", r'"(?P<words>[^"]+)"(?=\s|$)'),
        ("one", r"(?P<name>seq|id)\s+(?P<value>-?\d+)(?=\s|$)"),
        ("layer", r"layer\s+(?P<layer>\d+)(?:\s+(?P<part>gemm|attn|rows))?" + _SIGN + _VALUE),
        ("code", r"(?P<name>phase|finish)\s*(?P<sign>!=|==|=)\s*(?P<word>[a-z_]+)(?=\s|$)"),
        ("field", r"(?P<name>[a-z_]+)" + _SIGN + _VALUE),
    )
)
_BEGUN = re.compile(r"layer\s+\d+\s*(?:[<>=!]|gemm\b|attn\b|rows\b)|(?P<name>[a-z_]+)\s*(?:[<>]|[!=]?=)")


def parse(line: str, fields: Iterable[str] = ()) -> Query:
    """What a line means. fields: the names that the run records.

    Raises SearchError where it begins like a filter and is none.
    """
    line = line.strip()
    if not line:
        raise SearchError("nothing to search for")
    known = {*NAMES, *CODES, *fields, "margin"}
    terms: list[Term] = []
    at = 0
    while at < len(line):
        term, end = _term(line, at, known)
        if term is None:
            if terms or _begins_a_filter(line, known):
                raise SearchError(
                    f'no filter: {line[at:]!r}; such as total > 5ms, layer 12 > 2ms, phase=verify, "text"'
                )
            return (Text(line, int(line) if re.fullmatch(r"-?\d{1,18}", line) else None),)
        terms.append(term)
        at = end + len(line[end:]) - len(line[end:].lstrip())
    return tuple(terms)


def _begins_a_filter(line: str, known: set[str]) -> bool:
    begun = _BEGUN.match(line)
    return begun is not None and (begun["name"] is None or begun["name"] in known)


def _term(line: str, at: int, known: set[str]) -> tuple[Term | None, int]:
    for form, pattern in _FORMS:
        found = pattern.match(line, at)
        if found is None or (form == "field" and found["name"] not in known):
            continue
        return _made(form, found.groupdict()), found.end()
    return None, at


def _made(form: str, part: dict[str, Any]) -> Term:
    if form == "fails":
        return Fails()
    if form == "quoted":
        return Text(part["words"])
    if form == "one":
        return Compare(NAMES[part["name"]], "=", float(part["value"]))
    if form == "code":
        codes = CODES[part["name"]]
        if part["word"] not in codes:
            raise SearchError(f"{part['name']} is one of {', '.join(codes)}, not {part['word']}")
        return Compare(part["name"], part["sign"], codes[part["word"]])
    name = part["name"] if form == "field" else part["part"] or "layer"
    field = NAMES.get(name, name)
    if part["unit"] and not (field.endswith("_ms") or field == "layer"):
        raise SearchError(f"{name} is no time: it has no {part['unit']}")
    value = float(part["value"]) * _MS[part["unit"] or ""]
    return Compare(field, part["sign"], value, int(part["layer"]) if form == "layer" else None)


# -- which steps -----------------------------------------------------------------------------------------------------


def find(
    table: Table, query: Query, start: int, way: int, steps: int, failing: Steps = (),
    texts: Texts | None = None, go_on: Callable[[int], bool] = lambda looked_at: True, wrap: bool = True,
) -> int | None:  # fmt: skip
    """The nearest step behind (way 1) or before (way -1) `start` that a query means; with `wrap` it goes on from the
    other end when it comes to one. None: there is none, or `go_on`, asked with the number of steps looked at, said no.

    steps: how many there are. failing: steps that break a rule, ascending. Raises TraceError as Table.rows.
    """
    looked_at = 0
    for first, stop in _pieces(table, start, way, steps, all(isinstance(term, Fails) for term in query), wrap):
        mask = _mask(table, query, first, stop, steps, failing, texts or {})
        found = np.flatnonzero(mask)
        if len(found):
            return first + int(found[0 if way > 0 else -1])
        looked_at += stop - first
        if not go_on(looked_at):
            return None
    return None


def _pieces(table: Table, start: int, way: int, steps: int, large: bool, wrap: bool) -> Iterator[tuple[int, int]]:
    """Pieces, each of one run, in the order of the search: from `start` to one end, then from the other to `start`."""
    sweeps = [(start + 1, steps), (0, min(start + 1, steps))] if way > 0 else [(0, start), (max(start, 0), steps)]
    most = steps if large else PIECE
    for a, b in sweeps[: 1 + wrap]:
        while a < b:
            run = table.run_at(a if way > 0 else b - 1)
            low, high = max(a, run.first_step), min(b, table.run_end(run))
            piece = (low, min(low + most, high)) if way > 0 else (max(low, high - most), high)
            yield piece
            a, b = (piece[1], b) if way > 0 else (a, piece[0])


def _mask(table: Table, query: Query, first: int, stop: int, steps: int, failing: Steps, texts: Texts) -> Mask:
    mask = np.ones(stop - first, np.bool_)
    rows: Any = None
    for term in query:
        if isinstance(term, Fails):
            mask &= _failing(failing, first, stop)
            continue
        if rows is None:
            ahead = max((len(t.words.encode()) for t in query if isinstance(t, Text)), default=0) * _SEQUENCES_ACROSS
            end = min(stop + ahead, steps, table.run_end(table.run_at(first)))
            rows, bad = table.rows(first, end)
            if bad is not None:
                mask &= ~bad[: stop - first]
        mask &= (_text(rows, term, first, texts) if isinstance(term, Text) else _compared(rows, term))[: stop - first]
        if not mask.any():
            break
    return mask


def _failing(failing: Steps, first: int, stop: int) -> Mask:
    mask = np.zeros(stop - first, np.bool_)
    inside = failing[bisect_left(failing, first) : bisect_left(failing, stop)]
    mask[np.array(inside, np.int64) - first] = True
    return mask


def _compared(rows: Any, term: Compare) -> Mask:
    values = _values(rows, term.field, term.layer)
    if values is None:
        return np.zeros(len(rows), np.bool_)
    with np.errstate(invalid="ignore"):
        mask: Mask = OPERATORS[term.sign](values, term.value) & ~np.isnan(values)
    return np.any(mask, axis=1) if mask.ndim == 2 else mask


def _values(rows: Any, field: str, layer: int | None) -> Any:
    """A field as float64, NaN where it is absent; (steps, layers) only for counts a layer. None: not recorded."""
    if field == "layer":
        parts = [v for v in (_values(rows, name, layer) for name in ("gemm_ms", "attn_ms")) if v is not None]
        return sum(parts) if parts else None
    if field not in rows.dtype.names or rows.dtype[field].kind == "S":
        return None
    values = _present(rows[field])
    if layer is not None:
        return values[:, layer] if values.ndim == 2 and layer < values.shape[1] else None
    if values.ndim == 2 and field.endswith("_ms"):
        values = np.where(np.isnan(values).all(axis=1), np.nan, np.nansum(values, axis=1))
    if field == "gemm_ms" and "lm_head_ms" in rows.dtype.names:
        head = _present(rows["lm_head_ms"])  # shown GEMM is both: both read weights
        values = np.where(np.isnan(values), head, values + np.nan_to_num(head))
    return values


def _present(column: Any) -> Any:
    values = column.astype(np.float64)
    if column.dtype.kind == "i":
        values[column == (-1 if column.dtype.itemsize == 4 else ABSENT_I64)] = np.nan
    elif column.dtype == np.uint64:
        values[column == ABSENT_U64] = np.nan
    return values


def _text(rows: Any, term: Text, first: int, texts: Texts) -> Mask:
    mask = np.zeros(len(rows), np.bool_)
    if term.or_id is not None:
        mask |= rows["token_id"] == term.or_id
    if "text" not in rows.dtype.names:
        return mask
    pieces = rows["text"].tolist()
    stop = first + len(rows)
    for step in texts if len(texts) < len(rows) else range(first, stop):
        if first <= step < stop and step in texts:
            pieces[step - first] = texts[step].encode("utf-8", "surrogateescape")
    wanted = term.words.encode("utf-8", "surrogateescape")
    either_case = term.words == term.words.lower()
    for seq_id in np.unique(rows["seq_id"]):
        own = np.flatnonzero(rows["seq_id"] == seq_id)
        mask[own[_begins(wanted, [pieces[i] for i in own], either_case)]] = True
    return mask


def _begins(wanted: bytes, pieces: list[bytes], either_case: bool) -> list[int]:
    """Numbers of the pieces in which `wanted` begins, in the pieces joined."""
    joined = b"".join(pieces)
    if either_case:
        joined = joined.lower()
    places = []
    at = joined.find(wanted)
    while at >= 0:
        places.append(at)
        at = joined.find(wanted, at + 1)
    if not places:
        return []
    ends = np.cumsum([len(piece) for piece in pieces])
    return np.searchsorted(ends, places, side="right").tolist()  # type: ignore[no-any-return]
