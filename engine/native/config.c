/* config.json and generation_config.json. What the engine would compute wrongly is refused here, by name. */

#include "engine.h"
#include "json.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { MAX_JSON_BYTES = 64 << 20 };

/* -- files --------------------------------------------------------------------------------------------------------- */

void join_path(char *out, const char *folder, const char *name)
{
    if (snprintf(out, MAX_PATH, "%s/%s", folder, name) >= MAX_PATH)
        die("%.200s...: the path is too long", folder);
}

int file_exists(const char *path)
{
    struct stat status;
    return stat(path, &status) == 0;
}

char *read_file(const char *path, size_t *size)
{
    FILE *file = fopen(path, "rb");
    struct stat status;
    if (!file || fstat(fileno(file), &status) != 0)
        die("%s: cannot read: %s", path, strerror(errno));
    if (!S_ISREG(status.st_mode))
        die("%s: is not a file", path);
    if (status.st_size > MAX_JSON_BYTES)
        die("%s: %lld bytes are too many for this file", path, (long long)status.st_size);
    char *text = malloc((size_t)status.st_size + 1);
    if (!text)
        die("%s: no memory for %lld bytes", path, (long long)status.st_size);
    *size = fread(text, 1, (size_t)status.st_size, file);
    text[*size] = '\0';
    fclose(file);
    return text;
}

/* -- one JSON file, its entries read by type ----------------------------------------------------------------------- */

struct entries {
    const char *path;
    char *text;
    struct json object;
};

static int line_of(const char *text, size_t at)
{
    int line = 1;
    for (size_t i = 0; i < at; i++)
        line += text[i] == '\n';
    return line;
}

static struct entries open_entries(const char *path)
{
    struct entries e = {.path = path};
    size_t size, bad_at;
    const char *why;
    e.text = read_file(path, &size);
    if (!json_parse(e.text, size, &e.object, &bad_at, &why))
        die("%s: bad JSON at line %d: %s; download it again", path, line_of(e.text, bad_at), why);
    if (!json_is(e.object, '{'))
        die("%s: holds something else than a JSON object; download it again", path);
    return e;
}

static _Noreturn void bad_entry(const struct entries *e, const char *name, struct json value, const char *expected)
{
    int shown = value.length > 60 ? 60 : (int)value.length;
    if (!value.text)
        die("%s: %s is missing; download the file again", e->path, name);
    die("%s: %s is %.*s; it is %s", e->path, name, shown, value.text, expected);
}

/* `absent` stands for a missing entry; 0: it may not be missing. */
static int count_of(const struct entries *e, struct json object, const char *name, int absent)
{
    struct json value = json_get(object, name);
    long long number;
    if (!value.text && absent)
        return absent;
    if (!json_whole(value, &number) || number < 1 || number > INT_MAX)
        bad_entry(e, name, value, "a whole number above zero");
    return (int)number;
}

static float number_of(const struct entries *e, struct json object, const char *name, double absent)
{
    struct json value = json_get(object, name);
    double number;
    if (!value.text && absent > 0)
        return (float)absent;
    if (!json_number(value, &number) || !(number > 0))
        bad_entry(e, name, value, "a number above zero");
    return (float)number;
}

static int flag_of(const struct entries *e, const char *name)
{
    struct json value = json_get(e->object, name);
    if (!value.text || json_is(value, 'f'))
        return 0;
    if (!json_is(value, 't'))
        bad_entry(e, name, value, "true or false");
    return 1;
}

/* -- what is refused ----------------------------------------------------------------------------------------------- */

static void must_be(const struct entries *e, const char *name, const char *only)
{
    struct json value = json_get(e->object, name);
    if (value.text && !json_equals(value, only))
        bad_entry(e, name, value, only);
}

static void refuse_unsupported(const struct entries *e)
{
    if (json_get(e->object, "quantization_config").text)
        die("%s: quantised weights are not supported; use float32, float16 or bfloat16 weights", e->path);
    must_be(e, "hidden_act", "silu");
    if (flag_of(e, "use_sliding_window") && json_get(e->object, "sliding_window").text &&
        !json_get(e->object, "layer_types").text)
        die("%s: sliding windows are not supported, only full attention", e->path);
    struct json kinds = json_get(e->object, "layer_types"), kind;
    int layer = 0;
    for (size_t at = 0; json_next_item(kinds, &at, &kind); layer++)
        if (!json_equals(kind, "full_attention"))
            die("%s: layer %d is %.*s; only full_attention is supported", e->path, layer,
                (int)(kind.length > 60 ? 60 : kind.length), kind.text);
}

/* -- the shape ----------------------------------------------------------------------------------------------------- */

static void read_architecture(const struct entries *e, struct config *config)
{
    struct json named = json_get(e->object, "architectures"), first = {NULL, 0};
    size_t at = 0;
    json_next_item(named, &at, &first);
    int has_bias = flag_of(e, "attention_bias");
    if (json_equals(first, "Qwen2ForCausalLM")) {
        config->qkv_bias = 1;
    } else if (json_equals(first, "Qwen3ForCausalLM")) {
        config->qk_norm = 1;
        config->qkv_bias = config->o_bias = has_bias;
    } else if (json_equals(first, "LlamaForCausalLM")) {
        config->qkv_bias = config->o_bias = has_bias;
        config->mlp_bias = flag_of(e, "mlp_bias");
    } else {
        bad_entry(e, "architectures", named, "one of LlamaForCausalLM, Qwen2ForCausalLM, Qwen3ForCausalLM");
    }
}

