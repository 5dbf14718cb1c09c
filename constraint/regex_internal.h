/* What the files about regular expressions share. */
#ifndef CONSTRAINT_REGEX_INTERNAL_H
#define CONSTRAINT_REGEX_INTERNAL_H

#include "constraint/regex.h"

enum { REGEX_MOST_DEPTH = 4000 }; /* of expressions in each other */

/* Notes why the arena gave up, and returns REGEX_NONE. */
Regex regex_give_up(RegexArena *arena, const char *why);

/* Finds the node that equals `node`, or makes it. items[node.b]: the items of a list node. */
Regex regex_intern(RegexArena *arena, RegexNode node, const uint32_t *items);

static inline bool regex_is_list(unsigned kind) {
    return kind == RE_OR || kind == RE_AND;
}

static inline uint64_t regex_mix(uint64_t h, uint64_t x) {
    h = (h ^ x) * 0x9E3779B97F4A7C15u;
    return h ^ h >> 29;
}

/* A list of items on its way to a node. */
typedef struct RegexItems {
    uint32_t *ids;
    size_t n, capacity;
    uint32_t few[32];
} RegexItems;

/* Adds an item, or the items of an item of the same kind. */
void regex_items_add(RegexArena *arena, RegexItems *items, unsigned kind, Regex id);
void regex_items_free(RegexItems *items);
/* The union and the intersection of the items. */
Regex regex_make_or(RegexArena *arena, RegexItems *items);
Regex regex_make_and(RegexArena *arena, RegexItems *items);

#endif
