#include "formats/stored/scale_join.h"

#include <stdio.h>
#include <string.h>

/* The entry of the tensor that holds the scales of `name`; NULL: none does. */
static RawTensor *find_scales(const RawTable *table, const char *name) {
    static const char *const endings[] = {"_scale_inv", "_scale"};
    static const char *const instead[] = {".scale", ".qscale_weight"}; /* of ".weight" */
    char other[256];
    RawTensor *found = NULL;
    for (size_t i = 0; !found && i < 2; i++)
        if (snprintf(other, sizeof other, "%s%s", name, endings[i]) < (int)sizeof other)
            found = raw_table_find(table, other);
    int stem = (int)(strlen(name) - strlen(".weight"));
    for (size_t i = 0; !found && i < 2 && ends_with(name, ".weight"); i++)
        if (snprintf(other, sizeof other, "%.*s%s", stem, name, instead[i]) < (int)sizeof other)
            found = raw_table_find(table, other);
    return found;
}

/* The number format of a tensor of scales; STORED_TYPES: none that scales have. Bytes are powers of
 * two, as MXFP8 has them. */
static StoredType scale_type(const RawTensor *raw) {
    if (strcmp(raw->type_name, "U8") == 0) return STORED_F8_E8M0;
    return raw->type <= STORED_BF16 || raw->type == STORED_F8_E8M0 ? raw->type : STORED_TYPES;
}

/* The size of a block, if `whole` consists of n blocks. `given` (0: not given) may leave a smaller
 * block at the end; without it all blocks have the same size. 0: no such size. */
static size_t block_size(uint64_t whole, uint64_t n, uint32_t given) {
    if (given && whole / given + (whole % given != 0) == n) return given;
    return n > 0 && whole % n == 0 ? whole / n : 0;
}

/* Fills in which weights share a scale; false where the shapes do not fit each other. A stack of
 * matrices (experts) has its scales stacked too, or one for all. */
static bool match_shapes(const RawTensor *w, const RawTensor *s, const Quantization *q,
                         BlockScales *out) {
    bool stacked = w->n_dims == 3;
    uint64_t n = 1, stack = stacked ? w->dims[0] : 1;
    if (w->n_dims < 2 || w->n_dims > 3) return false;
    uint64_t rows = w->dims[stacked], cols = w->dims[1 + stacked];
    for (uint32_t i = 0; i < s->n_dims; i++)
        if (__builtin_mul_overflow(n, s->dims[i], &n)) return false;
    if (rows == 0 || cols == 0 || stack == 0) return false;
    *out = (BlockScales){.present = true, .rows = rows, .cols = cols, .per_row = 1};
    if (n == 1) return true; /* of the whole tensor */
    if (n == 0 || n % stack != 0 || (stacked && s->dims[0] != stack)) return false;
    out->per_matrix = n / stack;
    if (out->per_matrix == 1) return true;
    if (s->n_dims > w->n_dims || s->n_dims < w->n_dims - 1) return false;
    uint64_t grid_rows = s->dims[stacked];
    if (s->n_dims == w->n_dims) out->per_row = s->dims[1 + stacked];
    out->rows = block_size(rows, grid_rows, q->block_rows);
    out->cols = block_size(cols, out->per_row, q->block_cols);
    return out->rows > 0 && out->cols > 0;
}

/* Gives quantized weights the tensor that holds the scales of their blocks. */
static Status join(RawTensor *weights, RawTensor *scales, const Quantization *q, Error *error) {
    BlockScales blocks;
    if (!scales)
        return error_set(error, "tensor '%.100s' is %s, but has no scales beside it", weights->name,
                         weights->type_name);
    if (scale_type(scales) == STORED_TYPES)
        return error_set(error, "tensor '%.100s': scales of type %s are not known to this program",
                         scales->name, scales->type_name);
    if (!match_shapes(weights, scales, q, &blocks))
        return error_set(error,
                         "tensor '%.100s': its shape fits neither the rows nor the blocks of the "
                         "weights it belongs to",
                         scales->name);
    blocks.type = scale_type(scales);
    blocks.file = scales->file;
    blocks.offset = scales->offset;
    scales->used = true;
    weights->blocks = blocks;
    /* Only with scales are integers weights that can be read. */
    if (strcmp(weights->type_name, "I8") == 0) weights->type = STORED_I8;
    return STATUS_OK;
}

/* Scales for rounding activations, or keys and values of the cache. */
static bool is_for_activations(const char *name) {
    static const char *const endings[] = {".activation_scale", "_activation_scale", ".input_scale",
                                          ".output_scale",     ".input_scale_ub",   ".qscale_act",
                                          ".k_scale",          ".v_scale",          ".q_scale"};
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++)
        if (ends_with(name, endings[i])) return true;
    return false;
}

Status scale_join(RawTable *table, const Quantization *quantization, bool *ignored, Error *error) {
    *ignored = false;
    for (size_t i = 0; i < table->n; i++) {
        RawTensor *raw = &table->items[i];
        bool is_weights =
            strcmp(raw->type_name, "F8_E4M3") == 0 || strcmp(raw->type_name, "I8") == 0;
        if (is_for_activations(raw->name)) {
            raw->used = *ignored = true;
        } else if (is_weights && raw->n_dims >= 2 &&
                   join(raw, find_scales(table, raw->name), quantization, error) != STATUS_OK) {
            return STATUS_FAILED;
        }
    }
    return STATUS_OK;
}

Status scale_join_gguf(RawTable *table, bool *ignored, Error *error) {
    const Quantization whole = {.kind = QUANTIZATION_SCALED};
    *ignored = false;
    for (size_t i = 0; i < table->n; i++) {
        RawTensor *raw = &table->items[i], *scales;
        if (ends_with(raw->name, ".input_scale")) raw->used = *ignored = true;
        if (raw->type != STORED_NVFP4 || !(scales = find_scales(table, raw->name))) continue;
        if (join(raw, scales, &whole, error) != STATUS_OK) return STATUS_FAILED;
        if (raw->blocks.per_matrix > 1)
            return error_set(error, "tensor '%.100s' holds more than one number for each matrix",
                             scales->name);
    }
    return STATUS_OK;
}
