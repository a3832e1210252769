/* A small decoder that runs Qwen2, Qwen3 and Llama weights from safetensors: the whole engine's types.
 *
 * It is written to be read and to be stopped in a debugger. Everything that a step changes hangs on `struct state`,
 * in plain C, and the functions marked HOOK stay real calls with all their arguments at every level of optimisation.
 */
#ifndef ENGINE_H
#define ENGINE_H

#include <stddef.h>
#include <stdint.h>

#if defined(__clang__)
#define HOOK __attribute__((noinline))
#else
/* noipa: no inlining, no clones with fewer arguments, no assumptions across the call */
#define HOOK __attribute__((noipa))
#endif

enum { MAX_EOS = 64, MAX_NAME = 256, MAX_PATH = 4096 };

/* -- what config.json says ----------------------------------------------------------------------------------------- */

struct rope {
    float theta;
    int is_llama3; /* then the rest applies */
    float factor, low_freq_factor, high_freq_factor;
    int original_context;
};

struct config {
    char name[MAX_NAME]; /* the folder's */
    int n_layers, hidden_size, n_heads, n_kv_heads, head_dim, intermediate_size, vocab_size, context_length;
    float rms_norm_eps;
    struct rope rope;
    int tied, qkv_bias, o_bias, mlp_bias, qk_norm;
    int n_eos;
    int32_t eos[MAX_EOS];
};

/* -- weights: float32, matrices row by row, one row an output ------------------------------------------------------ */

struct layer_weights {
    float *attn_norm;       /* [hidden] */
    float *qkv, *qkv_bias;  /* rows of the query heads, then key heads, then value heads */
    float *q_norm, *k_norm; /* [head_dim]; NULL but in Qwen3 */
    float *o, *o_bias;
    float *mlp_norm;
    float *gate_up, *gate_up_bias; /* rows of gate, then of up */
    float *down, *down_bias;
};

struct weights {
    float *embedding; /* [vocab][hidden] */
    struct layer_weights *layers;
    float *final_norm;
    float *lm_head; /* the embedding where they are tied */
};

/* -- a sequence in progress ---------------------------------------------------------------------------------------- */

struct state {
    struct config cfg;
    struct weights weights;

    int seq_id;   /* the request */
    int step;     /* of the request: 0 is the prefill */
    int seq_len;  /* tokens fed so far */
    int capacity; /* rows that a layer's cache holds */

    int *cache_len;        /* [n_layers] rows in each layer's cache; grown inside the layer loop */
    float **keys, **values; /* [n_layers] -> [row][n_kv_heads * head_dim] */

    float *logits; /* [vocab_size] of the last token fed */

    /* What the latest forward did; times only where `is_timed`, in ms. */
    int is_timed;
    int write_pos;                        /* row of layer 0 that its first token was written to */
    int pos;                              /* rotary position of its first token */
    float *gemm_ms, *attn_ms, *hidden_rms; /* [n_layers] */
    float lm_head_ms;

    /* scratch for up to BATCH tokens at once */
    float *hidden, *normed, *qkv, *attended, *projected, *gate_up;
    float *scores;              /* [capacity] */
    float *inverse_frequencies; /* [head_dim / 2] */
    float *rotation;            /* cosines, then sines: [head_dim] */
};

struct pick {
    int token;
    float logit, margin; /* margin: best less second best */
    int runner_up;
};

/* The values are those of a step trace. */
enum finish {
    FINISH_NONE = 0,
    FINISH_EOS = 1,
    FINISH_LENGTH = 2,
    FINISH_ABORT = 4,
    FINISH_CAPACITY = 5,
    FINISH_ERROR = 6
};

struct request {
    int seq_id;
    const int32_t *prompt;
    int n_prompt;
    int max_new_tokens;
    int ignore_eos;
};

struct recorder;

/* -- main.c: an error ends the program with one line and exit code 2 ------------------------------------------------ */

_Noreturn void die(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* -- config.c, weights.c ------------------------------------------------------------------------------------------- */

void read_config(const char *folder, struct config *config);
void load_weights(const char *folder, const struct config *config, struct weights *weights);
void free_weights(struct weights *weights, int n_layers);

char *read_file(const char *path, size_t *size); /* to be freed; dies where it cannot be read */
int file_exists(const char *path);
void join_path(char *out, const char *folder, const char *name); /* out: MAX_PATH bytes */

/* -- forward.c ----------------------------------------------------------------------------------------------------- */

void new_state(struct state *st, int capacity); /* st->cfg and st->weights are filled in */
void free_state(struct state *st);

/* Feeds n tokens after those in the cache; the last one's logits are then in st->logits. One call is one step. */
HOOK void forward(struct state *st, const int32_t *tokens, int n);

double now_ms(void);

/* -- generate.c ---------------------------------------------------------------------------------------------------- */

/* Runs one request to its end, printing ids as they come. Returns 0, or 1 where Ctrl-C ended it. */
HOOK int generate(struct state *st, const struct request *request, struct recorder *recorder);

HOOK void begin_request(struct state *st, int seq_id, const int32_t *prompt, int n_prompt, int max_new_tokens);
HOOK void reset_context(struct state *st);
HOOK struct pick sample(const float *logits, int vocab_size);

/* `token` is the last one sampled, which was not fed; -1 where there is none. `finish` is an enum finish. */
HOOK void finish_request(struct state *st, int seq_id, int token, int finish);

#endif
