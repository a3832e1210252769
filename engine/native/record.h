/* The engine's own recording: what `--trace FILE` writes, through stepscope.h. */
#ifndef RECORD_H
#define RECORD_H

#include "engine.h"
#include "stepscope.h"

struct recorder {
    struct stepscope trace;
    uint64_t step_began_ns;
    int is_source_noted;
};

/* What one step of the loop did. */
struct step {
    int phase; /* enum stepscope_phase */
    int n_tokens, seq_before;
    const struct pick *pick; /* NULL in a prefill */
    double sample_ms, forward_ms;
    enum finish finish;
};

/* Dies where the file cannot be written. `stops`: its max_new_tokens and ignore_eos are those of every request. */
void open_recorder(struct recorder *recorder, const char *path, const struct state *st, const struct request *stops);
/* Returns 0, or 1 with a line on stderr where the recording had failed. */
int close_recorder(struct recorder *recorder);

/* All take a NULL recorder, and then do nothing. */
void record_source(struct recorder *recorder, int line); /* where the loop stands, in generate.c; kept once */
void record_request(struct recorder *recorder, const struct request *request);
void record_step_begin(struct recorder *recorder);
void record_step(struct recorder *recorder, const struct state *st, const struct step *step);
void record_end(struct recorder *recorder, int seq_id, enum finish finish);

#endif
