#include "formats/json_memory.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void *json_allocate(size_t bytes) {
    void *memory = malloc(bytes ? bytes : 1);
    if (memory) return memory;
    dprintf(STDERR_FILENO, "%s: no memory for JSON\n", program_invocation_short_name);
    _exit(1);
}

void json_memory_guard(void) {
    json_set_alloc_funcs(json_allocate, free);
}
