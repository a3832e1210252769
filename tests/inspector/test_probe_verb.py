"""`stepscope probe`: a spec drafted from a binary alone, held against it, and frozen for its stripped twin."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gdb_scripts import frozen, probe
from inspector import cli
from tests.engine.native.conftest import built, run
from tests.gdb_scripts.running import gdb, letters
from tests.gdb_scripts.serving import qemu
from tests.inspector.programs import ARGUMENTS, ARGUMENTS_SPEC, CPP, C
from tests.programs import compiled, need
from tests.reading import steps
from traces.columnar import check_table
from traces.table import Table


def stepscope(capsys: pytest.CaptureFixture[str], *words: Any) -> tuple[int, str, str]:
    """(exit code, stdout, stderr)"""
    try:
        code = cli.main([str(w) for w in words])
    except SystemExit as stopped:
        code = int(stopped.code or 0)
    out, err = capsys.readouterr()
    assert "Traceback" not in err
    return code, out, err


def values(path: Path, *names: str) -> list[tuple[Any, ...]]:
    """These fields of each step of a trace."""
    return [tuple(step.values()) for step in steps(path, *names)]


def frozen_for(
    capsys: pytest.CaptureFixture[str], program: Path, spec: str | Path, *, strip: bool = True
) -> tuple[Path, Path, str]:
    """(a stripped copy of the program, its layout, what was said)"""
    need("strip")
    twin, path = program.with_name(program.name + ".twin"), program.with_name(program.name + ".layout.json")
    code, _, err = stepscope(capsys, "probe", "layout", program, spec, "-o", path)
    assert code == 0, err
    shutil.copy(program, twin)
    if strip:
        subprocess.run(["strip", str(twin)], check=True)
    return twin, path, err


# -- list and draft ----------------------------------------------------------------------------------------------------


def test_list(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = stepscope(capsys, "probe", "list")
    assert code == 0
    assert [line.split()[0] for line in out.splitlines()] == probe.shipped()
    code, out, _ = stepscope(capsys, "probe", "list", "--json")
    assert {p["name"] for p in json.loads(out)["probes"]} == set(probe.shipped())


def test_a_draft_of_the_c_engine_verifies_and_records(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    engine, spec, trace = built("O0"), tmp_path / "drafted.ini", tmp_path / "run.steps"
    assert stepscope(capsys, "probe", "draft", engine, "-o", spec)[0] == 0
    (forward,) = probe.load(str(spec)).hooks_for("forward")
    assert forward.function == "forward"
    text = spec.read_text()
    for line in (
        "token_id = tokens[0]",
        "n_tokens = n",
        "seq_before = st->seq_len",
        "cache_before = st->cache_len[:st->cfg.n_layers]",
    ):
        assert f"\n{line}\n" in text
    for build in ("O0", "O2", "O3"):
        code, out, _ = stepscope(capsys, "probe", "verify", built(build), spec)
        assert (code, out.splitlines()[0].split(": ")[1][:4]) == (0, "PASS"), out

    done = gdb([f"stepscope probe {spec}", f"stepscope record {trace}", "run"], engine, letters())
    assert "exited normally" in done.stdout
    sampled = [step[0] for step in values(trace, "token_id") if step[0] is not None]
    assert ",".join(map(str, sampled)) in run(engine, *letters()).stdout
    report = check_table(Table(trace))
    assert report.verdict == "pass"
    assert {"KV01", "KV02", "KV03", "KV04", "KV05", "TK01"} <= {c for c, r in report.results.items() if r.passed}


def test_a_draft_is_printed_and_never_overwrites(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program = compiled(tmp_path, ARGUMENTS, "-g")
    code, out, _ = stepscope(capsys, "probe", "draft", program)
    assert code == 0
    assert probe.read(out, "draft").hooks_for("forward")[0].function == "forward"
    spec = tmp_path / "mine.ini"
    spec.write_text("mine")
    code, _, err = stepscope(capsys, "probe", "draft", program, "-o", spec)
    assert (code, spec.read_text()) == (2, "mine")
    assert "exists" in err


def test_a_draft_of_a_cpp_engine_that_takes_batches(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = """
namespace llm {
struct ubatch { unsigned n_tokens; const int *token; const int *pos; };
struct params { int n_ctx; int n_layer; };
enum why { GOING, WHY_EOS, WHY_LENGTH };
class context { public: params cparams; int process_ubatch(const ubatch &batch, int kind);
    void finish_sequence(int token, why reason); };
__attribute__((noinline)) int context::process_ubatch(const ubatch &batch, int kind)
{ return batch.token[0] + kind + cparams.n_ctx; }
__attribute__((noinline)) void context::finish_sequence(int token, why reason) { cparams.n_ctx += token + reason; }
__attribute__((noinline)) int layer_forward(context *c, int n) { return c->cparams.n_layer + n; }
}
int main() { int t = 1; llm::context c{{9, 2}}; llm::ubatch b{1, &t, &t}; c.finish_sequence(3, llm::WHY_EOS);
  return c.process_ubatch(b, 0) + llm::layer_forward(&c, 1) == 0; }
