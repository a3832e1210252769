"""`stepscope floor`, run as its users run it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

import traces
from inspector.cli import main
from tests.engine.conftest import ORACLE

CONFIG: dict[str, Any] = {
    "architectures": ["Qwen2ForCausalLM"],
    "hidden_size": 3584,
    "intermediate_size": 18944,
    "num_hidden_layers": 28,
    "num_attention_heads": 28,
    "num_key_value_heads": 4,
    "vocab_size": 152064,
    "max_position_embeddings": 32768,
}


@pytest.fixture
def config(tmp_path: Path) -> str:
    path = tmp_path / "config.json"
    path.write_text(json.dumps(CONFIG))
    return str(path)


def printed(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(["floor", *words]) == 0
    return capsys.readouterr().out


def figures(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(printed(capsys, *words, "--json"))
    return found


def test_a_quantised_model_of_4_4_gb_at_150_gb_a_second(config: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = (config, "--weights", "4.4GB", "--kv-dtype", "f16", "--bandwidth", "150GB/s")
    f = figures(capsys, *words, "--context", "0")
    assert f["least_ms"] == pytest.approx(4.4 / 150 * 1000)
    assert f["most_tok_s"] == pytest.approx(34, abs=0.1)
    assert f["weights"] == {"dtype": "given", "bytes_per_token": 4_400_000_000, "parts": {"given": 4_400_000_000}}
    f = figures(capsys, *words, "--context", "2048")
    assert (f["kv"]["bytes"], f["kv"]["bytes_without_gqa"]) == (117_440_512, 822_083_584)
    assert f["attention_share"] == pytest.approx(117_440_512 / (117_440_512 + 4.4e9))


def test_attentions_share_grows_with_the_context(config: str, capsys: pytest.CaptureFixture[str]) -> None:
    rows = figures(capsys, config, "--dtype", "bf16", "--bandwidth", "1TB/s", "--context", "9000")["by_context"]
    assert [row["context"] for row in rows] == [0, 1024, 4096, 9000, 16384, 32768]
    shares = [row["attention_share"] for row in rows]
    assert shares == sorted(shares) and shares[0] == 0 and shares[-1] > 0.1
    assert [row["least_ms"] for row in rows] == sorted(row["least_ms"] for row in rows)


def test_the_same_in_words(config: str, capsys: pytest.CaptureFixture[str]) -> None:
    out = printed(capsys, config, "--dtype", "f16", "--bandwidth", "150GB/s", "--context", "2048")
    assert "28 layers, 28/4 heads of 128, vocabulary 152064" in out
    # 14.14 GB, all but one row of the embedding's 545 million values: at 150 GB/s and 117 MB of rows
    assert "weights that a token reads (f16): 14,141 MB" in out
    assert "KV cache of 2,048 rows (f16): 117,440,512 bytes, 57,344 a row; 822,083,584 if query heads did not" in out
    assert "memory: 150.0 GB/s (given)" in out
    assert "least: 95.1 ms a token at 2,048 rows, at most 10.5 tok/s" in out


def test_this_machine_is_measured_and_says_with_how_many_threads(capsys: pytest.CaptureFixture[str]) -> None:
    f = figures(capsys)
    assert f["model"] == "demo"
    assert f["bandwidth"]["source"] == "measured" and f["bandwidth"]["threads"] == 1
    assert f["bandwidth"]["gb_s"] > 0.01
    assert "(measured on 1 thread)" in printed(capsys, "demo")


def test_stored_sizes(capsys: pytest.CaptureFixture[str]) -> None:
    folder = str(ORACLE / "tiny-qwen2-bf16-tied")
    stored, held = figures(capsys, folder, "--dtype", "stored"), figures(capsys, folder)
    assert held["weights"]["bytes_per_token"] == 2 * stored["weights"]["bytes_per_token"]
    assert (stored["kv"]["dtype"], held["kv"]["dtype"]) == ("f16", "f32")


def test_stored_sizes_of_weights_that_are_not_all_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = shutil.copytree(ORACLE / "tiny-llama-f32-untied-sharded", tmp_path / "model")
    index = folder / "model.safetensors.index.json"
    files = json.loads(index.read_text())["weight_map"]
    (folder / files["model.norm.weight"]).unlink()
    kept = {name: file for name, file in files.items() if file != files["model.norm.weight"]}
    index.write_text(json.dumps({"weight_map": kept}))
    assert main(["floor", str(folder), "--dtype", "stored", "--bandwidth", "1GB/s"]) == 2
    err = capsys.readouterr().err
    assert " is missing; config.json asks for it" in err and err.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--context", "-1"], "--context is -1; it is 0 or more rows"),
        (["--bandwidth", "fast"], "--bandwidth is 'fast'; it is a size above zero"),
        (["--bandwidth", "0GB/s"], "--bandwidth is '0GB'"),
        (["--weights", "4.4 parsecs"], "--weights is '4.4 parsecs'"),
        (["--dtype", "stored"], "no weights are here to be stored; name a --dtype, or --weights"),
        (["--threads", "0"], "--threads is 0"),
        (["--context", str(10**13)], "it is 0 or more rows, at most 10^12"),
        (["--bandwidth", "9" * 400 + "GB/s"], "at most 10^18 bytes"),
        (["--bandwidth", "0.1B/s"], "it is a size above zero"),
        (["--bandwidth", "150Gb/s"], "--bandwidth is '150Gb', in bits; give bytes, as 150GB"),
        (["--bandwidth", "150GB/s", "--threads", "2"], "--threads says how to measure; a given --bandwidth is not"),
        (["--weights", "4GB", "--dtype", "f16"], "--weights stands instead of --dtype; --kv-dtype says"),
    ],
)
def test_bad_words(config: str, words: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["floor", config, *words]) == 2
    err = capsys.readouterr().err
    assert says in err and err.count("\n") == 1


def figures_of_a_run(tmp_path: Path, capsys: pytest.CaptureFixture[str], bandwidth: float) -> str:
    """What `stats` says of a step of 25 ms that reads 2 GB of weights."""
    facts = {
        "n_layers": 1,
        "clock": "monotonic",
        "floor": {"bytes_per_token": 2_000_000_000, "kv_bytes_per_row": 1, "bandwidth_gb_s": bandwidth},
    }
    path = str(tmp_path / "a.steps")
    with traces.record(path, **facts) as trace:
        trace.step(token_id=1, n_tokens=1, seq_before=4, seq_len=5, cache_len=[5], total_ms=25.0)
    assert main(["stats", path]) == 0
    return capsys.readouterr().out


def test_stats_draws_a_step_against_its_floor(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = figures_of_a_run(tmp_path, capsys, 100.0)
    assert "floor: 20.0 ms a token (2,000 MB of weights and the KV cache at 100.0 GB/s), measured 25.0 ms" in out
    assert f"[{'#' * 32}{'.' * 8}] 80% of a decode step is the floor\n" in out


def test_a_floor_above_the_measured_time_says_why(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = figures_of_a_run(tmp_path, capsys, 50.0)
    assert f"[{'#' * 40}] 160% of a decode step is the floor; the machine was busy when" in out
