"""Stored tensors in, float32 matrices out.

Headers are checked against the files and against the model's shape before anything is allocated; then every
tensor is mapped and converted once, block by block, so that memory peaks near the float32 size. Projections
that read the same input are stored as one matrix: one product then does the work of two or three.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from engine.config import ModelConfig, read_json, refuse_endless
from engine.errors import EngineError

Array = NDArray[np.float32]
Progress = Callable[[int, int], None]
"""Called with the bytes read so far and in all."""

SINGLE_FILE = "model.safetensors"
INDEX_FILE = "model.safetensors.index.json"


class Block(NamedTuple):
    """The least that a dtype stores together: so many values in so many bytes."""

    values: int
    n_bytes: int


PLAIN = {"F32": Block(1, 4), "F16": Block(1, 2), "BF16": Block(1, 2)}
"""Dtypes that a safetensors file may have."""

BLOCKS = PLAIN | {
    "Q4_0": Block(32, 18),
    "Q4_1": Block(32, 20),
    "Q5_0": Block(32, 22),
    "Q5_1": Block(32, 24),
    "Q8_0": Block(32, 34),
    "Q2_K": Block(256, 84),
    "Q3_K": Block(256, 110),
    "Q4_K": Block(256, 144),
    "Q5_K": Block(256, 176),
    "Q6_K": Block(256, 210),
}
"""Every dtype that is read: those, and what a GGUF file may be quantised as."""

# converted at once: large enough that numpy's own cost vanishes, small enough for a cache; whole blocks of any dtype
_VALUES_AT_ONCE = 1 << 20
_HASHED_BYTES = 64 << 20
_SHOWN_BYTES = 256 << 20


@dataclass(frozen=True)
class StoredTensor:
    """A tensor's place in a file: `offset` in bytes from its start, `dtype` as BLOCKS spells it.

    paired_heads: 0, or the number of heads whose rows stand in the order that llama.cpp's RoPE wants, the two
    of a rotated pair side by side.
    """

    path: Path
    name: str
    dtype: str
    shape: tuple[int, ...]
    offset: int
    paired_heads: int = 0

    @property
    def n_bytes(self) -> int:
        """Size in the file; for dtypes that the engine reads."""
        block = BLOCKS[self.dtype]
        return math.prod(self.shape) // block.values * block.n_bytes


@dataclass(frozen=True)
class Checkpoint:
    """Every tensor of a model by transformers' name, and the files that hold them.

    place: the model's folder or file. described_in: what states the model's shape, for error messages.
    """

    place: Path
    files: tuple[Path, ...]
    tensors: Mapping[str, StoredTensor]
    described_in: str = "config.json"


@dataclass(frozen=True)
class LayerWeights:
    """One decoder layer; matrices are (outputs, inputs), row-major float32.

    `qkv` holds the rows of the query heads, then the key heads, then the value heads; `gate_up` those of
    gate, then up. `qk_norm` is one row a query or key head, (n_heads + n_kv_heads, head_dim).
    Where there is a `router`, (n_experts, hidden_size), `gate_up` and `down` hold one such matrix an expert,
    (n_experts, outputs, inputs).
    """

    attn_norm: Array
    qkv: Array
    o: Array
    mlp_norm: Array
    gate_up: Array
    down: Array
    qkv_bias: Array | None = None
    qk_norm: Array | None = None
    o_bias: Array | None = None
    gate_up_bias: Array | None = None
    down_bias: Array | None = None
    router: Array | None = None


@dataclass(frozen=True)
class Weights:
    """A whole decoder.

    `embedding` and `lm_head` are (vocab_size, hidden_size), and the same array where they are tied.
    """

    embedding: Array
    layers: Sequence[LayerWeights]
    final_norm: Array
    lm_head: Array


def open_checkpoint(folder: Path) -> Checkpoint:
    """Read the headers of one safetensors file or of every shard that the index names.

    Raises EngineError for a missing or half-downloaded file, naming it, and for a header that does not fit
    its file.
    """
    _refuse_incomplete_parts(folder)
    if (folder / INDEX_FILE).exists():
        files = _shards(folder)
    elif (folder / SINGLE_FILE).exists():
        files = [folder / SINGLE_FILE]
    else:
        raise EngineError(
            f"{folder}: neither {SINGLE_FILE} nor {INDEX_FILE} is here; only safetensors weights are read"
        )
    tensors: dict[str, StoredTensor] = {}
    for path in files:
        tensors.update(read_header(path))
    return Checkpoint(folder, tuple(files), tensors)


def read_header(path: Path) -> dict[str, StoredTensor]:
    """The tensors that a safetensors file declares.

    Format: an 8-byte little-endian length, that many bytes of JSON, then the data.
    Raises EngineError where a length does not fit the file.
    """
    size, text = _header_text(path)
    try:
        header = json.loads(text)
        declared = {name: entry for name, entry in header.items() if name != "__metadata__"}
        return {n: _stored(path, n, entry, 8 + len(text), size) for n, entry in declared.items()}
    except EngineError:
        raise
    except (ValueError, AttributeError, KeyError, TypeError, OverflowError, RecursionError):
        raise EngineError(f"{path}: the header is not a safetensors header; download it again") from None


def load_weights(config: ModelConfig, checkpoint: Checkpoint, progress: Progress | None = None) -> Weights:
    """All weights as float32.

    progress: called after every block; by default a bar on stderr, at a terminal and for large models only.
    Raises EngineError for a missing tensor or one too many, a wrong shape or a dtype that is not read, before
    allocating.
    """
    expected = checked_shapes(config, checkpoint)
    total = sum(checkpoint.tensors[name].n_bytes for name in expected)
    reader = _Reader(checkpoint.tensors, total, progress or _bar_at_a_terminal(total))
    layers = [_load_layer(config, reader, layer) for layer in range(config.n_layers)]
    embedding = reader.stack(f"{config.tensor_prefix}.embed_tokens.weight")
    return Weights(
        embedding=embedding,
        layers=layers,
        final_norm=reader.stack(f"{config.tensor_prefix}.norm.weight"),
        lm_head=embedding if config.tied else reader.stack("lm_head.weight"),
    )


def checked_shapes(config: ModelConfig, checkpoint: Checkpoint) -> dict[str, tuple[int, ...]]:
    """`expected_shapes`, once the checkpoint is known to hold them and no others in its layers.

    Raises EngineError as `load_weights`.
    """
    expected = expected_shapes(config)
    for name, shape in expected.items():
        _check(checkpoint, name, shape)
    for name in checkpoint.tensors:
        # a bias or a layer that is left out is another model; older files carry RoPE's frequencies, computed here
        if name.startswith(f"{config.tensor_prefix}.layers.") and name not in expected and "rotary_emb" not in name:
            raise EngineError(
                f"{checkpoint.place}: tensor {name} is in the weights, {checkpoint.described_in} does not ask for it; "
                "is it this model's?"
            )
    return expected


def expected_shapes(config: ModelConfig) -> dict[str, tuple[int, ...]]:
    """The name and shape of every tensor that a model of this shape must have, in transformers' names."""
    hidden, head, prefix = config.hidden_size, config.head_dim, config.tensor_prefix
    q_rows, kv_rows = config.n_heads * head, config.n_kv_heads * head
    shapes: dict[str, tuple[int, ...]] = {f"{prefix}.embed_tokens.weight": (config.vocab_size, hidden)}
    for layer in range(config.n_layers):
        at = f"{prefix}.layers.{layer}"
        shapes[f"{at}.input_layernorm.weight"] = (hidden,)
        for part, rows in (("q", q_rows), ("k", kv_rows), ("v", kv_rows)):
            shapes[f"{at}.self_attn.{part}_proj.weight"] = (rows, hidden)
            if config.qkv_bias:
                shapes[f"{at}.self_attn.{part}_proj.bias"] = (rows,)
        if config.qk_norm:
            shapes[f"{at}.self_attn.q_norm.weight"] = (head,)
            shapes[f"{at}.self_attn.k_norm.weight"] = (head,)
        shapes[f"{at}.self_attn.o_proj.weight"] = (hidden, q_rows)
        if config.o_bias:
            shapes[f"{at}.self_attn.o_proj.bias"] = (hidden,)
        shapes[f"{at}.post_attention_layernorm.weight"] = (hidden,)
        shapes.update(_mlp_shapes(config, layer))
    shapes[f"{prefix}.norm.weight"] = (hidden,)
    if not config.tied:
        shapes["lm_head.weight"] = (config.vocab_size, hidden)
    return shapes