"""
    program = compiled(tmp_path, source, "-g")
    spec = tmp_path / "p.ini"
    assert stepscope(capsys, "probe", "draft", program, "-o", spec)[0] == 0
    text = spec.read_text()
    for line in (
        "function = llm::context::process_ubatch",
        "token_id = batch.token[0]",
        "n_tokens = batch.n_tokens",
        "seq_before = batch.pos[0]",
        "n_layers = this->cparams.n_layer",
        "capacity = this->cparams.n_ctx",
        "function = llm::context::finish_sequence",
        "codes.finish = 1 eos, 2 length",
    ):
        assert f"\n{line}\n" in text, text
    assert "#   llm::layer_forward(" in text
    assert stepscope(capsys, "probe", "verify", program, spec)[0] == 0


@pytest.mark.parametrize(("data", "size"), [("__data", "__size"), ("__data_", "__size_")], ids=["14", "16"])
def test_a_draft_knows_the_members_of_libcxx(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], data: str, size: str
) -> None:
    """As clang 14 and 16 name them; gcc has no libc++, so the structs are spelled out."""
    source = f"""
namespace llm {{ struct layer {{ int used; }}; }}
using llm::layer;
struct span {{ const int *{data}; unsigned long {size}; }};
struct vector {{ layer *__begin_, *__end_, *__cap_; }};
struct model {{ vector layers; int n_layers; int pos; }};
__attribute__((noinline)) int forward(model &m, const span &tokens)
{{ for (layer *l = m.layers.__begin_; l != m.layers.__end_; l++) l->used += tokens.{size};
  return m.pos += tokens.{size}, tokens.{data}[0] + 1; }}
int main() {{ layer l[2] = {{}}; model m = {{{{l, l + 2, l + 2}}, 2, 0}}; int t = 1; span s = {{&t, 1}};
  return forward(m, s) == 0; }}
