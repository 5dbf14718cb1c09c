#include "formats/rules.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"

/* ---- The table of raw tensors ---- */

RawTensor *raw_table_add(RawTable *table, const char *name, size_t name_bytes) {
    if (!array_reserve(&table->items, &table->capacity, table->n + 1, sizeof *table->items))
        return NULL;
    RawTensor *tensor = &table->items[table->n];
    *tensor = (RawTensor){.name = strndup(name, name_bytes)};
    if (!tensor->name) return NULL;
    table->n++;
    return tensor;
}

static int compare(const void *a, const void *b) {
    return strcmp(((const RawTensor *)a)->name, ((const RawTensor *)b)->name);
}

Status raw_table_sort(RawTable *table, Error *error) {
    if (table->n) qsort(table->items, table->n, sizeof *table->items, compare);
    for (size_t i = 1; i < table->n; i++)
        if (strcmp(table->items[i - 1].name, table->items[i].name) == 0)
            return error_set(error, "two tensors are called '%.100s'", table->items[i].name);
    return STATUS_OK;
}

RawTensor *raw_table_find(const RawTable *table, const char *name) {
    RawTensor key = {.name = (char *)name};
    return table->n ? bsearch(&key, table->items, table->n, sizeof *table->items, compare) : NULL;
}

void raw_table_free(RawTable *table) {
    for (size_t i = 0; i < table->n; i++) free(table->items[i].name);
    free(table->items);
    *table = (RawTable){0};
}

/* ---- Rules ---- */

size_t extent_of(Extent extent, const Config *c, uint32_t layer) {
    const HeadShape heads = config_heads(c, layer);
    switch (extent) {
    case N_ONE:
        return 1;
    case N_DIM:
        return c->dim;
    case N_TWO_DIMS:
        return 2 * (size_t)c->dim;
    case N_VOCAB:
        return c->vocab_size;
    case N_FFN:
        return config_ffn_dim(c, layer);
    case N_Q:
        return (size_t)heads.n_heads * heads.head_dim;
    case N_KV:
        return (size_t)heads.n_kv_heads * heads.head_dim;
    case N_HEAD:
        return heads.head_dim;
    case N_V:
        return (size_t)heads.n_kv_heads * heads.value_dim;
    case N_OUT:
        return (size_t)heads.n_heads * heads.value_dim;
    case N_HEADS:
        return heads.n_heads;
    case N_POSITIONS:
        return (size_t)c->context + c->position_offset;
    case N_EXPERTS:
        return c->n_experts;
    case N_EXPERT_DIM:
        return c->expert_dim ? c->expert_dim : c->dim;
    case N_EXPERT_FFN:
        return c->expert_ffn_dim;
    case N_SHARED_FFN:
        return c->shared_ffn_dim;
    case N_GROUP:
        return (size_t)(heads.n_heads / heads.n_kv_heads) * heads.head_dim;
    case N_STATE_HEADS:
        return c->state_heads;
    case N_STATE_KEYS:
        return (size_t)c->state_key_heads * c->state_key_dim;
    case N_STATE_OUT:
        return (size_t)c->state_heads * c->state_value_dim;
    case N_STATE_OUTS:
        return 2 * (size_t)c->state_heads * c->state_value_dim;
    case N_STATE_VALUE:
        return c->state_value_dim;
    case N_STATE_MIXED:
        return 2 * (size_t)c->state_key_heads * c->state_key_dim +
               (size_t)c->state_heads * c->state_value_dim;
    case N_STATE_TAPS:
        return c->state_kernel;
    case N_STATE_RANK:
        return c->state_rank;
    case N_ADAPTER:
        return c->adapter_rank;
    case N_PER_LAYER:
        return c->per_layer_dim;
    case N_PER_LAYERS:
        return (size_t)c->n_layers * c->per_layer_dim;
    case N_PER_LAYER_VOCAB:
        return c->per_layer_vocab;
    case N_STREAMS:
        return c->altup_streams;
    case N_STREAM_PAIRS:
        return (size_t)c->altup_streams * c->altup_streams;
    case N_LAUREL:
        return c->laurel_rank;
    case N_TWO:
        return 2;
    case N_THREE:
        return 3;
    case N_STREAMS_DIM:
        return (size_t)c->altup_streams * c->dim;
    case N_STREAM_SHARES:
        return (size_t)c->altup_streams * (2 + (c->hyper_rounds > 0 ? c->altup_streams : 0));
    case N_VALUE:
        return heads.value_dim;
    case N_REST:
        return heads.head_dim > heads.rotary_dim ? heads.head_dim - heads.rotary_dim : 0;
    case N_LATENT:
        return c->latent_dim;
    case N_LATENT_Q:
        return c->latent_q_dim;
    case N_LATENT_QS:
        return 2 * (size_t)c->latent_q_dim;
    case N_LATENT_KV:
        return (size_t)c->latent_dim + heads.rotary_dim;
    case N_INDEX:
        return c->index_dim;
    case N_INDEX_HEADS:
        return c->index_heads;
    case N_INDEX_Q:
        return (size_t)c->index_heads * c->index_dim;
    case N_INDEX_POOL:
        return c->index_pool;
    default:
        return 0;
    }
}

