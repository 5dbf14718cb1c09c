/* The working memory of a forward pass: one piece of memory, allocated when the model is opened.
 *
 * Its beginning is kept for a whole pass, between whose parts the number of threads may change: the
 * residual stream, inputs and outputs of branches, streams. Who needs such rows asks for them by
 * name, and whoever asks for the same name gets the same rows. After them lies what branches use
 * while they run: each begins at the same place, and no branch finds there what it left.
 *
 * Everything is asked for twice: first to count, when the memory is not there yet and every answer
 * is NULL, then to place. So sizes and places cannot differ. */
#ifndef ARENA_H
#define ARENA_H

#include <stdbool.h>
#include <stddef.h>

enum { ARENA_NAMES = 24 };

typedef struct Arena {
    char *memory; /* owned; NULL: counts only */
    size_t kept;  /* bytes for a pass */
    size_t most;  /* bytes in all, with the branch that needs the most */
    struct {
        const char *name;
        float *rows;
    } names[ARENA_NAMES];
    size_t n_names;
} Arena;

/* Memory that a branch takes piece by piece. */
typedef struct Rows {
    char *memory; /* NULL: counts only */
    size_t used;  /* bytes; SIZE_MAX: more than there can be */
} Rows;

/* n rows of `width` numbers of 4 bytes, at a multiple of 64 bytes. */
void *rows_take(Rows *rows, size_t n, size_t width);

/* The rows of this name, which live for a pass. Asked for again, n and width must be the same. */
void *arena_keep(Arena *arena, const char *name, size_t n, size_t width);

/* What a branch takes its rows from. */
Rows arena_rows(const Arena *arena);
/* Counts what a branch has taken. */
void arena_count(Arena *arena, const Rows *taken);

/* Allocates what was counted, and forgets the names, so that all is asked for again. False: there
 * is no memory for it. */
bool arena_allocate(Arena *arena);
void arena_free(Arena *arena);

#endif
