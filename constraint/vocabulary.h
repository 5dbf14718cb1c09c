/* The vocabulary's bytes, as an acceptor walks through them.
 *
 * Built once for a tokenizer and then only read, by any number of threads. Tokens without text are
 * not in it. The bytes of a special token are its name between two bytes that no UTF-8 holds, so
 * that only a structure (structure.h), never a user's shape, can name one. */
#ifndef CONSTRAINT_VOCABULARY_H
#define CONSTRAINT_VOCABULARY_H

#include "base/status.h"
#include "tokenizer.h"

/* A node of a trie in depth-first order. `skip` nodes further is the first node outside its
 * subtree: its next sibling, or an ancestor's. */
typedef struct TrieNode {
    uint32_t skip, first; /* tokens[first] ... end here, n of them */
    uint16_t n, depth;
    uint8_t byte;
} TrieNode;

typedef struct TokenTrie {
    TrieNode *nodes;
    size_t n_nodes;
    int32_t *tokens;
    size_t deepest;
} TokenTrie;

/* The tokens of at most `most` characters, all of them safe (regex_safe_run), as a bitset, and a
 * trie of all other tokens. */
typedef struct TokenSlice {
    int most;
    uint64_t *safe;
    TokenTrie others;
} TokenSlice;

enum { VOCABULARY_SLICES = 5 };

/* Around the name of a special token. Tokens that hold the first byte themselves are never allowed.
 */
enum { VOCABULARY_TOKEN_BEGIN = 0xFF, VOCABULARY_TOKEN_END = 0xFE };

typedef struct Vocabulary {
    size_t size;     /* of the model: tokens, and bits of a mask */
    size_t words;    /* of a mask */
    size_t *offsets; /* [n + 1] in bytes; an empty text: never allowed */
    char *bytes;
    size_t n;                             /* tokens that have texts */
    TokenTrie all;                        /* ordinary tokens */
    TokenTrie special;                    /* special tokens */
    TokenSlice slices[VOCABULARY_SLICES]; /* the longest run first */
    /* The tokens as they are at the start of a text, where the decoder strips something. */
    bool has_start;
    size_t *start_offsets;
    char *start_bytes;
    TokenTrie start;
} Vocabulary;

/* Fails where memory is short, or where the tokenizer's decoder changes a text at its end, so that
 * a token has no bytes of its own. */
Status vocabulary_new(Vocabulary **out, const Tokenizer *tokenizer, size_t size, Error *error);
void vocabulary_free(Vocabulary *vocabulary);

/* The bytes of a token; *n is 0 for one that is never allowed. `at_start`: as the first of a text
 * that continues nothing. */
const char *vocabulary_bytes(const Vocabulary *vocabulary, int32_t token, bool at_start, size_t *n);

#endif
