/* How much memory the KV cache of a batch may use. */
#ifndef BATCH_MEMORY_H
#define BATCH_MEMORY_H

#include "base/status.h"

/* Reads a size (base/size.h). For NULL it takes half of the memory that is free in the machine and
 * in the process's control group. STATUS_USAGE when `text` is not a size. */
Status batch_memory(const char *text, size_t *bytes, Error *error);

#endif