static bool names_layer(const TensorRule *rule) {
    return rule->to && strstr(rule->from, "%u");
}

static bool names_expert(const TensorRule *rule) {
    return strstr(rule->to, "%u");
}

/* Replaces each "%u" of the pattern by the next of numbers[]; false when `out` is too small. (Not
 * printf: the pattern may hold other text.) */
static bool fill_name(char *out, size_t size, const char *pattern, const uint32_t *numbers) {
    size_t length = 0;
    for (const char *p = pattern; *p;) {
        char piece[16] = {*p};
        if (strncmp(p, "%u", 2) == 0) {
            snprintf(piece, sizeof piece, "%u", *numbers++);
            p++;
        }
        p++;
        size_t n = strlen(piece);
        if (length + n >= size) return false;
        memcpy(out + length, piece, n);
        length += n;
    }
    out[length] = '\0';
    return true;
}

static Status cannot_read(const RuleContext *c, const RawTensor *raw, Error *error) {
    return error_set(error, "%s: tensor '%.100s' is of type %s, which this program cannot read",
                     c->source->path, raw->name, raw->type_name);
}

static Status wrong_shape(const RuleContext *c, const RawTensor *raw, size_t rows, size_t cols,
                          Error *error) {
    char shape[128] = "";
    size_t length = 0;
    for (uint32_t i = 0; i < raw->n_dims && length < sizeof shape - 24; i++)
        length += (size_t)snprintf(shape + length, sizeof shape - length, "%s%llu", i ? " x " : "",
                                   (unsigned long long)raw->dims[i]);
    return error_set(error, "%s: tensor '%.100s' is %s, expected %zu x %zu", c->source->path,
                     raw->name, raw->n_dims ? shape : "a scalar", rows, cols);
}

static size_t count_numbers(const char *pattern) {
    size_t n = 0;
    for (; (pattern = strstr(pattern, "%u")); pattern++) n++;
    return n;
}

/* Describes one expert's part of a tensor that stacks all experts, in a dimension of its own or, in
 * a matrix, in its rows. */
