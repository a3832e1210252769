"""How near the engine's decode comes to its matrix products alone, and what recording a step costs.

    python tests/bench/bench_engine.py [--steps N] [--context N] [--layers N]

A random model of the 0.5B shape is made in memory. What is compared (the products alone, a decode step, a
recorded decode step) takes turns step by step, so that whatever else the machine does falls on all of them
alike; a ratio is the median over the turns. Only the ratios mean anything on another machine.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from engine.config import ModelConfig
from engine.loop import Step, StopSettings, generate
from engine.model import Model
from engine.sampling import SamplerSettings, make_sampler
from engine.tracing import recorded_steps, run_facts
from engine.weights import Array, LayerWeights, Weights
from traces.writer import TraceWriter


def shape(n_layers: int, hidden_size: int, intermediate_size: int, vocab_size: int) -> ModelConfig:
    """A Qwen2 model with 14 query and 2 key heads, tied, of a 32k context."""
    return ModelConfig(
        architecture="Qwen2ForCausalLM",
        n_layers=n_layers,
        hidden_size=hidden_size,
        n_heads=14,
        n_kv_heads=2,
        head_dim=64,
        intermediate_size=intermediate_size,
        vocab_size=vocab_size,
        context_length=32768,
        tied=True,
        qkv_bias=True,
    )


def random_model(config: ModelConfig) -> Model:
    """Weights drawn once; their values do not matter for the time, their size does."""
    generator = np.random.default_rng(0)

    def matrix(rows: int, columns: int) -> Array:
        values = generator.standard_normal((rows, columns), dtype=np.float32)
        values *= np.float32(columns**-0.5)
        return values

    hidden, inner, head = config.hidden_size, config.intermediate_size, config.head_dim
    ones = np.ones(hidden, np.float32)
    layers = [
        LayerWeights(
            attn_norm=ones,
            qkv=matrix(config.n_qkv_heads * head, hidden),
            qkv_bias=np.zeros(config.n_qkv_heads * head, np.float32),
            o=matrix(hidden, config.n_heads * head),
            mlp_norm=ones,
            gate_up=matrix(2 * inner, hidden),
            down=matrix(hidden, inner),
        )
        for _ in range(config.n_layers)
    ]
    embedding = matrix(config.vocab_size, hidden)
    return Model(config, Weights(embedding, layers, ones, embedding), name="random")


def products_alone(model: Model) -> Callable[[], None]:
    """Every matrix-vector product of one decode step, back to back, and nothing else."""
    matrices = [m for layer in model.weights.layers for m in (layer.qkv, layer.o, layer.gate_up, layer.down)]
    matrices.append(model.weights.lm_head)
    vectors = {m.shape[1]: np.ones(m.shape[1], np.float32) for m in matrices}
    pairs = [(m, vectors[m.shape[1]]) for m in matrices]

    def run() -> None:
        for matrix, vector in pairs:
            matrix @ vector

    return run


def measure(model: Model, context: int, n_steps: int) -> dict[str, list[float]]:
    """The ms of each turn of the products alone, of a decode step and of a recorded decode step."""
    prompt = [i % model.config.vocab_size for i in range(context)]
    stops = StopSettings(max_new_tokens=n_steps + 3)
    sampler = make_sampler(SamplerSettings())
    floor = products_alone(model)
    with tempfile.TemporaryDirectory() as folder:
        facts = run_facts(model, SamplerSettings(), stops)
        with TraceWriter(Path(folder) / "bench.steps", facts, flush="interval") as writer:
            plain = generate(model, prompt, sampler, stops, model.config.context_length)
            recorded = recorded_steps(writer, model, prompt, sampler, stops)
            turns: dict[str, Callable[[], object]] = {
                "products": floor,
                "decode": lambda: next_step(plain),
                "recorded": lambda: next_step(recorded),
            }
            for turn in turns.values():  # prefill
                turn()
            times: dict[str, list[float]] = {name: [] for name in turns}
            for _ in range(n_steps):
                for name, turn in turns.items():
                    began = time.perf_counter()
                    turn()
                    times[name].append((time.perf_counter() - began) * 1000)
    return {name: spent[2:] for name, spent in times.items()}


def ratio(above: list[float], below: list[float]) -> float:
    """The median of the turns' own ratios."""
    return statistics.median(a / b for a, b in zip(above, below, strict=True))


def next_step(steps: Iterator[Step]) -> Step:
    """One step of a loop that has not ended."""
    return next(steps)


def main() -> None:
    """Measure and print."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--steps", type=int, default=30, help="decode steps of each kind")
    options.add_argument("--context", type=int, nargs="+", default=[64, 1024], help="prompt lengths")
    options.add_argument("--layers", type=int, default=24)
    asked = options.parse_args()

    model = random_model(shape(asked.layers, 896, 4864, 151936))
    print("context  products  decode  recorded   (median ms)   products/decode  recorded/decode")
    for context in asked.context:
        ms = measure(model, context, asked.steps)
        medians = [statistics.median(ms[name]) for name in ("products", "decode", "recorded")]
        print(
            f"{context:7d}  {medians[0]:8.2f}  {medians[1]:6.2f}  {medians[2]:8.2f}"
            f"{ratio(ms['products'], ms['decode']):31.3f}{ratio(ms['recorded'], ms['decode']):17.4f}",
            flush=True,
        )

    # the cost does not depend on the matrices' size: small ones show it without their noise
    small = measure(random_model(shape(asked.layers, 896, 64, 256)), 64, max(400, asked.steps))
    cost = statistics.median(r - d for r, d in zip(small["recorded"], small["decode"], strict=True))
    share = cost / medians[1]
    print(f"recording {asked.layers} layers costs {cost:.3f} ms a step: {share:.2%} of a decode step")


if __name__ == "__main__":
    main()
