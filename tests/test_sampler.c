#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <cmocka.h>

#include "core/isa.h"
#include "sampler.h"
#include "tests/tier.h"

enum { VOCAB = 1000 };

/* Makes logits with a wide spread and many ties, the same on every machine. */
static void fill(float *logits, size_t n, uint32_t seed) {
    for (size_t i = 0; i < n; i++) {
        uint32_t x = ((uint32_t)i + seed * 7919u) * 2654435761u;
        x ^= x >> 15;
        x *= 2246822519u;
        x ^= x >> 13;
        logits[i] = (float)((int)(x % 257) - 128) / 16.0f;
    }
}

static Sampler *sampler_of(SamplerOptions options, size_t vocab) {
    Sampler *sampler;
    Error error;
    const Isa *isa = isa_choose(NULL, &error); /* every one draws the same: see below */
    assert_int_equal(sampler_new(&sampler, &options, vocab, isa->numeric, &error), STATUS_OK);
    return sampler;
}

static int32_t one(SamplerOptions options, const float *logits, size_t n, uint64_t position) {
    Sampler *sampler = sampler_of(options, n);
    float *copy = malloc(n * sizeof *copy);
    memcpy(copy, logits, n * sizeof *copy);
    int32_t token = sampler_next(sampler, copy, position);
    free(copy);
    sampler_free(sampler);
    return token;
}

/* Draws n tokens and counts how often each occurs. */
static void draw_many(SamplerOptions options, const float *logits, size_t vocab, size_t n,
                      size_t *counts) {
    Sampler *sampler = sampler_of(options, vocab);
    float copy[VOCAB];
    memset(counts, 0, vocab * sizeof *counts);
    for (size_t i = 0; i < n; i++) {
        memcpy(copy, logits, vocab * sizeof *copy);
        counts[sampler_next(sampler, copy, i)]++;
    }
    sampler_free(sampler);
}

/* A sampler that may choose among some tokens draws what one does whose vocabulary has no others.
 */
static void the_tokens_that_are_not_allowed_take_no_part(void **state) {
    enum { N = 100, KEPT = 34 };
    const SamplerOptions all[] = {
        {.temperature = 0.0f, .top_p = 1.0f, .repetition_penalty = 1.0f},
        {.temperature = 1.0f, .top_p = 1.0f, .repetition_penalty = 1.0f},
        {.temperature = 0.8f, .top_p = 0.9f, .top_k = 7, .repetition_penalty = 1.0f},
        {.temperature = 1.3f, .top_p = 0.7f, .min_p = 0.05f, .repetition_penalty = 1.0f},
    };
    uint64_t allowed[(N + 63) / 64] = {0};
    (void)state;
    for (size_t i = 0; i < N; i += 3) allowed[i / 64] |= (uint64_t)1 << (i % 64);
    for (size_t o = 0; o < sizeof all / sizeof *all; o++) {
        SamplerOptions restricted = all[o];
        restricted.restricted = true;
        Sampler *among = sampler_of(restricted, N), *alone = sampler_of(all[o], KEPT);
        for (uint64_t position = 0; position < 300; position++) {
            float logits[N], kept[KEPT];
            for (size_t i = 0; i < N; i++)
                logits[i] = (float)(4.0 * sampler_random(99, i, position));
            for (size_t i = 0; i < KEPT; i++) kept[i] = logits[3 * i];
            sampler_allow(among, allowed);
            int32_t token = sampler_next(among, logits, position);
            assert_int_equal(token, 3 * sampler_next(alone, kept, position));
        }
        sampler_free(among);
        sampler_free(alone);
    }
}

static void random_numbers_are_philox(void **state) {
    (void)state;
    /* Known answers from Random123's kat_vectors: 6627e8d5 e169c58d for all zeros. */
    assert_true(sampler_random(0, 0, 0) == (double)(0xe169c58d6627e8d5u >> 11) * 0x1p-53);
    /* 408f276d 41c83b0e for all ones. */
    assert_true(sampler_random(UINT64_MAX, UINT64_MAX, UINT64_MAX) ==
                (double)(0x41c83b0e408f276du >> 11) * 0x1p-53);
}

