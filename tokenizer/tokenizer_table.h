/* Look-ups in the section and its checks. */
#ifndef TOKENIZER_TOKENIZER_TABLE_H
#define TOKENIZER_TOKENIZER_TABLE_H

#include "tokenizer/tokenizer_parts.h"

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

#endif
