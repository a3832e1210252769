/* Safetensors in, float32 matrices out.
 *
 * Every header is checked against its file, and every tensor that the model needs against the headers, before memory
 * for a weight is allocated: so no number in a damaged file can ask for more memory than the file has bytes.
 */

#include "engine.h"
#include "json.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { MAX_SHARDS = 4096, MAX_DIMS = 2, BLOCK = 1 << 14 };

static const uint64_t MAX_HEADER_BYTES = 100u << 20; /* what the safetensors library itself allows */

enum dtype { F32, F16, BF16, OTHER_DTYPE };

struct tensor {
    char name[MAX_NAME];
    int shard;
    enum dtype dtype;
    int n_dims; /* one more than MAX_DIMS: too many to be a weight of ours */
    long long shape[MAX_DIMS];
    uint64_t begin, end; /* bytes in the file */
};

struct checkpoint {
    const char *folder;
    int n_shards, n_tensors, tensors_size;
    char (*shards)[MAX_NAME];
    struct tensor *tensors;
};

static void *allocate(size_t count, size_t size)
{
    void *memory = calloc(count ? count : 1, size);
    if (!memory)
        die("no memory for %zu values of %zu bytes", count, size);
    return memory;
}

/* -- headers ------------------------------------------------------------------------------------------------------- */

static int item_bytes(enum dtype dtype)
{
    return dtype == F32 ? 4 : 2;
}

static enum dtype dtype_of(struct json name)
{
    return json_equals(name, "F32") ? F32 : json_equals(name, "F16") ? F16 : json_equals(name, "BF16") ? BF16
                                                                                                     : OTHER_DTYPE;
}

/* Returns 0 where the entry is not what a safetensors header has. */
static int read_entry(struct json entry, struct tensor *tensor)
{
    struct json item, offsets = json_get(entry, "data_offsets"), shape = json_get(entry, "shape");
    long long range[2], dim;
    int n = 0;
    for (size_t at = 0; json_next_item(offsets, &at, &item); n++)
        if (n == 2 || !json_whole(item, &range[n]) || range[n] < 0)
            return 0;
    if (n != 2 || range[0] > range[1] || !json_is(shape, '[') || !json_is(json_get(entry, "dtype"), '"'))
        return 0;
    for (size_t at = 0; json_next_item(shape, &at, &item);) {
        if (!json_whole(item, &dim) || dim < 0)
            return 0;
        if (tensor->n_dims < MAX_DIMS)
            tensor->shape[tensor->n_dims] = dim;
        tensor->n_dims += tensor->n_dims <= MAX_DIMS;
    }
    tensor->dtype = dtype_of(json_get(entry, "dtype"));
    tensor->begin = (uint64_t)range[0];
    tensor->end = (uint64_t)range[1];
    return 1;
}

/* Whether a weight's bytes are what its shape and dtype need. A shape's product is bounded on the way. */
static int fits_its_bytes(const struct tensor *tensor)
{
    uint64_t room = tensor->end - tensor->begin, values = 1;
    for (int i = 0; i < tensor->n_dims; i++) {
        if (tensor->shape[i] > 0 && values > room / (uint64_t)tensor->shape[i])
            return 0;
        values *= (uint64_t)tensor->shape[i];
    }
    return values * (uint64_t)item_bytes(tensor->dtype) == room;
}

static struct tensor *add_tensor(struct checkpoint *c)
{
    if (c->n_tensors == c->tensors_size) {
        c->tensors_size = c->tensors_size ? 2 * c->tensors_size : 256;
        c->tensors = realloc(c->tensors, (size_t)c->tensors_size * sizeof *c->tensors);
        if (!c->tensors)
            die("%s: no memory for the list of tensors", c->folder);
    }
    struct tensor *tensor = &c->tensors[c->n_tensors++];
    memset(tensor, 0, sizeof *tensor);
    return tensor;
}

