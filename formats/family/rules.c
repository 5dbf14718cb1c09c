#include "formats/family/rules.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "formats/containers/source_floats.h"
#include "formats/containers/source_place.h"
#include "formats/family/sizes.h"

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

static int rules_compare(const void *a, const void *b) {
    return strcmp(((const RawTensor *)a)->name, ((const RawTensor *)b)->name);
}

Status raw_table_sort(RawTable *table, Error *error) {
    if (table->n) qsort(table->items, table->n, sizeof *table->items, rules_compare);
    for (size_t i = 1; i < table->n; i++)
        if (strcmp(table->items[i - 1].name, table->items[i].name) == 0)
            return error_set(error, "two tensors are called '%.100s'", table->items[i].name);
    return STATUS_OK;
}

RawTensor *raw_table_find(const RawTable *table, const char *name) {
    RawTensor key = {.name = (char *)name};
    return table->n ? bsearch(&key, table->items, table->n, sizeof *table->items, rules_compare)
                    : NULL;
}

void raw_table_free(RawTable *table) {
    for (size_t i = 0; i < table->n; i++) free(table->items[i].name);
    free(table->items);
    *table = (RawTable){0};
}

/* ---- One tensor of ours ---- */

/* What a rule makes in one layer: a tensor for each name in `to`, and its bias. */
typedef struct Part {
    const TensorRule *rule;
    char to[MODELFILE_NAME_BYTES], from[256]; /* with "%u" and the like */
    bool is_bias;                             /* of a FORM_LINEAR or FORM_NORM */
    bool is_vector;                           /* one row */
    bool optional;
    size_t rows, cols;  /* a vector has 1 row */
    size_t skip, fused; /* rows of the stored tensor before this part, and in all; fused 0: the part
                         * is all of it */
    HeadTiles row_tiles, col_tiles;
} Part;

static bool is_in_layer(const TensorRule *rule) {
    return rule->to && (rule->from[0] == '.' || strstr(rule->from, "%u"));
}

static bool names_expert(const TensorRule *rule) {
    return strstr(rule->to, "%u");
}

/* Whether all experts' tensors are one stored tensor. */
static bool stacks_experts(const TensorRule *rule) {
    const char *number = strstr(rule->from, "%u");
    if (number && rule->from[0] != '.') number = strstr(number + 1, "%u"); /* the first: layer */
    return names_expert(rule) && !rule->each_head && !number;
}

/* How to reorder the rows or columns of state heads from the stored order to the configuration's
 * (state_tiled); each key head has several. `sum` is the number of rows, one term of which counts
 * the heads; `term` is the part's own term, or SIZE_TERMS if the part has all of them. */
static HeadTiles head_order(const TensorRule *rule, const SizeSum *sum, size_t term,
                            const Config *c) {
    bool to_tiled = rule->order == ORDER_STATES && c->state.tiled;
    bool to_grouped = rule->order == ORDER_TILED_STATES && !c->state.tiled;
    if (!(to_tiled || to_grouped) || sum->heads_width == 0 || c->state.n_key_heads == 0 ||
        c->state.n_heads % c->state.n_key_heads != 0)
        return (HeadTiles){0};
    size_t per_key_head = c->state.n_heads / c->state.n_key_heads, first = 0;
    if (term < sum->n_terms && term != sum->heads_term) return (HeadTiles){0};
    for (size_t i = 0; term == SIZE_TERMS && i < sum->heads_term; i++) first += sum->terms[i];
    return (HeadTiles){.first = first,
                       .groups = to_tiled ? c->state.n_key_heads : per_key_head,
                       .per_group = to_tiled ? per_key_head : c->state.n_key_heads,
                       .width = sum->heads_width};
}

static bool has_bias(const TensorRule *rule) {
    return rule->form == FORM_LINEAR || rule->form == FORM_NORM;
}

const char *rules_weight(const TensorRule *rule) {
    return has_bias(rule) ? ".weight" : "";
}

static size_t count_names(const char *names) {
    size_t n = 1;
    for (; (names = strchr(names, ' ')); names++) n++;
    return n;
}

/* Fills in `part` for name number `term` of `to` (0 where it is the only one), or for its bias:
 * its names, its shape, and which rows of the stored tensor it is. False: a name is too long, or
 * the rule's sizes cannot be evaluated or are not one term for each name. */
