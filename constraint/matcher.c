#include "constraint/matcher.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/unicode.h"
#include "constraint/acceptor_shortest.h"

enum { MASK_BYTES = 32 << 20, MOST_CLOSING = 1 << 20 };

/* Masks by state: mask i is at words[i * n]. */
struct MaskCache {
    uint64_t *words;
    size_t n_masks, capacity, most;
    uint32_t *of_state; /* [state]: mask + 1; 0: none yet */
    size_t of_state_capacity;
    uint64_t epoch;
    AcceptorState *path; /* [deepest + 1] states on the way through a trie */
};

/* ---- Shapes ---------------------------------------------------------------------------------- */

Status shape_new(Shape **out, Acceptor *acceptor, const Vocabulary *vocabulary, Error *error) {
    Shape *s = calloc(1, sizeof *s);
    MaskCache *c = calloc(1, sizeof *c);
    *out = NULL;
    size_t deepest = vocabulary->all.deepest;
    if (vocabulary->start.deepest > deepest) deepest = vocabulary->start.deepest;
    if (vocabulary->special.deepest > deepest) deepest = vocabulary->special.deepest;
    if (c) {
        c->most = MASK_BYTES / (8 * (vocabulary->words + 1)) + 1;
        c->path = calloc(deepest + 2, sizeof *c->path);
    }
    if (!s || !c || !c->path || pthread_mutex_init(&s->lock, NULL) != 0) {
        if (c) free(c->path);
        free(c);
        free(s);
        acceptor_free(acceptor);
        return error_set(error, "no memory for a shape");
    }
    s->acceptor = acceptor;
    s->vocabulary = vocabulary;
    s->masks = c;
    *out = s;
    return STATUS_OK;
}

void shape_free(Shape *s) {
    if (!s) return;
    pthread_mutex_destroy(&s->lock);
    acceptor_free(s->acceptor);
    free(s->masks->words);
    free(s->masks->of_state);
    free(s->masks->path);
    free(s->masks);
    free(s);
}

size_t shape_memory(const Shape *s) {
    return acceptor_memory(s->acceptor) + s->masks->capacity * sizeof *s->masks->words +
           s->masks->of_state_capacity * sizeof *s->masks->of_state;
}

/* ---- Masks ----------------------------------------------------------------------------------- */

/* Sets the bits of the tokens in the trie that the acceptor allows in `state`. */
static void walk(Shape *s, const TokenTrie *trie, AcceptorState state, uint64_t *mask) {
    Acceptor *m = s->acceptor;
    AcceptorState *path = s->masks->path;
    path[0] = state;
    for (size_t i = 0; i < trie->n_nodes;) {
        const TrieNode *node = &trie->nodes[i];
        AcceptorState next = acceptor_step(m, path[node->depth], node->byte);
        if (next == ACCEPTOR_DEAD) {
            i += node->skip;
            continue;
        }
        path[node->depth + 1] = next;
        for (size_t k = 0; k < node->n; k++) {
            int32_t token = trie->tokens[node->first + k];
            mask[token / 64] |= (uint64_t)1 << (token % 64);
        }
        i++;
    }
}

/* Makes the mask of a state. Any characters that stand for themselves in a JSON string may follow
 * there, up to `run` of them (regex_safe_run.h): tokens that are no longer come from the bitset of
 * a slice, and only the others are tried. */
static void make_mask(Shape *s, AcceptorState state, uint64_t *mask) {
    const Vocabulary *v = s->vocabulary;
    int run = acceptor_safe_run(s->acceptor, state);
    for (size_t k = 0; k < VOCABULARY_SLICES; k++) {
        if (run < v->slices[k].most) continue;
        memcpy(mask, v->slices[k].safe, v->words * sizeof *mask);
        walk(s, &v->slices[k].others, state, mask);
        walk(s, &v->special, state, mask);
        return;
    }
    memset(mask, 0, v->words * sizeof *mask);
    walk(s, &v->all, state, mask);
    walk(s, &v->special, state, mask);
}

/* Copies the mask of a state to mask[words]. The lock is held. */
static bool cached_mask(Shape *s, AcceptorState state, uint64_t *mask) {
    MaskCache *c = s->masks;
    size_t words = s->vocabulary->words;
    if (c->epoch != acceptor_epoch(s->acceptor) || c->n_masks >= c->most) {
        if (c->of_state) memset(c->of_state, 0, c->of_state_capacity * sizeof *c->of_state);
        c->n_masks = 0;
        c->epoch = acceptor_epoch(s->acceptor);
    }
    size_t known = c->of_state_capacity;
    if (!array_reserve(&c->of_state, &c->of_state_capacity, (size_t)state + 1, sizeof *c->of_state))
        return false;
    if (c->of_state_capacity > known)
        memset(c->of_state + known, 0, (c->of_state_capacity - known) * sizeof *c->of_state);
    if (!array_reserve(&c->words, &c->capacity, (c->n_masks + 1) * words, sizeof *c->words))
        return false;
    if (!c->of_state[state]) {
        make_mask(s, state, c->words + c->n_masks * words);
        c->of_state[state] = (uint32_t)++c->n_masks;
    }
    memcpy(mask, c->words + (c->of_state[state] - 1) * words, words * sizeof *mask);
    return true;
}

