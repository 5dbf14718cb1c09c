#include "modes/proof/difference.h"

#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "json/json_text.h"

enum { SHOWN_BYTES = 60 };

/* Sets report[key] to an excerpt of text[n], at most SHOWN_BYTES from the character at `at` on. */
static void set_excerpt(json_t *report, const char *key, const char *text, size_t n, size_t at) {
    at = utf8_boundary(text, n, at);
    size_t end = n - at > SHOWN_BYTES ? utf8_boundary(text, n, at + SHOWN_BYTES) : n;
    json_object_set_new(report, key, json_lossy_text(end > at ? text + at : "", end - at));
}

bool difference_put_texts(json_t *report, const char *expected, size_t n_expected, const char *got,
                          size_t n_got) {
    size_t n = n_expected < n_got ? n_expected : n_got, at = 0;
    while (at < n && expected[at] == got[at]) at++;
    if (at == n_expected && at == n_got) return true;
    json_object_set_new(report, "byte", json_integer((json_int_t)at));
    set_excerpt(report, "expected", expected, n_expected, at);
    set_excerpt(report, "got", got, n_got, at);
    return false;
}

/* The token's text; NULL: there is none. The caller frees it. */
static char *token_text(const Tokenizer *tokenizer, int32_t token, size_t *length) {
    char *text = NULL;
    Error ignored;
    *length = 0;
    if (token < 0) return NULL;
    if (tokenizer_decode(tokenizer, &token, 1, TOKEN_DECODER_CONTINUE, &text, length, &ignored) !=
        STATUS_OK)
        return NULL;
    return text;
}

static json_t *token_json(const Tokenizer *tokenizer, int32_t token) {
    size_t length;
    char *text = token_text(tokenizer, token, &length);
    if (token < 0) return json_null();
    json_t *json = json_object();
    json_object_set_new(json, "id", json_integer(token));
    json_object_set_new(json, "text", json_lossy_text(text ? text : "", length));
    free(text);
    return json;
}

void difference_put_token(json_t *report, const Divergence *d, const Tokenizer *tokenizer) {
    json_object_set_new(report, "token", json_integer((json_int_t)d->token));
    json_object_set_new(report, "expected_token", token_json(tokenizer, d->expected));
    json_object_set_new(report, "got_token", token_json(tokenizer, d->got));
    json_object_set_new(report, "gap", d->expected < 0 ? json_null() : json_real((double)d->gap));
}

void difference_put_divergence(json_t *report, const Divergence *d, const Tokenizer *tokenizer,
                               const char *record, size_t length) {
    size_t n;
    char *text = tokenizer_is_special(tokenizer, d->got) ? NULL : token_text(tokenizer, d->got, &n);
    if (!text) n = 0;
    size_t same = d->shared < n ? d->shared : n;
    json_object_set_new(report, "byte", json_integer((json_int_t)d->byte));
    set_excerpt(report, "expected", record, length, d->byte);
    json_object_set_new(report, "got", json_lossy_text(text ? text + same : "", n - same));
    difference_put_token(report, d, tokenizer);
    free(text);
}
