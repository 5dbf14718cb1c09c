/* The buffers of an encoding, kept in the Tokenizer's pool between calls. */
#ifndef TOKENIZER_SCRATCH_H
#define TOKENIZER_SCRATCH_H

#include "tokenizer/tokenizer_parts.h"

/* A word whose ids are remembered: one cache line. */
typedef struct CachedWord {
    uint64_t hash;
    uint8_t length, n_ids;
    char bytes[30];
    int32_t ids[6];
} CachedWord;

enum { CACHE_SLOTS = 1 << 14 };

/* The buffers of one encoding, borrowed from the Tokenizer's pool for the time of a call. */
struct Scratch {
    Scratch *next;
    CachedWord *cache; /* [CACHE_SLOTS] */
    TextBuffer normalized[2], levels[SECTION_MAX_STEPS], word;
    struct Symbol *symbols; /* BPE */
    uint64_t *heap;         /* BPE */
    struct Best *best;      /* Unigram */
    size_t symbols_capacity, heap_capacity, best_capacity;
    pcre2_match_data *match;
    pcre2_match_context *context;
    pcre2_jit_stack *stack;
    size_t steps;      /* steps that patterns may take (pattern_allow) */
    size_t steps_left; /* steps that are left */
    size_t step_at;    /* the place in the text of the last step */
};

/* A new scratch area; one from the pool, or new where the pool is empty. NULL: out of memory. */
Scratch *scratch_new(void);
Scratch *scratch_borrow(Tokenizer *t);
void scratch_return(Tokenizer *t, Scratch *scratch);
void scratch_free(Scratch *scratch);

#endif
