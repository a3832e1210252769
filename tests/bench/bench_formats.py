"""The same steps in the formats that people use instead: Chrome's JSON through json, JSON Lines through msgspec,
Parquet through DuckDB.

`python -m tests.bench.bench_formats` prints one line a figure. 20,000 steps of 28 layers are written step by step, as a
loop would, and read back for one question, the time that attention took in all; the ways take turns, ratios are
medians over the turns. Parquet is written at the end, from columns that were kept in memory: it has no other way.
"""

from __future__ import annotations

import json
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import msgspec
import pyarrow

from tests.bench.bench_traces import LAYERS, NAMES, RUN
from tests.bench.figures import tell
from traces.table import Table
from traces.writer import TraceWriter

STEPS = 20_000
ROUNDS = 5
ATTENTION_MS = 0.25 * LAYERS * STEPS


def step(number: int) -> dict[str, Any]:
    """What a loop knows about a step."""
    each: dict[str, Any] = dict.fromkeys(NAMES, number % 50 + 0.5)
    counts = dict.fromkeys(("token_id", "seq_before", "seq_len", "write_pos", "runner_up", "t_ns"), number)
    layers = {"gemm_ms": [1.5] * LAYERS, "attn_ms": [0.25] * LAYERS, "hidden_rms": [2.5] * LAYERS}
    return {**each, **counts, **layers, "cache_len": [number] * LAYERS, "phase": 2, "finish": 0, "seq_id": 0,
            "n_tokens": 1, "text": " token"}  # fmt: skip


MADE = [step(number) for number in range(STEPS)]
"""Made before anything is measured."""


def write_trace(path: Path) -> None:
    """Ours."""
    with TraceWriter(path, RUN, flush="interval") as writer:
        for values in MADE:
            writer.step(**values)


def read_trace(path: Path) -> float:
    """Through numpy."""
    return float(sum(chunk.rows["attn_ms"].sum() for chunk in Table(path).chunks()))


def write_chrome(path: Path) -> None:
    """An event a step, as Chrome and Perfetto open it."""
    with path.open("w") as file:
        file.write("[\n")
        for number, values in enumerate(MADE):
            event = {"name": "decode", "ph": "X", "pid": 1, "tid": 1, "ts": number, "dur": values["total_ms"] * 1000}
            file.write(json.dumps({**event, "args": values}) + ",\n")
        file.write("{}]\n")


def read_chrome(path: Path) -> float:
    """All at once: the format is one document."""
    return float(sum(sum(event["args"]["attn_ms"]) for event in json.loads(path.read_text()) if event))


def write_lines(path: Path) -> None:
    """A line a step."""
    encoder = msgspec.json.Encoder()
    with path.open("wb") as file:
        for values in MADE:
            file.write(encoder.encode(values) + b"\n")


def read_lines(path: Path) -> float:
    """Line by line."""
    decoder = msgspec.json.Decoder()
    with path.open("rb") as file:
        return float(sum(sum(decoder.decode(line)["attn_ms"]) for line in file))


def write_parquet(path: Path) -> None:
    """The rows that were kept, written by DuckDB."""
    rows = pyarrow.Table.from_pylist(MADE)
    duckdb.execute(f"COPY rows TO '{path}' (FORMAT parquet)")
    del rows  # which DuckDB found by its name


def read_parquet(path: Path) -> float:
    """The one column that the question needs."""
    ((total,),) = duckdb.execute(f"SELECT sum(list_sum(attn_ms)) FROM read_parquet('{path}')").fetchall()
    return float(total)


WAYS: dict[str, tuple[Callable[[Path], None], Callable[[Path], float]]] = {
    "stepscope": (write_trace, read_trace),
    "Chrome JSON, json": (write_chrome, read_chrome),
    "JSON Lines, msgspec": (write_lines, read_lines),
    "Parquet, DuckDB": (write_parquet, read_parquet),
}


def main() -> None:
    """Print every figure."""
    writing: dict[str, list[float]] = {name: [] for name in WAYS}
    reading: dict[str, list[float]] = {name: [] for name in WAYS}
    sizes: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(ROUNDS):
            for name, (write, read) in WAYS.items():
                path = Path(folder) / name.replace(" ", "")
                began = time.perf_counter()
                write(path)
                written = time.perf_counter()
                found = read(path)
                writing[name].append(written - began)
                reading[name].append(time.perf_counter() - written)
                sizes[name] = path.stat().st_size / STEPS
                assert found == ATTENTION_MS, name
    tell("writing with stepscope: us a step", microseconds(writing["stepscope"]))
    others = [name for name in WAYS if name != "stepscope"]
    for name in others:
        tell(f"  {name} / stepscope", ratio(writing[name], writing["stepscope"]))
    tell("the time in attention of all steps, read with stepscope: us a step", microseconds(reading["stepscope"]))
    for name in others:
        tell(f"  {name} / stepscope", ratio(reading[name], reading["stepscope"]))
    tell("bytes a step, stepscope", f"{sizes['stepscope']:.0f}")
    for name in others:
        tell(f"  {name}", f"{sizes[name]:.0f}")


def microseconds(taken: list[float]) -> str:
    """A step, the median of the rounds."""
    return f"{statistics.median(taken) / STEPS * 1e6:.2f}"


def ratio(above: list[float], below: list[float]) -> str:
    """The median of the rounds' own ratios."""
    return f"{statistics.median(a / b for a, b in zip(above, below, strict=True)):.2f}"


if __name__ == "__main__":
    main()
