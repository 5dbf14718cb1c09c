#include "formats/stored/mxfp4_join.h"

#include <string.h>

static const char blocks_end[] = "_blocks", scales_end[] = "_scales";

static bool is_bytes(const RawTensor *raw) {
    return raw && strcmp(raw->type_name, "U8") == 0;
}

/* Returns true when the shapes fit each other: blocks [...][n][16], scales [...][n]. */
static bool shapes_agree(const RawTensor *blocks, const RawTensor *scales) {
    if (blocks->n_dims < 3 || blocks->dims[blocks->n_dims - 1] != 16 ||
        scales->n_dims != blocks->n_dims - 1)
        return false;
    return memcmp(blocks->dims, scales->dims, scales->n_dims * sizeof *scales->dims) == 0 &&
           scales->dims[scales->n_dims - 1] <= UINT32_MAX;
}

/* Adds the joined entry of the blocks at items[at]; the first n_sorted items are sorted. */
static Status join(RawTable *table, size_t n_sorted, size_t at, Error *error) {
    char name[256];
    const char *whole = table->items[at].name;
    size_t stem = strlen(whole) - strlen(blocks_end);
    if (stem + sizeof scales_end > sizeof name)
        return error_set(error, "tensor '%.100s': its name is too long", whole);
    memcpy(name, whole, stem);
    memcpy(name + stem, scales_end, sizeof scales_end);
    RawTensor *scales = raw_table_find(&(RawTable){table->items, n_sorted, n_sorted}, name);
    if (!is_bytes(scales) || !shapes_agree(&table->items[at], scales))
        return error_set(error, "tensor '%.100s' has no scales of its shape", whole);
    table->items[at].used = scales->used = true;
    const RawTensor codes = table->items[at], powers = *scales;
    RawTensor *joined = raw_table_add(table, name, stem);
    if (!joined) return error_set(error, "no memory");
    joined->type = STORED_MXFP4;
    strcpy(joined->type_name, "MXFP4");
    joined->n_dims = powers.n_dims;
    memcpy(joined->dims, powers.dims, sizeof powers.dims);
    joined->dims[joined->n_dims - 1] *= 32;
    joined->file = codes.file;
    joined->offset = codes.offset;
    joined->scales =
        (SeparateScales){.present = true, .file = powers.file, .offset = powers.offset};
    return STATUS_OK;
}

Status mxfp4_join(RawTable *table, Error *error) {
    size_t n = table->n;
    for (size_t i = 0; i < n; i++) {
        const char *name = table->items[i].name;
        size_t length = strlen(name), end = strlen(blocks_end);
        if (length <= end || strcmp(name + length - end, blocks_end) != 0) continue;
        if (is_bytes(&table->items[i]) && join(table, n, i, error) != STATUS_OK)
            return STATUS_FAILED;
    }
    return table->n == n ? STATUS_OK : raw_table_sort(table, error);
}
