/* What the files of the tokenizer share: tokenizer.c (the section), tokenizer_text.c (the way of a
 * text), tokenizer_normalize.c (patterns and normalization), tokenizer_model.c (one word to ids),
 * tokenizer_decode.c (ids to text). */
#ifndef TOKENIZER_INTERNAL_H
#define TOKENIZER_INTERNAL_H

#define PCRE2_CODE_UNIT_WIDTH 8
#include "base/unicode.h"
#include "tokenizer.h"
#include "tokenizer_section.h"
#include <pcre2.h>
#include <pthread.h>

/* A hash table of PairSlots in the section; slots NULL where there is none. */
typedef struct PairTable {
    const PairSlot *slots;
    uint32_t mask;
} PairTable;

typedef struct Trie {
    PairTable table;
    bool starts[256]; /* the bytes that something in it begins with */
} Trie;

/* A word whose ids are remembered: one cache line. */
typedef struct CachedWord {
    uint64_t hash;
    uint8_t length, n_ids;
    char bytes[30];
    int32_t ids[6];
} CachedWord;

enum { CACHE_SLOTS = 1 << 14 };

/* What one encoding needs; borrowed from the Tokenizer's pool for the time of a call. */
typedef struct Scratch {
    struct Scratch *next;
    CachedWord *cache; /* [CACHE_SLOTS] */
    TextBuffer normalized[2], levels[SECTION_MAX_STEPS], word;
    void *symbols, *best; /* of BPE, of Unigram */
    size_t symbols_size, best_size;
    pcre2_match_data *match;
    pcre2_match_context *context;
    pcre2_jit_stack *stack;
} Scratch;

struct Tokenizer {
    const char *base;
    const SectionHeader *header;
    const TokenRecord *tokens;
    const TextRange *decode;
    const uint32_t *vocab; /* [vocab_mask + 1] */
    uint32_t vocab_mask;
    const uint32_t *bytes; /* [256] or NULL */
    const uint8_t *cuts;   /* [8192] or NULL */
    const AddedRecord *added;
    size_t n_added;
    PairTable pairs;
    Trie added_raw, added_norm, pieces;
    const StepRecord *steps[3]; /* normalizers, splits, decoders */
    size_t n_steps[3];
    pcre2_code *patterns[3][SECTION_MAX_STEPS];
    pcre2_code *word_character; /* for single_word; NULL where no token asks */
    const double *scores;
    Charsmap charsmap;
    uint32_t ascii[128]; /* the symbol of each ASCII character */
    size_t n_usable;     /* ids from here on are an error */
    bool holds_text;     /* the decoders look at the whole text */
    pthread_mutex_t lock;
    Scratch *pool;
};

/* One call of tokenizer_encode. */
typedef struct Run {
    Tokenizer *tokenizer;
    Scratch *scratch;
    TokenList *out;
    Error *error;
    bool parse_special;
    size_t limit; /* how long normalization may make the text */
} Run;

/* The bytes of a range, or "" and *length 0 where the section lies. */
const char *section_text(const Tokenizer *tokenizer, TextRange range, size_t *length);

/* The slot of (a, b), or NULL. */
const PairSlot *pair_find(const PairTable *table, uint32_t a, uint32_t b);

/* The symbol of a key, or TOKENIZER_NONE. */
uint32_t vocab_find(const Tokenizer *tokenizer, const char *key, size_t length);

/* Appends the ids of one word (never empty, well-formed UTF-8 unless the keys are bytes). */
Status encode_word(Run *run, const char *word, size_t length);

/* Appends an id; fails when memory is short. */
Status run_push(Run *run, uint32_t id);

/* A part's bytes, or NULL when it is empty; and how many items of `item` bytes it holds. */
const void *section_part(const Tokenizer *tokenizer, int which);
size_t section_count(const Tokenizer *tokenizer, int which, size_t item);

Status no_memory(Error *error);

/* Scratch areas come from the pool and go back to it. */
Scratch *scratch_new(void);
void scratch_free(Scratch *scratch);
Scratch *scratch_borrow(Tokenizer *tokenizer);
void scratch_return(Tokenizer *tokenizer, Scratch *scratch);

/* The bytes of the character that text[n] begins with; 1 where it is none. */
size_t character_length(const char *text, size_t n);

/* The matches of a pattern in order, as Oniguruma's find_iter gives them: an empty match right
 * after a match does not count, and after an empty one the search goes on a character later. */
typedef struct Matches {
    const pcre2_code *code;
    const char *text;
    size_t n, at, last_end;
    bool any;
} Matches;

/* 1 with the next match's bounds, 0 when there is none, -1 on error. */
int matches_next(Matches *matches, Scratch *scratch, size_t *from, size_t *to, Error *error);

/* Appends in[n] with every match replaced. */
Status replace_pattern(Scratch *scratch, const pcre2_code *code, TextBuffer *out, const char *in,
                       size_t n, const uint8_t *marks, const char *by, size_t by_length,
                       Error *error);

/* A piece of the text on its way. */
typedef struct Span {
    const char *bytes;
    const uint8_t *marks; /* or NULL */
    size_t n;
    bool first; /* begins the whole text */
    bool glued; /* follows bytes that are not UTF-8: nothing is put between */
} Span;

/* Appends the span with every from[n] replaced. */
void replace_string(TextBuffer *out, Span in, const char *from, size_t n, const char *to,
                    size_t to_length);

/* Runs the normalizers over *span; what it then points to lives until the next call. */
Status normalize(Run *run, Span *span);

#endif
