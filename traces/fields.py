"""The vocabulary of a step trace: every field's name, type, unit and meaning, and the codes that stand for words.

Producers choose from these names, consumers look them up here, and FORMAT.md lists them (a test compares the two).
A trace may carry fields that are not listed: they are kept and shown, never judged.
"""

from __future__ import annotations

import math
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

FORMAT = "stepscope"
VERSION = 1

# dtype name -> (struct letter, bytes, the value that means "absent")
ABSENT_I32 = -1
ABSENT_I64 = -(2**63)
ABSENT_U64 = 2**64 - 1
DTYPES: Dict[str, Tuple[str, int, Any]] = {
    "U8": ("B", 1, 0),
    "U16": ("H", 2, 0),
    "I32": ("i", 4, ABSENT_I32),
    "I64": ("q", 8, ABSENT_I64),
    "U64": ("Q", 8, ABSENT_U64),
    "F32": ("f", 4, math.nan),
    "F64": ("d", 8, math.nan),
}

PHASES = {"prefill": 1, "decode": 2, "verify": 3}
FINISH = {"none": 0, "eos": 1, "length": 2, "stop": 3, "abort": 4, "capacity": 5, "error": 6}
PHASE_NAMES = {code: name for name, code in PHASES.items()}
FINISH_NAMES = {code: name for name, code in FINISH.items()}

TEXT_BYTES = 16
MAX_RECORD_BYTES = 1 << 20
"""A record larger than this is damage: 10,000 layers with ten per-layer fields stay far below."""


class Field(NamedTuple):
    """One entry of the vocabulary. `per_layer`: "no", "yes" (one value a layer) or "may" (a total, or one a layer)."""

    name: str
    dtype: str
    per_layer: str
    unit: str
    meaning: str


def _table(*rows: Tuple[str, str, str, str, str]) -> Dict[str, Field]:
    return {row[0]: Field(*row) for row in rows}


REQUIRED = _table(
    ("phase", "U8", "no", "code", "1 prefill, 2 decode, 3 verify"),
    ("seq_id", "I32", "no", "id", "the request, never an engine's slot"),
    ("token_id", "I64", "no", "id", "sampled at the start of this step and fed by it; absent in prefill"),
    ("n_tokens", "I32", "no", "tokens", "fed into this step's forward; 0 where the sampled token was not fed"),
    ("seq_before", "I32", "no", "tokens", "the sequence's length before the step"),
    ("seq_len", "I32", "no", "tokens", "the sequence's length after the step"),
    ("cache_len", "I32", "may", "rows", "rows in each layer's KV cache after the step"),
    ("finish", "U8", "no", "code", "0 none, 1 eos, 2 length, 3 stop string, 4 abort, 5 capacity, 6 error"),
)

OPTIONAL = _table(
    ("cache_before", "I32", "may", "rows", "rows before the step, as an entry hook sees them"),
    ("t_ns", "U64", "no", "ns", "when the step began, from the run's start"),
    ("total_ms", "F32", "no", "ms", "the whole step"),
    ("forward_ms", "F32", "no", "ms", "the forward"),
    ("sample_ms", "F32", "no", "ms", "sampling the token"),
    ("gemm_ms", "F32", "may", "ms", "matrix products inside the layers"),
    ("attn_ms", "F32", "may", "ms", "attention over the cache"),
    ("qkv_ms", "F32", "may", "ms", "query, key and value projections; part of gemm_ms"),
    ("o_ms", "F32", "may", "ms", "attention's output projection; part of gemm_ms"),
    ("gate_up_ms", "F32", "may", "ms", "the MLP's gate and up projections; part of gemm_ms"),
    ("down_ms", "F32", "may", "ms", "the MLP's down projection; part of gemm_ms"),
    ("lm_head_ms", "F32", "no", "ms", "the product that makes the logits; not part of gemm_ms"),
    ("n_drafted", "I32", "no", "tokens", "drafts fed by a verify step"),
    ("n_accepted", "I32", "no", "tokens", "drafts kept by a verify step"),
    ("draft_ids", "I64", "no", "id", "the drafts, in order; an array, the rest absent"),
    ("draft_cache_len", "I32", "no", "rows", "rows in the draft model's cache after the step"),
    ("write_pos", "I32", "no", "row", "the row of the first full layer that the step's first token was written to"),
    ("pos", "I32", "no", "position", "rotary position: carried, never judged"),
    ("n_reused", "I32", "no", "tokens", "prompt tokens found in the cache"),
    ("logit", "F32", "no", "logit", "the sampled token's logit"),
    ("margin", "F32", "no", "logit", "top-1 logit less top-2 logit at sampling"),
    ("runner_up", "I64", "no", "id", "the second best id at sampling"),
    ("hidden_rms", "F32", "may", "rms", "root mean square of the residual stream after each layer: a fingerprint"),
    ("text", "U8", "no", "bytes", "the raw bytes of token_id alone (not of accepted drafts), 16 at most"),
    ("kv_used", "I32", "no", "kv.unit", "pool in use after this record's own growth"),
    ("kv_free", "I32", "no", "kv.unit", "pool free or evictable after this record's own growth"),
    ("forward_id", "I32", "no", "id", "sequences fed by one forward share it; absent where nothing was fed"),
)

FIELDS: Dict[str, Field] = {**REQUIRED, **OPTIONAL}

