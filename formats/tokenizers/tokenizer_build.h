/* The common half of the importers: a Builder collects the parts of a tokenizer, and
 * tokenizer_write (tokenizer_write.h) makes the section from them.
 *
 * When memory runs out `failed` is set and tokenizer_write reports it, so that importers need not
 * check every call. */
#ifndef TOKENIZER_BUILD_H
#define TOKENIZER_BUILD_H

#include "formats/tokenizers/tokenizer_import.h"
#include "tokenizer/tokenizer_section.h"

typedef struct BuildToken {
    TextRange text; /* the token as the source writes it, in `pool` */
    TextRange key;  /* the bytes that the model looks up; differs from text if byte-level */
    double score;
    uint32_t flags; /* BUILD_* */
    uint32_t added; /* 1 + its index in Builder.added, or 0 */
} BuildToken;

enum {
    BUILD_PRESENT = 1,  /* the id was given a token */
    BUILD_IN_MODEL = 2, /* the model may produce it, so its key is in the index */
    BUILD_SPECIAL = 4,
    BUILD_PIECE = 8,  /* Unigram: may be a piece of the lattice */
    BUILD_SILENT = 16 /* decodes to nothing, unless it is an added token */
};

typedef struct BuildMerge {
    uint32_t left, right, rank, into;
} BuildMerge;

/* The steps of decoding, as the tokenizers library has them; a, b, n, m are BuildDecoder's.
 */
typedef enum DecoderOp {
    DECODER_BYTE_LEVEL,
    DECODER_BPE,       /* a: suffix */
    DECODER_METASPACE, /* a: replacement; n: 1 if the first token loses it */
    DECODER_BYTE_FALLBACK,
    DECODER_FUSE,
    DECODER_STRIP,          /* a: character; n: how many at the start; m: at the end */
    DECODER_REPLACE,        /* a: PCRE2 pattern; b: replacement */
    DECODER_REPLACE_STRING, /* a: text; b: replacement */
    DECODER_JOIN /* puts a space before every token but the first: the file has no decoder */
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
    TextRange *added_match; /* [n_added] the text that is searched for */
    size_t n_added, added_capacity, added_match_capacity;
    uint32_t *added_index; /* hash table of the added tokens' texts */
    size_t added_index_size;
    StepRecord normalizers[SECTION_MAX_STEPS], splits[SECTION_MAX_STEPS];
    size_t n_normalizers, n_splits;
    BuildDecoder decoders[SECTION_MAX_STEPS];
    size_t n_decoders;
    int32_t prefix[64], suffix[64], eos[64];
    size_t n_prefix, n_suffix, n_eos;
    uint32_t bytes[256]; /* the symbol of each byte; TOKENIZER_NONE: it has none */
    bool has_bytes, cuts;
    const void *charsmap;
    size_t charsmap_size;
    uint32_t *index; /* hash table of keys, used while building */
    size_t index_mask;
    bool hash_flood; /* too many keys with one hash: index_put gave up */
    bool failed;
} Builder;

void builder_init(Builder *b);
void builder_free(Builder *b);

/* Keeps a copy of bytes[n]. */
TextRange builder_text(Builder *b, const char *bytes, size_t n);
const char *builder_bytes(const Builder *b, TextRange range);

/* Sets token `id` (below 2 million; ids may come in any order). Fails when the id has a token. */
Status builder_token(Builder *b, int64_t id, const char *text, size_t n, double score,
                     uint32_t flags, Error *error);

/* Builds the index of keys; tokens set later are not in it. */
void builder_index(Builder *b);
/* The symbol of a key among the BUILD_IN_MODEL tokens, or TOKENIZER_NONE. */
uint32_t builder_find(const Builder *b, const char *key, size_t n);
/* Fills bytes[] with the ids of the tokens `<0x00>` to `<0xFF>`. */
void builder_byte_tokens(Builder *b);
/* The byte that a token of that form stands for (either case), or -1. */
int builder_byte_of(const char *token, size_t n);

/* For byte-level vocabularies, whose keys are bytes. builder_byte_keys turns the keys of
 * BUILD_IN_MODEL tokens from ByteLevel's alphabet into bytes (a token outside the alphabet leaves
 * the model) and builds the index; builder_byte_symbols fills bytes[] with the symbols of the keys
 * of one byte. */
void builder_byte_keys(Builder *b);
void builder_byte_symbols(Builder *b);
/* Writes the bytes that text[n] stands for in ByteLevel's alphabet into key[n] and returns how
 * many; SIZE_MAX: the text holds another character. */
size_t builder_byte_key(const char *text, size_t n, char *key);

void builder_merge(Builder *b, uint32_t left, uint32_t right, uint32_t rank, uint32_t into);
/* Derives the merges from scores, as SentencePiece, tiktoken and llama2.c do: every split of every
 * BUILD_IN_MODEL token into two symbols is a merge, and the highest score comes first. Unless the
 * keys are bytes, characters that are not tokens become symbols with numbers from n_tokens on. */
void builder_merges_by_score(Builder *b);

/* Add a step; false when there are too many. */
bool builder_normalizer(Builder *b, uint32_t op, uint32_t flags, TextRange a, TextRange b_text);
bool builder_split(Builder *b, uint32_t op, uint32_t flags, TextRange a);
bool builder_decoder(Builder *b, DecoderOp op, TextRange a, TextRange b_text, uint32_t n,
                     uint32_t m);

/* Adds an added token; a second one with the same id replaces the first. With ADDED_NORMALIZED its
 * normalized form, which tokenizer_write computes, is searched for in the text. */
void builder_added(Builder *b, uint32_t id, uint32_t flags, const char *text, size_t n);

/* The id of the added token with that text, or -1. */
int64_t builder_added_id(const Builder *b, const char *text, size_t n);

/* Adds an id that ends a text, that begins every text, that is put after every text. Ids beyond the
 * vocabulary are ignored. */
void builder_eos(Builder *b, int64_t id);
bool builder_prefix(Builder *b, int64_t id);
bool builder_suffix(Builder *b, int64_t id);

#endif
