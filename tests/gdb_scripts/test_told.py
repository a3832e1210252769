"""What a probe gets wrong is told in gdb, once, with the place in its file; and a run's end is judged."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest

from inspector import cli
from tests.gdb_scripts.running import gdb
from tests.programs import compiled, need
from tests.reading import steps
from traces.columnar import check_table
from traces.frames import NOTE, pack
from traces.table import Table

# words: how many tokens after the prompt, then how it ends
ENGINE = r"""
#include <signal.h>
#include <stdlib.h>
struct cfg { int n_layers; };
struct state { int seq_len; int *cache_len; struct cfg cfg; double *rms; };
__attribute__((noipa)) void forward(struct state *st, int token, int n)
{
    for (int layer = 0; layer < st->cfg.n_layers; layer++)
        st->cache_len[layer] += n;
    st->seq_len += n + (token < 0);
}
int main(int argc, char **argv)
{
    int rows[2] = {0};
    struct state st = {0, rows, {2}, 0};
    int n = argc > 1 ? atoi(argv[1]) : 4, how = argc > 2 ? atoi(argv[2]) : 0;
    forward(&st, 9, 3);
    for (int i = 0; i < n; i++)
        forward(&st, 10 + i, 1);
    if (how < 0)
        raise(SIGSEGV);
    return how;
}
"""
SPEC = """\
[probe]
name = told
layers = full
n_layers = st->cfg.n_layers
[forward]
function = forward
token_id = token
n_tokens = n
seq_before = st->seq_len
cache_before = st->cache_len[:st->cfg.n_layers]
"""


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    path = tmp_path / "p.ini"
    path.write_text(SPEC)
    return path


def told(stdout: str) -> list[str]:
    """Our own lines about what is wrong."""
    return [line.removeprefix("stepscope: ") for line in stdout.splitlines() if line.startswith("stepscope: ")]


@pytest.mark.parametrize(
    ("was", "now", "line"),
    [
        ("= st->seq_len", "= st->len", "[forward] seq_before = st->len: struct state has no member len"),
        ("= token", "= tokn", "[forward] token_id = tokn: no symbol tokn here"),
        ("= n\n", "= n->m\n", "[forward] n_tokens = n->m: int (int) has no members, .m was asked for"),
        ("= st->cfg.n_layers\n[", "= st->n\n[", "[probe] n_layers = st->n: struct state has no member n"),
        ("= n\n", "= n\nafter.logit = st->best\n", "[forward] after.logit = st->best: struct state has no member best"),
        ("= n\n", "= n\nskip = st->warm\n", "[forward] skip = st->warm: struct state has no member warm"),
        (
            "= n\n",
            "= n\naccumulated.attn_ms = st->t\n",
            "[forward] accumulated.attn_ms = st->t: struct state has no member t",
        ),
        ("= n\n", "= n\nafter.hidden_rms = st->rms[:2]\n", "[forward] after.hidden_rms = st->rms[:2]: a null pointer"),
    ],
)  # fmt: skip
def test_an_expression_that_says_nothing_is_told_once(
    tmp_path: Path, spec: Path, was: str, now: str, line: str
) -> None:
    assert was in SPEC
    spec.write_text(SPEC.replace(was, now, 1))
    done = gdb([f"stepscope probe {spec}", "run", "run"], compiled(tmp_path, ENGINE, "-g", "-O1"))
    assert told(done.stdout) == [f"{spec}: {line}"]
    assert done.stdout.count("exited normally") == 2
    if "null" not in line:  # before the program runs
        assert done.stdout.index(line) < done.stdout.index("probe told")


def test_nothing_is_told_where_nothing_is_wrong(tmp_path: Path, spec: Path) -> None:
    done = gdb([f"stepscope probe {spec}", "run"], compiled(tmp_path, ENGINE, "-g", "-O1"))
    assert told(done.stdout) == []


@pytest.mark.parametrize(
    ("flags", "line"),
    [
        (["-g1"], "its debug information has no variables (-g1?); compile with -g"),
        ([], "has no debug information here"),
    ],
)
def test_a_hook_without_debug_information_is_told_at_once_and_gives_no_pass(
    tmp_path: Path, spec: Path, flags: list[str], line: str
) -> None:
    path = tmp_path / "run.steps"
    commands = [f"stepscope probe {spec}", "print 1", f"stepscope record {path}", "run", "stepscope status"]
    done = gdb(commands, compiled(tmp_path, ENGINE, "-O1", *flags))
    assert f"{spec}: [forward] function = forward: {line}" in told(done.stdout)[0]
    assert done.stdout.index(line) < done.stdout.index("$1 = 1")
    assert "rules: unknown, nothing could be judged" in done.stdout
    if path.exists():
        assert check_table(Table(path)).verdict == "unknown"


def test_a_probe_that_reads_nothing_gives_no_pass(tmp_path: Path, spec: Path) -> None:
    spec.write_text("[probe]\n[forward]\nfunction = forward\nn_tokens = 1\n")
    path = tmp_path / "run.steps"
    gdb([f"stepscope probe {spec}", f"stepscope record {path}", "run"], compiled(tmp_path, ENGINE, "-g"))
    assert Table(path).steps == 5
    assert check_table(Table(path)).verdict == "unknown"


def test_a_stripped_program_is_told(tmp_path: Path, spec: Path) -> None:
    program = compiled(tmp_path, ENGINE, "-g")
    need("strip")
    subprocess.run(["strip", str(program)], check=True)
    done = gdb([f"stepscope probe {spec}", "run"], program)
    assert told(done.stdout)[:2] == [
        "waiting for forward to be loaded",
        "program is stripped: hooks in it need a frozen layout (stepscope probe layout)",
    ]


def test_a_layout_says_where_it_looks(tmp_path: Path, spec: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program, frozen = compiled(tmp_path, ENGINE, "-g", "-O1"), tmp_path / "p.layout.json"
    assert cli.main(["probe", "layout", str(program), str(spec), "-o", str(frozen)]) == 0
    subprocess.run(["strip", str(program)], check=True)
    commands = [f"stepscope probe {frozen}", "stepscope status", "stepscope where", "run", "stepscope where"]
    done = gdb(commands, program)
    assert re.search(r"^waiting for program \(build id [0-9a-f]{12}…\)$", done.stdout, re.M)
    assert re.search(
        r"^forward  forward at .*program\.c:6, linked at 0x\w+, frozen in p\.layout\.json$", done.stdout, re.M
    )
    assert "-qualified" not in done.stdout + done.stderr


# -- places ------------------------------------------------------------------------------------------------------------

LIBRARY = """
struct state { int seq_len; };
__attribute__((noipa)) void forward_v2(struct state *st, int n) { st->seq_len += n; }
void library(void) { struct state st = {0}; forward_v2(&st, 3); forward_v2(&st, 1); forward_v2(&st, 1); }
"""
LOADER = """
#include <dlfcn.h>
int main(int argc, char **argv)
{
    void *handle = dlopen(argv[argc - 1], RTLD_NOW);
    void (*library)(void) = (void (*)(void))dlsym(handle, "library");
    library();
    return 0;
}
"""


@pytest.mark.parametrize("function", ["/^forward_v[0-9]+$/", "forward_v2"])
def test_a_function_of_a_library_that_is_loaded_later(tmp_path: Path, spec: Path, function: str) -> None:
    library = compiled(tmp_path, LIBRARY, "-g", "-O1", "-shared", "-fPIC", name="library.so")
    program = compiled(tmp_path, LOADER, "-g", name="loader")
    spec.write_text(f"[probe]\n[forward]\nfunction = {function}\nn_tokens = n\nseq_before = st->seq_len\n")
    path = tmp_path / "run.steps"
    commands = [f"stepscope probe {spec}", "stepscope status", f"stepscope record {path}", "run", "run"]
    done = gdb(commands, program, [str(library)])
    assert f"stepscope: waiting for {function} to be loaded" in done.stdout
    assert f"\nwaiting for {function}\n" in done.stdout
    assert [s["seq_before"] for s in steps(path)] == [0, 3, 4, 0, 3, 4]


OVERLOADS = r"""
#include <string>
namespace ns {
struct batch { int n; };
template <typename T> struct model { T len = 0; __attribute__((noipa)) long forward(int n) { return len += n; } };
struct engine {
    int len = 0;
    __attribute__((noipa)) int forward(int n) { return len += n; }
    __attribute__((noipa)) int forward(const batch &b, const int *tokens) { return len += b.n + tokens[0]; }
    __attribute__((noipa)) int forward(std::string &s) const { return (int)s.size(); }
};
}
namespace ns { struct functor { int len; __attribute__((noipa)) int operator()(int n) { return len += n; } }; }
namespace { __attribute__((noipa)) int local(int n) { return n; } }
int main()
{
    ns::engine e;
    ns::model<long> longs;
    ns::model<int> ints;
    std::string s = "ab";
    int tokens[1] = {0};
    long sum = e.forward(3) + e.forward(ns::batch{1}, tokens) + e.forward(s) + longs.forward(5) + ints.forward(6);
    ns::functor functor{0};
    return sum + local(7) + functor(8) == 0;
}
"""
E_ = "ns::engine::forward"


@pytest.mark.parametrize(
    ("function", "n"),
    [
        (f"{E_}(int)", [3]),
        (f"{E_}(ns::batch const&, int const*)", [None]),
        (f"{E_}(const ns::batch &, const int *)", [None]),
        (f"{E_}(std::string&) const", [None]),
        (f"{E_}(std::string&)", []),
        (f"{E_}(long)", []),
        (E_, [3, None, None]),
        ("ns::model<long>::forward", [5]),
        ("ns::model<long int>::forward(int)", [5]),
        ("ns::model::forward", []),
        ("engine::forward", []),
        ("(anonymous namespace)::local(int)", [7]),
        ("local", []),
        ("/model<.*>::forward$/", [5, 6]),
        ("/local/", [7]),
        ("ns::functor::operator()", [8]),
        ("ns::functor::operator()(int)", [8]),
        ("ns::functor::operator()(long)", []),
    ],
)
def test_a_cpp_name_means_the_same_in_gdb_and_in_verify(
    tmp_path: Path, spec: Path, function: str, n: list[int | None], capsys: pytest.CaptureFixture[str]
) -> None:
    program, path = compiled(tmp_path, OVERLOADS, "-g", "-O1"), tmp_path / "run.steps"
    spec.write_text(f"[probe]\n[forward]\nfunction = {function}\nn_tokens = n\n")
    done = gdb([f"stepscope probe {spec}", f"stepscope record {path}", "run"], program)
    assert (f"stepscope: waiting for {function} to be loaded" in done.stdout) == (not n)
    if n:
        assert [s["n_tokens"] for s in steps(path)] == n
    cli.main(["probe", "verify", "--json", str(program), str(spec)])
    verified = json.loads(capsys.readouterr().out)
    found = [hook for hook in verified["hooks"] if hook["address"] is not None]
    assert len(found) == len(n)
    cli.main(["probe", "verify", str(program), str(spec)])
    warned = capsys.readouterr().err
    assert ("hooks 3 functions" in warned) == ("hooks 3 functions" in done.stdout) == (function == E_)
    assert len(verified["ambiguous"]) == int(function == E_)


CLONES = """
#include <stdexcept>
namespace ns { struct state { int len = 0; }; }
using ns::state;
__attribute__((noinline)) int forward(state *st, const int *tokens, int n)
{
    if (st->len + n > 64)
        throw std::length_error("full");
    for (int i = 0; i < n; i++)
        st->len += tokens[i] & 1;
    return st->len;
}
int main()
{
    state st;
    int tokens[3] = {1, 3, 5}, sum = forward(&st, tokens, 3);
    for (int i = 0; i < 3; i++)
        sum += forward(&st, tokens + i, 1);
    return sum == 0;
}
"""


@pytest.mark.parametrize("flags", [["-O2"], ["-O3", "-flto"], ["-O1"]])
def test_parts_and_clones_of_a_function_are_one(
    tmp_path: Path, spec: Path, flags: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing could tell them apart, and all of them are meant."""
    program = compiled(tmp_path, CLONES, "-g", *flags)
    spec.write_text("[probe]\n[forward]\nfunction = forward\nseq_before = st->len\n")
    path = tmp_path / "run.steps"
    done = gdb([f"stepscope probe {spec}", f"stepscope record {path}", "run"], program)
    assert [step["seq_before"] for step in steps(path)] == [0, 3, 4, 5]
    cli.main(["probe", "verify", str(program), str(spec)])
    assert "functions" not in capsys.readouterr().err + done.stdout


