/* Patterns by which several tokenizers split text, as their tokenizer.json files write them. */
#ifndef FORMATS_TOKENIZER_PATTERNS_H
#define FORMATS_TOKENIZER_PATTERNS_H

#define PATTERN_CONTRACTIONS "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define PATTERN_SPACES "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define PATTERN_WORDS PATTERN_CONTRACTIONS "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|"
#define PATTERN_PUNCTUATION "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|"

#define PATTERN_GPT2                                                                               \
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"
#define PATTERN_LLAMA3 PATTERN_WORDS "\\p{N}{1,3}" PATTERN_PUNCTUATION PATTERN_SPACES

/* Jais 2: spaces in powers of two. */
#define PATTERN_JAIS2_WORDS PATTERN_WORDS "\\p{N}{1,3}" PATTERN_PUNCTUATION
#define PATTERN_JAIS2_SPACES                                                                       \
    "\\s{512}(?!\\S)|\\s{256}(?!\\S)|\\s{128}(?!\\S)|\\s{64}(?!\\S)|\\s{32}(?!\\S)|"               \
    "\\s{16}(?!\\S)|\\s{8}(?!\\S)|\\s{4}(?!\\S)|\\s{1,2}(?!\\S)|\\s{1}"
#define PATTERN_JAIS2 PATTERN_JAIS2_WORDS "\\s*[\\r\\n]+|" PATTERN_JAIS2_SPACES

#endif
