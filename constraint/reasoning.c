#include "constraint/reasoning.h"

#include <stdlib.h>
#include <string.h>

#include "tokenizer/tokenizer_parts.h"

/* A character has at most four bytes; each may be a token. */
enum { MOST_WAIT = 3 };

typedef enum Phase {
    BEFORE, /* the answer may still begin with the opening mark */
    THINKING,
    CLOSING, /* the forced tokens come */
    ANSWERING
} Phase;

typedef struct ReasoningRule {
    TokenRule rule; /* first, so that &r->rule is r */
    TokenRule *inner;
    TokenDecoder decoder;
    char *open, *close, *reopen; /* reopen NULL: reasoning comes once */
    const char *begins;          /* the mark that is looked for, open or reopen */
    size_t most, n_taken;        /* tokens of reasoning: allowed, and so far */
    size_t n_waited;             /* tokens since then that completed a character */
    Phase phase;
    TextBuffer text; /* BEFORE: the answer so far; THINKING: the end of it */
    TokenList closing;
    size_t n_closing; /* tokens of it that have come */
    uint64_t *mask;   /* [words]: one token */
} ReasoningRule;

/* ---- Where the answer is --------------------------------------------------------------------- */

/* Drops the first n bytes of the text. */
static void drop(ReasoningRule *r, size_t n) {
    if (n == 0) return;
    r->text.length -= n;
    memmove(r->text.bytes, r->text.bytes + n, r->text.length);
}

/* Whether the answer has begun with the opening mark, or cannot any more. */
static void look_for_open(ReasoningRule *r) {
    size_t n = strlen(r->begins), blank = 0;
    while (blank < r->text.length && r->text.bytes[blank] == '\n') blank++;
    size_t length = r->text.length - blank, common = length < n ? length : n;
    if (memcmp(r->text.bytes + blank, r->begins, common) != 0) {
        r->phase = ANSWERING;
    } else if (length >= n) {
        drop(r, blank + n);
        r->phase = THINKING;
    }
}

static void look_for_close(ReasoningRule *r) {
    size_t n = strlen(r->close);
    const char *found = memmem(r->text.bytes, r->text.length, r->close, n);
    if (found) {
        drop(r, (size_t)(found - r->text.bytes) + n);
        r->begins = r->reopen;
        r->phase = r->reopen ? BEFORE : ANSWERING;
    } else if (r->text.length >= n) {
        drop(r, r->text.length - (n - 1)); /* what may be the beginning of the mark */
    }
}

/* Looks for the next mark until the phase no longer changes. */
static void look(ReasoningRule *r) {
    Phase before;
    do {
        before = r->phase;
        if (r->phase == BEFORE && r->text.length > 0) look_for_open(r);
        if (r->phase == THINKING && r->text.length > 0) look_for_close(r);
    } while (r->phase != before);
}

/* Whether the closing tokens must come next: the limit is reached, and no character is incomplete
 * (MOST_WAIT tokens at most are waited for its other bytes). Where the inner rule forbids them, the
 * opening mark was a part of an answer whose shape the user gave: then the limit ends here, and the
 * phase becomes ANSWERING. */
static bool decide_to_close(ReasoningRule *r) {
    TokenRule *inner = r->inner;
    if (r->phase != THINKING || r->n_taken < r->most) return false;
    bool torn = r->decoder.text.length > r->decoder.given; /* bytes of an incomplete character */
    if (torn && r->n_waited < MOST_WAIT) return false;
    size_t n = r->closing.length;
    if (!inner || !inner->allowed_drafts || inner->allowed_drafts(inner, r->closing.ids, n) == n)
        return true;
    r->phase = ANSWERING;
    return false;
}

/* ---- What a Generation asks ------------------------------------------------------------------ */

static Status allowed(TokenRule *rule, const uint64_t **mask, Error *error) {
    ReasoningRule *r = (ReasoningRule *)rule;
    *mask = NULL;
    if (decide_to_close(r)) {
        r->phase = CLOSING;
        r->n_closing = 0;
    }
    if (r->phase != CLOSING) return r->inner ? r->inner->allowed(r->inner, mask, error) : STATUS_OK;
    int32_t token = r->closing.ids[r->n_closing];
    for (size_t i = 0; i < r->closing.length; i++) {
        int32_t other = r->closing.ids[i];
        r->mask[other / 64] &= ~((uint64_t)1 << (other % 64));
    }
    r->mask[token / 64] |= (uint64_t)1 << (token % 64);
    *mask = r->mask;
    return STATUS_OK;
}

/* TokenRule.take: follows one token of the answer. It counts the tokens of the reasoning and of the
 * forced closing, and looks in the text for the marks that begin and end reasoning. */
