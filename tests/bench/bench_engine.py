"""How near the engine's decode comes to its matrix products alone, what recording a step costs, and how transformers
does.

    python -m tests.bench.bench_engine [--steps N] [--context N] [--layers N] [--peer PYTHON]

A random model of the 0.5B shape is made in memory. What is compared (the products alone, a decode step, a
recorded decode step, one of transformers) takes turns step by step, so that whatever else the machine does falls on
all of them alike; a ratio is the median over the turns. Only the ratios mean anything on another machine. PYTHON is an
interpreter that has torch and transformers; without it that comparison is left out.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from engine.config import ModelConfig, read_config
from engine.loop import Step, StopSettings, generate
from engine.model import Model
from engine.sampling import SamplerSettings, make_sampler
from engine.threads import limit_threads, threads_in_use
from engine.tracing import recorded_steps, run_facts
from engine.weights import Array, LayerWeights, Weights
from tests.bench.figures import tell
from traces.writer import TraceWriter


def config_json(
    n_layers: int, hidden_size: int = 896, intermediate_size: int = 4864, vocab_size: int = 151936
) -> dict[str, Any]:
    """Qwen2.5-0.5B's config.json, or one of another size with its heads."""
    return {
        "architectures": ["Qwen2ForCausalLM"],
        "model_type": "qwen2",
        "num_hidden_layers": n_layers,
        "hidden_size": hidden_size,
        "intermediate_size": intermediate_size,
        "num_attention_heads": 14,
        "num_key_value_heads": 2,
        "vocab_size": vocab_size,
        "max_position_embeddings": 32768,
        "rms_norm_eps": 1e-6,
        "rope_theta": 1e6,
        "tie_word_embeddings": True,
    }


def shape(entries: dict[str, Any]) -> ModelConfig:
    """The shape that a config.json of these entries has."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "config.json").write_text(json.dumps(entries))
        return read_config(Path(folder))


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
                    times[name].append(timed(turn))
    return {name: spent[2:] for name, spent in times.items()}


def ratio(above: list[float], below: list[float]) -> float:
    """The median of the turns' own ratios."""
    return statistics.median(a / b for a, b in zip(above, below, strict=True))


def next_step(steps: Iterator[Step]) -> Step:
    """One step of a loop that has not ended."""
    return next(steps)


class Peer:
    """transformers in a process of its own, which sleeps between its turns."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def turn(self, what: str) -> float:
        """Its milliseconds for `prefill N` or `decode`."""
        assert self._process.stdin and self._process.stdout
        self._process.stdin.write(what + "\n")
        self._process.stdin.flush()
        return float(self._process.stdout.readline())


@contextmanager
def started_peer(python: str, entries: dict[str, Any]) -> Iterator[Peer]:
    """transformers with this shape and as many threads as the engine has."""
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "config.json"
        config.write_text(json.dumps(entries))
        command = [python, str(Path(__file__).with_name("peer_transformers.py")), str(config), str(threads_in_use())]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout
            assert process.stdout.readline() == "ready\n", "the peer did not start"
            yield Peer(process)
            assert process.stdin
            process.stdin.close()


def against_peer(model: Model, peer: Peer, context: int, n_steps: int, n_prefills: int) -> None:
    """Prefill, then decode, in turns with transformers; printed as ratios."""
    prompt = [i % model.config.vocab_size for i in range(context)]
    pairs = {"prefill": [(prefill_ms(model, prompt), peer.turn(f"prefill {context}")) for _ in range(n_prefills)]}
    steps = generate(
        model, prompt, make_sampler(SamplerSettings()), StopSettings(max_new_tokens=n_steps + 1), context + n_steps + 1
    )
    next_step(steps)
    pairs["decode"] = [(timed(lambda: next_step(steps)), peer.turn("decode")) for _ in range(n_steps)]
    for what, goal in (("prefill", 1.0), ("decode", 1.15)):
        ours, theirs = (list(column) for column in zip(*pairs[what][1:], strict=True))
        took = f"{statistics.median(theirs):.0f} ms / the engine, {statistics.median(ours):.0f} ms"
        tell(f"{what} at context {context}: transformers, {took}", f"{ratio(theirs, ours):.2f}", f">= {goal}")


def prefill_ms(model: Model, prompt: list[int]) -> float:
    """The ms of feeding a prompt to an empty cache."""
    cache = model.new_cache(len(prompt))
    return timed(lambda: model.forward(prompt, cache))


def timed(turn: Callable[[], object]) -> float:
    """The ms of one turn."""
    began = time.perf_counter()
    turn()
    return (time.perf_counter() - began) * 1000


def main() -> None:
    """Measure and print."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--steps", type=int, default=30, help="decode steps of each kind")
    options.add_argument("--context", type=int, nargs="+", default=[64, 1024, 4096], help="prompt lengths")
    options.add_argument("--layers", type=int, default=24)
    options.add_argument("--threads", type=int, help="of the products and of the peer alike; by default BLAS's own")
    options.add_argument("--peer", metavar="PYTHON", help="an interpreter that has torch and transformers")
    options.add_argument("--prefills", type=int, default=5, help="prompts of 512 against transformers")
    asked = options.parse_args()
    if asked.threads:
        limit_threads(asked.threads)

    model = random_model(shape(config_json(asked.layers)))
    for context in asked.context:
        ms = measure(model, context, asked.steps)
        medians = [statistics.median(ms[name]) for name in ("products", "decode", "recorded")]
        what = f"decode at context {context}: its products alone, {medians[0]:.1f} ms / decode, {medians[1]:.1f} ms"
        tell(what, f"{ratio(ms['products'], ms['decode']):.3f}", ">= 0.9" if context < 1000 else "")
        tell("  recorded / not recorded", f"{ratio(ms['recorded'], ms['decode']):.4f}", "<= 1.01")

    # the cost does not depend on the matrices' size: small ones show it without their noise
    tiny = shape(config_json(asked.layers, intermediate_size=64, vocab_size=256))
    small = measure(random_model(tiny), 64, max(400, asked.steps))
    cost = statistics.median(r - d for r, d in zip(small["recorded"], small["decode"], strict=True))
    share = cost / medians[1]
    tell(
        f"recording {asked.layers} layers: ms a step; share of a decode step", f"{cost:.3f}; {share:.2%}", "<= 0.3; 1 %"
    )
    if asked.peer:
        with started_peer(asked.peer, config_json(asked.layers)) as peer:
            against_peer(model, peer, 512, asked.steps, asked.prefills)


if __name__ == "__main__":
    main()
