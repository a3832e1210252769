"""Text to token ids and back, and the chat template that turns a conversation into a prompt.

The vocabulary comes from tokenizer.json through the `tokenizers` package; a conversation goes through the
model's own Jinja template, which chat_template.py runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import tokenizers

from engine.chat_template import TemplateError, rendered
from engine.config import parse_json, read_json, read_text
from engine.errors import EngineError

QWEN_TEMPLATE = """\
{%- if messages[0]['role'] != 'system' %}
    {{- '<|im_start|>system\\n' }}
    {{- 'You are Qwen, created by Alibaba Cloud. You are a helpful assistant.<|im_end|>\\n' }}
{%- endif %}
{%- for message in messages %}
    {{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
{%- endif %}
"""
"""What Qwen2.5's template does without tools: for models that bring none."""

_SPECIAL_NAMES = ("bos_token", "eos_token", "pad_token", "unk_token")

Message = Mapping[str, Any]
"""One turn of a conversation: `role` (system, user, assistant, …) and `content`."""


class Tokenizer:
    """A model's vocabulary and chat template.

    tokens: the loaded tokenizer.json; is_byte_level: whether its pieces spell bytes in GPT-2's alphabet.
    template: Jinja source; special: named special tokens (`bos_token`, …) that templates may use; template_place:
    where the template stands, for error messages.
    """

    def __init__(
        self,
        tokens: tokenizers.Tokenizer,
        is_byte_level: bool,
        template: str = QWEN_TEMPLATE,
        special: Mapping[str, str] | None = None,
        template_place: str = "the tokenizer",
    ) -> None:
        self.template, self.template_place = template, template_place
        self.special = dict(special or {})
        self._tokens = tokens
        self._is_byte_level = is_byte_level
        self._added = tokens.get_added_tokens_decoder()

    @cached_property
    def size(self) -> int:
        """One more than the largest id; the model's vocabulary may be padded beyond it."""
        return max(self._tokens.get_vocab(with_added_tokens=True).values(), default=-1) + 1

    def encode(self, text: str, add_special_tokens: bool = False) -> list[int]:
        """Token ids of a text; special tokens spelled out in it become their ids.

        add_special_tokens: also add what the tokenizer puts around a text (a BOS, in Llama's); a chat prompt
        spells its own. Raises EngineError for a text that has no UTF-8.
        """
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise EngineError(
                f"the text has no UTF-8 (character {error.start} is half a surrogate pair); say it in other characters"
            ) from None
        ids: list[int] = self._tokens.encode(text, add_special_tokens=add_special_tokens).ids
        return ids

    def decode(self, ids: Sequence[int], skip_special_tokens: bool = True) -> str:
        """The text of some ids; bytes that are no UTF-8 (half a character) become U+FFFD."""
        kept = (i for i in ids if not (skip_special_tokens and self.is_special(i)))
        return b"".join(map(self.token_bytes, kept)).decode("utf-8", "replace")

    def is_special(self, token_id: int) -> bool:
        """Whether the id stands for structure (an end of turn, …) instead of text."""
        added = self._added.get(token_id)
        return added is not None and bool(added.special)

    def token_bytes(self, token_id: int) -> bytes:
        """The raw bytes of one token, half characters included; empty for an id that is not known."""
        added = self._added.get(token_id)
        if added is not None:
            return str(added.content).encode()
        piece = self._tokens.id_to_token(token_id)
        if piece is None:
            return b""
        return _byte_level_bytes(piece) if self._is_byte_level else _sentencepiece_bytes(piece)

    def chat_prompt(self, messages: str | Iterable[Message], system: str | None = None, **variables: Any) -> str:
        """The prompt for a conversation, ending where the assistant's answer begins.

        messages: a user's text, or the turns so far; system: put in front as the system turn.
        variables: more that a template may read, such as `enable_thinking=False`.
        Raises EngineError where the template fails or refuses the conversation.
        """
        turns = [{"role": "user", "content": messages}] if isinstance(messages, str) else list(messages)
        if system is not None:
            turns = [{"role": "system", "content": system}, *turns]
        if not turns:
            raise EngineError("the chat has no messages; give at least one")
        known: dict[str, Any] = {"tools": None, "documents": None, **self.special, **variables}
        try:
            prompt = rendered(self.template, {"messages": turns, "add_generation_prompt": True, **known})
        except TemplateError as error:
            raise EngineError(
                f"{self.template_place}: the chat template failed: {error}; do without it (--raw)"
            ) from None
        if not prompt:
            raise EngineError(f"{self.template_place}: the chat template makes nothing of it; do without it (--raw)")
        return prompt


def load_tokenizer(folder: Path, vocab_size: int) -> Tokenizer | None:
    """The tokenizer of a model directory; None where it has no tokenizer.json.

    vocab_size: rows of the model's embedding. Raises EngineError for a damaged file and for ids beyond them.
    """
    path = folder / "tokenizer.json"
    if not path.exists():
        return None
    settings_path = folder / "tokenizer_config.json"
    settings = read_json(settings_path) if settings_path.exists() else {}
    template_place, template = _find_template(folder, settings_path, settings)
    return parse_tokenizer(str(path), read_text(path), vocab_size, template, _special_tokens(settings), template_place)


def parse_tokenizer(
    place: str, text: str, vocab_size: int, template: str, special: Mapping[str, str], template_place: str
) -> Tokenizer:
    """The tokenizer that the text of a tokenizer.json describes; the other arguments are Tokenizer's.

    place: where the text stands, for error messages. Raises EngineError as `load_tokenizer`.
    """
    described = parse_json(place, text)
    with refusing(f"{place}: the tokenizers package cannot read it"):
        tokens = tokenizers.Tokenizer.from_str(text)
    tokenizer = Tokenizer(tokens, _mentions_byte_level(described.get("decoder")), template, special, template_place)
    if tokenizer.size > vocab_size:
        raise EngineError(
            f"{place}: ids go up to {tokenizer.size - 1}, the model's vocabulary has {vocab_size}; "
            "use the tokenizer that belongs to this model"
        )
    return tokenizer


@contextmanager
def refusing(problem: str) -> Iterator[None]:
    """Whatever the tokenizers package raises meanwhile, a panic included, as an EngineError that begins so."""
    try:
        yield
    except (EngineError, KeyboardInterrupt):
        raise
    except BaseException as error:  # it raises nothing narrower, and a panic is not even an Exception
        raise EngineError(f"{problem}: {' '.join(str(error).split())}; download it again") from None


def _find_template(folder: Path, settings_path: Path, settings: Mapping[str, Any]) -> tuple[str, str]:
    """(where it stands, template)."""
    own_file = folder / "chat_template.jinja"
    if own_file.exists():
        return str(own_file), read_text(own_file)
    template = settings.get("chat_template")
    if isinstance(template, list):
        named = {entry.get("name"): entry.get("template") for entry in template if isinstance(entry, dict)}
        template = named.get("default")
    return (str(settings_path), template) if isinstance(template, str) else (str(folder), QWEN_TEMPLATE)


def _special_tokens(settings: Mapping[str, Any]) -> dict[str, str]:
    found = {}
    for name in _SPECIAL_NAMES:
        value = settings.get(name)
        text = value.get("content") if isinstance(value, dict) else value
        if isinstance(text, str):
            found[name] = text
    return found


def _mentions_byte_level(decoder: Any) -> bool:
    if not isinstance(decoder, dict):
        return False
    return decoder.get("type") == "ByteLevel" or any(map(_mentions_byte_level, decoder.get("decoders", [])))


@lru_cache(maxsize=1)
def _bytes_of_characters() -> dict[str, int]:
    """GPT-2's alphabet: printable bytes stand for themselves, the others for characters from U+0100 on."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    return {chr(byte): byte for byte in printable} | {chr(256 + i): byte for i, byte in enumerate(others)}


def _byte_level_bytes(piece: str) -> bytes:
    alphabet = _bytes_of_characters()
    return b"".join(bytes([alphabet[c]]) if c in alphabet else c.encode() for c in piece)


def _sentencepiece_bytes(piece: str) -> bytes:
    if len(piece) == 6 and piece.startswith("<0x") and piece.endswith(">"):
        return bytes([int(piece[3:5], 16)])
    return piece.replace("▁", " ").encode()
