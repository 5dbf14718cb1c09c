#include "constraint/regex_search.h"

#include <stdlib.h>

#include "base/array.h"
#include "constraint/regex_internal.h"

void regex_search_free(RegexSearch *s) {
    free(s->states);
    free(s->table);
}

bool regex_search_index(RegexArena *arena, RegexSearch *s, uint32_t state, uint32_t *index) {
    if (2 * (s->n + 1) > s->table_size) {
        size_t size = s->table_size ? 2 * s->table_size : 64;
        uint32_t *table = calloc(size, sizeof *table);
        if (!table) return regex_give_up(arena, "there is no memory for it") != 0;
        for (size_t i = 0; i < s->n; i++) {
            size_t at = regex_mix(0, s->states[i]) & (size - 1);
            while (table[at]) at = (at + 1) & (size - 1);
            table[at] = (uint32_t)i + 1;
        }
        free(s->table);
        s->table = table;
        s->table_size = size;
    }
    size_t at = regex_mix(0, state) & (s->table_size - 1);
    for (; s->table[at]; at = (at + 1) & (s->table_size - 1)) {
        *index = s->table[at] - 1;
        if (s->states[*index] == state) return true;
    }
    *index = (uint32_t)s->n;
    if (!array_reserve(&s->states, &s->capacity, s->n + 1, sizeof *s->states))
        return regex_give_up(arena, "there is no memory for it") != 0;
    s->table[at] = *index + 1;
    s->states[s->n++] = state;
    return true;
}

bool regex_search_add(RegexArena *arena, RegexSearch *s, uint32_t state) {
    uint32_t ignored;
    return regex_search_index(arena, s, state, &ignored);
}
