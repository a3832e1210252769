"""A step trace as JSON Lines: the interchange text form, which `import jsonl` reads back without loss, but for
infinite numbers: JSON has none, and they become null."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from traces.frames import json_text
from traces.table import Chunk, Table


def lines(table: Table) -> Iterator[str]:
    """One JSON object a line, without line feeds. A damaged frame becomes a gap note in its place."""
    for run in table.runs:
        yield json_text({"format": "stepscope", "version": 1, **run.facts})
        for chunk in table.chunks_of(run):
            for value in _in_file_order(chunk):
                yield json_text(value)
        if run.end_facts is not None:
            yield json_text({"note": {"kind": "end", **run.end_facts}})


def _in_file_order(chunk: Chunk) -> Iterator[dict[str, Any]]:
    notes, lost = list(chunk.notes), False
    decoder = chunk.run.decoder
    raw = decoder.raw(np.ascontiguousarray(chunk.rows).tobytes(), len(chunk.rows))
    for step, record in enumerate(raw, chunk.first_step):
        while notes and notes[0][0] <= step:
            yield {"note": notes.pop(0)[1]}
        damaged = chunk.bad is not None and bool(chunk.bad[step - chunk.first_step])
        if not damaged:
            yield decoder.plain(record)
        elif not lost:
            yield {"note": {"kind": "gap", "why": f"damaged frame at step {step}"}}
        lost = damaged
    for _, note in notes:
        yield {"note": note}
