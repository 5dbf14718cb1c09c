#include "proof/revisions.h"

#include <stddef.h>

/* clang-format off */
static const Revision revisions[] = {
    {1, NULL, "7c12df55e8eba22cdee14a5f160a5745b3eab580", "f2bb07fb2c00b56fb4ab2b6ccf7eba4f0812e146"},
    {2, "0.1", "f3b15b3193d6510d63733315c2add017b78ddd39", NULL},
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
