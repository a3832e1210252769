/* The forward of a decoder: embed, then in each layer attention over the cache and an MLP, then the last token's logits.
 *
 * A prompt and a single token take the same way. The rows of a layer's cache are counted inside the layer, one a token,
 * so that a layer which forgets a token is seen in its own count.
 */

#include "engine.h"
#include "fault.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { BATCH = 64 }; /* tokens of a prompt that go through the layers together */

double now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

/* No clock is read unless somebody wants the times. */
static double begin_part(const struct state *st)
{
    return st->is_timed ? now_ms() : 0;
}

static void end_part(const struct state *st, float *sum_ms, double began)
{
    if (st->is_timed)
        *sum_ms += (float)(now_ms() - began);
}

/* -- arithmetic ---------------------------------------------------------------------------------------------------- */

/* Sixteen sums side by side: the compiler may then use vectors without being allowed to reorder a sum. */
static float dot(const float *a, const float *b, int n)
{
    float sums[16] = {0};
    float sum = 0;
    int i = 0;
    for (; i + 16 <= n; i += 16)
        for (int j = 0; j < 16; j++)
            sums[j] += a[i + j] * b[i + j];
    for (; i < n; i++)
        sum += a[i] * b[i];
    for (int j = 0; j < 16; j++)
        sum += sums[j];
    return sum;
}

/* out[t][r] = x[t] · w[r] + bias[r] for n tokens. A row of w is read once for all of them. */
static void matmul(float *out, const float *x, const float *w, const float *bias, int n, int rows, int columns)
{
    for (int r = 0; r < rows; r++)
        for (int t = 0; t < n; t++)
            out[(size_t)t * rows + r] =
                dot(x + (size_t)t * columns, w + (size_t)r * columns, columns) + (bias ? bias[r] : 0);
}

static float mean_square(const float *x, int n)
{
    double sum = 0;
    for (int i = 0; i < n; i++)
        sum += (double)x[i] * x[i];
    return (float)(sum / n);
}

/* Zhang & Sennrich 2019, https://arxiv.org/abs/1910.07467 */
static void rms_norm(float *out, const float *x, const float *weight, int n, float eps)
{
    float rms = sqrtf(mean_square(x, n) + eps);
    for (int i = 0; i < n; i++)
        out[i] = x[i] / rms * weight[i];
}

static void softmax(float *x, int n)
{
    float most = x[0], sum = 0;
    for (int i = 1; i < n; i++)
        most = x[i] > most ? x[i] : most;
    for (int i = 0; i < n; i++)
        sum += x[i] = expf(x[i] - most);
    for (int i = 0; i < n; i++)
        x[i] /= sum;
}

/* gate · sigmoid(gate) · up into gate: the SwiGLU of Shazeer 2020, https://arxiv.org/abs/2002.05202 */
static void silu_times(float *gate, const float *up, int n)
{
    for (int i = 0; i < n; i++)
        gate[i] = gate[i] / (1 + expf(-gate[i])) * up[i];
}

static void add(float *x, const float *more, size_t n)
{
    for (size_t i = 0; i < n; i++)
        x[i] += more[i];
}

/* -- positions ----------------------------------------------------------------------------------------------------- */

/* Radians a position for each pair of a head. Su et al. 2021, https://arxiv.org/abs/2104.09864. "llama3" divides the
 * slow pairs by `factor`, leaves the fast ones and blends between. */
static void set_frequencies(float *out, const struct rope *rope, int head_dim)
{
    for (int i = 0; i < head_dim / 2; i++) {
        float frequency = 1 / powf(rope->theta, (float)(2 * i) / (float)head_dim);
        if (rope->is_llama3) {
            float turns = (float)rope->original_context * frequency / 6.2831853f;
            float kept = (turns - rope->low_freq_factor) / (rope->high_freq_factor - rope->low_freq_factor);
            kept = kept < 0 ? 0 : kept > 1 ? 1 : kept;
            frequency = kept * frequency + (1 - kept) * frequency / rope->factor;
        }
        out[i] = frequency;
    }
}

