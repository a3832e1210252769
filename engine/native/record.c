#define STEPSCOPE_IMPLEMENTATION
#include "record.h"

#ifndef ENGINE_FLAGS
#define ENGINE_FLAGS NULL
#endif

enum {
    RECORDED = STEPSCOPE_T_NS | STEPSCOPE_TOTAL_MS | STEPSCOPE_FORWARD_MS | STEPSCOPE_SAMPLE_MS | STEPSCOPE_GEMM_MS |
               STEPSCOPE_ATTN_MS | STEPSCOPE_LM_HEAD_MS | STEPSCOPE_WRITE_POS | STEPSCOPE_POS | STEPSCOPE_LOGIT |
               STEPSCOPE_MARGIN | STEPSCOPE_RUNNER_UP | STEPSCOPE_HIDDEN_RMS
};

void open_recorder(struct recorder *recorder, const char *path, const struct state *st, const struct request *stops)
{
    const struct config *cfg = &st->cfg;
    struct stepscope_run run = {
        .fields = RECORDED,
        .engine = "stepscope-c",
        .engine_flags = ENGINE_FLAGS,
        .model = cfg->name,
        .n_layers = cfg->n_layers,
        .n_heads = cfg->n_heads,
        .n_kv_heads = cfg->n_kv_heads,
        .head_dim = cfg->head_dim,
        .vocab_size = cfg->vocab_size,
        .capacity = st->capacity,
        .kv_dtype = "f32",
        .sampler = "greedy",
        .eos = cfg->eos,
        .n_eos = cfg->n_eos,
        .ignore_eos = stops->ignore_eos,
        .max_new_tokens = stops->max_new_tokens,
        .threads = 1,
        .more_json = "\"loop\":\"cached\"",
    };
    if (stepscope_open(&recorder->trace, path, &run))
        die("%s", stepscope_error(&recorder->trace));
    recorder->is_source_noted = 0;
}

int close_recorder(struct recorder *recorder)
{
    if (!stepscope_close(&recorder->trace))
        return 0;
    fprintf(stderr, "engine: %s\n", stepscope_error(&recorder->trace));
    return 1;
}

void record_source(struct recorder *recorder, int line)
{
    if (!recorder || recorder->is_source_noted)
        return;
    stepscope_source(&recorder->trace, "engine/native/generate.c", line, "generate");
    recorder->is_source_noted = 1;
}

void record_request(struct recorder *recorder, const struct request *request)
{
    if (recorder)
        stepscope_request(&recorder->trace, request->seq_id, NULL, request->prompt, request->n_prompt, 0,
                          request->max_new_tokens);
}

void record_step_begin(struct recorder *recorder)
{
    if (recorder)
        recorder->step_began_ns = stepscope_now_ns(&recorder->trace);
}

/* What the forward measured; nothing of it belongs to a step that fed no token. */
static void add_forward(struct stepscope_step *out, const struct state *st, double forward_ms)
{
    out->forward_ms = (float)forward_ms;
    out->gemm_ms = st->gemm_ms;
    out->attn_ms = st->attn_ms;
    out->lm_head_ms = st->lm_head_ms;
    out->hidden_rms = st->hidden_rms;
    out->write_pos = st->write_pos;
    out->pos = st->pos;
}

static void add_pick(struct stepscope_step *out, const struct pick *pick, double sample_ms)
{
    out->token_id = pick->token;
    out->logit = pick->logit;
    out->margin = pick->margin;
    out->runner_up = pick->runner_up;
    out->sample_ms = (float)sample_ms;
}

void record_step(struct recorder *recorder, const struct state *st, const struct step *step)
{
    struct stepscope_step out;
    if (!recorder)
        return;
    stepscope_step_init(&out);
    out.total_ms = (float)((double)(stepscope_now_ns(&recorder->trace) - recorder->step_began_ns) / 1e6);
    out.t_ns = recorder->step_began_ns;
    out.phase = (uint8_t)step->phase;
    out.finish = (uint8_t)step->finish;
    out.seq_id = st->seq_id;
    out.n_tokens = step->n_tokens;
    out.seq_before = step->seq_before;
    out.seq_len = st->seq_len;
    out.cache_len = st->cache_len;
    if (step->pick)
        add_pick(&out, step->pick, step->sample_ms);
    if (step->n_tokens)
        add_forward(&out, st, step->forward_ms);
    stepscope_record(&recorder->trace, &out);
}

void record_end(struct recorder *recorder, int seq_id, enum finish finish)
{
    if (!recorder)
        return;
    if (finish == FINISH_ABORT || finish == FINISH_ERROR) /* the others stand in the last step */
        stepscope_finish(&recorder->trace, seq_id, finish);
    stepscope_release(&recorder->trace, seq_id, -1, -1);
}
