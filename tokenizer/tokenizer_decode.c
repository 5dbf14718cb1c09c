/* Ids to text: the decoder of tokenizer.h. */
#include <string.h>

#include "base/unicode.h"
#include "tokenizer.h"
#include "tokenizer/scratch.h"
#include "tokenizer/tokenizer_normalize.h"
#include "tokenizer/tokenizer_pattern.h"
#include "tokenizer/tokenizer_table.h"

/* How many characters the first decoder step strips at the start of a text. */
static uint32_t stripped_at_start(const Tokenizer *t) {
    bool strips = t->decoders.n > 0 && t->decoders.steps->op == DECODE_STRIP;
    return strips ? t->decoders.steps->flags & 0xFFFF : 0;
}

static void restart(TokenDecoder *d) {
    d->at_start = !(d->flags & TOKEN_DECODER_CONTINUE);
    d->strip_left = d->at_start ? stripped_at_start(d->tokenizer) : 0;
    d->held_id = -1;
    d->text.length = d->given = 0;
    d->text.failed = false;
}

void token_decoder_init(TokenDecoder *d, const Tokenizer *tokenizer, unsigned flags) {
    *d = (TokenDecoder){.tokenizer = tokenizer, .flags = flags};
    restart(d);
}

void token_decoder_free(TokenDecoder *d) {
    text_free(&d->text);
    *d = (TokenDecoder){0};
}

/* llama2.c strips a space after every BOS. */
static void strip_after_bos(TokenDecoder *d, int32_t id) {
    const SectionHeader *h = d->tokenizer->header;
    if (h->flags & SECTION_STRIP_AFTER_BOS && id == h->bos_id && d->tokenizer->decoders.n)
        d->strip_left = d->tokenizer->decoders.steps->flags & 0xFFFF;
}

/* Appends the text of one token. The section holds each token's text once, or also as the first
 * and as the last of a text: 1, 2 or 4 variants. What is stripped at the start may span several
 * tokens. */
static void decode_token(TokenDecoder *d, int32_t id, bool last) {
    const Tokenizer *t = d->tokenizer;
    uint32_t variant = (d->at_start ? 1 : 0) | (last ? 2 : 0);
    variant &= t->header->decode_variants - 1;
    size_t n, strip;
    const char *text =
        table_section_text(t, t->decode[(size_t)variant * t->header->n_tokens + (uint32_t)id], &n);
    d->at_start = false;
    if (d->strip_left > 0 && n > 0 && !t->holds_text) {
        const char *character = table_section_text(t, t->decoders.steps->a, &strip);
        for (; d->strip_left > 0 && strip > 0 && n >= strip && memcmp(text, character, strip) == 0;
             d->strip_left--)
            text += strip, n -= strip;
        if (n > 0) d->strip_left = 0;
    }
    strip_after_bos(d, id);
    text_put(&d->text, text, n, 0);
}

/* Gives the text up to `end` to the caller. */
static Status decode_give(TokenDecoder *d, size_t end, const char **bytes, size_t *length,
                          Error *error) {
    if (d->text.failed) return table_no_memory(error);
    *bytes = d->text.bytes ? d->text.bytes + d->given : "";
    *length = end - d->given;
    d->given = end;
    return STATUS_OK;
}

static bool is_shown(const TokenDecoder *d, int32_t id) {
    for (size_t i = 0; i < d->n_shown; i++)
        if (d->shown[i] == id) return true;
    return false;
}

