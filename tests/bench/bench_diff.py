"""How often `stepscope diff` is wrong about time, how often it finds what is there, and how long it takes.

`python -m tests.bench.bench_diff` prints one line a figure. Runs are simulated step by step (every step slow when its
neighbour is, every run with luck of its own), so that the whole way from steps to verdicts is measured, then the
figures are repeated on the real C engine. `--quick` simulates a tenth.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from scipy.signal import lfilter

from inspector.record_set import record
from tests.bench.bench_traces import make_trace
from tests.bench.figures import tell
from tests.bench.processes import measured
from traces.diff import Diff, compare
from traces.fields import REQUIRED, declaration
from traces.run_columns import RunColumns
from traces.table import Chunk, Run, Table
from traces.timing import TimedRun, Timing, compare_times

ROOT = Path(__file__).parents[2]
NATIVE = ROOT / "engine" / "native"
LAYERS = 28
STEPS = 256
SLOW_LAYER = 11
REQUEST = "958,437,198,432,305,435,13,959,198,958,431,198,500,264,363,540,299,319,264,369,959,198,958,438,198"
NAMES = (*REQUIRED, "t_ns", "total_ms", "forward_ms", "sample_ms", "gemm_ms", "attn_ms")
FACTS: dict[str, Any] = {
    "model": {"n_layers": LAYERS},
    "clock": "monotonic",
    "fields": declaration(NAMES, dict.fromkeys(("cache_len", "gemm_ms", "attn_ms"), LAYERS)),
}


def main() -> None:
    """Print every figure."""
    pairs = 100 if "--quick" in sys.argv else 1000
    simulated(pairs)
    with tempfile.TemporaryDirectory() as folder:
        large(Path(folder))
        c_engine(Path(folder))


# -- simulated runs ----------------------------------------------------------------------------------------------------


class _InMemory:
    """Where per-layer columns are read from: the rows of a simulated run."""

    def __init__(self, rows: Any) -> None:
        self._rows = rows

    def rows(self, first: int, stop: int) -> tuple[Any, None]:
        return self._rows[first:stop], None


def simulated_run(
    chance: np.random.Generator, noise: float, layer_noise: float, slower: dict[int, float], slow_layer: float
) -> TimedRun:
    """A run of one request: 28 layers, a prefill and 256 decode steps.

    noise: standard deviation of the run's luck, which all of it shares; layer_noise: of each layer's own luck in this
    run. Steps add noise of 2 % that fades by 0.6 from step to step. slower: phase -> factor; slow_layer: a factor of
    layer 11.
    """
    run = Run(FACTS, "simulated", 0)
    rows = np.zeros(STEPS + 1, run.dtype)
    length = 100 + np.arange(STEPS + 1)
    rows["phase"], rows["n_tokens"] = 2, 1
    rows["seq_before"], rows["seq_len"], rows["cache_len"] = length - 1, length, length[:, None]
    rows["phase"][0], rows["n_tokens"][0], rows["seq_before"][0] = 1, 100, 0
    luck = np.exp(chance.normal(0, noise))
    jitter: Any = lfilter([1], [1, -0.6], chance.normal(0, 0.016, STEPS + 1))
    jitter[0] /= 8  # a prefill is the mean of a hundred tokens' luck
    factor = luck * np.exp(jitter) * np.array([slower.get(int(p), 1.0) for p in rows["phase"]])
    factor[0] *= 20
    for name, ms in (("gemm_ms", 0.8), ("attn_ms", 0.2)):
        own = np.exp(chance.normal(0, layer_noise, LAYERS))
        own[SLOW_LAYER] *= slow_layer
        rows[name] = ms * factor[:, None] * own * np.exp(chance.normal(0, 0.01, (STEPS + 1, LAYERS)))
    rows["sample_ms"] = 0.1 * luck
    rows["forward_ms"] = rows["gemm_ms"].sum(axis=1) + rows["attn_ms"].sum(axis=1) + 1.0 * factor
    rows["total_ms"] = rows["forward_ms"] + rows["sample_ms"]
    ends = np.cumsum(rows["total_ms"].astype(np.float64))
    rows["t_ns"] = (ends - rows["total_ms"]) * 1e6
    columns = RunColumns(run, [Chunk(run, 0, rows, None, [])], ("seq_before",))
    return TimedRun("simulated", _InMemory(rows), columns)  # type: ignore[arg-type]


def simulated_timing(seed: int, runs: int, noise: float, slower: dict[int, float], slow_layer: float) -> Timing:
    """Two sides of so many runs, compared; the new side has the slowdowns."""
    chance = np.random.default_rng(seed)
    base = [simulated_run(chance, noise, 0.005, {}, 1.0) for _ in range(runs)]
    new = [simulated_run(chance, noise, 0.005, slower, slow_layer) for _ in range(runs)]
    return compare_times(base, new)


def _says(job: tuple[int, int, float, dict[int, float], float]) -> list[tuple[str, str, int | None, str]]:
    timing = simulated_timing(*job)
    return [(*t.line, t.judgement.verdict) for t in timing.lines]


def simulated(pairs: int) -> None:
    """False alarms at two levels of noise, and what is found."""
    with ProcessPoolExecutor(os.cpu_count()) as pool:

        def all_of(runs: int, noise: float, slower: dict[int, float], slow_layer: float = 1.0) -> Iterator[Any]:
            jobs = [(seed, runs, noise, slower, slow_layer) for seed in range(pairs)]
            return pool.map(_says, jobs, chunksize=8)

        for runs in (6, 10):
            for noise in (0.02, 0.05):
                said = list(all_of(runs, noise, {}))
                alarms = sum(any(v in ("slower", "faster") for *_, v in lines) for lines in said)
                same = sum(lines[1][-1] == "same" for lines in said)
                what = f"{pairs} A/A pairs, {runs} runs a side, {noise:.0%} noise: any alarm (decode: same)"
                tell(what, f"{alarms / pairs:.1%} ({same / pairs:.0%})", "<= 5 %")
        for name, phase in (("prefill", 1), ("decode", 2)):
            said = list(all_of(6, 0.02, {phase: 1.05}))
            found = sum((name, "total", None, "slower") in lines for lines in said)
            tell(f"{name} 5 % slower, 6 runs a side, 2 % noise: found", f"{found / pairs:.1%}", ">= 90 %")
        said = list(all_of(10, 0.02, {}, 1.05))
        named = sum(
            {(part, layer) for phase, part, layer, v in lines if phase == "decode" and layer is not None
             and v in ("slower", "faster")} == {("gemm", SLOW_LAYER), ("attn", SLOW_LAYER)}
            for lines in said
        )  # fmt: skip
        tell("one layer of 28 5 % slower, 10 runs a side: it and no other is named", f"{named / pairs:.1%}", ">= 90 %")


# -- large traces ------------------------------------------------------------------------------------------------------


def large(folder: Path) -> None:
    """Two traces of 1,000,000 steps x 28 layers: seconds and memory of the whole process, median of three."""
    paths = [folder / f"{side}.steps" for side in ("base", "new")]
    for path in paths:
        make_trace(path, 1_000_000, 4096)
    costs = [measured("diff", paths[0], "--against", paths[1]) for _ in range(3)]
    wall, cpu, memory = (statistics.median(column) for column in zip(*costs, strict=True))
    tell("two traces of 1,000,000 x 28: s (of processor time)", f"{wall:.1f} ({cpu:.1f})", "<= 5")
    tell("  peak memory, MB", f"{memory:.0f}", "<= 1000")
    for path in paths:
        path.unlink()


# -- the C engine ------------------------------------------------------------------------------------------------------


def c_engine(folder: Path) -> None:
    """Planted faults are placed, and -O0 against -O2 is the same but faster."""
    for fault, where in (("wrong_scale", "step 3 layer 1"), ("wrong_position", "step 3 layer 0")):
        diff = _compared(folder / fault, _engine("O2"), _engine("O2", fault), 1)
        layer = diff.layer
        seen = "not found" if layer is None else f"step {layer.step} layer {layer.layer}"
        tell(f"C engine, {fault}: first fingerprint that differs", seen, where)
    diff = _compared(folder / "slow", _engine("O2"), _engine("O2", "slow_layer"), 10)
    tell("C engine, slow_layer, 10 runs a side: layers named in decode's GEMM", _layers(diff, "gemm"), "1 slower")
    diff = _compared(folder / "levels", _engine("O0"), _engine("O2"), 10)
    seen = f"{diff.verdicts['tokens']}, {diff.verdicts['state']}, {diff.timing.direction}"
    tell("C engine, -O0 against -O2: tokens, state, time", seen, "same, same, faster")
    tell("  layers named", _layers(diff, None), "none")
    diff = _compared(folder / "alike", _engine("O2"), _engine("O2"), 10)
    tell("C engine, -O2 against itself: time", diff.timing.direction or diff.verdicts["time"], "no alarm")


def _engine(level: str, fault: str = "") -> str:
    target = f"build/{fault}/engine-{level}" if fault else f"build/engine-{level}"
    subprocess.run(["make", "-s", "-C", NATIVE, target, *([f"FAULT={fault}"] if fault else [])], check=True)
    return str(NATIVE / target)


def _compared(folder: Path, base: str, new: str, runs: int) -> Diff:
    words = [str(ROOT / "engine" / "demo"), "--ids", REQUEST, "--ignore-eos", "--max-new-tokens", "200"]
    commands = {side: [engine, *words, "--trace", "{trace}"] for side, engine in (("base", base), ("new", new))}
    paths = record(str(folder), commands, runs, warm_up=True, tell=lambda _: None)
    sides = [[(path, Table(path)) for path in paths if f"{side}-" in os.path.basename(path)] for side in commands]
    return compare(sides[0], sides[1])


def _layers(diff: Diff, part: str | None) -> str:
    named = [
        f"{t.line.layer} {t.judgement.verdict}"
        for t in diff.timing.lines
        if t.line.layer is not None and t.judgement.verdict in ("faster", "slower")
        and (part is None or (t.line.phase, t.line.part) == ("decode", part))
    ]  # fmt: skip
    return ", ".join(named) or "none"


if __name__ == "__main__":
    main()
