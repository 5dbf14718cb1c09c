#include <stdlib.h>

#include "layers/arrangements.h"

void *arrangement_allocate(Finder *f, size_t bytes) {
    void *memory = f->status == STATUS_OK ? calloc(1, bytes) : NULL;
    if (!memory && f->status == STATUS_OK)
        f->status = error_set(f->error, "no memory for the weights of a layer");
    return memory;
}

size_t arrangement_kind_floats(const Config *c) {
    size_t most = 0;
    for (uint32_t l = 0; l < c->n_layers; l++) {
        const BranchKind *kind = c->layer_kind[l] ? layer_kind(c->layer_kind[l]) : NULL;
        size_t n = kind && kind->row_floats ? kind->row_floats(c) : 0;
        most = n > most ? n : most;
    }
    return round_up(most, 16);
}