static bool make_part(Part *part, const TensorRule *rule, size_t term, bool is_bias,
                      const Config *config, uint32_t layer) {
    const char *name = rule->to, *rows = rule->rows ? rule->rows : "dim";
    SizeSum sum, cols;
    *part = (Part){.rule = rule, .is_bias = is_bias, .optional = rule->optional || is_bias};
    for (size_t i = 0; i < term; i++) name = strchr(name, ' ') + 1;
    int to = snprintf(part->to, sizeof part->to, "%.*s%s", (int)strcspn(name, " "), name,
                      is_bias ? ".bias" : "");
    int from = snprintf(part->from, sizeof part->from, "%s%s", rule->from,
                        is_bias ? ".bias" : rules_weight(rule));
    if (to >= (int)sizeof part->to || from >= (int)sizeof part->from ||
        !size_sum(rows, config, layer, &sum))
        return false;
    size_t n_names = count_names(rule->to), n = sum.total;
    if (n_names > 1 && n_names != sum.n_terms) return false;
    if (n_names > 1) {
        part->fused = sum.total;
        for (size_t i = 0; i < term; i++) part->skip += sum.terms[i];
        n = sum.terms[term];
    }
    if (rule->order == ORDER_PAIRED) part->fused = sum.total; /* reorders a bias too: rules_take */
    const HeadTiles tiles = head_order(rule, &sum, n_names > 1 ? term : SIZE_TERMS, config);
    part->is_vector = is_bias || rule->form == FORM_NORM || rule->form == FORM_VECTOR;
    if (part->is_vector) {
        part->rows = 1;
        part->cols = n;
        part->col_tiles = tiles;
        return true;
    }
    if (!rule->cols || !size_sum(rule->cols, config, layer, &cols)) return false;
    part->rows = n;
    part->cols = cols.total;
    part->row_tiles = tiles;
    part->col_tiles = head_order(rule, &cols, SIZE_TERMS, config);
    return true;
}

static bool is_turned(const Part *part) {
    return part->rule->turned == TURNED_ALWAYS && !part->is_vector;
}

/* Which stored rows become the tensor's rows. */
static RowMap map_of(const Part *part, const Config *config, uint32_t layer, size_t rows) {
    const TensorRule *rule = part->rule;
    uint32_t head_dim = config_heads(config, layer).head_dim;
    if (rule->by && part->fused) {
        size_t n = size_of(rule->by, config, layer);
        if (n == 0) n = 1; /* fits_groups has refused it */
        return (RowMap){.first = part->skip / n, .chunk = rows / n, .stride = part->fused / n};
    }
    if (rule->order == ORDER_PAIRED && config->rope_pairing == ROPE_HALVES && head_dim % 2 == 0)
        return (RowMap){.head = head_dim};
    return (RowMap){.first = part->skip};
}

/* Whether each of the rule's groups of rows has as many of this part and of the whole. */
static bool fits_groups(const RuleContext *c, const Part *part, uint32_t layer, size_t rows) {
    if (!part->rule->by || !part->fused) return true;
    size_t n = size_of(part->rule->by, &c->source->config, layer);
    return n > 0 && rows % n == 0 && part->fused % n == 0 && part->skip % n == 0;
}

/* ---- Names ---- */

/* Writes the pattern with the numbers in it: each "%u" is the next of `layer` (where the pattern
 * names it) and `number`, "%q" half of the layer, "%p" whether that leaves a rest. false: too long.
 * (Not printf: the pattern may hold other text.) */
static bool fill_name(char *out, size_t size, const char *pattern, bool names_layer, uint32_t layer,
                      uint32_t number) {
    size_t length = 0;
    for (const char *p = pattern; *p; p++) {
        char piece[16] = {*p};
        if (*p == '%' && (p[1] == 'u' || p[1] == 'q' || p[1] == 'p')) {
            uint32_t own = names_layer ? layer : number;
            if (p[1] == 'q') own = layer / 2;
            if (p[1] == 'p') own = layer % 2;
            if (p[1] != 'p') names_layer = false;
            snprintf(piece, sizeof piece, "%u", own);
            p++;
        }
        size_t n = strlen(piece);
        if (length + n >= size) return false;
        memcpy(out + length, piece, n);
        length += n;
    }
    out[length] = '\0';
    return true;
}

