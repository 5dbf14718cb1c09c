#include "draft/lookup.h"

#include <stdlib.h>

/* Shortest suffix that counts as a match, and the longest that is compared. */
enum { MATCH_LEAST = 2, MATCH_MOST = 16 };

/* Initial draft length; longest back-off after misses; match length that overrides it. */
enum { FIRST_DRAFTS = 3, LONGEST_PAUSE = 32, MATCH_STRONG = 8 };

enum { WORTHWHILE_BYTES = 64 << 20 };

typedef struct Lookup {
    Drafter drafter;
    size_t length; /* of the next draft at most */
    size_t misses; /* drafts without a right token, in a row */
    size_t pause;  /* matches to pass over before the next draft */
} Lookup;

size_t lookup_default(const ModelFile *file) {
    return modelfile_bytes(file) >= WORTHWHILE_BYTES ? LOOKUP_DRAFTS : 0;
}

bool lookup_rows_are_cheap(const ModelFile *file) {
    return modelfile_bytes(file) >= WORTHWHILE_BYTES && modelfile_config(file)->experts.count == 0;
}

/* Index just after the latest earlier occurrence of the text's longest repeated suffix; *length is
 * the suffix's, 0 when none is repeated. */
static size_t find_match(const int32_t *text, size_t n_text, size_t *length) {
    const int32_t *last = text + n_text - 1;
    size_t best = 0;
    *length = 0;
    for (size_t at = n_text - 1; at-- > 0 && *length < MATCH_MOST;) {
        size_t n = 0;
        while (n <= at && n < MATCH_MOST && text[at - n] == *(last - n)) n++;
        if (n < MATCH_LEAST || n <= *length) continue;
        *length = n;
        best = at + 1;
    }
    return best;
}

static size_t lookup_propose(Drafter *drafter, const int32_t *text, size_t n, int32_t *drafts,
                             size_t most) {
    Lookup *l = (Lookup *)drafter;
    size_t match, from = find_match(text, n, &match);
    if (match == 0) return 0;
    if (l->pause > 0 && match < MATCH_STRONG) {
        l->pause--;
        return 0;
    }
    if (most > l->length) most = l->length;
    /* A match that reaches the end of the text goes on with the drafts themselves. */
    for (size_t i = 0; i < most; i++)
        drafts[i] = from + i < n ? text[from + i] : drafts[from + i - n];
    return most;
}

static void lookup_learn(Drafter *drafter, size_t n, size_t accepted) {
    Lookup *l = (Lookup *)drafter;
    if (accepted == n) {
        l->length = 2 * l->length < drafter->most ? 2 * l->length : drafter->most;
    } else {
        l->length = accepted > 0 ? accepted : 1;
    }
    l->misses = accepted > 0 ? 0 : l->misses + 1;
    if (accepted == 0) l->pause = l->misses < 5 ? (size_t)1 << l->misses : LONGEST_PAUSE;
}

static void lookup_free(Drafter *drafter) {
    free(drafter);
}

Drafter *lookup_new(size_t most) {
    Lookup *l = calloc(1, sizeof *l);
    if (!l) return NULL;
    if (most > DRAFTS_MAX) most = DRAFTS_MAX;
    l->drafter = (Drafter){
        .most = most, .propose = lookup_propose, .learn = lookup_learn, .free = lookup_free};
    l->length = most < FIRST_DRAFTS ? most : FIRST_DRAFTS;
    return &l->drafter;
}