static void read_heads(const struct entries *e, struct config *config)
{
    config->n_heads = count_of(e, e->object, "num_attention_heads", 0);
    config->n_kv_heads = count_of(e, e->object, "num_key_value_heads", config->n_heads);
    if (config->n_heads % config->n_kv_heads)
        die("%s: num_attention_heads %d is not a multiple of num_key_value_heads %d", e->path, config->n_heads,
            config->n_kv_heads);
    int by_default = config->qk_norm ? 128 : config->hidden_size / config->n_heads;
    if (!config->qk_norm && !json_get(e->object, "head_dim").text && config->hidden_size % config->n_heads)
        die("%s: hidden_size %d is not a multiple of num_attention_heads %d", e->path, config->hidden_size,
            config->n_heads);
    config->head_dim = count_of(e, e->object, "head_dim", by_default);
    if (config->head_dim % 2)
        die("%s: head_dim %d is odd; RoPE rotates pairs", e->path, config->head_dim);
    if ((long long)config->head_dim * (config->n_heads + 2LL * config->n_kv_heads) > INT_MAX / 4 ||
        config->intermediate_size > INT_MAX / 4)
        die("%s: the sizes in it are too large to be a model's", e->path);
}

static void refuse_partial_rotation(const struct entries *e, struct json value)
{
    double factor;
    if (value.text && (!json_number(value, &factor) || factor < 1 || factor > 1))
        bad_entry(e, "partial_rotary_factor", value, "not supported; every pair of a head is rotated");
}

static void read_rope(const struct entries *e, struct rope *rope)
{
    struct json said = json_get(e->object, "rope_parameters");
    if (!said.text)
        said = json_get(e->object, "rope_scaling");
    struct json kind = json_get(said, "rope_type");
    if (!kind.text)
        kind = json_get(said, "type");
    rope->is_llama3 = json_equals(kind, "llama3");
    if (kind.text && !rope->is_llama3 && !json_equals(kind, "default"))
        bad_entry(e, "rope_type", kind, "default or llama3; others are not supported");
    refuse_partial_rotation(e, json_get(said, "partial_rotary_factor"));
    refuse_partial_rotation(e, json_get(e->object, "partial_rotary_factor"));
    rope->theta = number_of(e, said, "rope_theta", number_of(e, e->object, "rope_theta", 10000.0));
    if (!rope->is_llama3)
        return;
    rope->factor = number_of(e, said, "factor", 0);
    rope->low_freq_factor = number_of(e, said, "low_freq_factor", 0);
    rope->high_freq_factor = number_of(e, said, "high_freq_factor", 0);
    rope->original_context = count_of(e, said, "original_max_position_embeddings", 0);
}

/* -- end ids ------------------------------------------------------------------------------------------------------- */

static void add_eos(const struct entries *e, struct config *config, struct json value)
{
    long long id;
    if (!json_whole(value, &id) || id < INT32_MIN || id > INT32_MAX)
        bad_entry(e, "eos_token_id", value, "a token id or a list of them");
    if (config->n_eos == MAX_EOS)
        die("%s: eos_token_id lists more than %d ids", e->path, MAX_EOS);
    config->eos[config->n_eos++] = (int32_t)id;
}

static void read_eos(const struct entries *e, struct config *config)
{
    struct json said = json_get(e->object, "eos_token_id"), item;
    if (said.text && !json_is(said, '['))
        add_eos(e, config, said);
    for (size_t at = 0; json_next_item(said, &at, &item);)
        add_eos(e, config, item);
}

/* -- all of it ----------------------------------------------------------------------------------------------------- */

/* The folder's own name, where it may be written with a slash at the end or as ".". */
static void name_of(const char *folder, char *name)
{
    char *full = realpath(folder, NULL);
    if (!full)
        die("%s: no such model directory", folder);
    const char *slash = strrchr(full, '/');
    snprintf(name, MAX_NAME, "%s", slash ? slash + 1 : full);
    free(full);
}

void read_config(const char *folder, struct config *config)
{
    char path[MAX_PATH], advised_path[MAX_PATH];
    memset(config, 0, sizeof *config);
    name_of(folder, config->name);
    join_path(path, folder, "config.json");
    struct entries e = open_entries(path);
    read_architecture(&e, config);
    refuse_unsupported(&e);
    config->n_layers = count_of(&e, e.object, "num_hidden_layers", 0);
    config->hidden_size = count_of(&e, e.object, "hidden_size", 0);
    config->intermediate_size = count_of(&e, e.object, "intermediate_size", 0);
    config->vocab_size = count_of(&e, e.object, "vocab_size", 0);
    config->context_length = count_of(&e, e.object, "max_position_embeddings", 0);
    config->rms_norm_eps = number_of(&e, e.object, "rms_norm_eps", 1e-6);
    config->tied = flag_of(&e, "tie_word_embeddings");
    read_heads(&e, config);
    read_rope(&e, &config->rope);

    join_path(advised_path, folder, "generation_config.json");
    if (file_exists(advised_path)) {
        struct entries advised = open_entries(advised_path);
        read_eos(&advised, config);
        free(advised.text);
    }
    if (config->n_eos == 0)
        read_eos(&e, config);
    free(e.text);
}
