"""What stepscope says when something is wrong, to the letter.

Each line was read as the person who meets it: it names the file and the place, says in the field's words what is there
and what was to be there, and what to do next. One line, no traceback, nothing as Python would print it. A new message
gets its row here.
"""

from __future__ import annotations

import json
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from inspector import cli
from tests.command_line import ROOT, SAMPLE
from tests.engine.conftest import ORACLE
from tests.gdb_scripts.running import gdb

DEMO = ROOT / "engine" / "demo"
RULES = "KV01 KV02 KV03 KV04 KV05 KV06 KV07 KV08 KV09 KV10 KV11 KV12 TK01 TK02 TK03 TK04 TK05 TM01 TM02 SQ01"
VERBS = "run, chat, view, show, check, stats, floor, diff, report, record-set, rule, import, export, probe, gdb"
RUN = '{"format": "stepscope", "version": 1, "fields": [["phase", "U8"]]}\n'
MISSING = "cannot read: No such file or directory"
FILES = {
    "empty.steps": "",
    "text.steps": "what is this",
    "torn.steps": "STEP",
    "list.jsonl": RUN + "[1]\n",
    "words.jsonl": RUN + "phase=decode\n",
    "note.jsonl": RUN + '{"note": 5}\n',
    "late.jsonl": RUN + '{"note": {"kind": "end"}}\n{"phase": "decode"}\n',
    "object.jsonl": RUN + '{"total_ms": {"ms": 1}}\n',
    "text.jsonl": '{"format": "stepscope", "version": 1}\n{"seq_id": "x"}\n',
    "headless.jsonl": '{"phase": "decode"}\n',
    "null.jsonl": '{"format": null}\n',
    "newer.jsonl": '{"format": "stepscope", "version": 9}\n',
    "log.txt": "hello\n",
    "long.txt": "word " * (4 << 20),
    "hookless.ini": "[probe]\nname = x\n",
    "sectionless.ini": "name = x\n",
    "twice.ini": "[probe]\nname = x\nname = y\n",
    "hooks.ini": "[probe]\n[forward]\nfunction = f\n[forward]\nfunction = g\n",
    "no_value.ini": "[probe]\n[forward]\nfunction f\n",
    "grammar.ini": "[probe]\n[forward]\nfunction = f\nseq_before = a b\n",
    "number.ini": "[probe]\nbudget_ms = fast\n[forward]\nfunction = f\n",
    "field.ini": "[probe]\n[forward]\nfunction = f\nseq_length = n\n",
    "hook.ini": "[probe]\n[forwards]\nfunction = f\n",
    "brace.json": "{",
    "list.json": "[]",
    "older.json": '{"format": "stepscope-layout"}',
    "cut.json": '{"format": "stepscope-layout", "version": 1}',
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files that the commands below are typed beside."""
    folder = tmp_path_factory.mktemp("messages")
    for name, text in FILES.items():
        (folder / name).write_text(text)
    (folder / "latin.txt").write_bytes(b"caf\xe9")
    (folder / "latin.ini").write_bytes(b"[probe]\nname = caf\xe9\n")
    (folder / "empty").mkdir()
    shutil.copy(SAMPLE, folder / "good.steps")
    shutil.copytree(ORACLE / "tiny-llama-f32-untied-sharded", folder / "wordless")
    shutil.copytree(DEMO, folder / "model", ignore=shutil.ignore_patterns("*.py", "__pycache__"))
    return folder


@pytest.fixture(autouse=True)
def _there(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(folder)
    before = sorted(folder.iterdir())
    yield
    assert sorted(folder.iterdir()) == before, "what fails leaves nothing behind"


def said(capsys: pytest.CaptureFixture[str], command: str) -> str:
    """What the command says on stderr, behind our name; it prints nothing else and ends with 2."""
    try:
        code = cli.main(shlex.split(command))
    except SystemExit as stopped:  # argparse leaves so
        code = int(stopped.code or 0)
    out, err = capsys.readouterr()
    assert (code, out) == (2, "")
    assert err.startswith("stepscope: ")
    assert err.endswith("\n")
    return err[len("stepscope: ") : -1]


@pytest.mark.parametrize(
    ("command", "line"),
    [
        # words that the command line does not take
        ("", "the following arguments are required: VERB; see stepscope --help"),
        ("shwo", f"VERB: 'shwo' is not one of {VERBS}, completion; see stepscope --help"),
        ("show", "the following arguments are required: TRACE; see stepscope show --help"),
        ("show good.steps --stpes 3", "--stpes: not known here; see stepscope show --help"),
        ("show good.steps other.steps", "other.steps: not known here; see stepscope show --help"),
        ("show good.steps --steps x", "--steps: 'x' is not A:B, A:, :B or one step number; see stepscope show --help"),
        ("run -p a --seed x", "--seed: 'x' is not a whole number; see stepscope run --help"),
        ("run -p a --temperature hot", "--temperature: 'hot' is not a number; see stepscope run --help"),
        (
            "run -p a --loop fast",
            "--loop: 'fast' is not one of cached, naive, speculative, batched; see stepscope run --help",
        ),
        (
            "run",
            "one of the arguments -p/--prompt --prompts-file --prompt-file --prompt-ids is required; "
            "see stepscope run --help",
        ),
        (
            "run -p a --prompt-ids 3",
            "--prompt-ids: not allowed with argument -p/--prompt; see stepscope run --help",
        ),
        ("probe freeze", "WHAT: 'freeze' is not one of list, draft, verify, layout, plain; see stepscope probe --help"),
        ("completion tcsh", "SHELL: 'tcsh' is not one of bash, zsh, fish; see stepscope completion --help"),
        # no trace
        ("show none.steps", f"none.steps: {MISSING}"),
        ("show empty", "empty: cannot read: it is a directory"),
        ("show empty.steps", "empty.steps: the file is empty"),
        ("show text.steps", "text.steps: not a step trace (it does not begin with STEP)"),
        ("stats torn.steps", "torn.steps: no complete run description in it yet (cut off at the start?)"),
        ("show list.jsonl", "list.jsonl: line 2: a line is one JSON object, not a list"),
        ("show words.jsonl", "words.jsonl: line 2: not JSON at column 1"),
        ("show note.jsonl", "note.jsonl: line 2: a note is an object with a kind"),
        ("show late.jsonl", "late.jsonl: line 3: something follows the end note; only another run may"),
        ("show object.jsonl", "object.jsonl: line 2: field total_ms is an object; a step holds numbers"),
        ("show text.jsonl", "text.jsonl: line 2: seq_id holds I32; 'x' does not fit"),
        ("show null.jsonl", 'null.jsonl: line 1: format is null, not "stepscope"'),
        (
            "import jsonl headless.jsonl",
            'headless.jsonl: line 1: the first line must be the run object, {"format": "stepscope", "version": 1, '
            "...}; is this JSON Lines of a step trace?",
        ),
        (
            "show newer.jsonl",
            "newer.jsonl: line 1: version 9 of the format; this stepscope reads up to 1; update stepscope",
        ),
        ("check empty", "empty: holds no traces (*.steps); name the traces, or another folder"),
        ("check good.steps --select KV99", f"no rule KV99; the rules are {RULES}"),
        (
            "check good.steps --select KV01 --ignore KV",
            "--select and --ignore leave no rule to check; ignore fewer",
        ),
        ("check good.steps good.steps --follow", "--follow takes one trace"),
        ("view good.steps --source-map src", "--source-map: 'src' is not FROM=TO; see stepscope view --help"),
        ("view empty --follow", "--follow is for one trace"),
        ("rule kv1", f"no rule KV1; the rules are {RULES}"),
        # generating
        (
            "run none -p a",
            "none: no such model; MODEL is a folder, a .gguf file, demo, smollm2, or the id of one in the Hugging Face "
            "cache (ORGANISATION/NAME)",
        ),
        ("run empty -p a", "empty/config.json: missing; a model directory has this file, download it again"),
        ("run --prompt-ids 1,x", "--prompt-ids takes numbers like 1,2,3, not '1,x'"),
        ("run --prompt-ids 1,1024 --no-trace", "token id 1024 is outside the model's vocabulary of 1024"),
        ("run --prompt-file none.txt", f"none.txt: {MISSING}"),
        ("run --prompt-file latin.txt", "latin.txt: not UTF-8 text at byte 3; save it as UTF-8"),
        (
            "run --prompt-file long.txt",
            "long.txt: longer than 16 MiB, and so than any model's context; shorten it",
        ),
        ("run -p ' '", "the prompt is empty; give at least one word"),
        ("run -p a --context 9999", "a context of 9999 is asked for, the model's is 2048; use at most 2048"),
        ("run -p a --context 0", "--context is 0; it is 1 or more"),
        ("run -p a --threads 0", "--threads is 0; it is 1 or more"),
        ("run -p a --max-new-tokens -1", "--max-new-tokens is -1; it is 0 (only the prompt is fed) or more"),
        ("run -p a --stop ''", "a stop string is empty; give at least one character"),
        ("run -p a --top-k 3", "--top-k says nothing about greedy decoding; give a --temperature above 0"),
        ("run -p a --draft-k 3", "--draft-k says nothing about the cached loop; it goes with speculative"),
        ("run -p a --live", "--live needs a terminal; without one, `run` and then `show` the trace"),
        ("run -p a --theme plaid", "--theme is for --live"),
        ("run -p a --no-trace -o a.steps", "--no-trace leaves nothing for -o or --live"),
        ("run -p a --repetition-penalty 0", "--repetition-penalty is 0.0; it is from 0.001 to 1000; 1 is off"),
        ("run wordless -p a", "wordless: has no tokenizer; give the prompt as --prompt-ids"),
        (
            "chat wordless",
            "wordless: has no tokenizer to talk through; use stepscope run with --prompt-ids",
        ),
        ("run -p a -o log.txt", "log.txt: exists and is not a step trace; choose another name or remove it"),
        ("run -p a -o empty", "empty: cannot write a trace here: Is a directory"),
        ("run -p a -o no/a.steps", "no/a.steps: cannot write a trace here: No such file or directory"),
        ("run -p a -o -", "a trace is not written to standard output: name a file, such as -o a.steps"),
        ("chat --n-keep 5 --context 3", "--n-keep is 5, the context holds 3; keep at most 1"),
        (
            "floor --bandwidth fast",
            "--bandwidth is 'fast'; it is a size above zero, as 150GB (B, kB, MB, GB, TB, MiB, GiB; at most 10^18 "
            "bytes)",
        ),
        ("floor --bandwidth 3Gb", "--bandwidth is '3Gb', in bits; give bytes, as 150GB"),
        ("floor --context -1", "--context is -1; it is 0 or more rows, at most 10^12"),
        # two builds
        (
            "diff good.steps",
            "name the other build's runs with --against (a folder with both sides needs none)",
        ),
        (
            "diff empty --against good.steps",
            "empty: holds no traces (*.steps, *.jsonl); name the traces, or another folder",
        ),
        (
            "diff good.steps --against good.steps --fail-on ,",
            "--fail-on takes tokens, state, layers, time, slower, not nothing",
        ),
        ("record-set -n 0 -- true", "-n takes the number of runs a side, 1 to 1000"),
        ("record-set -o log.txt -- true", "log.txt: is not a folder; name a new one with -o"),
        ('record-set --base "\'x" --new y', '--base: No closing quotation in "\'x"'),
        # logs and exports
        ("import vllm log.txt", "log.txt: no line of it is known as vllm's; docs/engines.md says what is"),
        ("import pattern log.txt --regex '(?P<token_id>x)'", "log.txt: no line of it matches --regex"),
        ("import pattern log.txt --regex '('", "--regex '(': missing ), unterminated subpattern at position 0"),
        (
            "import pattern log.txt --regex '(?P<token_id>x)' --set n_tokens",
            "--set: n_tokens has no value; it is NAME=VALUE, such as n_tokens=1",
        ),
        (
            "import pattern log.txt --regex '(?P<token_id>x)' --set n_tokens=one",
            "--set: n_tokens cannot be 'one'; it is NAME=VALUE, such as n_tokens=1",
        ),
        ("import auto good.steps", "good.steps: is a step trace already"),
        ("import ollama empty", "empty: not a regular file; pipe it in: … | stepscope import FORMAT -"),
        (
            "export good.steps --to chrome -o log.txt",
            "log.txt: exists and is not JSON; choose another name or remove it",
        ),
        ("export good.steps --to csv -o no/a.csv", "no/a.csv: cannot write: No such file or directory"),
        ("export good.steps --to parquet", "parquet is a folder of files: name it with -o"),
        ("report good.steps -o empty", "empty: cannot write: Is a directory"),
        # probes and gdb
        (
            "probe plain none",
            "no probe 'none'; those that come with stepscope are kestrel, llama_cpp, native, or give the path of an "
            ".ini file",
        ),
        ("probe plain none.ini", f"none.ini: {MISSING}"),
        ("probe plain latin.ini", "latin.ini: not UTF-8 text at byte 18"),
        ("probe plain hookless.ini", "hookless.ini: has no [forward] hook, so there is nothing to record"),
        ("probe plain sectionless.ini", "sectionless.ini: line 1: 'name = x' stands before the first [section]"),
        ("probe plain twice.ini", "twice.ini: line 3: [probe] has name twice"),
        (
            "probe plain hooks.ini",
            "hooks.ini: line 4: a second [forward]; give it a word behind its name, as in [forward two]",
        ),
        ("probe plain no_value.ini", "no_value.ini: line 3: 'function f' is no KEY = VALUE"),
        (
            "probe plain grammar.ini",
            "grammar.ini: [forward] seq_before: 'b' is not expected here (column 3 of 'a b')",
        ),
        (
            "probe plain field.ini",
            "field.ini: [forward] seq_length: not known here; known are seq_id, token_id, n_tokens, seq_before, "
            "cache_before, write_pos, pos, draft_cache_len, n_drafted, kv_used, kv_free, logit, margin, runner_up, "
            "forward_id, function, file, cap.FIELD, accumulated.FIELD, scale.FIELD, skip, timed, slot, outputs",
        ),
        ("probe plain number.ini", "number.ini: [probe] budget_ms: 'fast' is not a number"),
        ("probe plain native -o log.txt", "log.txt: exists; choose another name or remove it"),
        ("probe plain native -o no/hooks.gdb", "no/hooks.gdb: cannot write: No such file or directory"),
        ("probe verify none native", f"none: {MISSING}"),
        ("probe verify empty native", "empty: cannot read: it is a directory"),
        ("probe verify log.txt native", "log.txt: is not an ELF program or library"),
        ("gdb --record a.steps", "--record, --break-on and --follow need a probe; stepscope probe list shows them"),
        ("gdb --batch", "--batch needs a program: stepscope gdb --batch [options] -- PROGRAM ARGS"),
        ("gdb --probe native -- none", "none: no such program; give its path, as in ./engine"),
        ("gdb --probe native --follow none.steps -- ls", f"none.steps: {MISSING}"),
        ("gdb --gdb none -- ls", "none: no such program; --gdb takes gdb, gdb-multiarch or the path of one"),
        ("gdb --probe brace.json -- ls", "brace.json: is not JSON; stepscope probe layout writes such a file"),
        ("gdb --probe list.json -- ls", "list.json: is not a frozen layout; stepscope probe layout writes one"),
        (
            "gdb --probe older.json -- ls",
            "older.json: is of version null, this stepscope reads 1; write it again with stepscope probe layout",
        ),
        (
            "gdb --probe cut.json -- ls",
            "cut.json: is damaged: probe is missing; write it again with stepscope probe layout",
        ),
    ],
)
def test_the_command_line(capsys: pytest.CaptureFixture[str], command: str, line: str) -> None:
    assert said(capsys, command) == line


COUNT = "it is a whole number above zero, at most 10^12"


@pytest.mark.parametrize(
    ("entries", "problem"),
    [
        ({"num_hidden_layers": None}, "num_hidden_layers is missing; download the file again"),
        ({"num_hidden_layers": True}, f"num_hidden_layers is true; {COUNT}"),
        ({"num_hidden_layers": "4"}, f'num_hidden_layers is "4"; {COUNT}'),
        ({"num_hidden_layers": {"n": None}}, f'num_hidden_layers is {{"n": null}}; {COUNT}'),
        ({"num_attention_heads": 3}, "num_attention_heads 3 is not a multiple of num_key_value_heads 2"),
        ({"head_dim": 3}, "head_dim 3 is odd; RoPE rotates pairs"),
        ({"hidden_act": None}, "hidden_act null is not supported; supported: silu"),
        ({"dtype": "int9"}, 'dtype "int9" is not supported; supported: float32, float16, bfloat16'),
        ({"tie_word_embeddings": "yes"}, 'tie_word_embeddings is "yes"; it is true or false'),
        (
            {"quantization_config": {"quant_method": "gptq"}},
            'quantization_config "gptq" is not supported; use float32, float16 or bfloat16 weights, or GGUF',
        ),
        (
            {"layer_types": [None] * 4},
            "layer 0 is null; supported kinds of layers: full_attention, sliding_attention",
        ),
    ],
)
def test_a_models_configuration(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], entries: dict[str, object], problem: str
) -> None:
    config = {**json.loads((DEMO / "config.json").read_text()), **entries}
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert said(capsys, f"run {tmp_path} -p a --no-trace") == f"{tmp_path}/config.json: {problem}"


def test_in_gdb(folder: Path) -> None:
    """gdb says each behind the other, and goes on."""
    told = {
        "stepscope probe none": (
            "no probe 'none'; those that come with stepscope are kestrel, llama_cpp, native, or give the path of an "
            ".ini file"
        ),
        "stepscope record a.steps": (
            "choose a probe first; type: stepscope probe NAME (stepscope probe list shows them)"
        ),
        "stepscope record": "name one trace; type: stepscope record FILE",
        "stepscope break-on KV99": f"no rule KV99; the rules are {RULES}",
        "stepscope follow none.steps": f"none.steps: {MISSING}",
        "stepscope follow": "name one trace; type: stepscope follow TRACE",
        "stepscope replay text.steps": "text.steps: not a step trace (it does not begin with STEP)",
        "stepscope replay": "name one trace; type: stepscope replay TRACE",
        "stepscope goto 1": "no trace is replayed; type: stepscope replay TRACE",
        "stepscope backend fast": "no such back-end; type: stepscope backend auto|stop|tracepoint [MB] [circular]",
        "stepscope backend stop 9999": "the buffer takes 1 to 4095 MB",
        "stepscope batch": "say how to go on; type: stepscope batch run, or stepscope batch continue",
        "stepscope brake-on any": "no command stepscope brake-on; type: help stepscope",
        "stepscope probe hook.ini": (
            "hook.ini: [forwards]: a hook is one of request, forward, shift, finish, with a word behind it where there "
            "are several"
        ),
    }
    done = gdb([f"cd {folder}", *told])
    assert done.stderr.splitlines() == list(told.values())
    done = gdb([f"cd {folder}", "stepscope replay good.steps", "stepscope goto 99"])
    assert done.stderr == "no such step; type: stepscope goto N, with N from 0 to 13\n"
    places = {"''": None, "empty": "Is a directory", "no/a.steps": "No such file or directory"}
    done = gdb([f"cd {folder}", "stepscope probe native", *(f"stepscope record {place}" for place in places)])
    assert done.stderr.splitlines() == [
        "the trace's name is empty; type: stepscope record FILE",
        "empty: cannot write a trace here: Is a directory",
        "no/a.steps: cannot write a trace here: No such file or directory",
    ]
