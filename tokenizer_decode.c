/* Ids back to text, a stream at a time. */
#include "tokenizer_internal.h"
#include <stdlib.h>
#include <string.h>

/* ---- Decoding ---- */

static void decoder_restart(TokenDecoder *d) {
    const Tokenizer *t = d->tokenizer;
    bool strips = t->n_steps[2] > 0 && t->steps[2]->op == DECODE_STRIP;
    d->at_start = !(d->flags & TOKEN_DECODER_CONTINUE);
    d->strip_left = strips && d->at_start ? t->steps[2]->flags & 0xFFFF : 0;
    d->held_id = -1;
    d->length = d->given = 0;
}

void token_decoder_init(TokenDecoder *d, const Tokenizer *tokenizer, unsigned flags) {
    *d = (TokenDecoder){.tokenizer = tokenizer, .flags = flags};
    decoder_restart(d);
}

void token_decoder_free(TokenDecoder *d) {
    free(d->bytes);
    *d = (TokenDecoder){0};
}

static Status decoder_append(TokenDecoder *d, const char *bytes, size_t n, Error *error) {
    if (d->capacity - d->length < n + 1) {
        size_t capacity = (d->length + n + 64) * 2;
        char *grown = realloc(d->bytes, capacity);
        if (!grown) return no_memory(error);
        d->bytes = grown;
        d->capacity = capacity;
    }
    memcpy(d->bytes + d->length, bytes, n);
    d->length += n;
    return STATUS_OK;
}

/* Appends the text of one token; what is stripped at the start may span several. */
static Status decode_token(TokenDecoder *d, int32_t id, bool last, Error *error) {
    const Tokenizer *t = d->tokenizer;
    uint32_t variants = t->header->decode_variants;
    uint32_t variant = ((d->at_start ? 1 : 0) | (last ? 2 : 0)) & (variants - 1);
    size_t n, strip = 0;
    const char *text =
        section_text(t, t->decode[(size_t)variant * t->header->n_tokens + (uint32_t)id], &n);
    d->at_start = false;
    if (d->strip_left > 0 && n > 0 && !t->holds_text) {
        const char *character = section_text(t, t->steps[2]->a, &strip);
        while (d->strip_left > 0 && strip > 0 && n >= strip && memcmp(text, character, strip) == 0)
            text += strip, n -= strip, d->strip_left--;
        if (n > 0) d->strip_left = 0;
    }
    if (t->header->flags & SECTION_STRIP_AFTER_BOS && id == t->header->bos_id && t->n_steps[2])
        d->strip_left = t->steps[2]->flags & 0xFFFF;
    return decoder_append(d, text, n, error);
}

/* Replaces what is not UTF-8 in [given, *end) by U+FFFD. */
static Status decoder_sanitize(TokenDecoder *d, size_t *end, Error *error) {
    size_t at = d->given + utf8_valid_prefix(d->bytes + d->given, *end - d->given);
    while (at < *end) {
        size_t bad = utf8_bad_length(d->bytes + at, *end - at), tail = d->length - at - bad;
        if (decoder_append(d, "\0\0\0", 3, error) != STATUS_OK) return STATUS_FAILED;
        memmove(d->bytes + at + 3, d->bytes + at + bad, tail);
        memcpy(d->bytes + at, "\xEF\xBF\xBD", 3);
        d->length -= bad;
        *end = *end + 3 - bad;
        at += 3;
        at += utf8_valid_prefix(d->bytes + at, *end - at);
    }
    return STATUS_OK;
}

/* Gives [given, end) to the caller. */
static Status decoder_give(TokenDecoder *d, size_t end, const char **bytes, size_t *length,
                           Error *error) {
    if (d->flags & TOKEN_DECODER_LOSSY && end > d->given &&
        decoder_sanitize(d, &end, error) != STATUS_OK)
        return STATUS_FAILED;
    *bytes = d->bytes ? d->bytes + d->given : "";
    *length = end - d->given;
    d->given = end;
    return STATUS_OK;
}