static void add_header(struct checkpoint *c, int shard, const char *path, struct json header, uint64_t data,
                       uint64_t size)
{
    struct json name, entry;
    for (size_t at = 0; json_next_member(header, &at, &name, &entry);) {
        if (json_equals(name, "__metadata__"))
            continue;
        struct tensor *tensor = add_tensor(c);
        tensor->shard = shard;
        if (!json_string(name, tensor->name, sizeof tensor->name) || !read_entry(entry, tensor))
            die("%s: the header is not a safetensors header; download it again", path);
        if (tensor->end > size - data)
            die("%s: %s ends at byte %llu, the file has %llu; download it again", path, tensor->name,
                (unsigned long long)(data + tensor->end), (unsigned long long)size);
        if (tensor->dtype != OTHER_DTYPE && tensor->n_dims <= MAX_DIMS && !fits_its_bytes(tensor))
            die("%s: the shape of %s does not fit its %llu bytes; download it again", path, tensor->name,
                (unsigned long long)(tensor->end - tensor->begin));
        tensor->begin += data;
        tensor->end += data;
    }
}

/* Format: an 8-byte little-endian length, that many bytes of JSON, then the data. */
static void read_header(struct checkpoint *c, int shard, const char *path, FILE *file, uint64_t size)
{
    unsigned char head[8];
    uint64_t length = 0;
    if (fread(head, 1, sizeof head, file) != sizeof head)
        die("%s: %llu bytes are too few for a safetensors file; download it again", path, (unsigned long long)size);
    for (int i = 7; i >= 0; i--)
        length = length << 8 | head[i];
    if (length > size - 8 || length > MAX_HEADER_BYTES)
        die("%s: the header should be %llu bytes long, the file has %llu; download it again", path,
            (unsigned long long)length, (unsigned long long)size);
    char *text = allocate((size_t)length + 1, 1);
    struct json header;
    size_t bad_at;
    const char *why;
    if (fread(text, 1, (size_t)length, file) != length)
        die("%s: cannot read the header; download it again", path);
    if (!json_parse(text, (size_t)length, &header, &bad_at, &why))
        die("%s: bad JSON in the header at byte %zu: %s; download it again", path, bad_at + 8, why);
    if (!json_is(header, '{'))
        die("%s: the header is not a safetensors header; download it again", path);
    add_header(c, shard, path, header, 8 + length, size);
    free(text);
}

static void open_shard(struct checkpoint *c, int shard)
{
    char path[MAX_PATH];
    struct stat status;
    join_path(path, c->folder, c->shards[shard]);
    FILE *file = fopen(path, "rb");
    if (!file)
        die("%s: cannot read this part of the weights: %s; download it again", path, strerror(errno));
    if (fstat(fileno(file), &status) != 0 || !S_ISREG(status.st_mode))
        die("%s: is not a file", path);
    read_header(c, shard, path, file, (uint64_t)status.st_size);
    fclose(file);
}

static void add_shard(struct checkpoint *c, const char *path, struct json name)
{
    char text[MAX_NAME];
    if (!json_string(name, text, sizeof text) || strchr(text, '/'))
        die("%s: weight_map is damaged; download it again", path);
    for (int i = 0; i < c->n_shards; i++)
        if (strcmp(c->shards[i], text) == 0)
            return;
    if (c->n_shards == MAX_SHARDS)
        die("%s: weight_map names more than %d files", path, MAX_SHARDS);
    strcpy(c->shards[c->n_shards++], text);
}

static void read_index(struct checkpoint *c, const char *path)
{
    struct json index, name, shard;
    size_t size, bad_at;
    const char *why;
    char *text = read_file(path, &size);
    if (!json_parse(text, size, &index, &bad_at, &why))
        die("%s: bad JSON at byte %zu: %s; download it again", path, bad_at, why);
    struct json map = json_get(index, "weight_map");
    for (size_t at = 0; json_next_member(map, &at, &name, &shard);)
        add_shard(c, path, shard);
    if (c->n_shards == 0)
        die("%s: weight_map is missing or damaged; download it again", path);
    free(text);
}

static struct checkpoint open_checkpoint(const char *folder)
{
    struct checkpoint c = {.folder = folder};
    char index[MAX_PATH], single[MAX_PATH];
    c.shards = allocate(MAX_SHARDS, sizeof *c.shards);
    join_path(index, folder, "model.safetensors.index.json");
    join_path(single, folder, "model.safetensors");
    if (file_exists(index))
        read_index(&c, index);
    else if (file_exists(single))
        strcpy(c.shards[c.n_shards++], "model.safetensors");
    else
        die("%s: neither model.safetensors nor model.safetensors.index.json is here", folder);
    for (int shard = 0; shard < c.n_shards; shard++)
        open_shard(&c, shard);
    return c;
}

static void close_checkpoint(struct checkpoint *c)
{
    free(c->shards);
    free(c->tensors);
}

