/* Whether a model fits into the free memory of this machine, and what would. */
#ifndef FIT_H
#define FIT_H

#include "session/session.h"

/* The answer, in bytes where not said otherwise. */
typedef struct Fit {
    double free;      /* memory (base/machine.h) */
    double weights;   /* the file, which is mapped */
    double cache;     /* of one text as long as the context */
    bool weights_fit; /* with the cache of a short text */
    size_t context;   /* the longest context whose cache fits beside the weights */
    const char
        *type; /* where the weights do not fit: the best of --type whose weights do, or NULL */
    double type_bytes;   /* what they would take */
    size_t type_context; /* the longest context whose cache fits beside these */
} Fit;

/* Computes all of it for the session's model and context. */
Fit fit_of(const Session *session, double free_bytes);

/* Writes what --info says of it, "8.0 GiB free: fits, with the cache of 4096 positions". */
void fit_text(const Fit *fit, size_t context, char *text, size_t size);

/* What to know before a model whose weights do not fit is run all the same: the numbers, and the
 * type and context that would. False, and nothing written, where they do fit. */
bool fit_warning(const Session *session, double free_bytes, char *text, size_t size);

#endif
