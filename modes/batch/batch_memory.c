#include "modes/batch/batch_memory.h"

#include "base/size.h"
#include "base/machine.h"

Status batch_memory(const char *text, size_t *bytes, Error *error) {
    if (text) return size_parse(text, "--kv-memory", bytes, error);
    *bytes = (size_t)(machine_free_memory() / 2.0);
    return STATUS_OK;
}
