/* What stepscope.h costs a step: the same frames through stepscope_record and through a bare write(2).
 *
 * usage: bench_stepscope FILE FILE   prints "record_us write_us", medians of alternating rounds; the clock readings and
 * the counters that change from step to step are part of what an engine pays, so they are inside.
 */

#define STEPSCOPE_IMPLEMENTATION
#include "stepscope.h"

enum { N_LAYERS = 28, STEPS = 20000, ROUNDS = 21 };

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values)
{
    qsort(values, ROUNDS, sizeof *values, by_value);
    return values[ROUNDS / 2];
}

static double record_round(struct stepscope *trace, struct stepscope_step *step, int32_t *rows)
{
    uint64_t began = stepscope__clock_ns();
    for (int i = 0; i < STEPS; i++) {
        for (int layer = 0; layer < N_LAYERS; layer++)
            rows[layer]++;
        step->seq_before = rows[0] - 1, step->seq_len = rows[0], step->token_id = i;
        stepscope_record(trace, step);
    }
    return (double)(stepscope__clock_ns() - began) / 1e3 / STEPS;
}

static double write_round(int fd, const unsigned char *frame, size_t bytes)
{
    uint64_t began = stepscope__clock_ns();
    for (int i = 0; i < STEPS; i++)
        if (write(fd, frame, bytes) != (ssize_t)bytes)
            exit(1);
    return (double)(stepscope__clock_ns() - began) / 1e3 / STEPS;
}

/* The page cache should see the same small files in every round; a device has nothing to cut. */
static void start_over(int fd)
{
    struct stat status;
    if (fstat(fd, &status) || (S_ISREG(status.st_mode) && (ftruncate(fd, 0) || lseek(fd, 0, SEEK_SET))))
        exit(1);
}

int main(int argc, char **argv)
{
    static struct stepscope trace;
    static float ms[N_LAYERS];
    static int32_t rows[N_LAYERS];
    double recorded[ROUNDS], written[ROUNDS];
    struct stepscope_run run;
    struct stepscope_step step;
    if (argc != 3)
        return 2;
    stepscope_run_init(&run);
    run.n_layers = N_LAYERS, run.vocab_size = 151936, run.capacity = 1 << 20;
    run.fields = STEPSCOPE_T_NS | STEPSCOPE_TOTAL_MS | STEPSCOPE_FORWARD_MS | STEPSCOPE_SAMPLE_MS | STEPSCOPE_GEMM_MS |
                 STEPSCOPE_ATTN_MS | STEPSCOPE_LM_HEAD_MS | STEPSCOPE_WRITE_POS | STEPSCOPE_POS | STEPSCOPE_LOGIT |
                 STEPSCOPE_MARGIN | STEPSCOPE_RUNNER_UP | STEPSCOPE_HIDDEN_RMS | STEPSCOPE_TEXT;
    int fd = open(argv[2], O_WRONLY | O_CREAT | O_TRUNC, 0666);
    if (stepscope_open(&trace, argv[1], &run) || fd < 0)
        return 1;
    stepscope_step_init(&step);
    step.phase = STEPSCOPE_DECODE, step.seq_id = 0, step.n_tokens = 1, step.t_ns = 1;
    step.cache_len = rows, step.gemm_ms = step.attn_ms = step.hidden_rms = ms, step.text = " token", step.n_text = 6;
    size_t bytes = STEPSCOPE__HEADER_BYTES + (trace.record_bytes + 7u) / 8u * 8u;
    for (int round = 0; round < ROUNDS; round++) {
        recorded[round] = record_round(&trace, &step, rows);
        written[round] = write_round(fd, trace.step_frame, bytes);
        start_over(fd);
        start_over(trace.fd);
        trace.good_bytes = 0;
    }
    printf("%.3f %.3f %zu\n", median(recorded), median(written), bytes);
    return stepscope_close(&trace);
}
