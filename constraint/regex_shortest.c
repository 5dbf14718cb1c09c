#include "constraint/regex_shortest.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "constraint/regex_derivative.h"
#include "constraint/regex_internal.h"
#include "constraint/regex_search.h"

static uint32_t add_lengths(uint32_t a, uint32_t b) {
    return b < REGEX_TOO_LONG - a ? a + b : REGEX_TOO_LONG;
}

/* Counts a step into an expression's part; false past a limit. */
static bool go_down(RegexArena *arena, unsigned depth) {
    if (depth > REGEX_MOST_DEPTH) regex_give_up(arena, "it is nested too deeply");
    return regex_count_work(arena, 1);
}

/* ---- Searched expressions -------------------------------------------------------------------- */

/* How a search came to a state. */
typedef struct Step {
    uint32_t from; /* index of the state before */
    uint8_t byte;
} Step;

/* Looks for the nearest match, breadth first and by ascending bytes, so that the first one found is
 * the first of the shortest texts. Appends the text to `out` unless that is NULL. */
static uint32_t search_shortest(RegexArena *arena, Regex id, TextBuffer *out) {
    RegexSearch s = {0};
    Step *steps = NULL;
    size_t capacity = 0, at = 0;
    uint32_t length = 0;
    bool found = arena->nodes[id].nullable, fits = regex_search_add(arena, &s, id);
    for (; !found && fits && at < s.n && regex_count_work(arena, 1); at++)
        for (size_t c = 0; c < arena->n_classes && !found && fits; c++) {
            Regex next = regex_derive(arena, s.states[at], arena->byte_of[c]);
            size_t known = s.n;
            if (next == REGEX_NONE) continue;
            found = arena->nodes[next].nullable;
            fits = regex_search_add(arena, &s, next) &&
                   array_reserve(&steps, &capacity, s.n + 1, sizeof *steps);
            if (fits && s.n > known) steps[known] = (Step){(uint32_t)at, arena->byte_of[c]};
        }
    found = found && fits;
    size_t last = s.n - 1;
    for (size_t i = last; found && i > 0; i = steps[i].from) length++;
    if (found && out && length > 0) {
        char *text = malloc(length);
        if (!text) found = regex_give_up(arena, "there is no memory for it") != 0;
        for (size_t i = last, k = length; found && i > 0; i = steps[i].from)
            text[--k] = (char)steps[i].byte;
        if (found) text_put(out, text, length, 0);
        free(text);
    }
    free(steps);
    regex_search_free(&s);
    return found ? length : REGEX_TOO_LONG;
}

/* ---- Lengths --------------------------------------------------------------------------------- */

static uint32_t shortest_at(RegexArena *arena, Regex id, unsigned depth);

static uint32_t shortest_new(RegexArena *arena, Regex id, unsigned depth) {
    RegexNode n = arena->nodes[id];
    if (n.nullable) return 0;
    uint32_t length = n.kind == RE_CONCAT ? 0 : REGEX_TOO_LONG;
    switch ((RegexKind)n.kind) {
    case RE_CONCAT:
        for (; n.kind == RE_CONCAT; id = n.b, n = arena->nodes[id])
            length = add_lengths(length, shortest_at(arena, n.a, depth + 1));
        return add_lengths(length, shortest_at(arena, id, depth + 1));
    case RE_OR:
        for (size_t i = 0; i < n.b; i++) {
            uint32_t own = shortest_at(arena, arena->lists[n.a + i], depth + 1);
            if (own < length) length = own;
        }
        return length;
    case RE_REPEAT: {
        uint64_t all = (uint64_t)shortest_at(arena, n.a, depth + 1) * n.b;
        return all < REGEX_TOO_LONG ? (uint32_t)all : REGEX_TOO_LONG;
    }
    case RE_SET:
        return 1;
    default:
        return search_shortest(arena, id, NULL);
    }
}

/* Parts are asked for their own lengths, so that only intersections, complements and numbers are
 * searched. */
static uint32_t shortest_at(RegexArena *arena, Regex id, unsigned depth) {
    const RegexNode *n = &arena->nodes[id];
    if (n->shortest) return n->shortest - 1;
    if (n->live == 2 || !go_down(arena, depth)) return REGEX_TOO_LONG;
    uint32_t length = shortest_new(arena, id, depth);
    if (!arena->failed && length != REGEX_TOO_LONG) arena->nodes[id].shortest = length + 1;
    return length;
}

uint32_t regex_shortest(RegexArena *arena, Regex id) {
    return shortest_at(arena, id, 0);
}

/* ---- Tags ------------------------------------------------------------------------------------ */

