#include "batch/batch_memory.h"

#include "base/size.h"
#include "system/free_memory.h"

Status batch_memory(const char *text, size_t *bytes, Error *error) {
    if (text) return size_parse(text, "--kv-memory", bytes, error);
    *bytes = (size_t)(free_memory_bytes() / 2.0);
    return STATUS_OK;
}
