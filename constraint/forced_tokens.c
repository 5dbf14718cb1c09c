#include "constraint/forced_tokens.h"

#include <string.h>

#include "base/unicode.h"

/* Bytes that are looked ahead, and those before them that the tokenizer sees as their context. */
enum { MOST_BYTES = 256, CONTEXT_BYTES = 16 };

/* ---- In the trie of the vocabulary ------------------------------------------------------------
 */

/* The node of the byte among nodes[from, to), which are siblings and what is below them; `to` when
 * there is none. */
static size_t child(const TokenTrie *trie, size_t from, size_t to, uint8_t byte) {
    while (from < to && trie->nodes[from].byte != byte) from += trie->nodes[from].skip;
    return from < to ? from : to;
}

/* Whether a token begins with bytes[n] and goes on with a byte of `next`. */
static bool reaches_past(const TokenTrie *trie, const char *bytes, size_t n, const ByteSet *next) {
    size_t from = 0, to = trie->n_nodes;
    for (size_t i = 0; i < n; i++) {
        size_t at = child(trie, from, to, (uint8_t)bytes[i]);
        if (at == to) return false;
        from = at + 1;
        to = at + trie->nodes[at].skip;
    }
    for (; from < to; from += trie->nodes[from].skip)
        if (byteset_has(next, trie->nodes[from].byte)) return true;
    return false;
}

/* The longest token that bytes[n] begin with; *length is 0 when there is none. */
static int32_t longest_token(const TokenTrie *trie, const char *bytes, size_t n, size_t *length) {
    size_t from = 0, to = trie->n_nodes;
    int32_t token = -1;
    *length = 0;
    for (size_t i = 0; i < n; i++) {
        size_t at = child(trie, from, to, (uint8_t)bytes[i]);
        if (at == to) break;
        const TrieNode *node = &trie->nodes[at];
        if (node->n > 0) {
            token = trie->tokens[node->first + node->n - 1]; /* byte tokens come first */
            *length = i + 1;
        }
        from = at + 1;
        to = at + node->skip;
    }
    return token;
}

static size_t longest_tokens(const TokenTrie *trie, const char *bytes, size_t n, int32_t *ids,
                             size_t most) {
    size_t count = 0, length;
    for (size_t at = 0; at < n && count < most; at += length) {
        int32_t token = longest_token(trie, bytes + at, n - at, &length);
        if (length == 0) break;
        ids[count++] = token;
    }
    return count;
}

/* ---- As the tokenizer cuts ---------------------------------------------------------------------
 */

/* The number of tokens at the end of the list that spell bytes[n] exactly; 0: no token begins
 * there. */
static size_t tokens_of_end(const Vocabulary *v, const TokenList *list, const char *bytes,
                            size_t n) {
    size_t at = n, i = list->length, length;
    while (i > 0 && at > 0) {
        const char *text = vocabulary_bytes(v, list->ids[--i], false, &length);
        if (length == 0 || length > at || memcmp(text, bytes + at - length, length) != 0) return 0;
        at -= length;
    }
    return at == 0 ? list->length - i : 0;
}

/* Cuts bytes[n], which follow the answer's text, into ids[most]; 0 when the tokenizer would join
 * the text and them. */
static size_t usual_tokens(const Matcher *m, const char *bytes, size_t n, int32_t *ids,
                           size_t most) {
    char text[CONTEXT_BYTES + MOST_BYTES];
    size_t before = m->length < CONTEXT_BYTES ? m->length : CONTEXT_BYTES;
    while (before > 0 && utf8_continues(m->text[m->length - before])) before--;
    if (before > 0) memcpy(text, m->text + m->length - before, before);
    memcpy(text + before, bytes, n);
    TokenList list = {0};
    Error ignored;
    size_t count = 0;
    if (tokenizer_encode(m->tokenizer, text, before + n, NULL, 0, &list, &ignored) == STATUS_OK)
        count = tokens_of_end(m->shape->vocabulary, &list, bytes, n);
    size_t first = list.length - count;
    if (count > most) count = most;
    if (count > 0) memcpy(ids, list.ids + first, count * sizeof *ids);
    token_list_free(&list);
    return count;
}

/* ---- Forced tokens ----------------------------------------------------------------------------
 */

size_t matcher_forced_tokens(Matcher *m, int32_t *ids, size_t most) {
    const Vocabulary *v = m->shape->vocabulary;
    char bytes[MOST_BYTES];
    ByteSet next;
    if (m->at_start && v->has_start) return 0; /* a first token has other bytes */
    size_t n = matcher_forced(m, bytes, sizeof bytes, &next);
    if (n == 0) return 0;
    size_t count = m->tokenizer ? usual_tokens(m, bytes, n, ids, most) : 0;
    if (count == 0) count = longest_tokens(&v->all, bytes, n, ids, most);
    for (size_t i = 0, at = 0, length; i < count; i++, at += length) {
        if (reaches_past(&v->all, bytes + at, n - at, &next)) return i;
        vocabulary_bytes(v, ids[i], false, &length);
    }
    return count;
}

static size_t forced(TokenRule *rule, int32_t *ids, size_t most) {
    return matcher_forced_tokens((Matcher *)rule, ids, most);
}

void matcher_propose_forced(Matcher *m, Tokenizer *tokenizer) {
    m->tokenizer = tokenizer;
    m->rule.forced = forced;
}