static void temperature_zero_takes_the_first_of_the_largest(void **state) {
    (void)state;
    const float logits[] = {-1.0f, 3.0f, 2.0f, 3.0f, 3.0f};
    SamplerOptions options = sampler_options_default();
    options.temperature = 0.0f;
    for (uint64_t position = 0; position < 10; position++)
        assert_int_equal(one(options, logits, 5, position), 1);
}

static void one_likeliest_token_is_the_first_of_the_largest(void **state) {
    (void)state;
    const float logits[] = {-1.0f, 3.0f, 2.0f, 3.0f, 3.0f};
    SamplerOptions options = sampler_options_default();
    for (uint64_t position = 0; position < 100; position++) {
        options.top_k = 1, options.top_p = 1.0f;
        assert_int_equal(one(options, logits, 5, position), 1);
        options.top_k = 0, options.top_p = 0.0f;
        assert_int_equal(one(options, logits, 5, position), 1);
        options.top_p = 1e-9f;
        assert_int_equal(one(options, logits, 5, position), 1);
    }
}

/* A token's value and index. The filters below are defined on tokens sorted by value, then by
 * index. */
typedef struct Ranked {
    float value;
    size_t index;
} Ranked;

static int by_rank(const void *a, const void *b) {
    const Ranked *x = a, *y = b;
    if (x->value != y->value) return x->value > y->value ? -1 : 1;
    return x->index < y->index ? -1 : 1;
}

static void rank(const float *values, size_t n, Ranked *ranked) {
    for (size_t i = 0; i < n; i++) ranked[i] = (Ranked){values[i], i};
    qsort(ranked, n, sizeof *ranked, by_rank);
}

/* Expects exactly the first `kept` of the ranked tokens to be drawn, each at least once. The
 * options must make draws nearly uniform (a very high temperature). */
static void assert_keeps(SamplerOptions options, const float *logits, size_t vocab,
                         const Ranked *ranked, size_t kept) {
    static size_t counts[VOCAB];
    draw_many(options, logits, vocab, kept * 20 + 1000, counts);
    for (size_t r = 0; r < vocab; r++) {
        if (r < kept) {
            assert_true(counts[ranked[r].index] > 0);
        } else {
            assert_int_equal(counts[ranked[r].index], 0);
        }
    }
}

static void top_k_keeps_the_k_first_by_value_then_index(void **state) {
    (void)state;
    float logits[VOCAB];
    Ranked ranked[VOCAB];
    static const uint32_t ks[] = {1, 2, 3, 7, 16, 40, 257, 999};
    for (uint32_t seed = 0; seed < tier_count(1, 3, 3); seed++) {
        fill(logits, VOCAB, seed);
        logits[5] = 0.0f, logits[17] = -0.0f; /* -0 and 0 must tie */
        rank(logits, VOCAB, ranked);
        for (size_t i = 0; i < sizeof ks / sizeof *ks; i++) {
            SamplerOptions options = sampler_options_default();
            options.top_k = ks[i];
            options.temperature = 1000.0f;
            assert_keeps(options, logits, VOCAB, ranked, ks[i]);
        }
    }
}

static void top_p_keeps_the_fewest_that_reach_it(void **state) {
    (void)state;
    float logits[VOCAB], p[VOCAB];
    Ranked ranked[VOCAB];
    static const float tops[] = {0.05f, 0.3f, 0.5f, 0.9f, 0.99f};
    for (uint32_t seed = 0; seed < tier_count(1, 3, 3); seed++) {
        fill(logits, VOCAB, seed);
        /* Flatten the distribution, so that every kept token is drawn often enough to be seen. */
        for (size_t i = 0; i < VOCAB; i++) logits[i] /= 64.0f, p[i] = expf(logits[i]);
        rank(p, VOCAB, ranked);
        double sum = 0.0;
        for (size_t i = 0; i < VOCAB; i++) sum += (double)p[i];
        for (size_t i = 0; i < sizeof tops / sizeof *tops; i++) {
            double passed = 0.0;
            size_t kept = 0;
            while (passed < (double)tops[i] * sum) passed += (double)ranked[kept++].value;
            SamplerOptions options = sampler_options_default();
            options.top_p = tops[i];
            assert_keeps(options, logits, VOCAB, ranked, kept);
        }
    }
}

