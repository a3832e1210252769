"""stepscope.h: it compiles as C99 and C++17, and what it writes is the format, byte for byte."""

from __future__ import annotations

import re
import subprocess
from functools import cache
from pathlib import Path

import pytest

from tests.engine.native.conftest import NATIVE, rows
from tests.programs import need
from traces import frames
from traces.fields import ABSENT_I64, FIELDS, FINISH, OPTIONAL, PHASES, REQUIRED, declaration
from traces.table import Table
from traces.writer import TraceWriter

HEADER = NATIVE / "stepscope.h"
DRIVER = Path(__file__).parent / "header_driver.c"
STRICT = ("-Wall", "-Wextra", "-pedantic", "-Werror", "-Wshadow", f"-I{NATIVE}")
LANGUAGES = {"C99": ("gcc", "-std=c99", "-xc"), "C++17": ("g++", "-std=c++17", "-xc++")}
PER_LAYER = dict.fromkeys((name for name, field in FIELDS.items() if field.per_layer == "may"), 3)


def compile_with(language: str, source: Path, *options: str) -> None:
    compiler, *flags = LANGUAGES[language]
    need(compiler)
    done = subprocess.run([compiler, *flags, *STRICT, str(source), *options], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="session", params=LANGUAGES)
def driver(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The driver, built with sanitizers; a report makes it fail."""
    program = tmp_path_factory.mktemp("driver") / "driver"
    wrap = "-Wl,--wrap=malloc,--wrap=write"
    sanitize = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all")
    compile_with(request.param, DRIVER, "-O1", "-g", wrap, *sanitize, "-o", str(program))
    return program


def said(driver: Path, mode: str, trace: Path) -> list[str]:
    done = subprocess.run([str(driver), mode, str(trace)], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


@cache
def example() -> str:
    """The usage example in the header's first comment, as it stands there."""
    page = HEADER.read_text().split("*/")[0]
    block = re.search(r"Recording a loop:\n \*\n((?: \*     .*\n)+)", page)
    assert block
    return "\n".join(line[7:] for line in block[1].splitlines())


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_example_compiles_and_its_trace_reads(language: str, tmp_path: Path) -> None:
    source, program = tmp_path / "example.c", tmp_path / "example"
    body = example().replace('"run.steps"', "argv[1]")
    source.write_text(f"""#define STEPSCOPE_IMPLEMENTATION
#include "stepscope.h"
int main(int argc, char **argv)
{{
    const int n_layers = 2, n_vocab = 100, n_ctx = 32, n_prompt = 3, max_new_tokens = 1, sampled = 5, n_past = 3;
    const int32_t prompt[3] = {{1, 2, 3}}, rows[2] = {{4, 4}};
    const uint64_t began = 0;
    const float forward_ms = 1.5f;
{body}
    return argc != 2;
}}
""")
    compile_with(language, source, "-o", str(program))
    assert len(example().splitlines()) <= 17
    assert subprocess.run([str(program), str(tmp_path / "x.steps")]).returncode == 0
    assert rows(tmp_path / "x.steps")["cache_len"].tolist() == [[4, 4]]


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_plain_include_compiles_after_other_headers(language: str, tmp_path: Path) -> None:
    source = tmp_path / "user.c"
    source.write_text('#include <stdio.h>\n#include "stepscope.h"\n#include "stepscope.h"\nint x;\n')
    compile_with(language, source, "-fsyntax-only")


def test_every_field_of_the_vocabulary_is_there(driver: Path, trace: Path) -> None:
    said(driver, "all", trace)
    names = [*REQUIRED, *OPTIONAL]
    assert Table(trace).runs[0].facts["fields"] == declaration(names, {**PER_LAYER, "draft_ids": 4})


def test_codes_are_those_of_the_format() -> None:
    text = HEADER.read_text()
    finish = {name.lower(): int(code) for name, code in re.findall(r"STEPSCOPE_FINISH_([A-Z]+) = (\d)", text)}
    assert finish == FINISH
    assert {name: int(re.findall(rf"STEPSCOPE_{name.upper()} = (\d)", text)[0]) for name in PHASES} == PHASES


def test_every_value_comes_back(driver: Path, trace: Path) -> None:
    said(driver, "all", trace)
    full, absent, long = rows(trace)
    counts = "n_tokens seq_before seq_len t_ns total_ms forward_ms sample_ms lm_head_ms draft_cache_len write_pos pos"
    counts += " n_reused logit margin runner_up kv_used kv_free forward_id"
    assert [full[name] for name in counts.split()] == [*range(3, 21)]
    assert (full["phase"], full["finish"], full["seq_id"], full["token_id"]) == (3, 3, 1, 5000000000)
    assert (full["cache_before"].tolist(), full["cache_len"].tolist()) == ([3, 3, 3], [4, 5, 6])
    for name in ("gemm_ms", "attn_ms", "qkv_ms", "o_ms", "gate_up_ms", "down_ms", "hidden_rms"):
        assert full[name].tolist() == [0.5, 1.5, 2.5]
    assert (full["n_drafted"], full["n_accepted"]) == (2, 1)
    assert full["draft_ids"].tolist() == [21, 22, ABSENT_I64, ABSENT_I64]
    assert full["text"] == b" \xc3\xa9"
    assert long["text"] == b"a token of more "


def test_records_are_those_of_the_python_writer(driver: Path, trace: Path, tmp_path: Path) -> None:
    said(driver, "all", trace)
    table = Table(trace)
    other = tmp_path / "python.steps"
    with TraceWriter(other, table.runs[0].facts) as writer:
        for step in table.records(0, 2):
            assert step is not None
            writer.step(**step)
    assert steps_of(trace)[:2] == steps_of(other)


def test_what_was_not_said_is_absent(driver: Path, trace: Path) -> None:
    said(driver, "all", trace)
    absent = Table(trace).plain(1, 2)[0]
    assert absent is not None
    said_values = {"step": 1, "phase": "decode", "seq_id": 1}
    for name, value in absent.items():
        if name in said_values:
            assert value == said_values[name]
        else:
            assert set(value if isinstance(value, list) else [value]) <= {None, ""}, name


def test_every_note_comes_back(driver: Path, trace: Path) -> None:
    said(driver, "all", trace)
    table = Table(trace)
    notes = table.notes()
    assert notes[1][1].pop("t_ns") >= 0
    assert notes == [
        (0, {"kind": "source", "file": "loop.c", "line": 12, "function": "generate"}),
        (0, {"kind": "request", "seq_id": 1, "prompt_tokens": 3, "n_reused": 0, "max_new_tokens": 9,
             "prompt": 'say "\udcff"', "prompt_ids": [11, 12, 13]}),
        (2, {"kind": "text", "step": 2, "text": "a token of more than sixteen bytes"}),
        (3, {"kind": "shift", "seq_id": 1, "n_keep": 4, "n_discard": 8}),
        (3, {"kind": "rollback", "seq_id": 1, "n": 2}),
        (3, {"kind": "gap", "why": "lost"}),
        (3, {"kind": "absent", "field": "margin", "why": "not_measured"}),
        (3, {"kind": "message", "text": "€"}),
        (3, {"kind": "finish", "seq_id": 1, "finish": "abort"}),
        (3, {"kind": "release", "seq_id": 1, "kv_used": 0, "kv_free": 50}),
    ]  # fmt: skip


def test_names_survive_whatever_bytes_they_have(driver: Path, trace: Path) -> None:
    said(driver, "all", trace)
    facts = Table(trace).runs[0].facts
    assert facts["engine"]["name"] == 'driver "\\\n\x1b \udcffé'
    # a surrogate spelled as UTF-8 and half a character are not UTF-8: byte by byte
    assert facts["model"]["name"] == "你\udced\udca0\udc80😀\udcc3"
    assert facts["draft"] == {"k": 4}


def test_a_frame_is_one_write_and_nothing_is_allocated_after_open(driver: Path, trace: Path) -> None:
    lines = said(driver, "all", trace)
    assert lines == ["allocations 0", f"writes {len(frames_of(trace))}", "failed 0 ''"]


def test_totals_and_other_layers(driver: Path, trace: Path) -> None:
    assert said(driver, "totals", trace) == ["0"]
    table = Table(trace)
    assert table.runs[0].facts["fields"][-1] == ["gemm_ms", "F32"]
    assert table.runs[0].facts["layers"][0] == {"kind": "recurrent"}
    assert (rows(trace)["cache_len"].tolist(), rows(trace)["gemm_ms"].tolist()) == ([7], [1.25])
    request = table.notes()[0][1]
    assert (request["prompt_tokens"], "prompt_ids" in request) == (4000, False)
    unknown = table.notes()[1][1]
    assert set(unknown) == {"kind", "seq_id", "t_ns"}, "a negative count is not known, and the ids it counts neither"


def test_misuse_is_harmless(driver: Path, trace: Path) -> None:
    trace.write_bytes(b"STEP kept")
    lines = said(driver, "misuse", trace)
    assert lines == [
        "0 ''",
        f"1 {trace}: the run cannot be recorded: n_layers and n_drafts are from 1 to 65535, a record is at most 1 MiB",
        "1",
        f"1 {trace}: the run's description is too long: raise note_bytes",
        "3 /no/such/place: cannot write a trace here: No such file or directory",
        "1 (no path): the run cannot be recorded: a path and a run are needed",
        "1",
        "writes 0",
    ]
    assert trace.read_bytes() == b"STEP kept"


def frames_of(trace: Path) -> list[tuple[int, bytes]]:
    """(kind, whole frame) of every frame, checked by hand."""
    data, at, found = trace.read_bytes(), 0, []
    while at < len(data):
        header = frames.header_at(data, at)
        assert header is not None
        end = at + frames.HEADER_SIZE + header.length
        assert frames.intact(header, data[at + frames.HEADER_SIZE : end])
        found.append((header.kind, data[at:end]))
        at = end
    return found


def steps_of(trace: Path) -> list[bytes]:
    return [frame for kind, frame in frames_of(trace) if kind == frames.STEPS]
