#include "formats/family/extents.h"

#include <stdlib.h>

static int by_place(const void *a, const void *b) {
    const RawTensor *x = *(const RawTensor *const *)a, *y = *(const RawTensor *const *)b;
    if (x->offset != y->offset) return x->offset < y->offset ? -1 : 1;
    return (x->bytes > y->bytes) - (x->bytes < y->bytes); /* empty ones first */
}

Status extents_check(const RawTable *table, size_t first, const InputFile *file, bool dense,
                     uint64_t data, Error *error) {
    size_t n = table->n - first;
    const RawTensor **sorted = calloc(n + 1, sizeof *sorted);
    uint64_t end = data;
    Status status = STATUS_OK;
    if (!sorted) return error_set(error, "%s: no memory", file->path);
    for (size_t i = 0; i < n; i++) sorted[i] = &table->items[first + i];
    qsort(sorted, n, sizeof *sorted, by_place);
    for (size_t i = 0; i < n && status == STATUS_OK; i++) {
        if (sorted[i]->offset < end && sorted[i]->bytes > 0)
            status = error_set(error, "%s: tensor '%.100s' overlaps '%.100s'", file->path,
                               sorted[i]->name, i > 0 ? sorted[i - 1]->name : "(the header)");
        else if (dense && sorted[i]->offset > end)
            status = error_set(error, "%s: %llu bytes before tensor '%.100s' belong to no tensor",
                               file->path, (unsigned long long)(sorted[i]->offset - end),
                               sorted[i]->name);
        if (sorted[i]->offset + sorted[i]->bytes > end) end = sorted[i]->offset + sorted[i]->bytes;
    }
    free(sorted);
    if (status == STATUS_OK && dense && end != file->bytes)
        status = error_set(error, "%s: its last %llu bytes belong to no tensor", file->path,
                           (unsigned long long)(file->bytes - end));
    return status;
}
