#include "base/array.h"

#include <stdlib.h>
#include <string.h>

#include "base/status.h"

/* The least that is allocated. */
enum { LEAST_BYTES = 256 };

bool array_reserve(void *array, size_t *capacity, size_t needed, size_t item_bytes) {
    void *items, *moved;
    size_t larger, bytes;
    if (needed <= *capacity) return true;
    if (!size_mul(*capacity, 2, &larger)) return false;
    if (larger < needed) larger = needed;
    if (larger < LEAST_BYTES / item_bytes) larger = LEAST_BYTES / item_bytes;
    if (!size_mul(larger, item_bytes, &bytes)) return false;
    memcpy(&items, array, sizeof items);
    moved = realloc(items, bytes);
    if (!moved) return false;
    memcpy(array, &moved, sizeof moved);
    *capacity = larger;
    /* cppcheck-suppress memleak ; *array owns it */
    return true;
}