static Status reasoning_take(TokenRule *rule, int32_t token, bool *complete, Error *error) {
    ReasoningRule *r = (ReasoningRule *)rule;
    const char *bytes;
    size_t length;
    if (r->inner && r->inner->take(r->inner, token, complete, error) != STATUS_OK)
        return STATUS_FAILED;
    if (r->phase == ANSWERING) return STATUS_OK;
    if (token_decoder_push(&r->decoder, token, &bytes, &length, error) != STATUS_OK)
        return STATUS_FAILED;
    if (r->phase == CLOSING) {
        if (++r->n_closing < r->closing.length) return STATUS_OK;
        r->phase = ANSWERING;
        return STATUS_OK;
    }
    if (r->phase == THINKING) {
        r->n_taken++;
        if (r->n_taken > r->most) r->n_waited++;
    }
    text_put(&r->text, bytes, length, 0);
    if (r->text.failed) return error_set(error, "no memory for the reasoning");
    look(r);
    return STATUS_OK;
}

static Status close_text(TokenRule *rule, const char **bytes, size_t *length, Error *error) {
    ReasoningRule *r = (ReasoningRule *)rule;
    return r->inner->close(r->inner, bytes, length, error);
}

static size_t forced(TokenRule *rule, int32_t *ids, size_t most) {
    ReasoningRule *r = (ReasoningRule *)rule;
    if (r->phase != CLOSING && !decide_to_close(r))
        return r->inner && r->inner->forced ? r->inner->forced(r->inner, ids, most) : 0;
    size_t begun = r->phase == CLOSING ? r->n_closing : 0, n = r->closing.length - begun;
    if (n > most) n = most;
    memcpy(ids, r->closing.ids + begun, n * sizeof *ids);
    return n;
}

static size_t allowed_drafts(TokenRule *rule, const int32_t *ids, size_t n) {
    ReasoningRule *r = (ReasoningRule *)rule;
    bool asks = r->phase != CLOSING && !decide_to_close(r) && r->inner && r->inner->allowed_drafts;
    return asks ? r->inner->allowed_drafts(r->inner, ids, n) : n;
}

static void free_rule(TokenRule *rule) {
    ReasoningRule *r = (ReasoningRule *)rule;
    token_rule_free(r->inner);
    token_decoder_free(&r->decoder);
    text_free(&r->text);
    token_list_free(&r->closing);
    free(r->open);
    free(r->close);
    free(r->reopen);
    free(r->mask);
    free(r);
}

/* ---- Making it ------------------------------------------------------------------------------- */

/* Fills a new rule with the marks, the mask and the tokens of limit->closing. Fails where the
 * tokenizer changes a text at its end, and where the model has no embedding for one of these
 * tokens. */
static Status reasoning_prepare(ReasoningRule *r, const ReasoningLimit *limit, Tokenizer *tokenizer,
                                size_t vocab_size, Error *error) {
    r->open = strdup(limit->open);
    r->close = strdup(limit->close);
    r->begins = r->open;
    r->mask = calloc(vocab_size / 64 + 1, sizeof *r->mask);
    text_put(&r->text, "", 0, 0);
    if (limit->reopen) r->reopen = strdup(limit->reopen);
    if (tokenizer->holds_text || tokenizer->header->decode_variants > 2)
        return error_set(error, "this tokenizer changes a text at its end, so that the end of a "
                                "reasoning is not seen in time");
    if (!r->open || !r->close || !r->mask || r->text.failed || (limit->reopen && !r->reopen))
        return error_set(error, "no memory for the limit of a reasoning");
    if (tokenizer_encode(tokenizer, limit->closing, strlen(limit->closing), NULL,
                         TOKENIZE_PARSE_SPECIAL, &r->closing, error) != STATUS_OK)
        return STATUS_FAILED;
    for (size_t i = 0; i < r->closing.length; i++)
        if ((size_t)r->closing.ids[i] >= vocab_size)
            return error_set(error,
                             "the model has no embedding for token %d, which ends a "
                             "reasoning",
                             r->closing.ids[i]);
    return r->closing.length > 0 ? STATUS_OK
                                 : error_set(error, "no token ends a reasoning of this model");
}

Status reasoning_rule_new(TokenRule **out, const ReasoningLimit *limit, Tokenizer *tokenizer,
                          size_t vocab_size, TokenRule *inner, Error *error) {
    ReasoningRule *r = calloc(1, sizeof *r);
    *out = NULL;
    if (!r) {
        token_rule_free(inner);
        return error_set(error, "no memory for the limit of a reasoning");
    }
    r->rule = (TokenRule){.allowed = allowed,
                          .take = reasoning_take,
                          .forced = forced,
                          .allowed_drafts = allowed_drafts,
                          .free = free_rule};
    r->inner = inner;
    if (inner && inner->close) r->rule.close = close_text;
    r->most = limit->most;
    r->phase = limit->opened ? THINKING : BEFORE;
    token_decoder_init(&r->decoder, tokenizer, TOKEN_DECODER_CONTINUE);
    if (reasoning_prepare(r, limit, tokenizer, vocab_size, error) != STATUS_OK) {
        free_rule(&r->rule);
        return STATUS_FAILED;
    }
    *out = &r->rule;
    return STATUS_OK;
}
