/* What the files of the tokenizer share. Calls go down this list only:
 *
 *     tokenizer.c             the functions of tokenizer.h but the decoder's
 *     tokenizer/tokenizer_decode.c      the decoder: ids to text
 *     tokenizer/tokenizer_text.c        a text to ids: added tokens, splits
 *     tokenizer/tokenizer_model.c       a word to ids: BPE, WordLevel (Unigram:
 * tokenizer/unigram.c) tokenizer/tokenizer_normalize.c   replacement, normalization (of characters
 * by their properties: tokenizer/characters.c) tokenizer/tokenizer_pattern.c     patterns
 *     tokenizer/tokenizer_table.c       look-ups in the section, its checks, scratch areas
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

/* ---- tokenizer/tokenizer_text.c ---- */

/* Appends the ids of text[length]; from_template as in tokenizer_encode. */
Status tokenizer_encode_text(Encoding *e, const char *text, size_t length,
                             const uint8_t *from_template);

/* ---- tokenizer/tokenizer_model.c ---- */

/* Appends the ids of one word (never empty; well-formed UTF-8 unless SECTION_BYTE_LEVEL). */
Status tokenizer_encode_word(Encoding *e, const char *word, size_t length);

/* ---- What the core leaves out: unigram.c, characters.c, charsmap.c ... ---- */

/* Appends the ids of one word of a Unigram model. */
Status unigram_encode(Encoding *e, const char *bytes, size_t length);

/* Appends what a step that knows properties of characters makes of *in. */
Status characters_normalize(Encoding *e, const StepRecord *step, TextBuffer *out, TextSpan *in);

/* The length of the longest prefix of text[n] that the character map replaces, and by what. */
size_t characters_charsmap_replacement(const Tokenizer *t, const char *text, size_t n,
                                       const char **to, size_t *to_length);
bool characters_charsmap_is_sound(const void *bytes, size_t n);

/* ---- tokenizer/tokenizer_pattern.c ---- */

/* Compiles pattern[length] of the section, which may be anything, for pcre2_code_free. */
Status pattern_compile(const char *pattern, size_t length, pcre2_code **out, Error *error);

/* Names a pattern in the list of those whose steps need no counting. */
uint64_t pattern_hash(const char *pattern, size_t length);

/* The steps that all patterns together may take for a text of that length: 2^25, and 256 for each
 * byte. A step is one item of a pattern that is tried, or one byte by which the matcher moves
 * between two items, so their number does not depend on the machine. */
size_t pattern_steps(size_t length);

/* Gives that many steps to the patterns that are matched with this scratch area from now on. */
void pattern_allow(Scratch *s, size_t steps);

/* Iterates over the matches of a pattern, or of a string where `code` is NULL. As with Oniguruma's
 * find_iter an empty match right after a match does not count, and after an empty match the search
 * goes on one character later. Set the first four fields and zero the others. `string` is the
 * pattern's text where `code` is not NULL. */
typedef struct Matches {
    TextSpan span;
    const pcre2_code *code;
    const char *string;
    size_t string_length;
    size_t at, last_end;
    bool any;
} Matches;

/* 1 with the bounds of the next match, 0 when there is none, -1 on error, also where the pattern
 * needs more steps than are left. */
int matches_next(Matches *m, Scratch *scratch, size_t *from, size_t *to, Error *error);

/* ---- tokenizer/tokenizer_normalize.c ---- */

/* Appends m->span with every match replaced by to[to_length], and clears m->span.first where that
 * removes the character that the text begins with. */
Status tokenizer_replace_matches(Matches *m, Scratch *scratch, TextBuffer *out, const char *to,
                                 size_t to_length, Error *error);

/* Replaces *span by its normalized text, which lives until the next call. */
Status normalize(Encoding *e, TextSpan *span);

/* ---- tokenizer/tokenizer_table.c ---- */

/* Finds and checks every part of the section that t->header describes, but for the steps. Returns
 * the name of what is damaged, or NULL. What the hash tables hold is checked where it is used. */
const char *table_open(Tokenizer *t);

/* A part's bytes, or NULL when it is empty; and how many items of `item` bytes it holds. */
const void *table_section_part(const Tokenizer *t, int part);
size_t table_section_count(const Tokenizer *t, int part, size_t item);

/* The bytes of a range; "" with *length 0 for a range outside the section's text. */
const char *table_section_text(const Tokenizer *t, TextRange range, size_t *length);

/* True when the range holds exactly text[length]. */
bool table_section_text_is(const Tokenizer *t, TextRange range, const char *text, size_t length);

/* The slot of (a, b), or NULL. */
const PairSlot *table_find_pair(const PairTable *table, uint32_t a, uint32_t b);

/* The symbol of a key, or TOKENIZER_NONE. */
uint32_t table_find_vocab(const Tokenizer *t, const char *key, size_t length);

/* Appends an id to the encoding's output. */
Status table_push_id(Encoding *e, uint32_t id);

/* As table_push_id, for a token that the model makes of text, or of bytes that are not UTF-8. Drops
 * special tokens but t->unknown, whatever the section's tables say: only a recognized added token
 * is one.
 */
Status table_push_text_id(Encoding *e, uint32_t id);

/* The length of the longest added token that `span` holds at `at`, or 0. Callers look at
 * trie->starts first, which is quicker. *index is its place in t->added. Special tokens count only
 * where this encoding allows them, ADDED_IN_MODEL ones do not count; with `any` all tokens do. */
size_t table_find_added(const Encoding *e, const Trie *trie, TextSpan span, size_t at, bool any,
                        uint32_t *index);

/* Encodes bytes[n] that are not in the vocabulary: as byte tokens, or as the unknown token, or as
 * nothing where the vocabulary has neither. `fuse`: the unknown token was appended just before, and
 * stands for these bytes too if the vocabulary fuses unknown characters. */
Status table_push_unknown(Encoding *e, const char *bytes, size_t n, bool fuse);
/* True when the vocabulary has a symbol for each byte. */
bool table_knows_all_bytes(const Tokenizer *t, const char *bytes, size_t n);

Status table_no_memory(Error *error);

/* A new scratch area; one from the pool, or new where the pool is empty. NULL: out of memory. */
Scratch *scratch_new(void);
Scratch *scratch_borrow(Tokenizer *t);
void scratch_return(Tokenizer *t, Scratch *scratch);
void scratch_free(Scratch *scratch);

#endif
