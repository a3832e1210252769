"""What stands in a trace, for tests to look at."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from traces.table import Table


def steps(path: Path, *names: str) -> list[dict[str, Any]]:
    """Every step of a trace that is whole; `names`: these fields alone."""
    table = Table(path)
    assert table.complete
    found = [step for step in table.plain(0, table.steps) if step is not None]
    return [{name: step[name] for name in names} for step in found] if names else found
