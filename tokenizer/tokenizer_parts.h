/* What the files of the tokenizer share. Calls go down this list only, and a file's header says
 * what it does for those above it:
 *
 *     tokenizer.c             the functions of tokenizer.h but the decoder's
 *     tokenizer_decode.c      the decoder: ids to text
 *     tokenizer_text.c        a text to ids: added tokens, splits
 *     tokenizer_model.c       a word to ids: BPE, WordLevel (Unigram: unigram.c)
 *     tokenizer_normalize.c   replacement, normalization (by properties of characters:
 * characters.c) tokenizer_pattern.c     patterns tokenizer_table.c       look-ups in the section,
 * its checks, scratch areas
 */
#ifndef TOKENIZER_PARTS_H
#define TOKENIZER_PARTS_H

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <pthread.h>

#include "base/status.h"
#include "base/text.h"
#include "base/token_list.h"
#include "tokenizer/tokenizer_section.h"

/* A hash table of PairSlots in the section; slots NULL where there is none. */
typedef struct PairTable {
    const PairSlot *slots;
    uint32_t mask;
} PairTable;

/* A trie of added tokens. */
typedef struct Trie {
    PairTable table;
    bool starts[256]; /* true for the bytes that some added token begins with */
} Trie;

/* One of the section's lists of steps, with its patterns compiled (NULL for other steps). */
typedef struct StepList {
    const StepRecord *steps;
    size_t n;
    pcre2_code *patterns[SECTION_MAX_STEPS];
} StepList;

typedef struct Scratch Scratch;

typedef struct Tokenizer {
    const char *base; /* the section */
    const SectionHeader *header;
    const TokenRecord *tokens;
    const TextRange *decode; /* [decode_variants][n_tokens] */
    const uint32_t *vocab;   /* [vocab_mask + 1] */
    uint32_t vocab_mask;
    const uint32_t *bytes; /* [256] or NULL */
    const uint8_t *cuts;   /* [8192] or NULL */
    const AddedRecord *added;
    size_t n_added;
    PairTable pairs, pieces;
    Trie added_raw, added_norm;
    StepList normalizers, splits, decoders;
    pcre2_code *word_character; /* for ADDED_SINGLE_WORD; NULL where no token has the flag */
    const double *scores;
    const void *charsmap; /* [charsmap_bytes], SentencePiece's table of characters; or NULL */
    size_t charsmap_bytes;
    uint32_t ascii[128]; /* the symbol of each ASCII character */
    int32_t unknown;     /* the token that unknown text becomes, or -1 */
    size_t n_usable;     /* tokens that the model has: ids from here on are an error */
    bool holds_text;     /* some decoder step needs the whole text */
    pthread_mutex_t lock;
    Scratch *pool;
} Tokenizer;

/* One call of tokenizer_encode. */
typedef struct Encoding {
    Tokenizer *tokenizer;
    Scratch *scratch;
    TokenList *out;
    Error *error;
    bool parse_special;
    size_t limit; /* the most bytes that a step may make of the text */
} Encoding;

/* A piece of the text on its way to ids. */
typedef struct TextSpan {
    const char *bytes;
    const uint8_t *from_template; /* [length]: nonzero for a byte of the template; NULL: none is */
    size_t length;
    bool first; /* starts where the whole text starts */
    bool glued; /* follows bytes that are not UTF-8, so that no step may put a space before it */
} TextSpan;

#endif
