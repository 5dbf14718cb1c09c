#include "draft/recorded.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/utf8.h"

/* Bytes that are tokenized at a time; bytes at their end whose tokens might be others in a longer
 * text; bytes by which a text that left the record is found again in it. */
enum { AT_A_TIME = 4096, UNSURE = 64, RESYNC = 12 };

/* First drafts, and those after a wrong one; after full acceptance they double. */
enum { DRAFTS_AT_FIRST = 4, DRAFTS_AGAIN = 8 };

typedef struct Recorded {
    Drafter drafter;
    RecordedDecoding decoding;
    char *record;
    size_t length, n_prompt;

    size_t n_seen; /* tokens of the text, with the prompt, that have been compared */
    size_t at;     /* bytes of the record that agree, or that a resynchronized text has reached */
    bool lost;     /* the text's end is not in the record */
    char tail[RESYNC]; /* the text's last bytes, while it is lost */
    size_t n_tail;

    TokenList ids;  /* the record's tokens from some byte on ... */
    size_t *begins; /* [ids.length + 1]: at which of its bytes each begins */
    size_t begins_capacity;
    size_t drafts; /* at a time */

    float *logits; /* [vocab_size], of recorded_look */
    size_t looked_at, vocab_size;
    bool looks;
    Divergence divergence;
} Recorded;

/* ---- Tokens and bytes ---- */

/* The bytes of a token of the text; `first`: of its first token. False: none, or no memory. */
static bool token_bytes(const Recorded *r, int32_t token, bool first, TextBuffer *out) {
    TokenDecoder decoder;
    const char *bytes;
    size_t length;
    Error ignored;
    out->length = 0;
    token_decoder_init(&decoder, r->decoding.tokenizer,
                       r->decoding.flags | (first ? 0 : TOKEN_DECODER_CONTINUE));
    decoder.shown = r->decoding.shown;
    decoder.n_shown = r->decoding.n_shown;
    bool fits = token_decoder_push(&decoder, token, &bytes, &length, &ignored) == STATUS_OK;
    if (fits) text_put(out, bytes, length, 0);
    if (fits) fits = token_decoder_flush(&decoder, &bytes, &length, &ignored) == STATUS_OK;
    if (fits) text_put(out, bytes, length, 0);
    token_decoder_free(&decoder);
    return fits && !out->failed;
}

/* Tokenizes record[at, at + n) as the continuation of a text that ends with `prefix`, and adds the
 * tokens to r->ids, which the caller has emptied, and their places in the record to r->begins. A
 * tokenizer may treat the beginning of a text in its own way (a space before it, say), hence the
 * prefix: its tokens are dropped by going back from the last token until the n bytes are covered.
 * False: a token spans prefix and record, tokens spell other bytes, or there is no memory. */
static bool encode_behind(Recorded *r, const char *prefix, size_t at, size_t n) {
    unsigned flags = r->decoding.n_shown > 0 || !(r->decoding.flags & TOKEN_DECODER_SKIP_SPECIAL)
                         ? TOKENIZE_PARSE_SPECIAL
                         : 0;
    TextBuffer text = {0}, bytes = {0};
    TokenList ids = {0};
    Error ignored;
    size_t left = n, first; /* bytes not yet covered; index of the first token that is kept */
    text_put(&text, prefix, strlen(prefix), 0);
    text_put(&text, r->record + at, n, 0);
    bool found = !text.failed && tokenizer_encode(r->decoding.tokenizer, text.bytes, text.length,
                                                  NULL, flags, &ids, &ignored) == STATUS_OK;
    for (first = ids.length; found && left > 0 && first > 0; first--) {
        found = token_bytes(r, ids.ids[first - 1], false, &bytes) && bytes.length <= left &&
                memcmp(bytes.bytes ? bytes.bytes : "", r->record + at + left - bytes.length,
                       bytes.length) == 0;
        left -= found ? bytes.length : 0;
    }
    found =
        found && left == 0 &&
        array_reserve(&r->begins, &r->begins_capacity, ids.length - first + 1, sizeof *r->begins);
    for (size_t i = first; i < ids.length && found; i++) {
        found = token_bytes(r, ids.ids[i], false, &bytes) && token_list_push(&r->ids, ids.ids[i]);
        r->begins[i - first] = at;
        at += bytes.length;
        r->begins[i - first + 1] = at;
    }
    token_list_free(&ids);
    text_free(&text);
    text_free(&bytes);
    return found;
}

