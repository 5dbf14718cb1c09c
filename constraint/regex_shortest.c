#include "constraint/regex_shortest.h"

#include "constraint/regex_derivative.h"
#include "constraint/regex_internal.h"
#include "constraint/regex_search.h"

static uint32_t search_shortest(RegexArena *arena, Regex id) {
    RegexSearch s = {0};
    uint32_t length = 0;
    size_t at = 0, level = 1;
    bool found = arena->nodes[id].nullable;
    if (!found) regex_search_add(arena, &s, id);
    while (!found && !arena->failed && at < s.n && s.n <= REGEX_MOST_STATES) {
        length++;
        for (; at < level && !found && regex_count_work(arena, 1); at++)
            for (size_t c = 0; c < arena->n_classes && !found; c++) {
                Regex next = regex_derive(arena, s.states[at], arena->byte_of[c]);
                if (next == REGEX_NONE) continue;
                found = arena->nodes[next].nullable;
                if (!regex_search_add(arena, &s, next)) break;
            }
        level = s.n;
    }
    regex_search_free(&s);
    return found ? length : UINT32_MAX;
}

static uint32_t add_lengths(uint32_t a, uint32_t b) {
    return b < UINT32_MAX - a ? a + b : UINT32_MAX;
}

/* Parts are asked for their own lengths, so that only intersections, complements and numbers are
 * searched.
 */
static uint32_t shortest_at(RegexArena *arena, Regex id, unsigned depth) {
    RegexNode n = arena->nodes[id];
    uint32_t length = UINT32_MAX;
    if (n.shortest) return n.shortest - 1;
    if (n.live == 2 || depth > REGEX_MOST_DEPTH || arena->failed) return UINT32_MAX;
    if (n.nullable) {
        length = 0;
    } else if (n.kind == RE_CONCAT) {
        length =
            add_lengths(shortest_at(arena, n.a, depth + 1), shortest_at(arena, n.b, depth + 1));
    } else if (n.kind == RE_OR) {
        for (size_t i = 0; i < n.b; i++) {
            uint32_t own = shortest_at(arena, arena->lists[n.a + i], depth + 1);
            if (own < length) length = own;
        }
    } else if (n.kind == RE_REPEAT) {
        uint64_t all = (uint64_t)shortest_at(arena, n.a, depth + 1) * n.b;
        length = all < UINT32_MAX ? (uint32_t)all : UINT32_MAX;
    } else if (n.kind == RE_SET) {
        length = 1;
    } else {
        length = search_shortest(arena, id);
    }
    if (!arena->failed && length != UINT32_MAX) arena->nodes[id].shortest = length + 1;
    return length;
}

uint32_t regex_shortest(RegexArena *arena, Regex id) {
    return shortest_at(arena, id, 0);
}