Status token_decoder_push(TokenDecoder *d, int32_t id, const char **bytes, size_t *length,
                          Error *error) {
    const Tokenizer *t = d->tokenizer;
    *bytes = "";
    *length = 0;
    if (id < 0 || (uint32_t)id >= t->header->n_tokens)
        return error_set(error, "token %d is outside the vocabulary of %u", id,
                         t->header->n_tokens);
    if (d->given > 0) { /* what was given is gone */
        memmove(d->bytes, d->bytes + d->given, d->length - d->given);
        d->length -= d->given;
        d->given = 0;
    }
    if (d->flags & TOKEN_DECODER_SKIP_SPECIAL && tokenizer_is_special(t, id)) {
        if (t->header->flags & SECTION_STRIP_AFTER_BOS && id == t->header->bos_id && t->n_steps[2])
            d->strip_left = t->steps[2]->flags & 0xFFFF;
        return STATUS_OK;
    }
    if (t->header->decode_variants > 2) { /* the last token differs: one behind */
        int32_t held = d->held_id;
        d->held_id = id;
        id = held;
    }
    if (id >= 0 && decode_token(d, id, false, error) != STATUS_OK) return STATUS_FAILED;
    if (t->holds_text) return STATUS_OK;
    return decoder_give(d, d->length - utf8_incomplete_tail(d->bytes, d->length), bytes, length,
                        error);
}

/* The steps that look at the whole text. */
static Status decode_whole(TokenDecoder *d, Error *error) {
    const Tokenizer *t = d->tokenizer;
    for (size_t i = 0; i < t->n_steps[2]; i++) {
        const StepRecord *step = &t->steps[2][i];
        size_t n, by_length, from = 0, to = d->length;
        const char *a = section_text(t, step->a, &n), *by = section_text(t, step->b, &by_length);
        if (step->op == DECODE_STRIP) {
            uint32_t left = d->flags & TOKEN_DECODER_CONTINUE ? 0 : step->flags & 0xFFFF;
            for (; n > 0 && left > 0 && to - from >= n && !memcmp(d->bytes + from, a, n); left--)
                from += n;
            for (uint32_t right = step->flags >> 16;
                 n > 0 && right > 0 && to - from >= n && !memcmp(d->bytes + to - n, a, n); right--)
                to -= n;
            if (to > from) memmove(d->bytes, d->bytes + from, to - from);
            d->length = to - from;
            continue;
        }
        size_t end = d->length;
        if (decoder_sanitize(d, &end, error) != STATUS_OK) return STATUS_FAILED;
        TextBuffer out = {0};
        Scratch *scratch = scratch_new();
        Status status = scratch ? replace_pattern(scratch, t->patterns[2][i], &out, d->bytes,
                                                  d->length, NULL, by, by_length, error)
                                : no_memory(error);
        if (scratch) scratch_free(scratch);
        d->length = 0;
        if (status == STATUS_OK)
            status = decoder_append(d, out.bytes ? out.bytes : "", out.length, error);
        text_free(&out);
        if (status != STATUS_OK) return status;
    }
    return STATUS_OK;
}

Status token_decoder_flush(TokenDecoder *d, const char **bytes, size_t *length, Error *error) {
    *bytes = "";
    *length = 0;
    if (d->held_id >= 0 && decode_token(d, d->held_id, true, error) != STATUS_OK)
        return STATUS_FAILED;
    if (d->tokenizer->holds_text && d->length && decode_whole(d, error) != STATUS_OK)
        return STATUS_FAILED;
    Status status = decoder_give(d, d->length, bytes, length, error);
    decoder_restart(d);
    return status;
}

Status tokenizer_decode(const Tokenizer *t, const int32_t *ids, size_t n, unsigned flags,
                        char **text, size_t *length, Error *error) {
    TokenDecoder decoder;
    TextBuffer out = {0};
    const char *bytes;
    size_t given;
    Status status = STATUS_OK;
    token_decoder_init(&decoder, t, flags);
    for (size_t i = 0; i < n && status == STATUS_OK; i++) {
        status = token_decoder_push(&decoder, ids[i], &bytes, &given, error);
        if (status == STATUS_OK) text_put(&out, bytes, given, 0);
    }
    if (status == STATUS_OK) status = token_decoder_flush(&decoder, &bytes, &given, error);
    if (status == STATUS_OK) text_put(&out, bytes, given, 0);
    text_put(&out, "", 1, 0);
    token_decoder_free(&decoder);
    if (status == STATUS_OK && out.failed) status = no_memory(error);
    if (status != STATUS_OK) {
        text_free(&out);
        return status;
    }
    *text = out.bytes;
    *length = out.length - 1;
    return STATUS_OK;
}
