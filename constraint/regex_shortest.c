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

void regex_put_text(RegexArena *arena, TextBuffer *out, const char *bytes, size_t n) {
    bool failed = out->failed, fits = out->limit == 0 || out->length + n < out->limit;
    text_put(out, bytes, n, 0);
    if (out->failed && !failed && fits) regex_give_up(arena, "there is no memory for it");
}

/* ---- Searched expressions -------------------------------------------------------------------- */

/* A lower bound of the length of the texts that match. */
static uint32_t least_length(RegexArena *arena, Regex id, unsigned depth) {
    RegexNode n = arena->nodes[id];
    uint32_t length = 0;
    if (n.least) return n.least - 1;
    if (n.nullable || !go_down(arena, depth)) return 0;
    switch ((RegexKind)n.kind) {
    case RE_CONCAT:
        length =
            add_lengths(least_length(arena, n.a, depth + 1), least_length(arena, n.b, depth + 1));
        break;
    case RE_OR:
        length = REGEX_TOO_LONG;
        for (size_t i = 0; i < n.b; i++) {
            uint32_t own = least_length(arena, arena->lists[n.a + i], depth + 1);
            if (own < length) length = own;
        }
        break;
    case RE_AND:
        for (size_t i = 0; i < n.b; i++) {
            uint32_t own = least_length(arena, arena->lists[n.a + i], depth + 1);
            if (own > length) length = own;
        }
        break;
    case RE_REPEAT: {
        uint64_t all = (uint64_t)least_length(arena, n.a, depth + 1) * n.b;
        length = all < REGEX_TOO_LONG - 1 ? (uint32_t)all : REGEX_TOO_LONG - 2;
        break;
    }
    default:
        length = 1;
        break;
    }
    if (length >= REGEX_TOO_LONG - 1) length = REGEX_TOO_LONG - 2;
    if (!arena->failed) arena->nodes[id].least = length + 1;
    return length;
}

/* How a search came to a state: `depth` bytes, the last one `byte`, after state `from`. */
typedef struct Step {
    uint32_t from, depth;
    uint8_t byte;
} Step;

/* A state that waits on the heap. */
typedef struct Open {
    uint32_t length;   /* of the shortest text through it, at least */
    uint32_t distance; /* of that, what is still to come */
    uint32_t index, depth;
} Open;

/* A search for the shortest text: A* (Hart, Nilsson and Raphael, 1968) with least_length. */
typedef struct Path {
    RegexSearch found;
    Step *steps; /* [found.n] */
    size_t steps_capacity;
    Open *heap;
    size_t n_open, heap_capacity;
    bool hurry; /* take the state that seems nearest to a match: any short text will do */
} Path;

static void path_free(Path *p) {
    regex_search_free(&p->found);
    free(p->steps);
    free(p->heap);
}

static bool comes_before(const Open *x, const Open *y) {
    if (x->length != y->length) return x->length < y->length;
    if (x->distance != y->distance) return x->distance < y->distance;
    return x->index < y->index;
}

static bool heap_push(RegexArena *arena, Path *p, Open open) {
    if (!array_reserve(&p->heap, &p->heap_capacity, p->n_open + 1, sizeof *p->heap))
        return regex_give_up(arena, "there is no memory for it") != 0;
    size_t at = p->n_open++;
    for (; at > 0 && comes_before(&open, &p->heap[(at - 1) / 2]); at = (at - 1) / 2)
        p->heap[at] = p->heap[(at - 1) / 2];
    p->heap[at] = open;
    return true;
}

static Open heap_pop(Path *p) {
    Open top = p->heap[0], last = p->heap[--p->n_open];
    size_t at = 0;
    for (size_t child; (child = 2 * at + 1) < p->n_open; at = child) {
        if (child + 1 < p->n_open && comes_before(&p->heap[child + 1], &p->heap[child])) child++;
        if (!comes_before(&p->heap[child], &last)) break;
        p->heap[at] = p->heap[child];
    }
    p->heap[at] = last;
    return top;
}

/* Queues `state`, which `step` leads to, by the estimated length of the shortest text through it;
 * not if an earlier step led there with as few bytes. False: past a limit. */
