"""A step trace as JSON Lines: the interchange text form, which `import jsonl` reads back without loss."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import numpy as np

from traces.table import Table


def lines(table: Table) -> Iterator[str]:
    """One JSON object a line, without line feeds. A damaged frame becomes a gap note in its place."""
    run = None
    for chunk in table.chunks():
        if chunk.run is not run:
            if run is not None:
                yield from _end(run)
            run = chunk.run
            yield _json({"format": "stepscope", "version": 1, **run.facts})
        notes = iter(chunk.notes)
        pending = next(notes, None)
        raw = run.decoder.raw(np.ascontiguousarray(chunk.rows).tobytes(), len(chunk.rows))
        lost = False
        for i, record in enumerate(raw):
            while pending is not None and pending[0] <= chunk.first_step + i:
                yield _json({"note": pending[1]})
                pending = next(notes, None)
            damaged = chunk.bad is not None and bool(chunk.bad[i])
            if damaged and not lost:
                yield _json({"note": {"kind": "gap", "why": f"damaged frame at step {chunk.first_step + i}"}})
            elif not damaged:
                yield _json(run.decoder.plain(record))
            lost = damaged
        while pending is not None:
            yield _json({"note": pending[1]})
            pending = next(notes, None)
    if run is not None:
        yield from _end(run)


def _end(run: Any) -> Iterator[str]:
    if run.end_facts is not None:
        yield _json({"note": {"kind": "end", **run.end_facts}})


def _json(value: dict[str, Any]) -> str:
    return json.dumps(value, separators=(",", ":"), allow_nan=False)
