#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "tests/tier.h"

#include <stdlib.h>
#include <string.h>

Tier tier(void) {
    const char *name = getenv("VERBATIM_TIER");
    if (!name || !*name || strcmp(name, "all") == 0) return TIER_ALL;
    if (strcmp(name, "test") == 0) return TIER_TEST;
    if (strcmp(name, "check") != 0)
        fail_msg("VERBATIM_TIER is '%s'; it must be check, test or all", name);
    return TIER_CHECK;
}

size_t tier_count(size_t check, size_t test, size_t all) {
    const size_t counts[] = {check, test, all};
    return counts[tier()];
}

bool tier_takes(size_t i, size_t check, size_t test) {
    return i % tier_count(check, test, 1) == 0;
}