static bool reach(RegexArena *arena, Path *p, Regex state, Step step) {
    uint32_t index;
    size_t known = p->found.n;
    if (!regex_search_index(arena, &p->found, state, &index)) return false;
    if (index < known && p->steps[index].depth <= step.depth) return true;
    if (!array_reserve(&p->steps, &p->steps_capacity, p->found.n, sizeof *p->steps))
        return regex_give_up(arena, "there is no memory for it") != 0;
    p->steps[index] = step;
    uint32_t distance = least_length(arena, state, 0);
    uint32_t length = add_lengths(p->hurry ? 0 : step.depth, distance);
    return heap_push(arena, p, (Open){length, distance, index, step.depth});
}

/* Searches for a shortest text that matches (A*): again and again the queued state with the
 * shortest estimate is taken, and the states after it are queued, until one matches: *last. With
 * `hurry` the state nearest to a match is taken, for some text. False: none within the limits. */
static bool find_path(RegexArena *arena, Regex id, Path *p, uint32_t *last) {
    bool fits = reach(arena, p, id, (Step){.depth = 0});
    size_t most = p->hurry ? SIZE_MAX : REGEX_MOST_STATES;
    while (fits && p->n_open > 0 && p->found.n <= most && regex_count_work(arena, 1)) {
        Open open = heap_pop(p);
        Regex state = p->found.states[open.index];
        if (open.depth > p->steps[open.index].depth) continue;
        *last = open.index;
        if (arena->nodes[state].nullable) return true;
        for (size_t c = 0; c < arena->n_classes && fits && !arena->failed; c++) {
            Regex next = regex_derive(arena, state, arena->byte_of[c]);
            if (next == REGEX_NONE) continue;
            fits = reach(arena, p, next, (Step){open.index, open.depth + 1, arena->byte_of[c]});
        }
    }
    return false;
}

/* Finds the shortest text that matches, or a short one where that takes too long, and appends it to
 * `out` unless that is NULL. Returns its length. What it finds depends on the expression alone. */
static uint32_t search_shortest(RegexArena *arena, Regex id, TextBuffer *out) {
    Path path = {.hurry = false};
    uint32_t length = REGEX_TOO_LONG, last = 0;
    bool found = find_path(arena, id, &path, &last);
    if (!found && !arena->failed) {
        path_free(&path);
        path = (Path){.hurry = true};
        found = find_path(arena, id, &path, &last);
    }
    if (found) length = path.steps[last].depth;
    char *text = found && out ? malloc((size_t)length + 1) : NULL;
    if (found && out && !text) {
        regex_give_up(arena, "there is no memory for it");
        length = REGEX_TOO_LONG;
    } else if (text) {
        for (uint32_t i = last; path.steps[i].depth > 0; i = path.steps[i].from)
            text[path.steps[i].depth - 1] = (char)path.steps[i].byte;
        regex_put_text(arena, out, text, length);
    }
    free(text);
    path_free(&path);
    return length;
}

/* ---- Lengths --------------------------------------------------------------------------------- */

static uint32_t shortest_at(RegexArena *arena, Regex id, unsigned depth);

/* Computes the length of the shortest match of a node that is not in the table yet. */
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

/* Appends the tags with which matches of the expression can end, each with the length of the
 * shortest such match after `before` bytes. */
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
        return regex_give_up(arena, "there is no memory for it") != 0;
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
    if (found && best.length > 0) regex_put_text(arena, out, best.bytes, best.length);
    text_free(&best);
    return found && !failed;
}

/* A text of a, n times. */
static bool text_of_repeat(RegexArena *arena, RegexNode n, TextBuffer *out, unsigned depth) {
    TextBuffer one = {.limit = out->limit};
    bool found = text_at(arena, n.a, REGEX_PLAIN, &one, depth + 1);
    for (uint32_t i = 0; i < n.b && found && one.length > 0 && !out->failed; i++) {
        regex_put_text(arena, out, one.bytes, one.length);
        found = regex_count_work(arena, 1 + one.length / 64);
    }
    text_free(&one);
    return found;
}

/* Appends the shortest match that ends with the tag, or a plain one without tags: part by part, and
 * by a search only where the parts do not tell (intersections, complements). Of a concatenation the
 * last part alone can have tags. */
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
    regex_put_text(arena, out, (const char[]){(char)byte}, 1);
    return true;
}

bool regex_shortest_text(RegexArena *arena, Regex id, uint32_t tag, TextBuffer *out) {
    return text_at(arena, id, tag, out, 0) && !out->failed;
}