def _mlp_shapes(config: ModelConfig, layer: int) -> dict[str, tuple[int, ...]]:
    hidden, inner = config.hidden_size, config.intermediate_size
    at = f"{config.tensor_prefix}.layers.{layer}.mlp"
    shapes: dict[str, tuple[int, ...]] = {}
    mlps = [at]
    if config.experts is not None and config.has_experts(layer):
        inner = config.experts.intermediate_size
        shapes[f"{at}.gate.weight"] = (config.experts.n_experts, hidden)
        mlps = [f"{at}.experts.{expert}" for expert in range(config.experts.n_experts)]
    for mlp in mlps:
        for part, rows, columns in (("gate", inner, hidden), ("up", inner, hidden), ("down", hidden, inner)):
            shapes[f"{mlp}.{part}_proj.weight"] = (rows, columns)
            if config.mlp_bias:
                shapes[f"{mlp}.{part}_proj.bias"] = (rows,)
    return shapes


def weights_sha256(files: Iterable[Path]) -> str | None:
    """SHA-256 (hex) over the bytes of the files in the order given; None above 64 MB, where it would delay a
    run.
    """
    paths = list(files)
    if sum(path.stat().st_size for path in paths) > _HASHED_BYTES:
        return None
    digest = hashlib.sha256()
    for path in paths:
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _refuse_incomplete_parts(folder: Path) -> None:
    for part in sorted(folder.glob("*.incomplete")):
        if not part.with_suffix("").exists():
            raise EngineError(f"{part}: this download did not finish; download the model again")


