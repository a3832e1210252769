"""Model folders and GGUF files with anything wrong in their headers, settings and vocabulary."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.model import DEMO_MODEL
from tests.engine.gguf_files import model_as_gguf
from tests.fuzz.mutations import WORDS, changed_bytes, changed_json, json_text
from tests.fuzz.running import FUZZ, behaves, explore, run

FILES = ("config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json", "model.safetensors")
VERBS = [
    "run {model} -p ab --max-new-tokens 2 --no-trace",
    "run {model} --prompt-ids 1,2 --max-new-tokens 2 --no-trace",
    "floor {model} --bandwidth 10GB/s",
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A copy of the embedded model."""
    copy = tmp_path / "changed-model"
    copy.mkdir()
    for name in FILES:
        (copy / name).write_bytes((DEMO_MODEL / name).read_bytes())
    return copy


@pytest.mark.parametrize("name", FILES[:4])
def test_changed_settings(name: str, folder: Path) -> None:
    sound = json.loads((DEMO_MODEL / name).read_bytes())

    @settings(FUZZ, max_examples=20)
    @given(changed_json(sound), st.sampled_from(VERBS))
    def ends_well(changed: object, verb: str) -> None:
        (folder / name).write_bytes(json_text(changed))
        behaves(run(*verb.format(model=folder).split()), "changed-model")

    explore(ends_well)


def test_changed_safetensors_headers(folder: Path) -> None:
    sound = (DEMO_MODEL / "model.safetensors").read_bytes()
    size = int.from_bytes(sound[:8], "little")
    header, values = json.loads(sound[8 : 8 + size]), sound[8 + size :]

    @settings(FUZZ, max_examples=20)
    @given(changed_json(header), st.one_of(st.none(), WORDS), st.sampled_from(VERBS[1:]))
    def ends_well(changed: object, length: int | None, verb: str) -> None:
        text = json_text(changed)
        said = len(text) if length is None else length
        (folder / "model.safetensors").write_bytes(struct.pack("<Q", said) + text + values)
        behaves(run(*verb.format(model=folder).split()), "changed-model")

    explore(ends_well)


def test_changed_shards(folder: Path) -> None:
    (folder / "model.safetensors").rename(folder / "model-1.safetensors")
    index = {"metadata": {"total_size": 1}, "weight_map": {"model.norm.weight": "model-1.safetensors"}}

    @settings(FUZZ, max_examples=20)
    @given(changed_json(index), st.sampled_from(VERBS[1:]))
    def ends_well(changed: object, verb: str) -> None:
        (folder / "model.safetensors.index.json").write_bytes(json_text(changed))
        behaves(run(*verb.format(model=folder).split()), "changed-model")

    explore(ends_well)


def test_changed_gguf_headers(tmp_path: Path) -> None:
    whole = (DEMO_MODEL / "tokenizer.json").read_text()
    metadata = {"tokenizer.huggingface.json": whole, "general.alignment": 32}
    sound = model_as_gguf(DEMO_MODEL, tmp_path / "sound.gguf", metadata=metadata).read_bytes()
    path = tmp_path / "changed-model.gguf"
    text = sound.index(whole[:50].encode())

    @settings(FUZZ, max_examples=20)
    @given(st.data())
    def ends_well(data: st.DataObject) -> None:
        before = data.draw(st.booleans(), label="before the vocabulary")
        first, last = (0, text) if before else (text + len(whole.encode()), text + len(whole.encode()) + 4000)
        path.write_bytes(data.draw(changed_bytes(sound[: last + 64], first, last)) + sound[last + 64 :])
        behaves(run(*data.draw(st.sampled_from(VERBS[1:])).format(model=path).split()), "changed-model.gguf")

    explore(ends_well)


PIECES = [
    "{{ messages }}", "{{ messages[0].content }}", "{% for m in messages %}{{ m.role }}{% endfor %}", "{{", "{%", "a",
    "{% for i in range(10**9) %}x{% endfor %}", "{{ 'x' * 10**10 }}", "{{ ('x' * 100000) ~ '' }}", "\x1b[2J",
    "{{ ''.__class__.__mro__ }}", "{{ self.__init__.__globals__ }}", "{{ cycler.__init__.__globals__ }}",
    "{{ messages.append(1) }}", "{{ raise_exception('\x1b[31mno') }}", "{{ strftime_now('%Y' * 1000) }}",
    "{{ 9 ** 9 ** 9 }}", "{{ (1).__add__ }}", "{{ '%s' | format(1) }}", "{{ '{0.__class__}'.format(1) }}",
    "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "{% set x = range(99999) | list %}{{ x | length }}",
    "{{ lipsum(n=100000) }}", "{{ x | tojson }}", "{{ ['a'] * 10**9 }}", "{{ 'a'.join(range(99999)) }}",
    "{% include 'x' %}", "{% import 'os' as os %}", "{{ '%1000000000d' % 1 }}", "{{ 'a' | center(10**9) }}",
    "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}", "{{ ''.ljust(10**10) }}",
    "{% set n = namespace(s='xxxxxxxx') %}{% for i in range(40) %}{% set n.s = n.s ~ n.s %}{% endfor %}",
    "{% for i in range(99999) %}{{ 'x' * 1000 }}{% endfor %}", "{% generation %}a{% endgeneration %}",
]  # fmt: skip


def test_chat_templates(folder: Path) -> None:
    @settings(FUZZ, max_examples=12)
    @given(st.lists(st.sampled_from(PIECES), min_size=1, max_size=3).map("".join))
    def ends_well(template: str) -> None:
        (folder / "chat_template.jinja").write_text(template)
        behaves(run(*VERBS[0].format(model=folder).split()), "changed-model")

    explore(ends_well)
