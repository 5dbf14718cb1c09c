/* Other engines' regular expressions as PCRE2 patterns that match the same. */
#ifndef FORMATS_TOKENIZERS_TOKENIZER_REGEX_H
#define FORMATS_TOKENIZERS_TOKENIZER_REGEX_H

#include "formats/tokenizers/tokenizer_build.h"

/* The engine that a pattern is written for. */
typedef enum RegexFlavour {
    REGEX_ONIGURUMA, /* tokenizer.json */
    REGEX_RUST       /* tiktoken (fancy-regex) */
} RegexFlavour;

/* Translates a pattern into one for PCRE2 that matches the same. Refuses by name what PCRE2 cannot
 * match. */
Status regex_translate(Builder *b, const char *pattern, size_t n, RegexFlavour flavour,
                       TextRange *out, Error *error);

/* Adds the split (SPLIT_* flags) by a translated pattern. A few known patterns that would take
 * quadratic time become steps that cut a text alike in linear time. */
Status regex_split(Builder *b, const char *pattern, size_t n, RegexFlavour flavour, uint32_t flags,
                   Error *error);

/* The pattern that matches exactly text[n]. */
TextRange regex_literal(Builder *b, const char *text, size_t n);

#endif
