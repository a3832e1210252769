"""The least time that a decode step can take: the bytes it must read, over the rate at which memory gives them.

One token needs every weight once (of experts, only the chosen ones) and every row of the KV cache, and does
next to no arithmetic with each: memory is what it waits for. What an engine needs above this floor is its own.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from engine.config import ModelConfig, read_config
from engine.gguf_file import read_gguf
from engine.gguf_model import gguf_checkpoint, gguf_config
from engine.model import Model
from engine.weights import Array, Checkpoint, Weights, checked_shapes, expected_shapes, open_checkpoint

PARTS = ("embedding", "norms", "qkv", "o", "gate_up", "down", "lm_head")
"""What a token reads of the weights; biases count with their products, the router with gate_up."""

ELEMENT_BYTES = {"f32": 4, "f16": 2, "bf16": 2}

_MEASURED_BYTES = 512 << 20
_LEAST_PASSES, _LEAST_SECONDS = 5, 0.02

SizeOf = Callable[[str, tuple[int, ...]], int]
"""The bytes of a tensor of a name and shape."""


@dataclass(frozen=True)
class Floor:
    """What a decode step reads at least, in bytes: the weights by part, and the KV cache.

    layer_row_bytes: keys and values of one token in one layer. windows: for each layer the newest tokens that it
    attends to, None for all. queries_per_key: query heads that share a key head.
    """

    weight_bytes: dict[str, int]
    layer_row_bytes: float
    windows: tuple[int | None, ...]
    queries_per_key: int

    @property
    def bytes_per_token(self) -> int:
        """The weights that one token reads."""
        return sum(self.weight_bytes.values())

    @property
    def kv_bytes_per_row(self) -> int:
        """What one token more adds to the KV cache, in the layers that keep all of it."""
        return round(self.layer_row_bytes * self.windows.count(None))

    def kv_bytes(self, context: int) -> int:
        """The KV cache of `context` tokens."""
        rows = sum(context if window is None else min(window, context) for window in self.windows)
        return round(self.layer_row_bytes * rows)

    def least_ms(self, context: int, bandwidth: float) -> float:
        """The floor of a step over `context` tokens, at `bandwidth` bytes a second."""
        return (self.bytes_per_token + self.kv_bytes(context)) / bandwidth * 1000


def floor_of(config: ModelConfig, size_of: SizeOf | None = None, kv_element_bytes: float = 4) -> Floor:
    """A model's floor.

    size_of: of each weight, by default that of float32, as this engine holds them. kv_element_bytes: a key's or
    value's; a row has 2 · layers · kv_heads · head_dim of them.
    """
    return Floor(
        bytes_read(config, size_of or in_elements(4)),
        2 * config.n_kv_heads * config.head_dim * kv_element_bytes,
        config.layer_windows,
        config.n_heads // config.n_kv_heads,
    )


def bytes_read(config: ModelConfig, size_of: SizeOf) -> dict[str, int]:
    """The bytes of weights that one token reads, by part.

    Of the embedding that is one row, unless it is the lm_head as well; of experts as many as a token goes
    through.
    """
    read = dict.fromkeys(PARTS, 0)
    for name, shape in expected_shapes(config).items():
        part, size = _part(name), size_of(name, shape)
        if ".experts." in name and config.experts is not None:
            if int(name.partition(".experts.")[2].partition(".")[0]) < config.experts.n_used:
                read[part] += size
        elif part == "embedding":
            read[part] += size // shape[0]
            read["lm_head"] += size if config.tied else 0
        else:
            read[part] += size
    return read


def in_elements(n_bytes: float) -> SizeOf:
    """Every weight in so many bytes."""
    return lambda name, shape: round(math.prod(shape) * n_bytes)


def as_stored(config: ModelConfig, checkpoint: Checkpoint) -> SizeOf:
    """Every weight as its file holds it. Raises EngineError where the files do not hold what the config asks for."""
    checked_shapes(config, checkpoint)
    return lambda name, shape: checkpoint.tensors[name].n_bytes


def read_shape(path: Path) -> tuple[ModelConfig, Checkpoint | None]:
    """A model's shape and its tensors' places, without loading any.

    path: a model folder, its config.json alone, or a GGUF file. The checkpoint is None where only the config is
    there. Raises EngineError for what is missing or not supported.
    """
    if path.suffix == ".gguf" or (path.is_file() and path.suffix != ".json"):
        file = read_gguf(path)
        config = gguf_config(file)
        return config, gguf_checkpoint(file, config)
    config = read_config(path)
    has_weights = path.is_dir() and any(path.glob("*.safetensors*"))
    return config, open_checkpoint(path) if has_weights else None


def floor_facts(model: Model, kv_element_bytes: float = 4) -> dict[str, Any]:
    """A loaded model's floor on this machine, as a trace's header carries it; GB are 10^9 bytes."""
    floor = floor_of(model.config, kv_element_bytes=kv_element_bytes)
    return {
        "bytes_per_token": floor.bytes_per_token,
        "kv_bytes_per_row": floor.kv_bytes_per_row,
        "bandwidth_gb_s": round(measure_bandwidth(matrices_of(model.weights)) / 1e9, 3),
        "weight_bytes": floor.weight_bytes,
    }


def measure_bandwidth(matrices: Iterable[Array]) -> float:
    """Bytes a second that matrix-vector products get out of memory, with the threads now in use.

    The best of some passes over these matrices, up to 512 MB of them: where they fit in the processor's cache,
    that is the cache's rate, as it is for a model of their size.
    """
    pairs = [(matrix, np.ones(matrix.shape[1], np.float32)) for matrix in _at_most(_MEASURED_BYTES, matrices)]
    n_bytes = sum(matrix.nbytes for matrix, _ in pairs)
    spent: list[float] = []
    while len(spent) < _LEAST_PASSES or sum(spent) < _LEAST_SECONDS:
        began = time.perf_counter()
        for matrix, vector in pairs:
            matrix @ vector
        spent.append(time.perf_counter() - began)
    return n_bytes / min(spent)


def stand_in(n_bytes: int) -> list[Array]:
    """A matrix of about as many bytes, to measure with where the weights are not at hand."""
    columns = 1024
    rows = max(1, min(n_bytes, _MEASURED_BYTES) // (4 * columns))
    return [np.ones((rows, columns), np.float32)]


def matrices_of(weights: Weights) -> Iterator[Array]:
    """The matrices that a token is multiplied with; of a layer with experts, all of them."""
    for layer in weights.layers:
        yield from (layer.qkv, layer.o)
        if layer.router is None:
            yield from (layer.gate_up, layer.down)
        else:
            yield from (*layer.gate_up, *layer.down)
    yield weights.lm_head


def _part(name: str) -> str:
    module = name.split(".")[-2]
    if module.endswith("norm"):
        return "norms"
    return {
        "embed_tokens": "embedding",
        "lm_head": "lm_head",
        "o_proj": "o",
        "down_proj": "down",
        "gate": "gate_up",
        "gate_proj": "gate_up",
        "up_proj": "gate_up",
    }.get(module, "qkv")


def _at_most(n_bytes: int, matrices: Iterable[Array]) -> Sequence[Array]:
    """Matrices, the last one cut, up to so many bytes."""
    taken: list[Array] = []
    for matrix in matrices:
        rows = min(len(matrix), n_bytes // (matrix.shape[1] * matrix.itemsize))
        if rows < 1:
            break
        taken.append(matrix[:rows])
        n_bytes -= taken[-1].nbytes
    return taken
