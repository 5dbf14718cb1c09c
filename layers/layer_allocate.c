#include "layers/layer_allocate.h"

#include <stdlib.h>

void *layer_allocate(Finder *f, size_t bytes) {
    void *memory = f->status == STATUS_OK ? calloc(1, bytes) : NULL;
    if (!memory && f->status == STATUS_OK)
        f->status = error_set(f->error, "no memory for the weights of a layer");
    return memory;
}
