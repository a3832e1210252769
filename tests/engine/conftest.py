"""Models with known answers (see oracle/README.md), whole or as a copy that a test may damage."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from engine.model import Model, load_model

ORACLE = Path(__file__).parent / "oracle"


@cache
def oracle_model(name: str) -> Model:
    """An oracle model, loaded once for all tests."""
    return load_model(ORACLE / name)


@pytest.fixture
def qwen2() -> Model:
    return oracle_model("tiny-qwen2-f32-tied")


@pytest.fixture
def llama_without_tokenizer() -> Model:
    return oracle_model("tiny-llama-f32-untied-sharded")


@pytest.fixture
def copy_of(tmp_path: Path) -> Callable[[str], Path]:
    """A copy of an oracle model's directory."""

    def copy(name: str) -> Path:
        return Path(shutil.copytree(ORACLE / name, tmp_path / name))

    return copy


@pytest.fixture
def qwen2_copy(copy_of: Callable[[str], Path]) -> Path:
    return copy_of("tiny-qwen2-f32-tied")


@pytest.fixture
def change_json() -> Callable[..., None]:
    """Change entries of a JSON file; an entry set to `...` is removed."""

    def change(path: Path, **entries: Any) -> None:
        value = json.loads(path.read_text()) | entries
        path.write_text(json.dumps({name: entry for name, entry in value.items() if entry is not ...}))

    return change