static Status unstack(const RuleContext *c, const RawTensor *stacked, uint32_t expert,
                      RawTensor *one, Error *error) {
    uint64_t n = 1;
    size_t bytes;
    *one = *stacked;
    uint32_t n_experts = c->source->config.n_experts;
    bool in_rows = stacked->n_dims == 2 && stacked->dims[0] > n_experts && n_experts > 0 &&
                   stacked->dims[0] % n_experts == 0;
    if (!in_rows && (stacked->n_dims < 2 || stacked->dims[0] != n_experts))
        return error_set(error, "%s: tensor '%.100s' does not hold %u experts", c->source->path,
                         stacked->name, c->source->config.n_experts);
    one->n_dims = stacked->n_dims - !in_rows;
    for (uint32_t i = 0; i < one->n_dims; i++) {
        one->dims[i] = stacked->dims[i + !in_rows];
        if (in_rows && i == 0) one->dims[i] /= n_experts;
        if (__builtin_mul_overflow(n, one->dims[i], &n)) n = UINT64_MAX;
    }
    if (stacked->type == STORED_TYPES) return STATUS_OK; /* `take` refuses the type */
    bool fits = stored_bytes(stacked->type, n, &bytes);
    if (stacked->scales.present && stacked->type != STORED_MXFP4)
        return error_set(error, "%s: the experts of tensor '%.100s' cannot be told apart",
                         c->source->path, stacked->name);
    if (stacked->scales.present) {
        bytes = n / 2;
        fits = fits && !__builtin_mul_overflow(n / 32, (uint64_t)expert, &n) &&
               !__builtin_add_overflow(stacked->scales.offset, n, &one->scales.offset);
    }
    if (stacked->blocks.present) {
        const BlockScales *b = &stacked->blocks;
        if (in_rows) {
            one->blocks.first = expert * one->dims[0];
        } else {
            one->blocks.offset +=
                (uint64_t)expert * b->per_matrix * stored_type_info(b->type)->block_bytes;
        }
    }
    if (!fits || __builtin_mul_overflow((uint64_t)bytes, expert, &n) ||
        __builtin_add_overflow(stacked->offset, n, &one->offset))
        return error_set(error, "%s: tensor '%.100s' is too large", c->source->path, stacked->name);
    return STATUS_OK;
}

/* Rows of the whole fused matrix; 0: not fused. */
static size_t fused_rows(const TensorRule *rule, const Config *config, uint32_t layer) {
    size_t fused = 0;
    for (size_t i = 0; i < sizeof rule->fused / sizeof *rule->fused; i++)
        fused += extent_of(rule->fused[i], config, layer);
    return fused;
}

/* Describes the part of one head that the rule takes from a tensor of all heads. The heads may be a
 * dimension of their own. */
static Status split_head(const RuleContext *c, const TensorRule *rule, const RawTensor *all,
                         uint32_t layer, uint32_t head, RawTensor *one, Error *error) {
    const Config *config = &c->source->config;
    bool transposed = rule->flags & RULE_TRANSPOSED;
    size_t rows = extent_of(transposed ? rule->cols : rule->rows, config, layer);
    size_t cols = extent_of(transposed ? rule->rows : rule->cols, config, layer);
    size_t of_head = fused_rows(rule, config, layer), row_bytes;
    size_t n_heads = config_heads(config, layer).n_heads;
    if (of_head == 0) of_head = rows;
    bool stacked = all->n_dims == 3 && all->dims[0] == n_heads && all->dims[1] == of_head &&
                   all->dims[2] == cols;
    if (!stacked && (all->n_dims != 2 || all->dims[0] != n_heads * of_head || all->dims[1] != cols))
        return wrong_shape(c, all, n_heads * of_head, cols, error);
    *one = *all;
    one->n_dims = 2;
    one->dims[0] = rows;
    one->dims[1] = cols;
    if (all->type == STORED_TYPES) return STATUS_OK; /* `take` refuses the type */
    uint64_t skip = head * of_head + extent_of(rule->skip[0], config, layer);
    one->blocks.first = skip;
    if (all->scales.present || (stacked && all->blocks.per_matrix) ||
        !stored_bytes(all->type, cols, &row_bytes) ||
        __builtin_mul_overflow(skip, (uint64_t)row_bytes, &skip) ||
        __builtin_add_overflow(all->offset, skip, &one->offset))
        return error_set(error, "%s: the heads of tensor '%.100s' cannot be told apart",
                         c->source->path, all->name);
    return STATUS_OK;
}

/* Which stored rows become the tensor's rows. */
static RowMap map_of(const TensorRule *rule, const Config *config, uint32_t layer, size_t rows) {
    RowMap map = {.first = extent_of(rule->skip[0], config, layer) +
                           extent_of(rule->skip[1], config, layer)};
    if (rule->flags & RULE_GROUPED) {
        const HeadShape heads = config_heads(config, layer);
        map.chunk = rows / heads.n_kv_heads;
        map.stride = extent_of(N_GROUP, config, layer) + heads.head_dim + heads.value_dim;
    } else if (rule->flags & (RULE_BY_HEAD | RULE_BY_STATE_KEY)) {
        bool by_head = rule->flags & RULE_BY_HEAD;
        size_t n = by_head ? config_heads(config, layer).n_heads : config->state_key_heads;
        if (n == 0) n = 1; /* the shape check has failed already */
        map = (RowMap){.first = map.first / n,
                       .chunk = rows / n,
                       .stride = fused_rows(rule, config, layer) / n};
    } else if (rule->flags & RULE_PAIRED && config->rope_pairing == ROPE_HALVES &&
               config_heads(config, layer).head_dim % 2 == 0) {
        map = (RowMap){.head = config_heads(config, layer).head_dim};
    } else if (rule->flags & (RULE_EVEN | RULE_ODD)) {
        map = (RowMap){.first = rule->flags & RULE_ODD ? 1 : 0, .chunk = 1, .stride = 2};
    }
    return map;
}

