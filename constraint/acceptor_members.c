#include "constraint/acceptor_members.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

enum { NONE = UINT32_MAX /* no member; the empty set */ };

/* ---- Sets ------------------------------------------------------------------------------------ */

/* A set of members begins with its number of words. */
static uint64_t hash_set(const void *acceptor, uint32_t at) {
    const uint64_t *set = ((const Acceptor *)acceptor)->sets + at;
    return XXH3_64bits(set, (set[0] + 1) * sizeof *set);
}

static bool set_has(const Acceptor *m, uint32_t set, size_t member) {
    return set != NONE && m->sets[set + member / 64] >> (member % 64) & 1;
}

uint32_t acceptor_members_with(Acceptor *m, const Object *o, uint32_t old, uint32_t member) {
    size_t words = o->words;
    if (member >= o->n_named && !o->in_order) return old;
    if (member > o->n_named) member = (uint32_t)o->n_named;
    if (o->in_order && o->n_dependencies == 0) old = NONE;
    if (!RESERVE(m, sets, n_sets, words + 1)) return 0;
    uint64_t *to = m->sets + m->n_sets + 1;
    to[-1] = words;
    if (old == NONE)
        memset(to, 0, words * sizeof *to);
    else
        memcpy(to, m->sets + old, words * sizeof *to);
    to[member / 64] |= (uint64_t)1 << (member % 64);
    IndexTable *table = &m->set_table;
    if (!index_table_reserve(table, hash_set, m)) return acceptor_fail(m, NO_MEMORY), 0;
    size_t at = index_table_first(table, hash_set(m, (uint32_t)m->n_sets));
    for (; table->slots[at]; at = index_table_next(table, at)) {
        uint32_t i = table->slots[at] - 1;
        if (memcmp(m->sets + i, to - 1, (words + 1) * sizeof *to) == 0) return i + 1;
    }
    index_table_set(table, at, m->n_sets);
    m->n_sets += words + 1;
    return (uint32_t)(m->n_sets - words);
}

/* The first member that may come after the set's members: 0 in any order. */
static size_t first_next(const Acceptor *m, const Object *o, uint32_t set) {
    if (!o->in_order || set == NONE) return 0;
    size_t word = o->words;
    while (word > 0 && m->sets[set + word - 1] == 0) word--;
    return word == 0 ? 0 : word * 64 - (size_t)__builtin_clzll(m->sets[set + word - 1]);
}

/* Whether the set has the member. One that holds its last member alone has all that had to come
 * before it; what could have come and did not is past, which is the same. `next`: first_next. */
static bool has_member(const Acceptor *m, const Object *o, uint32_t set, size_t next, size_t i) {
    return o->in_order && o->n_dependencies == 0 ? i < next : set_has(m, set, i);
}

bool acceptor_members_has(const Acceptor *m, const Object *o, uint32_t set, size_t member) {
    return has_member(m, o, set, first_next(m, o, set), member);
}

/* ---- What must come -------------------------------------------------------------------------- */

static bool is_needed(const Acceptor *m, const Object *o, uint32_t set, size_t next, size_t i) {
    if (i >= o->n_named || has_member(m, o, set, next, i)) return false;
    if (o->members[i].required) return true;
    for (size_t k = 0; k < o->n_dependencies; k++)
        if (o->dependencies[k].then_member == i && set_has(m, set, o->dependencies[k].if_member))
            return true;
    return false;
}

bool acceptor_members_needed(const Acceptor *m, const Object *o, uint32_t set, size_t member) {
    return is_needed(m, o, set, first_next(m, o, set), member);
}

/* The members that every object has which has `set`, the members a and b (NONE: none) and all that
 * these and the required ones call for: has[n_named], freed by the caller; NULL: no memory. */
static bool *close_under(Acceptor *m, const Object *o, uint32_t set, uint32_t a, uint32_t b) {
    bool *has = calloc(o->n_named + 1, sizeof *has);
    if (!has) {
        acceptor_fail(m, NO_MEMORY);
        return NULL;
    }
    for (size_t i = 0; i < o->n_named; i++)
        has[i] = set_has(m, set, i) || i == a || i == b || o->members[i].required;
    for (bool changed = true; changed && regex_count_work(&m->regexes, o->n_dependencies);) {
        changed = false;
        for (size_t i = 0; i < o->n_dependencies; i++) {
            ObjectDependency d = o->dependencies[i];
            if (!has[d.if_member] || has[d.then_member]) continue;
            has[d.then_member] = changed = true;
        }
    }
    return has;
}

