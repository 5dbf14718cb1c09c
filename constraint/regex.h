/* Regular expressions over bytes, matched by derivatives.
 *
 * The derivative of an expression by a byte is the expression for what may follow that byte
 * (Brzozowski, "Derivatives of regular expressions", 1964). Expressions are hash-consed: equal ones
 * have the same id, so that an expression is also the state of an automaton which is built only as
 * far as it is used. Intersection and complement cost no more than concatenation.
 *
 * An arena holds the expressions of one shape. What it may hold and the work that it may do are
 * counted and limited; past a limit `failed` says why, and every function returns REGEX_NONE, so
 * that a caller checks once. */
#ifndef CONSTRAINT_REGEX_H
#define CONSTRAINT_REGEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "constraint/index_table.h"

typedef uint32_t Regex;

enum { REGEX_NONE = 0 /* matches nothing */, REGEX_EMPTY = 1 /* the empty text */ };

#define REGEX_MANY UINT32_MAX  /* no upper limit of a repetition */
#define REGEX_PLAIN UINT32_MAX /* a match without a tag */

/* A set of bytes. */
typedef struct ByteSet {
    uint64_t bits[4];
} ByteSet;

static inline void byteset_add(ByteSet *set, unsigned from, unsigned to) {
    for (unsigned b = from; b <= to; b++) set->bits[b >> 6] |= (uint64_t)1 << (b & 63);
}

static inline bool byteset_has(const ByteSet *set, unsigned byte) {
    return set->bits[byte >> 6] >> (byte & 63) & 1;
}

typedef enum RegexKind {
    RE_NONE,
    RE_EMPTY,
    RE_SET,     /* one byte of set a */
    RE_CONCAT,  /* a, then b */
    RE_OR,      /* one of the items of list a (b of them) */
    RE_AND,     /* all of the items of list a (b of them) */
    RE_NOT,     /* any text that `a` does not match */
    RE_REPEAT,  /* a, from b to c times */
    RE_TAG,     /* the empty text, marked with the number a */
    RE_BOUND,   /* a decimal number without sign that compares with bound a as `b` says; c: state */
    RE_MULTIPLE /* a multiple of b, as a decimal number without sign; a: the remainder so far;
                 * c: 2 * (digits that may follow the point), plus 1 once it was read */
} RegexKind;

typedef enum RegexCompare { AT_LEAST, ABOVE, AT_MOST, BELOW } RegexCompare;

typedef struct RegexNode {
    uint8_t kind;
    bool nullable; /* matches the empty text */
    bool searched; /* holds RE_AND, RE_NOT, ...: may match nothing without being REGEX_NONE */
    uint8_t live;  /* 0: unknown, 1: matches something, 2: matches nothing */
    int8_t run;    /* regex_safe_run; -1: unknown */
    uint32_t a, b, c;
    uint32_t shortest; /* regex_shortest, + 1; 0: unknown */
    uint32_t least;    /* a length that no match is below, + 1; 0: unknown */
    uint32_t row;      /* derivatives by byte class, in `rows`; 0: none yet */
} RegexNode;

/* A decimal number: digits before and after the point. */
typedef struct RegexDecimal {
    char *digits; /* [n_whole + n_fraction], without leading zeros before and trailing ones after */
    uint32_t n_whole, n_fraction;
} RegexDecimal;

typedef struct RegexArena {
    RegexNode *nodes;
    size_t n_nodes, nodes_capacity;
    IndexTable table; /* of the nodes */
    uint32_t *lists;
    size_t n_lists, lists_capacity;
    ByteSet *sets;
    size_t n_sets, sets_capacity;
    RegexDecimal *decimals;
    size_t n_decimals, decimals_capacity;
    uint32_t *rows; /* [row + class]: derivative + 1, or 0 */
    size_t n_rows, rows_capacity;
    uint8_t class_of[256]; /* bytes that no set tells apart */
    uint8_t byte_of[256];  /* one byte of each class */
    size_t n_classes;
    Regex anything;           /* any bytes */
    struct Utf8Classes *utf8; /* of regex_safe_run; NULL: not made since the classes changed */
    size_t work, most_work, most_nodes;
    const char *failed; /* why the arena gave up; NULL: it did not */
} RegexArena;

/* Prepares an arena that may hold most_nodes expressions and do most_work steps. False: no memory.
 */
bool regex_arena_init(RegexArena *arena, size_t most_nodes, size_t most_work);
void regex_arena_free(RegexArena *arena);

/* Counts steps that a caller did for the arena's expressions. False: past the limit. */
bool regex_count_work(RegexArena *arena, size_t steps);

/* The size of an arena, to which regex_arena_rewind takes it back. Expressions made later are then
 * forgotten. */
typedef struct RegexMark {
    size_t n_nodes, n_lists, n_sets;
} RegexMark;
RegexMark regex_arena_mark(const RegexArena *arena);
void regex_arena_rewind(RegexArena *arena, RegexMark mark);
/* Bytes in use, roughly, and bytes that are allocated. */
size_t regex_arena_bytes(const RegexArena *arena);
size_t regex_arena_memory(const RegexArena *arena);

/* Constructors. They simplify, so that the result may be of another kind. */
Regex regex_set(RegexArena *arena, const ByteSet *set);
Regex regex_byte(RegexArena *arena, unsigned char byte);
Regex regex_range(RegexArena *arena, unsigned char from, unsigned char to);
Regex regex_text(RegexArena *arena, const char *bytes, size_t n);
/* One of n texts. Sorts them. */
typedef struct RegexText {
    const char *bytes;
    size_t n;
} RegexText;
Regex regex_texts(RegexArena *arena, RegexText *texts, size_t n);
Regex regex_concat(RegexArena *arena, Regex a, Regex b);
Regex regex_or(RegexArena *arena, const Regex *items, size_t n);
Regex regex_or2(RegexArena *arena, Regex a, Regex b);
Regex regex_and2(RegexArena *arena, Regex a, Regex b);
Regex regex_not(RegexArena *arena, Regex a);
Regex regex_repeat(RegexArena *arena, Regex a, uint32_t min, uint32_t max);
Regex regex_tag(RegexArena *arena, uint32_t tag);
static inline bool regex_nullable(const RegexArena *arena, Regex regex) {
    return arena->nodes[regex].nullable;
}

/* True when nothing can follow a match: the expression is the empty text, perhaps with tags. */
bool regex_is_end(const RegexArena *arena, Regex regex);

/* Writes the tags with which the empty text matches to tags[most], REGEX_PLAIN for a match without
 * one, and returns how many there are (perhaps more than `most`). */
size_t regex_tags(const RegexArena *arena, Regex regex, uint32_t *tags, size_t most);

#endif
