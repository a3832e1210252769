# mypy: ignore-errors
# (torch is a development-only extra, installed where the model is trained and not where types are checked)
"""Train the embedded model: `python -m engine.demo.train` writes weights, tokenizer, configuration and tests.

A byte-level BPE tokenizer is trained first, then a Qwen3-shaped network on chat-formatted requests drawn from
`requests.py`, with the loss on the answers only. The seed, the number of steps and the number of threads are
fixed, so that a run repeats bit for bit on the same kind of machine. At the end the weights are rounded to
bf16, the accuracy on what training never saw is measured with them, and the same held-out requests are
written to `tests/engine/demo_requests.json`, where the engine's own test reads them.

`python -m engine.demo.train --check` only measures the model that is already there.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import time
from collections.abc import Iterator
from pathlib import Path

import jinja2
import torch
from safetensors.torch import load_file, save_file
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 (the name everybody uses)

from engine.demo import requests

HERE = Path(__file__).parent
TEST_DATA = HERE.parents[1] / "tests" / "engine" / "demo_requests.json"

SEED = 20250
THREADS = 1  # more would be faster on an idle machine, and far slower on a busy one
STEPS = 6000
BATCH = 64
PEAK_RATE = 3e-3
WARM_UP = 100
WEIGHT_DECAY = 0.3
CLIP = 1.0
BATCHES_A_POOL = 50

CONFIG = {
    "architectures": ["Qwen3ForCausalLM"],
    "attention_bias": False,
    "attention_dropout": 0.0,
    "head_dim": 32,
    "hidden_act": "silu",
    "hidden_size": 128,
    "initializer_range": 0.02,
    "intermediate_size": 384,
    "max_position_embeddings": 2048,
    "model_type": "qwen3",
    "num_attention_heads": 4,
    "num_hidden_layers": 4,
    "num_key_value_heads": 2,
    "rms_norm_eps": 1e-6,
    "rope_scaling": None,
    "rope_theta": 10000.0,
    "sliding_window": None,
    "tie_word_embeddings": True,
    "torch_dtype": "bfloat16",
    "use_cache": True,
    "use_sliding_window": False,
}

# --- the tokenizer ----------------------------------------------------------------------------------------

TOKENIZER_ENTRIES = 960
PADDED_VOCAB = 1024  # the model has more rows than the tokenizer has entries, as large models do
END_OF_TEXT, IM_START, IM_END = "<|endoftext|>", "<|im_start|>", "<|im_end|>"
# letters, numbers up to three digits, punctuation: each with the space before it, so an item is one token
PIECES = Regex(r" ?\p{L}+| ?\p{N}{1,3}| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+")

# The system message makes the prompt of the canonical request 25 tokens long.
CHAT_TEMPLATE = """\
{%- if messages[0].role != 'system' -%}
{{- '<|im_start|>system\\nYou list things.<|im_end|>\\n' -}}
{%- endif -%}
{%- for message in messages -%}
{{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' -}}
{%- endfor -%}
{%- if add_generation_prompt -%}
{{- '<|im_start|>assistant\\n' -}}
{%- endif -%}
"""


def tokenizer_corpus() -> Iterator[str]:
    """Requests and answers as training sees them, and every list item often enough to become one token."""
    rng = random.Random(SEED)
    for listing in requests.LISTINGS.values():
        for item in listing.items:
            yield from [item, f" {item}"] * 200
    yield from ["system\nuser\nassistant\nYou list things."] * 2000
    for _ in range(20000):
        request = requests.draw_training_request(rng)
        yield request.text
        yield request.answer


def train_tokenizer() -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(PIECES, "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
    ])  # fmt: skip
    tokenizer.decoder = decoders.ByteLevel()
    special = [AddedToken(text, special=True, normalized=False) for text in (END_OF_TEXT, IM_START, IM_END)]
    trainer = trainers.BpeTrainer(
        vocab_size=TOKENIZER_ENTRIES - len(special),
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(tokenizer_corpus(), trainer)
    tokenizer.add_special_tokens(special)  # last, so that byte tokens keep the ids they have in large models
    for listing in requests.LISTINGS.values():
        for item in listing.items:
            for text in (item, f" {item}"):
                assert len(tokenizer.encode(text).ids) == 1, f"{text!r} is not one token"
    return tokenizer


# --- the network: the names are those of the checkpoint ---------------------------------------------------


class RMSNorm(nn.Module):
    def __init__(self, size: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))

    def forward(self, x: Tensor) -> Tensor:
        return F.rms_norm(x, self.weight.shape, self.weight, CONFIG["rms_norm_eps"])


class Attention(nn.Module):
    """Grouped-query attention with a norm on each head's query and key, then rotary positions."""

    def __init__(self) -> None:
        super().__init__()
        hidden, self.head_dim = CONFIG["hidden_size"], CONFIG["head_dim"]
        self.n_heads, self.n_kv_heads = CONFIG["num_attention_heads"], CONFIG["num_key_value_heads"]
        self.q_proj = nn.Linear(hidden, self.n_heads * self.head_dim, bias=False)
        self.k_proj = nn.Linear(hidden, self.n_kv_heads * self.head_dim, bias=False)
        self.v_proj = nn.Linear(hidden, self.n_kv_heads * self.head_dim, bias=False)
        self.o_proj = nn.Linear(self.n_heads * self.head_dim, hidden, bias=False)
        self.q_norm = RMSNorm(self.head_dim)
        self.k_norm = RMSNorm(self.head_dim)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        batch, length, _ = x.shape
        q = self.q_norm(self.q_proj(x).view(batch, length, self.n_heads, self.head_dim)).transpose(1, 2)
        k = self.k_norm(self.k_proj(x).view(batch, length, self.n_kv_heads, self.head_dim)).transpose(1, 2)
        v = self.v_proj(x).view(batch, length, self.n_kv_heads, self.head_dim).transpose(1, 2)
        q, k = rotate(q, cos, sin), rotate(k, cos, sin)
        group = self.n_heads // self.n_kv_heads
        k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
        # padding stands after the text, so the causal mask alone keeps it out of sight
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.o_proj(mixed.transpose(1, 2).reshape(batch, length, -1))


class MLP(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        hidden, inner = CONFIG["hidden_size"], CONFIG["intermediate_size"]
        self.gate_proj = nn.Linear(hidden, inner, bias=False)
        self.up_proj = nn.Linear(hidden, inner, bias=False)
        self.down_proj = nn.Linear(inner, hidden, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.input_layernorm = RMSNorm(CONFIG["hidden_size"])
        self.self_attn = Attention()
        self.post_attention_layernorm = RMSNorm(CONFIG["hidden_size"])
        self.mlp = MLP()

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        x = x + self.self_attn(self.input_layernorm(x), cos, sin)
        return x + self.mlp(self.post_attention_layernorm(x))


class Trunk(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed_tokens = nn.Embedding(PADDED_VOCAB, CONFIG["hidden_size"])
        self.layers = nn.ModuleList(Layer() for _ in range(CONFIG["num_hidden_layers"]))
        self.norm = RMSNorm(CONFIG["hidden_size"])


class Qwen3(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.model = Trunk()
        for parameter in self.parameters():
            if parameter.dim() > 1:
                nn.init.normal_(parameter, std=CONFIG["initializer_range"])

    def forward(self, ids: Tensor) -> Tensor:
        """ids [batch, length] → the last hidden states [batch, length, hidden]; see `logits`."""
        cos, sin = rotary_tables(ids.shape[1])
        x = self.model.embed_tokens(ids)
        for layer in self.model.layers:
            x = layer(x, cos, sin)
        return self.model.norm(x)

    def logits(self, hidden: Tensor) -> Tensor:
        return hidden @ self.model.embed_tokens.weight.T


def rotary_tables(length: int) -> tuple[Tensor, Tensor]:
    half = torch.arange(0, CONFIG["head_dim"], 2, dtype=torch.float32) / CONFIG["head_dim"]
    angle = torch.outer(torch.arange(length, dtype=torch.float32), CONFIG["rope_theta"] ** -half)
    angle = torch.cat((angle, angle), -1)
    return angle.cos(), angle.sin()


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotary position embedding in the half-split layout of Qwen and Llama checkpoints."""
    low, high = x.chunk(2, -1)
    return x * cos + torch.cat((-high, low), -1) * sin


# --- training ---------------------------------------------------------------------------------------------


class Formatter:
    """Turns requests into token ids through the chat template."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer
        self.template = jinja2.Environment(autoescape=False).from_string(CHAT_TEMPLATE)
        self.end = tokenizer.token_to_id(IM_END)

    def prompt_text(self, messages: list[dict[str, str]]) -> str:
        return self.template.render(messages=messages, add_generation_prompt=True)

    def prompt(self, request: str) -> list[int]:
        return self.tokenizer.encode(self.prompt_text([{"role": "user", "content": request}])).ids

    def examples(self, drawn: list[tuple[list[dict[str, str]], str]]) -> list[tuple[list[int], list[int]]]:
        """(prompt ids, answer ids with the end token) of each conversation."""
        prompts = self.tokenizer.encode_batch([self.prompt_text(messages) for messages, _ in drawn])
        answers = self.tokenizer.encode_batch([answer for _, answer in drawn])
        return [(p.ids, [*a.ids, self.end]) for p, a in zip(prompts, answers, strict=True)]


def batches(formatter: Formatter) -> Iterator[tuple[Tensor, Tensor]]:
    """Endless (ids, targets), both [BATCH, length]; the target is −100 wherever no answer token is predicted.

    A pool of examples is sorted by length before it is cut into batches: little padding, less time.
    """
    rng = random.Random(SEED + 1)
    while True:
        drawn = [requests.draw_training_conversation(rng) for _ in range(BATCH * BATCHES_A_POOL)]
        pool = sorted(formatter.examples(drawn), key=lambda example: len(example[0]) + len(example[1]))
        cuts = list(range(0, len(pool), BATCH))
        rng.shuffle(cuts)
        for cut in cuts:
            yield collate(pool[cut : cut + BATCH])


def collate(examples: list[tuple[list[int], list[int]]]) -> tuple[Tensor, Tensor]:
    length = max(len(prompt) + len(answer) for prompt, answer in examples) - 1
    ids = torch.zeros(len(examples), length, dtype=torch.long)
    targets = torch.full((len(examples), length), -100)
    for row, (prompt, answer) in enumerate(examples):
        whole = torch.tensor(prompt + answer)
        ids[row, : len(whole) - 1] = whole[:-1]
        targets[row, len(prompt) - 1 : len(whole) - 1] = whole[len(prompt) :]
    return ids, targets


def learning_rate(step: int) -> float:
    """Linear warm-up, then half a cosine down to zero."""
    if step < WARM_UP:
        return PEAK_RATE * (step + 1) / WARM_UP
    return PEAK_RATE * 0.5 * (1 + math.cos(math.pi * (step - WARM_UP) / (STEPS - WARM_UP)))


def train(formatter: Formatter) -> Qwen3:
    model = Qwen3()
    matrices = [p for p in model.parameters() if p.dim() > 1]
    gains = [p for p in model.parameters() if p.dim() == 1]
    optimizer = torch.optim.AdamW(
        [{"params": matrices, "weight_decay": WEIGHT_DECAY}, {"params": gains, "weight_decay": 0.0}],
        betas=(0.9, 0.98),
    )
    began = time.monotonic()
    total = 0.0
    for step, (ids, targets) in zip(range(STEPS), batches(formatter), strict=False):
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(step)
        answered = targets != -100  # logits only where they are needed: most positions are prompt
        loss = F.cross_entropy(model.logits(model(ids)[answered]), targets[answered])
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        optimizer.step()
        total += loss.item()
        if (step + 1) % 100 == 0:
            print(f"step {step + 1:5}  loss {total / 100:.4f}  {time.monotonic() - began:.0f} s", flush=True)
            total = 0.0
    return model


# --- measuring --------------------------------------------------------------------------------------------


@torch.no_grad()
def answers(model: Qwen3, formatter: Formatter, texts: list[str], limit: int = 128) -> list[str | None]:
    """Greedy answers, several prompts of one length at a time; None where the end token never came."""
    by_length: dict[int, list[int]] = {}
    prompts = [formatter.prompt(text) for text in texts]
    for index, prompt in enumerate(prompts):
        by_length.setdefault(len(prompt), []).append(index)
    found: list[str | None] = [None] * len(texts)
    for length, members in by_length.items():
        ids = torch.tensor([prompts[index] for index in members])
        going = list(members)
        for _ in range(limit):
            ids = torch.cat((ids, model.logits(model(ids)[:, -1]).argmax(-1, keepdim=True)), 1)
            ended = ids[:, -1] == formatter.end
            for row in ended.nonzero().flatten().tolist():
                found[going[row]] = formatter.tokenizer.decode(ids[row, length:-1].tolist())
            going = [index for index, end in zip(going, ended.tolist(), strict=True) if not end]
            ids = ids[~ended]
            if not going:
                break
    return found


def measure(model: Qwen3, formatter: Formatter) -> None:
    for name, chosen in requests.held_out_sets().items():
        given = answers(model, formatter, [request.text for request in chosen])
        wrong = [(r.text, r.answer, g) for r, g in zip(chosen, given, strict=True) if r.answer != g]
        print(f"{name}: {len(chosen) - len(wrong)} of {len(chosen)} exact")
        for text, right, got in wrong:
            print(f"  {text!r}\n    right: {right}\n    given: {got}")
    for text in ("List the first six letters of the alphabet", "hello", "What is the capital of Italy?"):
        given, length = answers(model, formatter, [text])[0], len(formatter.prompt(text))
        print(f"{text!r} ({length} prompt tokens): {given}")


# --- writing ----------------------------------------------------------------------------------------------


def write_json(path: Path, value: object) -> None:
    path.write_text(json.dumps(value, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def write_tokenizer(tokenizer: Tokenizer) -> None:
    tokenizer.save(str(HERE / "tokenizer.json"))
    end_of_text, im_end = tokenizer.token_to_id(END_OF_TEXT), tokenizer.token_to_id(IM_END)
    write_json(HERE / "tokenizer_config.json", {
        "tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": CONFIG["max_position_embeddings"],
        "clean_up_tokenization_spaces": False, "bos_token": None, "eos_token": IM_END,
        "pad_token": END_OF_TEXT, "additional_special_tokens": [IM_START, IM_END],
        "chat_template": CHAT_TEMPLATE,
    })  # fmt: skip
    ends = {"bos_token_id": end_of_text, "pad_token_id": end_of_text}
    config = {**CONFIG, "vocab_size": PADDED_VOCAB, "eos_token_id": im_end, **ends}
    write_json(HERE / "config.json", dict(sorted(config.items())))
    generation = {"do_sample": False, "eos_token_id": [im_end, end_of_text], **ends}
    write_json(HERE / "generation_config.json", dict(sorted(generation.items())))


def write_weights(model: Qwen3) -> None:
    weights = {name: tensor.detach().bfloat16() for name, tensor in model.state_dict().items()}
    save_file(weights, HERE / "model.safetensors", {"format": "pt"})


def write_test_data() -> None:
    sets = {
        name: [{"request": r.text, "answer": r.answer} for r in chosen]
        for name, chosen in requests.held_out_sets().items()
    }
    write_json(TEST_DATA, sets)


def read_model() -> Qwen3:
    """The model as written: bf16 weights, computed with in float32."""
    model = Qwen3()
    model.load_state_dict({name: t.float() for name, t in load_file(HERE / "model.safetensors").items()})
    return model


def main() -> None:
    parser = argparse.ArgumentParser(description="Train the embedded model, or check the one that is there.")
    parser.add_argument("--check", action="store_true", help="only measure the accuracy of the present model")
    torch.set_num_threads(THREADS)
    torch.use_deterministic_algorithms(True)
    torch.manual_seed(SEED)
    if not parser.parse_args().check:
        tokenizer = train_tokenizer()
        model = train(Formatter(tokenizer))
        write_tokenizer(tokenizer)  # all at the end: weights and tokenizer belong together
        write_weights(model)
        write_test_data()
    measure(read_model(), Formatter(Tokenizer.from_file(str(HERE / "tokenizer.json"))))


if __name__ == "__main__":
    main()
