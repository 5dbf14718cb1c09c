/* A place in a text that is being read. */
#ifndef TEMPLATE_CURSOR_H
#define TEMPLATE_CURSOR_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

typedef struct Cursor {
    const char *at, *end;
} Cursor;

static inline size_t cursor_left(const Cursor *c) {
    return (size_t)(c->end - c->at);
}

static inline void cursor_skip_space(Cursor *c) {
    while (c->at < c->end && (*c->at == ' ' || *c->at == '\n' || *c->at == '\r' || *c->at == '\t'))
        c->at++;
}

/* Takes `text`, if it comes next. */
static inline bool cursor_take(Cursor *c, const char *text) {
    size_t n = strlen(text);
    if (cursor_left(c) < n || memcmp(c->at, text, n) != 0) return false;
    c->at += n;
    return true;
}

#endif
