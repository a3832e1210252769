/* stepscope.h - record the token loop of an inference engine as a step trace.
 *
 * One file, C99 or C++17, POSIX. In one source file, before any other include:
 *
 *     #define STEPSCOPE_IMPLEMENTATION
 *     #include "stepscope.h"
 *
 * and everywhere else just the include. Recording a loop:
 *
 *     struct stepscope trace;
 *     struct stepscope_run run;
 *     struct stepscope_step step;
 *     stepscope_run_init(&run);                          // everything unknown
 *     run.engine = "my-engine"; run.n_layers = n_layers; run.vocab_size = n_vocab; run.capacity = n_ctx;
 *     run.fields = STEPSCOPE_T_NS | STEPSCOPE_FORWARD_MS;
 *     stepscope_open(&trace, "run.steps", &run);
 *     stepscope_request(&trace, 0, NULL, prompt, n_prompt, 0, max_new_tokens);
 *     stepscope_step_init(&step);                        // everything absent
 *     step.phase = STEPSCOPE_DECODE; step.seq_id = 0; step.token_id = sampled;
 *     step.t_ns = began;                                 // stepscope_now_ns(&trace), taken when the step began
 *     step.n_tokens = 1; step.seq_before = n_past; step.seq_len = n_past + 1;
 *     step.cache_len = rows;                             // one int32_t a layer, as the cache itself counts them
 *     step.forward_ms = forward_ms; step.finish = STEPSCOPE_FINISH_LENGTH;
 *     stepscope_record(&trace, &step);                   // once a step, when it is over
 *     stepscope_release(&trace, 0, -1, -1);
 *     if (stepscope_close(&trace)) fprintf(stderr, "%s\n", stepscope_error(&trace));
 *
 * Then `stepscope check run.steps` judges it and `stepscope view --follow run.steps` shows it while it grows.
 *
 * What to expect of it:
 *   - One write(2) a frame, at once: a killed process loses at most the step that it was in.
 *   - Memory is allocated by stepscope_open only. A step costs well under a microsecond besides the write.
 *   - An error never stops the engine and prints nothing. It sticks: later calls do nothing, stepscope_failed() and
 *     stepscope_error() tell. What was written before stays a readable trace.
 *   - A file that exists and is not a step trace is refused; one that another process is recording into, too.
 *   - Not thread-safe: one thread records at a time.
 *   - Say only what you know. What is left absent makes the rules that need it say "unknown", never "pass".
 *
 * The file's format and the meaning of every field are in traces/FORMAT.md.
 */
#ifndef STEPSCOPE_H
#define STEPSCOPE_H

#ifdef STEPSCOPE_IMPLEMENTATION
#ifndef _DEFAULT_SOURCE
#define _DEFAULT_SOURCE 1 /* flock, ftruncate and clock_gettime under -std=c99 */
#endif
#endif

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define STEPSCOPE_HEADER_VERSION "0.1.0"

enum stepscope_phase { STEPSCOPE_PREFILL = 1, STEPSCOPE_DECODE = 2, STEPSCOPE_VERIFY = 3 };

/* why a sequence ended; in a step record, NONE where it goes on */
enum stepscope_finish {
    STEPSCOPE_FINISH_NONE = 0,
    STEPSCOPE_FINISH_EOS = 1,
    STEPSCOPE_FINISH_LENGTH = 2,
    STEPSCOPE_FINISH_STOP = 3,
    STEPSCOPE_FINISH_ABORT = 4,
    STEPSCOPE_FINISH_CAPACITY = 5,
    STEPSCOPE_FINISH_ERROR = 6
};

/* Optional fields of a record, for stepscope_run.fields. The eight required ones (phase, seq_id, token_id, n_tokens,
 * seq_before, seq_len, cache_len, finish) are always there. */
enum stepscope_field {
    STEPSCOPE_CACHE_BEFORE = 1 << 0,
    STEPSCOPE_T_NS = 1 << 1,
    STEPSCOPE_TOTAL_MS = 1 << 2,
    STEPSCOPE_FORWARD_MS = 1 << 3,
    STEPSCOPE_SAMPLE_MS = 1 << 4,
    STEPSCOPE_GEMM_MS = 1 << 5,
    STEPSCOPE_ATTN_MS = 1 << 6,
    STEPSCOPE_QKV_MS = 1 << 7,
    STEPSCOPE_O_MS = 1 << 8,
    STEPSCOPE_GATE_UP_MS = 1 << 9,
    STEPSCOPE_DOWN_MS = 1 << 10,
    STEPSCOPE_LM_HEAD_MS = 1 << 11,
    STEPSCOPE_N_DRAFTED = 1 << 12,
    STEPSCOPE_N_ACCEPTED = 1 << 13,
    STEPSCOPE_DRAFT_IDS = 1 << 14,
    STEPSCOPE_DRAFT_CACHE_LEN = 1 << 15,
    STEPSCOPE_WRITE_POS = 1 << 16,
    STEPSCOPE_POS = 1 << 17,
    STEPSCOPE_N_REUSED = 1 << 18,
    STEPSCOPE_LOGIT = 1 << 19,
    STEPSCOPE_MARGIN = 1 << 20,
    STEPSCOPE_RUNNER_UP = 1 << 21,
    STEPSCOPE_HIDDEN_RMS = 1 << 22,
    STEPSCOPE_TEXT = 1 << 23,
    STEPSCOPE_KV_USED = 1 << 24,
    STEPSCOPE_KV_FREE = 1 << 25,
    STEPSCOPE_FORWARD_ID = 1 << 26,
    STEPSCOPE_CACHE_LEN = 1 << 27 /* for stepscope_run.totals only: cache_len is always recorded */
};

/* What is running, and what is recorded. Fill what is known after stepscope_run_init; NULL and 0 mean unknown. Nothing
 * is kept after stepscope_open. */
struct stepscope_run {
    uint32_t fields; /* which optional fields: STEPSCOPE_T_NS | STEPSCOPE_MARGIN ... */
    uint32_t totals; /* which per-layer fields are one value for the whole model instead of one a layer */
    int n_drafts;    /* with STEPSCOPE_DRAFT_IDS: the most drafts of one step */

