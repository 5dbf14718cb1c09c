#include "constraint/regex_search.h"

#include <stdlib.h>

#include "base/array.h"
#include "constraint/regex_internal.h"

void regex_search_free(RegexSearch *s) {
    free(s->states);
    index_table_free(&s->table);
}

static uint64_t hash_state(const void *search, uint32_t index) {
    return regex_mix(0, ((const RegexSearch *)search)->states[index]);
}

bool regex_search_index(RegexArena *arena, RegexSearch *s, uint32_t state, uint32_t *index) {
    if (!index_table_reserve(&s->table, hash_state, s))
        return regex_give_up(arena, "there is no memory for it") != 0;
    size_t at = index_table_first(&s->table, regex_mix(0, state));
    for (; s->table.slots[at]; at = index_table_next(&s->table, at)) {
        *index = s->table.slots[at] - 1;
        if (s->states[*index] == state) return true;
    }
    *index = (uint32_t)s->n;
    if (!array_reserve(&s->states, &s->capacity, s->n + 1, sizeof *s->states))
        return regex_give_up(arena, "there is no memory for it") != 0;
    index_table_set(&s->table, at, *index);
    s->states[s->n++] = state;
    return true;
}

bool regex_search_add(RegexArena *arena, RegexSearch *s, uint32_t state) {
    uint32_t ignored;
    return regex_search_index(arena, s, state, &ignored);
}
