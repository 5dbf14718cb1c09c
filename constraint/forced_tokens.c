#include "constraint/forced_tokens.h"

#include <string.h>

#include "base/unicode.h"

/* Bytes of lookahead, and bytes before them that the tokenizer sees as context. */
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

/* Cuts bytes[n], which follow the answer's text if `follows`, into ids[most]; 0 when the tokenizer
 * would join the text and them. */
static size_t usual_tokens(const Matcher *m, const char *bytes, size_t n, bool follows,
                           int32_t *ids, size_t most) {
    char text[CONTEXT_BYTES + MOST_BYTES];
    size_t before = m->length < CONTEXT_BYTES ? m->length : CONTEXT_BYTES;
    const char *special =
        before > 0 ? memrchr(m->text + m->length - before, VOCABULARY_TOKEN_END, before) : NULL;
    if (special) before = (size_t)(m->text + m->length - special) - 1;
    if (!follows) before = 0;
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

/* The tokens of bytes[from, end), which no special token is among. `next` (NULL: a special token)
 * are the bytes that may follow. *all: the tokens spell all of the bytes. */
static size_t ordinary_tokens(const Matcher *m, const char *bytes, size_t from, size_t end,
                              const ByteSet *next, int32_t *ids, size_t most, bool *all) {
    const Vocabulary *v = m->shape->vocabulary;
    const char *text = bytes + from;
    size_t n = end - from, count = 0;
    if (m->tokenizer) count = usual_tokens(m, text, n, from == 0, ids, most);
    if (count == 0) count = longest_tokens(&v->all, text, n, ids, most);
    size_t i = 0, at = 0, length;
    for (; i < count && !(next && reaches_past(&v->all, text + at, n - at, next)); i++) {
        vocabulary_bytes(v, ids[i], false, &length);
        at += length;
    }
    *all = at == n;
    return i;
}

size_t forced_tokens_next(Matcher *m, int32_t *ids, size_t most) {
    const Vocabulary *v = m->shape->vocabulary;
    char bytes[MOST_BYTES];
    ByteSet next;
    if (m->at_start && v->has_start) return 0; /* a first token has other bytes */
    size_t n = matcher_forced(m, bytes, sizeof bytes, &next), count = 0;
    bool all = true;
    for (size_t at = 0, end, length; at < n && count < most && all; at = end) {
        if ((uint8_t)bytes[at] == VOCABULARY_TOKEN_BEGIN) {
            int32_t token = longest_token(&v->special, bytes + at, n - at, &length);
            end = length > 0 ? at + length : n;
            if (length > 0) ids[count++] = token;
            continue;
        }
        const char *special = memchr(bytes + at, VOCABULARY_TOKEN_BEGIN, n - at);
        end = special ? (size_t)(special - bytes) : n;
        count += ordinary_tokens(m, bytes, at, end, end == n ? &next : NULL, ids + count,
                                 most - count, &all);
    }
    return count;
}

static size_t forced(TokenRule *rule, int32_t *ids, size_t most) {
    return forced_tokens_next((Matcher *)rule, ids, most);
}

void forced_tokens_propose(Matcher *m, Tokenizer *tokenizer) {
    m->tokenizer = tokenizer;
    m->rule.forced = forced;
}
