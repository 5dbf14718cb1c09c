#include "formats/stored/ternary_join.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/numbers.h"
#include "formats/stored/stored.h"

/* Reads the matrix's scale; false: it is missing, or not one positive number. */
static bool read_scale(const Source *source, const RawTensor *raw, float *scale) {
    size_t bytes = raw && raw->type <= STORED_BF16 ? stored_type_info(raw->type)->block_bytes : 0;
    uint64_t n = 1, end;
    for (uint32_t i = 0; raw && i < raw->n_dims; i++) n = raw->dims[i] == 1 ? n : 0;
    if (bytes == 0 || n != 1 || __builtin_add_overflow(raw->offset, bytes, &end) ||
        end > source->files[raw->file].bytes)
        return false;
    stored_to_floats(raw->type, source->files[raw->file].map + raw->offset, 1, scale);
    return isfinite(*scale) && *scale > 0.0f;
}

/* Whether a type with a scale of 16 bits for each block of 256 weights holds them exactly. */
static bool fits_blocks(const RawTensor *raw, float scale) {
    return raw->dims[1] % 256 == 0 && numbers_half_to_float(numbers_float_to_half(scale)) == scale;
}

/* Finds the packed matrices by their type, and takes the scale that lies beside each. */
Status ternary_join(const Source *source, RawTable *table, bool divides, Error *error) {
    for (size_t i = 0; i < table->n; i++) {
        RawTensor *raw = &table->items[i];
        char name[256];
        float scale;
        if (strcmp(raw->type_name, "U8") != 0 || raw->n_dims != 2) continue;
        if (snprintf(name, sizeof name, "%s_scale", raw->name) >= (int)sizeof name)
            return error_set(error, "tensor '%.100s': its name is too long", raw->name);
        RawTensor *beside = raw_table_find(table, name);
        if (!read_scale(source, beside, &scale))
            return error_set(error, "tensor '%.100s' is packed, but has no scale above 0 beside it",
                             raw->name);
        if (divides) scale = 1.0f / scale;
        if (!isfinite(scale) || raw->dims[0] > UINT32_MAX / 4)
            return error_set(error, "tensor '%.100s' is too large, or its scale too small",
                             raw->name);
        raw->dims[0] *= 4;
        raw->type = fits_blocks(raw, scale) ? STORED_TQ2_0 : STORED_F32;
        raw->ternary_scale = scale;
        beside->used = true;
    }
    return STATUS_OK;
}