/* Tokenizes the record anew from r->at on. Tokenizers that put a space before a text are given
 * something to put it before. */
static void recorded_encode(Recorded *r) {
    size_t n = r->length - r->at;
    bool all = n <= AT_A_TIME;
    if (!all) n = AT_A_TIME;
    if (!all) n = utf8_boundary(r->record + r->at, r->length - r->at, n);
    r->ids.length = 0;
    if (n == 0) return;
    if (!encode_behind(r, "", r->at, n)) {
        r->ids.length = 0;
        if (!encode_behind(r, "\n", r->at, n)) r->ids.length = 0;
    }
    size_t sure = all ? n : n - UNSURE;
    while (r->ids.length > 0 && r->begins[r->ids.length] > r->at + sure) r->ids.length--;
}

/* The index of the record's token that begins at r->at; where its tokens lie otherwise or end
 * before, they are made anew. ids.length: there is none. */
static size_t next_token(Recorded *r) {
    for (int round = 0; round < 2; round++) {
        for (size_t i = 0; i < r->ids.length; i++)
            if (r->begins[i] == r->at) return i;
        if (round == 0) recorded_encode(r);
    }
    return r->ids.length;
}

/* ---- Following the text ---- */

static void remember_tail(Recorded *r, const TextBuffer *bytes) {
    for (size_t i = 0; i < bytes->length; i++) {
        if (r->n_tail == RESYNC) memmove(r->tail, r->tail + 1, --r->n_tail);
        r->tail[r->n_tail++] = bytes->bytes[i];
    }
}

/* Finds the text's last bytes again in the record, from shortly before the place where it was lost,
 * and goes on after them. */
static void resync(Recorded *r) {
    size_t from = r->at > 4 * RESYNC ? r->at - 4 * RESYNC : 0;
    if (r->n_tail < RESYNC || r->length < from) return;
    const char *found = memmem(r->record + from, r->length - from, r->tail, RESYNC);
    if (!found) return;
    r->at = (size_t)(found - r->record) + RESYNC;
    r->lost = false;
    r->drafts = DRAFTS_AGAIN;
}

/* Whether the record has the token's bytes at r->at. Where the text may be cut at a stop string,
 * they may begin with the record's last ones. */
static bool agrees(const Recorded *r, const TextBuffer *bytes) {
    size_t left = r->length - r->at, n = bytes->length < left ? bytes->length : left;
    if (bytes->length > left && !r->decoding.stops) return false;
    return n == 0 || memcmp(bytes->bytes, r->record + r->at, n) == 0;
}

/* Compares the tokens that the text got. */
static void follow(Recorded *r, const int32_t *text, size_t n) {
    TextBuffer bytes = {0};
    if (r->n_seen < r->n_prompt) r->n_seen = r->n_prompt;
    for (; r->n_seen < n; r->n_seen++) {
        if (!token_bytes(r, text[r->n_seen], r->n_seen == r->n_prompt, &bytes)) break;
        remember_tail(r, &bytes);
        if (!r->lost && agrees(r, &bytes)) {
            r->at += bytes.length;
            if (r->at > r->length) r->at = r->length;
        } else {
            r->lost = true;
            resync(r);
        }
    }
    text_free(&bytes);
}

/* ---- The Drafter ---- */

static size_t recorded_propose(Drafter *drafter, const int32_t *text, size_t n, int32_t *drafts,
                               size_t most) {
    Recorded *r = (Recorded *)drafter;
    follow(r, text, n);
    if (r->lost || r->at == r->length) return 0;
    size_t first = next_token(r), n_drafts = r->ids.length - first;
    if (most > r->drafts) most = r->drafts;
    if (n_drafts > most) n_drafts = most;
    if (n_drafts == 0) return 0;
    memcpy(drafts, r->ids.ids + first, n_drafts * sizeof *drafts);
    return n_drafts;
}

