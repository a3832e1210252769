"""What the verbs cost on 10,000,000 steps, on 128 layers, on 10,000 sequences that take turns, and on a folder of 1,000
traces; and what following a day's frames takes.

`python -m tests.bench.bench_scale` prints one line a figure. The traces are made in a temporary folder (1.2 GB) and
removed.
"""

from __future__ import annotations

import tempfile
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np

from tests.bench.bench_tui import facts, many_frames, records
from tests.bench.figures import tell
from tests.bench.processes import measured
from traces import frames
from traces.table import Table
from traces.writer import TraceWriter

STEPS, BLOCK = 10_000_000, 50_000
DEEP_STEPS, DEEP = 100_000, 128
SEQUENCES, EACH = 10_000, 100
TRACES = 1000
FRAMES_A_DAY = 24 * 3600 * 20
MEASURED_FRAMES = 100_000


def begun(path: Path, layers: int) -> np.dtype[Any]:
    """A trace with its run description; what a record is."""
    TraceWriter(path, facts(layers)).leave_unfinished()
    return Table(path).runs[0].dtype


def one_sequence(path: Path, steps: int, layers: int) -> None:
    """A long healthy trace in frames of 4096 steps."""
    dtype = begun(path, layers)
    with open(path, "ab") as file:
        request = {"kind": "request", "seq_id": 0, "prompt_tokens": 25, "n_reused": 0, "t_ns": 0}
        file.write(frames.pack_json(frames.NOTE, request))
        for begin in range(0, steps, BLOCK):
            rows = records(dtype, begin, min(BLOCK, steps - begin))
            rows["total_ms"] = 0.021 * layers
            file.write(many_frames(rows, 4096))
        file.write(frames.pack_json(frames.END, {"steps": steps}))


def taking_turns(path: Path) -> None:
    """SEQUENCES that step one after the other, EACH times."""
    dtype = begun(path, 4)
    with open(path, "ab") as file:
        for seq_id in range(SEQUENCES):
            request = {"kind": "request", "seq_id": seq_id, "prompt_tokens": 25, "n_reused": 0, "t_ns": 0}
            file.write(frames.pack_json(frames.NOTE, request))
        for k in range(EACH):
            rows = np.repeat(records(dtype, k, 1), SEQUENCES)
            rows["seq_id"] = np.arange(SEQUENCES)
            rows["t_ns"] = (k * SEQUENCES + np.arange(SEQUENCES)) * 1_100_000
            rows["finish"] = 2 if k == EACH - 1 else 0
            file.write(many_frames(rows, 4096))
        file.write(frames.pack_json(frames.END, {"steps": SEQUENCES * EACH}))


def verbs(name: str, path: Path) -> None:
    """Every verb that reads a whole trace."""
    at = str(path)
    commands = [("check", at), ("stats", at), ("diff", at, "--against", at), ("show", at, "--steps", "-10:")]
    if path.stat().st_size < 500 << 20:
        commands.append(("export", at, "--to", "csv"))
    for words in commands:
        cost = measured(*words)
        tell(f"{name}: {words[0]}, s / MB", f"{cost.wall:.1f} / {cost.memory:.0f}")


def folder_of_many(folder: Path) -> None:
    """A folder of TRACES small traces, with the processors and with one."""
    many = folder / "many"
    many.mkdir()
    one_sequence(many / "0.steps", 500, 4)
    whole = (many / "0.steps").read_bytes()
    for number in range(1, TRACES):
        (many / f"{number}.steps").write_bytes(whole)
    for words in (("check", str(many)), ("stats", str(many)), ("diff", str(many), "--against", str(many))):
        cost = measured(*words)
        tell(f"{TRACES:,} traces of 500 steps: {words[0]}, s / MB a process", f"{cost.wall:.1f} / {cost.memory:.0f}")


def day(path: Path) -> None:
    """What the index keeps of a frame that differs in size from the one before."""
    dtype = begun(path, 4)
    rows = records(dtype, 0, 5)
    pair = many_frames(rows[:2], 2) + many_frames(rows[2:], 3)
    with open(path, "ab") as file:
        file.write(pair * (MEASURED_FRAMES // 2))
    table = Table(path, index=False)
    tracemalloc.start()
    table.refresh()
    taken = tracemalloc.get_traced_memory()[0] / MEASURED_FRAMES
    tracemalloc.stop()
    tell(
        "index: bytes a frame of another size / MB a day at 20 a second",
        f"{taken:.1f} / {taken * FRAMES_A_DAY / 1e6:.0f}",
    )


def main() -> None:
    """Print every figure."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        day(folder / "day.steps")
        folder_of_many(folder)
        taking_turns(folder / "turns.steps")
        verbs(f"{SEQUENCES:,} sequences taking turns, {SEQUENCES * EACH:,} steps", folder / "turns.steps")
        one_sequence(folder / "deep.steps", DEEP_STEPS, DEEP)
        verbs(f"{DEEP} layers, {DEEP_STEPS:,} steps", folder / "deep.steps")
        one_sequence(folder / "long.steps", STEPS, 4)
        verbs(f"{STEPS:,} steps, 4 layers", folder / "long.steps")


if __name__ == "__main__":
    main()
