/* The common half of the importers: collects a tokenizer's parts and writes the section.
 *
 * Failures of memory are remembered in `failed` and reported by builder_finish, so that the
 * importers read straight. */
#ifndef TOKENIZER_BUILD_H
#define TOKENIZER_BUILD_H

#include "formats/tokenizer_import.h"
#include "tokenizer_section.h"

typedef struct BuildToken {
    TextRange text; /* the piece as the source writes it, in `pool` */
    TextRange key;  /* what the model looks up; equal to text unless byte-level */
    double score;
    uint32_t flags; /* BUILD_* */
} BuildToken;

enum {
    BUILD_PRESENT = 1,  /* the id stands for a token */
    BUILD_IN_MODEL = 2, /* the model may produce it (it is in the hash of keys) */
    BUILD_SPECIAL = 4,
    BUILD_PIECE = 8 /* Unigram: a piece of the lattice */
};

typedef struct BuildMerge {
    uint32_t left, right, rank, into;
} BuildMerge;

/* What the decoder does, in the tokenizers library's terms. */
typedef enum DecoderOp {
    DECODER_BYTE_LEVEL,
    DECODER_BPE,       /* a: suffix */
    DECODER_METASPACE, /* a: replacement; n: drops it in the first token */
    DECODER_BYTE_FALLBACK,
    DECODER_FUSE,
    DECODER_STRIP,          /* a: character; n: at the start; m: at the end */
    DECODER_REPLACE,        /* a: PCRE2 pattern; b: replacement */
    DECODER_REPLACE_STRING, /* a by b */
    DECODER_JOIN            /* a space before every token but the first: no decoder at all */
} DecoderOp;

typedef struct BuildDecoder {
    DecoderOp op;
    TextRange a, b;
    uint32_t n, m;
} BuildDecoder;

typedef struct Builder {
    SectionHeader header; /* model, flags, ids, affixes, unk_score: set by the importer */
    char *pool;
    size_t pool_length, pool_capacity;
    BuildToken *tokens; /* [header.n_symbols] */
    size_t tokens_capacity;
    BuildMerge *merges;
    size_t n_merges, merges_capacity;
    AddedRecord *added;
    TextRange *added_match; /* [n_added] what is looked for */
    size_t n_added, added_capacity;
    StepRecord normalizers[SECTION_MAX_STEPS], splits[SECTION_MAX_STEPS];
    size_t n_normalizers, n_splits;
    BuildDecoder decoders[SECTION_MAX_STEPS];
    size_t n_decoders;
    int32_t prefix[64], suffix[64], eos[64];
    size_t n_prefix, n_suffix, n_eos;
    uint32_t bytes[256]; /* TOKENIZER_NONE where a byte has no symbol */
    bool has_bytes, cuts;
    const void *charsmap;
    size_t charsmap_size;
    uint32_t *index; /* hash of keys while building */
    size_t index_mask;
    bool failed;
} Builder;

void builder_init(Builder *b);
void builder_free(Builder *b);

/* Keeps a copy of bytes[n]. */
TextRange builder_text(Builder *b, const char *bytes, size_t n);
const char *builder_bytes(const Builder *b, TextRange range);

/* Sets token `id` (ids may come in any order, below 2 million). Fails when it is set already. */
Status builder_token(Builder *b, int64_t id, const char *text, size_t n, double score,
                     uint32_t flags, Error *error);

/* Builds the look-up of keys; tokens set later are not in it. */
void builder_index(Builder *b);
/* The symbol of a key among BUILD_IN_MODEL tokens, or TOKENIZER_NONE. */
uint32_t builder_find(const Builder *b, const char *key, size_t n);
/* The id of `<0xNN>`, or TOKENIZER_NONE. */
uint32_t builder_find_byte(const Builder *b, unsigned byte);
/* Fills bytes[] with the ids of `<0x00>` to `<0xFF>`. */
void builder_byte_tokens(Builder *b);

void builder_merge(Builder *b, uint32_t left, uint32_t right, uint32_t rank, uint32_t into);
/* Every split of every BUILD_IN_MODEL token into two symbols is a merge, ranked by score (the
 * highest first): SentencePiece, tiktoken, llama2.c. Characters that are no token themselves
 * become symbols beyond n_tokens, unless the keys are bytes. */
void builder_merges_by_score(Builder *b);

/* Each returns false when there are too many. */
bool builder_normalizer(Builder *b, uint32_t op, uint32_t flags, TextRange a, TextRange b_text);
bool builder_split(Builder *b, uint32_t op, uint32_t flags, TextRange a);
bool builder_decoder(Builder *b, DecoderOp op, TextRange a, TextRange b_text, uint32_t n,
                     uint32_t m);

/* An added token; a second one with the same id replaces the first. Where ADDED_NORMALIZED, what
 * is looked for in the text is the normalized form, which builder_finish works out. */
void builder_added(Builder *b, uint32_t id, uint32_t flags, const char *text, size_t n);

void builder_eos(Builder *b, int64_t id);
bool builder_prefix(Builder *b, int64_t id);
bool builder_suffix(Builder *b, int64_t id);

/* Checks, writes the section and opens it once as the runner would. */
Status builder_finish(Builder *b, TokenizerBlob *out, Error *error);

/* What a pattern is written for. */
typedef enum RegexFlavour {
    REGEX_ONIGURUMA, /* tokenizer.json */
    REGEX_RUST       /* tiktoken (fancy-regex) */
} RegexFlavour;

/* Translates a pattern into the PCRE2 pattern that matches the same. Refuses by name what PCRE2
 * cannot take. */
Status regex_translate(Builder *b, const char *pattern, size_t n, RegexFlavour flavour,
                       TextRange *out, Error *error);
/* Adds the split by a pattern, translated; a few known patterns as steps that do the same in linear
 * time. */
Status regex_split(Builder *b, const char *pattern, size_t n, RegexFlavour flavour, uint32_t flags,
                   Error *error);
/* The pattern that matches exactly text[n]. */
TextRange regex_literal(Builder *b, const char *text, size_t n);

#endif