static void min_p_keeps_a_share_of_the_likeliest(void **state) {
    (void)state;
    const float logits[] = {0.0f, logf(0.5f), logf(0.26f), logf(0.24f), logf(0.1f)};
    size_t counts[5];
    SamplerOptions options = sampler_options_default();
    options.min_p = 0.25f;
    draw_many(options, logits, 5, 2000, counts);
    assert_true(counts[0] > 0 && counts[1] > 0 && counts[2] > 0);
    assert_int_equal(counts[3] + counts[4], 0);
}

static void draws_follow_the_distribution(void **state) {
    (void)state;
    const double p[] = {0.5, 0.25, 0.125, 0.0625, 0.0625};
    float logits[5];
    size_t counts[5], n = 100000;
    double chi_squared = 0.0;
    for (size_t i = 0; i < 5; i++) logits[i] = 2.0f * logf((float)p[i]);
    SamplerOptions options = sampler_options_default();
    options.temperature = 2.0f;
    draw_many(options, logits, 5, n, counts);
    for (size_t i = 0; i < 5; i++) {
        double expected = p[i] * (double)n, off = (double)counts[i] - expected;
        chi_squared += off * off / expected;
    }
    assert_true(chi_squared < 18.5); /* 4 degrees of freedom: 0.1% by chance */
}

static void samples_and_seeds_draw_independently(void **state) {
    (void)state;
    float logits[VOCAB] = {0};
    SamplerOptions a = sampler_options_default(), b = a, c = a;
    b.sample = 1;
    c.seed = 1;
    size_t same_b = 0, same_c = 0, same_a = 0;
    for (uint64_t position = 0; position < 500; position++) {
        int32_t token = one(a, logits, VOCAB, position);
        same_a += token == one(a, logits, VOCAB, position);
        same_b += token == one(b, logits, VOCAB, position);
        same_c += token == one(c, logits, VOCAB, position);
    }
    assert_int_equal(same_a, 500);
    assert_true(same_b < 10 && same_c < 10);
}

static void a_draw_depends_on_its_position_alone(void **state) {
    (void)state;
    float logits[VOCAB], copy[VOCAB];
    fill(logits, VOCAB, 1);
    SamplerOptions options = sampler_options_default();
    Sampler *sampler = sampler_of(options, VOCAB);
    int32_t forward[50];
    for (uint64_t i = 0; i < 50; i++) {
        memcpy(copy, logits, sizeof copy);
        forward[i] = sampler_next(sampler, copy, i);
    }
    for (uint64_t i = 50; i-- > 0;) {
        memcpy(copy, logits, sizeof copy);
        assert_int_equal(sampler_next(sampler, copy, i), forward[i]);
    }
    sampler_free(sampler);
}

static void penalties_follow_their_formulas(void **state) {
    (void)state;
    SamplerOptions options = sampler_options_default();
    options.temperature = 0.0f;
    /* The repetition penalty divides positive logits and multiplies negative ones, of the prompt's
     * tokens too. */
    options.repetition_penalty = 2.0f;
    Sampler *sampler = sampler_of(options, 3);
    sampler_see_prompt(sampler, (const int32_t[]){0}, 1);
    float positive[] = {3.0f, 1.6f, 1.4f}, negative[] = {-1.0f, -1.9f, -3.0f};
    assert_int_equal(sampler_next(sampler, positive, 1), 1); /* after the penalty: 1.5, 1.6, 1.4 */
    float again[] = {3.0f, 1.6f, 1.4f};
    assert_int_equal(sampler_next(sampler, again, 2), 0);    /* 1.5, 0.8, 1.4 */
    assert_int_equal(sampler_next(sampler, negative, 3), 0); /* -2, -3.8, -3; not -1, -1.9, -3 */
    sampler_free(sampler);
    /* The presence penalty is applied once, the frequency penalty for each occurrence; the prompt
     * does not count. */
    options.repetition_penalty = 1.0f;
    options.presence_penalty = 1.0f;
    options.frequency_penalty = 0.25f;
    sampler = sampler_of(options, 2);
    sampler_see_prompt(sampler, (const int32_t[]){0, 0, 0, 0}, 4);
    static const int32_t expected[] = {0, 0, 0, 1, 0};
    for (uint64_t i = 0; i < 5; i++) {
        float logits[] = {3.0f, 1.4f}; /* token 0: 3, 1.75, 1.5, 1.25 < 1.4; then token 1: 0.15 */
        assert_int_equal(sampler_next(sampler, logits, i), expected[i]);
    }
    sampler_free(sampler);
}