Status token_decoder_push(TokenDecoder *d, int32_t id, const char **bytes, size_t *length,
                          Error *error) {
    const Tokenizer *t = d->tokenizer;
    *bytes = "";
    *length = 0;
    if (id < 0 || (size_t)id >= tokenizer_n_ids(t))
        return error_set(error, "token %d is outside the tokenizer's vocabulary of %zu", id,
                         tokenizer_n_ids(t));
    if (d->given > 0) { /* the caller no longer looks at it */
        d->text.length -= d->given;
        memmove(d->text.bytes, d->text.bytes + d->given, d->text.length);
        d->given = 0;
    }
    /* A row of the model without a token has no text, and the text goes on as if the id were not
     * there, as in transformers (PreTrainedTokenizerFast drops ids without a token). */
    if ((uint32_t)id >= t->header->n_tokens) return STATUS_OK;
    if (d->flags & TOKEN_DECODER_SKIP_SPECIAL && tokenizer_is_special(t, id) && !is_shown(d, id)) {
        strip_after_bos(d, id);
        return STATUS_OK;
    }
    if (t->header->decode_variants > 2) { /* the last token differs: stay one behind */
        int32_t held = d->held_id;
        d->held_id = id;
        id = held;
    }
    if (id >= 0) decode_token(d, id, false);
    size_t end =
        t->holds_text ? 0 : d->text.length - utf8_incomplete_tail(d->text.bytes, d->text.length);
    return decode_give(d, end, bytes, length, error);
}

/* DECODE_STRIP: removes up to `left` of the step's character from the beginning of the text, unless
 * that continues another one, and up to `right` from its end. */
static void strip_text(TokenDecoder *d, const StepRecord *step) {
    size_t n, from = 0, to = d->text.length;
    const char *text = d->text.bytes, *character = table_section_text(d->tokenizer, step->a, &n);
    uint32_t left = d->flags & TOKEN_DECODER_CONTINUE ? 0 : step->flags & 0xFFFF;
    uint32_t right = step->flags >> 16;
    if (n == 0) return;
    for (; left > 0 && to - from >= n && memcmp(text + from, character, n) == 0; left--) from += n;
    for (; right > 0 && to - from >= n && memcmp(text + to - n, character, n) == 0; right--)
        to -= n;
    if (to > from) memmove(d->text.bytes, text + from, to - from);
    d->text.length = to - from;
}

/* Takes decoder step i, a DECODE_REPLACE_PATTERN: replaces the pattern's matches in the whole text,
 * which may then have `limit` bytes at the most. */
static Status replace_in_text(TokenDecoder *d, size_t i, size_t limit, Error *error) {
    const StepList *decoders = &d->tokenizer->decoders;
    TextBuffer valid = {0}, out = {.limit = limit};
    size_t n;
    const char *by = table_section_text(d->tokenizer, decoders->steps[i].b, &n);
    Scratch *scratch = scratch_new();
    utf8_put_repaired(&valid, d->text.bytes, d->text.length);
    Matches matches = {.span = {.bytes = valid.bytes, .length = valid.length},
                       .code = decoders->patterns[i]};
    matches.string = table_section_text(d->tokenizer, decoders->steps[i].a, &matches.string_length);
    if (scratch) pattern_allow(scratch, pattern_steps(valid.length));
    Status status = scratch && !valid.failed
                        ? tokenizer_replace_matches(&matches, scratch, &out, by, n, error)
                        : table_no_memory(error);
    if (scratch) scratch_free(scratch);
    if (status == STATUS_OK && out.failed)
        status = error_set(error, "tokenizer: decoder step %zu makes too long a text", i + 1);
    text_free(&valid);
    text_free(&d->text);
    out.limit = 0;
    d->text = out;
    return status;
}

Status token_decoder_flush(TokenDecoder *d, const char **bytes, size_t *length, Error *error) {
    const StepList *decoders = &d->tokenizer->decoders;
    *bytes = "";
    *length = 0;
    if (d->held_id >= 0) decode_token(d, d->held_id, true);
    size_t limit = ((size_t)1 << 20) + 64 * d->text.length;
    size_t n_steps = d->tokenizer->holds_text && d->text.length ? decoders->n : 0;
    for (size_t i = 0; i < n_steps; i++)
        if (decoders->steps[i].op == DECODE_STRIP)
            strip_text(d, &decoders->steps[i]);
        else if (replace_in_text(d, i, limit, error) != STATUS_OK)
            return STATUS_FAILED;
    Status status = decode_give(d, d->text.length, bytes, length, error);
    restart(d);
    return status;
}
