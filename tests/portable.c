#include "tests/portable.h"

static bool is_listed;

void portable_list(bool listed) {
    is_listed = listed;
}

/* What core/isa.c asks, as of any set of kernels/isa_list.h. */
bool kernels_portable_supported(void);
bool kernels_portable_supported(void) {
    return is_listed;
}