/* Copies `from`, its leading "model." replaced by the context's prefix; false: too long. */
static bool with_prefix(const RuleContext *c, const char *from, char *out, size_t size) {
    bool replaced = c->prefix && strncmp(from, "model.", 6) == 0;
    int length = snprintf(out, size, "%s%s", replaced ? c->prefix : "", from + (replaced ? 6 : 0));
    return length >= 0 && (size_t)length < size;
}

/* Writes the name of the tensor in the source that the part reads; false: too long. */
static bool source_name(const RuleContext *c, const Part *part, uint32_t layer, uint32_t number,
                        char *from, size_t size) {
    uint32_t n_layers = c->source->config.n_layers;
    bool in_layer = part->from[0] == '.', is_mtp = in_layer && c->mtp_prefix && layer >= n_layers;
    char whole[256], pattern[256];
    if (in_layer) {
        int length = snprintf(whole, sizeof whole, "%s%s",
                              is_mtp      ? c->mtp_prefix
                              : c->layers ? c->layers
                                          : "",
                              part->from + 1);
        if (length >= (int)sizeof whole) return false;
    }
    if (is_mtp) return fill_name(from, size, whole, true, layer - n_layers, number);
    return with_prefix(c, in_layer ? whole : part->from, pattern, sizeof pattern) &&
           fill_name(from, size, pattern, true, layer, number);
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

/* ---- Taking a tensor ---- */

static Status cannot_read(const RuleContext *c, const RawTensor *raw, Error *error) {
    return error_set(error, "%s: tensor '%.100s' is of type %s, which this program cannot read%s%s",
                     c->source->path, raw->name, raw->type_name, raw->instead ? "; take " : "",
                     raw->instead ? raw->instead : "");
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

/* Describes one expert's part of a tensor that stacks all experts, in a dimension of its own or, in
 * a matrix, in its rows. */
static Status unstack(const RuleContext *c, const RawTensor *stacked, uint32_t n_experts,
                      uint32_t expert, RawTensor *one, Error *error) {
    uint64_t n = 1;
    size_t bytes;
    *one = *stacked;
    bool in_rows = stacked->n_dims == 2 && stacked->dims[0] > n_experts && n_experts > 0 &&
                   stacked->dims[0] % n_experts == 0;
    if (!in_rows && (stacked->n_dims < 2 || stacked->dims[0] != n_experts))
        return error_set(error, "%s: tensor '%.100s' does not hold %u experts", c->source->path,
                         stacked->name, n_experts);
    one->n_dims = stacked->n_dims - !in_rows;
    for (uint32_t i = 0; i < one->n_dims; i++) {
        one->dims[i] = stacked->dims[i + !in_rows];
        if (in_rows && i == 0) one->dims[i] /= n_experts;
        if (__builtin_mul_overflow(n, one->dims[i], &n)) n = UINT64_MAX;
    }
    if (stacked->type == STORED_TYPES) return STATUS_OK; /* `take` refuses the type */
    const uint64_t cols = one->n_dims ? one->dims[one->n_dims - 1] : 1;
    bool fits = stored_file_bytes(stacked->type, n, cols, &bytes);
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

/* How many experts a rule with an expert's name is for. */
static uint32_t rule_experts(const TensorRule *rule, const Config *config) {
    const ExpertsConfig *e = &config->experts;
    uint32_t others = e->identity + e->always;
    return rule->always ? e->always : e->count > others ? e->count - others : 0;
}

/* How many tensors a rule with each_head makes. */
static size_t split_parts(const TensorRule *rule, const Config *config, uint32_t layer) {
    return rule->parts ? size_of(rule->parts, config, layer) : config_heads(config, layer).n_heads;
}

/* Describes the part of one head that the rule takes from a tensor of all heads. The heads may be a
 * dimension of their own. */
static Status split_head(const RuleContext *c, const Part *part, const RawTensor *all,
                         uint32_t layer, uint32_t head, RawTensor *one, Error *error) {
    size_t rows = part->rows, cols = part->cols, row_bytes;
    size_t of_head = part->fused ? part->fused : rows;
    size_t n_heads = split_parts(part->rule, &c->source->config, layer);
    bool stacked = all->n_dims == 3 && all->dims[0] == n_heads && all->dims[1] == of_head &&
                   all->dims[2] == cols;
    if (!stacked && (all->n_dims != 2 || all->dims[0] != n_heads * of_head || all->dims[1] != cols))
        return wrong_shape(c, all, n_heads * of_head, cols, error);
    *one = *all;
    one->n_dims = 2;
    one->dims[0] = rows;
    one->dims[1] = cols;
    if (all->type == STORED_TYPES) return STATUS_OK; /* `take` refuses the type */
    uint64_t skip = head * of_head + part->skip;
    one->blocks.first = skip;
    if (all->scales.present || (stacked && all->blocks.per_matrix) ||
        !stored_file_bytes(all->type, cols, cols, &row_bytes) ||
        __builtin_mul_overflow(skip, (uint64_t)row_bytes, &skip) ||
        __builtin_add_overflow(all->offset, skip, &one->offset))
        return error_set(error, "%s: the heads of tensor '%.100s' cannot be told apart",
                         c->source->path, all->name);
    return STATUS_OK;
}

/* Whether the tensor is rows x cols. A vector (rows 1) may have any dimensions of 1 beside its own,
 * a matrix one between its own, as a convolution's weights have, and one before them. */
static bool has_shape(const RawTensor *raw, size_t rows, size_t cols) {
    uint64_t product = 1;
    for (uint32_t i = 0; i < raw->n_dims; i++)
        if (__builtin_mul_overflow(product, raw->dims[i], &product)) return false;
    if (rows == 1) return (raw->n_dims > 0 || cols == 1) && product == cols;
    bool between = raw->n_dims == 3 && raw->dims[1] == 1;
    uint32_t first = raw->n_dims > 2 && raw->dims[0] == 1 && !between, n = raw->n_dims - first;
    const uint64_t *dims = raw->dims + first;
    if (n == 3 && dims[1] == 1) return dims[0] == rows && dims[2] == cols;
    return n == 2 && dims[0] == rows && dims[1] == cols;
}

/* Adds the tensor `to` that the part makes of `raw`, after checking shape and type. */
static Status rules_take(const RuleContext *c, const Part *part, const RawTensor *raw,
                         uint32_t layer, const char *to, Error *error) {
    const TensorRule *rule = part->rule;
    size_t rows = part->rows, cols = part->cols, fused = part->fused;
    if (rule->longer && raw->n_dims == 2 && raw->dims[0] > rows) fused = (size_t)raw->dims[0];
    /* MXFP4's blocks run along the inputs, so those tensors are outputs x inputs already. */
    bool turned = is_turned(part) || (rule->turned == TURNED_WHERE_IT_FITS && !part->is_vector &&
                                      !has_shape(raw, fused ? fused : rows, cols));
    bool transposed = turned && !raw->scales.present && !c->is_adapter;
    bool is_slice = part->is_vector && fused; /* of a vector */
    if (is_slice) rows = cols, cols = 1;
    size_t stored_rows = fused ? fused : rows, stored_cols = cols;
    if (transposed) stored_rows = cols, stored_cols = fused ? fused : rows;
    if (!has_shape(raw, is_slice ? 1 : stored_rows, is_slice ? fused : stored_cols))
        return wrong_shape(c, raw, stored_rows, stored_cols, error);
    if (raw->type == STORED_TYPES) return cannot_read(c, raw, error);
    if (raw->scales.present && raw->type == STORED_Q4_0 && rule->turned != TURNED_NEVER)
        return error_set(error, "%s: tensor '%.100s': transposed codes of 4 bits are not known",
                         c->source->path, raw->name);
    if (!fits_groups(c, part, layer, rows))
        return error_set(error, "%s: the rows of tensor '%.100s' are not divided by %s",
                         c->source->path, raw->name, rule->by);
    SourceTensor *tensor = source_add(c->source, error, "%s", to);
    if (!tensor) return STATUS_FAILED;
    tensor->is_vector = part->is_vector || rule->form == FORM_TABLE;
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
    tensor->add = rule->values == VALUES_PLUS_ONE && !part->is_bias ? 1.0f : 0.0f;
    tensor->minus_exp = rule->values == VALUES_MINUS_EXP && !part->is_bias;
    tensor->map = map_of(part, &c->source->config, layer, rows);
    tensor->map.tiles = part->row_tiles;
    tensor->columns = part->col_tiles;
    return STATUS_OK;
}

/* Adds the tensor of one head: its part is cut out of the stored tensor, then transposed where the
 * rule says so. */
static Status add_head(const RuleContext *c, const Part *part, const RawTensor *all, uint32_t layer,
                       uint32_t head, const char *to, Error *error) {
    RawTensor one;
    Part of_head = *part;
    if (split_head(c, part, all, layer, head, &one, error) != STATUS_OK) return STATUS_FAILED;
    of_head.skip = of_head.fused = 0;
    if (is_turned(part)) {
        of_head.rows = part->cols;
        of_head.cols = part->rows;
    }
    return rules_take(c, &of_head, &one, layer, to, error);
}

/* Reads `raw`, the vector [head_dim] that the source has for one head, as float32 into out.
 * rules_take describes it as a further tensor of the source, which is taken off again. */
static Status read_head(const RuleContext *c, RawTensor *raw, uint32_t layer, float *out,
                        Error *error) {
    static const TensorRule one = VECTOR("head", "", "head_dim");
    Source *source = c->source;
    Part part;
    if (!make_part(&part, &one, 0, false, &source->config, layer) ||
        rules_take(c, &part, raw, layer, "values", error) != STATUS_OK)
        return STATUS_FAILED;
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
static Status join_heads(const RuleContext *c, const Part *part, const char *from, uint32_t layer,
                         const char *to, Error *error) {
    size_t head_dim = config_heads(&c->source->config, layer).head_dim;
    size_t n = head_dim ? part->cols / head_dim : 0;
    const char *rest = strstr(from, "%h");
    if (n > c->table->n)
        return error_set(error, "%s: tensor '%s' is missing", c->source->path, from);
    float *values = malloc((n * head_dim + 1) * sizeof *values);
    Status status = values ? STATUS_OK : error_set(error, "%s: no memory", c->source->path);
    for (size_t i = 0; status == STATUS_OK && i < n; i++) {
        char name[288];
        snprintf(name, sizeof name, "%.*s%zu%s", (int)(rest - from), from, i, rest + 2);
        RawTensor *raw = raw_table_find(c->table, name);
        if (!raw && i == 0 && part->optional) {
            free(values);
            return STATUS_OK;
        }
        status = raw ? read_head(c, raw, layer, values + i * head_dim, error)
                     : error_set(error, "%s: tensor '%s' is missing", c->source->path, name);
    }
    if (status == STATUS_OK)
        return source_add_values(c->source, to, 1, n * head_dim, values, error);
    free(values);
    return status;
}

/* Whether the model has the part, as far as RuleContext.biases says. */
static bool may_have(const RuleContext *c, const Part *part) {
    size_t n = strlen(part->to);
    if (!c->biases || !part->optional || !ends_with(part->to, ".bias")) return true;
    char word[MODELFILE_NAME_BYTES];
    n -= strlen(".bias");
    bool is_norm = n >= 4 && memcmp(part->to + n - 4, "norm", 4) == 0;
    snprintf(word, sizeof word, " %.*s ", (int)n, part->to);
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

/* Adds the tensor `to`, which has the data of the earlier tensor `same_as` unless the source has
 * another, as an output head that is tied to the embedding has. transformers ties a head only where
 * the file has none of its own, or one with the embedding's values. */
static Status tie(const RuleContext *c, const Part *part, const char *from, const char *to,
                  Error *error) {
    Source *source = c->source;
    RawTensor *own = raw_table_find(c->table, from);
    const char *with = part->rule->same_as;
    const SourceTensor *other = find_tensor(source, with);
    if (other && other->shares) other = find_tensor(source, other->shares);
    bool equal = true;
    if (other && (other->rows != part->rows || other->cols != part->cols))
        return error_set(error, "%s: '%s' has another shape than '%s'", c->source->path, to, with);
    if (own && other) {
        SourceTensor first = *other; /* `take` may move it */
        own->used = true;
        if (rules_take(c, part, own, 0, to, error) != STATUS_OK ||
            compare_values(source, &source->tensors[source->n_tensors - 1], &first, &equal,
                           error) != STATUS_OK)
            return STATUS_FAILED;
        if (!equal) return STATUS_OK;
        source->n_tensors--;
    }
    return source_add_shared(source, to, with, part->rows, part->cols, error);
}

/* The stored tensor of the head that is tied to the tensor `to` of ours, for a source that lacks
 * that one: safetensors.torch.save_model keeps only the name that comes first in the alphabet,
 * which is often lm_head.weight, and transformers ties in either direction (tie_weights). */
static RawTensor *find_tied(const RuleContext *c, const char *to) {
    for (const TensorRule *rule = c->all; c->tied && rule && rule->to; rule++) {
        Part head;
        char from[256];
        if (rule->if_tied && rule->same_as && strcmp(rule->same_as, to) == 0 &&
            make_part(&head, rule, 0, false, &c->source->config, 0) &&
            source_name(c, &head, 0, 0, from, sizeof from) &&
            below_outer_model(c, from, sizeof from))
            return raw_table_find(c->table, from);
    }
    return NULL;
}

/* ---- Applying rules ---- */

/* The number of the first expert that every token goes to. */
static uint32_t first_always(const Config *config) {
    const ExpertsConfig *e = &config->experts;
    return e->count > e->always ? e->count - e->always : 0;
}

/* Adds the tensor of the expert or head `number` from the stored tensor `raw`. */
static Status add_numbered(const RuleContext *c, const Part *part, RawTensor *raw, uint32_t layer,
                           uint32_t number, const char *to, Error *error) {
    const TensorRule *rule = part->rule;
    RawTensor one = *raw;
    raw->used = true;
    if (c->is_adapter && (rule->each_head || stacks_experts(rule)))
        return error_set(error,
                         "%s: '%.100s' is stored in parts, for each head or expert, to which "
                         "this program cannot add",
                         c->source->path, raw->name);
    if (rule->each_head) return add_head(c, part, raw, layer, number, to, error);
    if (stacks_experts(rule) &&
        unstack(c, raw, rule_experts(rule, &c->source->config), number, &one, error) != STATUS_OK)
        return STATUS_FAILED;
    return rules_take(c, part, &one, layer, to, error);
}

/* Makes one part for the expert or head `number`. `in_layer`: it is a tensor of the layer. */
static Status apply_part(const RuleContext *c, const Part *part, uint32_t layer, uint32_t number,
                         bool in_layer, Error *error) {
    const TensorRule *rule = part->rule;
    char from[256], to[MODELFILE_NAME_BYTES], within[MODELFILE_NAME_BYTES];
    bool fits = source_name(c, part, layer, number, from, sizeof from) &&
                below_outer_model(c, from, sizeof from) &&
                fill_name(within, sizeof within, part->to, false, layer,
                          number + (rule->always ? first_always(&c->source->config) : 0));
    int length = !fits      ? 0
                 : in_layer ? snprintf(to, sizeof to, "layers.%u.%s", layer, within)
                            : snprintf(to, sizeof to, "%s", within);
    if (!fits || length >= (int)sizeof to)
        return error_set(error, "%s: a name is too long", c->source->path);
    bool ties = rule->same_as && !part->is_bias && (c->tied || !rule->if_tied);
    if (c->is_adapter && ((rule->same_as && !rule->if_tied) || strstr(from, "%h")))
        return STATUS_OK;
    if (ties) return tie(c, part, from, to, error);
    if (strstr(from, "%h")) return join_heads(c, part, from, layer, to, error);
    RawTensor *raw = raw_table_find(c->table, from);
    if (!raw && !in_layer && !part->is_bias) raw = find_tied(c, part->to);
    if (rule->own_keys && c->source->config.kv_distance[layer] > 0) {
        if (raw) raw->used = true;
        return STATUS_OK;
    }
    if (raw && !may_have(c, part))
        return error_set(error,
                         "%s: tensor '%.100s': with this config.json, a model of type '%s' has no "
                         "such bias",
                         c->source->path, from, c->source->config.family);
    if (raw) return add_numbered(c, part, raw, layer, number, to, error);
    if (part->optional || c->is_adapter) return STATUS_OK;
    return error_set(error, "%s: tensor '%s' is missing", c->source->path, from);
}

/* Applies one rule: each of its names, first the weight and then the bias, each for all experts or
 * heads. */
static Status apply(const RuleContext *c, const TensorRule *rule, uint32_t layer, bool in_layer,
                    Error *error) {
    const Config *config = &c->source->config;
    const size_t halves = has_bias(rule) ? 2 : 1; /* weight, bias */
    size_t n_names = count_names(rule->to);
    uint32_t n = in_layer && names_expert(rule) ? rule_experts(rule, config) : 1;
    Status status = STATUS_OK;
    if (rule->each_head) n = (uint32_t)split_parts(rule, config, layer);
    if (rule->where.field && preset_holds(&rule->where, config) == rule->where_not)
        return STATUS_OK;
    if (rule->first_of_pair && layer % 2 == 1) return STATUS_OK;
    if (rule->of_kind &&
        (layer >= config->n_layers || config->layer_kind[layer] != rule->of_kind - 1))
        return STATUS_OK;
    for (size_t i = 0; i < halves * n_names && status == STATUS_OK; i++) {
        Part part;
        if (!make_part(&part, rule, i / halves, i % halves == 1, config, layer))
            return error_set(error, "%s: the rule for '%s' is wrong", c->source->path, rule->to);
        for (uint32_t k = 0; k < n && status == STATUS_OK && part.to[0] != '-'; k++)
            status = apply_part(c, &part, layer, k, in_layer, error);
    }
    return status;
}

Status rules_apply_to_layer(const RuleContext *c, const TensorRule *rules, uint32_t layer,
                            Error *error) {
    Status status = STATUS_OK;
    for (; status == STATUS_OK && rules->to; rules++) status = apply(c, rules, layer, true, error);
    return status;
}

Status rules_apply(const RuleContext *context, const TensorRule *rules, Error *error) {
    RuleContext with_rules = *context;
    const RuleContext *c = &with_rules;
    with_rules.all = rules;
    uint32_t n_layers = c->source->config.n_layers + c->source->config.mtp.n_layers;
    Status status = STATUS_OK;
    while (status == STATUS_OK && rules->to) {
        if (!is_in_layer(rules)) {
            status = apply(c, rules++, 0, false, error);
            continue;
        }
        const TensorRule *end = rules;
        while (is_in_layer(end)) end++;
        for (uint32_t layer = 0; layer < n_layers; layer++)
            for (const TensorRule *rule = rules; status == STATUS_OK && rule < end; rule++)
                status = apply(c, rule, layer, true, error);
        rules = end;
    }
    return status;
}

static bool ends_with_any(const char *name, const char *const *ends) {
    for (; *ends; ends++)
        if (ends_with(name, *ends)) return true;
    return false;
}

/* Whether the layer of tensor `first`, the first of it that is not passed over, has the projection
 * that prediction layers alone have, in a directory or GGUF; "eh_proj.qweight" and the like are
 * quantized. `n`: the bytes of the name before the layer's number. */
static bool predicts(const RuleContext *c, size_t first, size_t n) {
    const char *name = c->table->items[first].name;
    size_t length = n + strcspn(name + n, ".");
    for (size_t i = first; i < c->table->n; i++) {
        const char *other = c->table->items[i].name;
        if (strncmp(other, name, length) != 0 || other[length] != '.') return false;
        other += length + 1;
        if (strncmp(other, "nextn.", 6) == 0) other += 6;
        if (strncmp(other, "eh_proj.", 8) == 0) return true;
    }
    return false;
}

static void note_left_out(const RuleContext *c, uint32_t n_left_out) {
    Source *s = c->source;
    if (n_left_out == 0) return;
    snprintf(s->left_out, sizeof s->left_out,
             "%u layer%s of the file %s left out: its configuration says that the model has %u",
             n_left_out, n_left_out == 1 ? "" : "s", n_left_out == 1 ? "is" : "are",
             s->config.n_layers);
    source_add_note(s, s->left_out);
}

Status rules_check_leftovers(const RuleContext *c, const char *layers, const char *const *harmless,
                             const char *family, Error *error) {
    size_t n = strlen(layers);
    uint32_t n_layers = c->source->config.n_layers + c->source->config.mtp.n_layers;
    uint32_t n_left_out = 0;
    unsigned long last = ULONG_MAX; /* the table is sorted: a layer's tensors are neighbours */
    for (size_t i = 0; i < c->table->n; i++) {
        const RawTensor *raw = &c->table->items[i];
        if (raw->used || strncmp(raw->name, layers, n) != 0 || ends_with_any(raw->name, harmless))
            continue;
        unsigned long number = strtoul(raw->name + n, NULL, 10);
        if (number < n_layers)
            return error_set(error, "%s: tensor '%.100s' is not part of a model of type '%s'",
                             c->source->path, raw->name, family);
        if (number != last && !predicts(c, i, n)) n_left_out++;
        last = number;
    }
    note_left_out(c, n_left_out);
    return STATUS_OK;
}
