/* The numeric revisions (core/numeric.h) that this program knows, and where the programs of earlier
 * ones are found: a receipt of another revision is answered with the version and the commit.
 *
 * Raising NUMERIC_REVISION needs three lines: the hash of the commit before it as `last` of the
 * revision that ends, a new row in revisions.c, and both in docs/numerics.md. The new row's `first`
 * is not known until the commit has been made; any later commit fills it in.
 * scripts/rebuild-revision reads the rows. */
#ifndef REVISIONS_H
#define REVISIONS_H

#include <stdbool.h>
#include <stddef.h>

typedef struct Revision {
    int number;
    const char *version; /* the version that its receipts bear; NULL: none */
    const char *first;   /* commit; NULL: not filled in yet */
    const char *last;    /* commit; NULL: the revision goes on */
    const char *changed; /* which results differ from the revision before; NULL: all may */
    /* This program repeats its receipts by its rule: JSON of a shape in any form (receipt_read). */
    bool repeated;
} Revision;

/* NULL: a later revision, or one that never was. */
const Revision *revision_find(long long number);

/* Writes which results of this program differ from those of an earlier revision, for a message;
 * false: all may, or the revision is not an earlier one. */
bool revision_changes_since(long long number, char *text, size_t size);

/* In rising order; NULL past the end. */
const Revision *revision_at(int i);

#endif
