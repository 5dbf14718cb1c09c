#include "modes/inspect/ddmin.h"

#include <stdlib.h>
#include <string.h>

/* A set that failed the test. */
typedef struct FailedSet {
    size_t *things; /* [n] */
    size_t n;
} FailedSet;

typedef struct Search {
    size_t *things, n; /* the smallest set that has passed */
    size_t *part;      /* [n at the beginning] */
    FailedSet *failed; /* [n_failed] of its subsets, and of sets that it was a part of */
    size_t n_failed, capacity;
    DdminTest *test;
    void *context;
} Search;

/* Fills part[] with piece number `piece` of the things cut into `pieces`, or with all others.
 * Returns how many. */
static size_t select_part(const size_t *things, size_t n, size_t pieces, size_t piece, bool others,
                          size_t *part) {
    size_t begin = n * piece / pieces, end = n * (piece + 1) / pieces, k = 0;
    for (size_t i = 0; i < n; i++)
        if ((i >= begin && i < end) != others) part[k++] = things[i];
    return k;
}

static bool has_failed(const Search *s, size_t n) {
    for (size_t i = 0; i < s->n_failed; i++)
        if (s->failed[i].n == n && memcmp(s->failed[i].things, s->part, n * sizeof *s->part) == 0)
            return true;
    return false;
}

/* Notes that part[n] has failed. Without memory it may be tested again. */
static void note_failure(Search *s, size_t n) {
    if (s->n_failed == s->capacity) {
        size_t capacity = s->capacity ? 2 * s->capacity : 64;
        FailedSet *failed = realloc(s->failed, capacity * sizeof *failed);
        if (!failed) return;
        s->failed = failed;
        s->capacity = capacity;
    }
    FailedSet *set = &s->failed[s->n_failed];
    *set = (FailedSet){malloc(n * sizeof *set->things), n};
    if (!set->things) return;
    memcpy(set->things, s->part, n * sizeof *set->things);
    s->n_failed++;
}

/* Tries each piece, or all but each, until one passes: then it replaces the things. */
static Status reduce(Search *s, size_t pieces, bool others, bool *reduced, Error *error) {
    for (size_t piece = 0; piece < pieces; piece++) {
        size_t k = select_part(s->things, s->n, pieces, piece, others, s->part);
        bool passes = false;
        if (k == 0 || k == s->n || has_failed(s, k)) continue;
        Status status = s->test(s->context, s->part, k, &passes, error);
        if (status != STATUS_OK) return status;
        if (!passes) {
            note_failure(s, k);
            continue;
        }
        memcpy(s->things, s->part, k * sizeof *s->part);
        s->n = k;
        *reduced = true;
        return STATUS_OK;
    }
    return STATUS_OK;
}

Status ddmin(size_t *things, size_t *n, DdminTest *test, void *context, Error *error) {
    Search s = {.things = things, .n = *n, .test = test, .context = context};
    size_t pieces = 2;
    s.part = malloc((*n + 1) * sizeof *s.part);
    Status status = s.part ? STATUS_OK : error_set(error, "no memory to search in");
    while (status == STATUS_OK && s.n >= 2) {
        bool piece_passes = false, rest_passes = false;
        if (pieces > s.n) pieces = s.n;
        status = reduce(&s, pieces, false, &piece_passes, error);
        if (status == STATUS_OK && !piece_passes && pieces > 2)
            status = reduce(&s, pieces, true, &rest_passes, error);
        if (piece_passes) {
            pieces = 2;
        } else if (rest_passes) {
            pieces--;
        } else if (pieces == s.n) {
            break;
        } else {
            pieces *= 2;
        }
    }
    *n = s.n;
    for (size_t i = 0; i < s.n_failed; i++) free(s.failed[i].things);
    free(s.failed);
    free(s.part);
    return status;
}