# -- the end of a run --------------------------------------------------------------------------------------------------


@pytest.fixture
def good(tmp_path: Path, spec: Path) -> Path:
    """A recording of the engine's usual run: a prompt and four tokens."""
    path = tmp_path / "good.steps"
    gdb([f"stepscope probe {spec}", f"stepscope record {path}", "run"], compiled(tmp_path, ENGINE, "-g", "-O1"))
    return path


@pytest.mark.parametrize(
    ("words", "code", "line"),
    [
        (["4"], 0, "the program ended as the good run did, after 5 steps; rules: pass"),
        (["2"], 1, "the program ended early, after 3 of the good run's 5 steps (request 0: 3 of 5); rules: pass"),
        (["6"], 1, "step 5: the good run's request had ended after 5 steps"),
        (["4", "3"], 1, "the program ended after 5 steps as the good run, but finish of request 0 is abort, was none"),
        (["4", "-1"], 1, "the program was left after 5 steps as the good run, but finish of request 0 is abort"),
        (["1", "-1"], 1, "the program was left early, after 2 of the good run's 5 steps (request 0: 2 of 5)"),
    ],
)
def test_follow_judges_the_end_and_a_batch_says_it(
    tmp_path: Path, spec: Path, good: Path, words: list[str], code: int, line: str
) -> None:
    commands = [f"stepscope probe {spec}", f"stepscope follow {good}", "stepscope batch run", "print 99"]
    done = gdb(commands, tmp_path / "program", words)
    assert done.returncode == code
    assert len(told(done.stdout)) == 1
    assert told(done.stdout)[0].startswith(line)
    assert "$1 = 99" not in done.stdout