static void a_bias_lifts_and_bans(void **state) {
    (void)state;
    float logits[] = {1.0f, 2.0f, 3.0f};
    const LogitBias bias[] = {{0, 10.0f}, {2, -100.0f}};
    SamplerOptions options = sampler_options_default();
    options.temperature = 0.0f;
    options.bias = bias;
    options.n_bias = 2;
    assert_int_equal(one(options, logits, 3, 0), 0);
    options.bias = bias + 1;
    options.n_bias = 1;
    assert_int_equal(one(options, logits, 3, 0), 1);
    const LogitBias outside[] = {{3, 1.0f}};
    options.bias = outside;
    Sampler *sampler;
    Error error;
    assert_int_equal(sampler_new(&sampler, &options, 3, isa_available(0)->numeric, &error),
                     STATUS_FAILED);
    assert_string_equal(error.text, "logit bias: token 3 is outside the vocabulary of 3");
}

static void extreme_logits_and_temperatures_stay_in_the_vocabulary(void **state) {
    (void)state;
    float logits[VOCAB];
    static const float temperatures[] = {1e-38f, 1e-6f, 1.0f, 1e3f};
    for (size_t i = 0; i < VOCAB; i++) logits[i] = i % 2 ? 3e38f : -3e38f;
    for (size_t i = 0; i < 4; i++) {
        SamplerOptions options = sampler_options_default();
        options.temperature = temperatures[i];
        for (uint32_t k = 0; k < 3; k++) {
            options.top_k = k * 10;
            options.top_p = k == 1 ? 0.5f : 1.0f;
            int32_t token = one(options, logits, VOCAB, i);
            assert_int_equal(token % 2, 1);
        }
    }
}

static void every_instruction_set_draws_the_same(void **state) {
    (void)state;
    float logits[VOCAB], copy[VOCAB];
    for (uint32_t seed = 0; seed < 20; seed++) {
        fill(logits, VOCAB, seed);
        SamplerOptions options = sampler_options_default();
        options.top_k = seed % 3 ? 0 : 50;
        options.top_p = seed % 2 ? 0.95f : 1.0f;
        options.seed = seed;
        int32_t expected = one(options, logits, VOCAB, seed);
        for (size_t i = 0; isa_available(i); i++) {
            Sampler *sampler;
            Error error;
            memcpy(copy, logits, sizeof copy);
            assert_int_equal(
                sampler_new(&sampler, &options, VOCAB, isa_available(i)->numeric, &error),
                STATUS_OK);
            assert_int_equal(sampler_next(sampler, copy, seed), expected);
            sampler_free(sampler);
        }
    }
}

/* The tokens of a fixed run. Changing any of them would change the texts of all users. */
static void drawn_tokens_are_these(void **state) {
    (void)state;
    static const int32_t expected[] = {496, 281, 680, 609, 849, 169, 755, 394};
    float logits[VOCAB];
    for (uint32_t i = 0; i < 8; i++) {
        fill(logits, VOCAB, i);
        SamplerOptions options = sampler_options_default();
        options.seed = 42;
        options.temperature = 3.0f;
        options.top_p = i < 4 ? 0.9f : 1.0f;
        options.top_k = i % 2 ? 100 : 0;
        assert_int_equal(one(options, logits, VOCAB, i), expected[i]);
    }
}

