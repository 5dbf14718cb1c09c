#include "rules.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- The table of raw tensors ---- */

RawTensor *raw_table_add(RawTable *table, const char *name, size_t name_bytes) {
    if (table->n == table->capacity) {
        size_t capacity = table->capacity * 2 + 256;
        RawTensor *larger = realloc(table->items, capacity * sizeof *larger);
        if (!larger) return NULL;
        table->items = larger;
        table->capacity = capacity;
    }
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
            return error_set(error, "two tensors '%.100s'", table->items[i].name);
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

size_t extent_of(Extent extent, const Config *c) {
    switch (extent) {
    case N_ONE:
        return 1;
    case N_DIM:
        return c->dim;
    case N_VOCAB:
        return c->vocab_size;
    case N_FFN:
        return c->ffn_dim;
    case N_Q:
        return (size_t)c->n_heads * c->head_dim;
    case N_KV:
        return (size_t)c->n_kv_heads * c->head_dim;
    case N_HEAD:
        return c->head_dim;
    case N_HEADS:
        return c->n_heads;
    case N_POSITIONS:
        return (size_t)c->context + c->position_offset;
    case N_EXPERTS:
        return c->n_experts;
    case N_EXPERT_FFN:
        return c->expert_ffn_dim;
    case N_SHARED_FFN:
        return c->shared_ffn_dim;
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

/* "%u" by "%u", whatever else the text holds. */
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

/* rows x cols, with leading and trailing ones ignored for vectors. */
static bool has_shape(const RawTensor *raw, size_t rows, size_t cols) {
    uint64_t product = 1;
    for (uint32_t i = 0; i < raw->n_dims; i++)
        if (__builtin_mul_overflow(product, raw->dims[i], &product)) return false;
    if (rows == 1) return raw->n_dims > 0 && product == cols;
    return raw->n_dims == 2 && raw->dims[0] == rows && raw->dims[1] == cols;
}

static Status share_embedding(const RuleContext *c, const TensorRule *rule, Error *error) {
    SourceTensor *tensor = source_add(c->source, error, "%s", rule->to);
    if (!tensor) return STATUS_FAILED;
    tensor->shares = "token_embedding";
    tensor->rows = extent_of(rule->rows, &c->source->config);
    tensor->cols = extent_of(rule->cols, &c->source->config);
    return STATUS_OK;
}

static Status take(const RuleContext *c, const TensorRule *rule, RawTensor *raw, const char *to,
                   Error *error) {
    const Config *config = &c->source->config;
    size_t rows = extent_of(rule->rows, config), cols = extent_of(rule->cols, config), fused = 0;
    for (size_t i = 0; i < sizeof rule->fused / sizeof *rule->fused; i++)
        fused += extent_of(rule->fused[i], config);
    size_t stored_rows = fused ? fused : rows, stored_cols = cols;
    bool transposed = rule->flags & RULE_TRANSPOSED;
    if (transposed) stored_rows = cols, stored_cols = fused ? fused : rows;
    if (!has_shape(raw, stored_rows, stored_cols))
        return wrong_shape(c, raw, stored_rows, stored_cols, error);
    if (raw->type == STORED_TYPES)
        return error_set(error, "%s: tensor '%.100s' is of type %s, which this program cannot read",
                         c->source->path, raw->name, raw->type_name);
    SourceTensor *tensor = source_add(c->source, error, "%s", to);
    if (!tensor) return STATUS_FAILED;
    raw->used = true;
    tensor->is_vector = rule->rows == N_ONE || (rule->flags & RULE_VECTOR);
    tensor->rows = rows;
    tensor->cols = cols;
    tensor->stored = raw->type;
    tensor->file = raw->file;
    tensor->offset = raw->offset;
    tensor->stored_rows = stored_rows;
    tensor->stored_cols = stored_cols;
    tensor->transposed = transposed;
    tensor->add = rule->flags & RULE_ADD_ONE ? 1.0f : 0.0f;
    tensor->map.first = extent_of(rule->skip[0], config) + extent_of(rule->skip[1], config);
    return STATUS_OK;
}

static Status apply(const RuleContext *c, const TensorRule *rule, const uint32_t *numbers,
                    Error *error) {
    char from[256], to[MODELFILE_NAME_BYTES], within[MODELFILE_NAME_BYTES];
    const char *pattern = rule->from;
    size_t skip = 0;
    if (c->prefix && strncmp(pattern, "model.", 6) == 0) {
        pattern += 6;
        skip = strlen(c->prefix);
        if (skip >= sizeof from) return error_set(error, "%s: prefix too long", c->source->path);
        memcpy(from, c->prefix, skip);
    }
    bool fits = fill_name(from + skip, sizeof from - skip, pattern, numbers);
    if (names_layer(rule)) {
        fits = fits && fill_name(within, sizeof within, rule->to, numbers + 1);
        int length = snprintf(to, sizeof to, "layers.%u.%s", numbers[0], fits ? within : "");
        fits = fits && length < (int)sizeof to;
    } else {
        snprintf(to, sizeof to, "%s", rule->to);
    }
    if (!fits) return error_set(error, "%s: a name is too long", c->source->path);
    if ((rule->flags & RULE_TIED) && c->tied) {
        RawTensor *copy = raw_table_find(c->table, from);
        if (copy) copy->used = true;
        return share_embedding(c, rule, error);
    }
    RawTensor *raw = raw_table_find(c->table, from);
    if (raw) return take(c, rule, raw, to, error);
    if (rule->flags & RULE_OPTIONAL) return STATUS_OK;
    return error_set(error, "%s: tensor '%s' is missing", c->source->path, from);
}

static Status apply_in_layer(const RuleContext *c, const TensorRule *rule, uint32_t layer,
                             Error *error) {
    uint32_t n = names_expert(rule) ? c->source->config.n_experts : 1;
    Status status = STATUS_OK;
    for (uint32_t i = 0; status == STATUS_OK && i < n; i++)
        status = apply(c, rule, (uint32_t[]){layer, i}, error);
    return status;
}

Status rules_apply(const RuleContext *c, const TensorRule *rules, Error *error) {
    Status status = STATUS_OK;
    while (status == STATUS_OK && rules->to) {
        if (!names_layer(rules)) {
            status = apply(c, rules++, (uint32_t[]){0, 0}, error);
            continue;
        }
        const TensorRule *end = rules;
        while (names_layer(end)) end++;
        for (uint32_t layer = 0; layer < c->source->config.n_layers; layer++)
            for (const TensorRule *rule = rules; status == STATUS_OK && rule < end; rule++)
                status = apply_in_layer(c, rule, layer, error);
        rules = end;
    }
    return status;
}
