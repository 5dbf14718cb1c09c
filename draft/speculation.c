#include "draft/speculation.h"

#include <stdlib.h>

size_t speculation_rows(Speculation *s, int32_t sequence, const int32_t *text, size_t n,
                        size_t most_drafts, Row *rows) {
    if (s->n_drafts > 0) s->drafter->learn(s->drafter, s->n_drafts, s->n_accepted);
    s->n_drafts = s->n_accepted = 0;
    if (s->drafter && most_drafts > s->drafter->most) most_drafts = s->drafter->most;
    if (s->drafter && most_drafts > 0)
        s->n_drafts = s->drafter->propose(s->drafter, text, n, s->drafts, most_drafts);
    for (size_t i = 0; i <= s->n_drafts; i++)
        rows[i] = (Row){.sequence = sequence,
                        .position = (int32_t)(n - 1 + i),
                        .token = i == 0 ? text[n - 1] : s->drafts[i - 1],
                        .wants_logits = true};
    s->stats.passes++;
    s->stats.drafted += s->n_drafts;
    return 1 + s->n_drafts;
}

bool speculation_accepts(Speculation *s, int32_t token) {
    if (s->n_accepted == s->n_drafts || s->drafts[s->n_accepted] != token) return false;
    s->n_accepted++;
    s->stats.accepted++;
    return true;
}

/* ---- One text ---- */

Status decoding_init(Decoding *d, Model *model, KvCache *cache, Drafter *drafter,
                     const int32_t *ids, size_t n, Error *error) {
    size_t floats, bytes, most_rows = model_max_rows(model);
    *d = (Decoding){.model = model, .cache = cache, .speculation.drafter = drafter};
    d->vocab_size = model_config(model)->vocab_size;
    d->most_drafts = drafter ? drafter->most : 0;
    if (d->most_drafts >= most_rows) d->most_drafts = most_rows - 1;
    bool fits = size_mul(1 + d->most_drafts, d->vocab_size, &floats) &&
                size_mul(floats, sizeof *d->logits, &bytes);
    for (size_t i = 0; i < n && fits; i++) fits = token_list_push(&d->text, ids[i]);
    if (fits && (d->logits = malloc(bytes))) return STATUS_OK;
    return error_set(error, "no memory for the text and its logits");
}

void decoding_free(Decoding *d) {
    token_list_free(&d->text);
    free(d->logits);
    *d = (Decoding){0};
}

Status decoding_next(Decoding *d, int32_t token, float **logits, Error *error) {
    Row rows[1 + DRAFTS_MAX];
    Speculation *s = &d->speculation;
    size_t position = d->text.length, context = model_context(d->model);
    if (!token_list_push(&d->text, token)) return error_set(error, "no memory for the text");
    if (speculation_accepts(s, token)) {
        *logits = d->logits + s->n_accepted * d->vocab_size;
        return STATUS_OK;
    }
    kvcache_truncate(d->cache, 0, (int32_t)position);
    size_t room = position + 1 < context ? context - position - 1 : 0;
    size_t n = speculation_rows(s, 0, d->text.ids, d->text.length,
                                room < d->most_drafts ? room : d->most_drafts, rows);
    *logits = d->logits;
    Status status = model_forward(d->model, d->cache, rows, n, d->logits, error);
    if (status == STATUS_OK || n == 1) return status;
    s->n_drafts = 0; /* a wrong draft may give a NaN that the text never comes to: do without */
    return model_forward(d->model, d->cache, rows, 1, d->logits, error);
}

void decoding_end(Decoding *d) {
    if (d->cache && kvcache_next(d->cache, 0) > (int32_t)d->text.length)
        kvcache_truncate(d->cache, 0, (int32_t)d->text.length);
}
