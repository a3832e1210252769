/* The token loop: sample a token, feed it unless something says stop, and again.
 *
 * The functions marked HOOK are where a debugger looks: each is called once for what its name says.
 */

#include "fault.h"
#include "record.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

static volatile sig_atomic_t is_interrupted;

static void on_interrupt(int signal_number)
{
    (void)signal_number;
    is_interrupted = 1;
}

/* The first Ctrl-C ends the request after the step in progress, a second one ends the program. */
static void watch_for_interrupt(void)
{
    struct sigaction action = {.sa_handler = on_interrupt, .sa_flags = (int)SA_RESETHAND | SA_RESTART};
    sigaction(SIGINT, &action, NULL);
}

HOOK void reset_context(struct state *st)
{
    st->seq_len = 0;
    for (int layer = 0; layer < st->cfg.n_layers; layer++)
        if (!(FAULT == FAULT_PARTIAL_RESET && layer == FAULT_LAYER && st->seq_id == 1))
            st->cache_len[layer] = 0;
}

HOOK void begin_request(struct state *st, int seq_id, const int32_t *prompt, int n_prompt, int max_new_tokens)
{
    (void)prompt, (void)n_prompt, (void)max_new_tokens; /* for whoever stops here */
    st->seq_id = seq_id;
    st->step = 0;
    reset_context(st);
}

HOOK void finish_request(struct state *st, int seq_id, int token, int finish)
{
    (void)st, (void)seq_id, (void)token, (void)finish; /* for whoever stops here */
    printf("\n");
    fflush(stdout);
}

/* Greedy: the best token, the lowest id among equals, and how far the second best is behind. */
HOOK struct pick sample(const float *logits, int vocab_size)
{
    struct pick pick = {.token = 0, .runner_up = -1};
    float second = -INFINITY;
    for (int id = 1; id < vocab_size; id++) {
        if (logits[id] > logits[pick.token]) {
            second = logits[pick.token];
            pick.runner_up = pick.token;
            pick.token = id;
        } else if (pick.runner_up < 0 || logits[id] > second) {
            second = logits[id];
            pick.runner_up = id;
        }
    }
    pick.logit = logits[pick.token];
    pick.margin = pick.logit - second;
    return pick;
}

static int is_eos(const struct config *cfg, int token)
{
    for (int i = 0; i < cfg->n_eos; i++)
        if (cfg->eos[i] == token)
            return 1;
    return 0;
}

/* Why the token just sampled, the n-th, is not fed; FINISH_NONE where it is. */
static enum finish reason_to_stop(const struct state *st, const struct request *request, int token, int n)
{
    int most = request->max_new_tokens + (FAULT == FAULT_ONE_TOO_MANY ? 1 : 0);
    int capacity = st->capacity + (FAULT == FAULT_PAST_CAPACITY ? 1 : 0);
    if (!request->ignore_eos && is_eos(&st->cfg, token))
        return FINISH_EOS;
    if (n >= most)
        return FINISH_LENGTH;
    return st->seq_len >= capacity ? FINISH_CAPACITY : FINISH_NONE;
}

static double clock_if_timed(const struct state *st)
{
    return st->is_timed ? now_ms() : 0;
}

static enum finish prefill(struct state *st, const struct request *request, struct recorder *recorder)
{
    struct step step = {.phase = STEPSCOPE_PREFILL, .n_tokens = request->n_prompt, .seq_before = st->seq_len};
    record_step_begin(recorder);
    double began = clock_if_timed(st);
    forward(st, request->prompt, request->n_prompt);
    step.forward_ms = clock_if_timed(st) - began;
    step.finish = request->max_new_tokens ? FINISH_NONE : FINISH_LENGTH;
    record_step(recorder, st, &step);
    st->step++;
    return step.finish;
}

/* One token sampled and, unless it ends the request, fed. */
static enum finish decode(struct state *st, const struct request *request, struct recorder *recorder, int *token)
{
    struct step step = {.phase = STEPSCOPE_DECODE, .seq_before = st->seq_len};
    record_step_begin(recorder);
    double began = clock_if_timed(st);
    struct pick pick = sample(st->logits, st->cfg.vocab_size);
    double sampled = clock_if_timed(st);
    if (!isfinite(pick.logit))
        return FINISH_ERROR;
    *token = pick.token;
    step.finish = reason_to_stop(st, request, pick.token, st->step);
    if (step.finish == FINISH_NONE) {
        step.n_tokens = 1;
        forward(st, &pick.token, 1);
    }
    step.pick = &pick;
    step.sample_ms = sampled - began;
    step.forward_ms = clock_if_timed(st) - sampled;
    record_step(recorder, st, &step);
    st->step++;
    return step.finish;
}

HOOK int generate(struct state *st, const struct request *request, struct recorder *recorder)
{
    int token = -1;
    watch_for_interrupt();
    begin_request(st, request->seq_id, request->prompt, request->n_prompt, request->max_new_tokens);
    record_source(recorder, __LINE__);
    record_request(recorder, request);
    enum finish finish = prefill(st, request, recorder);
    while (finish == FINISH_NONE && !is_interrupted) {
        finish = decode(st, request, recorder, &token);
        if (finish != FINISH_ERROR)
            printf("%s%d", st->step == 2 ? "" : ",", token);
        fflush(stdout);
    }
    if (finish == FINISH_NONE)
        finish = FINISH_ABORT;
    record_end(recorder, request->seq_id, finish);
    finish_request(st, request->seq_id, token, finish);
    if (finish == FINISH_ERROR)
        fprintf(stderr, "engine: the best logit is not finite; the weights are damaged or overflowed\n");
    return finish == FINISH_ABORT || finish == FINISH_ERROR;
}
