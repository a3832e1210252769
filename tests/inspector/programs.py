"""Small programs that the tests compile, and which tell their own offsets: no expectation comes from our code."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

C = r"""
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum sign { MINUS = -1, PLUS = 1 };
enum plain { RED, GREEN };
typedef int32_t token_t;
struct config { char name[32]; struct { int n_layers, n_heads; }; union { int vocab_size; float as_float; }; };
typedef struct state {
    struct config cfg;
    unsigned flag : 3;
    const volatile int seq_len;
    int *cache_len;
    short table[3][5];
    enum sign sign;
    enum plain plain;
    _Bool on;
    unsigned char byte;
    double dec_t_attn;
    struct state *next;
} state_t;

static struct state the_state;
int total_steps = 7;

__attribute__((noinline)) int forward(state_t *st, const token_t *tokens, int n)
{
    static int calls;
    calls++;
    return st->seq_len + tokens[0] + n + calls + total_steps;
}

#define OFFSET(member) printf("%s %zu\n", "st->" #member, offsetof(struct state, member))
int main(void)
{
    token_t tokens[2] = {1, 2};
    OFFSET(seq_len); OFFSET(cache_len); OFFSET(cfg.n_layers); OFFSET(cfg.n_heads); OFFSET(cfg.vocab_size);
    OFFSET(cfg.as_float); OFFSET(table[1][2]); OFFSET(sign); OFFSET(plain); OFFSET(on); OFFSET(byte);
    OFFSET(dec_t_attn); OFFSET(next);
    fflush(stdout);
    return forward(&the_state, tokens, 2) == 0;
}
"""

CPP = r"""
#include <cstdio>
#include <vector>

namespace engine {
struct counted { virtual ~counted() {} long refs = 1; };
struct lengths { int seq_len = 4; int capacity = 9; };
template <typename T, int N> struct ring { T items[N]; int head = 3; struct cursor { int at = 5; } where; };
class session : public counted, public lengths {
public:
    int forward(const ring<short, 7> &batch, int &status);
    std::vector<int> cells;
    ring<short, 7> tokens;
    lengths *memory = this;
    static int alive;
    struct { int inner; };
};
int session::alive = 2;
namespace { int hidden = 3; }

__attribute__((noinline)) int session::forward(const ring<short, 7> &batch, int &status)
{
    return status + batch.head + seq_len + hidden + alive + (int)cells.size();
}
template <typename T> __attribute__((noinline)) T decode(T *st, int n) { return st[n] + n; }
}

template <typename A, typename B> static long distance(A *from, B *to) { return (char *)to - (char *)from; }

int main()
{
    engine::session s;
    int status = 1;
    float f[4] = {};
    int d[4] = {};
    s.cells.resize(2);
#define OFFSET(member) std::printf("this->%s %ld\n", #member, distance(&s, &s.member))
    OFFSET(seq_len); OFFSET(capacity); OFFSET(refs); OFFSET(cells); OFFSET(tokens.head); OFFSET(tokens.items[2]);
    OFFSET(tokens.where.at); OFFSET(memory); OFFSET(inner);
    std::printf("batch.head %ld\n", distance(&s.tokens, &s.tokens.head));
    std::fflush(stdout);
    return s.forward(s.tokens, status) + (int)engine::decode(f, 1) + engine::decode(d, 2) == 0;
}
"""


_CROSS = "gcc-aarch64-linux-gnu"
_PACKAGES = {"strip": "binutils", "objcopy": "binutils", "dwp": "binutils", "qemu-aarch64": "qemu-user",
             "aarch64-linux-gnu-gcc": _CROSS, "aarch64-linux-gnu-strip": _CROSS}  # fmt: skip


def need(*programs: str) -> None:
    """Fail, saying what to install: a test that skips would hide that nothing was tested."""
    missing = [program for program in programs if shutil.which(program) is None]
    if missing:
        packages = " ".join(sorted({_PACKAGES.get(program, program) for program in missing}))
        pytest.fail(f"{' and '.join(missing)} not found; type: apt-get install {packages}", pytrace=False)


def compiled(folder: Path, source: str, *flags: str, name: str = "program") -> Path:
    """The program, compiled in `folder` with these flags (-g is not among them)."""
    is_cpp = "namespace" in source
    compiler = "g++" if is_cpp else "gcc"
    need(compiler)
    text = folder / f"{name}.{'cpp' if is_cpp else 'c'}"
    text.write_text(source)
    done = subprocess.run(
        [compiler, *flags, text.name, "-o", name], cwd=folder, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return folder / name


def told_by(program: Path) -> dict[str, int]:
    """Expression -> offset, as the program prints them."""
    done = subprocess.run([str(program)], capture_output=True, text=True, timeout=60)
    return {line.rsplit(" ", 1)[0]: int(line.rsplit(" ", 1)[1]) for line in done.stdout.splitlines()}
