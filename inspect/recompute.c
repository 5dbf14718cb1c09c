#include "inspect/recompute.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "generate.h"
#include "logprobs.h"

/* A step that takes longer is timed once. */
static const double REPEATED_SECONDS = 0.02;

typedef struct Step {
    double cached_seconds, seconds;
} Step;

/* ---- Multiply-adds ----------------------------------------------------------------------------
 */

/* Of scores and of sums of values, for the queries at positions [first, end). */
static double attention(const Config *c, size_t first, size_t end) {
    double seen = 0.0;
    for (uint32_t layer = 0; layer < c->n_layers; layer++)
        for (size_t i = first; i < end; i++)
            seen +=
                c->window[layer] && i + 1 > c->window[layer] ? c->window[layer] : (double)(i + 1);
    return 2.0 * seen * c->n_heads * c->head_dim;
}

/* ---- Running ----------------------------------------------------------------------------------
 */

/* The text of the new tokens and the table. */
static Status report(const Session *session, const TokenList *ids, size_t n_prompt,
                     const Step *steps, size_t n, Error *error) {
    const Config *c = model_config(session->model);
    char *text;
    size_t length;
    if (tokenizer_decode(session->tokenizer, ids->ids + n_prompt, ids->length - n_prompt,
                         TOKEN_DECODER_SKIP_SPECIAL | TOKEN_DECODER_CONTINUE, &text, &length,
                         error) != STATUS_OK)
        return STATUS_FAILED;
    Status status = output_write(session->output, text, length, error);
    free(text);
    if (status == STATUS_OK) status = output_write(session->output, "\n", 1, error);
    double cached = 0.0, whole = 0.0, sums[4] = {0};
    fprintf(stderr, "%-10s %-27s %s\n", "", "with the cache", "without it");
    fprintf(stderr, "%-10s %8s %9s %9s %8s %9s %9s\n", "positions", "ms", "matrices", "attention",
            "ms", "matrices", "attention");
    for (size_t i = 0; i < n; i++) {
        size_t end = n_prompt + i, first = i == 0 ? 0 : end - 1;
        double work[4] = {config_work(c, (double)(end - first), 1), attention(c, first, end),
                          config_work(c, (double)end, 1), attention(c, 0, end)};
        for (size_t k = 0; k < 4; k++) sums[k] += work[k];
        cached += steps[i].cached_seconds;
        whole += steps[i].seconds;
        if (n > 40 && i % (n / 20) != 0 && i + 1 != n) continue;
        fprintf(stderr, "%-10zu %8.3f %8.2fM %8.3fM %8.3f %8.2fM %8.3fM\n", end,
                1e3 * steps[i].cached_seconds, 1e-6 * work[0], 1e-6 * work[1],
                1e3 * steps[i].seconds, 1e-6 * work[2], 1e-6 * work[3]);
    }
    fprintf(stderr, "%-10s %8.3f %8.2fM %8.3fM %8.3f %8.2fM %8.3fM\n", "all", 1e3 * cached,
            1e-6 * sums[0], 1e-6 * sums[1], 1e3 * whole, 1e-6 * sums[2], 1e-6 * sums[3]);
    if (n == 0) return status; /* the prompt fills the context */
    fprintf(stderr,
            "the same bits at each of %zu steps; without the cache %.1f times the multiply-adds, "
            "%.1f times the time\n",
            n, (sums[2] + sums[3]) / (sums[0] + sums[1]), cached > 0.0 ? whole / cached : 0.0);
    return status;
}

/* Computes ids from `first` on, after those that the cache holds before it, and times it: a short
 * step three times, for the least of them. */
static Status timed_step(const Session *session, KvCache *cache, const TokenList *ids, size_t first,
                         float *logits, double *seconds, Error *error) {
    for (int repeat = 0; repeat < 3; repeat++) {
        kvcache_truncate(cache, 0, (int32_t)first);
        double start = clock_seconds();
        if (generate_prefill(session, cache, ids->ids + first, ids->length - first, logits,
                             error) != STATUS_OK)
            return STATUS_FAILED;
        double elapsed = clock_seconds() - start;
        if (repeat == 0 || elapsed < *seconds) *seconds = elapsed;
        if (elapsed > REPEATED_SECONDS) break;
    }
    return STATUS_OK;
}

Status recompute_run(Session *session, Error *error) {
    Model *model = session->model;
    const Config *c = model_config(model);
    const KvShape shape = model_kv_shape(model, session->kv_type);
    GenerationOptions options;
    TokenList ids = {0};
    KvCache *cache = NULL, *none = NULL;
    Status status = generation_options(session, &options, error);
    if (status == STATUS_OK) status = generate_prompt_ids(session, &ids, error);
    size_t n_prompt = ids.length, room = model_context(model) - ids.length, n = 0;
    size_t most = options.max_tokens && options.max_tokens < room ? options.max_tokens : room;
    float *kept = malloc(c->vocab_size * sizeof *kept),
          *logits = malloc(c->vocab_size * sizeof *logits);
    Step *steps = calloc(most + 1, sizeof *steps);
    if (status == STATUS_OK && (!kept || !logits || !steps))
        status = error_set(error, "no memory for %zu steps", most);
    if (status == STATUS_OK) status = kvcache_new(&cache, &shape, 1, 0, error);
    if (status == STATUS_OK) status = kvcache_new(&none, &shape, 1, 0, error);
    bool ended = false;
    for (size_t done = 0; status == STATUS_OK && !ended && n < most; n++) {
        status = timed_step(session, cache, &ids, done, kept, &steps[n].cached_seconds, error);
        if (status == STATUS_OK)
            status = timed_step(session, none, &ids, 0, logits, &steps[n].seconds, error);
        if (status != STATUS_OK) break;
        if (memcmp(kept, logits, c->vocab_size * sizeof *kept) != 0)
            status = error_set(error, "the logits at position %zu depend on the cache: a bug",
                               ids.length);
        done = ids.length;
        int32_t token = (int32_t)logits_argmax(logits, c->vocab_size);
        for (size_t i = 0; i < options.n_eos; i++) ended = ended || options.eos[i] == token;
        if (!ended && !token_list_push(&ids, token)) status = error_set(error, "no memory");
        if (*session->interrupted) status = STATUS_INTERRUPTED;
    }
    if (status == STATUS_OK) status = report(session, &ids, n_prompt, steps, n, error);
    free(kept);
    free(logits);
    free(steps);
    kvcache_free(cache);
    kvcache_free(none);
    token_list_free(&ids);
    return status;
}
