"""Make the tiny Mistral, Qwen3-MoE and Qwen3-VL models and their expected answers: needs torch and transformers."""

from __future__ import annotations

from typing import Any

import torch
import transformers
from answers import draw_prompts, roughen, write_model

SHAPE = {
    "hidden_size": 48,
    "intermediate_size": 96,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "vocab_size": 320,
    "max_position_embeddings": 512,
    "bos_token_id": 0,
    "eos_token_id": 1,
    "attn_implementation": "eager",
}
EXPERTS = {"num_experts": 8, "num_experts_per_tok": 3, "moe_intermediate_size": 24}


def mistral() -> Any:
    """head_dim is not hidden / heads; no window, as Mistral has it from version 0.2 on."""
    config = transformers.MistralConfig(
        **SHAPE | {"head_dim": 24}, rope_parameters={"rope_type": "default", "rope_theta": 1e6}, sliding_window=None
    )
    return transformers.MistralForCausalLM(config)


def experts_normalised() -> Any:
    """Layer 1 is dense by name; the chosen experts' shares are brought to 1."""
    config = transformers.Qwen3MoeConfig(**SHAPE, **EXPERTS, norm_topk_prob=True, mlp_only_layers=[1])
    return transformers.Qwen3MoeForCausalLM(config)


def experts_every_second() -> Any:
    """Only every second layer has experts; their shares stay as the softmax over all experts left them."""
    config = transformers.Qwen3MoeConfig(
        **SHAPE, **EXPERTS, norm_topk_prob=False, decoder_sparse_step=2, tie_word_embeddings=True
    )
    return transformers.Qwen3MoeForCausalLM(config)


def vision() -> Any:
    """The text decoder stands beside a vision tower, which a text never meets."""
    rope = {"rope_type": "default", "rope_theta": 5e6, "mrope_section": [4, 2, 2], "mrope_interleaved": True}
    config = transformers.Qwen3VLConfig(
        text_config=SHAPE | {"rope_parameters": rope, "tie_word_embeddings": True},
        vision_config={
            "depth": 1,
            "hidden_size": 16,
            "intermediate_size": 16,
            "num_heads": 2,
            "out_hidden_size": 48,
            "patch_size": 2,
            "num_position_embeddings": 4,
            "deepstack_visual_indexes": [0],
        },
        tie_word_embeddings=True,
        attn_implementation="eager",
    )
    return transformers.Qwen3VLForConditionalGeneration(config)


MODELS = {
    "tiny-mistral-bf16-untied": mistral,
    "tiny-qwen3-moe-bf16-untied": experts_normalised,
    "tiny-qwen3-moe-bf16-tied-sparse": experts_every_second,
    "tiny-qwen3-vl-bf16-tied": vision,
}


def main() -> None:
    """Write each model directory and the expected answers beside it."""
    generator = torch.Generator().manual_seed(2)
    for seed, (name, make) in enumerate(MODELS.items()):
        torch.manual_seed(seed)
        model = make().eval()
        roughen(model, 0.3, torch.bfloat16)
        write_model(name, model, torch.bfloat16, draw_prompts(generator, 320))


if __name__ == "__main__":
    main()
