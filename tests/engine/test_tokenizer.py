"""Token ids, raw token bytes, and chat prompts as the models' own templates write them."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import pytest
import tokenizers
from tokenizers import decoders
from tokenizers.models import BPE

from engine.errors import EngineError
from engine.tokenizer import QWEN_TEMPLATE, Tokenizer, load_tokenizer
from tests.engine.conftest import ORACLE

IM_START, IM_END = 1022, 1023


@pytest.fixture
def qwen() -> Tokenizer:
    loaded = load_tokenizer(ORACLE / "tiny-qwen2-f32-tied", 1024)
    assert loaded is not None
    return loaded


@pytest.fixture
def with_template(qwen2_copy: Path, change_json: Callable[..., None]) -> Callable[[str], Tokenizer]:
    """The small tokenizer with another chat template."""

    def make(template: str) -> Tokenizer:
        change_json(qwen2_copy / "tokenizer_config.json", chat_template=template)
        loaded = load_tokenizer(qwen2_copy, 1024)
        assert loaded is not None
        return loaded

    return make


TEXTS = ["Hello, world", "  two  spaces\n\nlines\t", "naïve café 漢字", "🎉🎉", "", "\x00\x1b[0m"]


@pytest.mark.parametrize("text", TEXTS)
def test_text_survives_a_round_trip(qwen: Tokenizer, text: str) -> None:
    assert qwen.decode(qwen.encode(text)) == text


@pytest.mark.parametrize("text", TEXTS)
def test_token_bytes_join_to_the_texts_bytes(qwen: Tokenizer, text: str) -> None:
    assert b"".join(map(qwen.token_bytes, qwen.encode(text))) == text.encode()


def test_half_a_character_has_bytes_but_no_text(qwen: Tokenizer) -> None:
    first = qwen.encode("🎉")[0]
    assert "🎉".encode().startswith(qwen.token_bytes(first))
    assert "\ufffd" in qwen.decode([first])


def test_special_tokens_spelled_out_become_their_ids(qwen: Tokenizer) -> None:
    assert qwen.encode("<|im_start|>") == [IM_START]
    assert qwen.token_bytes(IM_END) == b"<|im_end|>"
    assert qwen.is_special(IM_END) and not qwen.is_special(64)
    assert qwen.decode([IM_START, *qwen.encode("Hi"), IM_END]) == "Hi"
    assert qwen.decode([IM_END], skip_special_tokens=False) == "<|im_end|>"


def test_size_and_unknown_ids(qwen: Tokenizer) -> None:
    assert qwen.size == 1024
    assert qwen.token_bytes(5000) == b""


def test_sentencepiece_pieces_are_bytes_too() -> None:
    vocabulary = {"<unk>": 0, "▁Hello": 1, "<0x0A>": 2, "é": 3}
    tokens = tokenizers.Tokenizer(BPE(vocabulary, [], unk_token="<unk>", byte_fallback=True))
    tokens.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    tokenizer = Tokenizer(tokens, is_byte_level=False)
    assert [tokenizer.token_bytes(i) for i in (1, 2, 3)] == [b" Hello", b"\n", "é".encode()]


def test_a_bos_is_added_only_when_asked(qwen2_copy: Path) -> None:
    path = qwen2_copy / "tokenizer.json"
    described = json.loads(path.read_text())
    described["post_processor"] = {
        "type": "TemplateProcessing",
        "single": [{"SpecialToken": {"id": "B", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
        "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
        "special_tokens": {"B": {"id": "B", "ids": [1021], "tokens": ["<|endoftext|>"]}},
    }
    path.write_text(json.dumps(described))
    tokenizer = load_tokenizer(qwen2_copy, 1024)
    assert tokenizer is not None
    assert tokenizer.encode("Hi", add_special_tokens=True) == [1021, *tokenizer.encode("Hi")]


# what Qwen2.5's template writes, from its model card's documentation of the format
DEFAULT_SYSTEM = "You are Qwen, created by Alibaba Cloud. You are a helpful assistant."
ONE_TURN = (
    f"<|im_start|>system\n{DEFAULT_SYSTEM}<|im_end|>\n"
    "<|im_start|>user\nWrite 6 letters.<|im_end|>\n"
    "<|im_start|>assistant\n"
)
TWO_TURNS = (
    "<|im_start|>system\nBe brief.<|im_end|>\n"
    "<|im_start|>user\nHi<|im_end|>\n"
    "<|im_start|>assistant\nHello!<|im_end|>\n"
    "<|im_start|>user\n1 < 2 & 'so' on?<|im_end|>\n"
    "<|im_start|>assistant\n"
)
CONVERSATION = [
    {"role": "user", "content": "Hi"},
    {"role": "assistant", "content": "Hello!"},
    {"role": "user", "content": "1 < 2 & 'so' on?"},
]


def test_the_models_own_chat_template(qwen: Tokenizer) -> None:
    assert qwen.chat_prompt("Write 6 letters.") == ONE_TURN
    assert qwen.chat_prompt(CONVERSATION, system="Be brief.") == TWO_TURNS


def test_without_a_template_the_qwen_format_is_used(qwen2_copy: Path, change_json: Callable[..., None]) -> None:
    change_json(qwen2_copy / "tokenizer_config.json", chat_template=...)
    tokenizer = load_tokenizer(qwen2_copy, 1024)
    assert tokenizer is not None
    assert tokenizer.template == QWEN_TEMPLATE
    assert tokenizer.chat_prompt("Write 6 letters.") == ONE_TURN
    assert tokenizer.chat_prompt(CONVERSATION, system="Be brief.") == TWO_TURNS


def test_a_template_file_comes_first(qwen2_copy: Path) -> None:
    (qwen2_copy / "chat_template.jinja").write_text("file: {{ messages[0].content }}")
    tokenizer = load_tokenizer(qwen2_copy, 1024)
    assert tokenizer is not None
    assert tokenizer.chat_prompt("x") == "file: x"


def test_a_damaged_template_file_is_named(qwen2_copy: Path) -> None:
    (qwen2_copy / "chat_template.jinja").write_bytes(b"\xff")
    with pytest.raises(EngineError, match=r"chat_template\.jinja: not UTF-8 at byte 0"):
        load_tokenizer(qwen2_copy, 1024)


def test_of_named_templates_the_default_is_taken(qwen2_copy: Path, change_json: Callable[..., None]) -> None:
    named = [{"name": "tool_use", "template": "tools"}, {"name": "default", "template": "plain"}]
    change_json(qwen2_copy / "tokenizer_config.json", chat_template=named)
    tokenizer = load_tokenizer(qwen2_copy, 1024)
    assert tokenizer is not None
    assert tokenizer.chat_prompt("x") == "plain"


@pytest.mark.parametrize(
    ("template", "prompt"),
    [
        ("{{ messages | tojson }}", '[{"role": "user", "content": "<é>"}]'),
        ("{{ strftime_now('%Y') }}", datetime.now().strftime("%Y")),
        ("{{ eos_token }}{{ bos_token }}", "<|im_end|>"),
        ("{% if add_generation_prompt %}go{% endif %}", "go"),
        ("{% for i in [1, 2, 3] %}{% if i == 2 %}{% break %}{% endif %}{{ i }}{% endfor %}", "1"),
        ("{% generation %}answer{% endgeneration %}", "answer"),
        ("  {% if true %}\nline\n  {% endif %}\n", "line\n"),
        ("{% if tools %}tools{% else %}none{% endif %}", "none"),
    ],
)
def test_templates_have_what_transformers_gives_them(
    with_template: Callable[[str], Tokenizer], template: str, prompt: str
) -> None:
    assert with_template(template).chat_prompt("<é>") == prompt


def test_a_template_may_read_more_variables(with_template: Callable[[str], Tokenizer]) -> None:
    tokenizer = with_template("{{ 'think' if enable_thinking else 'answer' }}")
    assert tokenizer.chat_prompt("x", enable_thinking=False) == "answer"


@pytest.mark.parametrize(
    ("template", "says"),
    [
        ("{{ raise_exception('roles must alternate') }}", "roles must alternate"),
        ("{{ messages.append(1) }}", "unsafe"),
        ("{{ ''.__class__.__mro__ }}", "unsafe"),
        ("{% if %}", "chat template failed"),
        ("{{ messages[0].content + 1 }}", "chat template failed"),
        ("{{ 1 / 0 }}", "division by zero"),
        ("{# nothing #}", "the chat template makes nothing of it"),
    ],
)
def test_a_failing_template_is_one_clear_line(
    with_template: Callable[[str], Tokenizer], template: str, says: str
) -> None:
    with pytest.raises(EngineError, match=says) as failure:
        with_template(template).chat_prompt("x")
    assert "\n" not in str(failure.value)


def test_a_template_that_gives_no_text_is_refused(with_template: Callable[[str], Tokenizer]) -> None:
    tokenizer = with_template("{{ '\\ud800' }}")
    with pytest.raises(EngineError, match="no UTF-8"):
        tokenizer.encode(tokenizer.chat_prompt("x"))


def test_no_messages_are_refused(qwen: Tokenizer) -> None:
    with pytest.raises(EngineError, match="no messages"):
        qwen.chat_prompt([])


def test_a_model_without_a_tokenizer_has_none() -> None:
    assert load_tokenizer(ORACLE / "tiny-llama-f32-untied-sharded", 512) is None
