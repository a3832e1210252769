"""What a GGUF file's entries mean: the model's shape, its tensors in transformers' names, its end ids.

llama.cpp names and orders some things its own way: rows of Llama's query and key projections stand in pairs
that its RoPE rotates, and llama3's frequency scaling is a tensor of divisors.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from engine.config import COUNT_WORDS, NUMBER_WORDS, GenerationDefaults, ModelConfig, RopeSettings, is_count, is_number
from engine.errors import EngineError
from engine.gguf_file import GgufFile
from engine.weights import PLAIN, Checkpoint, StoredTensor, expected_shapes

ARCHITECTURES = {"llama": "LlamaForCausalLM", "qwen2": "Qwen2ForCausalLM", "qwen3": "Qwen3ForCausalLM"}
"""GGUF's name of an architecture, and transformers'."""

INSTALL = "pip install 'stepscope[gguf]'"

_WHOLE = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}
_IN_LAYER = {
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}
# converters name one end id; a chat ends at any of these, as in llama.cpp
_ENDS = ("<|im_end|>", "<|eot_id|>", "<|eom_id|>", "<|endoftext|>", "<|end_of_text|>", "<|end|>", "</s>")
_CONTROL = 3


def gguf_config(file: GgufFile) -> ModelConfig:
    """The model's shape, from metadata and tensors.

    Raises EngineError for a missing or impossible entry and for what the engine does not compute.
    """
    said = _Metadata(file)
    n_parts = file.metadata.get("split.count", 1)
    if n_parts != 1:
        raise said.error(f"one of {n_parts} parts; join them with llama-gguf-split --merge")
    n_layers = said.count("block_count")
    if n_layers > len(file.tensors):
        raise said.error(f"{n_layers} layers cannot be in {len(file.tensors)} tensors; download the file again")
    hidden_size, n_heads = said.count("embedding_length"), said.count("attention.head_count")
    n_kv_heads = said.count("attention.head_count_kv", default=n_heads)
    head_dim = said.count("attention.key_length", default=hidden_size // n_heads)
    if n_heads % n_kv_heads:
        raise said.error(f"{n_heads} query heads are not a multiple of {n_kv_heads} key heads")
    said.refuse_other("attention.value_length", head_dim, "values as long as keys")
    said.refuse_other("rope.dimension_count", head_dim, "RoPE over whole heads")
    said.refuse_other("expert_count", 0, "one MLP a layer")
    said.refuse_other("attention.sliding_window", 0, "full attention")
    if head_dim % 2:
        raise said.error(f"head_dim {head_dim} is odd; RoPE rotates pairs")
    embedding = file.tensors.get("token_embd.weight")
    if embedding is None or len(embedding.shape) != 2:
        raise said.error("tensor token_embd.weight is missing; download the file again")

    def has(name: str) -> bool:
        return name in file.tensors

    return ModelConfig(
        architecture=ARCHITECTURES[said.architecture],
        n_layers=n_layers,
        hidden_size=hidden_size,
        n_heads=n_heads,
        n_kv_heads=n_kv_heads,
        head_dim=head_dim,
        intermediate_size=said.count("feed_forward_length"),
        vocab_size=embedding.shape[0],
        context_length=said.count("context_length"),
        rms_norm_eps=said.number("attention.layer_norm_rms_epsilon"),
        rope=_rope(file, said, head_dim),
        tied=not has("output.weight"),
        qkv_bias=has("blk.0.attn_q.bias"),
        o_bias=has("blk.0.attn_output.bias"),
        mlp_bias=has("blk.0.ffn_gate.bias"),
        qk_norm=has("blk.0.attn_q_norm.weight"),
    )


def gguf_checkpoint(file: GgufFile, config: ModelConfig) -> Checkpoint:
    """The tensors that `config` asks for, in transformers' names.

    Raises EngineError for a missing one, and where they are quantised and the `gguf` package is missing.
    """
    is_llama = config.architecture == ARCHITECTURES["llama"]
    paired = {"attn_q": config.n_heads, "attn_k": config.n_kv_heads} if is_llama else {}
    tensors: dict[str, StoredTensor] = {}
    for name in expected_shapes(config):
        stored = gguf_name(name)
        if stored not in file.tensors:
            raise EngineError(f"{file.path}: tensor {stored} is missing; download the file again")
        pairs_of = paired.get(stored.split(".")[-2], 0)
        tensors[name] = replace(file.tensors[stored], paired_heads=pairs_of)
    if any(tensor.dtype not in PLAIN for tensor in tensors.values()):
        _need_gguf(file.path)
    return Checkpoint(file.path, (file.path,), tensors, described_in="its metadata")


def gguf_defaults(file: GgufFile) -> GenerationDefaults:
    """The ids that end a sequence: those that the metadata names, and control tokens that are known to."""
    named = (file.metadata.get(f"tokenizer.ggml.{name}_token_id") for name in ("eos", "eot", "eom"))
    eos = [i for i in named if isinstance(i, int)]
    tokens, kinds = (file.metadata.get(f"tokenizer.ggml.{name}") for name in ("tokens", "token_type"))
    if isinstance(tokens, list) and isinstance(kinds, list):
        ends = (
            i for i, (text, kind) in enumerate(zip(tokens, kinds, strict=False)) if kind == _CONTROL and text in _ENDS
        )
        eos += ends
    return GenerationDefaults(tuple(dict.fromkeys(eos)))


def gguf_name(name: str) -> str:
    """`model.layers.3.mlp.up_proj.weight` is `blk.3.ffn_up.weight`."""
    stem, _, kind = name.rpartition(".")
    if stem in _WHOLE:
        return f"{_WHOLE[stem]}.{kind}"
    layer, _, part = stem.removeprefix("model.layers.").partition(".")
    return f"blk.{layer}.{_IN_LAYER[part]}.{kind}"


def _need_gguf(path: Path) -> None:
    try:
        import gguf  # noqa: F401 - whoever converts the tensors imports it again
    except ImportError:
        raise EngineError(f"{path}: quantised weights need the gguf package; type: {INSTALL}") from None


def _rope(file: GgufFile, said: _Metadata, head_dim: int) -> RopeSettings:
    theta = said.number("rope.freq_base", default=10000.0)
    scaling = said.get("rope.scaling.type")
    if scaling not in (None, "none"):
        raise said.error(f"RoPE scaling {scaling!r} is not supported; supported: none, and llama3's rope_freqs tensor")
    divisors = file.tensors.get("rope_freqs.weight")
    if divisors is None:
        return RopeSettings(theta)
    if (divisors.dtype, divisors.shape) != ("F32", (head_dim // 2,)):
        raise said.error(f"rope_freqs.weight is {divisors.dtype} {list(divisors.shape)}, not F32 [{head_dim // 2}]")
    values = np.fromfile(file.path, "<f4", divisors.n_bytes // 4, offset=divisors.offset)
    if not (values > 0).all():
        raise said.error("rope_freqs.weight holds a divisor that is not above zero; download the file again")
    return RopeSettings(theta, "divided", divisors=tuple(map(float, values)))


class _Metadata:
    """The entries of the file's architecture, read by type; an error names the file and the entry."""

    def __init__(self, file: GgufFile) -> None:
        self._path, self._entries = file.path, file.metadata
        self.architecture = str(file.metadata.get("general.architecture"))
        if self.architecture not in ARCHITECTURES:
            raise self.error(
                f"architecture {self.architecture!r} is not supported; supported in GGUF: {', '.join(ARCHITECTURES)}"
            )

    def error(self, problem: str) -> EngineError:
        return EngineError(f"{self._path}: {problem}")

    def get(self, name: str) -> Any:
        return self._entries.get(f"{self.architecture}.{name}")

    def count(self, name: str, default: int | None = None) -> int:
        value = self.get(name) if self.get(name) is not None else default
        if not is_count(value):
            raise self._impossible(name, value, COUNT_WORDS)
        return value

    def number(self, name: str, default: float | None = None) -> float:
        value = self.get(name) if self.get(name) is not None else default
        if not is_number(value):
            raise self._impossible(name, value, NUMBER_WORDS)
        return float(value)

    def refuse_other(self, name: str, supported: int, what: str) -> None:
        value = self.get(name)
        if value not in (None, supported):
            raise self.error(f"{self.architecture}.{name} is {value!r}; only {what} ({supported}) is supported")

    def _impossible(self, name: str, value: Any, wanted: str) -> EngineError:
        is_said = "is missing" if value is None else f"is {value!r}"
        return self.error(f"metadata {self.architecture}.{name} {is_said}; it should be {wanted}")