def test_follow_begins_anew_with_each_run(tmp_path: Path, spec: Path, good: Path) -> None:
    commands = [f"stepscope probe {spec}", f"stepscope follow {good}", "run", "run"]
    done = gdb(commands, tmp_path / "program", ["4"])
    assert [line.partition(";")[0] for line in told(done.stdout)] == [
        "the program ended as the good run did, after 5 steps"
    ] * 2


@pytest.mark.parametrize(
    ("commands", "code"),
    [
        (["stepscope batch run"], 0),
        (["stepscope break-on any", "stepscope batch run"], 0),
        (["stepscope record /nowhere/a.steps", "stepscope batch run"], 2),
        (["stepscope record {spec}", "stepscope batch run"], 2),
        (["stepscope break-on KV77", "stepscope batch run"], 2),
        (["stepscope batch continue"], 2),
        (["stepscope record /dev/full", "stepscope batch run"], 2),
        (["stepscope record ''", "stepscope batch run"], 2),
        (["stepscope batch"], 1),  # gdb's own: the command did nothing
    ],
)
def test_what_a_batch_ends_with(tmp_path: Path, spec: Path, commands: list[str], code: int) -> None:
    program = compiled(tmp_path, ENGINE, "-g", "-O1")
    done = gdb([f"stepscope probe {spec}", *(c.format(spec=spec) for c in commands)], program)
    assert done.returncode == code
    assert ("exited" in done.stdout) == (code == 0 or "stepscope record /dev/full" in commands)


