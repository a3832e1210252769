"""What recording `generate` of transformers costs: run by a Python that has torch and transformers.

    PYTHON -m tests.bench.bench_adapters [--layers 24] [--threads 1] [--rounds 7]

The weights are random, of the 0.5B shape, in float32. Generations without the adapter, with it, and with per-layer
times take turns; the figures are medians of ratios, of the processor time that a generation took and of its time on the
clock. On a busy machine they move by more than what is measured, so the same is done with a model as deep and with as
many ids but narrow, whose tokens are cheap: what the adapter adds to one of those, it adds to any; over a token of the
whole shape that is its share.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import torch
import transformers

from tests.bench.figures import tell
from traces.adapters.transformers import stepscope_record

SHAPE = {
    "hidden_size": 896,
    "intermediate_size": 4864,
    "num_attention_heads": 14,
    "num_key_value_heads": 2,
    "vocab_size": 151936,
    "tie_word_embeddings": True,
}
NARROW = {"hidden_size": 56, "intermediate_size": 64}
N_PROMPT, N_NEW = 64, 24


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--layers", type=int, default=24)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=7)
    asked = parser.parse_args()
    torch.set_num_threads(asked.threads)
    whole = measure(SHAPE, asked.layers, asked.rounds)
    narrow = measure({**SHAPE, **NARROW}, asked.layers, 3 * asked.rounds)
    token = statistics.median(processor for processor, _ in whole["plain"])
    for name in list(whole)[1:]:
        processor, clock = (
            statistics.median(a[i] / b[i] for a, b in zip(whole[name], whole["plain"], strict=True)) for i in (0, 1)
        )
        added = statistics.median(a[0] - b[0] for a, b in zip(narrow[name], narrow["plain"], strict=True))
        goal = "<= 1.01" if "without" in name else "<= 1.03"
        tell(f"generate of the 0.5B shape, recorded {name} / plain", f"{clock:.4f}", goal)
        tell("  the same in time of the processor", f"{processor:.4f}", goal)
        what = f"  added to a token of a narrow model: ms; share of the {token / N_NEW * 1000:.0f} ms of the whole one"
        tell(what, f"{added / N_NEW * 1000:.2f}; {added / token:.2%}")


def measure(shape: dict[str, Any], n_layers: int, rounds: int) -> dict[str, list[tuple[float, float]]]:
    """For each way the seconds of the processor and on the clock of each round."""
    config = transformers.Qwen2Config(**shape, num_hidden_layers=n_layers)
    model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.float32).eval()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run.steps"
        ways: dict[str, Callable[[], AbstractContextManager[None]]] = {
            "plain": nullcontext,
            "without per-layer times": lambda: stepscope_record(model, path, per_layer=False),
            "with per-layer times": lambda: stepscope_record(model, path),
        }
        spent: dict[str, list[tuple[float, float]]] = {name: [] for name in ways}
        for turn in range(rounds + 1):
            for name, around in ways.items():
                with around():
                    took = generate(model)
                if turn:  # the first turn warms up
                    spent[name].append(took)
    return spent


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
