#include "core/arena.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/lines.h"
#include "base/status.h"

/* lines_new rounds large pieces up to pages of 2 MiB: only where that is little of them. */
enum { LINE = 64, SMALL = 8 << 20 };

void *rows_take(Rows *rows, size_t n, size_t width) {
    size_t bytes, at = rows->used;
    bool fits = size_mul(n, width, &bytes) && size_mul(bytes, 4, &bytes) && bytes < SIZE_MAX / 2 &&
                at < SIZE_MAX / 4;
    rows->used = fits ? at + round_up(bytes, LINE) : SIZE_MAX;
    return rows->memory ? rows->memory + at : NULL;
}

void *arena_keep(Arena *a, const char *name, size_t n, size_t width) {
    for (size_t i = 0; i < a->n_names; i++)
        if (strcmp(a->names[i].name, name) == 0) return a->names[i].rows;
    Rows rows = {a->memory, a->kept};
    float *kept = rows_take(&rows, n, width);
    a->kept = rows.used;
    if (rows.used > a->most) a->most = rows.used;
    if (a->n_names == ARENA_NAMES) {
        a->most = SIZE_MAX; /* there would be other rows for the same name */
        return NULL;
    }
    a->names[a->n_names].name = name;
    a->names[a->n_names++].rows = kept;
    return kept;
}

Rows arena_rows(const Arena *a) {
    return (Rows){a->memory, a->kept};
}

void arena_count(Arena *a, const Rows *taken) {
    if (taken->used > a->most) a->most = taken->used;
}

bool arena_allocate(Arena *a) {
    if (a->most < SMALL)
        a->memory = aligned_alloc(LINE, round_up(a->most + 1, LINE));
    else
        a->memory = a->most < SIZE_MAX ? lines_new(a->most) : NULL;
    a->kept = a->n_names = 0;
    return a->memory != NULL;
}

void arena_free(Arena *a) {
    free(a->memory);
}
