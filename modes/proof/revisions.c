#include "modes/proof/revisions.h"

#include <stdio.h>

#include "core/numeric.h"

/* clang-format off */
static const Revision revisions[] = {
    {1, NULL, "7c12df55e8eba22cdee14a5f160a5745b3eab580", "f2bb07fb2c00b56fb4ab2b6ccf7eba4f0812e146", NULL, false},
    {2, "0.1", "f3b15b3193d6510d63733315c2add017b78ddd39", "d06c161278441493afb59828dc50cb51732c5a75", NULL, false},
    {3, "0.1", "52e7b0864b852bd3226c5007e0efe194de195d8b", "e003927206ccc71236ea58feb4b277ab33afe060", "white space in answers of a JSON shape", true},
    {4, "0.1", NULL, NULL, "keys and white space in answers of a JSON shape; arguments of tools' calls; ids beyond 64 bits", false},
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

bool revision_changes_since(long long number, char *text, size_t size) {
    size_t length = 0;
    const Revision *next;
    if (number >= NUMERIC_REVISION) return false;
    while ((next = revision_find(++number))) {
        if (!next->changed || length >= size) return false;
        int n =
            snprintf(text + length, size - length, "%s%s", length > 0 ? "; " : "", next->changed);
        length += n > 0 ? (size_t)n : 0;
    }
    return length > 0 && length < size;
}
