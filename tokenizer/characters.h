/* What normalizers do with the properties of characters, which the core leaves out. */
#ifndef TOKENIZER_CHARACTERS_H
#define TOKENIZER_CHARACTERS_H

#include "tokenizer/tokenizer_parts.h"

typedef struct Characters {
    /* Appends what a step that knows properties of characters makes of *in. */
    Status (*normalize)(Encoding *e, const StepRecord *step, TextBuffer *out, TextSpan *in);
    /* The length of the longest prefix of text[n] that the character map replaces, and by what. */
    size_t (*charsmap_replacement)(const Tokenizer *t, const char *text, size_t n, const char **to,
                                   size_t *to_length);
    bool (*charsmap_is_sound)(const void *bytes, size_t n);
} Characters;

extern const Characters characters;

#endif