"""
    program = compiled(tmp_path, source, "-g")
    spec = tmp_path / "p.ini"
    assert stepscope(capsys, "probe", "draft", program, "-o", spec)[0] == 0
    told = spec.read_text().splitlines()
    for line in (
        f"token_id = tokens.{data}[0]",
        f"n_tokens = tokens.{size}",
        "cache_before = m.layers.__begin_[:m.n_layers].used",
    ):
        assert line in told, spec.read_text()
    assert stepscope(capsys, "probe", "verify", program, spec)[0] == 0


def test_nothing_to_draft_from(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program = compiled(tmp_path, "int main(void) { return 0; }\n", "-g")
    code, out, err = stepscope(capsys, "probe", "draft", program)
    assert (code, out) == (2, "")
    assert "no function is called like a forward" in err
    inlined = "static inline __attribute__((always_inline)) int forward(int n) { return n; }\n"
    program = compiled(tmp_path, inlined + "int main(int n, char **w) { return forward(n) + !w; }\n", "-g")
    code, out, err = stepscope(capsys, "probe", "draft", program)
    assert (code, out) == (2, "")
    assert "or it was inlined: keep it out of line" in err


# -- verify ------------------------------------------------------------------------------------------------------------


def test_verify_says_what_does_not_resolve(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program = compiled(tmp_path, C, "-g")
    spec = tmp_path / "p.ini"
    spec.write_text(
        "[probe]\nn_layers = st->cfg.layers\n[forward]\nfunction = forward\nseq_before = st->seq_len\n"
        "token_id = tokens[0]\n[finish]\nfunction = done\n[request]\nfunction = forward\nfile = other.c\n"
    )
    code, out, _ = stepscope(capsys, "probe", "verify", program, spec)
    assert code == 1
    assert "FAIL" in out.splitlines()[0]
    assert "does not resolve: struct config has no member layers" in out
    assert "no function done in the debug information" in out
    assert "forward is not in a file that ends in other.c" in out
    assert "int32 tokens → +0" in out

    code, out, _ = stepscope(capsys, "probe", "verify", program, spec, "--json")
    said = json.loads(out)
    assert (code, said["verdict"]) == (1, "fail")
    hook = next(h for h in said["hooks"] if h["section"] == "forward")
    assert hook["file"].endswith("program.c")
    assert [f["why"] for f in hook["fields"] if f["field"] == "seq_before"] == [None]
    assert "no member layers" in next(f["why"] for f in hook["fields"] if f["field"] == "n_layers")


def test_verify_of_a_function_without_a_place(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = (
        "static inline __attribute__((always_inline)) int forward(int n) { return n + 1; }\n"
        "int main(int c, char **v) { (void)v; return forward(c); }\n"
    )
    spec = tmp_path / "p.ini"
    spec.write_text("[probe]\n[forward]\nfunction = forward\nn_tokens = n\n")
    code, out, _ = stepscope(capsys, "probe", "verify", compiled(tmp_path, source, "-g", "-O2"), spec)
    assert code == 1
    assert "inlined wherever it is called" in out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["verify", "BINARY", "nothing"], "no probe 'nothing'"),
        (["verify", "missing", "native"], "No such file"),
        (["verify", "PLAIN", "native"], "compile with -g"),
        (["layout", "PLAIN", "native"], "compile with -g"),
        (["draft", "PLAIN"], "compile with -g"),
        (["layout", "BINARY", "kestrel"], "no function st_qwen_model_forward"),
    ],
)
def test_what_cannot_be_used_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], said: str
) -> None:
    names = {"BINARY": compiled(tmp_path, C, "-g", name="b"), "PLAIN": compiled(tmp_path, C, name="p")}
    code, out, err = stepscope(capsys, "probe", *[names.get(w, w) for w in words])
    assert (code, out) == (2, "")
    assert said in err
    assert err.count("\n") == 1


def test_gdb_resolves_the_same(tmp_path: Path) -> None:
    """The same expressions on the same program: from DWARF here, from gdb's symbols there."""
    program = compiled(tmp_path, CPP, "-g", "-O1")
    spec = tmp_path / "p.ini"
    spec.write_text(
        "[probe]\nn_layers = this->tokens.where.at\ncapacity = engine::session::alive\n[forward]\n"
        "function = engine::session::forward\ntoken_id = batch.items[2]\nn_tokens = status\n"
        "seq_before = this->seq_len\n"
        "cache_before = this->cells._M_impl._M_start[:this->cells._M_impl._M_finish - this->cells._M_impl._M_start]\n"
        "kv_used = ((ring<short int, 7> *)&this->tokens)->head\n"
        "kv_free = dynamic_cast<engine::session *>(this)->capacity\n"
    )
    script = tmp_path / "resolve.py"
    script.write_text(
        "import json\nfrom gdb_scripts import frozen, host, layout, probe\n"
        f"p = probe.load({str(spec)!r})\nhook, = p.hooks\n"
        "(pc, _, _), = host.where(host.location(hook)[0])\n"
        "plan = layout.plan(probe.expressions_of(hook, p.facts), host.GdbScope(pc))\n"
        "print('SAID', json.dumps([{k: frozen.as_json(v) for k, v in plan.fields.items()},"
        " {k: str(v) for k, v in plan.absent.items()}]))\n"
    )
    done = gdb([f"source {script}"], program)
    said = next(line[5:] for line in done.stdout.splitlines() if line.startswith("SAID "))

    from gdb_scripts import layout
    from inspector.binary import open_binary

    spec_read = probe.load(str(spec))
    with open_binary(str(program)) as binary:
        (function,) = binary.functions("engine::session::forward")
        plan = layout.plan(probe.expressions_of(spec_read.hooks[0], spec_read.facts), binary.scope(function))
    fields, absent = json.loads(said)
    assert not absent
    assert not plan.absent
    assert json.loads(json.dumps({k: frozen.as_json(v) for k, v in plan.fields.items()})) == fields


