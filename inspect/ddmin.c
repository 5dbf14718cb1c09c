#include "inspect/ddmin.h"

#include <stdlib.h>
#include <string.h>

/* Fills part[] with piece number `piece` of the things cut into `pieces`, or with all others.
 * Returns how many. */
static size_t select_part(const size_t *things, size_t n, size_t pieces, size_t piece, bool others,
                          size_t *part) {
    size_t begin = n * piece / pieces, end = n * (piece + 1) / pieces, k = 0;
    for (size_t i = 0; i < n; i++)
        if ((i >= begin && i < end) != others) part[k++] = things[i];
    return k;
}

/* Tries each piece, or all but each, until one passes: then it replaces the things. */
static Status reduce(size_t *things, size_t *n, size_t pieces, bool others, DdminTest *test,
                     void *context, size_t *part, bool *reduced, Error *error) {
    for (size_t piece = 0; piece < pieces; piece++) {
        size_t k = select_part(things, *n, pieces, piece, others, part);
        bool passes = false;
        if (k == 0 || k == *n) continue;
        Status status = test(context, part, k, &passes, error);
        if (status != STATUS_OK) return status;
        if (!passes) continue;
        memcpy(things, part, k * sizeof *part);
        *n = k;
        *reduced = true;
        return STATUS_OK;
    }
    return STATUS_OK;
}

Status ddmin(size_t *things, size_t *n, DdminTest *test, void *context, Error *error) {
    size_t *part = malloc((*n + 1) * sizeof *part), pieces = 2;
    Status status = part ? STATUS_OK : error_set(error, "no memory to search in");
    while (status == STATUS_OK && *n >= 2) {
        bool piece_passes = false, rest_passes = false;
        if (pieces > *n) pieces = *n;
        status = reduce(things, n, pieces, false, test, context, part, &piece_passes, error);
        if (status == STATUS_OK && !piece_passes && pieces > 2)
            status = reduce(things, n, pieces, true, test, context, part, &rest_passes, error);
        if (piece_passes) {
            pieces = 2;
        } else if (rest_passes) {
            pieces--;
        } else if (pieces == *n) {
            break;
        } else {
            pieces *= 2;
        }
    }
    free(part);
    return status;
}