/* ---- Answers --------------------------------------------------------------------------------- */

/* Locks the shape and makes m->state valid: where the acceptor has forgotten its states (another
 * epoch), by stepping through the text again. A limit that another text has passed says nothing
 * about this one. */
static void matcher_begin(Matcher *m) {
    Shape *s = m->shape;
    pthread_mutex_lock(&s->lock);
    acceptor_begin_work(s->acceptor);
    acceptor_recover(s->acceptor);
    acceptor_trim(s->acceptor);
    if (m->epoch == acceptor_epoch(s->acceptor)) return;
    m->epoch = acceptor_epoch(s->acceptor);
    m->state = acceptor_start(s->acceptor);
    for (size_t i = 0; i < m->length; i++) {
        acceptor_begin_work(s->acceptor); /* each byte was allowed within the limit before */
        m->state = acceptor_step(s->acceptor, m->state, (unsigned char)m->text[i]);
    }
    acceptor_begin_work(s->acceptor);
}

static void matcher_end(Matcher *m) {
    m->failed = acceptor_failed(m->shape->acceptor);
    pthread_mutex_unlock(&m->shape->lock);
}

bool matcher_push(Matcher *m, const char *bytes, size_t n, size_t *refused) {
    size_t i = 0;
    if (refused) *refused = 0;
    if (!array_reserve(&m->text, &m->capacity, m->length + n, 1)) {
        m->failed = "there is no memory for it";
        return false;
    }
    matcher_begin(m);
    while (i < n) {
        m->text[m->length + i] = bytes[i];
        m->state = acceptor_step(m->shape->acceptor, m->state, (unsigned char)bytes[i]);
        if (m->state == ACCEPTOR_DEAD) break;
        i++;
    }
    bool taken = m->state != ACCEPTOR_DEAD;
    m->length += i;
    if (!taken) m->epoch = 0; /* the next call makes the state again from the bytes before */
    matcher_end(m);
    if (refused) *refused = i;
    if (i > 0 && taken) m->at_start = false;
    return taken;
}

bool matcher_accepts(Matcher *m) {
    matcher_begin(m);
    bool accepts = acceptor_accepts(m->shape->acceptor, m->state);
    matcher_end(m);
    return accepts;
}

bool matcher_complete(Matcher *m) {
    matcher_begin(m);
    bool complete = acceptor_complete(m->shape->acceptor, m->state);
    matcher_end(m);
    return complete;
}

void matcher_rewind(Matcher *m, size_t length) {
    if (length >= m->length) return;
    m->length = length;
    m->epoch = 0; /* no epoch is 0: the state is made again from the text */
}

static bool ends_text(const Matcher *m, int32_t token) {
    for (size_t i = 0; i < m->n_eos; i++)
        if (m->eos[i] == token) return true;
    return false;
}

size_t matcher_forced(Matcher *m, char *out, size_t most, ByteSet *next) {
    size_t n = 0;
    *next = (ByteSet){{0}};
    if (!m->looks_ahead) return 0;
    matcher_begin(m);
    Acceptor *acceptor = m->shape->acceptor;
    AcceptorState state = m->state;
    while (n < most && state != ACCEPTOR_DEAD && !acceptor_accepts(acceptor, state)) {
        int only = acceptor_only_byte(acceptor, state);
        if (only < 0) break;
        out[n++] = (char)only;
        state = acceptor_step(acceptor, state, (unsigned char)only);
    }
    *next = acceptor_bytes(acceptor, state);
    matcher_end(m);
    m->looks_ahead = !m->failed;
    return m->failed ? 0 : n;
}

size_t matcher_allowed_tokens(Matcher *m, const int32_t *ids, size_t n) {
    size_t count = 0;
    matcher_begin(m);
    Acceptor *acceptor = m->shape->acceptor;
    AcceptorState state = m->state;
    bool at_start = m->at_start;
    for (; count < n; count++, at_start = false) {
        size_t length;
        if (acceptor_accepts(acceptor, state) && ends_text(m, ids[count])) {
            count++;
            break;
        }
        const char *bytes = vocabulary_bytes(m->shape->vocabulary, ids[count], at_start, &length);
        for (size_t i = 0; i < length && state != ACCEPTOR_DEAD; i++)
            state = acceptor_step(acceptor, state, (unsigned char)bytes[i]);
        if (length == 0 || state == ACCEPTOR_DEAD) break;
    }
    matcher_end(m);
    return m->failed ? n : count;
}

