"""What a model directory says about its own shape: config.json and generation_config.json, checked.

The families that are read (ARCHITECTURES) may be spelled as transformers 4 or as 5 writes them.
Whatever the engine would compute wrongly, such as an unknown RoPE scaling or kind of layer, is refused here by
name.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeGuard

from engine.errors import EngineError
from traces.frames import json_kind

ARCHITECTURES = (
    "LlamaForCausalLM",
    "MistralForCausalLM",
    "Qwen2ForCausalLM",
    "Qwen3ForCausalLM",
    "Qwen3MoeForCausalLM",
    "Qwen3VLForConditionalGeneration",
)
ROPE_TYPES = ("default", "llama3")

_QWEN3_HEAD_DIM = 128
_MISTRAL_WINDOW = 4096

_MOST_LAYERS, _MOST_EXPERTS = 10_000, 10_000
"""A number beyond it is damage; every layer and every expert is looked for in the weights."""

_MOST, _LEAST_NUMBER, _GREATEST_NUMBER = 10**12, 1e-30, 1e30
COUNT_WORDS = "a whole number above zero, at most 10^12"
NUMBER_WORDS = "a number above zero that float32 holds, from 1e-30 to 1e30"


@dataclass(frozen=True)
class RopeSettings:
    """Rotary position embedding.

    theta: the base of the wavelengths. kind: "default", "llama3", which the factors and the original_context,
    the tokens that the model was first trained on, belong to, or "divided": each pair's frequency by its own
    of the divisors.
    """

    theta: float = 10000.0
    kind: str = "default"
    factor: float = 1.0
    low_freq_factor: float = 1.0
    high_freq_factor: float = 4.0
    original_context: int = 8192
    divisors: tuple[float, ...] = ()


@dataclass(frozen=True)
class ExpertSettings:
    """Layers whose MLP is a mixture of experts (Shazeer et al. 2017, https://arxiv.org/abs/1701.06538).

    n_used: experts that a token goes through, of n_experts; intermediate_size: one expert's inner values.
    is_normalised: whether the chosen experts' shares are brought to a sum of 1. layers: the layers, from 0,
    that have experts; the others have one MLP of the model's intermediate_size.
    """

    n_experts: int
    n_used: int
    intermediate_size: int
    is_normalised: bool
    layers: frozenset[int]


@dataclass(frozen=True)
class ModelConfig:
    """A decoder's shape. Lengths are counts of values; `context_length` is in tokens.

    tensor_prefix: what the names of the decoder's tensors begin with. experts: None where no layer has any.
    windows: for each layer the newest tokens that it attends to, None for all; () where all layers see all.
    """

    architecture: str
    n_layers: int
    hidden_size: int
    n_heads: int
    n_kv_heads: int
    head_dim: int
    intermediate_size: int
    vocab_size: int
    context_length: int
    rms_norm_eps: float = 1e-6
    rope: RopeSettings = RopeSettings()
    tied: bool = False
    qkv_bias: bool = False
    o_bias: bool = False
    mlp_bias: bool = False
    qk_norm: bool = False
    experts: ExpertSettings | None = None
    tensor_prefix: str = "model"
    windows: tuple[int | None, ...] = ()

    @property
    def layer_windows(self) -> tuple[int | None, ...]:
        """`windows`, one entry a layer."""
        return self.windows or (None,) * self.n_layers

    @property
    def n_qkv_heads(self) -> int:
        """Heads in the fused query, key, value projection."""
        return self.n_heads + 2 * self.n_kv_heads

    def has_experts(self, layer: int) -> bool:
        """Whether the MLP of this layer, from 0, is a mixture of experts."""
        return self.experts is not None and layer in self.experts.layers


@dataclass(frozen=True)
class GenerationDefaults:
    """What the model's authors advise: ids that end a sequence, and how to sample.

    sampling: only what generation_config.json says, under its own names.
    """

    eos: tuple[int, ...] = ()
    sampling: Mapping[str, Any] | None = None


def is_count(value: Any) -> TypeGuard[int]:
    """Whether a model's entry is a count of something: COUNT_WORDS."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 < value <= _MOST


def is_number(value: Any) -> TypeGuard[float]:
    """Whether a model's entry is a number to compute with: NUMBER_WORDS."""
    is_real = isinstance(value, int | float) and not isinstance(value, bool)
    return is_real and _LEAST_NUMBER <= value <= _GREATEST_NUMBER


def refuse_endless(path: Path) -> None:
    """Raise EngineError for a pipe or a device, which may keep its reader waiting; what is missing is not refused."""
    if path.exists() and not (path.is_file() or path.is_dir()):
        raise EngineError(f"{path}: not a regular file, as the files of a model are")


def read_text(path: Path) -> str:
    """A file's text. Raises EngineError where the file is missing, unreadable or not UTF-8."""
    refuse_endless(path)
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise EngineError(f"{path}: missing; a model directory has this file, download it again") from None
    except OSError as error:
        raise EngineError(f"{path}: cannot read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise EngineError(f"{path}: not UTF-8 at byte {error.start}; download it again") from None


def read_json(path: Path) -> dict[str, Any]:
    """The object in a JSON file. Raises EngineError where the file is missing, unreadable or not one JSON
    object.
    """
    return parse_json(path, read_text(path))


def parse_json(place: str | Path, text: str) -> dict[str, Any]:
    """The object that a text spells. place: where it stands. Raises EngineError where it is not one JSON object."""
    try:
        value = json.loads(text)
    except json.JSONDecodeError as error:
        raise EngineError(f"{place}: bad JSON at line {error.lineno}: {error.msg}; download it again") from None
    except RecursionError:
        raise EngineError(f"{place}: nested too deeply; download it again") from None
    except ValueError:
        raise EngineError(f"{place}: holds a number of thousands of digits; download it again") from None
    if not isinstance(value, dict):
        raise EngineError(f"{place}: holds {json_kind(value)}, not an object; download it again")
    return value


def read_config(place: Path) -> ModelConfig:
    """The shape in a model folder's config.json, or in such a file; of a model that also sees, its text decoder's.

    Raises EngineError for a missing or impossible value and for what the engine does not compute: other
    architectures, quantised weights, other kinds of layers, activations and RoPE types.
    """
    path = place if place.is_file() else place / "config.json"
    whole = _Entries(path, read_json(path))
    architecture = _architecture(whole)
    _refuse_unsupported(whole)
    source = _Entries(path, text_part(whole.values))
    _refuse_unsupported(source)
    n_layers = source.count("num_hidden_layers")
    if n_layers > _MOST_LAYERS:
        raise source.error(f"num_hidden_layers is {n_layers}; no model has more than {_MOST_LAYERS}")
    hidden_size = source.count("hidden_size")
    n_heads = source.count("num_attention_heads")
    n_kv_heads = source.count("num_key_value_heads", default=n_heads)
    if n_heads % n_kv_heads:
        raise source.error(f"num_attention_heads {n_heads} is not a multiple of num_key_value_heads {n_kv_heads}")
    has_bias = source.flag("attention_bias")
    is_qwen2, is_qwen3 = architecture == "Qwen2ForCausalLM", architecture.startswith("Qwen3")
    return ModelConfig(
        architecture=architecture,
        n_layers=n_layers,
        hidden_size=hidden_size,
        n_heads=n_heads,
        n_kv_heads=n_kv_heads,
        head_dim=_head_dim(source, architecture, hidden_size, n_heads),
        intermediate_size=source.count("intermediate_size"),
        vocab_size=source.count("vocab_size"),
        context_length=source.count("max_position_embeddings"),
        rms_norm_eps=source.number("rms_norm_eps", default=1e-6),
        rope=_rope(source),
        tied=whole.flag("tie_word_embeddings") or source.flag("tie_word_embeddings"),
        qkv_bias=is_qwen2 or has_bias,
        o_bias=has_bias and not is_qwen2,
        mlp_bias=architecture == "LlamaForCausalLM" and source.flag("mlp_bias"),
        qk_norm=is_qwen3,
        experts=_experts(source, n_layers) if architecture == "Qwen3MoeForCausalLM" else None,
        tensor_prefix="model.language_model" if source.values is not whole.values else "model",
        windows=_windows(source, architecture, n_layers),
    )


def text_part(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """The entries about the text decoder: a model that also sees keeps them apart, in `text_config`."""
    part = config.get("text_config")
    return part if isinstance(part, dict) else config


def read_generation_defaults(folder: Path) -> GenerationDefaults:
    """EOS ids and advised sampling: generation_config.json, or config.json's EOS where that file says none.

    Raises EngineError for bad JSON and for ids that are not whole numbers.
    """
    advised = folder / "generation_config.json"
    said = read_json(advised) if advised.exists() else {}
    eos = _eos_ids(advised, said.get("eos_token_id"))
    if not eos:
        config = folder / "config.json"
        eos = _eos_ids(config, text_part(read_json(config)).get("eos_token_id"))
    names = ("do_sample", "temperature", "top_k", "top_p", "min_p", "repetition_penalty")
    sampling = {name: said[name] for name in names if said.get(name) is not None}
    for name, value in sampling.items():
        _check_advice(advised, name, value)
    return GenerationDefaults(eos, sampling)


def _check_advice(path: Path, name: str, value: Any) -> None:
    if name == "do_sample":
        is_right, wanted = isinstance(value, bool), "true or false"
    elif name == "top_k":
        is_right, wanted = value == 0 or is_count(value), "0 or a whole number above it"
    else:
        is_right, wanted = value == 0 or is_number(value), f"0 or {NUMBER_WORDS}"
    if not is_right:
        raise EngineError(f"{path}: {name} is {spelled(value)}; it is {wanted}")


def _eos_ids(path: Path, value: Any) -> tuple[int, ...]:
    ids = value if isinstance(value, list) else [] if value is None else [value]
    if not all(isinstance(i, int) and not isinstance(i, bool) for i in ids):
        raise EngineError(f"{path}: eos_token_id is {spelled(value)}; it is a token id or a list of them")
    return tuple(ids)


def _architecture(source: _Entries) -> str:
    named = source.values.get("architectures")
    if named is None:
        raise source.error("architectures is missing; download the file again")
    architecture = named[0] if isinstance(named, list) and named else named
    if not isinstance(architecture, str) or architecture not in ARCHITECTURES:
        raise source.error(
            f"architecture {spelled(architecture)} is not supported; supported: {', '.join(ARCHITECTURES)}"
        )
    return architecture


def _refuse_unsupported(source: _Entries) -> None:
    quantised = source.values.get("quantization_config")
    if quantised is not None:
        method = quantised.get("quant_method") if isinstance(quantised, dict) else quantised
        raise source.error(
            f"quantization_config {spelled(method)} is not supported; use float32, float16 or bfloat16 weights, or GGUF"
        )
    activation = source.values.get("hidden_act", "silu")
    if activation != "silu":
        raise source.error(f"hidden_act {spelled(activation)} is not supported; supported: silu")
    dtype = source.values.get("dtype", source.values.get("torch_dtype"))
    if dtype not in (None, "float32", "float16", "bfloat16", "auto"):
        raise source.error(f"dtype {spelled(dtype)} is not supported; supported: float32, float16, bfloat16")


def _windows(source: _Entries, architecture: str, n_layers: int) -> tuple[int | None, ...]:
    """Each layer's window. Where `layer_types` is not said, the family decides which layers slide: all of Mistral
    and Qwen3-MoE, those of other Qwens from `max_window_layers` on, none of Llama.
    """
    kinds = source.values.get("layer_types")
    if kinds is None:
        is_mistral = architecture == "MistralForCausalLM"
        size = source.values.get("sliding_window", _MISTRAL_WINDOW if is_mistral else None)
        if size is None or not (is_mistral or source.flag("use_sliding_window")):
            n_full = n_layers
        elif is_mistral or architecture == "Qwen3MoeForCausalLM":
            n_full = 0
        else:
            n_full = min(source.count("max_window_layers", default=0), n_layers)
        kinds = ["full_attention"] * n_full + ["sliding_attention"] * (n_layers - n_full)
    if not isinstance(kinds, list) or len(kinds) != n_layers:
        raise source.error(f"layer_types is not a list of {n_layers} kinds, one a layer; download the file again")
    for layer, kind in enumerate(kinds):
        if kind not in ("full_attention", "sliding_attention"):
            raise source.error(
                f"layer {layer} is {spelled(kind)}; supported kinds of layers: full_attention, sliding_attention"
            )
    if "sliding_attention" not in kinds:
        return ()
    window = source.count("sliding_window", _MISTRAL_WINDOW if architecture == "MistralForCausalLM" else None)
    return tuple(window if kind == "sliding_attention" else None for kind in kinds)


def _experts(source: _Entries, n_layers: int) -> ExpertSettings | None:
    # transformers 5 writes num_local_experts where 4 wrote num_experts
    n_experts = source.count("num_local_experts" if "num_local_experts" in source.values else "num_experts")
    if n_experts > _MOST_EXPERTS:
        raise source.error(f"the number of experts is {n_experts}; no model has more than {_MOST_EXPERTS}")
    n_used = source.count("num_experts_per_tok")
    if n_used > n_experts:
        raise source.error(f"num_experts_per_tok {n_used} is above the number of experts, {n_experts}")
    every = source.count("decoder_sparse_step", default=1)
    dense = source.values.get("mlp_only_layers") or []
    if not isinstance(dense, list):
        raise source.error(f"mlp_only_layers is {spelled(dense)}; it is a list of layers")
    layers = frozenset(layer for layer in range(every - 1, n_layers, every) if layer not in dense)
    if not layers:
        return None
    inner = source.count("moe_intermediate_size")
    return ExpertSettings(n_experts, n_used, inner, source.flag("norm_topk_prob"), layers)


def _head_dim(source: _Entries, architecture: str, hidden_size: int, n_heads: int) -> int:
    if source.values.get("head_dim") is not None:
        head_dim = source.count("head_dim")
    elif architecture.startswith("Qwen3"):
        head_dim = _QWEN3_HEAD_DIM
    elif hidden_size % n_heads:
        raise source.error(f"hidden_size {hidden_size} is not a multiple of num_attention_heads {n_heads}")
    else:
        head_dim = hidden_size // n_heads
    if head_dim % 2:
        raise source.error(f"head_dim {head_dim} is odd; RoPE rotates pairs")
    return head_dim


def _rope(source: _Entries) -> RopeSettings:
    said = source.values.get("rope_parameters") or source.values.get("rope_scaling") or {}
    if not isinstance(said, dict):
        raise source.error(f"the RoPE settings are {spelled(said)}, not an object")
    scaling = _Entries(source.path, said)
    kind = said.get("rope_type", said.get("type", "default"))
    if kind not in ROPE_TYPES:
        raise source.error(f"RoPE type {spelled(kind)} is not supported; supported: {', '.join(ROPE_TYPES)}")
    partial = said.get("partial_rotary_factor", source.values.get("partial_rotary_factor"))
    if partial not in (None, 1, 1.0):
        raise source.error(
            f"partial_rotary_factor {spelled(partial)} is not supported; every pair of a head is rotated"
        )
    theta = scaling.number("rope_theta", default=source.number("rope_theta", default=10000.0))
    if kind == "default":
        return RopeSettings(theta)
    low, high = scaling.number("low_freq_factor"), scaling.number("high_freq_factor")
    if low >= high:
        raise source.error(f"low_freq_factor {low} is not below high_freq_factor {high}")
    return RopeSettings(
        theta,
        kind,
        factor=scaling.number("factor"),
        low_freq_factor=low,
        high_freq_factor=high,
        original_context=scaling.count("original_max_position_embeddings"),
    )


@dataclass(frozen=True)
class _Entries:
    """The entries of one JSON object, read by type; an error names the file and the entry."""

    path: Path
    values: Mapping[str, Any]

    def error(self, problem: str) -> EngineError:
        return EngineError(f"{self.path}: {problem}")

    def count(self, name: str, default: int | None = None) -> int:
        value = self._value(name, default)
        if not is_count(value) and not (value == 0 == default and not isinstance(value, bool)):
            raise self.error(f"{name} is {spelled(value)}; it is {COUNT_WORDS}")
        return int(value)

    def number(self, name: str, default: float | None = None) -> float:
        value = self._value(name, default)
        if not is_number(value):
            raise self.error(f"{name} is {spelled(value)}; it is {NUMBER_WORDS}")
        return float(value)

    def flag(self, name: str) -> bool:
        value = self._value(name, False)
        if not isinstance(value, bool):
            raise self.error(f"{name} is {spelled(value)}; it is true or false")
        return value

    def _value(self, name: str, default: Any) -> Any:
        value = self.values.get(name)
        if value is None:
            value = default
        if value is None:
            raise self.error(f"{name} is missing; download the file again")
        return value


def spelled(value: Any) -> str:
    """An entry as its file spells it; of a long one the beginning."""
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else f"{text[:60]}…"
