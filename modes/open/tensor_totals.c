#include "modes/open/tensor_totals.h"

#include <stdlib.h>
#include <string.h>

/* Puts tensors that share their bytes side by side. */
static int totals_by_offset(const void *a, const void *b) {
    const FileTensor *x = *(const FileTensor *const *)a, *y = *(const FileTensor *const *)b;
    return x->offset == y->offset ? (x > y) - (x < y) : x->offset < y->offset ? -1 : 1;
}

bool tensor_totals(const ModelFile *file, TensorTotals *totals) {
    size_t n = modelfile_n_tensors(file);
    const FileTensor **tensors = malloc((n + 1) * sizeof *tensors);
    *totals = (TensorTotals){.all = 0};
    if (!tensors) return false;
    for (size_t i = 0; i < n; i++) tensors[i] = modelfile_tensor(file, i);
    qsort(tensors, n, sizeof *tensors, totals_by_offset);
    for (size_t i = 0; i < n; i++) {
        const FileTensor *t = tensors[i];
        if (t->type >= TENSOR_TYPES || (i > 0 && tensors[i - 1]->offset == t->offset)) continue;
        bool computed = strstr(t->name, ".freqs") != NULL; /* frequencies of positions */
        double elements = computed ? 0.0 : (double)t->rows * (double)t->cols * t->count;
        if (totals->tensors[t->type]++ == 0) totals->met[totals->n_met++] = (TensorType)t->type;
        totals->parameters[t->type] += elements;
        totals->bytes[t->type] += (double)t->bytes;
        totals->all += elements;
    }
    free(tensors);
    return true;
}
