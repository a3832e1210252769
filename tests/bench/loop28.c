/* A token loop of 28 layers without a model: what a debugger sees of an engine, and nothing that takes time.
 *
 *     loop28 STEPS      feeds a prompt of 25 tokens, then decodes STEPS - 2 tokens, then ends
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#if defined(__clang__)
#define HOOK __attribute__((noinline))
#else
#define HOOK __attribute__((noipa))
#endif

enum { N_LAYERS = 28, PROMPT = 25, CAPACITY = 1 << 20 };

struct config {
    char name[64];
    int n_layers, vocab_size;
};

struct state {
    struct config cfg;
    int seq_id, seq_len, capacity;
    int *cache_len;
    double attn_ms; /* summed up over the run */
};

HOOK void begin_request(struct state *st, int seq_id, const int32_t *prompt, int n_prompt, int max_new_tokens)
{
    (void)prompt, (void)n_prompt, (void)max_new_tokens;
    st->seq_id = seq_id;
}

HOOK void forward(struct state *st, const int32_t *tokens, int n)
{
    for (int layer = 0; layer < st->cfg.n_layers; layer++)
        st->cache_len[layer] += n;
    st->seq_len += n;
    st->attn_ms += 0.25 * tokens[0];
}

HOOK void finish_request(struct state *st, int seq_id, int token, int finish)
{
    (void)st, (void)seq_id, (void)token, (void)finish;
}

int main(int argc, char **argv)
{
    int steps = argc > 1 ? atoi(argv[1]) : 20000;
    struct state st = {.cfg = {.name = "loop28", .n_layers = N_LAYERS, .vocab_size = 1000}, .capacity = CAPACITY};
    int32_t prompt[PROMPT];
    for (int i = 0; i < PROMPT; i++)
        prompt[i] = i + 1;
    st.cache_len = calloc(N_LAYERS, sizeof *st.cache_len);
    begin_request(&st, 0, prompt, PROMPT, steps);
    forward(&st, prompt, PROMPT);
    int32_t token = 0;
    for (int step = 1; step < steps - 1; step++) {
        token = step % 1000;
        forward(&st, &token, 1);
    }
    finish_request(&st, 0, 999, 1);
    printf("%d rows\n", st.cache_len[N_LAYERS - 1]);
    free(st.cache_len);
    return 0;
}