/* The order of a tensor's rows or columns (`extent`) that are heads of states. */
static HeadTiles tiles_of(const TensorRule *rule, Extent extent, const Config *c, uint32_t layer) {
    bool tiles = rule->flags & RULE_STATES && c->state_tiled;
    bool groups = rule->flags & RULE_TILED_STATES && !c->state_tiled;
    bool by_head = extent == N_STATE_OUT || extent == N_STATE_MIXED;
    if (!(tiles || groups) || !(by_head || extent == N_STATE_HEADS) || c->state_key_heads == 0 ||
        c->state_value_dim == 0 || c->state_heads % c->state_key_heads != 0)
        return (HeadTiles){0};
    size_t of_key = c->state_heads / c->state_key_heads;
    return (HeadTiles){.first = extent == N_STATE_MIXED ? 2 * extent_of(N_STATE_KEYS, c, layer) : 0,
                       .groups = tiles ? c->state_key_heads : of_key,
                       .per_group = tiles ? of_key : c->state_key_heads,
                       .width = by_head ? c->state_value_dim : 1};
}

/* Whether the tensor is rows x cols. A vector (rows 1) may have any dimensions of 1 beside its own,
 * a matrix one between its own, as a convolution's weights have, and then one before them. */
static bool has_shape(const RawTensor *raw, size_t rows, size_t cols) {
    uint64_t product = 1;
    for (uint32_t i = 0; i < raw->n_dims; i++)
        if (__builtin_mul_overflow(product, raw->dims[i], &product)) return false;
    if (rows == 1) return (raw->n_dims > 0 || cols == 1) && product == cols;
    uint32_t first = raw->n_dims == 4 && raw->dims[0] == 1, n = raw->n_dims - first;
    const uint64_t *dims = raw->dims + first;
    if (n == 3 && dims[1] == 1) return dims[0] == rows && dims[2] == cols;
    return n == 2 && dims[0] == rows && dims[1] == cols;
}

/* Adds the tensor `to` that the rule makes of `raw`, after checking shape and type. */
static Status take(const RuleContext *c, const TensorRule *rule, const RawTensor *raw,
                   uint32_t layer, const char *to, Error *error) {
    const Config *config = &c->source->config;
    size_t rows = extent_of(rule->rows, config, layer), cols = extent_of(rule->cols, config, layer);
    size_t fused = fused_rows(rule, config, layer);
    bool is_vector =
        rule->flags & RULE_VECTOR || (rule->rows == N_ONE && !(rule->flags & RULE_MATRIX));
    /* MXFP4's blocks run along the inputs, so those tensors are outputs x inputs already. */
    bool turned = rule->flags & RULE_EITHER_WAY && !has_shape(raw, fused ? fused : rows, cols);
    bool transposed = (turned || rule->flags & RULE_TRANSPOSED) && rule->rows != N_ONE &&
                      !raw->scales.present && !c->is_adapter;
    if (rule->rows == N_ONE && fused) rows = cols, cols = 1;
    size_t stored_rows = fused ? fused : rows, stored_cols = cols;
    if (transposed) stored_rows = cols, stored_cols = fused ? fused : rows;
    bool is_slice = rule->rows == N_ONE && fused; /* of a vector */
    if (!has_shape(raw, is_slice ? 1 : stored_rows, is_slice ? fused : stored_cols))
        return wrong_shape(c, raw, stored_rows, stored_cols, error);
    if (raw->type == STORED_TYPES) return cannot_read(c, raw, error);
    if (raw->scales.present && raw->type == STORED_Q4_0 &&
        rule->flags & (RULE_TRANSPOSED | RULE_EITHER_WAY))
        return error_set(error, "%s: tensor '%.100s': transposed codes of 4 bits are not known",
                         c->source->path, raw->name);
    SourceTensor *tensor = source_add(c->source, error, "%s", to);
    if (!tensor) return STATUS_FAILED;
    tensor->is_vector = is_vector;
    tensor->rows = rows;
    tensor->cols = cols;
    tensor->stored = raw->type;
    tensor->file = raw->file;
    tensor->offset = raw->offset;
    tensor->scales = raw->scales;
    tensor->blocks = raw->blocks;
    tensor->ternary_scale = raw->ternary_scale;
    tensor->stored_rows = stored_rows;
    tensor->stored_cols = stored_cols;
    tensor->transposed = transposed;
    tensor->add = rule->flags & RULE_ADD_ONE ? 1.0f : 0.0f;
    tensor->minus_exp = rule->flags & RULE_MINUS_EXP;
    tensor->map = map_of(rule, config, layer, rows);
    tensor->map.tiles = tiles_of(rule, rule->rows, config, layer);
    tensor->columns = tiles_of(rule, rule->cols, config, layer);
    return STATUS_OK;
}