/* -- what the model needs ------------------------------------------------------------------------------------------ */

/* The model is walked twice: once to check that every tensor is there in its shape, then to load them. */
struct wanted {
    struct checkpoint *checkpoint;
    int is_loading;
};

static const struct tensor *find(const struct checkpoint *c, const char *name)
{
    for (int i = c->n_tensors - 1; i >= 0; i--) /* of two with one name, the later shard's */
        if (strcmp(c->tensors[i].name, name) == 0)
            return &c->tensors[i];
    die("%s: tensor %s is missing; config.json asks for it, is it this model's?", c->folder, name);
}

static void check(const struct checkpoint *c, const char *name, long long rows, long long columns)
{
    const struct tensor *tensor = find(c, name);
    const char *file = c->shards[tensor->shard];
    int n_dims = columns ? 2 : 1;
    if (tensor->dtype == OTHER_DTYPE)
        die("%s/%s: %s has a dtype other than F32, F16 and BF16; use the same model in one of these", c->folder, file,
            name);
    if (tensor->n_dims != n_dims || tensor->shape[0] != rows || (columns && tensor->shape[1] != columns))
        die("%s/%s: %s has another shape than config.json asks for ([%lld%s%.0lld]); use the config.json that belongs "
            "to these weights",
            c->folder, file, name, rows, columns ? ", " : "", columns);
}

