"""Make the two models with sliding windows and their expected answers: needs torch and transformers, as the tests
do not.
"""

from __future__ import annotations

import torch
import transformers
from answers import draw_prompts, roughen, write_model

SHAPE = {
    "hidden_size": 48,
    "intermediate_size": 64,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "vocab_size": 192,
    "max_position_embeddings": 512,
    "bos_token_id": 0,
    "eos_token_id": [1, 2],
    "attn_implementation": "eager",
}


def mistral() -> transformers.MistralForCausalLM:
    """Every layer slides, over fewer tokens than the longer prompts have."""
    config = transformers.MistralConfig(num_hidden_layers=3, sliding_window=8, tie_word_embeddings=False, **SHAPE)
    return transformers.MistralForCausalLM(config)


def qwen3() -> transformers.Qwen3ForCausalLM:
    """Two sliding layers before each full one, as Gemma's layers alternate."""
    pattern = ["sliding_attention", "sliding_attention", "full_attention"]
    config = transformers.Qwen3Config(
        num_hidden_layers=6,
        layer_types=pattern * 2,
        use_sliding_window=True,
        sliding_window=16,
        tie_word_embeddings=True,
        **SHAPE,
    )
    return transformers.Qwen3ForCausalLM(config)


def main() -> None:
    """Write each model's directory and the expected answers beside it."""
    for name, make in (("tiny-mistral-f16-window", mistral), ("tiny-qwen3-f16-window", qwen3)):
        torch.manual_seed(7)
        model = make().eval()
        roughen(model, 0.12, torch.float16)
        write_model(name, model, torch.float16, draw_prompts(torch.Generator().manual_seed(1), 192))


if __name__ == "__main__":
    main()