NOTES: Dict[str, str] = {
    "request": "a request arrives: seq_id, t_ns, prompt, prompt_ids, prompt_tokens, n_reused, max_new_tokens",
    "shift": "the oldest rows leave a full context: seq_id, n_keep, n_discard",
    "rollback": "rows are taken back outside a verify step: seq_id, n",
    "release": "a sequence gives its cache back: seq_id, kv_used, kv_free (the counts after it)",
    "absent": "why a field has no value: field, why",
    "gap": "steps were not recorded: why, seq_id (all sequences where it is left out)",
    "source": "where the hook or the loop stands: file, line, function",
    "text": "a token too long for its field: step, text",
    "finish": "a sequence ended outside a step: seq_id, finish",
    "totals": "an importer's log has no steps: seq_id, prompt_tokens, n_reused, fed, prefill_ms, generated, "
    "decode_ms, rows, finish; where known decoded (tokens fed by decode), ttft_ms, total_ms, itl_ms (a list), "
    "n_drafted, n_accepted, derived (names of values worked out from others). "
    "Beside recorded steps of its seq_id it is judged, not added",
    "interval": "an engine's own averages over a stretch of time, of no single request: t_ns, prompt_tok_s, "
    "generation_tok_s, running, waiting, n_drafted, n_accepted",
    "benchmark": "a benchmark's own figures, by their own names",
    "message": "a line for the reader: text",
}


def text_bytes(text: str) -> bytes:
    """Raw bytes of token text: UTF-8, bytes that were none come back from their surrogates (`surrogateescape`), and
    half of a surrogate pair, as engines print that split emoji, is kept as it is."""
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")


class FieldError(ValueError):
    """A record description or a value that the format cannot hold; the message says which."""


class Column(NamedTuple):
    """One field as a run declares it: shape is () for one value, (n,) for an array."""

    name: str
    dtype: str
    shape: Tuple[int, ...]

    @property
    def size(self) -> int:
        """Number of values in one record."""
        return self.shape[0] if self.shape else 1

    @property
    def is_bytes(self) -> bool:
        """An array of U8 is raw bytes (token text), not numbers."""
        return self.dtype == "U8" and bool(self.shape)

    @property
    def absent(self) -> Any:
        """The value that means absent. Padding of `text` and codes is 0."""
        return DTYPES[self.dtype][2]


def columns(declared: Any) -> List[Column]:
    """The `fields` list of a RUN object, checked.

    Raises FieldError for anything that is not a list of [name, dtype] or [name, dtype, [n]] with known dtypes and
    distinct names, or whose record would exceed MAX_RECORD_BYTES.
    """
    if not declared:
        raise FieldError("the run declares no fields")
    if not isinstance(declared, (list, tuple)):
        raise FieldError("the run's fields are not a list of [name, dtype]")
    found: List[Column] = []
    seen = set()
    for entry in declared:
        if not isinstance(entry, (list, tuple)) or len(entry) not in (2, 3):
            raise FieldError("a field is [name, dtype] or [name, dtype, [n]], not %r" % (entry,))
        name, dtype = entry[0], entry[1]
        shape = entry[2] if len(entry) == 3 else ()
        if shape is None:
            shape = ()
        if isinstance(shape, int) and not isinstance(shape, bool):
            shape = (shape,)
        if not isinstance(name, str) or not name or name in seen:
            raise FieldError("field names are distinct, non-empty strings, not %r" % (name,))
        if not isinstance(dtype, str) or dtype not in DTYPES:
            raise FieldError("field %s has dtype %r; known: %s" % (name, dtype, " ".join(DTYPES)))
        if not isinstance(shape, (list, tuple)) or len(shape) > 1 or not all(_is_size(n) for n in shape):
            raise FieldError("field %s has shape %r; a shape is one length from 1 to 65535, or none" % (name, shape))
        seen.add(name)
        found.append(Column(name, dtype, tuple(shape)))
        _expect_vocabulary(found[-1])
    if record_size(found) > MAX_RECORD_BYTES:
        raise FieldError("a record of %d bytes is larger than %d" % (record_size(found), MAX_RECORD_BYTES))
    return found


def _expect_vocabulary(column: Column) -> None:
    field = FIELDS.get(column.name)
    if field is None:
        return
    allowed = ("F32", "F64") if field.dtype == "F32" else (field.dtype,)
    if column.dtype not in allowed:
        raise FieldError("field %s is %s, not %s" % (column.name, " or ".join(allowed), column.dtype))
    if column.shape and field.per_layer == "no" and column.name not in ("text", "draft_ids"):
        raise FieldError("field %s is one value, not an array" % column.name)
    if column.name == "text" and not column.shape:
        raise FieldError("field text is an array of bytes")


def _is_size(n: Any) -> bool:
    return isinstance(n, int) and not isinstance(n, bool) and 1 <= n <= 65535


def record_size(cols: Sequence[Column]) -> int:
    """Bytes of one packed record."""
    return sum(DTYPES[c.dtype][1] * c.size for c in cols)


def record_format(cols: Sequence[Column]) -> str:
    """The `struct` format of one packed record: an array of U8 is one bytes value, any other array one value each."""
    return "<" + "".join("%ds" % c.size if c.is_bytes else DTYPES[c.dtype][0] * c.size for c in cols)


def declaration(names: Sequence[str], shapes: Optional[Dict[str, int]] = None) -> List[List[Any]]:
    """A `fields` list for names of the vocabulary; `shapes` gives the length of those that are arrays.

    Raises FieldError for a name that is not in the vocabulary.
    """
    shapes = shapes or {}
    out: List[List[Any]] = []
    for name in names:
        if name not in FIELDS:
            raise FieldError("%r is not in the vocabulary; declare it as [name, dtype]" % (name,))
        size = TEXT_BYTES if name == "text" else shapes.get(name, 0)
        out.append([name, FIELDS[name].dtype] + ([[size]] if size else []))
    return out