@pytest.mark.parametrize("commands", [[], ["stepscope break-on any"]])
@pytest.mark.parametrize("ending", ["raise(SIGSEGV)", "raise(SIGUSR1)", "raise(SIGKILL)"])
def test_a_batch_ends_with_1_where_a_signal_stops_or_ends_the_program(
    tmp_path: Path, spec: Path, commands: list[str], ending: str
) -> None:
    program = compiled(tmp_path, ENGINE.replace("raise(SIGSEGV)", ending), "-g", "-O1")
    done = gdb([f"stepscope probe {spec}", *commands, "stepscope batch run"], program, ["4", "-1"])
    assert "Program " in done.stdout
    assert done.returncode == 1


@pytest.mark.parametrize(
    ("was", "now", "commands"),
    [
        ("function = forward", "function = fforward", []),  # never entered: nothing was recorded
        ("= st->seq_len", "= st->len", ["stepscope break-on KV01"]),
        ("= token", "= token", ["stepscope break-on KV12"]),  # no pool in this probe
    ],
)
def test_a_batch_ends_with_3_where_nothing_could_be_judged(
    tmp_path: Path, spec: Path, was: str, now: str, commands: list[str]
) -> None:
    spec.write_text(SPEC.replace(was, now))
    done = gdb([f"stepscope probe {spec}", *commands, "stepscope batch run"], compiled(tmp_path, ENGINE, "-g", "-O1"))
    assert "exited normally" in done.stdout
    assert done.returncode == 3