static double cpu_seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* The limit on processor time is far above the usual, for slow machines; the test prints the
 * measured time. */
static void a_large_vocabulary_is_no_burden(void **state) {
    (void)state;
    enum { LARGE = 128256, TIMES = 20 };
    float *logits = malloc(LARGE * sizeof *logits), *copy = malloc(LARGE * sizeof *copy);
    fill(logits, LARGE, 9);
    for (size_t i = 0; i < LARGE; i++) logits[i] += (float)i * 1e-6f;
    size_t best = 0;
    while (isa_available(best + 1)) best++;
    for (int kind = 0; kind < 3; kind++) {
        static const char *const names[] = {"whole distribution", "top-p 0.9", "top-k 40"};
        SamplerOptions options = sampler_options_default();
        options.top_p = kind == 1 ? 0.9f : 1.0f;
        options.top_k = kind == 2 ? 40 : 0;
        Sampler *sampler;
        Error error;
        assert_int_equal(
            sampler_new(&sampler, &options, LARGE, isa_available(best)->numeric, &error),
            STATUS_OK);
        double least = 1e9;
        for (uint64_t i = 0; i < TIMES; i++) {
            memcpy(copy, logits, LARGE * sizeof *copy);
            double start = cpu_seconds();
            sampler_next(sampler, copy, i);
            if (cpu_seconds() - start < least) least = cpu_seconds() - start;
        }
        print_message("%s of %d tokens: %.3f ms\n", names[kind], LARGE, least * 1e3);
        assert_true(least < 0.1);
        sampler_free(sampler);
    }
    free(logits);
    free(copy);
}

/* ---- The record ------------------------------------------------------------------------------ */

/* The numbers of a choice, computed by the definitions in double: what each token's logit becomes,
 * and its probability after each step. */
typedef struct Expected {
    double penalized[VOCAB], steps[4][VOCAB]; /* temperature, top-k, top-p, min-p */
} Expected;

/* Keeps the first `kept` of the ranked tokens in p, and makes what is left add up to 1. */
static void keep_first(const Ranked *ranked, size_t n, size_t kept, double *p) {
    double sum = 0.0;
    for (size_t i = kept; i < n; i++) p[ranked[i].index] = 0.0;
    for (size_t i = 0; i < n; i++) sum += p[i];
    for (size_t i = 0; i < n; i++) p[i] /= sum;
}

/* seen[]: of the prompt and the text; generated[]: times in the text; allowed NULL: all tokens. */
static void expect_choice(const SamplerOptions *o, const float *logits, size_t n, const bool *seen,
                          const int *generated, const uint64_t *allowed, Expected *e) {
    static Ranked ranked[VOCAB];
    static float values[VOCAB];
    size_t n_allowed = 0, kept = 0;
    double largest = -INFINITY, mass = 0.0;
    for (size_t i = 0; i < n; i++) {
        double x = (double)logits[i];
        for (size_t k = 0; k < o->n_bias; k++)
            if ((size_t)o->bias[k].token == i) x += (double)o->bias[k].bias;
        double r = (double)o->repetition_penalty;
        if (seen[i]) x = x < 0.0 ? x * r : x / r;
        if (generated[i] > 0)
            x -= (double)o->presence_penalty + (double)o->frequency_penalty * generated[i];
        e->penalized[i] = x;
        bool may = !allowed || allowed[i / 64] >> (i % 64) & 1;
        values[i] = may ? (float)x : -INFINITY;
        n_allowed += may;
        if (may && x > largest) largest = x;
    }
    rank(values, n, ranked);
    double *p[4] = {e->steps[0], e->steps[1], e->steps[2], e->steps[3]};
    for (size_t i = 0; i < n; i++)
        p[0][i] =
            isinf(values[i]) ? 0.0 : exp((e->penalized[i] - largest) / (double)o->temperature);
    keep_first(ranked, n, n_allowed, p[0]);
    memcpy(p[1], p[0], sizeof e->steps[0]);
    keep_first(ranked, n, o->top_k && o->top_k < n_allowed ? o->top_k : n_allowed, p[1]);
    memcpy(p[2], p[1], sizeof e->steps[0]);
    while (kept < n && (kept == 0 || o->top_p >= 1.0f || mass < (double)o->top_p))
        mass += p[1][ranked[kept++].index];
    keep_first(ranked, n, kept, p[2]);
    memcpy(p[3], p[2], sizeof e->steps[0]);
    for (kept = 0;
         kept < n && p[0][ranked[kept].index] >= (double)o->min_p * p[0][ranked[0].index];)
        kept++;
    keep_first(ranked, n, kept, p[3]);
}