static bool ends_at(RegexArena *arena, Regex id, uint32_t before, RegexEnds *ends, unsigned depth) {
    RegexNode n = arena->nodes[id];
    if (!go_down(arena, depth)) return false;
    for (; n.kind == RE_CONCAT; id = n.b, n = arena->nodes[id])
        before = add_lengths(before, regex_shortest(arena, n.a));
    if (n.kind == RE_OR) {
        for (size_t i = 0; i < n.b; i++)
            if (!ends_at(arena, arena->lists[n.a + i], before, ends, depth + 1)) return false;
        return true;
    }
    RegexEnd end = {n.kind == RE_TAG ? n.a : REGEX_PLAIN, before};
    if (n.kind != RE_TAG) end.length = add_lengths(before, regex_shortest(arena, id));
    if (!array_reserve(&ends->items, &ends->capacity, ends->n + 1, sizeof *ends->items))
        return false;
    ends->items[ends->n++] = end;
    return true;
}

bool regex_ends(RegexArena *arena, Regex id, RegexEnds *ends) {
    return ends_at(arena, id, 0, ends, 0) && !arena->failed;
}

static uint32_t length_to(RegexArena *arena, Regex id, uint32_t tag, unsigned depth) {
    RegexNode n = arena->nodes[id];
    uint32_t before = 0, least = REGEX_TOO_LONG;
    if (tag == REGEX_PLAIN) return regex_shortest(arena, id); /* it has no tags */
    if (!go_down(arena, depth)) return REGEX_TOO_LONG;
    for (; n.kind == RE_CONCAT; id = n.b, n = arena->nodes[id])
        before = add_lengths(before, regex_shortest(arena, n.a));
    if (n.kind == RE_TAG) return n.a == tag ? before : REGEX_TOO_LONG;
    for (size_t i = 0; n.kind == RE_OR && i < n.b; i++) {
        uint32_t own = length_to(arena, arena->lists[n.a + i], tag, depth + 1);
        if (own < least) least = own;
    }
    return add_lengths(before, least);
}

/* ---- Texts ----------------------------------------------------------------------------------- */

int regex_compare_texts(const TextBuffer *x, const TextBuffer *y) {
    if (x->length != y->length) return x->length < y->length ? -1 : 1;
    return x->length > 0 ? memcmp(x->bytes, y->bytes, x->length) : 0;
}

static bool text_at(RegexArena *arena, Regex id, uint32_t tag, TextBuffer *out, unsigned depth);

/* The first of the shortest texts of a union's items. */
static bool text_of_or(RegexArena *arena, RegexNode n, uint32_t tag, TextBuffer *out,
                       unsigned depth) {
    uint32_t least = REGEX_TOO_LONG;
    TextBuffer best = {.limit = out->limit};
    bool found = false, failed = false;
    for (size_t i = 0; i < n.b; i++) {
        uint32_t own = length_to(arena, arena->lists[n.a + i], tag, depth);
        if (own < least) least = own;
    }
    for (size_t i = 0; i < n.b && least != REGEX_TOO_LONG && !failed; i++) {
        Regex item = arena->lists[n.a + i];
        TextBuffer text = {.limit = out->limit};
        if (length_to(arena, item, tag, depth) != least) continue;
        failed = !text_at(arena, item, tag, &text, depth + 1);
        if (!failed && (!found || regex_compare_texts(&text, &best) < 0)) {
            text_free(&best);
            best = text;
            found = true;
        } else {
            text_free(&text);
        }
    }
    if (found && best.length > 0) text_put(out, best.bytes, best.length, 0);
    text_free(&best);
    return found && !failed;
}

/* A text of a, n times. */
static bool text_of_repeat(RegexArena *arena, RegexNode n, TextBuffer *out, unsigned depth) {
    TextBuffer one = {.limit = out->limit};
    bool found = text_at(arena, n.a, REGEX_PLAIN, &one, depth + 1);
    for (uint32_t i = 0; i < n.b && found && one.length > 0 && !out->failed; i++) {
        text_put(out, one.bytes, one.length, 0);
        found = regex_count_work(arena, 1);
    }
    text_free(&one);
    return found;
}

static bool text_at(RegexArena *arena, Regex id, uint32_t tag, TextBuffer *out, unsigned depth) {
    RegexNode n = arena->nodes[id];
    if (!go_down(arena, depth)) return false;
    for (; n.kind == RE_CONCAT; id = n.b, n = arena->nodes[id])
        if (!text_at(arena, n.a, REGEX_PLAIN, out, depth + 1)) return false;
    if (out->failed) return false;
    if (n.kind == RE_TAG) return n.a == tag;
    if (n.kind == RE_OR) return text_of_or(arena, n, tag, out, depth);
    if (tag != REGEX_PLAIN) return false;
    if (n.nullable) return true;
    if (n.kind == RE_REPEAT) return text_of_repeat(arena, n, out, depth);
    if (n.kind != RE_SET) return search_shortest(arena, id, out) != REGEX_TOO_LONG;
    unsigned byte = 0;
    while (!byteset_has(&arena->sets[n.a], byte)) byte++;
    text_put(out, (const char[]){(char)byte}, 1, 0);
    return true;
}

bool regex_shortest_text(RegexArena *arena, Regex id, uint32_t tag, TextBuffer *out) {
    return text_at(arena, id, tag, out, 0) && !out->failed;
}