UNREAD = "had no value at any hit: "


@pytest.mark.parametrize(
    ("was", "now", "unread"),
    [
        ("= token", "= tokn", "token_id"),
        ("= st->cfg.n_layers\n[", "= st->n\n[", "n_layers"),
        ("= n\n", "= n\nskip = st->warm\n", "skip"),
        ("= n\n", "= n\naccumulated.attn_ms = st->t\n", "attn_ms"),
        ("= n\n", "= n\nafter.hidden_rms = st->rms[:2]\nafter.logit = st->best\n", "hidden_rms, logit"),
    ],
)  # fmt: skip
def test_a_batch_ends_with_4_where_a_field_was_never_read(
    tmp_path: Path, spec: Path, was: str, now: str, unread: str
) -> None:
    assert was in SPEC
    spec.write_text(SPEC.replace(was, now, 1))
    commands = [f"stepscope probe {spec}", f"stepscope record {tmp_path / 'a.steps'}", "stepscope batch run"]
    done = gdb(commands, compiled(tmp_path, ENGINE, "-g", "-O1"))
    assert done.returncode == 4
    assert told(done.stdout)[-1] == f"{spec}: {UNREAD}{unread}"
    assert Table(tmp_path / "a.steps").complete


@pytest.mark.parametrize(
    ("was", "now", "unread"),
    [
        ("= st->seq_len", "= $pc", "seq_before"),
        ("= n\n", "= n\nafter.write_pos = $pc\n", "write_pos"),
        ("full\n", "full\nvocab_size = st->cache_len[:2]\n", "vocab_size"),
        ("= st->cfg.n_layers\n[", "= $pc\n[", "n_layers"),
        ("[:st->cfg.n_layers]", "[:n - n]", "cache_before"),  # rows of no layer
    ],
)
def test_garbage_is_no_value(tmp_path: Path, spec: Path, was: str, now: str, unread: str) -> None:
    assert was in SPEC
    spec.write_text(SPEC.replace(was, now, 1))
    done = gdb([f"stepscope probe {spec}", "stepscope batch run"], compiled(tmp_path, ENGINE, "-g", "-O1"))
    assert done.returncode == 4
    assert told(done.stdout)[-1] == f"{spec}: {UNREAD}{unread}"


@pytest.mark.parametrize("token", [9, 10])  # the prompt's, and the next
def test_garbage_once_among_values_was_read(tmp_path: Path, spec: Path, token: int) -> None:
    spec.write_text(SPEC.replace("= n\n", "= n\nafter.write_pos = st->pos\n"))
    late = ENGINE.replace("double *rms; }", "long pos; }")
    late = late.replace("st->seq_len += n", f"st->pos = token == {token} ? 1L << 40 : 3;\n    st->seq_len += n")
    done = gdb([f"stepscope probe {spec}", "stepscope batch run"], compiled(tmp_path, late, "-g", "-O1"))
    assert told(done.stdout)[-1].startswith(f"{spec}: write_pos: I32 does not hold 1099511627776")
    assert done.returncode == 0


