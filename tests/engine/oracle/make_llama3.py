"""Make tiny-llama3-f16-untied and its expected answers: needs torch and transformers, as the tests do not."""

from __future__ import annotations

import json
from pathlib import Path

import torch
import transformers
from answers import FOLDER, draw_prompts, roughen, write_model

NAME = "tiny-llama3-f16-untied"


def make_model() -> transformers.LlamaForCausalLM:
    """Random weights, biases too, already rounded to float16."""
    torch.manual_seed(7)
    config = transformers.LlamaConfig(
        hidden_size=64,
        intermediate_size=160,
        num_hidden_layers=3,
        num_attention_heads=4,
        num_key_value_heads=1,
        vocab_size=384,
        max_position_embeddings=512,
        attention_bias=True,
        mlp_bias=True,
        tie_word_embeddings=False,
        rms_norm_eps=1e-5,
        bos_token_id=0,
        eos_token_id=[1, 2],
        rope_parameters={
            "rope_type": "llama3",
            "rope_theta": 500000.0,
            "factor": 8.0,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": 64,
        },
        attn_implementation="eager",
    )
    model = transformers.LlamaForCausalLM(config).eval()
    roughen(model, 0.08, torch.float16)
    return model


def in_the_older_spelling(config: Path) -> None:
    """config.json as transformers 4 wrote it."""
    said = json.loads(config.read_text())
    rope = said.pop("rope_parameters")
    said["rope_theta"] = rope.pop("rope_theta")
    said["rope_scaling"] = rope
    said["torch_dtype"] = said.pop("dtype")
    config.write_text(json.dumps(said, indent=2) + "\n")


def main() -> None:
    """Write the model directory and the expected answers beside it."""
    prompts = draw_prompts(torch.Generator().manual_seed(1), 384)
    write_model(NAME, make_model(), torch.float16, prompts)
    in_the_older_spelling(FOLDER / NAME / "config.json")


if __name__ == "__main__":
    main()