static void set_rotation(struct state *st, int pos)
{
    int half = st->cfg.head_dim / 2;
    for (int i = 0; i < half; i++) {
        float angle = (float)pos * st->inverse_frequencies[i];
        st->rotation[i] = cosf(angle);
        st->rotation[half + i] = sinf(angle);
    }
}

/* Turns the pairs (i, i + half) of one head. */
static void rotate(const struct state *st, float *head)
{
    int half = st->cfg.head_dim / 2;
    const float *cosines = st->rotation, *sines = st->rotation + half;
    for (int i = 0; i < half; i++) {
        float first = head[i], second = head[half + i];
        head[i] = first * cosines[i] - second * sines[i];
        head[half + i] = second * cosines[i] + first * sines[i];
    }
}

/* -- attention ----------------------------------------------------------------------------------------------------- */

/* Norms (Qwen3) and rotates a token's query and key heads. */
static void place_heads(struct state *st, const struct layer_weights *lw, float *qkv, int pos)
{
    const struct config *cfg = &st->cfg;
    set_rotation(st, pos);
    for (int h = 0; h < cfg->n_heads + cfg->n_kv_heads; h++) {
        float *head = qkv + h * cfg->head_dim;
        if (lw->q_norm)
            rms_norm(head, head, h < cfg->n_heads ? lw->q_norm : lw->k_norm, cfg->head_dim, cfg->rms_norm_eps);
        rotate(st, head);
    }
}

/* A token's keys and values into one row of the layer's cache. */
static void store_row(struct state *st, int layer, int row, const float *qkv)
{
    const struct config *cfg = &st->cfg;
    size_t kv = (size_t)cfg->n_kv_heads * (size_t)cfg->head_dim;
    const float *key = qkv + cfg->n_heads * cfg->head_dim;
    memcpy(st->keys[layer] + (size_t)row * kv, key, kv * sizeof *key);
    memcpy(st->values[layer] + (size_t)row * kv, key + kv, kv * sizeof *key);
}

/* One query head over all rows of the layer's cache. */
static void attend(struct state *st, int layer, int head, const float *query, float *out)
{
    const struct config *cfg = &st->cfg;
    int rows = st->cache_len[layer], head_dim = cfg->head_dim;
    size_t kv = (size_t)cfg->n_kv_heads * (size_t)head_dim;
    size_t at = (size_t)(head / (cfg->n_heads / cfg->n_kv_heads)) * (size_t)head_dim;
    float scale = sqrtf((float)head_dim);
    if (fault_since(FAULT_WRONG_SCALE, st) && layer == FAULT_LAYER)
        scale = (float)head_dim;
    for (int row = 0; row < rows; row++)
        st->scores[row] = dot(query, st->keys[layer] + (size_t)row * kv + at, head_dim) / scale;
    softmax(st->scores, rows);
    memset(out, 0, (size_t)head_dim * sizeof *out);
    for (int row = 0; row < rows; row++)
        for (int i = 0; i < head_dim; i++)
            out[i] += st->scores[row] * st->values[layer][(size_t)row * kv + at + (size_t)i];
}

/* Where a layer writes its next row; normally behind those it has. */
static int next_row(const struct state *st, int layer)
{
    int row = st->cache_len[layer];
    if (fault_now(FAULT_OVERWRITE_ROW, st) && layer == 0)
        row--;
    return row;
}

/* Counts the row that a layer has just written. */
static void count_row(struct state *st, int layer)
{
    if (fault_now(FAULT_SKIP_INCREMENT, st) && layer == FAULT_LAYER)
        return;
    st->cache_len[layer]++;
    if (fault_now(FAULT_DOUBLE_INCREMENT, st) && layer == FAULT_LAYER)
        st->cache_len[layer]++;
}