static float from_half(uint16_t half)
{
    uint32_t sign = (uint32_t)(half & 0x8000) << 16, exponent = half >> 10 & 31, fraction = half & 0x3FF, bits;
    float value;
    if (exponent == 0) {
        value = (float)fraction * (1.0f / 16777216.0f); /* subnormal: units of 2^-24 */
        return sign ? -value : value;
    }
    bits = exponent == 31 ? 0x7F800000u | fraction << 13 : (exponent + 112) << 23 | fraction << 13;
    bits |= sign;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static float from_bfloat(uint16_t upper_half)
{
    uint32_t bits = (uint32_t)upper_half << 16;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static void convert(float *out, const void *stored, enum dtype dtype, size_t n)
{
    if (dtype == F32)
        memcpy(out, stored, n * sizeof *out);
    else
        for (size_t i = 0; i < n; i++) {
            uint16_t half;
            memcpy(&half, (const char *)stored + 2 * i, 2);
            out[i] = dtype == F16 ? from_half(half) : from_bfloat(half);
        }
}

static void load(const struct checkpoint *c, const char *name, float *out)
{
    const struct tensor *tensor = find(c, name);
    char path[MAX_PATH];
    float block[BLOCK];
    size_t left = (size_t)(tensor->end - tensor->begin) / (size_t)item_bytes(tensor->dtype);
    join_path(path, c->folder, c->shards[tensor->shard]);
    FILE *file = fopen(path, "rb");
    if (!file || fseeko(file, (off_t)tensor->begin, SEEK_SET) != 0)
        die("%s: cannot read: %s", path, strerror(errno));
    while (left) {
        size_t n = left < BLOCK ? left : BLOCK;
        if (fread(block, (size_t)item_bytes(tensor->dtype), n, file) != n)
            die("%s: %s cannot be read to its end", path, name);
        convert(out, block, tensor->dtype, n);
        out += n;
        left -= n;
    }
    fclose(file);
}

/* Checks one tensor (first pass), or loads it into `out` and returns where the next one goes. columns 0: a vector. */
static float *piece(const struct wanted *w, float *out, long long rows, long long columns, const char *name)
{
    if (!w->is_loading) {
        check(w->checkpoint, name, rows, columns);
        return NULL;
    }
    load(w->checkpoint, name, out);
    return out + rows * (columns ? columns : 1);
}

/* A weight that is one tensor. */
static float *whole(const struct wanted *w, long long rows, long long columns, const char *name)
{
    float *weight = w->is_loading ? allocate((size_t)(rows * (columns ? columns : 1)), sizeof(float)) : NULL;
    piece(w, weight, rows, columns, name);
    return weight;
}

struct part {
    const char *name; /* within the layer */
    long long rows;
};

/* A weight that stacks the rows of several tensors: one product then does the work of all. */
static float *stacked(const struct wanted *w, int layer, const struct part *parts, int n, long long columns,
                      const char *what)
{
    char name[MAX_NAME];
    long long rows = 0;
    for (int i = 0; i < n; i++)
        rows += parts[i].rows;
    float *weight = w->is_loading ? allocate((size_t)(rows * (columns ? columns : 1)), sizeof(float)) : NULL;
    float *next = weight;
    for (int i = 0; i < n; i++) {
        snprintf(name, sizeof name, "model.layers.%d.%s_proj.%s", layer, parts[i].name, what);
        next = piece(w, next, parts[i].rows, columns, name);
    }
    return weight;
}

static float *norm(const struct wanted *w, int layer, const char *which, int n)
{
    char name[MAX_NAME];
    snprintf(name, sizeof name, "model.layers.%d.%s.weight", layer, which);
    return whole(w, n, 0, name);
}

static struct layer_weights take_layer(const struct wanted *w, const struct config *cfg, int layer)
{
    struct layer_weights lw = {0};
    int hidden = cfg->hidden_size, inner = cfg->intermediate_size, head = cfg->head_dim;
    int q_rows = cfg->n_heads * head, kv_rows = cfg->n_kv_heads * head;
    const struct part qkv[] = {{"self_attn.q", q_rows}, {"self_attn.k", kv_rows}, {"self_attn.v", kv_rows}};
    const struct part o[] = {{"self_attn.o", hidden}};
    const struct part gate_up[] = {{"mlp.gate", inner}, {"mlp.up", inner}};
    const struct part down[] = {{"mlp.down", hidden}};
    lw.attn_norm = norm(w, layer, "input_layernorm", hidden);
    lw.qkv = stacked(w, layer, qkv, 3, hidden, "weight");
    lw.qkv_bias = cfg->qkv_bias ? stacked(w, layer, qkv, 3, 0, "bias") : NULL;
    lw.q_norm = cfg->qk_norm ? norm(w, layer, "self_attn.q_norm", head) : NULL;
    lw.k_norm = cfg->qk_norm ? norm(w, layer, "self_attn.k_norm", head) : NULL;
    lw.o = stacked(w, layer, o, 1, q_rows, "weight");
    lw.o_bias = cfg->o_bias ? stacked(w, layer, o, 1, 0, "bias") : NULL;
    lw.mlp_norm = norm(w, layer, "post_attention_layernorm", hidden);
    lw.gate_up = stacked(w, layer, gate_up, 2, hidden, "weight");
    lw.gate_up_bias = cfg->mlp_bias ? stacked(w, layer, gate_up, 2, 0, "bias") : NULL;
    lw.down = stacked(w, layer, down, 1, inner, "weight");
    lw.down_bias = cfg->mlp_bias ? stacked(w, layer, down, 1, 0, "bias") : NULL;
    return lw;
}

static void take_all(const struct wanted *w, const struct config *cfg, struct weights *weights)
{
    weights->embedding = whole(w, cfg->vocab_size, cfg->hidden_size, "model.embed_tokens.weight");
    for (int layer = 0; layer < cfg->n_layers; layer++) {
        struct layer_weights lw = take_layer(w, cfg, layer);
        if (w->is_loading)
            weights->layers[layer] = lw;
    }
    weights->final_norm = whole(w, cfg->hidden_size, 0, "model.norm.weight");
    weights->lm_head =
        cfg->tied ? weights->embedding : whole(w, cfg->vocab_size, cfg->hidden_size, "lm_head.weight");
}

void load_weights(const char *folder, const struct config *config, struct weights *weights)
{
    struct checkpoint checkpoint = open_checkpoint(folder);
    struct wanted w = {&checkpoint, 0};
    take_all(&w, config, weights);
    w.is_loading = 1;
    weights->layers = allocate((size_t)config->n_layers, sizeof *weights->layers);
    take_all(&w, config, weights);
    close_checkpoint(&checkpoint);
}

void free_weights(struct weights *weights, int n_layers)
{
    for (int layer = 0; layer < n_layers; layer++) {
        struct layer_weights *lw = &weights->layers[layer];
        float *all[] = {lw->attn_norm, lw->qkv,      lw->qkv_bias, lw->q_norm,       lw->k_norm, lw->o,
                        lw->o_bias,    lw->mlp_norm, lw->gate_up,  lw->gate_up_bias, lw->down,   lw->down_bias};
        for (size_t i = 0; i < sizeof all / sizeof *all; i++)
            free(all[i]);
    }
    if (weights->lm_head != weights->embedding)
        free(weights->lm_head);
    free(weights->embedding);
    free(weights->final_norm);
    free(weights->layers);
}
