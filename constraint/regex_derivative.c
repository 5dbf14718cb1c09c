#include "constraint/regex_derivative.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "constraint/regex_decimal.h"
#include "constraint/regex_internal.h"
#include "constraint/regex_search.h"

static Regex derive_raw(RegexArena *arena, Regex id, unsigned char byte, unsigned depth);

/* The derivative, REGEX_NONE when it matches nothing. */
static Regex derive_live(RegexArena *arena, Regex id, unsigned char byte, unsigned depth) {
    Regex out = derive_raw(arena, id, byte, depth);
    return arena->nodes[out].searched && !regex_live(arena, out) ? REGEX_NONE : out;
}

static Regex derive_concat(RegexArena *arena, RegexNode n, unsigned char byte, unsigned depth) {
    Regex first = regex_concat(arena, derive_live(arena, n.a, byte, depth), n.b);
    if (!arena->nodes[n.a].nullable) return first;
    return regex_or2(arena, first, derive_live(arena, n.b, byte, depth));
}

static Regex derive_list(RegexArena *arena, RegexNode n, unsigned char byte, unsigned depth) {
    RegexItems items = {0};
    Regex out = REGEX_NONE;
    bool dead = false;
    for (size_t i = 0; i < n.b && !arena->failed && !dead; i++) {
        Regex item = arena->lists[n.a + i];
        item = n.kind == RE_OR ? derive_live(arena, item, byte, depth)
                               : derive_raw(arena, item, byte, depth);
        dead = n.kind == RE_AND && item == REGEX_NONE;
        if (item != REGEX_NONE) regex_items_add(arena, &items, n.kind, item);
    }
    if (!arena->failed && !dead)
        out = n.kind == RE_OR ? regex_make_or(arena, &items) : regex_make_and(arena, &items);
    regex_items_free(&items);
    return arena->failed ? REGEX_NONE : out;
}

/* Computes the derivative (Brzozowski), by kind of expression. */
static Regex derive_new(RegexArena *arena, Regex id, unsigned char byte, unsigned depth) {
    RegexNode n = arena->nodes[id];
    if (!regex_count_work(arena, regex_is_list(n.kind) ? n.b : 1)) return REGEX_NONE;
    if (depth > REGEX_MOST_DEPTH) return regex_give_up(arena, "it is nested too deeply");
    switch ((RegexKind)n.kind) {
    case RE_NONE:
    case RE_EMPTY:
    case RE_TAG:
        return REGEX_NONE;
    case RE_SET:
        return byteset_has(&arena->sets[n.a], byte) ? REGEX_EMPTY : REGEX_NONE;
    case RE_CONCAT:
        return derive_concat(arena, n, byte, depth + 1);
    case RE_OR:
    case RE_AND:
        return derive_list(arena, n, byte, depth + 1);
    case RE_NOT:
        return regex_not(arena, derive_raw(arena, n.a, byte, depth + 1));
    case RE_REPEAT: {
        Regex first = derive_live(arena, n.a, byte, depth + 1);
        if (first == REGEX_NONE) return REGEX_NONE;
        Regex rest =
            regex_repeat(arena, n.a, n.b > 0 ? n.b - 1 : 0, n.c == REGEX_MANY ? n.c : n.c - 1);
        return regex_concat(arena, first, rest);
    }
    case RE_BOUND:
    case RE_MULTIPLE:
        return regex_derive_decimal(arena, n, byte);
    }
    return REGEX_NONE;
}

/* The derivative, remembered by class of bytes; it may match nothing without being REGEX_NONE. */
static Regex derive_raw(RegexArena *arena, Regex id, unsigned char byte, unsigned depth) {
    if (arena->failed || id <= REGEX_EMPTY) return REGEX_NONE;
    size_t class = arena->class_of[byte];
    if (!arena->nodes[id].row) {
        size_t at = arena->n_rows ? arena->n_rows : 1;
        if (!array_reserve(&arena->rows, &arena->rows_capacity, at + arena->n_classes,
                           sizeof *arena->rows) ||
            at + arena->n_classes > UINT32_MAX)
            return regex_give_up(arena, "there is no memory for it");
        memset(arena->rows + at, 0, arena->n_classes * sizeof *arena->rows);
        arena->nodes[id].row = (uint32_t)at;
        arena->n_rows = at + arena->n_classes;
    }
    uint32_t known = arena->rows[arena->nodes[id].row + class];
    if (known) return known - 1;
    size_t n_classes = arena->n_classes;
    Regex out = derive_new(arena, id, byte, depth);
    /* A new set may have changed the classes meanwhile. */
    if (!arena->failed && n_classes == arena->n_classes && arena->nodes[id].row)
        arena->rows[arena->nodes[id].row + class] = out + 1;
    return out;
}

