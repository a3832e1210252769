"""Step traces as a Parquet dataset: typed columns, arrays as lists, partitioned by model and build.

One file a run, `OUT/model=NAME/build=ID/TRACE-DIGEST.parquet`, so that a fleet's traces fall into one folder that
DuckDB, Polars or Spark read as one table. The digest is of the run's description: exporting a trace again replaces its
own file and no other. What is absent is null; phase, finish and token text are strings. A field that may be recorded a
layer or as one total is always a list, the total a list of one, so that files of all kinds make one table. Needs
pyarrow.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import numpy as np

from traces.fields import FIELDS, FINISH_NAMES, PHASE_NAMES, Column
from traces.frames import json_text
from traces.replacing import Older, replacing
from traces.table import Chunk, Run, Table

_OLDER = Older("a Parquet file", b"PAR1")
_LONGEST = 100
_NAMES = {"phase": PHASE_NAMES, "finish": {code: name for code, name in FINISH_NAMES.items() if code}}


def write(table: Table, folder: str, first: int = 0, stop: int | None = None) -> int:
    """Write steps [first, stop) of every run into the dataset `folder`; how many. Damaged steps are left out."""
    import pyarrow.parquet as pq

    written = 0
    for number, run in enumerate(table.runs):
        end = table.run_end(run) if stop is None else min(stop, table.run_end(run))
        if max(first, run.first_step) >= end:
            continue
        path = file_of(table, run, folder)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        schema = _schema(table, run, number)
        options: Any = {"compression": "zstd", "compression_level": 1, **_encodings(run)}
        with replacing(path, _OLDER) as partial, pq.ParquetWriter(partial, schema, **options) as writer:
            for chunk in table.chunks_of(run, first, stop):
                batch = _batch(chunk, schema, table.path, number)
                writer.write_batch(batch)
                written += batch.num_rows
    return written


def file_of(table: Table, run: Run, folder: str) -> str:
    """Where a run's steps go."""
    model, engine = (_dict(run.facts.get(name)) for name in ("model", "engine"))
    build = engine.get("build_id") or engine.get("commit") or engine.get("version")
    stem = re.sub(r"[^\w.-]", "_", os.path.basename(table.path).removesuffix(".steps"))[:_LONGEST]
    digest = hashlib.sha256(json.dumps(run.facts, sort_keys=True).encode()).hexdigest()[:8]
    parts = (f"model={_part(model.get('name'))}", f"build={_part(build)}", f"{stem}-{run.first_step}-{digest}.parquet")
    return os.path.join(folder, *parts)


def _part(value: Any) -> str:
    """A partition's value as a name of a folder."""
    return quote(str(value or "unknown")[:_LONGEST], safe=" ") or "unknown"


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _schema(table: Table, run: Run, number: int) -> Any:
    import pyarrow as pa

    columns = [
        pa.field("trace", pa.dictionary(pa.int32(), pa.string())),
        pa.field("run", pa.int32()),
        pa.field("step", pa.int64()),
        *(pa.field(column.name, _type(column)) for column in _columns(run)),
    ]
    facts = json_text(run.facts).encode()
    name = os.path.basename(table.path).encode(errors="backslashreplace")
    return pa.schema(columns, metadata={b"stepscope.run": facts, b"stepscope.trace": name})


def _columns(run: Run) -> list[Column]:
    """The run's fields, but for any that is called as a column of ours."""
    return [column for column in run.decoder.columns if column.name not in ("trace", "run", "step")]


def _type(column: Column) -> Any:
    import pyarrow as pa

    if column.is_bytes:
        return pa.string()
    if column.name in _NAMES:
        return pa.dictionary(pa.int8(), pa.string())
    numbers = {"U8": pa.uint8(), "U16": pa.uint16(), "I32": pa.int32(), "I64": pa.int64(), "U64": pa.uint64()}
    number = numbers.get(column.dtype) or (pa.float32() if column.dtype == "F32" else pa.float64())
    return pa.list_(number) if _is_list(column) else number


def _is_list(column: Column) -> bool:
    field = FIELDS.get(column.name)
    return bool(column.shape) or (field is not None and field.per_layer != "no")


def _encodings(run: Run) -> dict[str, Any]:
    """A dictionary pays for words only; measured times hardly repeat."""
    words = [column.name for column in run.decoder.columns if column.is_bytes or column.name in _NAMES]
    return {"use_dictionary": ["trace", *words]}


def _batch(chunk: Chunk, schema: Any, path: str, number: int) -> Any:
    import pyarrow as pa

    rows, steps = chunk.rows, np.arange(chunk.first_step, chunk.first_step + len(chunk.rows))
    if chunk.bad is not None:
        rows, steps = rows[~chunk.bad], steps[~chunk.bad]
    name = os.path.basename(path).encode(errors="backslashreplace").decode()
    trace = pa.DictionaryArray.from_arrays(pa.array(np.zeros(len(rows), np.int32)), [name])
    arrays = [trace, pa.array(np.full(len(rows), number, np.int32)), pa.array(steps)]
    arrays += [_array(column, rows[column.name]) for column in _columns(chunk.run)]
    return pa.record_batch(arrays, schema=schema)


def _array(column: Column, values: Any) -> Any:
    """One field of a chunk as an arrow array, absent values as nulls."""
    import pyarrow as pa

    if column.is_bytes:
        return _texts(values)
    if column.name in _NAMES:
        return _words(values, _NAMES[column.name])
    flat = np.ascontiguousarray(values).reshape(-1)
    absent = np.isnan(flat) if column.dtype[0] == "F" else flat == column.absent
    known = column.dtype not in ("U8", "U16")  # their 0 is a value, as in counts of heads
    numbers = pa.array(flat, mask=absent if known and absent.any() else None)
    if not _is_list(column):
        return numbers
    offsets = np.arange(0, len(flat) + 1, column.size, dtype=np.int32)
    nothing = absent.reshape(-1, column.size).all(axis=1) & known
    return pa.ListArray.from_arrays(pa.array(offsets), numbers, mask=pa.array(nothing))


def _words(codes: Any, names: dict[int, str]) -> Any:
    import pyarrow as pa

    places = {code: place for place, code in enumerate(names)}
    table = np.full(256, -1, np.int8)
    for code, place in places.items():
        table[code] = place
    found = table[codes]
    return pa.DictionaryArray.from_arrays(pa.array(found, mask=found < 0), list(names.values()))


def _texts(values: Any) -> Any:
    """Token bytes as text; bytes that are no UTF-8 as \\xNN."""
    import pyarrow as pa

    unique, where = np.unique(values, return_inverse=True)
    words = list(_decoded(unique))
    return pa.DictionaryArray.from_arrays(pa.array(where.astype(np.int32)), words).dictionary_decode()


def _decoded(values: Any) -> Iterator[str | None]:
    for raw in values.tolist():
        yield raw.decode("utf-8", "backslashreplace") if raw else None
