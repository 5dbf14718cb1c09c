#include "draft/speculation.h"

#include <stdlib.h>

#include "base/clock.h"
#include "kvcache/kvcache_fork.h"
#include "kvcache/kvcache_snapshots.h"
#include "core/prefill.h"

_Static_assert((int)DRAFTS_MAX < (int)KV_SLACK,
               "windows still hold what rejected drafts have to leave");

size_t speculation_rows(Speculation *s, int32_t sequence, const int32_t *text, size_t n,
                        size_t first, size_t most_drafts, Row *rows) {
    if (s->n_drafts > 0) s->drafter->learn(s->drafter, s->n_drafts, s->n_accepted);
    s->n_drafts = s->n_accepted = 0;
    if (s->drafter && most_drafts > s->drafter->most) most_drafts = s->drafter->most;
    if (s->drafter && most_drafts > 0)
        s->n_drafts = s->drafter->propose(s->drafter, text, n, s->drafts, most_drafts);
    for (size_t i = first; i < n + s->n_drafts; i++)
        rows[i - first] = (Row){.sequence = sequence,
                                .position = (int32_t)i,
                                .token = i < n ? text[i] : s->drafts[i - n],
                                .wants_logits = i + 1 >= n};
    s->stats.passes++;
    s->stats.drafted += s->n_drafts;
    return n - first + s->n_drafts;
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

/* Runs the text's tokens that the cache does not hold, and at most `most_drafts` drafts. */
static Status run_pass(Decoding *d, size_t most_drafts, Error *error) {
    Row rows[SPECULATION_AGAIN + 1 + DRAFTS_MAX];
    size_t n = d->text.length, most_rows = model_max_rows(d->model);
    size_t next = (size_t)kvcache_next(d->cache, 0);
    if (n - 1 - next > SPECULATION_AGAIN || n - next > most_rows) {
        const Prefill again = {
            .ids = d->text.ids + next, .n = n - 1 - next, .first_wanted = n - 1 - next};
        Status status = prefill(d->model, d->cache, &again, error);
        if (status != STATUS_OK) return status;
        next = n - 1;
    }
    if (most_drafts > most_rows - (n - next)) most_drafts = most_rows - (n - next);
    size_t n_rows = speculation_rows(&d->speculation, 0, d->text.ids, n, next, most_drafts, rows);
    if (d->speculation.n_drafts > 0 && !kvcache_hold(d->cache, 0, n - next)) {
        n_rows -= d->speculation.n_drafts;
        d->speculation.n_drafts = 0;
    }
    Drafter *drafter = d->speculation.drafter;
    if (drafter && drafter->costs) drafter->costs->n_texts = 1;
    double start = clock_seconds();
    Status status = model_forward(d->model, d->cache, rows, n_rows, d->logits, error);
    if (drafter && drafter->costs) pass_costs_add(drafter->costs, n_rows, clock_seconds() - start);
    if (status == STATUS_OK && drafter && drafter->ran) drafter->ran(drafter, rows, 0, n_rows);
    return status;
}

Status decoding_next(Decoding *d, int32_t token, float **logits, Error *error) {
    Speculation *s = &d->speculation;
    size_t position = d->text.length, context = model_context(d->model);
    if (!token_list_push(&d->text, token)) return error_set(error, "no memory for the text");
    if (speculation_accepts(s, token)) {
        *logits = d->logits + s->n_accepted * d->vocab_size;
        return STATUS_OK;
    }
    kvcache_truncate(d->cache, 0, (int32_t)position);
    size_t room = position + 1 < context ? context - position - 1 : 0;
    *logits = d->logits;
    Status status = run_pass(d, room < d->most_drafts ? room : d->most_drafts, error);
    if (status == STATUS_OK || s->n_drafts == 0) return status;
    s->n_drafts = 0; /* a wrong draft may give a NaN that the text never comes to: do without */
    return run_pass(d, 0, error);
}

void decoding_end(Decoding *d) {
    if (d->cache && kvcache_next(d->cache, 0) > (int32_t)d->text.length)
        kvcache_truncate(d->cache, 0, (int32_t)d->text.length);
}
