#include "constraint/regex_safe_run.h"

#include <stdlib.h>

#include "constraint/regex_derivative.h"
#include "constraint/regex_internal.h"
#include "constraint/regex_search.h"

/* The bytes of well-formed UTF-8, one byte of each class: first bytes by what must follow. */
enum { N_LEADS = 9 };

typedef struct Bytes {
    uint8_t n, bytes[128];
} Bytes;

typedef struct Utf8Classes {
    Bytes first[N_LEADS], second[N_LEADS], later;
} Utf8Classes;

static const struct {
    uint8_t low, high;           /* first bytes */
    uint8_t n;                   /* bytes that follow */
    uint8_t low_next, high_next; /* the next of them */
} utf8_leads[N_LEADS] = {
    {0x20, 0x7F, 0, 0, 0},       {0xC2, 0xDF, 1, 0x80, 0xBF}, {0xE0, 0xE0, 2, 0xA0, 0xBF},
    {0xE1, 0xEC, 2, 0x80, 0xBF}, {0xED, 0xED, 2, 0x80, 0x9F}, {0xEE, 0xEF, 2, 0x80, 0xBF},
    {0xF0, 0xF0, 3, 0x90, 0xBF}, {0xF1, 0xF3, 3, 0x80, 0xBF}, {0xF4, 0xF4, 3, 0x80, 0x8F},
};

static void collect_bytes(const RegexArena *arena, unsigned low, unsigned high, Bytes *out) {
    bool done[256] = {false};
    for (unsigned b = low; b <= high; b++) {
        if (done[arena->class_of[b]] || b == '"' || b == '\\') continue;
        done[arena->class_of[b]] = true;
        out->bytes[out->n++] = (uint8_t)b;
    }
}

static const Utf8Classes *utf8_classes(RegexArena *arena) {
    if (arena->utf8) return arena->utf8;
    Utf8Classes *u = arena->utf8 = calloc(1, sizeof *u);
    if (!u) {
        regex_give_up(arena, "there is no memory for it");
        return NULL;
    }
    for (size_t i = 0; i < N_LEADS; i++) {
        collect_bytes(arena, utf8_leads[i].low, utf8_leads[i].high, &u->first[i]);
        if (utf8_leads[i].n > 0)
            collect_bytes(arena, utf8_leads[i].low_next, utf8_leads[i].high_next, &u->second[i]);
    }
    collect_bytes(arena, 0x80, 0xBF, &u->later);
    return u;
}

/* Adds the states after each text of n bytes, the first one of `bytes`. False: one leads nowhere.
 */
static bool add_texts(RegexArena *arena, const Utf8Classes *u, RegexSearch *out, Regex from,
                      const Bytes *bytes, unsigned n) {
    Regex last = REGEX_NONE;
    for (unsigned i = 0; i < bytes->n; i++) {
        Regex next = regex_derive(arena, from, bytes->bytes[i]);
        if (next == REGEX_NONE) return false;
        if (next == last) continue;
        last = next;
        if (n > 1 ? !add_texts(arena, u, out, next, &u->later, n - 1)
                  : !regex_search_add(arena, out, next))
            return false;
    }
    return true;
}

static bool add_characters(RegexArena *arena, RegexSearch *out, Regex from) {
    const Utf8Classes *u = utf8_classes(arena);
    if (!u || !add_texts(arena, u, out, from, &u->first[0], 1)) return false;
    for (size_t i = 1; i < N_LEADS; i++)
        for (unsigned k = 0; k < u->first[i].n; k++) {
            Regex next = regex_derive(arena, from, u->first[i].bytes[k]);
            if (next == REGEX_NONE ||
                !add_texts(arena, u, out, next, &u->second[i], utf8_leads[i].n))
                return false;
        }
    return true;
}

/* Searches the states after one safe character, after two and so on, as long as every safe
 * character leads somewhere from every state. A character that adds no new state makes the run
 * unlimited. */
int regex_safe_run(RegexArena *arena, Regex id) {
    if (arena->nodes[id].run >= 0) return arena->nodes[id].run;
    RegexSearch s = {0};
    int run = 0;
    size_t at = 0, level = 1;
    bool going = regex_search_add(arena, &s, id);
    while (going && run < REGEX_RUN_MOST && s.n <= 256) {
        for (; at < level && going; at++) going = add_characters(arena, &s, s.states[at]);
        if (!going) break;
        if (s.n == level) { /* nothing new */
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
