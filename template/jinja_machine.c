#include "template/jinja_machine.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct Chunk {
    struct Chunk *next;
    max_align_t data[];
} Chunk;

enum { CHUNK_SIZE = 256 << 10, BYTES_PER_STEP = 64, SLOW_BYTES_PER_STEP = 4 };

void jinja_machine_init(Machine *m, const struct Builtins *builtins, Error *error) {
    *m = (Machine){.memory_left = MAX_MEMORY, .steps_left = MAX_STEPS};
    m->builtins = builtins;
    m->error = error;
}

void jinja_machine_free(Machine *m) {
    for (Chunk *chunk = m->chunks, *next; chunk; chunk = next) {
        next = chunk->next;
        free(chunk);
    }
    m->chunks = NULL;
}

static void add_chunk(Machine *m, size_t size) {
    if (size > m->memory_left) jinja_fail(m, "the template needs too much memory");
    Chunk *chunk = calloc(1, sizeof *chunk + size);
    if (!chunk) jinja_fail(m, "out of memory");
    m->memory_left -= size;
    chunk->next = m->chunks;
    m->chunks = chunk;
    m->at = (uint8_t *)chunk->data;
    m->end = m->at + size;
}

void *jinja_allocate(Machine *m, size_t size) {
    if (size > m->memory_left) jinja_fail(m, "the template needs too much memory");
    size = round_up(size, sizeof(max_align_t));
    jinja_spend(m, size);
    if (size > CHUNK_SIZE / 4) { /* a chunk of its own; the current chunk stays in use */
        uint8_t *at = m->at, *end = m->end;
        add_chunk(m, size);
        void *result = m->at;
        m->at = at, m->end = end;
        return result;
    }
    if ((size_t)(m->end - m->at) < size) add_chunk(m, CHUNK_SIZE);
    void *result = m->at;
    m->at += size;
    return result;
}

void *jinja_allocate_array(Machine *m, size_t count, size_t size) {
    size_t bytes;
    if (!size_mul(count, size, &bytes)) jinja_fail(m, "the template needs too much memory");
    return jinja_allocate(m, bytes);
}

void jinja_reserve(Machine *m, void *array, size_t *capacity, size_t count, size_t needed,
                   size_t item_size) {
    if (needed <= *capacity) return;
    size_t larger = *capacity ? 2 * *capacity : 8;
    if (larger < needed) larger = needed;
    void *items = jinja_allocate_array(m, larger, item_size);
    if (count) memcpy(items, *(void **)array, count * item_size);
    *(void **)array = items;
    *capacity = larger;
}

void jinja_spend(Machine *m, size_t bytes) {
    size_t steps = 1 + bytes / BYTES_PER_STEP;
    if (m->steps_left < steps) {
        m->steps_left = 0;
        jinja_fail(m, "the template takes too long");
    }
    m->steps_left -= steps;
}

void jinja_spend_slow(Machine *m, size_t bytes) {
    jinja_spend(m, bytes * (BYTES_PER_STEP / SLOW_BYTES_PER_STEP));
}

void jinja_enter(Machine *m) {
    jinja_spend(m, 0);
    if (++m->depth > MAX_DEPTH) jinja_fail(m, "the template is nested too deeply");
}

NORETURN void jinja_fail(Machine *m, const char *format, ...) {
    char text[sizeof m->error->text];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    error_set(m->error, "chat template, line %d: %s", m->line, text);
    longjmp(m->failed, 1);
}

NORETURN void jinja_fail_verbatim(Machine *m, const void *message, size_t length) {
    if (length > sizeof m->error->text) length = sizeof m->error->text;
    error_set(m->error, "%.*s", (int)length, (const char *)message);
    longjmp(m->failed, 1);
}
