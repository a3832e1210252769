/* Faults to plant on purpose: `make FAULT=skip_increment`. README.md says what each does and which rule sees it.
 *
 * They are here to try the rules, the debugger scripts and one's own eyes on. Without FAULT the compiler removes every
 * trace of them. A fault happens at a fixed step and never touches memory that is not the engine's.
 */
#ifndef FAULT_H
#define FAULT_H

#include "engine.h"

enum {
    FAULT_NONE,
    FAULT_SKIP_INCREMENT,
    FAULT_DOUBLE_INCREMENT,
    FAULT_STALE_SEQ_LEN,
    FAULT_PARTIAL_RESET,
    FAULT_PAST_CAPACITY,
    FAULT_WRONG_POSITION,
    FAULT_SLOW_LAYER,
    FAULT_WRONG_SCALE,
    FAULT_OVERWRITE_ROW,
    FAULT_ONE_TOO_MANY
};

#ifndef FAULT
#define FAULT FAULT_NONE
#endif

enum { FAULT_STEP = 3, FAULT_LAYER = 1 };

/* Once: in step 3 of the first request. */
static inline int fault_now(int fault, const struct state *st)
{
    return FAULT == fault && st->seq_id == 0 && st->step == FAULT_STEP;
}

/* From step 3 of every request on. */
static inline int fault_since(int fault, const struct state *st)
{
    return FAULT == fault && st->step >= FAULT_STEP;
}

/* Rows that the cache really has: what a fault writes behind the capacity lands in spare rows. */
static inline size_t rows_with_spare(int capacity)
{
    return FAULT == FAULT_NONE ? (size_t)capacity : 2 * (size_t)capacity + 1;
}

#endif