/* Copies `from`, its leading "model." replaced by the context's prefix; false: too long. */
static bool with_prefix(const RuleContext *c, const char *from, char *out, size_t size) {
    bool replaced = c->prefix && strncmp(from, "model.", 6) == 0;
    int length = snprintf(out, size, "%s%s", replaced ? c->prefix : "", from + (replaced ? 6 : 0));
    return length >= 0 && (size_t)length < size;
}

/* Reads the values that the rule makes of `raw`, through a tensor that is added to the source and
 * removed again. */
static Status read_values(const RuleContext *c, const TensorRule *rule, RawTensor *raw,
                          uint32_t layer, float *out, Error *error) {
    Source *source = c->source;
    if (take(c, rule, raw, layer, "values", error) != STATUS_OK) return STATUS_FAILED;
    SourceTensor tensor = source->tensors[--source->n_tensors];
    raw->used = true;
    return source_read_floats(source, &tensor, 0, tensor.rows, out, error);
}

RawTensor *rules_find(const RuleContext *c, const char *from) {
    char name[256];
    return with_prefix(c, from, name, sizeof name) ? raw_table_find(c->table, name) : NULL;
}

Status rules_read(const RuleContext *c, const char *from, size_t rows, size_t cols, float **out,
                  Error *error) {
    size_t n;
    RawTensor *raw = rules_find(c, from);
    *out = NULL;
    if (!raw) return error_set(error, "%s: tensor '%s' is missing", c->source->path, from);
    if (!has_shape(raw, rows, cols)) return wrong_shape(c, raw, rows, cols, error);
    if (raw->type == STORED_TYPES) return cannot_read(c, raw, error);
    *out = size_mul(rows, cols, &n) && n < SIZE_MAX / 8 ? malloc((n + 1) * sizeof **out) : NULL;
    if (!*out) return error_set(error, "%s: no memory", c->source->path);
    SourceTensor tensor = {.rows = rows,
                           .cols = cols,
                           .stored = raw->type,
                           .file = raw->file,
                           .offset = raw->offset,
                           .scales = raw->scales,
                           .blocks = raw->blocks,
                           .ternary_scale = raw->ternary_scale,
                           .stored_rows = rows,
                           .stored_cols = cols};
    raw->used = true;
    Status status = source_read_floats(c->source, &tensor, 0, rows, *out, error);
    if (status != STATUS_OK) {
        free(*out);
        *out = NULL;
    }
    return status;
}

/* Adds one vector that joins the tensors of all heads, whose names are `from` with its "%h"
 * replaced by the head's number. */
