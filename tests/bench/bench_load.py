"""What loading a checkpoint costs above reading and converting its bytes, in time and in memory.

    python -m tests.bench.bench_load [--layers N] [--rounds N]

A checkpoint of the 0.5B shape in bfloat16 is written to a temporary folder and loaded in turns with the least that any
loader must do: read the bytes once and widen them once. The memory is that of a process of its own.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from engine.config import read_config
from engine.model import load_model
from engine.weights import expected_shapes
from tests.bench.bench_engine import config_json
from tests.bench.figures import tell


def write_checkpoint(folder: Path, n_layers: int) -> int:
    """A bfloat16 checkpoint of random bits; the number of its values."""
    (folder / "config.json").write_text(json.dumps(config_json(n_layers)))
    header, at = {}, 0
    for name, shape in expected_shapes(read_config(folder)).items():
        end = at + 2 * math.prod(shape)
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [at, end]}
        at = end
    text = json.dumps(header).encode()
    generator = np.random.default_rng(0)
    with (folder / "model.safetensors").open("wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for start in range(0, at, 1 << 26):
            file.write(generator.integers(0, 256, min(1 << 26, at - start), dtype=np.uint8).tobytes())
    return at // 2


def read_and_convert(path: Path) -> float:
    """The seconds that the least loader takes."""
    began = time.perf_counter()
    stored = np.fromfile(path, "<u2", offset=path.stat().st_size % 2)
    np.left_shift(stored, 16, out=np.empty(stored.size, np.uint32), dtype=np.uint32)
    return time.perf_counter() - began


def load(folder: Path) -> float:
    """The seconds that the engine takes."""
    began = time.perf_counter()
    load_model(folder)
    return time.perf_counter() - began


def peak_bytes(folder: Path) -> int:
    """How much a process that loads the checkpoint grows at most."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.bench.bench_load", "--peak", folder],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return int(done.stdout)


def print_peak(folder: Path) -> None:
    """For the process of its own: the growth of its resident memory."""
    before = most_resident()
    load_model(folder)
    print(most_resident() - before)


def most_resident() -> int:
    """The most bytes that this process has held; getrusage would count those of the process that started it."""
    status = Path("/proc/self/status").read_text()
    return 1024 * int(next(line for line in status.splitlines() if line.startswith("VmHWM")).split()[1])


def main() -> None:
    """Measure and print."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--layers", type=int, default=24)
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--peak", metavar="FOLDER", type=Path, help=argparse.SUPPRESS)
    asked = options.parse_args()
    if asked.peak:
        print_peak(asked.peak)
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        n_values = write_checkpoint(folder, asked.layers)
        turns = [(load(folder), read_and_convert(folder / "model.safetensors")) for _ in range(asked.rounds)]
        peak = peak_bytes(folder)
    loaded, least = (statistics.median(column) for column in zip(*turns, strict=True))
    ratio = statistics.median(a / b for a, b in turns)
    tell(f"loading in {loaded:.2f} s / reading and converting the bytes once in {least:.2f} s", f"{ratio:.2f}", "<= 3")
    tell("peak memory / the float32 weights", f"{peak / (4 * n_values):.3f}", "<= 1.2")


if __name__ == "__main__":
    main()
