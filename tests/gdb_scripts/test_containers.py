"""Engines that keep tokens and layers in containers: std::vector, std::span and slices of Rust, which travel in two
registers.
"""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.command_line import stepscope
from tests.gdb_scripts.running import gdb
from tests.programs import compiled
from tests.reading import steps

PROGRAMS = Path(__file__).parent / "programs"
FLAGS = {"vector": (), "span": ("-std=c++20", "-DTOKENS_IN_A_SPAN")}
# one forward written in the ways of C++: static, a template, a template's member, in an unnamed namespace, with names
# as some style guides write them, layers in a std::array
FORWARDS = r"""
#include <array>
#include <cstdio>
#include <vector>
#define OUT_OF_LINE __attribute__((noipa))
struct Layer { int rows = 0; };
enum class Kind { plain, quantized };
struct Context { int n_past = 0; std::vector<Layer> layers{3}; };
static OUT_OF_LINE int take(Context &c, const int *tokens, int n)
{
    for (auto &layer : c.layers) layer.rows += n;
    c.n_past += n;
    return (tokens[0] + c.n_past) % 50;
}
#if FORM == 0
static OUT_OF_LINE int forward(Context &c, const int *tokens, int n) { return take(c, tokens, n); }
#elif FORM == 1
template <class T, Kind K> OUT_OF_LINE T forward(Context &c, const T *tokens, int n) { return take(c, tokens, n); }
#elif FORM == 2
namespace ns {
template <Kind K, int N> struct Model {
    Context c;
    OUT_OF_LINE int forward(const int *tokens, int n) { return take(c, tokens, n); }
};
}
#elif FORM == 3
namespace { OUT_OF_LINE int forward(Context &c, const int *tokens, int n) { return take(c, tokens, n); } }
#else
class Engine {
    int m_nPast = 0;
    std::array<Layer, 3> kvCache_;
public:
    OUT_OF_LINE int forward(const int *tokens, int nTokens)
    {
        for (auto &layer : kvCache_) layer.rows += nTokens;
        m_nPast += nTokens;
        return (tokens[0] + m_nPast) % 50;
    }
};
#endif
int main()
{
#if FORM == 2
    ns::Model<Kind::quantized, 2> m;
#elif FORM == 4
    Engine m;
#else
    Context m;
#endif
    int tokens[] = {11, 12, 13};
    for (int n : {3, 1, 1}) {
#if FORM == 1
        tokens[0] = forward<int, Kind::quantized>(m, tokens, n);
#elif FORM == 2 || FORM == 4
        tokens[0] = m.forward(tokens, n);
#else
        tokens[0] = forward(m, tokens, n);
#endif
    }
    return tokens[0];
}
"""


def recorded_by_a_drafted_probe(program: Path, folder: Path) -> list[dict[str, Any]]:
    probe, trace = folder / "drafted.ini", folder / "run.steps"
    assert stepscope("probe", "draft", program, "-o", probe).returncode == 0
    done = gdb([f"stepscope probe {probe}", f"stepscope record {trace}", "run"], program)
    assert "exited" in done.stdout, done.stdout + done.stderr
    return steps(trace)


@pytest.mark.parametrize("optimized", ["-O0", "-O2"])
@pytest.mark.parametrize("tokens", FLAGS)
def test_a_drafted_probe_sees_what_the_program_prints(tmp_path: Path, tokens: str, optimized: str) -> None:
    program = compiled(tmp_path, PROGRAMS / "containers.cpp", "-g", optimized, *FLAGS[tokens])
    printed = subprocess.run([str(program)], capture_output=True, text=True, check=True).stdout
    recorded = recorded_by_a_drafted_probe(program, tmp_path)
    # a step's first token is known of decode steps alone: a prompt has many
    firsts = [11, *(step["token_id"] for step in recorded[1:])]
    seen = [
        [first, step["n_tokens"], step["seq_before"], *step["cache_before"]]
        for first, step in zip(firsts, recorded, strict=True)
    ]
    assert seen == [[int(word) for word in line.split()] for line in printed.splitlines()]


@pytest.mark.parametrize("optimized", ["-O0", "-O2"])
@pytest.mark.parametrize("form", range(5))
def test_a_forward_is_found_however_it_is_written(tmp_path: Path, form: int, optimized: str) -> None:
    program = compiled(tmp_path, FORWARDS, "-g", optimized, f"-DFORM={form}")
    recorded = recorded_by_a_drafted_probe(program, tmp_path)
    # by hand: (11 + 3) % 50 = 14, then (14 + 4) % 50 = 18
    assert [step["token_id"] for step in recorded] == [None, 14, 18]
    assert [step["seq_before"] for step in recorded] == [0, 3, 4]
    assert [step["cache_before"] for step in recorded] == [[n] * 3 for n in (0, 3, 4)]


@pytest.mark.parametrize("source", ["slices.s", "iterators.s"])
def test_slices_of_rust(tmp_path: Path, source: str) -> None:
    """In the second gdb stops behind the prologue of a trait's function, in what was inlined there."""
    program = compiled(tmp_path, PROGRAMS / source, "-g")
    recorded = recorded_by_a_drafted_probe(program, tmp_path)
    # by hand: (11 + 12 + 13) % 50 = 36, then (36 + 36) % 50 = 22, (72 + 22) % 50 = 44, (94 + 44) % 50 = 38
    assert [step["token_id"] for step in recorded] == [None, 36, 22, 44, 38]
    assert [step["n_tokens"] for step in recorded] == [3, 1, 1, 1, 1]
    assert [step["seq_before"] for step in recorded] == [0, 3, 4, 5, 6]
    assert [step["cache_before"] for step in recorded] == [[n] * 3 for n in (0, 3, 4, 5, 6)]
