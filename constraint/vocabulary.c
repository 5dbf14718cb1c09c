#include "constraint/vocabulary.h"

#include <stdlib.h>
#include <string.h>

#include "base/unicode.h"
#include "constraint/regex_safe_run.h"
#include "tokenizer/tokenizer_parts.h"

/* A token on its way into a trie. */
typedef struct Entry {
    const char *bytes;
    size_t n;
    int32_t token;
} Entry;

static int compare_entries(const void *a, const void *b) {
    const Entry *x = a, *y = b;
    int order = memcmp(x->bytes, y->bytes, x->n < y->n ? x->n : y->n);
    if (order != 0) return order;
    if (x->n != y->n) return x->n < y->n ? -1 : 1;
    return x->token < y->token ? -1 : x->token > y->token;
}

/* ---- The texts of the tokens ----------------------------------------------------------------- */

static void put_special(TextBuffer *all, const Tokenizer *tokenizer, int32_t token) {
    static const char begin = (char)VOCABULARY_TOKEN_BEGIN, end = (char)VOCABULARY_TOKEN_END;
    size_t n;
    const char *name = tokenizer_token_text(tokenizer, token, &n);
    if (n == 0) return;
    text_put(all, &begin, 1, 0);
    text_put(all, name, n, 0);
    text_put(all, &end, 1, 0);
}

/* Decodes each token by itself into one buffer; the text of token i begins at offsets[i]. The text
 * of a special token is its name between two marks (put_special). */
static Status token_texts(const Tokenizer *tokenizer, size_t n, unsigned flags, size_t **offsets,
                          char **bytes, Error *error) {
    TextBuffer all = {0};
    TokenDecoder decoder;
    Status status = STATUS_OK;
    *offsets = calloc(n + 1, sizeof **offsets);
    if (!*offsets) return error_set(error, "no memory for the vocabulary's bytes");
    token_decoder_init(&decoder, tokenizer, flags);
    for (size_t i = 0; i < n && status == STATUS_OK; i++) {
        const char *text;
        size_t length;
        (*offsets)[i] = all.length;
        if (tokenizer_is_special(tokenizer, (int32_t)i)) {
            put_special(&all, tokenizer, (int32_t)i);
            continue;
        }
        status = token_decoder_push(&decoder, (int32_t)i, &text, &length, error);
        if (status == STATUS_OK) text_put(&all, text, length, 0);
        if (status == STATUS_OK) status = token_decoder_flush(&decoder, &text, &length, error);
        if (status == STATUS_OK) text_put(&all, text, length, 0);
    }
    (*offsets)[n] = all.length;
    token_decoder_free(&decoder);
    text_put(&all, "", 1, 0);
    *bytes = all.bytes;
    if (status == STATUS_OK && all.failed)
        status = error_set(error, "no memory for the vocabulary's bytes");
    return status;
}

/* How many characters, all of them safe, the text has; 0 when one is not. */
static size_t safe_characters(const char *text, size_t n) {
    size_t count = 0;
    while (n > 0) {
        uint32_t code;
        size_t length = utf8_decode(text, n, &code);
        if (length == 0 || code < 0x20 || code == '"' || code == '\\') return 0;
        text += length;
        n -= length;
        count++;
    }
    return count;
}

/* ---- Tries ----------------------------------------------------------------------------------- */

/* Nodes that the sorted entries need: one for each byte that an entry does not share with the one
 * before it. */
static size_t shared(const Entry *entries, size_t i) {
    size_t n = 0;
    if (i == 0) return 0;
    const Entry *x = &entries[i - 1], *y = &entries[i];
    while (n < x->n && n < y->n && x->bytes[n] == y->bytes[n]) n++;
    return n;
}

/* Builds the trie of sorted entries, with its nodes in depth-first order. A node's `skip` is set
 * when the walk leaves its subtree. */
static bool trie_build(TokenTrie *trie, const Entry *entries, size_t n) {
    size_t n_nodes = 0, deepest = 0;
    for (size_t i = 0; i < n; i++) {
        n_nodes += entries[i].n - shared(entries, i);
        if (entries[i].n > deepest) deepest = entries[i].n;
    }
    trie->deepest = deepest;
    trie->nodes = calloc(n_nodes + 1, sizeof *trie->nodes);
    trie->tokens = calloc(n + 1, sizeof *trie->tokens);
    size_t *path = calloc(deepest + 1, sizeof *path);
    if (!trie->nodes || !trie->tokens || !path) {
        free(path);
        return false;
    }
    size_t depth = 0, at = 0;
    for (size_t i = 0; i <= n; i++) {
        size_t same = i < n ? shared(entries, i) : 0;
        while (depth > same) {
            TrieNode *node = &trie->nodes[path[--depth]];
            node->skip = (uint32_t)(at - path[depth]);
        }
        if (i == n) break;
        for (; depth < entries[i].n; depth++) {
            path[depth] = at;
            trie->nodes[at++] = (TrieNode){.depth = (uint16_t)depth,
                                           .byte = (uint8_t)entries[i].bytes[depth],
                                           .first = (uint32_t)i};
        }
        trie->nodes[path[depth - 1]].n++;
        trie->tokens[i] = entries[i].token;
    }
    trie->n_nodes = at;
    free(path);
    return true;
}

static void trie_free(TokenTrie *trie) {
    free(trie->nodes);
    free(trie->tokens);
}

