#include "measure/bench_drafts.h"

#include <stdlib.h>

#include "base/clock.h"
#include "kvcache/kvcache_sizes.h"
#include "draft/drafter_set.h"
#include "draft/speculation.h"
#include "measure/bench_limits.h"
#include "core/prefill.h"

/* Tokens before what is measured, and of one round; the first rounds, in which the share of right
 * drafts becomes known, are not counted. */
enum { PROMPT = 16, TOKENS = 32, WARM_ROUNDS = 2, MIN_ROUNDS = 5, MAX_ROUNDS = 64, MOST = 15 };
static const double ENOUGH_SECONDS = 4.0;

/* A drafter that knows the text, and is wrong now and then. */
typedef struct Oracle {
    Drafter drafter;
    const int32_t *text; /* [PROMPT + TOKENS] */
    size_t vocab_size;
    double share;
    uint32_t round;
} Oracle;

static uint32_t mix(uint32_t a, uint32_t b) {
    uint32_t x = a * 2654435761u ^ b * 2246822519u;
    x ^= x >> 15;
    x *= 2246822519u;
    return x ^ x >> 13;
}

static size_t drafts_propose(Drafter *drafter, const int32_t *text, size_t n, int32_t *drafts,
                             size_t most) {
    const Oracle *o = (const Oracle *)drafter;
    (void)text;
    for (size_t i = 0; i < most; i++) {
        size_t at = n + i;
        int32_t right = o->text[at % (PROMPT + TOKENS)];
        bool is_right = (double)mix((uint32_t)at, o->round) < o->share * 0x1p32;
        drafts[i] = is_right ? right : (int32_t)(((size_t)right + 1) % o->vocab_size);
    }
    return most;
}

static void drafts_learn(Drafter *drafter, size_t n, size_t accepted) {
    (void)drafter;
    (void)n;
    (void)accepted;
}

/* The Oracle is the caller's. */
static void drafts_keep(Drafter *drafter) {
    (void)drafter;
}

/* Decodes the text after its prompt; the seconds that it took. */
static Status decode(Model *model, KvCache *cache, const int32_t *text, Drafter *drafter,
                     SpeculationStats *stats, double *seconds, Error *error) {
    const Prefill prompt = {.ids = text, .n = PROMPT, .first_wanted = PROMPT};
    Decoding decoding;
    float *logits;
    kvcache_reset(cache, 0, 0);
    Status status = prefill(model, cache, &prompt, error);
    if (status != STATUS_OK) return status;
    status = decoding_init(&decoding, model, cache, drafter, text, PROMPT, error);
    double start = clock_seconds();
    for (size_t i = PROMPT; i < PROMPT + TOKENS && status == STATUS_OK; i++)
        status = decoding_next(&decoding, text[i], &logits, error);
    *seconds = clock_seconds() - start;
    stats->passes += decoding.speculation.stats.passes;
    stats->drafted += decoding.speculation.stats.drafted;
    stats->accepted += decoding.speculation.stats.accepted;
    decoding_free(&decoding);
    return status;
}

/* One round: with drafts, then without. */
static Status measure_round(Model *model, KvCache *cache, Oracle *oracle, Drafter *set,
                            SpeculationStats *stats, double seconds[2], Error *error) {
    int32_t text[PROMPT + TOKENS];
    SpeculationStats ignored = {0};
    for (size_t i = 0; i < PROMPT + TOKENS; i++)
        text[i] = (int32_t)(mix((uint32_t)i, 77 + oracle->round) % oracle->vocab_size);
    oracle->text = text;
    Status status = decode(model, cache, text, set, stats, &seconds[0], error);
    if (status != STATUS_OK) return status;
    return decode(model, cache, text, NULL, &ignored, &seconds[1], error);
}

Status bench_drafts(Model *model, KvCache *cache, double share, DraftSpeed *out, Error *error) {
    double ratios[MAX_ROUNDS], drafted[MAX_ROUNDS], plain[MAX_ROUNDS], sum = 0.0;
    size_t n = 0;
    PassCosts costs = {.row_share = 0.1, .runs_again = kvcache_has_states(kvcache_shape(cache))};
    DraftRecord record = draft_record("oracle", 0.6);
    SpeculationStats stats = {0};
    Oracle oracle = {.drafter = {.most = MOST,
                                 .propose = drafts_propose,
                                 .learn = drafts_learn,
                                 .free = drafts_keep},
                     .vocab_size = model_config(model)->vocab_size,
                     .share = share};
    if (model_context(model) < PROMPT + TOKENS + MOST + 1)
        return error_set(error, "--draft: a context of %u positions is too short",
                         model_context(model));
    Drafter *set = drafter_set_new(&costs);
    if (!set) return error_set(error, "no memory for drafts");
    drafter_set_add(set, &oracle.drafter, &record);
    Status status = STATUS_OK;
    for (; n < MAX_ROUNDS && (n < MIN_ROUNDS || sum < ENOUGH_SECONDS); oracle.round++) {
        double seconds[2];
        status = measure_round(model, cache, &oracle, set, &stats, seconds, error);
        if (status != STATUS_OK) break;
        if (oracle.round < WARM_ROUNDS) {
            stats = (SpeculationStats){0};
            continue;
        }
        drafted[n] = TOKENS / seconds[0];
        plain[n] = TOKENS / seconds[1];
        ratios[n++] = seconds[1] / seconds[0];
        sum += seconds[0] + seconds[1];
    }
    drafter_free(set);
    kvcache_reset(cache, 0, 0);
    if (status != STATUS_OK) return status;
    double passes = (double)stats.passes;
    *out = (DraftSpeed){.plain = bench_median(plain, n),
                        .drafted = bench_median(drafted, n),
                        .times = bench_median(ratios, n),
                        .rows = 1.0 + (double)stats.drafted / passes,
                        .tokens = 1.0 + (double)stats.accepted / passes};
    return STATUS_OK;
}
