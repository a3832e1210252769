/* A token loop of 28 layers without a model: what a debugger sees of an engine, and nothing that takes time.
 *
 *     loop28 STEPS [TIMES]    feeds a prompt of 25 tokens, then decodes STEPS - 2 tokens, then ends
 *
 * TIMES: a file for the microseconds between one decode step and the next, a line each.
 */
#define _POSIX_C_SOURCE 199309L

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

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

static double now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1e6 + now.tv_nsec / 1e3;
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
    double *began = calloc(steps + 1, sizeof *began);
    for (int step = 1; step < steps - 1; step++) {
        token = step % 1000;
        began[step] = now_us();
        forward(&st, &token, 1);
    }
    finish_request(&st, 0, 999, 1);
    printf("%d rows\n", st.cache_len[N_LAYERS - 1]);
    FILE *times = argc > 2 ? fopen(argv[2], "w") : NULL;
    for (int step = 2; times && step < steps - 1; step++)
        fprintf(times, "%.2f\n", began[step] - began[step - 1]);
    if (times)
        fclose(times);
    free(began);
    free(st.cache_len);
    return 0;
}
