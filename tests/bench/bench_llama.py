"""What a hit in llama.cpp costs: the llama_cpp probe, and the same values read one by one, on the same run.

`make test-peers` builds what this needs; then `python tests/bench/bench_llama.py` prints one line a figure. The process
is pinned to one core: gdb and the program take turns, and a stop that changes cores measures the scheduler.
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


def main() -> None:
    """Print every figure."""
    if not PYTHON.exists():
        sys.exit("no .venv-peers; type: make test-peers")
    with tempfile.TemporaryDirectory() as folder:
        model = Path(folder) / "embedded.gguf"
        subprocess.run([PYTHON, PEERS / "write_gguf.py", ROOT / "engine" / "demo", model], check=True)
        one, few = seconds(model, []), seconds(model, [], 1)
        tell("llama.cpp alone, embedded model", f"{(one - few) / TOKENS * 1e3:.2f} ms a token", "-")
        trace = Path(folder) / "run.steps"
        recording = ["-ex", "stepscope probe llama_cpp", "-ex", f"stepscope record {trace}"]
        said = in_gdb(model, [*recording, "-ex", f"source {Path(__file__).parent / 'one_by_one.py'}"])
        probe = re.search(r"(\d+) hits, ([\d.]+) ms each", said)
        naive = re.search(r"one by one: ([\d.]+) over (\d+)", said)
        if probe is None or naive is None:
            sys.exit(said)
        ms = float(probe.group(2))
        tell(f"the probe, recording and rules on, {probe.group(1)} hits", f"{ms:.2f} ms a hit", "<= 1 ms")
        tell("the same values one by one, same hits", f"{float(naive.group(1)):.2f} ms a hit", "-")
        tell("one by one / probe", f"{float(naive.group(1)) / ms:.1f} x", "-")
        in_gdb(model, recording)
        table = Table(trace)
        times = [step["t_ns"] / 1e6 for step in table.plain(0, table.steps) if step is not None]
        empty = Path(folder) / "empty.py"
        empty.write_text(EMPTY)
        said = in_gdb(model, ["-ex", f"source {empty}"]).split("gaps:")[1]
        stops = [float(word) * 1e3 for word in said.split()[:TOKENS]]
        seen = f"{gap(times):.2f} / {gap(stops):.2f} ms"
        tell("from stop to stop, the forward included: probe / empty", seen, "-")


def gap(times: list[float]) -> float:
    """The usual time from one stop to the next, in ms."""
    return statistics.median(b - a for a, b in pairwise(times))


def tell(what: str, seen: str, goal: str) -> None:
    """One line of the table."""
    print(f"{what:<60} {seen:>24}   goal {goal}", flush=True)


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
