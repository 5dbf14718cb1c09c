/* The numeric revisions (numeric.h) that this program knows, and where the programs of earlier ones
 * are found: a receipt of another revision is answered with the version and the commit.
 *
 * Raising NUMERIC_REVISION needs three lines: the hash of the commit before it as `last` of the
 * revision that ends, a new row in revisions.c, and both in docs/numerics.md. The new row's `first`
 * is not known until the commit has been made; any later commit fills it in.
 * scripts/rebuild-revision reads the rows. */
#ifndef REVISIONS_H
#define REVISIONS_H

typedef struct Revision {
    int number;
    const char *version;      /* that its receipts bear; NULL: they would name none */
    const char *first, *last; /* commits; first NULL: not filled in yet; last NULL: it goes on */
} Revision;

/* NULL: a later revision, or one that never was. */
const Revision *revision_find(long long number);

/* In rising order; NULL past the end. */
const Revision *revision_at(int i);

#endif
