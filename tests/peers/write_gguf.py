"""The embedded model as a GGUF file, for engines that read only that.

    python write_gguf.py MODEL_FOLDER OUT.gguf [WINDOW]

Needs the `gguf` package, whose table names the tensors. The weights go over as float32, unchanged in value; the
tokenizer's entries go over so that a reader accepts the file, but the tests feed ids and do not rely on its splitting.
With WINDOW the same weights go under the name of an architecture that has window layers: its answers mean nothing, its
caches are of another class.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import gguf
import numpy as np

WITH_WINDOWS, NOT_IN_IT = "cohere2", ("q_norm", "k_norm", "post_attention_layernorm")


def main(model: Path, out: Path, window: int | None = None) -> None:
    """Write the file."""
    config = json.loads((model / "config.json").read_text())
    arch = WITH_WINDOWS if window else config["model_type"]
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH[arch.upper()], config["num_hidden_layers"])
    writer = gguf.GGUFWriter(str(out), arch)
    if window:
        writer.add_sliding_window(window)
        writer.add_logit_scale(1.0)
        writer.add_layer_norm_eps(config["rms_norm_eps"])
        writer.add_rope_dimension_count(config["head_dim"])
    writer.add_name("embedded")
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_key_length(config["head_dim"])
    writer.add_value_length(config["head_dim"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_rope_freq_base(config["rope_theta"])
    writer.add_file_type(gguf.LlamaFileType.ALL_F32)
    add_vocabulary(writer, json.loads((model / "tokenizer.json").read_text()), config)
    for name, values in tensors(model / "model.safetensors"):
        if not (window and any(part in name for part in NOT_IN_IT)):
            writer.add_tensor(names.get_name(name, (".weight",)), values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def add_vocabulary(writer: Any, tokenizer: dict[str, Any], config: dict[str, Any]) -> None:
    """As many entries as the embedding has rows; those past the tokenizer's are padding."""
    tokens = [f"<unused{i}>" for i in range(config["vocab_size"])]
    kinds = [gguf.TokenType.UNUSED] * len(tokens)
    for text, i in tokenizer["model"]["vocab"].items():
        tokens[i], kinds[i] = text, gguf.TokenType.NORMAL
    for entry in tokenizer["added_tokens"]:
        tokens[entry["id"]], kinds[entry["id"]] = entry["content"], gguf.TokenType.CONTROL
    merges = [m if isinstance(m, str) else " ".join(m) for m in tokenizer["model"]["merges"]]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(tokens)
    writer.add_token_types(kinds)
    writer.add_token_merges(merges)
    writer.add_eos_token_id(config["eos_token_id"])
    writer.add_bos_token_id(config["bos_token_id"])
    writer.add_add_bos_token(False)


def tensors(path: Path) -> list[tuple[str, Any]]:
    """(name, float32 values) of a safetensors file of bfloat16 or float32."""
    data = path.read_bytes()
    size = int.from_bytes(data[:8], "little")
    found = []
    for name, entry in json.loads(data[8 : 8 + size]).items():
        if name == "__metadata__":
            continue
        first, end = (8 + size + offset for offset in entry["data_offsets"])
        if entry["dtype"] == "BF16":  # the upper half of a float32
            values = (np.frombuffer(data[first:end], "<u2").astype(np.uint32) << 16).view(np.float32)
        else:
            values = np.frombuffer(data[first:end], {"F32": "<f4"}[entry["dtype"]])
        found.append((name, values.reshape(entry["shape"])))
    return found


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), *map(int, sys.argv[3:]))