static void recorded_learn(Drafter *drafter, size_t n, size_t accepted) {
    Recorded *r = (Recorded *)drafter;
    r->drafts = accepted == n ? 2 * r->drafts : DRAFTS_AGAIN;
    if (r->drafts > DRAFTS_MAX) r->drafts = DRAFTS_MAX;
    /* Trust doubles with each pass that keeps all drafts; after a wrong one drafts must pay again.
     */
    drafter->trust = accepted < n ? 0 : drafter->trust > 0 ? 2 * drafter->trust : 0;
    if (drafter->trust > DRAFTS_MAX) drafter->trust = DRAFTS_MAX;
}

static void recorded_free(Drafter *drafter) {
    Recorded *r = (Recorded *)drafter;
    token_list_free(&r->ids);
    free(r->begins);
    free(r->record);
    free(r->logits);
    free(r);
}

Drafter *recorded_new(const RecordedDecoding *decoding, const char *record, size_t length,
                      size_t n_prompt) {
    Recorded *r = calloc(1, sizeof *r);
    if (!r) return NULL;
    r->drafter = (Drafter){.most = DRAFTS_MAX,
                           .propose = recorded_propose,
                           .learn = recorded_learn,
                           .free = recorded_free,
                           .trust = DRAFTS_AT_FIRST};
    r->decoding = *decoding;
    r->length = length;
    r->n_prompt = n_prompt;
    r->drafts = DRAFTS_MAX;
    r->record = malloc(length + 1);
    if (!r->record) {
        free(r);
        return NULL;
    }
    memcpy(r->record, length > 0 ? record : "", length);
    return &r->drafter;
}

/* ---- Where the model leaves the record ---- */

bool recorded_look(Drafter *drafter, const int32_t *text, size_t n, const float *logits,
                   size_t vocab_size) {
    Recorded *r = (Recorded *)drafter;
    r->looks = false;
    if (r->divergence.found) return true;
    follow(r, text, n);
    if (!r->logits) r->logits = malloc(vocab_size * sizeof *r->logits);
    if (!r->logits) return false;
    memcpy(r->logits, logits, vocab_size * sizeof *logits);
    r->looks = true;
    r->looked_at = n;
    r->vocab_size = vocab_size;
    return true;
}

/* The token that ends the text and has the largest logit; -1: none does. */
static int32_t likeliest(const Recorded *r, const int32_t *tokens, size_t n) {
    int32_t best = -1;
    for (size_t i = 0; i < n; i++) {
        bool exists = tokens[i] >= 0 && (size_t)tokens[i] < r->vocab_size;
        if (exists && (best < 0 || r->logits[tokens[i]] > r->logits[best])) best = tokens[i];
    }
    return best;
}

void recorded_judge(Drafter *drafter, int32_t token, bool ends, const int32_t *ends_of,
                    size_t n_ends) {
    Recorded *r = (Recorded *)drafter;
    TextBuffer bytes = {0};
    if (!r->looks) return;
    r->looks = false;
    if (!ends && !token_bytes(r, token, r->looked_at == r->n_prompt, &bytes)) return;
    size_t left = r->length - r->at, same = 0;
    bool agree = ends ? left == 0 : agrees(r, &bytes);
    while (same < left && same < bytes.length && r->record[r->at + same] == bytes.bytes[same])
        same++;
    text_free(&bytes);
    if (agree) return;
    size_t next = left > 0 ? next_token(r) : 0;
    int32_t expected = left == 0              ? likeliest(r, ends_of, n_ends)
                       : next < r->ids.length ? r->ids.ids[next]
                                              : -1;
    r->divergence = (Divergence){.found = true,
                                 .byte = r->at + same,
                                 .shared = same,
                                 .token = r->looked_at - r->n_prompt,
                                 .expected = expected,
                                 .got = token};
    if (expected >= 0) r->divergence.gap = r->logits[token] - r->logits[expected];
}

const Divergence *recorded_divergence(const Drafter *drafter) {
    return &((const Recorded *)drafter)->divergence;
}