    const char *engine, *engine_version, *engine_flags, *engine_commit;
    const char *model; /* its name */
    int n_layers;      /* needed where any field is per layer */
    int n_heads, n_kv_heads, head_dim;
    int vocab_size; /* the model's, padding rows included */
    int capacity;   /* rows that a sequence's KV cache can hold */
    const char *kv_dtype, *sampler;
    const int32_t *eos; /* NULL: unknown; with n_eos 0, any pointer: there are none */
    int n_eos;
    int ignore_eos;
    int max_new_tokens; /* of every request; or say it with each request */
    int threads;

    const char *layers_json; /* a JSON array, one object a layer; NULL: every layer has a full KV cache */
    const char *more_json;   /* more members of the run, as they are: "\"draft\":{\"k\":4},\"loop\":\"cached\"" */
    size_t note_bytes;       /* the largest note (a prompt with its ids); 0: enough for a prompt of `capacity` ids */
};

/* One step. Fill what is known after stepscope_step_init. Pointers are read during stepscope_record only; those marked
 * "per layer" have n_layers values, or one where stepscope_run.totals says so. */
struct stepscope_step {
    uint8_t phase;
    uint8_t finish;
    int32_t seq_id;           /* the request, never a slot */
    int64_t token_id;         /* sampled at the start of this step and fed by it; absent in prefill */
    int32_t n_tokens;         /* fed into this step's forward; 0 where the sampled token was not fed */
    int32_t seq_before;       /* the sequence's length before the step */
    int32_t seq_len;          /* and after it */
    const int32_t *cache_len; /* per layer: rows after the step */

    const int32_t *cache_before; /* per layer: rows before the step */
    uint64_t t_ns;               /* when the step began: stepscope_now_ns */
    float total_ms, forward_ms, sample_ms;
    const float *gemm_ms, *attn_ms, *qkv_ms, *o_ms, *gate_up_ms, *down_ms; /* per layer */
    float lm_head_ms;
    int32_t n_drafted, n_accepted;
    const int64_t *draft_ids; /* n_drafted ids */
    int32_t draft_cache_len;
    int32_t write_pos; /* row of the first layer that the step's first token was written to */
    int32_t pos;       /* rotary position of the step's first token */
    int32_t n_reused;
    float logit, margin;
    int64_t runner_up;
    const float *hidden_rms; /* per layer: root mean square of the residual stream */
    const char *text;        /* the token's raw bytes, any number of them */
    int32_t n_text;
    int32_t kv_used, kv_free;
    int32_t forward_id;
};

enum stepscope_failure {
    STEPSCOPE_OK = 0,
    STEPSCOPE_BAD_RUN,     /* the run's description is not possible */
    STEPSCOPE_NO_MEMORY,   /* at open */
    STEPSCOPE_CANNOT_OPEN, /* see errno in the text */
    STEPSCOPE_BUSY,        /* another process is recording into this file */
    STEPSCOPE_NOT_A_TRACE, /* the file exists and is something else */
    STEPSCOPE_CANNOT_WRITE /* the disk is full, say; what was written before is readable */
};

#define STEPSCOPE__MAX_PARTS 48

/* How one field gets into the record. */
struct stepscope__part {
    uint16_t kind;
    uint16_t offset; /* of the member of stepscope_step */
    uint32_t count;  /* values */
    uint32_t bytes;  /* of all of them */
};

/* A trace being written. All members are private. */
struct stepscope {
    int fd, failure, n_layers, n_parts, n_drafts;
    uint32_t record_bytes;
    unsigned char *memory, *step_frame, *note_frame;
    size_t note_bytes;
    const uint32_t (*crc_table)[256];
    uint64_t good_bytes, steps, start_ns, cost_ns;
    int records_text;
    struct stepscope__part parts[STEPSCOPE__MAX_PARTS];
    char path[256], message[512];
};

void stepscope_run_init(struct stepscope_run *run);
/* Begins a trace: creates the file, or replaces a step trace that is there. Returns 0, or a stepscope_failure. */
int stepscope_open(struct stepscope *trace, const char *path, const struct stepscope_run *run);
/* Ends it. Returns 0, or the failure that stuck. A second call does nothing. */
int stepscope_close(struct stepscope *trace);

int stepscope_failed(const struct stepscope *trace);
const char *stepscope_error(const struct stepscope *trace); /* one line; "" where nothing failed */

uint64_t stepscope_now_ns(const struct stepscope *trace); /* since the trace began: the clock of t_ns */

void stepscope_step_init(struct stepscope_step *step);
void stepscope_record(struct stepscope *trace, const struct stepscope_step *step);

/* Notes stand before the step that follows them. A request begins a sequence; the ids and the text may be NULL. */
void stepscope_request(struct stepscope *trace, int seq_id, const char *prompt, const int32_t *prompt_ids,
                       int prompt_tokens, int n_reused, int max_new_tokens);
void stepscope_finish(struct stepscope *trace, int seq_id, int finish); /* it ended outside a step */
void stepscope_release(struct stepscope *trace, int seq_id, int kv_used, int kv_free); /* -1: not counted */
void stepscope_shift(struct stepscope *trace, int seq_id, int n_keep, int n_discard);
void stepscope_rollback(struct stepscope *trace, int seq_id, int n);
void stepscope_gap(struct stepscope *trace, int seq_id, const char *why); /* seq_id -1: all sequences */
void stepscope_absent(struct stepscope *trace, const char *field, const char *why);
void stepscope_source(struct stepscope *trace, const char *file, int line, const char *function);
void stepscope_message(struct stepscope *trace, const char *text);

#ifdef __cplusplus
}
#endif
#endif /* STEPSCOPE_H */

/* ------------------------------------------------------------------------------------------------------------------ */

#ifdef STEPSCOPE_IMPLEMENTATION
#undef STEPSCOPE_IMPLEMENTATION

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "stepscope.h writes records as they lie in memory: a little-endian machine is needed"
#endif
#ifndef CLOCK_MONOTONIC
#error "include stepscope.h before all other headers in the file that defines STEPSCOPE_IMPLEMENTATION"
#endif

