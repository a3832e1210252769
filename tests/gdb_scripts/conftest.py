"""What several tests compare a recording under gdb with."""

from __future__ import annotations

from typing import Any

import pytest

from engine.loop import StopSettings
from engine.model import DEMO_MODEL, load_model
from engine.tracing import record_generation
from tests.gdb_scripts.running import prompt, recorded


@pytest.fixture(scope="session")
def reference(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """The numpy engine's own trace of the same run."""
    path = tmp_path_factory.mktemp("reference") / "numpy.steps"
    model = load_model(DEMO_MODEL)
    record_generation(model, prompt(), stops=StopSettings(model.defaults.eos, 256), path=path)
    return recorded(path)
