"""What recording costs a C engine: stepscope.h a step, and the C engine with and without `--trace`.

`python -m tests.bench.bench_native` prints one line a figure. Everything is pinned to one core with taskset; runs with
and without recording alternate, so that a drift of the machine meets both.
"""

from __future__ import annotations

import shutil
import statistics
import struct
import subprocess
import tempfile
import time
from pathlib import Path

import numpy as np

from tests.bench.figures import tell

ROOT = Path(__file__).parents[2]
NATIVE = ROOT / "engine" / "native"
LAYERS = 28
PINNED = ("taskset", "-c", "0")
PAIRS = 15


def main() -> None:
    """Print every figure."""
    subprocess.run(["make", "-s", "-C", NATIVE, "build/engine-O2"], check=True)
    with tempfile.TemporaryDirectory() as folder:
        header(Path(folder))
        engine("the embedded model, 4 layers", ROOT / "engine" / "demo", Path(folder), 1000)
        engine(f"a random model, {LAYERS} layers", random_model(Path(folder) / "random"), Path(folder), 120)


def header(folder: Path) -> None:
    """Microseconds a step of stepscope_record against a write of the same frame, to a file and to nowhere."""
    program = folder / "bench_stepscope"
    source = Path(__file__).parent / "bench_stepscope.c"
    subprocess.run(["gcc", "-std=gnu11", "-O2", f"-I{NATIVE}", source, "-o", program], check=True)
    for name, files in (("a file", ("a.steps", "b")), ("/dev/null", None)):
        paths = [folder / f for f in files] if files else ["/dev/null", "/dev/null"]
        done = subprocess.run([*PINNED, program, *paths], check=True, capture_output=True, text=True)
        record, write, size = map(float, done.stdout.split())
        what = f"stepscope.h, {LAYERS} layers, {size:.0f} B to {name}: record, write, difference; us"
        tell(what, f"{record:.2f} {write:.2f} {record - write:.2f}", "difference <= 1")


def engine(name: str, model: Path, folder: Path, n: int) -> None:
    """A whole run's wall time with --trace over the same without; off each goes what a run of one token takes."""
    trace = ("--trace", folder / "engine.steps")

    def seconds(tokens: int, *more: object) -> float:
        words = [NATIVE / "build/engine-O2", model, "--ids", "1,2,3", "--ignore-eos", "--max-new-tokens", tokens, *more]
        began = time.perf_counter()
        subprocess.run([*PINNED, *map(str, words)], check=True, stdout=subprocess.DEVNULL)
        return time.perf_counter() - began

    start = statistics.median(seconds(1) for _ in range(PAIRS))
    start_recorded = statistics.median(seconds(1, *trace) for _ in range(PAIRS))
    plain, ratios = [], []
    for _ in range(PAIRS):
        plain.append(seconds(n) - start)
        ratios.append((seconds(n, *trace) - start_recorded) / plain[-1])
    step_ms, ratio = statistics.median(plain) / n * 1e3, statistics.median(ratios)
    what = f"C engine, {name}, {step_ms:.2f} ms a step: recorded / plain, us more a step"
    tell(what, f"{ratio:.3f} {(ratio - 1) * step_ms * 1e3:.1f}", "ratio <= 1.02")


def random_model(folder: Path) -> Path:
    """A Llama of 28 small layers with random weights, in a folder as the engine reads it."""
    hidden, inner, vocab = 256, 704, 4096
    folder.mkdir()
    shutil.copy(ROOT / "tests/engine/oracle/tiny-llama-f32-untied-sharded/config.json", folder / "config.json")
    text = (folder / "config.json").read_text()
    changes = {
        '"hidden_size": 96': f'"hidden_size": {hidden}',
        '"intermediate_size": 256': f'"intermediate_size": {inner}',
        '"num_hidden_layers": 4': f'"num_hidden_layers": {LAYERS}',
        '"num_attention_heads": 6': '"num_attention_heads": 16',
        '"tie_word_embeddings": false': '"tie_word_embeddings": true',
        '"vocab_size": 512': f'"vocab_size": {vocab}',
    }
    for old, new in changes.items():
        text = text.replace(old, new)
    (folder / "config.json").write_text(text)
    shapes: dict[str, tuple[int, ...]] = {"model.embed_tokens.weight": (vocab, hidden), "model.norm.weight": (hidden,)}
    for layer in range(LAYERS):
        at = f"model.layers.{layer}."
        for part, rows in (("q", 256), ("k", 32), ("v", 32), ("o", hidden)):
            shapes[f"{at}self_attn.{part}_proj.weight"] = (rows, 256)
        for part, size in (("gate", (inner, hidden)), ("up", (inner, hidden)), ("down", (hidden, inner))):
            shapes[f"{at}mlp.{part}_proj.weight"] = size
        shapes[f"{at}input_layernorm.weight"] = shapes[f"{at}post_attention_layernorm.weight"] = (hidden,)
    write_safetensors(folder / "model.safetensors", shapes)
    return folder


def write_safetensors(path: Path, shapes: dict[str, tuple[int, ...]]) -> None:
    """Random float32 tensors of these shapes."""
    generator = np.random.default_rng(1)
    parts, entries, offset = [], [], 0
    for name, shape in shapes.items():
        values = (generator.standard_normal(shape) * 0.02 + (len(shape) == 1)).astype("<f4").tobytes()
        dims = ",".join(map(str, shape))
        entries.append(f'"{name}":{{"dtype":"F32","shape":[{dims}],"data_offsets":[{offset},{offset + len(values)}]}}')
        parts.append(values)
        offset += len(values)
    header = ("{" + ",".join(entries) + "}").encode()
    path.write_bytes(struct.pack("<Q", len(header)) + header + b"".join(parts))


if __name__ == "__main__":
    main()
