#include "json/json_memory.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static _Noreturn void end_program(void) {
    dprintf(STDERR_FILENO, "%s: no memory for JSON\n", program_invocation_short_name);
    _exit(1);
}

static void *json_allocate(size_t bytes) {
    void *memory = malloc(bytes ? bytes : 1);
    if (!memory) end_program();
    return memory;
}

void json_memory_guard(void) {
    json_set_alloc_funcs(json_allocate, free);
}

void json_memory_refused(void) {
    json_malloc_t allocate;
    json_free_t release;
    json_get_alloc_funcs(&allocate, &release);
    if (allocate == json_allocate) end_program();
}
