/* The command line: a model, prompts as token ids, and where to record. */

#include "record.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char USAGE[] =
    "usage: engine MODEL (--ids 1,2,3 | --ids-file FILE)... [options]\n"
    "\n"
    "Greedy decoding of a Qwen2, Qwen3 or Llama model folder (safetensors). Each --ids or --ids-file is one request;\n"
    "they run one after the other in one process, and the ids generated are printed one request a line.\n"
    "\n"
    "  --ids IDS             a prompt, as token ids between commas or spaces\n"
    "  --ids-file FILE       the same, from a file\n"
    "  --max-new-tokens N    sampled tokens a request, at most (256)\n"
    "  --ignore-eos          go on after an end token\n"
    "  --capacity N          rows of the KV cache (the model's context length)\n"
    "  --trace FILE          record every step: stepscope view, show and check read it\n"
    "\n"
    "exit codes: 0 done, 1 interrupted or the recording failed, 2 usage or unreadable input\n";

enum { MAX_REQUESTS = 256 };

struct options {
    const char *model, *trace;
    int max_new_tokens, ignore_eos, capacity;
    int n_requests;
    struct request requests[MAX_REQUESTS];
};

/* What a message quotes from a file may hold line ends and escapes: it stays one line all the same. */
static void make_one_line(char *text)
{
    char *out = text;
    for (; *text; text++) {
        unsigned char byte = (unsigned char)*text;
        if (byte > ' ' && byte != 0x7F)
            *out++ = *text;
        else if (out[-1] != ' ')
            *out++ = ' ';
    }
    *out = '\0';
}

_Noreturn void die(const char *format, ...)
{
    char message[MAX_PATH + 1024] = "engine: ";
    size_t used = strlen(message);
    va_list values;
    va_start(values, format);
    vsnprintf(message + used, sizeof message - used, format, values);
    va_end(values);
    make_one_line(message + used);
    fprintf(stderr, "%s\n", message);
    exit(2);
}

static const char *skip_separators(const char *text)
{
    while (*text == ',' || isspace((unsigned char)*text))
        text++;
    return text;
}

/* Ids between commas or spaces. `where` names the source in an error. */
static int32_t *parse_ids(const char *text, const char *where, int *n)
{
    int32_t *ids = malloc((strlen(text) / 2 + 1) * sizeof *ids); /* an id takes a digit and a separator */
    if (!ids)
        die("%s: no memory for the ids", where);
    *n = 0;
    for (text = skip_separators(text); *text; text = skip_separators(text)) {
        char *end;
        errno = 0;
        long id = strtol(text, &end, 10);
        if (end == text || (*end && *end != ',' && !isspace((unsigned char)*end)))
            die("%s: '%.20s' is not a token id; ids are whole numbers between commas", where, text);
        if (errno || id < INT32_MIN || id > INT32_MAX)
            die("%s: '%.20s' is too large for a token id", where, text);
        ids[(*n)++] = (int32_t)id;
        text = end;
    }
    if (*n == 0)
        die("%s: the prompt is empty; give at least one token id", where);
    return ids;
}

static void add_request(struct options *options, const char *text, const char *where)
{
    if (options->n_requests == MAX_REQUESTS)
        die("more than %d requests", MAX_REQUESTS);
    struct request *request = &options->requests[options->n_requests];
    request->prompt = parse_ids(text, where, &request->n_prompt);
    request->seq_id = options->n_requests++;
}

static void add_request_file(struct options *options, const char *path)
{
    size_t size;
    char *text = read_file(path, &size);
    if (strlen(text) != size)
        die("%s: is not a text of token ids", path);
    add_request(options, text, path);
    free(text);
}

static int parse_count(const char *option, const char *text, int least)
{
    char *end;
    errno = 0;
    long n = strtol(text, &end, 10);
    if (end == text || *end || errno || n < least || n > INT_MAX)
        die("%s is '%s'; it is a whole number, %d or more", option, text, least);
    return (int)n;
}

/* Takes one option with its value; returns how many words that were. */
static int parse_option(struct options *options, char **words)
{
    const char *option = words[0], *value = words[1];
    if (strcmp(option, "--ignore-eos") == 0)
        return options->ignore_eos = 1;
    if (strncmp(option, "--", 2) != 0) {
        if (options->model)
            die("'%s': one model folder is enough; see --help", option);
        options->model = option;
        return 1;
    }
    static const char *const known[] = {"--ids", "--ids-file", "--max-new-tokens", "--capacity", "--trace"};
    int which = 0;
    while (which < 5 && strcmp(option, known[which]) != 0)
        which++;
    if (which == 5)
        die("%s: no such option; see --help", option);
    if (!value)
        die("%s needs a value; see --help", option);
    switch (which) {
    case 0:
        add_request(options, value, "--ids");
        break;
    case 1:
        add_request_file(options, value);
        break;
    case 2:
        options->max_new_tokens = parse_count(option, value, 0);
        break;
    case 3:
        options->capacity = parse_count(option, value, 1);
        break;
    default:
        options->trace = value;
    }
    return 2;
}

static void parse_options(struct options *options, char **words)
{
    options->max_new_tokens = 256;
    while (*words) {
        if (strcmp(*words, "--help") == 0 || strcmp(*words, "-h") == 0) {
            fputs(USAGE, stdout);
            exit(0);
        }
        words += parse_option(options, words);
    }
    if (!options->model)
        die("a model folder is needed; see --help");
    if (options->n_requests == 0)
        die("a prompt is needed: --ids or --ids-file; see --help");
}

/* Before anything is generated, so that a request that cannot run does not cost those before it. */
static void check_requests(struct options *options, const struct config *cfg)
{
    if (options->capacity > cfg->context_length)
        die("--capacity is %d; the model's context is %d tokens", options->capacity, cfg->context_length);
    if (!options->capacity)
        options->capacity = cfg->context_length;
    for (int i = 0; i < options->n_requests; i++) {
        struct request *request = &options->requests[i];
        request->max_new_tokens = options->max_new_tokens;
        request->ignore_eos = options->ignore_eos;
        if (request->n_prompt > options->capacity)
            die("prompt %d has %d tokens, the KV cache holds %d; shorten the prompt", i, request->n_prompt,
                options->capacity);
        for (int t = 0; t < request->n_prompt; t++)
            if (request->prompt[t] < 0 || request->prompt[t] >= cfg->vocab_size)
                die("prompt %d: token id %d is outside the model's vocabulary of %d", i, (int)request->prompt[t],
                    cfg->vocab_size);
    }
}

static int run(struct options *options, struct state *st)
{
    struct recorder recorder;
    int failed = 0;
    if (options->trace) {
        open_recorder(&recorder, options->trace, st, &options->requests[0]);
        st->is_timed = 1;
    }
    for (int i = 0; i < options->n_requests && !failed; i++)
        failed = generate(st, &options->requests[i], options->trace ? &recorder : NULL);
    if (options->trace)
        failed |= close_recorder(&recorder);
    return failed;
}

int main(int argc, char **argv)
{
    static struct options options;
    static struct state st;
    (void)argc;
    parse_options(&options, argv + 1);
    read_config(options.model, &st.cfg);
    check_requests(&options, &st.cfg);
    load_weights(options.model, &st.cfg, &st.weights);
    new_state(&st, options.capacity);
    int failed = run(&options, &st);
    free_state(&st);
    free_weights(&st.weights, st.cfg.n_layers);
    for (int i = 0; i < options.n_requests; i++)
        free((void *)options.requests[i].prompt);
    return failed;
}