# -- layout ------------------------------------------------------------------------------------------------------------


def test_a_stripped_engine_records_what_the_unstripped_one_does(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    engine = Path(shutil.copy(built("O2"), tmp_path / "engine"))
    twin, path, said = frozen_for(capsys, engine, "native")
    assert said == ""
    traces = []
    for name, program in (("native", engine), (str(path), twin)):
        traces.append(tmp_path / f"{len(traces)}.steps")
        done = gdb([f"stepscope probe {name}", f"stepscope record {traces[-1]}", "run"], program, letters())
        assert "exited normally" in done.stdout, done.stdout + done.stderr
    names = (
        "phase",
        "token_id",
        "n_tokens",
        "seq_before",
        "seq_len",
        "cache_len",
        "cache_before",
        "finish",
        "write_pos",
    )
    whole = values(traces[0], *names)
    assert len(whole) == 8
    assert values(traces[1], *names) == whole
    runs = [Table(trace).runs[0].facts for trace in traces]
    assert runs[0]["engine"]["build_id"] == runs[1]["engine"]["build_id"]
    assert "-O2" in runs[1]["engine"]["flags"]
    for part in ("model", "kv", "stop", "layers", "fields"):
        assert runs[0][part] == runs[1][part]
    with open(traces[1], "rb") as file:
        assert b'"kind":"source"' in file.read()


@pytest.mark.parametrize("flags", [["-O0"], ["-O2"], ["-O2", "-no-pie"]], ids=" ".join)
def test_arguments_are_read_where_the_abi_puts_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], flags: list[str]
) -> None:
    """Behind a hidden pointer for the result, a double in a register of its own, a byte in a wide register."""
    program = compiled(tmp_path, ARGUMENTS, "-g", *flags)
    spec = tmp_path / "p.ini"
    spec.write_text(ARGUMENTS_SPEC)
    twin, path, _ = frozen_for(capsys, program, spec)
    trace = tmp_path / "run.steps"
    gdb([f"stepscope probe {path}", f"stepscope record {trace}", "run"], twin)
    told = [tuple(map(int, line.split())) for line in run(program).stdout.splitlines()]
    seen = values(trace, "n_tokens", "seq_before", "cache_before", "pos")
    # `steps` is a static object: its address moves with the program
    assert seen == [(n, before, [before, before], step) for step, (_, n, before) in enumerate(told)]
    assert [t for t in values(trace, "token_id") if t[0] is not None] == [(t,) for t, *_ in told[1:]]