def _shards(folder: Path) -> list[Path]:
    index = folder / INDEX_FILE
    named = read_json(index).get("weight_map")
    if not isinstance(named, dict) or not named or not all(isinstance(name, str) for name in named.values()):
        raise EngineError(f"{index}: weight_map is missing or damaged; download it again")
    shards = [folder / name for name in sorted(set(named.values()))]
    for path in shards:
        if not path.exists():
            raise EngineError(f"{path}: this shard is missing, {index.name} names it; download it again")
    return shards


def _header_text(path: Path) -> tuple[int, bytes]:
    """The file's size in bytes and its header's JSON, read only if it fits."""
    refuse_endless(path)
    try:
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            length = int.from_bytes(file.read(8), "little")
            if size >= 8 and length <= size - 8:
                return size, file.read(length)
    except OSError as error:
        raise EngineError(f"{path}: cannot read: {error.strerror}") from None
    raise EngineError(f"{path}: the header should be {length} bytes long, the file has {size}; download it again")


def _stored(path: Path, name: str, entry: Mapping[str, Any], data_start: int, size: int) -> StoredTensor:
    shape, (begin, end) = tuple(entry["shape"]), entry["data_offsets"]
    if not all(type(n) is int and n >= 0 for n in (*shape, begin, end)):
        raise ValueError(name)
    tensor = StoredTensor(path, name, str(entry["dtype"]), shape, data_start + begin)
    if data_start + end > size:
        raise EngineError(f"{path}: {name} ends at byte {data_start + end}, the file has {size}; download it again")
    if tensor.dtype in PLAIN and tensor.n_bytes != end - begin:
        raise EngineError(
            f"{path}: {name} {list(shape)} in {tensor.dtype} is not {end - begin} bytes; download it again"
        )
    return tensor


def _check(checkpoint: Checkpoint, name: str, shape: tuple[int, ...]) -> None:
    tensor, described_in = checkpoint.tensors.get(name), checkpoint.described_in
    if tensor is None:
        raise EngineError(
            f"{checkpoint.place}: tensor {name} is missing; {described_in} asks for it, is it this model's?"
        )
    if tensor.shape != shape:
        raise EngineError(
            f"{tensor.path}: {tensor.name} has shape {list(tensor.shape)}, {described_in} asks for {list(shape)}; "
            f"use the {described_in} that belongs to these weights"
        )
    if tensor.dtype not in BLOCKS:
        raise EngineError(
            f"{tensor.path}: {name} has dtype {tensor.dtype}, supported: {', '.join(PLAIN)}; "
            "use the same model in one of these"
        )


def _load_layer(config: ModelConfig, reader: _Reader, layer: int) -> LayerWeights:
    at = f"{config.tensor_prefix}.layers.{layer}"
    attention = f"{at}.self_attn"
    qkv = [f"{attention}.{part}_proj" for part in ("q", "k", "v")]
    return LayerWeights(
        attn_norm=reader.stack(f"{at}.input_layernorm.weight"),
        qkv=reader.stack(*(f"{name}.weight" for name in qkv)),
        qkv_bias=reader.stack(*(f"{name}.bias" for name in qkv)) if config.qkv_bias else None,
        qk_norm=_load_qk_norm(config, reader, attention) if config.qk_norm else None,
        o=reader.stack(f"{attention}.o_proj.weight"),
        o_bias=reader.stack(f"{attention}.o_proj.bias") if config.o_bias else None,
        mlp_norm=reader.stack(f"{at}.post_attention_layernorm.weight"),
        **(_load_experts if config.has_experts(layer) else _load_mlp)(config, reader, f"{at}.mlp"),
    )