#define STEPSCOPE__HEADER_BYTES 16
#define STEPSCOPE__TEXT_BYTES 16
#define STEPSCOPE__ABSENT_I64 INT64_MIN
#define STEPSCOPE__ABSENT_U64 UINT64_MAX

enum { STEPSCOPE__RUN = 1, STEPSCOPE__STEPS = 2, STEPSCOPE__NOTE = 3, STEPSCOPE__END = 4 };

/* what a part is: a value in the step itself, an array that it points to, or text */
enum { STEPSCOPE__VALUE, STEPSCOPE__I32S, STEPSCOPE__F32S, STEPSCOPE__DRAFTS, STEPSCOPE__TEXT16 };

struct stepscope__field {
    const char *name, *dtype;
    uint32_t bit; /* 0: required */
    int kind, value_bytes;
    size_t offset;
};

#define STEPSCOPE__FIELD(name, dtype, bit, kind, bytes) \
    { #name, dtype, bit, kind, bytes, offsetof(struct stepscope_step, name) }

static const struct stepscope__field stepscope__fields[] = {
    STEPSCOPE__FIELD(phase, "U8", 0, STEPSCOPE__VALUE, 1),
    STEPSCOPE__FIELD(seq_id, "I32", 0, STEPSCOPE__VALUE, 4),
    STEPSCOPE__FIELD(token_id, "I64", 0, STEPSCOPE__VALUE, 8),
    STEPSCOPE__FIELD(n_tokens, "I32", 0, STEPSCOPE__VALUE, 4),
    STEPSCOPE__FIELD(seq_before, "I32", 0, STEPSCOPE__VALUE, 4),
    STEPSCOPE__FIELD(seq_len, "I32", 0, STEPSCOPE__VALUE, 4),
    STEPSCOPE__FIELD(cache_len, "I32", 0, STEPSCOPE__I32S, 4),
    STEPSCOPE__FIELD(finish, "U8", 0, STEPSCOPE__VALUE, 1),
    STEPSCOPE__FIELD(cache_before, "I32", STEPSCOPE_CACHE_BEFORE, STEPSCOPE__I32S, 4),
    STEPSCOPE__FIELD(t_ns, "U64", STEPSCOPE_T_NS, STEPSCOPE__VALUE, 8),
    STEPSCOPE__FIELD(total_ms, "F32", STEPSCOPE_TOTAL_MS, STEPSCOPE__VALUE, 4),
    STEPSCOPE__FIELD(forward_ms, "F32", STEPSCOPE_FORWARD_MS, STEPSCOPE__VALUE, 4),
    STEPSCOPE__FIELD(sample_ms, "F32", STEPSCOPE_SAMPLE_MS, STEPSCOPE__VALUE, 4),
    STEPSCOPE__FIELD(gemm_ms, "F32", STEPSCOPE_GEMM_MS, STEPSCOPE__F32S, 4),
    STEPSCOPE__FIELD(attn_ms, "F32", STEPSCOPE_ATTN_MS, STEPSCOPE__F32S, 4),
    STEPSCOPE__FIELD(qkv_ms, "F32", STEPSCOPE_QKV_MS, STEPSCOPE__F32S, 4),
    STEPSCOPE__FIELD(o_ms, "F32", STEPSCOPE_O_MS, STEPSCOPE__F32S, 4),
    STEPSCOPE__FIELD(gate_up_ms, "F32", STEPSCOPE_GATE_UP_MS, STEPSCOPE__F32S, 4),
    STEPSCOPE__FIELD(down_ms, "F32", STEPSCOPE_DOWN_MS, STEPSCOPE__F32S, 4),
    STEPSCOPE__FIELD(lm_head_ms, "F32", STEPSCOPE_LM_HEAD_MS, STEPSCOPE__VALUE, 4),
    STEPSCOPE__FIELD(n_drafted, "I32", STEPSCOPE_N_DRAFTED, STEPSCOPE__VALUE, 4),
    STEPSCOPE__FIELD(n_accepted, "I32", STEPSCOPE_N_ACCEPTED, STEPSCOPE__VALUE, 4),
    STEPSCOPE__FIELD(draft_ids, "I64", STEPSCOPE_DRAFT_IDS, STEPSCOPE__DRAFTS, 8),
    STEPSCOPE__FIELD(draft_cache_len, "I32", STEPSCOPE_DRAFT_CACHE_LEN, STEPSCOPE__VALUE, 4),
    STEPSCOPE__FIELD(write_pos, "I32", STEPSCOPE_WRITE_POS, STEPSCOPE__VALUE, 4),
    STEPSCOPE__FIELD(pos, "I32", STEPSCOPE_POS, STEPSCOPE__VALUE, 4),
    STEPSCOPE__FIELD(n_reused, "I32", STEPSCOPE_N_REUSED, STEPSCOPE__VALUE, 4),
    STEPSCOPE__FIELD(logit, "F32", STEPSCOPE_LOGIT, STEPSCOPE__VALUE, 4),
    STEPSCOPE__FIELD(margin, "F32", STEPSCOPE_MARGIN, STEPSCOPE__VALUE, 4),
    STEPSCOPE__FIELD(runner_up, "I64", STEPSCOPE_RUNNER_UP, STEPSCOPE__VALUE, 8),
    STEPSCOPE__FIELD(hidden_rms, "F32", STEPSCOPE_HIDDEN_RMS, STEPSCOPE__F32S, 4),
    STEPSCOPE__FIELD(text, "U8", STEPSCOPE_TEXT, STEPSCOPE__TEXT16, 1),
    STEPSCOPE__FIELD(kv_used, "I32", STEPSCOPE_KV_USED, STEPSCOPE__VALUE, 4),
    STEPSCOPE__FIELD(kv_free, "I32", STEPSCOPE_KV_FREE, STEPSCOPE__VALUE, 4),
    STEPSCOPE__FIELD(forward_id, "I32", STEPSCOPE_FORWARD_ID, STEPSCOPE__VALUE, 4),
};

#define STEPSCOPE__N_FIELDS ((int)(sizeof stepscope__fields / sizeof stepscope__fields[0]))

/* -- failures ------------------------------------------------------------------------------------------------------ */

static int stepscope__fail(struct stepscope *trace, int failure, const char *what, const char *reason)
{
    trace->failure = failure;
    snprintf(trace->message, sizeof trace->message, "%s: %s%s%s", trace->path, what, *reason ? ": " : "", reason);
    return failure;
}

int stepscope_failed(const struct stepscope *trace)
{
    return trace->failure;
}

const char *stepscope_error(const struct stepscope *trace)
{
    return trace->message;
}

static int stepscope__is_off(const struct stepscope *trace)
{
    return trace->failure || !trace->memory;
}

/* -- clock --------------------------------------------------------------------------------------------------------- */

static uint64_t stepscope__clock_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

uint64_t stepscope_now_ns(const struct stepscope *trace)
{
    return stepscope__clock_ns() - trace->start_ns;
}

/* -- frames -------------------------------------------------------------------------------------------------------- */

/* Eight tables, so that eight bytes go through at once: a record's checksum then takes a fraction of a microsecond. */
static void stepscope__make_crc_table(uint32_t (*table)[256])
{
    uint32_t i, j;
    for (i = 0; i < 256; i++) {
        uint32_t crc = i;
        for (j = 0; j < 8; j++)
            crc = (crc >> 1) ^ (0xEDB88320u & (0u - (crc & 1u)));
        table[0][i] = crc;
    }
    for (i = 0; i < 256; i++)
        for (j = 1; j < 8; j++)
            table[j][i] = (table[j - 1][i] >> 8) ^ table[0][table[j - 1][i] & 255];
}

static uint32_t stepscope__crc(const uint32_t (*table)[256], uint32_t crc, const unsigned char *bytes, size_t n)
{
    crc = ~crc;
    for (; n >= 8; n -= 8, bytes += 8) {
        uint32_t low, high;
        memcpy(&low, bytes, 4);
        memcpy(&high, bytes + 4, 4);
        low ^= crc;
        crc = table[7][low & 255] ^ table[6][(low >> 8) & 255] ^ table[5][(low >> 16) & 255] ^ table[4][low >> 24] ^
              table[3][high & 255] ^ table[2][(high >> 8) & 255] ^ table[1][(high >> 16) & 255] ^ table[0][high >> 24];
    }
    for (; n; n--, bytes++)
        crc = (crc >> 8) ^ table[0][(crc ^ *bytes) & 255];
    return ~crc;
}

/* Everything that was written before stays readable: half a frame is cut off again. */
static void stepscope__write_failed(struct stepscope *trace, int error)
{
    char readable[96];
    int cut = ftruncate(trace->fd, (off_t)trace->good_bytes);
    if (cut == 0)
        lseek(trace->fd, (off_t)trace->good_bytes, SEEK_SET);
    snprintf(readable, sizeof readable, "%.40s; the %llu bytes before are a readable trace", strerror(error),
             (unsigned long long)trace->good_bytes);
    stepscope__fail(trace, STEPSCOPE_CANNOT_WRITE, "cannot write", readable);
}

static void stepscope__write_all(struct stepscope *trace, const unsigned char *bytes, size_t n)
{
    size_t done = 0;
    while (done < n) {
        ssize_t written = write(trace->fd, bytes + done, n - done);
        if (written > 0) {
            done += (size_t)written;
        } else if (written == 0 || errno != EINTR) {
            stepscope__write_failed(trace, written == 0 ? ENOSPC : errno);
            return;
        }
    }
    trace->good_bytes += n;
}

/* `frame` has room for the header before the payload and for the padding behind it. */
static void stepscope__write_frame(struct stepscope *trace, unsigned char *frame, int kind, size_t payload_bytes)
{
    unsigned char *payload = frame + STEPSCOPE__HEADER_BYTES;
    uint16_t kind_and_count[2] = {(uint16_t)kind, 1};
    uint32_t length, crc;
    for (; payload_bytes % 8; payload_bytes++)
        payload[payload_bytes] = kind == STEPSCOPE__STEPS ? 0 : ' ';
    length = (uint32_t)payload_bytes;
    memcpy(frame, "STEP", 4);
    memcpy(frame + 4, kind_and_count, 4);
    memcpy(frame + 8, &length, 4);
    crc = stepscope__crc(trace->crc_table, 0, frame + 4, 8);
    crc = stepscope__crc(trace->crc_table, crc, payload, payload_bytes);
    memcpy(frame + 12, &crc, 4);
    stepscope__write_all(trace, frame, STEPSCOPE__HEADER_BYTES + payload_bytes);
}

/* -- JSON ---------------------------------------------------------------------------------------------------------- */

/* Text in a buffer that does not grow; what does not fit sets `is_full`. */
struct stepscope__json {
    char *text;
    size_t used, size;
    int is_full;
};

static struct stepscope__json stepscope__json_in(struct stepscope *trace)
{
    struct stepscope__json json;
    json.text = (char *)trace->note_frame + STEPSCOPE__HEADER_BYTES;
    json.used = 0;
    json.size = trace->note_bytes;
    json.is_full = 0;
    return json;
}

static void stepscope__add(struct stepscope__json *json, const char *format, ...)
#if defined(__GNUC__)
    __attribute__((format(printf, 2, 3)))
#endif
    ;

/* Whole numbers and plain strings only: a decimal point would depend on the locale. */
static void stepscope__add(struct stepscope__json *json, const char *format, ...)
{
    size_t room = json->size - json->used;
    va_list values;
    int n;
    va_start(values, format);
    n = vsnprintf(json->text + json->used, room, format, values);
    va_end(values);
    if (n < 0 || (size_t)n >= room)
        json->is_full = 1;
    else
        json->used += (size_t)n;
}

/* Bytes of the UTF-8 character at `text`, 0 where it is not one: overlong forms, surrogates and half characters. */
static int stepscope__utf8(const unsigned char *text, size_t n)
{
    uint32_t c = text[0], least;
    int length, i;
    if (c < 0x80)
        return 1;
    if (c >= 0xC2 && c < 0xE0)
        length = 2, least = 0x80, c &= 0x1F;
    else if (c >= 0xE0 && c < 0xF0)
        length = 3, least = 0x800, c &= 0x0F;
    else if (c >= 0xF0 && c < 0xF5)
        length = 4, least = 0x10000, c &= 0x07;
    else
        return 0;
    if ((size_t)length > n)
        return 0;
    for (i = 1; i < length; i++) {
        if ((text[i] & 0xC0) != 0x80)
            return 0;
        c = (c << 6) | (text[i] & 0x3Fu);
    }
    return c < least || c > 0x10FFFF || (c >= 0xD800 && c < 0xE000) ? 0 : length;
}

/* A JSON string. Bytes that are not UTF-8 become lone surrogates, as Python's surrogateescape reads them. */
static void stepscope__add_string(struct stepscope__json *json, const char *text, size_t n)
{
    const unsigned char *bytes = (const unsigned char *)text;
    size_t i = 0;
    stepscope__add(json, "\"");
    while (i < n && !json->is_full) {
        int length = stepscope__utf8(bytes + i, n - i);
        if (length == 0)
            stepscope__add(json, "\\udc%02x", bytes[i++]);
        else if (length > 1)
            stepscope__add(json, "%.*s", length, text + i), i += (size_t)length;
        else if (bytes[i] == '"' || bytes[i] == '\\')
            stepscope__add(json, "\\%c", bytes[i++]);
        else if (bytes[i] < 0x20 || bytes[i] == 0x7F)
            stepscope__add(json, "\\u%04x", bytes[i++]);
        else
            stepscope__add(json, "%c", bytes[i++]);
    }
    stepscope__add(json, "\"");
}

static void stepscope__add_name(struct stepscope__json *json, const char *name)
{
    char last = json->used ? json->text[json->used - 1] : '{';
    stepscope__add(json, "%s\"%s\":", last == '{' || last == '[' ? "" : ",", name);
}

static void stepscope__member_text(struct stepscope__json *json, const char *name, const char *text)
{
    if (!text)
        return;
    stepscope__add_name(json, name);
    stepscope__add_string(json, text, strlen(text));
}

static void stepscope__member(struct stepscope__json *json, const char *name, long long value)
{
    stepscope__add_name(json, name);
    stepscope__add(json, "%lld", value);
}

static void stepscope__member_known(struct stepscope__json *json, const char *name, int value, int least)
{
    if (value >= least)
        stepscope__member(json, name, value);
}

static void stepscope__member_ids(struct stepscope__json *json, const char *name, const int32_t *ids, int n)
{
    int i;
    if (!ids || n < 0)
        return;
    stepscope__add_name(json, name);
    stepscope__add(json, "[");
    for (i = 0; i < n && !json->is_full; i++)
        stepscope__add(json, i ? ",%ld" : "%ld", (long)ids[i]);
    stepscope__add(json, "]");
}

static void stepscope__begin_object(struct stepscope__json *json, const char *name)
{
    stepscope__add_name(json, name);
    stepscope__add(json, "{");
}

/* -- the run ------------------------------------------------------------------------------------------------------- */

void stepscope_run_init(struct stepscope_run *run)
{
    memset(run, 0, sizeof *run);
}

static uint32_t stepscope__values_of(const struct stepscope__field *field, const struct stepscope_run *run)
{
    uint32_t bit = field->bit ? field->bit : (uint32_t)STEPSCOPE_CACHE_LEN;
    if (field->kind == STEPSCOPE__TEXT16)
        return STEPSCOPE__TEXT_BYTES;
    if (field->kind == STEPSCOPE__DRAFTS)
        return (uint32_t)run->n_drafts;
    return run->totals & bit ? 1 : (uint32_t)run->n_layers;
}

static int stepscope__is_recorded(const struct stepscope__field *field, const struct stepscope_run *run)
{
    return field->bit == 0 || (run->fields & field->bit);
}

/* Whether the declared field has a shape, or is one value. */
static int stepscope__is_array(const struct stepscope__field *field, const struct stepscope_run *run)
{
    uint32_t bit = field->bit ? field->bit : (uint32_t)STEPSCOPE_CACHE_LEN;
    if (field->kind == STEPSCOPE__I32S || field->kind == STEPSCOPE__F32S)
        return !(run->totals & bit);
    return field->kind != STEPSCOPE__VALUE;
}

/* Decides once how a step becomes a record. Returns 0 where the run is impossible. */
static int stepscope__plan(struct stepscope *trace, const struct stepscope_run *run)
{
    uint64_t total = 0;
    int i;
    for (i = 0; i < STEPSCOPE__N_FIELDS; i++) {
        const struct stepscope__field *field = &stepscope__fields[i];
        struct stepscope__part *part = &trace->parts[trace->n_parts];
        uint32_t count = field->kind == STEPSCOPE__VALUE ? 1 : stepscope__values_of(field, run);
        if (!stepscope__is_recorded(field, run))
            continue;
        if (count < 1 || count > 65535)
            return 0;
        part->kind = (uint16_t)field->kind;
        part->offset = (uint16_t)field->offset;
        part->count = count;
        part->bytes = count * (uint32_t)field->value_bytes;
        total += part->bytes;
        trace->n_parts++;
    }
    trace->records_text = (run->fields & STEPSCOPE_TEXT) != 0;
    trace->n_layers = run->n_layers;
    trace->record_bytes = (uint32_t)total;
    return total <= (1u << 20);
}

static void stepscope__add_fields(struct stepscope__json *json, const struct stepscope_run *run)
{
    int i, first = 1;
    stepscope__add_name(json, "fields");
    stepscope__add(json, "[");
    for (i = 0; i < STEPSCOPE__N_FIELDS; i++) {
        const struct stepscope__field *field = &stepscope__fields[i];
        if (!stepscope__is_recorded(field, run))
            continue;
        stepscope__add(json, "%s[\"%s\",\"%s\"", first ? "" : ",", field->name, field->dtype);
        if (stepscope__is_array(field, run))
            stepscope__add(json, ",[%lu]", (unsigned long)stepscope__values_of(field, run));
        stepscope__add(json, "]");
        first = 0;
    }
    stepscope__add(json, "]");
}

static void stepscope__add_layers(struct stepscope__json *json, const struct stepscope_run *run)
{
    int i;
    if (!run->layers_json && run->n_layers < 1)
        return;
    stepscope__add_name(json, "layers");
    if (run->layers_json) {
        stepscope__add(json, "%s", run->layers_json);
        return;
    }
    stepscope__add(json, "[");
    for (i = 0; i < run->n_layers; i++)
        stepscope__add(json, "%s{\"kind\":\"full\"}", i ? "," : "");
    stepscope__add(json, "]");
}

static void stepscope__add_engine(struct stepscope__json *json, const struct stepscope_run *run)
{
    stepscope__begin_object(json, "producer");
    stepscope__member_text(json, "name", "stepscope.h");
    stepscope__member_text(json, "version", STEPSCOPE_HEADER_VERSION);
    stepscope__add(json, "}");
    stepscope__begin_object(json, "engine");
    stepscope__member_text(json, "name", run->engine);
    stepscope__member_text(json, "version", run->engine_version);
    stepscope__member_text(json, "flags", run->engine_flags);
    stepscope__member_text(json, "commit", run->engine_commit);
    stepscope__add(json, "}");
}

static void stepscope__add_model(struct stepscope__json *json, const struct stepscope_run *run)
{
    stepscope__begin_object(json, "model");
    stepscope__member_text(json, "name", run->model);
    stepscope__member_known(json, "n_layers", run->n_layers, 1);
    stepscope__member_known(json, "n_heads", run->n_heads, 1);
    stepscope__member_known(json, "n_kv_heads", run->n_kv_heads, 1);
    stepscope__member_known(json, "head_dim", run->head_dim, 1);
    stepscope__member_known(json, "vocab_size", run->vocab_size, 1);
    stepscope__add(json, "}");
    stepscope__begin_object(json, "kv");
    stepscope__member_known(json, "capacity", run->capacity, 1);
    stepscope__member_text(json, "dtype", run->kv_dtype);
    stepscope__add(json, "}");
}

static void stepscope__add_settings(struct stepscope__json *json, const struct stepscope_run *run)
{
    if (run->sampler) {
        stepscope__begin_object(json, "sampler");
        stepscope__member_text(json, "kind", run->sampler);
        stepscope__add(json, "}");
    }
    stepscope__begin_object(json, "stop");
    stepscope__member_ids(json, "eos", run->eos, run->n_eos);
    stepscope__member_known(json, "max_new_tokens", run->max_new_tokens, 1);
    stepscope__add_name(json, "ignore_eos");
    stepscope__add(json, run->ignore_eos ? "true" : "false");
    stepscope__add(json, "}");
}

static void stepscope__add_host(struct stepscope__json *json, const struct stepscope_run *run)
{
    struct utsname machine;
    struct timespec resolution;
    char started_at[32];
    time_t now = time(NULL);
    struct tm utc;
    stepscope__begin_object(json, "host");
    if (uname(&machine) == 0)
        stepscope__member_text(json, "machine", machine.machine);
    stepscope__member_known(json, "threads", run->threads, 1);
    stepscope__add(json, "}");
    stepscope__member_text(json, "clock", "monotonic");
    if (clock_getres(CLOCK_MONOTONIC, &resolution) == 0) {
        stepscope__add_name(json, "resolution_ms");
        stepscope__add(json, "%lde-6", (long)resolution.tv_nsec);
    }
    if (gmtime_r(&now, &utc) && strftime(started_at, sizeof started_at, "%Y-%m-%dT%H:%M:%S+00:00", &utc))
        stepscope__member_text(json, "started_at", started_at);
}

/* The RUN object into the note's frame; its length goes to `bytes`. */
static int stepscope__describe(struct stepscope *trace, const struct stepscope_run *run, size_t *bytes)
{
    struct stepscope__json json = stepscope__json_in(trace);
    stepscope__add(&json, "{\"format\":\"stepscope\",\"version\":1");
    stepscope__add_engine(&json, run);
    stepscope__add_model(&json, run);
    stepscope__add_layers(&json, run);
    stepscope__add_settings(&json, run);
    stepscope__add_host(&json, run);
    if (run->more_json)
        stepscope__add(&json, ",%s", run->more_json);
    stepscope__add_fields(&json, run);
    stepscope__add(&json, "}");
    if (json.is_full)
        return stepscope__fail(trace, STEPSCOPE_BAD_RUN, "the run's description is too long", "raise note_bytes");
    *bytes = json.used;
    return 0;
}

/* -- opening and closing ------------------------------------------------------------------------------------------- */

/* One block: the CRC tables, the frame of a step, the frame of a note. */
static int stepscope__allocate(struct stepscope *trace, const struct stepscope_run *run)
{
    size_t tables = 8 * 256 * sizeof(uint32_t);
    size_t step_frame = STEPSCOPE__HEADER_BYTES + (size_t)trace->record_bytes + 8;
    size_t ids = run->capacity > 0 ? (size_t)run->capacity : 0;
    if (ids > 1 << 20)
        ids = 1 << 20;
    step_frame += (8 - step_frame % 8) % 8;
    trace->note_bytes = run->note_bytes ? run->note_bytes : (64u << 10) + 32u * (size_t)run->n_layers + 12u * ids;
    trace->memory = (unsigned char *)malloc(tables + step_frame + STEPSCOPE__HEADER_BYTES + trace->note_bytes + 8);
    if (!trace->memory)
        return stepscope__fail(trace, STEPSCOPE_NO_MEMORY, "no memory to record a trace", "");
    stepscope__make_crc_table((uint32_t(*)[256])(void *)trace->memory);
    trace->crc_table = (const uint32_t(*)[256])(const void *)trace->memory;
    trace->step_frame = trace->memory + tables;
    trace->note_frame = trace->step_frame + step_frame;
    return 0;
}

/* A regular file is ours alone, and either empty or a step trace, before a byte of it is touched. */
static int stepscope__claim(struct stepscope *trace)
{
    char start[4];
    ssize_t n;
    if (flock(trace->fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
        return stepscope__fail(trace, STEPSCOPE_BUSY, "another process is writing this trace", "choose another name");
    n = pread(trace->fd, start, sizeof start, 0);
    if (n != 0 && (n != (ssize_t)sizeof start || memcmp(start, "STEP", sizeof start) != 0))
        return stepscope__fail(trace, STEPSCOPE_NOT_A_TRACE, "exists and is not a step trace",
                               "choose another name or remove it");
    if (ftruncate(trace->fd, 0) != 0)
        return stepscope__fail(trace, STEPSCOPE_CANNOT_OPEN, "cannot write a trace here", strerror(errno));
    return 0;
}

static int stepscope__open_file(struct stepscope *trace, const char *path)
{
    struct stat status;
    trace->fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (trace->fd < 0 || fstat(trace->fd, &status) != 0)
        return stepscope__fail(trace, STEPSCOPE_CANNOT_OPEN, "cannot write a trace here", strerror(errno));
    return S_ISREG(status.st_mode) ? stepscope__claim(trace) : 0;
}

static void stepscope__let_go(struct stepscope *trace)
{
    if (trace->fd >= 0)
        close(trace->fd);
    free(trace->memory);
    trace->fd = -1;
    trace->memory = NULL;
}

int stepscope_open(struct stepscope *trace, const char *path, const struct stepscope_run *run)
{
    size_t bytes = 0;
    memset(trace, 0, sizeof *trace);
    trace->fd = -1;
    trace->start_ns = stepscope__clock_ns();
    snprintf(trace->path, sizeof trace->path, "%s", path ? path : "(no path)");
    if (!path || !run)
        return stepscope__fail(trace, STEPSCOPE_BAD_RUN, "the run cannot be recorded", "a path and a run are needed");
    if (run->n_layers < 0 || !stepscope__plan(trace, run))
        return stepscope__fail(trace, STEPSCOPE_BAD_RUN, "the run cannot be recorded",
                               "n_layers and n_drafts are from 1 to 65535, a record is at most 1 MiB");
    /* the file that is there is touched last, so that a run that cannot be recorded does not cost it */
    if (!stepscope__allocate(trace, run) && !stepscope__describe(trace, run, &bytes) &&
        !stepscope__open_file(trace, path))
        stepscope__write_frame(trace, trace->note_frame, STEPSCOPE__RUN, bytes);
    if (trace->failure)
        stepscope__let_go(trace);
    return trace->failure;
}

int stepscope_close(struct stepscope *trace)
{
    if (!stepscope__is_off(trace)) {
        struct stepscope__json json = stepscope__json_in(trace);
        unsigned long long cost_us = trace->cost_ns / 1000;
        stepscope__add(&json, "{\"steps\":%llu,\"tracing_ms\":%llu.%03llu}", (unsigned long long)trace->steps,
                       cost_us / 1000, cost_us % 1000);
        stepscope__write_frame(trace, trace->note_frame, STEPSCOPE__END, json.used);
    }
    if (trace->memory)
        stepscope__let_go(trace);
    return trace->failure;
}

/* -- steps --------------------------------------------------------------------------------------------------------- */

static float stepscope__nan(void)
{
    uint32_t bits = 0x7FC00000u;
    float nan_value;
    memcpy(&nan_value, &bits, sizeof nan_value);
    return nan_value;
}

void stepscope_step_init(struct stepscope_step *step)
{
    float absent = stepscope__nan();
    memset(step, 0, sizeof *step);
    step->seq_id = step->n_tokens = step->seq_before = step->seq_len = -1;
    step->token_id = step->runner_up = STEPSCOPE__ABSENT_I64;
    step->t_ns = STEPSCOPE__ABSENT_U64;
    step->total_ms = step->forward_ms = step->sample_ms = step->lm_head_ms = step->logit = step->margin = absent;
    step->n_drafted = step->n_accepted = step->draft_cache_len = step->write_pos = step->pos = step->n_reused = -1;
    step->kv_used = step->kv_free = step->forward_id = -1;
}

static void stepscope__fill(unsigned char *out, const void *value, size_t value_bytes, uint32_t count)
{
    uint32_t i;
    for (i = 0; i < count; i++, out += value_bytes)
        memcpy(out, value, value_bytes);
}

static void stepscope__pack_absent(unsigned char *out, const struct stepscope__part *part)
{
    int32_t no_count = -1;
    int64_t no_id = STEPSCOPE__ABSENT_I64;
    float no_time = stepscope__nan();
    if (part->kind == STEPSCOPE__I32S)
        stepscope__fill(out, &no_count, 4, part->count);
    else if (part->kind == STEPSCOPE__F32S)
        stepscope__fill(out, &no_time, 4, part->count);
    else if (part->kind == STEPSCOPE__DRAFTS)
        stepscope__fill(out, &no_id, 8, part->count);
    else
        memset(out, 0, part->bytes);
}

static void stepscope__pack_array(unsigned char *out, const struct stepscope__part *part,
                                  const struct stepscope_step *step)
{
    const void *values;
    uint32_t bytes = part->bytes, given = bytes;
    memcpy(&values, (const unsigned char *)step + part->offset, sizeof values);
    if (part->kind == STEPSCOPE__DRAFTS)
        given = step->n_drafted > 0 ? 8u * (uint32_t)step->n_drafted : 0;
    else if (part->kind == STEPSCOPE__TEXT16)
        given = step->n_text > 0 ? (uint32_t)step->n_text : 0;
    if (!values)
        given = 0;
    if (given < bytes)
        stepscope__pack_absent(out, part);
    if (given)
        memcpy(out, values, given < bytes ? given : bytes);
}

/* Sixteen bytes hold nearly every token; a longer one, or one that ends in a zero byte, stands whole in a note. */
static void stepscope__note_long_text(struct stepscope *trace, const struct stepscope_step *step)
{
    struct stepscope__json json = stepscope__json_in(trace);
    stepscope__add(&json, "{\"kind\":\"text\",\"step\":%llu", (unsigned long long)trace->steps);
    stepscope__add_name(&json, "text");
    stepscope__add_string(&json, step->text, (size_t)step->n_text);
    stepscope__add(&json, "}");
    if (!json.is_full)
        stepscope__write_frame(trace, trace->note_frame, STEPSCOPE__NOTE, json.used);
}

void stepscope_record(struct stepscope *trace, const struct stepscope_step *step)
{
    uint64_t began;
    unsigned char *out;
    int i;
    if (!step || stepscope__is_off(trace))
        return;
    began = stepscope__clock_ns();
    if (trace->records_text && step->text && step->n_text > 0 &&
        (step->n_text > STEPSCOPE__TEXT_BYTES || step->text[step->n_text - 1] == '\0'))
        stepscope__note_long_text(trace, step);
    out = trace->step_frame + STEPSCOPE__HEADER_BYTES;
    for (i = 0; i < trace->n_parts; i++) {
        const struct stepscope__part *part = &trace->parts[i];
        const unsigned char *member = (const unsigned char *)step + part->offset;
        if (part->kind != STEPSCOPE__VALUE)
            stepscope__pack_array(out, part, step);
        else if (part->bytes == 4)
            memcpy(out, member, 4);
        else if (part->bytes == 8)
            memcpy(out, member, 8);
        else
            *out = *member;
        out += part->bytes;
    }
    if (!trace->failure)
        stepscope__write_frame(trace, trace->step_frame, STEPSCOPE__STEPS, trace->record_bytes);
    trace->steps++;
    trace->cost_ns += stepscope__clock_ns() - began;
}

/* -- notes --------------------------------------------------------------------------------------------------------- */

static struct stepscope__json stepscope__begin_note(struct stepscope *trace, const char *kind, int seq_id)
{
    struct stepscope__json json = stepscope__json_in(trace);
    stepscope__add(&json, "{\"kind\":\"%s\"", kind);
    stepscope__member_known(&json, "seq_id", seq_id, 0);
    return json;
}

/* Returns whether it fitted. */
static int stepscope__end_note(struct stepscope *trace, struct stepscope__json *json)
{
    stepscope__add(json, "}");
    if (!json->is_full)
        stepscope__write_frame(trace, trace->note_frame, STEPSCOPE__NOTE, json->used);
    return !json->is_full;
}

static int stepscope__try_request(struct stepscope *trace, int seq_id, const char *prompt, const int32_t *prompt_ids,
                                  int prompt_tokens, int n_reused, int max_new_tokens)
{
    struct stepscope__json json = stepscope__begin_note(trace, "request", seq_id);
    stepscope__member(&json, "t_ns", (long long)stepscope_now_ns(trace));
    stepscope__member_known(&json, "prompt_tokens", prompt_tokens, 0);
    stepscope__member_known(&json, "n_reused", n_reused, 0);
    stepscope__member_known(&json, "max_new_tokens", max_new_tokens, 0);
    stepscope__member_text(&json, "prompt", prompt);
    stepscope__member_ids(&json, "prompt_ids", prompt_ids, prompt_tokens);
    return stepscope__end_note(trace, &json);
}

void stepscope_request(struct stepscope *trace, int seq_id, const char *prompt, const int32_t *prompt_ids,
                       int prompt_tokens, int n_reused, int max_new_tokens)
{
    if (stepscope__is_off(trace))
        return;
    /* a prompt that does not fit is left out: the rules need only its length */
    if (!stepscope__try_request(trace, seq_id, prompt, prompt_ids, prompt_tokens, n_reused, max_new_tokens))
        stepscope__try_request(trace, seq_id, NULL, NULL, prompt_tokens, n_reused, max_new_tokens);
}

void stepscope_finish(struct stepscope *trace, int seq_id, int finish)
{
    static const char *const names[] = {"none", "eos", "length", "stop", "abort", "capacity", "error"};
    struct stepscope__json json;
    if (stepscope__is_off(trace) || finish < 0 || finish > STEPSCOPE_FINISH_ERROR)
        return;
    json = stepscope__begin_note(trace, "finish", seq_id);
    stepscope__member_text(&json, "finish", names[finish]);
    stepscope__end_note(trace, &json);
}

/* A note with two counts; either is left out where its name is NULL or it is negative. */
static void stepscope__count_note(struct stepscope *trace, const char *kind, int seq_id, const char *first_name,
                                  int first, const char *second_name, int second)
{
    struct stepscope__json json;
    if (stepscope__is_off(trace))
        return;
    json = stepscope__begin_note(trace, kind, seq_id);
    stepscope__member_known(&json, first_name, first, 0);
    if (second_name)
        stepscope__member_known(&json, second_name, second, 0);
    stepscope__end_note(trace, &json);
}

void stepscope_release(struct stepscope *trace, int seq_id, int kv_used, int kv_free)
{
    stepscope__count_note(trace, "release", seq_id, "kv_used", kv_used, "kv_free", kv_free);
}

void stepscope_shift(struct stepscope *trace, int seq_id, int n_keep, int n_discard)
{
    stepscope__count_note(trace, "shift", seq_id, "n_keep", n_keep, "n_discard", n_discard);
}

void stepscope_rollback(struct stepscope *trace, int seq_id, int n)
{
    stepscope__count_note(trace, "rollback", seq_id, "n", n, NULL, -1);
}

/* A note with two strings. */
static void stepscope__text_note(struct stepscope *trace, const char *kind, int seq_id, const char *first_name,
                                 const char *first, const char *second_name, const char *second)
{
    struct stepscope__json json;
    if (stepscope__is_off(trace))
        return;
    json = stepscope__begin_note(trace, kind, seq_id);
    stepscope__member_text(&json, first_name, first);
    if (second_name)
        stepscope__member_text(&json, second_name, second);
    stepscope__end_note(trace, &json);
}

void stepscope_gap(struct stepscope *trace, int seq_id, const char *why)
{
    stepscope__text_note(trace, "gap", seq_id, "why", why, NULL, NULL);
}

void stepscope_absent(struct stepscope *trace, const char *field, const char *why)
{
    stepscope__text_note(trace, "absent", -1, "field", field, "why", why);
}

void stepscope_message(struct stepscope *trace, const char *text)
{
    stepscope__text_note(trace, "message", -1, "text", text, NULL, NULL);
}

void stepscope_source(struct stepscope *trace, const char *file, int line, const char *function)
{
    struct stepscope__json json;
    if (stepscope__is_off(trace))
        return;
    json = stepscope__begin_note(trace, "source", -1);
    stepscope__member_text(&json, "file", file);
    stepscope__member(&json, "line", line);
    stepscope__member_text(&json, "function", function);
    stepscope__end_note(trace, &json);
}

#endif /* STEPSCOPE_IMPLEMENTATION */
