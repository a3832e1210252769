"""A tokenizer built from GGUF metadata gives the ids of the tokenizer.json that the metadata was made from."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import tokenizers
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import AddedToken, decoders, models, normalizers, trainers

from engine.gguf_file import GgufFile
from engine.gguf_tokenizer import gguf_tokenizer
from engine.model import DEMO_MODEL
from engine.tokenizer import Tokenizer, load_tokenizer
from tests.engine.conftest import ORACLE
from tests.engine.gguf_files import vocabulary_metadata

QWEN = ORACLE / "tiny-qwen3-f32-tied"
TEXTS = [
    "Hello, world!",
    "  two  spaces, a\ttab and\n\n\nthree line feeds  ",
    "I'm sure they'll say it's WE'VE",
    "1234567890 3.14159 2026-01-31",
    "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n",
    "<|endoftext|><|endoftext|> <|im_end|>x",
    "naïve café e\u0301 ﬁ Ω Straße ΑΒΓ",
    "日本語のテキスト 中文 한국어 ไทย עברית العربية",
    "👩‍👩‍👧 🏳️‍🌈 \U0001f600",
    "\u00a0\u2003\u200b\u2028\x07\x00",
    "def f(x):\n    return x**2  # comment\r\n",
    "",
    " ",
    "\n",
]


def from_metadata(metadata: dict[str, Any], vocab_size: int) -> Tokenizer:
    tokenizer = gguf_tokenizer(GgufFile(Path("x.gguf"), metadata, {}), vocab_size)
    assert tokenizer is not None
    return tokenizer


def from_folder(folder: Path, vocab_size: int = 1024) -> Tokenizer:
    tokenizer = load_tokenizer(folder, vocab_size)
    assert tokenizer is not None
    return tokenizer


def described(folder: Path) -> dict[str, Any]:
    said: dict[str, Any] = json.loads((folder / "tokenizer.json").read_text())
    return said


def expect_same(ours: Tokenizer, theirs: Tokenizer, text: str) -> None:
    for add in (False, True):
        ids = theirs.encode(text, add_special_tokens=add)
        assert ours.encode(text, add_special_tokens=add) == ids
    assert ours.decode(ids, skip_special_tokens=False) == theirs.decode(ids, skip_special_tokens=False)
    assert list(map(ours.is_special, ids)) == list(map(theirs.is_special, ids))


QWEN_PAIR = from_metadata(vocabulary_metadata(described(QWEN), 1024, "qwen2"), 1024), from_folder(QWEN)


@pytest.mark.parametrize("text", TEXTS)
def test_qwen(text: str) -> None:
    expect_same(*QWEN_PAIR, text)


@given(st.text())
@settings(max_examples=300)
def test_qwen_on_any_text(text: str) -> None:
    expect_same(*QWEN_PAIR, text)


@pytest.mark.parametrize("text", TEXTS)
def test_a_whole_tokenizer_json_in_the_metadata_goes_first(text: str) -> None:
    metadata = {"tokenizer.huggingface.json": json.dumps(described(DEMO_MODEL)), "tokenizer.ggml.model": "none such"}
    expect_same(from_metadata(metadata, 1024), from_folder(DEMO_MODEL), text)


@pytest.mark.parametrize("text", ["List the first six letters of the alphabet", "a b c, then d", TEXTS[4], TEXTS[8]])
def test_the_embedded_model_under_the_nearest_name(text: str) -> None:
    # its own way to split has no name; gpt-2's agrees but for long numbers and contractions
    ours = from_metadata(vocabulary_metadata(described(DEMO_MODEL), 1024, "gpt-2"), 1024)
    expect_same(ours, from_folder(DEMO_MODEL), text)


@pytest.mark.parametrize(
    ("pre", "text", "pieces"),
    [
        ("gpt-2", "it's 1234", ["it", "'s", " 1234"]),
        ("smollm", "it's 1234", ["it", "'s", " ", "1", "2", "3", "4"]),
        ("llama-bpe", "IT'S 1234", ["IT", "'S", " ", "123", "4"]),
        ("qwen2", "IT'S 1234", ["IT", "'S", " ", "1", "2", "3", "4"]),
    ],
)
def test_how_a_text_is_split_before_merging(pre: str, text: str, pieces: list[str]) -> None:
    # every run of bytes is in the vocabulary, so that a whole piece is one token
    merges, tokens = [], [*"ITSits1234'", "Ġ"]
    for word in (" 1234", "1234", "123", "IT", "it", "'S", "'s", "ITS", "its", "it's", "IT'S", " IT'S"):
        spelled = word.replace(" ", "Ġ")
        for end in range(2, len(spelled) + 1):
            if spelled[:end] not in tokens:
                merges.append(f"{spelled[: end - 1]} {spelled[end - 1]}")
                tokens.append(spelled[:end])
    metadata = {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": pre,
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.merges": merges,
    }
    tokenizer = from_metadata(metadata, 100)
    assert [tokenizer.token_bytes(i).decode() for i in tokenizer.encode(text)] == pieces


def sentencepiece() -> tuple[tokenizers.Tokenizer, dict[str, Any]]:
    """A byte-fallback tokenizer as Llama 2's tokenizer.json has it, and what GGUF keeps of it."""
    tokens = tokenizers.Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    tokens.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    tokens.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    first = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))]
    trainer = trainers.BpeTrainer(vocab_size=600, special_tokens=first, show_progress=False)
    tokens.train_from_iterator(["the quick brown fox jumps over the lazy dog again and again", *TEXTS[:3]], trainer)
    said = json.loads(tokens.to_str())
    said["added_tokens"] = [entry for entry in said["added_tokens"] if entry["id"] < 3]
    bare = tokenizers.Tokenizer.from_str(json.dumps(said))
    bare.add_special_tokens([AddedToken(text, special=True, normalized=False) for text in ("<s>", "</s>")])
    by_id = sorted((i, text) for text, i in bare.get_vocab().items())
    metadata = {
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.tokens": [text for _, text in by_id],
        # SentencePiece numbers merged pieces in the order of their merges, and scores them so
        "tokenizer.ggml.scores": [-float(i) for i, _ in by_id],
        "tokenizer.ggml.token_type": [2, 3, 3, *[6] * 256, *[1] * (len(by_id) - 259)],
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.add_bos_token": True,
    }
    return bare, metadata


@pytest.mark.parametrize("text", TEXTS)
def test_sentencepiece(text: str) -> None:
    theirs, metadata = sentencepiece()
    ours = from_metadata(metadata, 700)
    assert ours.encode(text) == theirs.encode(text, add_special_tokens=False).ids
    assert ours.encode(text, add_special_tokens=True) == [1, *ours.encode(text)]


def test_half_a_character_is_its_byte() -> None:
    tokenizer = from_metadata(sentencepiece()[1], 700)
    assert tokenizer.token_bytes(3 + 0xE3) == b"\xe3"


def test_template_and_named_tokens() -> None:
    metadata = vocabulary_metadata(described(QWEN), 1024, "qwen2") | {
        "tokenizer.chat_template": "{{ bos_token }}{{ messages[0].content }}{{ eos_token }}",
        "tokenizer.ggml.bos_token_id": 1021,
        "tokenizer.ggml.eos_token_id": 1023,
    }
    assert from_metadata(metadata, 1024).chat_prompt("Hi") == "<|endoftext|>Hi<|im_end|>"


def test_metadata_without_a_tokenizer() -> None:
    assert gguf_tokenizer(GgufFile(Path("x.gguf"), {}, {}), 10) is None
