/* SentencePiece's precompiled character map (`precompiled_charsmap`): strings and what replaces
 * them. A little-endian uint32_t size, a double array of that many bytes (a Darts-clone trie), then
 * NUL-terminated strings. The map may hold anything; look-ups stay inside it. */
#ifndef TOKENIZER_CHARSMAP_H
#define TOKENIZER_CHARSMAP_H

#include <stdbool.h>
#include <stddef.h>

typedef struct Charsmap {
    const char *units; /* uint32_t[n_units], perhaps unaligned */
    size_t n_units;
    const char *strings;
    size_t strings_size;
} Charsmap;

/* Opens the map in bytes[size], which it borrows. Returns false when the double array does not fit
 * into it. */
bool charsmap_open(Charsmap *map, const void *bytes, size_t size);

/* The length of the longest (or shortest) key that text[n] begins with, and its replacement
 * to[to_length], which is well-formed UTF-8; 0, with *to and *to_length as
 * they were, where there is none or it would cut a character. */
size_t charsmap_find(const Charsmap *map, const char *text, size_t n, bool shortest,
                     const char **to, size_t *to_length);

#endif