/* Token after token: each sees the rows before its own and its own, which is what makes attention causal. */
static void attention(struct state *st, int layer, int pos, int n)
{
    const struct config *cfg = &st->cfg;
    int width = (cfg->n_heads + 2 * cfg->n_kv_heads) * cfg->head_dim;
    for (int t = 0; t < n; t++) {
        float *qkv = st->qkv + (size_t)t * width;
        float *out = st->attended + (size_t)t * cfg->n_heads * cfg->head_dim;
        int row = next_row(st, layer);
        if (layer == 0 && st->write_pos < 0)
            st->write_pos = row;
        place_heads(st, &st->weights.layers[layer], qkv, pos + t);
        store_row(st, layer, row, qkv);
        count_row(st, layer);
        for (int head = 0; head < cfg->n_heads; head++)
            attend(st, layer, head, qkv + head * cfg->head_dim, out + head * cfg->head_dim);
    }
}

/* -- layers -------------------------------------------------------------------------------------------------------- */

static void norm_all(struct state *st, const float *weight, int n)
{
    int hidden = st->cfg.hidden_size;
    for (int t = 0; t < n; t++)
        rms_norm(st->normed + (size_t)t * hidden, st->hidden + (size_t)t * hidden, weight, hidden,
                 st->cfg.rms_norm_eps);
}

/* A matrix product of a layer, its time added to the layer's gemm_ms. */
static void product(struct state *st, int layer, float *out, const float *x, const float *w, const float *bias, int n,
                    int rows, int columns)
{
    double began = begin_part(st);
    matmul(out, x, w, bias, n, rows, columns);
    if (FAULT == FAULT_SLOW_LAYER && layer == FAULT_LAYER)
        for (int again = 0; again < 4; again++)
            matmul(out, x, w, bias, n, rows, columns);
    end_part(st, &st->gemm_ms[layer], began);
}

static void attention_block(struct state *st, int layer, int pos, int n)
{
    const struct config *cfg = &st->cfg;
    const struct layer_weights *lw = &st->weights.layers[layer];
    int hidden = cfg->hidden_size, q_rows = cfg->n_heads * cfg->head_dim;
    int qkv_rows = q_rows + 2 * cfg->n_kv_heads * cfg->head_dim;
    norm_all(st, lw->attn_norm, n);
    product(st, layer, st->qkv, st->normed, lw->qkv, lw->qkv_bias, n, qkv_rows, hidden);
    double began = begin_part(st);
    attention(st, layer, pos, n);
    end_part(st, &st->attn_ms[layer], began);
    product(st, layer, st->projected, st->attended, lw->o, lw->o_bias, n, hidden, q_rows);
    add(st->hidden, st->projected, (size_t)n * hidden);
}

static void mlp_block(struct state *st, int layer, int n)
{
    const struct layer_weights *lw = &st->weights.layers[layer];
    int hidden = st->cfg.hidden_size, inner = st->cfg.intermediate_size;
    norm_all(st, lw->mlp_norm, n);
    product(st, layer, st->gate_up, st->normed, lw->gate_up, lw->gate_up_bias, n, 2 * inner, hidden);
    for (int t = 0; t < n; t++) {
        float *gate = st->gate_up + (size_t)t * 2 * inner;
        silu_times(gate, gate + inner, inner);
        /* closer together, so that the product below finds one token behind the other */
        memmove(st->gate_up + (size_t)t * inner, gate, (size_t)inner * sizeof *gate);
    }
    product(st, layer, st->projected, st->gate_up, lw->down, lw->down_bias, n, hidden, inner);
    add(st->hidden, st->projected, (size_t)n * hidden);
}

static void run_layers(struct state *st, const int32_t *tokens, int pos, int n)
{
    const struct config *cfg = &st->cfg;
    size_t hidden = (size_t)cfg->hidden_size;
    for (int t = 0; t < n; t++)
        memcpy(st->hidden + t * hidden, st->weights.embedding + (size_t)tokens[t] * hidden, hidden * sizeof(float));
    for (int layer = 0; layer < cfg->n_layers; layer++) {
        attention_block(st, layer, pos, n);
        mlp_block(st, layer, n);
        if (st->is_timed)
            st->hidden_rms[layer] = sqrtf(mean_square(st->hidden + (size_t)(n - 1) * hidden, cfg->hidden_size));
    }
}

