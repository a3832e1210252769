"""A tokenizer from a GGUF file's metadata, giving the ids that the model's own tokenizer.json gives.

GGUF keeps the vocabulary, the kinds of its tokens and the merges (or, of SentencePiece, the scores), but how a
text is split before merging only by a name, `tokenizer.ggml.pre`. The splits behind the names are those of the
tokenizer.json files that the names stand for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import tokenizers
from tokenizers import AddedToken, Regex, decoders, models, normalizers, pre_tokenizers, processors

from engine.errors import EngineError
from engine.gguf_file import GgufFile
from engine.tokenizer import QWEN_TEMPLATE, Tokenizer, parse_tokenizer, refusing

_NORMAL, _UNKNOWN, _CONTROL, _USER_DEFINED, _UNUSED, _BYTE = range(1, 7)

_GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
_WORDS = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{DIGITS}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


@dataclass(frozen=True)
class _Split:
    """How a text is cut before merging: patterns applied one after the other."""

    patterns: tuple[str, ...]
    is_nfc: bool = False
    whole_words_first: bool = False
    adds_bos: bool = False


_LLAMA3 = _Split((_WORDS.replace("{DIGITS}", "{1,3}"),), whole_words_first=True, adds_bos=True)
_QWEN2 = _Split((_WORDS.replace("{DIGITS}", ""),), is_nfc=True)
_SPLITS = {
    "gpt-2": _Split((_GPT2,)),
    "smollm": _Split((r"\p{N}", _GPT2)),
    "llama-bpe": _LLAMA3,
    "llama3": _LLAMA3,
    "llama-v3": _LLAMA3,
    "qwen2": _QWEN2,
    "deepseek-r1-qwen": _QWEN2,
}


def gguf_tokenizer(file: GgufFile, vocab_size: int) -> Tokenizer | None:
    """The tokenizer that the metadata describes; None where it describes none.

    A whole tokenizer.json in the metadata goes before the separate entries. vocab_size: rows of the model's
    embedding. Raises EngineError for a kind that is not read, for damaged entries and for ids beyond those rows.
    """
    said = file.metadata
    kind = said.get("tokenizer.ggml.model")
    template = said.get("tokenizer.chat_template")
    template = template if isinstance(template, str) else QWEN_TEMPLATE
    whole = said.get("tokenizer.huggingface.json")
    if isinstance(whole, str):
        place = f"{file.path}: tokenizer.huggingface.json"
        return parse_tokenizer(place, whole, vocab_size, template, _special(said), str(file.path))
    if kind is None or kind == "no_vocab":
        return None
    if kind not in _BUILD:
        raise EngineError(
            f"{file.path}: tokenizer kind {kind!r} is not supported; supported: gpt2 (byte-level BPE), llama "
            "(SentencePiece BPE); use the model's Hugging Face folder, or prompt ids"
        )
    vocabulary = _vocabulary(file)
    if len(vocabulary.tokens) > vocab_size:
        raise EngineError(
            f"{file.path}: {len(vocabulary.tokens)} tokens, the embedding has {vocab_size} rows; download it again"
        )
    with refusing(f"{file.path}: the tokenizer's entries do not fit"):
        tokens = _BUILD[kind](file, vocabulary)
        _add_tokens(tokens, vocabulary)
    return Tokenizer(tokens, kind == "gpt2", template, _special(said), template_place=str(file.path))


@dataclass(frozen=True)
class _Vocabulary:
    tokens: Sequence[str]
    kinds: Sequence[int]

    @property
    def ids(self) -> dict[str, int]:
        """By text, without what only fills up the embedding."""
        return {text: i for i, (text, kind) in enumerate(zip(self.tokens, self.kinds, strict=True)) if kind != _UNUSED}


def _vocabulary(file: GgufFile) -> _Vocabulary:
    tokens = _strings(file, "tokens")
    kinds = file.metadata.get("tokenizer.ggml.token_type", [_NORMAL] * len(tokens))
    if not isinstance(kinds, list) or len(kinds) != len(tokens):
        raise EngineError(f"{file.path}: tokenizer.ggml.token_type does not fit the {len(tokens)} tokens")
    return _Vocabulary(tokens, kinds)


def _strings(file: GgufFile, name: str) -> list[str]:
    values = file.metadata.get(f"tokenizer.ggml.{name}")
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        raise EngineError(f"{file.path}: tokenizer.ggml.{name} is missing; download the file again")
    return values


def _byte_level(file: GgufFile, vocabulary: _Vocabulary) -> tokenizers.Tokenizer:
    name = file.metadata.get("tokenizer.ggml.pre")
    split = _SPLITS.get(str(name))
    if split is None:
        raise EngineError(
            f"{file.path}: tokenizer.ggml.pre {name!r} is not supported; supported: {', '.join(_SPLITS)}; use the "
            "model's Hugging Face folder, or prompt ids"
        )
    merges = [(first, second) for first, _, second in (merge.partition(" ") for merge in _strings(file, "merges"))]
    tokens = tokenizers.Tokenizer(
        models.BPE(vocab=vocabulary.ids, merges=merges, ignore_merges=split.whole_words_first)
    )
    if split.is_nfc:
        tokens.normalizer = normalizers.NFC()
    cuts = [pre_tokenizers.Split(Regex(pattern), "isolated") for pattern in split.patterns]
    tokens.pre_tokenizer = pre_tokenizers.Sequence(
        [*cuts, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
    )
    tokens.decoder = decoders.ByteLevel()
    _add_bos(file, tokens, vocabulary, by_default=split.adds_bos)
    return tokens


def _sentencepiece(file: GgufFile, vocabulary: _Vocabulary) -> tokenizers.Tokenizer:
    scores = file.metadata.get("tokenizer.ggml.scores")
    if not isinstance(scores, list) or len(scores) != len(vocabulary.tokens):
        raise EngineError(f"{file.path}: tokenizer.ggml.scores does not fit the {len(vocabulary.tokens)} tokens")
    unknown = next((t for t, kind in zip(vocabulary.tokens, vocabulary.kinds, strict=True) if kind == _UNKNOWN), None)
    has_bytes = _BYTE in vocabulary.kinds
    tokens = tokenizers.Tokenizer(
        models.BPE(
            vocab=vocabulary.ids,
            merges=_merges_by_score(vocabulary, scores),
            unk_token=unknown,
            fuse_unk=True,
            byte_fallback=has_bytes,
        )
    )
    spaces = normalizers.Replace(" ", "▁")
    prefixed = file.metadata.get("tokenizer.ggml.add_space_prefix", True)
    tokens.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), spaces]) if prefixed else spaces
    tokens.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    _add_bos(file, tokens, vocabulary, by_default=True)
    return tokens


def _merges_by_score(vocabulary: _Vocabulary, scores: Sequence[float]) -> list[tuple[str, str]]:
    """SentencePiece merges the pair whose whole has the best score: every such pair, best first."""
    ids = {text: i for text, i in vocabulary.ids.items() if vocabulary.kinds[i] == _NORMAL}
    pairs = [
        (-scores[whole], ids[text[:cut]], ids[text[cut:]], text[:cut], text[cut:])
        for text, whole in ids.items()
        for cut in range(1, len(text))
        if text[:cut] in ids and text[cut:] in ids
    ]
    return [(first, second) for *_, first, second in sorted(pairs)]


_BUILD = {"gpt2": _byte_level, "llama": _sentencepiece}


def _add_tokens(tokens: tokenizers.Tokenizer, vocabulary: _Vocabulary) -> None:
    """Tokens that a text may spell out whole; control tokens are structure, not text."""
    known = list(zip(vocabulary.tokens, vocabulary.kinds, strict=True))
    tokens.add_special_tokens([AddedToken(t, special=True, normalized=False) for t, kind in known if kind == _CONTROL])
    tokens.add_tokens([AddedToken(t, special=False, normalized=False) for t, kind in known if kind == _USER_DEFINED])


def _add_bos(file: GgufFile, tokens: tokenizers.Tokenizer, vocabulary: _Vocabulary, by_default: bool) -> None:
    bos = file.metadata.get("tokenizer.ggml.bos_token_id")
    if file.metadata.get("tokenizer.ggml.add_bos_token", by_default) and isinstance(bos, int):
        text = vocabulary.tokens[bos]
        tokens.post_processor = processors.TemplateProcessing(single=[text, "$A"], special_tokens=[(text, bos)])


def _special(said: Mapping[str, Any]) -> dict[str, str]:
    """The named tokens that a chat template may use."""
    tokens = said.get("tokenizer.ggml.tokens")
    names = {"bos_token": "bos", "eos_token": "eos", "pad_token": "padding", "unk_token": "unknown"}
    ids = {name: said.get(f"tokenizer.ggml.{key}_token_id") for name, key in names.items()}
    if not isinstance(tokens, list):
        return {}
    return {name: tokens[i] for name, i in ids.items() if isinstance(i, int) and 0 <= i < len(tokens)}
