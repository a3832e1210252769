/* Drives stepscope.h for the tests; built as C99 and as C++17. */

#define STEPSCOPE_IMPLEMENTATION
#include "stepscope.h"

static int allocations, writes;

#ifdef __cplusplus
extern "C" {
#endif
void *__real_malloc(size_t bytes);
void *__wrap_malloc(size_t bytes);
ssize_t __real_write(int fd, const void *bytes, size_t n);
ssize_t __wrap_write(int fd, const void *bytes, size_t n);
#ifdef __cplusplus
}
#endif

void *__wrap_malloc(size_t bytes)
{
    allocations++;
    return __real_malloc(bytes);
}

ssize_t __wrap_write(int fd, const void *bytes, size_t n)
{
    writes++;
    return __real_write(fd, bytes, n);
}

enum { N_LAYERS = 3, N_DRAFTS = 4 };

static const int32_t eos[] = {2, 7};
static const int32_t prompt[] = {11, 12, 13};

static void describe(struct stepscope_run *run)
{
    stepscope_run_init(run);
    run->engine = "driver \"\\\n\x1b \xff\xc3\xa9";
    run->model = "\xe4\xbd\xa0\xed\xa0\x80\xf0\x9f\x98\x80\xc3";
    run->n_layers = N_LAYERS;
    run->vocab_size = 100;
    run->capacity = 50;
    run->eos = eos;
    run->n_eos = 2;
    run->max_new_tokens = 9;
}

static void fill(struct stepscope_step *step)
{
    static const int32_t before[N_LAYERS] = {3, 3, 3}, after[N_LAYERS] = {4, 5, 6};
    static const float ms[N_LAYERS] = {0.5f, 1.5f, 2.5f};
    static const int64_t drafts[N_DRAFTS] = {21, 22, 23, 24};
    stepscope_step_init(step);
    step->phase = STEPSCOPE_VERIFY, step->finish = STEPSCOPE_FINISH_STOP;
    step->seq_id = 1, step->token_id = 5000000000, step->n_tokens = 3, step->seq_before = 4, step->seq_len = 5;
    step->cache_len = after, step->cache_before = before, step->t_ns = 6;
    step->total_ms = 7, step->forward_ms = 8, step->sample_ms = 9, step->lm_head_ms = 10;
    step->gemm_ms = step->attn_ms = step->qkv_ms = step->o_ms = step->gate_up_ms = step->down_ms = ms;
    step->hidden_rms = ms;
    step->n_drafted = 2, step->n_accepted = 1, step->draft_ids = drafts, step->draft_cache_len = 11;
    step->write_pos = 12, step->pos = 13, step->n_reused = 14, step->logit = 15, step->margin = 16;
    step->runner_up = 17, step->kv_used = 18, step->kv_free = 19, step->forward_id = 20;
    step->text = " \xc3\xa9", step->n_text = 3;
}

/* Every field and every note. */
static void write_all(const char *path)
{
    struct stepscope trace;
    struct stepscope_run run;
    struct stepscope_step step;
    int allocations_before;
    describe(&run);
    run.fields = (1u << 27) - 1;
    run.n_drafts = N_DRAFTS;
    run.more_json = "\"draft\":{\"k\":4},\"loop\":\"cached\"";
    stepscope_open(&trace, path, &run);
    allocations_before = allocations;
    stepscope_source(&trace, "loop.c", 12, "generate");
    stepscope_request(&trace, 1, "say \"\xff\"", prompt, 3, 0, 9);
    fill(&step);
    stepscope_record(&trace, &step);
    stepscope_step_init(&step);
    step.phase = STEPSCOPE_DECODE, step.seq_id = 1;
    stepscope_record(&trace, &step);
    fill(&step);
    step.text = "a token of more than sixteen bytes", step.n_text = 34;
    stepscope_record(&trace, &step);
    stepscope_shift(&trace, 1, 4, 8);
    stepscope_rollback(&trace, 1, 2);
    stepscope_gap(&trace, -1, "lost");
    stepscope_absent(&trace, "margin", "not_measured");
    stepscope_message(&trace, "\xe2\x82\xac");
    stepscope_finish(&trace, 1, STEPSCOPE_FINISH_ABORT);
    stepscope_release(&trace, 1, 0, 50);
    printf("allocations %d\n", allocations - allocations_before);
    stepscope_close(&trace);
    stepscope_close(&trace);
    printf("writes %d\nfailed %d '%s'\n", writes, stepscope_failed(&trace), stepscope_error(&trace));
}

/* One count for all layers, one time for all layers, and a prompt that no note holds. */
static void write_totals(const char *path)
{
    struct stepscope trace;
    struct stepscope_run run;
    struct stepscope_step step;
    const int32_t rows = 7;
    const float gemm_ms = 1.25f;
    int32_t many[4000] = {0};
    describe(&run);
    run.fields = STEPSCOPE_GEMM_MS;
    run.totals = STEPSCOPE_GEMM_MS | STEPSCOPE_CACHE_LEN;
    run.layers_json = "[{\"kind\":\"recurrent\"},{\"kind\":\"full\"},{\"kind\":\"full\"}]";
    run.note_bytes = 2000;
    stepscope_open(&trace, path, &run);
    stepscope_request(&trace, 0, NULL, many, 4000, 0, 1);
    stepscope_request(&trace, 1, NULL, many, -1, -1, -1);
    stepscope_step_init(&step);
    step.phase = STEPSCOPE_PREFILL, step.seq_id = 0, step.cache_len = &rows, step.gemm_ms = &gemm_ms;
    stepscope_record(&trace, &step);
    printf("%d\n", stepscope_close(&trace));
}

/* None of this may crash, write or print. */
static void misuse(const char *path)
{
    static struct stepscope never_opened, trace;
    struct stepscope_run run;
    struct stepscope_step step;
    stepscope_step_init(&step);
    stepscope_record(&never_opened, &step);
    stepscope_request(&never_opened, 0, NULL, NULL, 0, 0, 0);
    stepscope_message(&never_opened, "");
    printf("%d '%s'\n", stepscope_close(&never_opened), stepscope_error(&never_opened));

    describe(&run);
    run.fields = STEPSCOPE_DRAFT_IDS; /* without n_drafts */
    printf("%d ", stepscope_open(&trace, path, &run));
    printf("%s\n", stepscope_error(&trace));
    stepscope_record(&trace, &step);
    printf("%d\n", stepscope_close(&trace));

    describe(&run);
    run.note_bytes = 100;
    printf("%d ", stepscope_open(&trace, path, &run));
    printf("%s\n", stepscope_error(&trace));

    describe(&run);
    printf("%d ", stepscope_open(&trace, "/no/such/place", &run));
    printf("%s\n", stepscope_error(&trace));
    printf("%d ", stepscope_open(&trace, NULL, &run));
    printf("%s\n", stepscope_error(&trace));
    printf("%d\n", stepscope_open(&trace, path, NULL));
    stepscope_record(&trace, NULL);
    printf("writes %d\n", writes);
}

int main(int argc, char **argv)
{
    if (argc != 3)
        return 2;
    if (strcmp(argv[1], "all") == 0)
        write_all(argv[2]);
    else if (strcmp(argv[1], "totals") == 0)
        write_totals(argv[2]);
    else
        misuse(argv[2]);
    return 0;
}