static Status join_heads(const RuleContext *c, const TensorRule *rule, const char *from,
                         uint32_t layer, const char *to, Error *error) {
    size_t head_dim = extent_of(N_HEAD, &c->source->config, layer);
    size_t n = extent_of(rule->cols, &c->source->config, layer) / head_dim;
    const TensorRule one = {.to = "head", .from = from, .rows = N_ONE, .cols = N_HEAD};
    const char *rest = strstr(from, "%h");
    float *values = malloc(n * head_dim * sizeof *values);
    Status status = values ? STATUS_OK : error_set(error, "%s: no memory", c->source->path);
    for (size_t i = 0; status == STATUS_OK && i < n; i++) {
        char name[288];
        snprintf(name, sizeof name, "%.*s%zu%s", (int)(rest - from), from, i, rest + 2);
        RawTensor *raw = raw_table_find(c->table, name);
        if (!raw && i == 0 && (rule->flags & RULE_OPTIONAL)) {
            free(values);
            return STATUS_OK;
        }
        status = raw ? read_values(c, &one, raw, layer, values + i * head_dim, error)
                     : error_set(error, "%s: tensor '%s' is missing", c->source->path, name);
    }
    if (status == STATUS_OK)
        return source_add_values(c->source, to, 1, n * head_dim, values, error);
    free(values);
    return status;
}

/* Whether the model has the rule's tensor, as far as RuleContext.biases says. */
static bool may_have(const RuleContext *c, const TensorRule *rule) {
    size_t n = strlen(rule->to);
    if (!c->biases || !(rule->flags & RULE_OPTIONAL) || !ends_with(rule->to, ".bias")) return true;
    char word[MODELFILE_NAME_BYTES];
    n -= strlen(".bias");
    bool is_norm = n >= 4 && memcmp(rule->to + n - 4, "norm", 4) == 0;
    snprintf(word, sizeof word, " %.*s ", (int)n, rule->to);
    return strstr(c->biases, word) || (is_norm && strstr(c->biases, " norms "));
}

/* Whether both tensors hold the same values. */
static Status compare_values(const Source *source, const SourceTensor *a, const SourceTensor *b,
                             bool *equal, Error *error) {
    size_t step = a->cols && a->cols < 1 << 18 ? (1 << 18) / a->cols : 1;
    float *values = malloc(2 * step * a->cols * sizeof *values);
    Status status = values ? STATUS_OK : error_set(error, "%s: no memory", source->path);
    if (status == STATUS_OK) status = source_check_tensor(source, a, error);
    if (status == STATUS_OK) status = source_check_tensor(source, b, error);
    *equal = true;
    for (size_t row = 0; status == STATUS_OK && *equal && row < a->rows; row += step) {
        size_t n = a->rows - row < step ? a->rows - row : step;
        status = source_read_floats(source, a, row, n, values, error);
        if (status == STATUS_OK)
            status = source_read_floats(source, b, row, n, values + n * a->cols, error);
        if (status == STATUS_OK)
            *equal = memcmp(values, values + n * a->cols, n * a->cols * sizeof *values) == 0;
    }
    free(values);
    return status;
}

static const SourceTensor *find_tensor(const Source *source, const char *name) {
    for (size_t i = 0; i < source->n_tensors; i++)
        if (strcmp(source->tensors[i].name, name) == 0) return &source->tensors[i];
    return NULL;
}

/* Adds the tensor `to`, which has the data of the earlier tensor `with` (a string constant) unless
 * the source has another, as an output head that is tied to the embedding has. transformers ties
 * a head only where the file has none of its own, or one with the embedding's values. */
static Status tie(const RuleContext *c, const TensorRule *rule, const char *from, const char *to,
                  const char *with, Error *error) {
    Source *source = c->source;
    RawTensor *own = raw_table_find(c->table, from);
    const SourceTensor *other = find_tensor(source, with);
    if (other && other->shares) other = find_tensor(source, other->shares);
    bool equal = true;
    if (own && other) {
        SourceTensor first = *other; /* `take` may move it */
        own->used = true;
        if (take(c, rule, own, 0, to, error) != STATUS_OK ||
            compare_values(source, &source->tensors[source->n_tensors - 1], &first, &equal,
                           error) != STATUS_OK)
            return STATUS_FAILED;
        if (!equal) return STATUS_OK;
        source->n_tensors--;
    }
    return source_add_shared(source, to, with, extent_of(rule->rows, &source->config, 0),
                             extent_of(rule->cols, &source->config, 0), error);
}

