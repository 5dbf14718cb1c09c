#include "constraint/index_table.h"

#include <stdlib.h>
#include <string.h>

bool index_table_reserve(IndexTable *t, IndexHash *hash, const void *owner) {
    if (2 * (t->n + 1) <= t->size) return true;
    IndexTable larger = {.size = t->size ? 2 * t->size : 64};
    larger.slots = calloc(larger.size, sizeof *larger.slots);
    if (!larger.slots) return false;
    for (size_t i = 0; i < t->size; i++)
        if (t->slots[i]) index_table_add(&larger, hash(owner, t->slots[i] - 1), t->slots[i] - 1);
    free(t->slots);
    *t = larger;
    return true;
}

void index_table_clear(IndexTable *t) {
    if (t->n > 0) memset(t->slots, 0, t->size * sizeof *t->slots);
    t->n = 0;
}

void index_table_free(IndexTable *t) {
    free(t->slots);
    *t = (IndexTable){0};
}