def test_a_pointer_that_is_null_at_first_was_read(tmp_path: Path, spec: Path) -> None:
    late = ENGINE.replace("forward(&st, 9, 3);", "forward(&st, 9, 3); double rms[2] = {1, 2}; st.rms = rms;")
    assert late != ENGINE
    spec.write_text(SPEC.replace("= n\n", "= n\nafter.hidden_rms = st->rms[:2]\n"))
    done = gdb([f"stepscope probe {spec}", "stepscope batch run"], compiled(tmp_path, late, "-g", "-O1"))
    assert told(done.stdout) == [f"{spec}: [forward] after.hidden_rms = st->rms[:2]: a null pointer"]
    assert done.returncode == 0


def test_a_rule_that_stops_it_comes_before_a_field_that_was_never_read(tmp_path: Path, spec: Path) -> None:
    spec.write_text(SPEC.replace("= n\n", "= n - 1\nafter.logit = st->best\n"))
    commands = [f"stepscope probe {spec}", "stepscope break-on KV03", "stepscope batch run"]
    assert gdb(commands, compiled(tmp_path, ENGINE, "-g", "-O1")).returncode == 1


def test_a_struct_without_a_tag_is_called_by_its_typedef(
    tmp_path: Path, spec: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    named = ENGINE.replace("struct state {", "typedef struct {").replace("double *rms; };", "double *rms; } state_t;")
    program = compiled(tmp_path, named.replace("struct state ", "state_t "), "-g", "-O1")
    spec.write_text(SPEC.replace("= st->seq_len", "= st->len"))
    line = "seq_before = st->len: state_t has no member len"
    assert told(gdb([f"stepscope probe {spec}"], program).stdout) == [f"{spec}: [forward] {line}"]
    assert cli.main(["probe", "verify", str(program), str(spec)]) == 1
    assert "st->len" in (shown := capsys.readouterr().out)
    assert "does not resolve: state_t has no member len" in shown


def test_a_good_run_that_is_no_good(tmp_path: Path, spec: Path, good: Path) -> None:
    whole = good.read_bytes()
    last = whole.rindex(b"STEP", 0, whole.rindex(b"STEP"))
    bad = {
        "empty": b"",
        "cut": whole[:200],
        "other": b"{}" * 100,
        "damaged": whole[: last + 20] + bytes([whole[last + 20] ^ 255]) + whole[last + 21 :],
    }
    for name, data in bad.items():
        (tmp_path / name).write_bytes(data)
        done = gdb([f"stepscope probe {spec}", f"stepscope follow {tmp_path / name}", "stepscope batch run"])
        assert done.returncode == 2
        assert done.stderr.startswith(f"{tmp_path / name}: ")
        assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("seq_id", ["[1]", "{}", "null", '"0"', "9" * 400])
def test_a_good_run_with_notes_about_no_sequence(tmp_path: Path, spec: Path, good: Path, seq_id: str) -> None:
    whole = good.read_bytes()
    end = whole.rindex(b"STEP")
    note = f'{{"kind":"finish","seq_id":{seq_id},"finish":"eos"}}'.encode()
    (tmp_path / "odd.steps").write_bytes(whole[:end] + pack(NOTE, 1, note) + whole[end:])
    commands = [f"stepscope probe {spec}", f"stepscope follow {tmp_path / 'odd.steps'}", "stepscope batch run"]
    assert gdb(commands, tmp_path / "program", ["4"]).returncode == 0


def test_a_run_without_a_step_is_not_the_good_one(tmp_path: Path, spec: Path, good: Path) -> None:
    subprocess.run(["strip", str(tmp_path / "program")], check=True)
    commands = [f"stepscope probe {spec}", f"stepscope follow {good}", "stepscope batch run"]
    done = gdb(commands, tmp_path / "program")
    assert done.returncode == 1
    assert "the program ended early, after 0 of the good run's 5 steps" in done.stdout


def test_a_trace_without_steps_says_so(tmp_path: Path) -> None:
    (tmp_path / "empty.steps").write_bytes(b"")
    done = gdb([f"stepscope replay {tmp_path / 'empty.steps'}", "stepscope goto 0"])
    assert done.stdout == f"{tmp_path / 'empty.steps'}: has no steps, cut off: no END frame\n"
    assert done.stderr == "the trace that is replayed has no steps\n"


def test_a_number_that_its_field_cannot_hold_is_told(tmp_path: Path, spec: Path) -> None:
    spec.write_text(SPEC.replace("= st->seq_len", "= $pc"))
    done = gdb([f"stepscope probe {spec}", "run"], compiled(tmp_path, ENGINE, "-g", "-O1"))
    assert len(told(done.stdout)) == 1
    assert told(done.stdout)[0].startswith(f"{spec}: seq_before: I32 does not hold ")


def test_a_probe_that_is_too_dear_three_times_in_a_row_is_switched_off(tmp_path: Path, spec: Path) -> None:
    spec.write_text(SPEC.replace("name = told\n", "name = told\nbudget_ms = 0\n"))
    path = tmp_path / "run.steps"
    commands = [f"stepscope probe {spec}", f"stepscope record {path}", "run"]
    done = gdb(commands, compiled(tmp_path, ENGINE, "-g", "-O1"), ["20"])
    assert re.match(
        r"switched off: a hit cost \d+ ms, the budget is 0 \(budget_ms in the probe\)$", told(done.stdout)[0]
    )
    assert "exited normally" in done.stdout
    # the first hit, which looks the names up, is not held against it
    assert len(steps(path)) == 4
    gaps = [note["why"] for _, note in Table(path).notes() if note["kind"] == "gap"]
    assert len(gaps) == 1
    assert gaps[0].endswith("the budget is 0")


def test_a_batch_ends_with_1_where_a_rule_stops_it(tmp_path: Path, spec: Path) -> None:
    spec.write_text(SPEC.replace("= n\n", "= n - 1\n"))
    program = compiled(tmp_path, ENGINE, "-g", "-O1")
    done = gdb([f"stepscope probe {spec}", "stepscope break-on KV03", "stepscope batch run"], program)
    assert done.returncode == 1
    assert [line.partition(":")[0] for line in told(done.stdout)] == ["KV03 step 0 seq 0"], "the stop, and no more"


@pytest.mark.parametrize(
    ("commands", "arguments", "line"),
    [
        (["break forward if token == 12", "run", "detach"], [], "the program was left after 4 steps; "),
        (["break forward if token == 12", "run", "kill"], [], "the program was left after 4 steps; "),
        (["run"], ["2", "7"], "the program ended after 3 steps; "),
        (["handle SIGSEGV nostop pass", "run"], ["2", "-1"], "the program ended after 3 steps; "),
    ],
    ids=["detach", "kill", "exit", "signal"],
)
def test_a_program_that_gdb_let_go_of_has_not_ended(
    tmp_path: Path, spec: Path, commands: list[str], arguments: list[str], line: str
) -> None:
    program = compiled(tmp_path, ENGINE, "-g", "-O1")
    done = gdb([f"stepscope probe {spec}", "stepscope break-on any", *commands], program, arguments)
    assert [said.partition("rules: ")[0] for said in told(done.stdout)] == [line]


# -- whatever goes wrong in our own code -------------------------------------------------------------------------------

HANDLERS = """
from gdb_scripts import host
def fails(*_):
    raise ZeroDivisionError("ours")
for register in (host.on_exit, host.on_gdb_exit, host.on_new_symbols, host.defer):
    register(fails)
host.Stop("-qualified -function forward", fails, host.say, "forward")
"""


def test_nothing_of_ours_reaches_gdb_or_the_program(tmp_path: Path) -> None:
    script = tmp_path / "handlers.py"
    script.write_text(HANDLERS)
    done = gdb([f"source {script}", "run", "print 6 * 7"], compiled(tmp_path, ENGINE, "-g", "-O1"), ["1"])
    assert done.stdout.count("stepscope: ZeroDivisionError: ours") == 1
    assert done.stdout.count("\nZeroDivisionError: ours") == 2  # the stops' own telling
    assert "Python Exception" not in done.stdout + done.stderr
    assert "exited normally" in done.stdout
    assert "$1 = 42" in done.stdout