/* Lengthens the name of a tensor beside the model proper (the output head) to the one that the
 * source has: below the whole prefix, or below what stands before ".model." in it
 * ("language_model.", "thinker."), or ".backbone.". false: too long. */
static bool below_outer_model(const RuleContext *c, char *name, size_t size) {
    const char *proper = c->prefix && ends_with(c->prefix, ".backbone.") ? "backbone." : "model.";
    size_t length = c->prefix ? strlen(c->prefix) : 0, rest = strlen(proper);
    char longer[256];
    if (length <= rest || strncmp(name, c->prefix, length) == 0 || raw_table_find(c->table, name))
        return true;
    for (int i = 0; i < 2; i++, length -= rest) {
        if (snprintf(longer, sizeof longer, "%.*s%s", (int)length, c->prefix, name) >=
            (int)sizeof longer)
            return false;
        if (raw_table_find(c->table, longer)) return snprintf(name, size, "%s", longer) < (int)size;
        if (strcmp(c->prefix + length - rest, proper) != 0) break;
    }
    return true;
}

/* Replaces "%p" in a name by the half of a pair of layers. */
static void fill_half(char *name, uint32_t layer) {
    char *half = strstr(name, "%p");
    if (!half) return;
    *half = layer % 2 ? '1' : '0';
    memmove(half + 1, half + 2, strlen(half + 2) + 1);
}

/* Writes the name of the tensor in the source that the rule reads, for the layer and the expert
 * numbers[]; false: too long. */
static bool source_name(const RuleContext *c, const TensorRule *rule, const uint32_t *numbers,
                        char *from, size_t size) {
    static const char layers[] = "model.layers.";
    uint32_t n_layers = c->source->config.n_layers, own[2] = {numbers[0], numbers[1]};
    char pattern[256];
    bool fits;
    if (c->mtp_prefix && numbers[0] >= n_layers && strncmp(rule->from, layers, 13) == 0) {
        own[0] -= n_layers;
        int length = snprintf(pattern, sizeof pattern, "%s%s", c->mtp_prefix, rule->from + 13);
        fits = length < (int)sizeof pattern;
    } else {
        fits = with_prefix(c, rule->from, pattern, sizeof pattern);
    }
    if (rule->flags & RULE_PAIR) own[0] /= 2;
    fits = fits && fill_name(from, size, pattern, own);
    if (rule->flags & RULE_PAIR && fits) fill_half(from, numbers[0]);
    return fits;
}

/* Applies one rule; numbers[] are the layer and the expert. `in_layer`: what it makes is a tensor
 * of the layer. */
