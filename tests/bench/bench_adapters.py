"""What recording `generate` of transformers costs: run by a Python that has torch and transformers.

    PYTHON tests/bench/bench_adapters.py [--layers 24] [--threads 1] [--rounds 7]

The weights are random, of the 0.5B shape, in float32. Generations without the adapter, with it, and with per-layer
times take turns; the figures are ratios of the medians of the processor time that a generation took, and of its time
on the clock.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import torch
import transformers

sys.path.insert(0, str(Path(__file__).parents[2]))

from traces.adapters.transformers import stepscope_record

SHAPE = {
    "hidden_size": 896,
    "intermediate_size": 4864,
    "num_attention_heads": 14,
    "num_key_value_heads": 2,
    "vocab_size": 151936,
    "tie_word_embeddings": True,
}
N_PROMPT, N_NEW = 64, 24


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--layers", type=int, default=24)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=7)
    asked = parser.parse_args()
    torch.set_num_threads(asked.threads)
    config = transformers.Qwen2Config(**SHAPE, num_hidden_layers=asked.layers)
    model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.float32).eval()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run.steps"
        ways: dict[str, Callable[[], AbstractContextManager[None]]] = {
            "plain": nullcontext,
            "without per-layer times": lambda: stepscope_record(model, path, per_layer=False),
            "with per-layer times": lambda: stepscope_record(model, path),
        }
        spent: dict[str, list[tuple[float, float]]] = {name: [] for name in ways}
        for turn in range(asked.rounds + 1):
            for name, around in ways.items():
                with around():
                    took = generate(model)
                if turn:  # the first turn warms up
                    spent[name].append(took)
    for name in list(ways)[1:]:
        processor, clock = (
            statistics.median(a[i] / b[i] for a, b in zip(spent[name], spent["plain"], strict=True)) for i in (0, 1)
        )
        print(f"{asked.layers} layers, {name} / plain: processor {processor:.4f}, clock {clock:.4f}")
    print(f"plain: {statistics.median(s for s, _ in spent['plain']) / N_NEW * 1000:.1f} ms of the processor a token")


def generate(model: Any) -> tuple[float, float]:
    """Seconds of the processor and on the clock."""
    ids = torch.arange(N_PROMPT)[None]
    processor, clock = time.process_time(), time.perf_counter()
    model.generate(
        ids, attention_mask=torch.ones_like(ids), max_new_tokens=N_NEW, min_new_tokens=N_NEW, do_sample=False
    )
    return time.process_time() - processor, time.perf_counter() - clock


if __name__ == "__main__":
    main()
