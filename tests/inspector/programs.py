"""Small programs that the tests compile, and which tell their own offsets: no expectation comes from our code."""

from __future__ import annotations

import subprocess
from pathlib import Path

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

# a state passed behind what takes registers of its own, or none
ARGUMENTS = r"""
#include <stdio.h>
struct pair { int a, b; };
struct big { long parts[4]; };
struct state { long pad; int seq_len; int cache_len[2]; int n_layers; double t_attn; };
static struct state the_state = {0, 0, {0, 0}, 2, 0.5};
static int steps;

__attribute__((noipa)) struct big forward(struct state *st, double scale, unsigned char n, const int *tokens)
{
    struct big out = {{0}};
    steps++;
    for (int layer = 0; layer < st->n_layers; layer++)
        st->cache_len[layer] += n;
    st->seq_len += n;
    out.parts[0] = tokens[0] + (long)scale;
    return out;
}
__attribute__((noipa)) int eighth(int a, int b, int c, int d, int e, int f, int g, int h, struct state *st)
{ return a + b + c + d + e + f + g + h + st->seq_len; }
__attribute__((noipa)) int by_value(struct pair before, struct state *st) { return before.a + st->seq_len; }

int main(void)
{
    int tokens[3] = {11, 12, 13};
    struct pair pair = {1, 2};
    long sum = 0;
    for (int i = 0; i < 3; i++) {
        printf("%d %d %d\n", tokens[i], i ? 1 : 3, the_state.seq_len);
        fflush(stdout);
        sum += forward(&the_state, 1.5, i ? 1 : 3, tokens + i).parts[0];
    }
    sum += eighth(1, 2, 3, 4, 5, 6, 7, 8, &the_state) + by_value(pair, &the_state);
    return sum == 0;
}
"""
ARGUMENTS_SPEC = """
[probe]
layers = full
n_layers = st->n_layers
[forward]
function = forward
token_id = tokens[0]
n_tokens = n
seq_before = st->seq_len
cache_before = st->cache_len[:st->n_layers]
pos = steps
"""
"""What the probe of ARGUMENTS reads"""


def told_by(program: Path) -> dict[str, int]:
    """Expression -> offset, as the program prints them."""
    done = subprocess.run([str(program)], capture_output=True, text=True, timeout=60)
    return {line.rsplit(" ", 1)[0]: int(line.rsplit(" ", 1)[1]) for line in done.stdout.splitlines()}