static Status apply(const RuleContext *c, const TensorRule *rule, const uint32_t *numbers,
                    bool in_layer, Error *error) {
    char from[256], to[MODELFILE_NAME_BYTES], within[MODELFILE_NAME_BYTES];
    bool fits = source_name(c, rule, numbers, from, sizeof from);
    if (rule->flags & RULE_FIRST && numbers[0] % 2 == 1) return STATUS_OK;
    if (in_layer) {
        fits = fits && fill_name(within, sizeof within, rule->to, numbers + 1);
        int length = snprintf(to, sizeof to, "layers.%u.%s", numbers[0], fits ? within : "");
        fits = fits && length < (int)sizeof to;
    } else {
        snprintf(to, sizeof to, "%s", rule->to);
    }
    if (!fits) return error_set(error, "%s: a name is too long", c->source->path);
    if (!below_outer_model(c, from, sizeof from))
        return error_set(error, "%s: a name is too long", c->source->path);
    bool is_joined = rule->flags & (RULE_OF_EMBEDDING | RULE_OF_OUTPUT) || strstr(from, "%h");
    if (c->is_adapter && is_joined) return STATUS_OK;
    if ((rule->flags & RULE_TIED) && c->tied)
        return tie(c, rule, from, to, "token_embedding", error);
    if (rule->flags & RULE_OF_EMBEDDING) return tie(c, rule, from, to, "token_embedding", error);
    if (rule->flags & RULE_OF_OUTPUT) return tie(c, rule, from, to, "output", error);
    if (strstr(from, "%h")) return join_heads(c, rule, from, numbers[0], to, error);
    RawTensor *raw = raw_table_find(c->table, from);
    if ((rule->flags & RULE_OWN_KEYS) && c->source->config.kv_distance[numbers[0]] > 0) {
        if (raw) raw->used = true;
        return STATUS_OK;
    }
    if (raw && !may_have(c, rule))
        return error_set(error,
                         "%s: tensor '%.100s': with this config.json, a model of type '%s' has no "
                         "such bias",
                         c->source->path, from, c->source->config.family);
    if (raw) {
        RawTensor one = *raw;
        raw->used = true;
        bool in_parts =
            rule->flags & RULE_HEADS || (names_expert(rule) && count_numbers(rule->from) == 1);
        if (c->is_adapter && in_parts)
            return error_set(error,
                             "%s: '%.100s' is stored in parts, for each head or expert, to which "
                             "this program cannot add",
                             c->source->path, from);
        if (rule->flags & RULE_HEADS) {
            const TensorRule part = {rule->to,    rule->from, rule->rows, rule->cols,
                                     rule->flags, {0},        {0}};
            if (split_head(c, rule, raw, numbers[0], numbers[1], &one, error) != STATUS_OK)
                return STATUS_FAILED;
            return take(c, &part, &one, numbers[0], to, error);
        }
        if (names_expert(rule) && count_numbers(rule->from) == 1 &&
            unstack(c, raw, numbers[1], &one, error) != STATUS_OK)
            return STATUS_FAILED;
        return take(c, rule, &one, numbers[0], to, error);
    }
    if (rule->flags & RULE_OPTIONAL || c->is_adapter) return STATUS_OK;
    return error_set(error, "%s: tensor '%s' is missing", c->source->path, from);
}

static Status apply_in_layer(const RuleContext *c, const TensorRule *rule, uint32_t layer,
                             Error *error) {
    const Config *config = &c->source->config;
    uint32_t n = names_expert(rule) ? config->n_experts - config->zero_experts : 1;
    if (rule->flags & RULE_HEADS) n = config_heads(config, layer).n_heads;
    Status status = STATUS_OK;
    for (uint32_t i = 0; status == STATUS_OK && i < n; i++)
        status = apply(c, rule, (uint32_t[]){layer, i}, true, error);
    return status;
}

Status rules_apply_to_layer(const RuleContext *c, const TensorRule *rules, uint32_t layer,
                            Error *error) {
    Status status = STATUS_OK;
    for (; status == STATUS_OK && rules->to; rules++)
        status = apply_in_layer(c, rules, layer, error);
    return status;
}

Status rules_apply(const RuleContext *c, const TensorRule *rules, Error *error) {
    uint32_t n_layers = c->source->config.n_layers + c->source->config.mtp_layers;
    Status status = STATUS_OK;
    while (status == STATUS_OK && rules->to) {
        if (!names_layer(rules)) {
            status = apply(c, rules++, (uint32_t[]){0, 0}, false, error);
            continue;
        }
        const TensorRule *end = rules;
        while (names_layer(end)) end++;
        for (uint32_t layer = 0; layer < n_layers; layer++)
            for (const TensorRule *rule = rules; status == STATUS_OK && rule < end; rule++)
                status = apply_in_layer(c, rule, layer, error);
        rules = end;
    }
    return status;
}

static bool ends_with_any(const char *name, const char *const *ends) {
    for (; *ends; ends++)
        if (ends_with(name, *ends)) return true;
    return false;
}

Status rules_check_leftovers(const RuleContext *c, const char *layers, const char *const *harmless,
                             const char *family, Error *error) {
    size_t n = strlen(layers);
    uint32_t n_layers = c->source->config.n_layers + c->source->config.mtp_layers;
    for (size_t i = 0; i < c->table->n; i++) {
        const RawTensor *raw = &c->table->items[i];
        if (raw->used || strncmp(raw->name, layers, n) != 0 || ends_with_any(raw->name, harmless) ||
            strtoul(raw->name + n, NULL, 10) >= n_layers)
            continue;
        return error_set(error, "%s: tensor '%.100s' is not part of a model of type '%s'",
                         c->source->path, raw->name, family);
    }
    return STATUS_OK;
}
