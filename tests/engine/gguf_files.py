"""GGUF files made from model folders, with the `gguf` package's writer and its table of tensor names."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import gguf
import numpy as np
from gguf import GGMLQuantizationType, TokenType
from gguf.quants import quantize
from safetensors.numpy import load_file

Metadata = dict[str, Any]


def tensors_of(folder: Path) -> dict[str, np.ndarray]:
    """Every tensor of a folder as float32; bfloat16, which numpy lacks, by its bits."""
    found: dict[str, np.ndarray] = {}
    for path in sorted(folder.glob("*.safetensors")):
        data = path.read_bytes()
        size = int.from_bytes(data[:8], "little")
        header = json.loads(data[8 : 8 + size])
        if any(entry.get("dtype") == "BF16" for entry in header.values()):
            for name, entry in header.items():
                if name != "__metadata__":
                    begin, end = (8 + size + n for n in entry["data_offsets"])
                    bits = np.frombuffer(data[begin:end], "<u2").astype(np.uint32) << 16
                    found[name] = bits.view(np.float32).reshape(entry["shape"])
        else:
            found |= {name: values.astype(np.float32) for name, values in load_file(path).items()}
    return found


def for_llama_cpp(rows: np.ndarray, n_heads: int) -> np.ndarray:
    """Rows i and i + head_dim / 2 of each head side by side."""
    head_dim = len(rows) // n_heads
    order = [
        h * head_dim + i + half for h in range(n_heads) for i in range(head_dim // 2) for half in (0, head_dim // 2)
    ]
    return rows[order]


def shape_metadata(config: dict[str, Any]) -> Metadata:
    """What llama.cpp's converter writes of a config.json."""
    arch = config["model_type"]
    rope = config.get("rope_parameters") or config
    said = {
        "block_count": config["num_hidden_layers"],
        "context_length": config["max_position_embeddings"],
        "embedding_length": config["hidden_size"],
        "feed_forward_length": config["intermediate_size"],
        "attention.head_count": config["num_attention_heads"],
        "attention.head_count_kv": config["num_key_value_heads"],
        "attention.layer_norm_rms_epsilon": float(config["rms_norm_eps"]),
        "rope.freq_base": float(rope["rope_theta"]),
    }
    if config.get("head_dim"):
        said |= {f"attention.{part}_length": config["head_dim"] for part in ("key", "value")}
    return {f"{arch}.{name}": value for name, value in said.items()}


def llama3_divisors(config: dict[str, Any]) -> np.ndarray:
    """How often slower each pair turns, as llama.cpp's converter writes it for Llama 3.1 and later."""
    rope, theta = config["rope_scaling"], config["rope_theta"]
    dim = config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]
    low, high = rope["low_freq_factor"], rope["high_freq_factor"]
    divisors = []
    for i in range(0, dim, 2):
        turns = rope["original_max_position_embeddings"] / (2 * math.pi * theta ** (i / dim))
        smooth = min(max((turns - low) / (high - low), 0), 1)
        divisors.append(1 / (smooth + (1 - smooth) / rope["factor"]))
    return np.array(divisors, np.float32)


def vocabulary_metadata(tokenizer: dict[str, Any], size: int, pre: str) -> Metadata:
    """What the converter writes of a byte-level tokenizer.json; ids up to `size` are filled up."""
    tokens, kinds = [f"[PAD{i}]" for i in range(size)], [TokenType.UNUSED] * size
    for text, i in tokenizer["model"]["vocab"].items():
        tokens[i], kinds[i] = text, TokenType.NORMAL
    for entry in tokenizer["added_tokens"]:
        tokens[entry["id"]] = entry["content"]
        kinds[entry["id"]] = TokenType.CONTROL if entry["special"] else TokenType.USER_DEFINED
    merges = [merge if isinstance(merge, str) else " ".join(merge) for merge in tokenizer["model"]["merges"]]
    return {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": pre,
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": [int(kind) for kind in kinds],
        "tokenizer.ggml.merges": merges,
    }


def write_gguf(
    out: Path, arch: str, metadata: Metadata, tensors: dict[str, np.ndarray], dtypes: dict[str, str] | None = None
) -> Path:
    """A file of these entries and tensors; those named in `dtypes` are quantised, or are raw blocks if of bytes."""
    writer = gguf.GGUFWriter(str(out), arch)
    for key, value in metadata.items():
        write = {bool: writer.add_bool, int: writer.add_uint32, float: writer.add_float32, list: writer.add_array}
        write.get(type(value), writer.add_string)(key, value)
    for name, values in tensors.items():
        kind = GGMLQuantizationType[(dtypes or {}).get(name, "F32")]
        stored = values if values.dtype == np.uint8 else quantize(np.ascontiguousarray(values), kind)
        writer.add_tensor(name, stored, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return out


def model_as_gguf(folder: Path, out: Path, dtype: str = "F32", metadata: Metadata | None = None) -> Path:
    """A model folder as a GGUF file, its matrices in `dtype`; an entry of `metadata` set to `...` is left out."""
    config = json.loads((folder / "config.json").read_text())
    arch = config["model_type"]
    entries = shape_metadata(config) | (metadata or {})
    kept = {key: value for key, value in entries.items() if value is not ...}
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH[arch.upper()], config["num_hidden_layers"])
    tensors: dict[str, np.ndarray] = {}
    for name, values in tensors_of(folder).items():
        if arch == "llama" and "q_proj" in name:
            values = for_llama_cpp(values, config["num_attention_heads"])
        if arch == "llama" and "k_proj" in name:
            values = for_llama_cpp(values, config["num_key_value_heads"])
        tensors[names.get_name(name, (".weight", ".bias"))] = values
    if (config.get("rope_scaling") or {}).get("rope_type") == "llama3":
        tensors["rope_freqs.weight"] = llama3_divisors(config)
    return write_gguf(out, arch, kept, tensors, {name: dtype for name, v in tensors.items() if v.ndim == 2})