/* The record's probability of a token after a step, of those of Expected.steps. */
static double recorded(const SamplerRecord *r, size_t token, int step) {
    const SamplerCut cut = (SamplerCut)r->cuts[token];
    const double sums[] = {r->sum, r->sum_top_k, r->sum_top_p, r->sum_min_p};
    static const SamplerCut by[] = {SAMPLER_NOT_ALLOWED, SAMPLER_BY_TOP_K, SAMPLER_BY_TOP_P,
                                    SAMPLER_BY_MIN_P};
    for (int i = 0; i <= step; i++)
        if (cut == by[i]) return 0.0;
    return (double)r->weights[token] / sums[step];
}

/* The token that the record's random number falls on: by ascending id, as sampler.h says. */
static int32_t redrawn(const SamplerRecord *r, size_t n) {
    double passed = 0.0;
    for (size_t i = 0; i < n; i++) {
        if (r->cuts[i] != SAMPLER_LEFT) continue;
        passed += (double)r->weights[i];
        if (passed > r->random * r->sum_min_p) return (int32_t)i;
    }
    return -1;
}

/* Logits as a model gives them: none is near another, so that a step's edge is the same in float
 * and in double. */
static void fill_spread(float *logits, size_t n, uint64_t position) {
    for (size_t i = 0; i < n; i++)
        logits[i] = (float)(12.0 * sampler_random(3, i, position)) - 6.0f;
}

static void the_record_of_a_choice_follows_the_definitions(void **state) {
    (void)state;
    enum { N = 200, TEXT = 40 };
    static const LogitBias bias[] = {{5, 2.5f}, {150, -3.0f}};
    const SamplerOptions all[] = {
        {.temperature = 1.0f, .top_p = 1.0f, .repetition_penalty = 1.0f},
        {.temperature = 0.6f, .top_p = 1.0f, .repetition_penalty = 1.0f, .top_k = 9, .seed = 4},
        {.temperature = 1.4f, .top_p = 0.8f, .repetition_penalty = 1.0f, .seed = 5},
        {.temperature = 1.4f, .top_p = 1.0f, .repetition_penalty = 1.0f, .min_p = 0.07f},
        {.temperature = 2.0f,
         .top_p = 0.7f,
         .repetition_penalty = 1.3f,
         .top_k = 50,
         .min_p = 0.1f,
         .presence_penalty = 0.5f,
         .frequency_penalty = 0.25f,
         .bias = bias,
         .n_bias = 2,
         .seed = 77,
         .sample = 3},
        {.temperature = 1.5f,
         .top_p = 0.6f,
         .repetition_penalty = 0.8f,
         .bias = bias,
         .n_bias = 2,
         .presence_penalty = -0.5f,
         .restricted = true},
        {.temperature = 1.1f,
         .top_p = 0.9f,
         .repetition_penalty = 1.0f,
         .top_k = 12,
         .restricted = true},
    };
    static const int32_t prompt[] = {0, 7, 7, 30, 199};
    static Expected e;
    uint64_t allowed[(N + 63) / 64] = {0};
    for (size_t i = 0; i < N; i += 3) allowed[i / 64] |= (uint64_t)1 << (i % 64);
    for (size_t o = 0; o < sizeof all / sizeof *all; o++) {
        bool seen[N] = {0};
        int generated[N] = {0};
        Error error;
        SamplerRecord r;
        Sampler *watched = sampler_of(all[o], N), *alone = sampler_of(all[o], N);
        assert_int_equal(sampler_record_new(&r, N, &error), STATUS_OK);
        sampler_keep_record(watched, &r);
        for (size_t i = 0; i < 5; i++) seen[prompt[i]] = true;
        sampler_see_prompt(watched, prompt, 5);
        sampler_see_prompt(alone, prompt, 5);
        for (uint64_t position = 5; position < 5 + TEXT; position++) {
            float logits[N], copy[N];
            const uint64_t *rule = all[o].restricted ? allowed : NULL;
            fill_spread(logits, N, position);
            memcpy(copy, logits, sizeof copy);
            expect_choice(&all[o], logits, N, seen, generated, rule, &e);
            sampler_allow(watched, rule);
            sampler_allow(alone, rule);
            int32_t token = sampler_next(watched, logits, position);
            float given[N];
            memcpy(given, copy, sizeof given);
            assert_int_equal(token, sampler_next(alone, copy, position));
            assert_int_equal(token, r.chosen);
            assert_int_equal(token, redrawn(&r, N));
            assert_true(r.random == sampler_random(all[o].seed, all[o].sample, position));
            assert_memory_equal(r.logits, given, sizeof given);
            for (size_t i = 0; i < N; i++) {
                assert_true(fabs((double)r.penalized[i] - e.penalized[i]) < 1e-5);
                for (int step = 0; step < 4; step++)
                    if (!(fabs(recorded(&r, i, step) - e.steps[step][i]) < 1e-5))
                        fail_msg("options %zu, position %d, token %zu, step %d: %g, not %g", o,
                                 (int)position, i, step, recorded(&r, i, step), e.steps[step][i]);
            }
            seen[token] = true;
            generated[token]++;
        }
        sampler_record_free(&r);
        sampler_free(watched);
        sampler_free(alone);
    }
}

