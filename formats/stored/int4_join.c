#include "formats/stored/int4_join.h"

#include <stdio.h>
#include <string.h>

static const char packed_end[] = "_packed";

/* The entry called `stem` and `end`; NULL: none. */
static RawTensor *beside(const RawTable *table, const char *stem, const char *end) {
    char name[256];
    int n = snprintf(name, sizeof name, "%s%s", stem, end);
    return n > 0 && n < (int)sizeof name ? raw_table_find(table, name) : NULL;
}

/* Adds the joined entry of the codes at items[at]; the first n_sorted items are sorted. */
static Status join(RawTable *table, size_t n_sorted, size_t at, Error *error) {
    const RawTable sorted = {table->items, n_sorted, n_sorted};
    char stem[256];
    const RawTensor codes = table->items[at];
    if (snprintf(stem, sizeof stem, "%.*s", (int)(strlen(codes.name) - strlen(packed_end)),
                 codes.name) >= (int)sizeof stem)
        return error_set(error, "tensor '%.100s': its name is too long", codes.name);
    RawTensor *scales = beside(&sorted, stem, "_scale"), *shape = beside(&sorted, stem, "_shape");
    if (beside(&sorted, stem, "_zero_point") || beside(&sorted, stem, "_g_idx"))
        return error_set(error,
                         "tensor '%.100s': codes with zero points, or in an order of their own, "
                         "are not known to this program",
                         codes.name);
    if (!scales || (scales->type != STORED_F16 && scales->type != STORED_BF16) ||
        scales->n_dims != 2 || codes.n_dims != 2 || scales->dims[0] != codes.dims[0])
        return error_set(error, "tensor '%.100s' has no scales of 16 bits for its rows",
                         codes.name);
    uint64_t groups = scales->dims[1], cols = codes.dims[1];
    if (cols == 0 || cols > UINT32_MAX || cols % 4 != 0 || groups == 0 || 8 * cols % groups != 0 ||
        8 * cols / groups % 32 != 0)
        return error_set(error,
                         "tensor '%.100s': %llu groups of %llu codes are not groups of whole 32",
                         codes.name, (unsigned long long)groups, (unsigned long long)(8 * cols));
    SeparateScales separate = {.present = true,
                               .file = scales->file,
                               .offset = scales->offset,
                               .type = scales->type,
                               .group = 8 * cols / groups};
    table->items[at].used = scales->used = true;
    if (shape) shape->used = true;
    RawTensor *joined = raw_table_add(table, stem, strlen(stem));
    if (!joined) return error_set(error, "no memory");
    joined->type = STORED_Q4_0;
    strcpy(joined->type_name, "int4");
    joined->n_dims = 2;
    joined->dims[0] = codes.dims[0];
    joined->dims[1] = 8 * cols;
    joined->file = codes.file;
    joined->offset = codes.offset;
    joined->scales = separate;
    return STATUS_OK;
}

Status int4_join(RawTable *table, Error *error) {
    size_t n = table->n;
    for (size_t i = 0; i < n; i++)
        if (ends_with(table->items[i].name, packed_end) &&
            strcmp(table->items[i].type_name, "I32") == 0 && join(table, n, i, error) != STATUS_OK)
            return STATUS_FAILED;
    return table->n == n ? STATUS_OK : raw_table_sort(table, error);
}