/* The logits of the last of n tokens. */
static void make_logits(struct state *st, int n)
{
    const struct config *cfg = &st->cfg;
    const float *last = st->hidden + (size_t)(n - 1) * cfg->hidden_size;
    rms_norm(st->normed, last, st->weights.final_norm, cfg->hidden_size, cfg->rms_norm_eps);
    double began = begin_part(st);
    matmul(st->logits, st->normed, st->weights.lm_head, NULL, 1, cfg->vocab_size, cfg->hidden_size);
    end_part(st, &st->lm_head_ms, began);
}

static void forget_measurements(struct state *st)
{
    size_t bytes = (size_t)st->cfg.n_layers * sizeof(float);
    memset(st->gemm_ms, 0, bytes);
    memset(st->attn_ms, 0, bytes);
    st->lm_head_ms = 0;
    st->write_pos = -1;
}

HOOK void forward(struct state *st, const int32_t *tokens, int n)
{
    int pos = st->seq_len - (fault_since(FAULT_WRONG_POSITION, st) ? 1 : 0);
    int in_batch = 0;
    forget_measurements(st);
    st->pos = pos;
    for (int done = 0; done < n; done += in_batch) {
        in_batch = n - done < BATCH ? n - done : BATCH;
        run_layers(st, tokens + done, pos + done, in_batch);
    }
    make_logits(st, in_batch);
    if (!fault_now(FAULT_STALE_SEQ_LEN, st))
        st->seq_len += n;
}

/* -- memory -------------------------------------------------------------------------------------------------------- */

static void *new_values(size_t a, size_t b, size_t size)
{
    void *memory = a && b > SIZE_MAX / a ? NULL : calloc(a * b, size);
    if (!memory)
        die("no memory for %zu x %zu values of %zu bytes; --capacity makes the KV cache smaller", a, b, size);
    return memory;
}

static float *new_floats(size_t a, size_t b)
{
    return new_values(a, b, sizeof(float));
}

void new_state(struct state *st, int capacity)
{
    const struct config *cfg = &st->cfg;
    size_t n_layers = (size_t)cfg->n_layers, head_dim = (size_t)cfg->head_dim;
    size_t q_rows = (size_t)cfg->n_heads * head_dim, kv_rows = (size_t)cfg->n_kv_heads * head_dim;
    st->capacity = capacity;
    st->cache_len = new_values(n_layers, 1, sizeof(int));
    st->keys = new_values(n_layers, 1, sizeof(float *));
    st->values = new_values(n_layers, 1, sizeof(float *));
    for (size_t layer = 0; layer < n_layers; layer++) {
        st->keys[layer] = new_floats(rows_with_spare(capacity), kv_rows);
        st->values[layer] = new_floats(rows_with_spare(capacity), kv_rows);
    }
    st->logits = new_floats((size_t)cfg->vocab_size, 1);
    st->gemm_ms = new_floats(n_layers, 1);
    st->attn_ms = new_floats(n_layers, 1);
    st->hidden_rms = new_floats(n_layers, 1);
    st->hidden = new_floats(BATCH, (size_t)cfg->hidden_size);
    st->normed = new_floats(BATCH, (size_t)cfg->hidden_size);
    st->projected = new_floats(BATCH, (size_t)cfg->hidden_size);
    st->qkv = new_floats(BATCH, q_rows + 2 * kv_rows);
    st->attended = new_floats(BATCH, q_rows);
    st->gate_up = new_floats(BATCH, 2 * (size_t)cfg->intermediate_size);
    st->scores = new_floats(rows_with_spare(capacity), 1);
    st->rotation = new_floats(head_dim, 1);
    st->inverse_frequencies = new_floats(head_dim / 2, 1);
    set_frequencies(st->inverse_frequencies, &cfg->rope, cfg->head_dim);
}

void free_state(struct state *st)
{
    float *all[] = {st->logits,    st->gemm_ms, st->attn_ms,  st->hidden_rms, st->hidden, st->normed,
                    st->projected, st->qkv,     st->attended, st->gate_up,    st->scores, st->rotation,
                    st->inverse_frequencies};
    for (int layer = 0; layer < st->cfg.n_layers; layer++) {
        free(st->keys[layer]);
        free(st->values[layer]);
    }
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
    free(st->keys);
    free(st->values);
    free(st->cache_len);
}
