#include "proof/revisions.h"

#include <stddef.h>

#include "numeric.h"

/* clang-format off */
static const Revision revisions[] = {
    {1, NULL, "7c12df55e8eba22cdee14a5f160a5745b3eab580", "f2bb07fb2c00b56fb4ab2b6ccf7eba4f0812e146", NULL},
    {2, "0.1", "f3b15b3193d6510d63733315c2add017b78ddd39", "d06c161278441493afb59828dc50cb51732c5a75", NULL},
    {3, "0.1", "52e7b0864b852bd3226c5007e0efe194de195d8b", NULL, "white space in answers of a JSON shape"},
};
/* clang-format on */

enum { N_REVISIONS = sizeof revisions / sizeof *revisions };

const Revision *revision_at(int i) {
    return i < N_REVISIONS ? &revisions[i] : NULL;
}

const Revision *revision_find(long long number) {
    for (int i = 0; i < N_REVISIONS; i++)
        if (revisions[i].number == number) return &revisions[i];
    return NULL;
}

const char *revision_changes_since(long long number) {
    const Revision *next = number < NUMERIC_REVISION ? revision_find(number + 1) : NULL;
    /* Only one step has been described so far: of two, all results may differ. */
    return next && next->number == NUMERIC_REVISION ? next->changed : NULL;
}
