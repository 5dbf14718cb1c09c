/* A search in steps of one character: from the states (derivatives of an expression) after n safe
 * characters to those after n + 1, over every well-formed UTF-8 character. Bytes of one class lead
 * to the same state, so that one byte stands for its class. */
#include "constraint/regex_safe_run.h"

#include <stdlib.h>

#include "constraint/regex_derivative.h"
#include "constraint/regex_internal.h"
#include "constraint/regex_search.h"

/* Well-formed UTF-8 by its first byte (Unicode, table 3-7): how many bytes follow, and what the
 * second may be; later ones are 0x80 to 0xBF. */
enum { N_LEADS = 9 };
static const struct {
    uint8_t low, high;               /* first bytes */
    uint8_t n_later;                 /* bytes that follow */
    uint8_t low_second, high_second; /* second bytes */
} utf8_leads[N_LEADS] = {
    {0x20, 0x7F, 0, 0, 0},       {0xC2, 0xDF, 1, 0x80, 0xBF}, {0xE0, 0xE0, 2, 0xA0, 0xBF},
    {0xE1, 0xEC, 2, 0x80, 0xBF}, {0xED, 0xED, 2, 0x80, 0x9F}, {0xEE, 0xEF, 2, 0x80, 0xBF},
    {0xF0, 0xF0, 3, 0x90, 0xBF}, {0xF1, 0xF3, 3, 0x80, 0xBF}, {0xF4, 0xF4, 3, 0x80, 0x8F},
};

/* Bytes that stand for their classes. */
typedef struct ClassBytes {
    uint8_t n, bytes[128];
} ClassBytes;

/* The classes of the bytes of utf8_leads. */
typedef struct Utf8Classes {
    ClassBytes first[N_LEADS], second[N_LEADS], later;
} Utf8Classes;

/* Adds one byte of each class that has any from low to high, but for " and \\, which do not stand
 * for themselves in a JSON string. */
static void collect_classes(const RegexArena *arena, unsigned low, unsigned high, ClassBytes *out) {
    bool done[256] = {false};
    for (unsigned b = low; b <= high; b++) {
        if (done[arena->class_of[b]] || b == '"' || b == '\\') continue;
        done[arena->class_of[b]] = true;
        out->bytes[out->n++] = (uint8_t)b;
    }
}

/* The classes of this arena's expressions, which it keeps; NULL: no memory. */
static const Utf8Classes *utf8_classes(RegexArena *arena) {
    if (arena->utf8) return arena->utf8;
    Utf8Classes *u = arena->utf8 = calloc(1, sizeof *u);
    if (!u) {
        regex_give_up(arena, "there is no memory for it");
        return NULL;
    }
    for (size_t i = 0; i < N_LEADS; i++) {
        collect_classes(arena, utf8_leads[i].low, utf8_leads[i].high, &u->first[i]);
        if (utf8_leads[i].n_later > 0)
            collect_classes(arena, utf8_leads[i].low_second, utf8_leads[i].high_second,
                            &u->second[i]);
    }
    collect_classes(arena, 0x80, 0xBF, &u->later);
    return u;
}

/* Adds the states to which n bytes lead, one of `next_bytes` and n - 1 later bytes of a character.
 * False: one of these texts leads nowhere. */
static bool add_after_bytes(RegexArena *arena, const Utf8Classes *u, RegexSearch *out, Regex from,
                            const ClassBytes *next_bytes, unsigned n) {
    Regex last = REGEX_NONE;
    for (unsigned i = 0; i < next_bytes->n; i++) {
        Regex next = regex_derive(arena, from, next_bytes->bytes[i]);
        if (next == REGEX_NONE) return false;
        if (next == last) continue; /* the previous class led there, too */
        last = next;
        if (n > 1 ? !add_after_bytes(arena, u, out, next, &u->later, n - 1)
                  : !regex_search_add(arena, out, next))
            return false;
    }
    return true;
}

/* Adds the states after one character: of ASCII (the first of utf8_leads), then longer ones.
 * False: a character leads nowhere. */
static bool add_after_character(RegexArena *arena, RegexSearch *out, Regex from) {
    const Utf8Classes *u = utf8_classes(arena);
    if (!u || !add_after_bytes(arena, u, out, from, &u->first[0], 1)) return false;
    for (size_t i = 1; i < N_LEADS; i++)
        for (unsigned k = 0; k < u->first[i].n; k++) {
            Regex next = regex_derive(arena, from, u->first[i].bytes[k]);
            if (next == REGEX_NONE ||
                !add_after_bytes(arena, u, out, next, &u->second[i], utf8_leads[i].n_later))
                return false;
        }
    return true;
}

/* Adds the states after one safe character, after two and so on, as long as every safe character
 * leads somewhere from every state. `level` is how many states there were before the latest
 * character; where one adds none, no further one can, and the run is unlimited. */
int regex_safe_run(RegexArena *arena, Regex id) {
    if (arena->nodes[id].run >= 0) return arena->nodes[id].run;
    RegexSearch s = {0};
    int run = 0;
    size_t at = 0, level = 1;
    bool going = regex_search_add(arena, &s, id);
    while (going && run < REGEX_RUN_MOST && s.n <= 256) {
        for (; at < level && going; at++) going = add_after_character(arena, &s, s.states[at]);
        if (!going) break;
        if (s.n == level) {
            run = REGEX_RUN_ALL;
            break;
        }
        level = s.n;
        run++;
    }
    regex_search_free(&s);
    if (!arena->failed) arena->nodes[id].run = (int8_t)run;
    return arena->failed ? 0 : run;
}