/* Whether all that an object in order needs once it has `set` and the members a and b (NONE: none)
 * comes at `next` or later. */
static bool closes_behind(Acceptor *m, const Object *o, uint32_t set, uint32_t a, uint32_t b,
                          size_t next) {
    bool *has = close_under(m, o, set, a, b), closes = true;
    if (!has) return false;
    for (size_t i = 0; i < next && i < o->n_named && closes; i++)
        closes = !has[i] || i == a || i == b || set_has(m, set, i);
    free(has);
    return closes;
}

bool acceptor_members_room(Acceptor *m, const Object *o, uint32_t set, uint32_t count,
                           uint32_t member) {
    if (o->max == ACCEPTOR_NO_LIMIT || o->n_dependencies == 0) return true;
    bool *has = close_under(m, o, set, member, NONE);
    if (!has) return false;
    uint64_t n = count + (member != NONE && member >= o->n_named);
    for (size_t i = 0; i < o->n_named; i++) n += has[i] && !set_has(m, set, i);
    free(has);
    return n <= o->max;
}

bool acceptor_members_fit(Acceptor *m, const Object *o, uint32_t set, uint32_t extra,
                          uint32_t member) {
    size_t next = first_next(m, o, set);
    if (!o->in_order) return true;
    if (extra != NONE && extra >= next) next = extra < o->n_named ? extra + 1 : o->n_named + 1;
    if (member < next) return false;
    return o->n_dependencies == 0 || closes_behind(m, o, set, extra, member, next);
}

/* ---- What may come --------------------------------------------------------------------------- */

/* How many members that stand for many can count towards `min`. */
static uint64_t most_of_many(const Object *o) {
    for (size_t i = o->n_named; i < o->n; i++)
        if (o->possible[i]) return o->compares ? o->n_names : UINT32_MAX;
    return 0;
}

/* How many named members can still come after member i, for an object in order that has `set`. */
static uint64_t most_behind(Acceptor *m, const Object *o, uint32_t set, size_t i) {
    uint64_t n = 0;
    for (size_t k = i + 1; k < o->n_named; k++)
        n += o->possible[k] &&
             (o->n_dependencies == 0 || closes_behind(m, o, set, (uint32_t)i, (uint32_t)k, i + 1));
    regex_count_work(&m->regexes, o->n_named / 8);
    return n;
}

/* Unmarks the members that come too early or too late for an object in order: all that it must
 * have follows a named member, as many as `min` asks for can, and nothing named follows one that
 * stands for many. */
static void keep_order(Acceptor *m, const Object *o, uint32_t set, uint32_t count, size_t n_needed,
                       bool *may) {
    size_t next = first_next(m, o, set);
    uint64_t many = most_of_many(o);
    bool passed = false; /* a required member */
    for (size_t i = 0; i < o->n_named; i++) {
        bool fits = i >= next && !passed;
        passed |= i >= next && o->members[i].required;
        if (may[i] && fits && o->n_dependencies > 0)
            fits = closes_behind(m, o, set, (uint32_t)i, NONE, i + 1);
        if (may[i] && fits && count + 1 + many < o->min)
            fits = count + 1 + many + most_behind(m, o, set, i) >= o->min;
        may[i] &= fits;
    }
    bool begins = next <= o->n_named; /* the first that stands for many */
    for (size_t i = o->n_named; i < o->n; i++)
        may[i] &= n_needed == 0 && (!begins || count + many >= o->min);
}

bool acceptor_members_may(Acceptor *m, const Object *o, uint32_t set, uint32_t count, bool *may) {
    size_t n_needed = 0, next = first_next(m, o, set);
    for (size_t i = 0; i < o->n_named; i++) n_needed += is_needed(m, o, set, next, i);
    /* No room for any member; room for the needed ones alone. */
    bool full = o->max != ACCEPTOR_NO_LIMIT && count >= o->max;
    bool only_needed =
        o->max != ACCEPTOR_NO_LIMIT && o->n_dependencies == 0 && o->max - count <= n_needed;
    for (size_t i = 0; i < o->n; i++) {
        bool had = i < o->n_named && has_member(m, o, set, next, i);
        may[i] = !full && !had && o->possible[i] && (!only_needed || is_needed(m, o, set, next, i));
        may[i] = may[i] && acceptor_members_room(m, o, set, count, (uint32_t)i);
    }
    if (o->in_order) keep_order(m, o, set, count, n_needed, may);
    return n_needed == 0 && count >= o->min;
}