def test_run_twice_and_at_another_address(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program = compiled(tmp_path, ARGUMENTS, "-g", "-O2")
    spec = tmp_path / "p.ini"
    spec.write_text(ARGUMENTS_SPEC)
    twin, path, _ = frozen_for(capsys, program, spec)
    trace = tmp_path / "run.steps"
    gdb(["set disable-randomization off", f"stepscope probe {path}", f"stepscope record {trace}", "run", "run"], twin)
    assert len(values(trace, "n_tokens")) == 6


def test_a_stripped_program_of_another_machine(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    need("aarch64-linux-gnu-gcc", "aarch64-linux-gnu-strip")
    (tmp_path / "p.c").write_text(ARGUMENTS)
    (tmp_path / "p.ini").write_text(ARGUMENTS_SPEC)
    for command in (
        ["aarch64-linux-gnu-gcc", "-g", "-O2", "-static", "p.c", "-o", "program"],
        ["aarch64-linux-gnu-strip", "-o", "twin", "program"],
    ):
        subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    path, trace = tmp_path / "p.json", tmp_path / "run.steps"
    assert stepscope(capsys, "probe", "layout", tmp_path / "program", tmp_path / "p.ini", "-o", path)[0] == 0
    with qemu(tmp_path / "twin") as place:
        commands = [f"target remote {place}", f"stepscope probe {path}", f"stepscope record {trace}", "continue"]
        done = gdb(commands, tmp_path / "twin", debugger="gdb-multiarch")
    assert values(trace, "n_tokens", "seq_before", "pos") == [(3, 0, 0), (1, 3, 1), (1, 4, 2)], done.stderr


def test_a_stripped_library(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    library = compiled(
        tmp_path, ARGUMENTS.replace("int main(", "int go("), "-g", "-shared", "-fPIC", name="libengine.so"
    )
    (tmp_path / "main.c").write_text(
        "#include <dlfcn.h>\nint main(void)\n"
        '{ void *l = dlopen("./libengine.so", RTLD_NOW); int (*go)(void) = dlsym(l, "go"); return go(); }\n'
    )
    subprocess.run(["gcc", "main.c", "-o", "main"], cwd=tmp_path, check=True)
    spec = tmp_path / "p.ini"
    spec.write_text(ARGUMENTS_SPEC)
    twin, path, _ = frozen_for(capsys, library, spec)
    shutil.move(twin, library)
    trace = tmp_path / "run.steps"
    done = gdb([f"cd {tmp_path}", f"stepscope probe {path}", f"stepscope record {trace}", "run"], tmp_path / "main")
    assert "waiting for libengine.so" in done.stdout
    assert [step[0] for step in values(trace, "seq_before")] == [0, 3, 4]


def test_what_no_register_holds_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program = compiled(tmp_path, ARGUMENTS, "-g")
    spec = tmp_path / "p.ini"
    spec.write_text(
        "[probe]\n[forward]\nfunction = forward\nseq_before = st->seq_len\nlogit = scale\nkv_used = out.parts[0]\n"
        "[forward eighth]\nfunction = eighth\nn_tokens = f\nseq_before = st->seq_len\n"
        "[forward by_value]\nfunction = by_value\nseq_before = st->seq_len\n"
    )
    _, path, said = frozen_for(capsys, program, spec, strip=False)
    refused = dict(line.removeprefix("stepscope: ").split(" stays absent: ") for line in said.splitlines())
    assert refused == {
        "[forward] logit": "scale is passed in a floating-point register",
        "[forward] kv_used": "out is not an argument: nothing says where it is in a stripped program",
        "[forward eighth] seq_before": "st is passed on the stack",
        "[forward by_value] seq_before": "st has no register that can be told: before is a struct by value",
    }
    assert len(frozen.load(str(path)).hooks) == 3


def test_another_build_is_refused_in_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    spec = tmp_path / "p.ini"
    spec.write_text(ARGUMENTS_SPEC)
    _, path, _ = frozen_for(capsys, compiled(tmp_path, ARGUMENTS, "-g"), spec)
    other = compiled(tmp_path, ARGUMENTS, "-O1", name="other")
    done = gdb([f"stepscope probe {path}", "run"], other)
    assert "the layout is for build id" in done.stderr
    assert done.stderr.count("\n") == 1
    assert "exited normally" in done.stdout, "the program runs as without us"


def test_a_struct_that_the_compiler_took_apart(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its first part's address is not its own: what lies behind it there is another variable."""
    source = Path(__file__).parents[1] / "gdb_scripts" / "programs" / "apart_O2.s"
    program, spec = compiled(tmp_path, source), tmp_path / "apart.ini"
    spec.write_text("[probe]\n[forward]\nfunction = forward\nn_tokens = n\nseq_before = state.len\n")
    code, out, _ = stepscope(capsys, "probe", "verify", program, spec)
    assert code == 0
    assert ["seq_before", "state.len", "int32", "state"] in [line.split() for line in out.splitlines()]
    _, _, said = frozen_for(capsys, program, spec, strip=False)
    assert "[forward] seq_before stays absent: state is not an argument" in said
    path = tmp_path / "run.steps"
    gdb([f"stepscope probe {spec}", f"stepscope record {path}", "run"], program)
    assert [step["seq_before"] for step in steps(path)] == [0, 3, 4]


def test_a_program_without_a_build_id(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program = compiled(tmp_path, ARGUMENTS, "-g", "-Wl,--build-id=none")
    spec = tmp_path / "p.ini"
    spec.write_text(ARGUMENTS_SPEC)
    code, _, err = stepscope(capsys, "probe", "layout", program, spec)
    assert code == 2
    assert "-Wl,--build-id" in err


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    from inspector.binary import open_binary
    from inspector.binary.probing import freeze

    folder = tmp_path_factory.mktemp("layout")
    (folder / "p.ini").write_text(ARGUMENTS_SPEC)
    with open_binary(str(compiled(folder, ARGUMENTS, "-g"))) as binary:
        data = freeze(binary, probe.load(str(folder / "p.ini")))
    (folder / "sound.json").write_text(json.dumps(data))
    assert frozen.load(str(folder / "sound.json")).hooks[0].function == "forward"
    return {"folder": folder, "text": json.dumps(data)}


@settings(max_examples=100, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_a_damaged_layout_is_one_line(sound: dict[str, Any], data: st.DataObject) -> None:
    text = bytearray(sound["text"].encode())
    for _ in range(data.draw(st.integers(1, 4))):
        text[data.draw(st.integers(0, len(text) - 1))] = data.draw(st.sampled_from(b'0123[]{}",x-\x00\xff'))
    path = sound["folder"] / "damaged.json"
    path.write_bytes(text)
    try:
        frozen.load(str(path))
    except probe.ProbeError as error:
        assert "\n" not in str(error)


def numbers_of(tree: Any, place: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Where in a layout whole numbers stand."""
    if isinstance(tree, int) and not isinstance(tree, bool):
        return [place]
    inner = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    return [found for key, part in inner for found in numbers_of(part, (*place, key))]


@pytest.mark.parametrize("number", ["1e999", "-1e999", "NaN", "9" * 400, "-" + "9" * 400, "9" * 5000, "1.5", "true"])
def test_a_number_of_a_layout_that_no_register_holds(sound: dict[str, Any], number: str) -> None:
    path = sound["folder"] / "odd.json"
    places = numbers_of(json.loads(sound["text"]))
    assert ("text",) in places
    assert ("hooks", 0, "address") in places
    assert len(places) > 20
    for place in places:
        data = json.loads(sound["text"])
        holder = data
        for key in place[:-1]:
            holder = holder[key]
        holder[place[-1]] = "HERE"
        path.write_text(json.dumps(data).replace('"HERE"', number))
        if place == ("version",) and number == "true":
            continue  # as Python has it, 1
        with pytest.raises(probe.ProbeError) as failed:
            frozen.load(str(path))
        assert str(failed.value).startswith(str(path))
        assert "write it again with stepscope probe layout" in str(failed.value)
        assert len(str(failed.value)) < len(str(path)) + 150


def test_a_layout_of_a_hook_that_its_spec_does_not_have(sound: dict[str, Any]) -> None:
    path = sound["folder"] / "other.json"
    path.write_text(sound["text"].replace('"section": "forward"', '"section": "backward"'))
    with pytest.raises(probe.ProbeError, match=r"other\.json"):
        frozen.load(str(path))