static void a_record_of_the_greedy_choice_has_no_draw(void **state) {
    (void)state;
    const float logits[] = {-1.0f, 3.0f, 2.0f, 3.0f, 3.0f};
    float copy[5];
    Error error;
    SamplerRecord r;
    Sampler *sampler = sampler_of((SamplerOptions){.top_p = 1.0f, .repetition_penalty = 1.0f}, 5);
    assert_int_equal(sampler_record_new(&r, 5, &error), STATUS_OK);
    sampler_keep_record(sampler, &r);
    memcpy(copy, logits, sizeof copy);
    assert_int_equal(sampler_next(sampler, copy, 0), 1);
    assert_true(r.chosen == 1 && r.n_allowed == 5 && r.sum == 0.0 && r.random == 0.0);
    assert_memory_equal(r.penalized, logits, sizeof logits);
    sampler_record_free(&r);
    sampler_free(sampler);
}

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_tokens_that_are_not_allowed_take_no_part),
        cmocka_unit_test(the_record_of_a_choice_follows_the_definitions),
        cmocka_unit_test(a_record_of_the_greedy_choice_has_no_draw),
        cmocka_unit_test(random_numbers_are_philox),
        cmocka_unit_test(temperature_zero_takes_the_first_of_the_largest),
        cmocka_unit_test(one_likeliest_token_is_the_first_of_the_largest),
        cmocka_unit_test(top_k_keeps_the_k_first_by_value_then_index),
        cmocka_unit_test(top_p_keeps_the_fewest_that_reach_it),
        cmocka_unit_test(min_p_keeps_a_share_of_the_likeliest),
        cmocka_unit_test(draws_follow_the_distribution),
        cmocka_unit_test(samples_and_seeds_draw_independently),
        cmocka_unit_test(a_draw_depends_on_its_position_alone),
        cmocka_unit_test(penalties_follow_their_formulas),
        cmocka_unit_test(a_bias_lifts_and_bans),
        cmocka_unit_test(extreme_logits_and_temperatures_stay_in_the_vocabulary),
        cmocka_unit_test(every_instruction_set_draws_the_same),
        cmocka_unit_test(drawn_tokens_are_these),
        cmocka_unit_test(a_large_vocabulary_is_no_burden),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
