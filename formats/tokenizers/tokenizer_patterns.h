/* Patterns by which several tokenizers split text, as their tokenizer.json files write them. */
#ifndef FORMATS_TOKENIZERS_TOKENIZER_PATTERNS_H
#define FORMATS_TOKENIZERS_TOKENIZER_PATTERNS_H

#define PATTERN_CONTRACTIONS "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define PATTERN_SPACES "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define PATTERN_WORDS PATTERN_CONTRACTIONS "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|"
#define PATTERN_PUNCTUATION "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|"

#define PATTERN_GPT2                                                                               \
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"
#define PATTERN_LLAMA3 PATTERN_WORDS "\\p{N}{1,3}" PATTERN_PUNCTUATION PATTERN_SPACES

#define PATTERN_QWEN2 PATTERN_WORDS "\\p{N}" PATTERN_PUNCTUATION PATTERN_SPACES

/* A word begins with its upper-case letters; `tail` may follow its end. */
#define PATTERN_CASED(tail)                                                                        \
    "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*"                                  \
    "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]+" tail                                                          \
    "|[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+"                                 \
    "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]*" tail
#define PATTERN_GPT4O                                                                              \
    PATTERN_CASED(PATTERN_CONTRACTIONS "?")                                                        \
    "|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|" PATTERN_SPACES
#define PATTERN_TEKKEN PATTERN_CASED("") "|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|" PATTERN_SPACES

/* Jais 2: spaces in powers of two. */
#define PATTERN_JAIS2_WORDS PATTERN_WORDS "\\p{N}{1,3}" PATTERN_PUNCTUATION
#define PATTERN_JAIS2_SPACES                                                                       \
    "\\s{512}(?!\\S)|\\s{256}(?!\\S)|\\s{128}(?!\\S)|\\s{64}(?!\\S)|\\s{32}(?!\\S)|"               \
    "\\s{16}(?!\\S)|\\s{8}(?!\\S)|\\s{4}(?!\\S)|\\s{1,2}(?!\\S)|\\s{1}"
#define PATTERN_JAIS2 PATTERN_JAIS2_WORDS "\\s*[\\r\\n]+|" PATTERN_JAIS2_SPACES

#endif