def _load_mlp(config: ModelConfig, reader: _Reader, mlp: str) -> dict[str, Array | None]:
    gate_up = [f"{mlp}.{part}_proj" for part in ("gate", "up")]
    return {
        "gate_up": reader.stack(*(f"{name}.weight" for name in gate_up)),
        "gate_up_bias": reader.stack(*(f"{name}.bias" for name in gate_up)) if config.mlp_bias else None,
        "down": reader.stack(f"{mlp}.down_proj.weight"),
        "down_bias": reader.stack(f"{mlp}.down_proj.bias") if config.mlp_bias else None,
    }


def _load_experts(config: ModelConfig, reader: _Reader, mlp: str) -> dict[str, Array]:
    assert config.experts is not None
    n, hidden = config.experts.n_experts, config.hidden_size
    gate_up = [f"{mlp}.experts.{expert}.{part}_proj.weight" for expert in range(n) for part in ("gate", "up")]
    down = [f"{mlp}.experts.{expert}.down_proj.weight" for expert in range(n)]
    return {
        "router": reader.stack(f"{mlp}.gate.weight"),
        "gate_up": reader.stack(*gate_up).reshape(n, -1, hidden),
        "down": reader.stack(*down).reshape(n, hidden, -1),
    }


def _load_qk_norm(config: ModelConfig, reader: _Reader, attention: str) -> Array:
    query = np.tile(reader.stack(f"{attention}.q_norm.weight"), (config.n_heads, 1))
    key = np.tile(reader.stack(f"{attention}.k_norm.weight"), (config.n_kv_heads, 1))
    return np.concatenate((query, key))


class _Reader:
    """Reads tensors by name as float32 and counts the bytes for `progress`."""

    def __init__(self, tensors: Mapping[str, StoredTensor], total: int, progress: Progress) -> None:
        self._tensors, self._total, self._progress = tensors, total, progress
        self._done = 0

    def stack(self, *names: str) -> Array:
        """One array with the rows of all these tensors, in order."""
        parts = [self._tensors[name] for name in names]
        rows = [part.shape[0] for part in parts]
        stacked = np.empty((sum(rows), *parts[0].shape[1:]), np.float32)
        for part, end in zip(parts, np.cumsum(rows), strict=True):
            self._convert(part, stacked[end - part.shape[0] : end].reshape(-1))
        return stacked

    def _convert(self, tensor: StoredTensor, target: Array) -> None:
        block = BLOCKS[tensor.dtype]
        for start in range(0, target.size, _VALUES_AT_ONCE):
            values = target[start : start + _VALUES_AT_ONCE]
            at, n_bytes = (n // block.values * block.n_bytes for n in (start, values.size))
            # mapped part by part, so that pages already converted do not count as this process's memory
            _widen(np.memmap(tensor.path, np.uint8, "r", tensor.offset + at, (n_bytes,)), tensor.dtype, values)
            self._done += n_bytes
            self._progress(self._done, self._total)
        if tensor.paired_heads:
            paired = target.reshape(tensor.paired_heads, -1, 2, *tensor.shape[1:])
            target[...] = paired.swapaxes(1, 2).reshape(-1)


def _widen(stored: NDArray[np.uint8], dtype: str, values: Array) -> None:
    """Write the float32 values of stored bytes into `values`."""
    if dtype == "F32":
        values[...] = stored.view("<f4")
    elif dtype == "F16":
        values[...] = stored.view("<f2")
    elif dtype == "BF16":
        # a bfloat16 is the upper half of a float32
        np.left_shift(stored.view("<u2"), 16, out=values.view(np.uint32), dtype=np.uint32)
    else:
        from gguf import GGMLQuantizationType
        from gguf.quants import dequantize

        # as one row: the package groups rows, and short ones cost it ten times as much
        values[...] = dequantize(stored[None], GGMLQuantizationType[dtype])[0]


def _bar_at_a_terminal(total: int) -> Progress:
    return _draw_bar if total >= _SHOWN_BYTES and sys.stderr.isatty() else _show_nothing


def _show_nothing(done: int, total: int) -> None:
    pass


def _draw_bar(done: int, total: int) -> None:
    width = 30
    filled = width * done // total
    end = "\n" if done == total else ""
    print(
        f"\rloading {'#' * filled}{'.' * (width - filled)} {done / 1e9:.1f}/{total / 1e9:.1f} GB",
        end=end,
        file=sys.stderr,
        flush=True,
    )