Regex regex_derive(RegexArena *arena, Regex id, unsigned char byte) {
    Regex out = derive_live(arena, id, byte, 0);
    return arena->failed ? REGEX_NONE : out;
}

/* Looks for a match among the states that follow `id`. The states on the way to one are live, too.
 */
static bool search_live(RegexArena *arena, Regex id) {
    RegexSearch s = {0};
    uint32_t *from = NULL; /* [s.n] index of the state before */
    size_t capacity = 0;
    bool live = arena->nodes[id].nullable;
    if (!live) regex_search_add(arena, &s, id);
    for (size_t i = 0; i < s.n && !live && !arena->failed; i++) {
        if (s.n > REGEX_MOST_STATES)
            regex_give_up(arena, "whether it can match takes too many steps");
        regex_count_work(arena, 1);
        for (size_t c = 0; c < arena->n_classes && !live && !arena->failed; c++) {
            Regex next = derive_raw(arena, s.states[i], arena->byte_of[c], 0);
            const RegexNode *n = &arena->nodes[next];
            size_t known = s.n;
            if (n->live == 2 || next == REGEX_NONE) continue;
            live = n->nullable || n->live == 1;
            if (live || !regex_search_add(arena, &s, next) || s.n == known) continue;
            if (array_reserve(&from, &capacity, s.n, sizeof *from))
                from[known] = (uint32_t)i;
            else
                regex_give_up(arena, "there is no memory for it");
        }
        if (!live || arena->failed) continue;
        for (size_t at = i; at > 0; at = from[at]) arena->nodes[s.states[at]].live = 1;
    }
    if (!live && !arena->failed)
        for (size_t i = 0; i < s.n; i++) arena->nodes[s.states[i]].live = 2;
    regex_search_free(&s);
    free(from);
    return live && !arena->failed;
}

/* Whether the expression accepts digits without end, after at most 40 more of them. */
static bool takes_digits(RegexArena *arena, Regex id) {
    for (int i = 0; i < 40 && id != REGEX_NONE; i++) {
        bool same = arena->nodes[id].nullable;
        for (unsigned char c = '0'; c <= '9' && same; c++) same = derive_raw(arena, id, c, 0) == id;
        if (same) return true;
        id = derive_raw(arena, id, '1', 0);
    }
    return false;
}

/* A shortcut for search_live on an intersection, such as that of JSON's number, bounds and one
 * multipleOf: true when exactly one operand is an RE_MULTIPLE, its decimal point has not been read,
 * and every other operand goes on accepting digits without end. Then some number of further digits
 * reaches a multiple that all accept. False only says that a search must tell. The search visits a
 * state for each remainder, as many as the divisor is large. */
static bool is_live_multiple(RegexArena *arena, RegexNode n) {
    size_t n_multiples = 0;
    for (size_t i = 0; i < n.b; i++) {
        const RegexNode *x = &arena->nodes[arena->lists[n.a + i]];
        n_multiples += x->kind == RE_MULTIPLE && !(x->c & 1); /* bit 0: the point was read */
    }
    for (size_t i = 0; i < n.b && n_multiples == 1; i++) {
        Regex item = arena->lists[n.a + i];
        if (arena->nodes[item].kind != RE_MULTIPLE && !takes_digits(arena, item)) return false;
        if (arena->nodes[item].kind == RE_MULTIPLE && arena->nodes[item].c & 1) return false;
    }
    return n_multiples == 1;
}

/* Whether the expression matches any text at all; remembered. */
static bool live_at(RegexArena *arena, Regex id, unsigned depth) {
    RegexNode n = arena->nodes[id];
    if (n.live) return n.live == 1;
    bool live = false;
    if (depth > REGEX_MOST_DEPTH) return regex_give_up(arena, "it is nested too deeply") != 0;
    if (n.nullable) {
        live = true;
    } else if (n.kind == RE_CONCAT) {
        live = live_at(arena, n.a, depth + 1) && live_at(arena, n.b, depth + 1);
    } else if (n.kind == RE_OR) {
        for (size_t i = 0; i < n.b && !live; i++)
            live = live_at(arena, arena->lists[n.a + i], depth + 1);
    } else if (n.kind == RE_REPEAT) {
        live = live_at(arena, n.a, depth + 1);
    } else {
        live = (n.kind == RE_AND && is_live_multiple(arena, n)) || search_live(arena, id);
    }
    if (!arena->failed) arena->nodes[id].live = live ? 1 : 2;
    return live && !arena->failed;
}

bool regex_live(RegexArena *arena, Regex id) {
    return live_at(arena, id, 0);
}
