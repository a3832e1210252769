/* A loop with the shape that the kestrel probe names, and no model in it: what a debugger sees of such an engine.
 *
 * kestrel_shape batch|single PROMPT NEW [REQUESTS]: the prompt is fed at once or token by token, then NEW - 1 sampled
 * tokens are fed and the last one is not. Prints each request's sampled ids on a line. -DFAULT=LAYER: that layer forgets
 * its increment at the third fed token behind the prompt.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LAYERS = 6, VOCAB = 1000, SLOTS = 64, EOS = 999 };

typedef struct {
    int n_layers, vocab_size;
} config;

typedef struct {
    config cfg;
    int seq_len;
    int *cache_len;
    int mrope_pos;
    int max_kv_slots;
    int profile_decode;
    double dec_t_qkv, dec_t_attn, dec_t_o, dec_t_gu, dec_t_down, dec_t_lm;
    int last_token;
    int decoded;
} st_state;

#define HOOK __attribute__((noinline, noclone))

static void one_token(st_state *st, int token, int is_prompt) {
    if (st->seq_len == st->max_kv_slots) abort();
    for (int layer = 0; layer < st->cfg.n_layers; layer++) {
#ifdef FAULT
        if (layer == FAULT && !is_prompt && st->decoded == 2) continue;
#endif
        st->cache_len[layer]++;
    }
    if (st->profile_decode) { /* seconds; made up, so that a test knows them */
        st->dec_t_qkv += 0.001;
        st->dec_t_attn += 0.002;
        st->dec_t_o += 0.0005;
        st->dec_t_gu += 0.003;
        st->dec_t_down += 0.0015;
        st->dec_t_lm += 0.004;
    }
    st->decoded += !is_prompt;
    st->seq_len++;
    st->mrope_pos++;
    st->last_token = token;
}

HOOK int st_qwen_model_forward(st_state *st, int token_id) {
    one_token(st, token_id, st->decoded < 0);
    return 0;
}

HOOK int st_qwen_model_prefill(st_state *st, const int *tokens, int n) {
    for (int i = 0; i < n; i++) one_token(st, tokens[i], 1);
    return 0;
}

HOOK void begin(st_state *st, int n_prompt, int max_new_tokens) {
    st->seq_len = st->mrope_pos = st->decoded = 0;
    memset(st->cache_len, 0, sizeof(int) * (size_t)st->cfg.n_layers);
    if (n_prompt + max_new_tokens > st->max_kv_slots) exit(2);
}

HOOK void finish(st_state *st, int token, int why) {
    printf("%d\n", token);
    fflush(stdout);
    st->decoded = why;
}

static int sample(const st_state *st) { return (st->last_token * 7 + st->seq_len) % EOS; }

int main(int argc, char **argv) {
    int rows[LAYERS] = {0}, prompt[SLOTS];
    st_state state = {.cfg = {LAYERS, VOCAB}, .cache_len = rows, .max_kv_slots = SLOTS, .last_token = 0};
    st_state *st = &state;
    if (argc < 4) return 2;
    int batch = !strcmp(argv[1], "batch"), n_prompt = atoi(argv[2]), n_new = atoi(argv[3]);
    int requests = argc > 4 ? atoi(argv[4]) : 1;
    st->profile_decode = getenv("PROFILE_DECODE") != NULL;
    for (int request = 0; request < requests; request++) {
        begin(st, n_prompt, n_new);
        for (int i = 0; i < n_prompt; i++) prompt[i] = 10 + request + i;
        if (batch) {
            st_qwen_model_prefill(st, prompt, n_prompt);
        } else {
            st->decoded = -n_prompt;
            for (int i = 0; i < n_prompt; i++, st->decoded++) st_qwen_model_forward(st, prompt[i]);
        }
        int token = sample(st);
        for (int fed = 0; fed < n_new - 1; fed++) {
            printf("%d ", token);
            st_qwen_model_forward(st, token);
            token = sample(st);
        }
        finish(st, token, 2);
    }
    return 0;
}