Status matcher_closing(Matcher *m, const char **bytes, size_t *n, Error *error) {
    text_free(&m->closing);
    m->closing = (TextBuffer){.limit = MOST_CLOSING};
    matcher_begin(m);
    bool found = acceptor_shortest(m->shape->acceptor, m->state, &m->closing);
    matcher_end(m);
    *bytes = m->closing.bytes ? m->closing.bytes : "";
    *n = m->closing.length;
    return found ? STATUS_OK
                 : error_set(error, "the answer cannot be closed: no way to its end was found%s%s",
                             m->failed ? ": " : "", m->failed ? m->failed : "");
}

/* ---- What a Generation asks --------------------------------------------------------------------
 */

static Status no_token(Matcher *m, Error *error) {
    if (m->failed)
        return error_set(error, "the shape of the answer cannot be enforced: %s", m->failed);
    size_t from = m->length > 40 ? m->length - 40 : 0;
    while (from > 0 && from < m->length && utf8_continues(m->text[from])) from++;
    return error_set(error,
                     "no token of the vocabulary can go on with the answer's shape after '%.*s'",
                     (int)(m->length - from), m->text ? m->text + from : "");
}

/* TokenRule.allowed: the mask of the tokens that the shape allows next, with the end-of-sequence
 * tokens where the text so far may be the whole answer. */
static Status allowed(TokenRule *rule, const uint64_t **mask, Error *error) {
    Matcher *m = (Matcher *)rule;
    const Vocabulary *v = m->shape->vocabulary;
    Acceptor *acceptor = m->shape->acceptor;
    bool any = false;
    matcher_begin(m);
    if (m->at_start && v->has_start) {
        memset(m->mask, 0, v->words * sizeof *m->mask);
        walk(m->shape, &v->start, m->state, m->mask);
        walk(m->shape, &v->special, m->state, m->mask);
    } else if (!cached_mask(m->shape, m->state, m->mask)) {
        matcher_end(m);
        return error_set(error, "no memory for the tokens that may come next");
    }
    bool accepts = acceptor_accepts(acceptor, m->state) && !acceptor_failed(acceptor);
    for (size_t i = 0; i < m->n_eos && accepts; i++)
        if (m->eos[i] >= 0 && (size_t)m->eos[i] < v->size)
            m->mask[m->eos[i] / 64] |= (uint64_t)1 << (m->eos[i] % 64);
    bool lost = acceptor_failed(acceptor) != NULL;
    matcher_end(m);
    for (size_t i = 0; i < v->words && !any; i++) any = m->mask[i] != 0;
    *mask = m->mask;
    return any && !lost ? STATUS_OK : no_token(m, error);
}

static Status matcher_take(TokenRule *rule, int32_t token, bool *complete, Error *error) {
    Matcher *m = (Matcher *)rule;
    size_t n;
    const char *bytes = vocabulary_bytes(m->shape->vocabulary, token, m->at_start, &n);
    if (!matcher_push(m, bytes, n, NULL)) return no_token(m, error);
    *complete = matcher_complete(m);
    return m->failed ? no_token(m, error) : STATUS_OK;
}

static size_t allowed_drafts(TokenRule *rule, const int32_t *ids, size_t n) {
    return matcher_allowed_tokens((Matcher *)rule, ids, n);
}

static void free_rule(TokenRule *rule) {
    matcher_free((Matcher *)rule);
}

/* Takes away what stands around the names of special tokens; returns the length that is left. */
static size_t plain_names(char *text, size_t n) {
    size_t kept = 0;
    for (size_t i = 0; i < n; i++) {
        unsigned char byte = (unsigned char)text[i];
        if (byte != VOCABULARY_TOKEN_BEGIN && byte != VOCABULARY_TOKEN_END) text[kept++] = text[i];
    }
    return kept;
}

static Status close_text(TokenRule *rule, const char **bytes, size_t *length, Error *error) {
    Matcher *m = (Matcher *)rule;
    Status status = matcher_closing(m, bytes, length, error);
    if (status == STATUS_OK && m->closing.bytes) *length = plain_names(m->closing.bytes, *length);
    return status;
}

void matcher_close_on_length(Matcher *m) {
    m->rule.close = close_text;
}

Status matcher_new(Matcher **out, Shape *shape, const GenerationOptions *options, Error *error) {
    const Vocabulary *v = shape->vocabulary;
    Matcher *m = calloc(1, sizeof *m);
    if (m) m->mask = calloc(v->words + 1, sizeof *m->mask);
    if (!m || !m->mask) {
        free(m);
        return error_set(error, "no memory for a shape");
    }
    m->rule = (TokenRule){.allowed = allowed,
                          .take = matcher_take,
                          .allowed_drafts = allowed_drafts,
                          .free = free_rule};
    m->shape = shape;
    m->looks_ahead = true;
    m->at_start = !(options->decode_flags & TOKEN_DECODER_CONTINUE);
    m->n_eos = options->n_eos;
    memcpy(m->eos, options->eos, sizeof m->eos);
    *out = m;
    return STATUS_OK;
}

void matcher_free(Matcher *m) {
    if (!m) return;
    free(m->text);
    free(m->mask);
    text_free(&m->closing);
    if (m->release) m->release(m->owner, m->shape);
    free(m);
}