/* Builds the slices: for each longest run, the bitset of the tokens of safe characters that are no
 * longer than it, and the trie of all other tokens. The first slice takes safe tokens of any
 * length. */
static bool build_slices(Vocabulary *v, const Entry *entries, size_t n) {
    static const int runs[VOCABULARY_SLICES] = {REGEX_RUN_ALL, REGEX_RUN_MOST, 12, 6, 3};
    Entry *others = malloc((n + 1) * sizeof *others);
    bool built = others != NULL;
    for (size_t k = 0; k < VOCABULARY_SLICES && built; k++) {
        TokenSlice *slice = &v->slices[k];
        size_t n_others = 0;
        slice->most = runs[k];
        built = (slice->safe = calloc(v->words, sizeof *slice->safe)) != NULL;
        for (size_t i = 0; i < n && built; i++) {
            size_t count = safe_characters(entries[i].bytes, entries[i].n);
            int32_t token = entries[i].token;
            if (count > 0 && (k == 0 || count <= (size_t)runs[k]))
                slice->safe[token / 64] |= (uint64_t)1 << (token % 64);
            else
                others[n_others++] = entries[i];
        }
        built = built && trie_build(&slice->others, others, n_others);
    }
    free(others);
    return built;
}

/* The special tokens, or all others. */
static size_t sorted_entries(const Vocabulary *v, const Tokenizer *tokenizer, bool special,
                             const size_t *offsets, const char *bytes, Entry *entries) {
    size_t n = 0;
    for (size_t i = 0; i < v->n; i++) {
        size_t length = offsets[i + 1] - offsets[i];
        const char *text = bytes + offsets[i];
        if (length == 0 || length >= UINT16_MAX) continue;
        if (tokenizer_is_special(tokenizer, (int32_t)i) != special) continue;
        if (!special && memchr(text, VOCABULARY_TOKEN_BEGIN, length)) continue;
        entries[n++] = (Entry){text, length, (int32_t)i};
    }
    qsort(entries, n, sizeof *entries, compare_entries);
    return n;
}

/* Builds the texts and the tries of the vocabulary. Where the decoder treats the first token of a
 * text differently, tokens get a second text and a trie of their own for that place. */
static Status build(Vocabulary *v, const Tokenizer *tokenizer, Error *error) {
    if (token_texts(tokenizer, v->n, TOKEN_DECODER_CONTINUE, &v->offsets, &v->bytes, error) !=
        STATUS_OK)
        return STATUS_FAILED;
    v->has_start = tokenizer->header->decode_variants > 1 ||
                   (tokenizer->decoders.n > 0 && tokenizer->decoders.steps->op == DECODE_STRIP);
    if (v->has_start &&
        token_texts(tokenizer, v->n, 0, &v->start_offsets, &v->start_bytes, error) != STATUS_OK)
        return STATUS_FAILED;
    Entry *entries = malloc((v->n + 1) * sizeof *entries);
    bool built = entries != NULL;
    if (built) {
        size_t n = sorted_entries(v, tokenizer, false, v->offsets, v->bytes, entries);
        built = trie_build(&v->all, entries, n) && build_slices(v, entries, n);
        n = built ? sorted_entries(v, tokenizer, true, v->offsets, v->bytes, entries) : 0;
        built = built && trie_build(&v->special, entries, n);
    }
    if (built && v->has_start) {
        size_t n = sorted_entries(v, tokenizer, false, v->start_offsets, v->start_bytes, entries);
        built = trie_build(&v->start, entries, n);
    }
    free(entries);
    return built ? STATUS_OK : error_set(error, "no memory for the vocabulary's bytes");
}

Status vocabulary_new(Vocabulary **out, const Tokenizer *tokenizer, size_t size, Error *error) {
    if (tokenizer->holds_text || tokenizer->header->decode_variants > 2)
        return error_set(error, "this tokenizer changes a text at its end, so that the shape of an "
                                "answer cannot be enforced");
    Vocabulary *v = calloc(1, sizeof *v);
    if (!v) return error_set(error, "no memory for the vocabulary's bytes");
    v->size = size;
    v->words = (size + 63) / 64;
    v->n = tokenizer_vocab_size(tokenizer) < size ? tokenizer_vocab_size(tokenizer) : size;
    Status status = build(v, tokenizer, error);
    if (status == STATUS_OK)
        *out = v;
    else
        vocabulary_free(v);
    return status;
}

void vocabulary_free(Vocabulary *v) {
    if (!v) return;
    free(v->offsets);
    free(v->bytes);
    free(v->start_offsets);
    free(v->start_bytes);
    trie_free(&v->all);
    trie_free(&v->special);
    trie_free(&v->start);
    for (size_t k = 0; k < VOCABULARY_SLICES; k++) {
        free(v->slices[k].safe);
        trie_free(&v->slices[k].others);
    }
    free(v);
}

const char *vocabulary_bytes(const Vocabulary *v, int32_t token, bool at_start, size_t *n) {
    const size_t *offsets = at_start && v->has_start ? v->start_offsets : v->offsets;
    *n = 0;
    if (token < 0 || (size_t)token >= v->n) return "";
    *n = offsets[token + 1] - offsets[token];
    return (at_start && v->has_start ? v->start_bytes : v->bytes) + offsets[token];
}
