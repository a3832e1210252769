"""A figure: a line on the screen and, under `python -m tests.bench`, a row of the table in README.md."""

from __future__ import annotations

import json
import os
from typing import NamedTuple

ROWS = "STEPSCOPE_BENCH_ROWS"
"""The environment variable that names the file where rows are kept for the table."""


class Figure(NamedTuple):
    """measured and goal in words, ratios with two decimals; no goal where none was set."""

    what: str
    measured: str
    goal: str = ""


def tell(what: str, measured: str, goal: str = "") -> None:
    """Print a figure, and keep it where the table is made."""
    print(f"{what:<84} {measured:>20}   {'goal ' + goal if goal else ''}".rstrip(), flush=True)
    if ROWS in os.environ:
        with open(os.environ[ROWS], "a", encoding="utf-8") as rows:
            rows.write(json.dumps(Figure(what, measured, goal)) + "\n")
