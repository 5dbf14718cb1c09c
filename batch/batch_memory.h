/* How much memory a batch may fill with keys and values. */
#ifndef BATCH_MEMORY_H
#define BATCH_MEMORY_H

#include "base/status.h"

/* "512M", "1.5GiB", "8000000": K, M, G and T are powers of 1024. NULL asks for half of what the
 * machine, or the control group that the process lives in, has free now. STATUS_USAGE when it is
 * no size. */
Status batch_memory(const char *text, size_t *bytes, Error *error);

#endif
