/* Bit-exactness: the bits of a logit depend only on the model, the tokens before it and the type of
 * the KV cache. Every comparison is memcmp. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <unistd.h>
#include <xxhash.h>

#include "kvcache/kvcache_fork.h"
#include "layers/model_watch.h"
#include "tests/fixture.h"
#include "tests/hashed_weights.h"
#include "tests/portable.h"
#include "tests/tier.h"
#include "tests/tiny_model.h"

/* Model shapes with awkward sizes: 203 is not a multiple of 16, 120 and 152 are not multiples of
 * 32, and three query heads share a key/value head. WIDE has enough work in one row to use several
 * threads. */
#define NARROW                                                                                     \
    "random:dim=120,n_layers=2,n_heads=6,n_kv_heads=2,head_dim=20,ffn_dim=152,"                    \
    "vocab_size=203,context=2048"
#define WIDE                                                                                       \
    "random:dim=320,n_layers=2,n_heads=10,n_kv_heads=5,head_dim=32,ffn_dim=896,"                   \
    "vocab_size=611,context=512,bias=1"

static const char *const types[] = {"f32", "f16", "bf16", "q8", "q4", "bf16_act"};
enum { TYPES = sizeof types / sizeof *types };

/* A model that the tests run: NARROW in each type of weights, and fixtures of other
 * architectures. */
typedef struct Subject {
    const char *fixture, *type; /* fixture NULL: NARROW */
} Subject;

static const Subject subjects[] = {
    {NULL, "f32"},
    {NULL, "f16"},
    {NULL, "bf16"},
    {NULL, "bf16_act"},
    {NULL, "q8"},
    {NULL, "q4"},
    {"guide-gqa", "f16"},        /* post-LN, sinusoidal positions */
    {"gpt_oss", "q8"},           /* experts, sinks, windows */
    {"qwen2_moe", "f32"},        /* a shared expert, a dense layer */
    {"gemma2", "q8"},            /* caps, windows */
    {"gemma4-moe", "q8"},        /* experts beside a feed-forward, keys that are values */
    {"gemma3n", "f32"},          /* several streams, inputs of each layer's own, sparse gates */
    {"mistral4", "q8"},          /* latent attention */
    {"glm_moe_dsa", "q8"},       /* sparse attention, shared choices */
    {"deepseek_v4", "q8"},       /* windows and pools, experts by the token */
    {"qwen4_exp", "q8"},         /* gated streams, n-grams, chosen pools */
    {"zaya", "q8"},              /* convolutions of queries and keys, a router that is carried on */
    {"inkling", "q8"},           /* a bias of distances, four convolutions a layer */
    {"inkling2", "q8"},          /* taps by row, sinks by row, sums of layers */
    {"inkling2_loop", "q8"},     /* the same, middle layers that run again with messages */
    {"glm5_next", "q8"},         /* streams that mix, pools of positions */
    {"muse_spark", "q8"},        /* a weighted residual stream, narrow experts with norms */
    {"dots3_note", "q8"},        /* latents of two sizes, in windows and chosen by indexers */
    {"doge-moe", "q8"},          /* a dynamic mask, experts found by product keys */
    {"longcat_flash", "f32"},    /* a mixture that skips a layer, experts that give their input */
    {"bloom", "q4"},             /* ALiBi */
    {"qwen3_next", "q8"},        /* gated DeltaNet */
    {"olmo_hybrid", "q8"},       /* the same, norms before some layers and after others */
    {"granitemoehybrid", "f32"}, /* Mamba 2 */
    {"lfm2", "q4"},              /* short convolutions */
    {"jamba", "q8"},             /* Mamba, experts */
    {"falcon_h1-bias", "q8"},    /* attention and Mamba 2 side by side */
    {"zamba2-bias", "q4"},       /* a block that layers share, with adapters */
    {"zamba", "q8"},             /* the same, Mamba in heads */
    {"jetmoe", "q8"},            /* a mixture of attention heads */
    {"recurrent_gemma", "q8"},   /* RG-LRU, gates of diagonal blocks */
    {"rwkv", "q4"},              /* RWKV, a stream that is halved */
    {"xlstm", "q8"},             /* matrix LSTM */
    {"hrm_text", "q8"},          /* two modules that run in turn */
    {"dory", "q8"},              /* middle layers that run again, on a stream of length 1 */
    {"idefics", "f32"},          /* layers of a feed-forward alone */
};
enum { SUBJECTS = sizeof subjects / sizeof *subjects };

/* Every subject's vocabulary is larger than this. */
enum { TOKENS = 47 };

static TinyModel open_subject(const Subject *subject, const ModelOptions *options, KvType kv_type) {
    if (!subject->fixture) return tiny_model_open(NARROW, subject->type, options, kv_type);
    Fixture f = fixture_load(subject->fixture);
    char *source = fixture_source(&f);
    TinyModel tiny = tiny_model_open(source, subject->type, options, kv_type);
    fixture_remove_directory(source);
    fixture_free(&f);
    return tiny;
}

static const char *name_of(const Subject *subject) {
    return subject->fixture ? subject->fixture : subject->type;
}

static int32_t *text(const char *name, size_t n, size_t vocab_size) {
    int32_t *ids = malloc(n * sizeof *ids);
    assert_non_null(ids);
    for (size_t i = 0; i < n; i++)
        ids[i] = (int32_t)((hashed_element(hashed_name(name), i) >> 32) % vocab_size);
    return ids;
}

static void assert_same(const char *type, const char *what, long value, const float *expected,
                        const float *logits, size_t n) {
    for (size_t i = 0; i < n; i++) {
        if (memcmp(&expected[i], &logits[i], sizeof *logits) != 0)
            fail_msg("%s, %s %ld: logit %zu is %a, expected %a", type, what, value, i,
                     (double)logits[i], (double)expected[i]);
    }
}

/* Returns the logits of a text run in calls of `chunk` rows, with the given instruction set and
 * number of threads. */
static float *run_once(const char *source, const char *type, const Isa *isa, int n_threads,
                       KvType kv_type, const int32_t *ids, size_t n, size_t chunk) {
    ModelOptions options = {.isa = isa, .n_threads = n_threads};
    TinyModel tiny = tiny_model_open(source, type, &options, kv_type);
    float *logits = tiny_model_run(&tiny, 0, 0, ids, n, chunk);
    tiny_model_close(&tiny);
    return logits;
}

static void any_number_of_threads_gives_the_same_bits(void **state) {
    (void)state;
    enum { N = 20 };
    static const int counts[] = {2, 3, 5};
    int32_t *ids = text("threads", N, 611);
    for (size_t t = 0; t < TYPES; t++) {
        if (!tier_takes(t, 4, 1)) continue;
        for (size_t chunk = 1; chunk <= N; chunk += N - 1) {
            float *one = run_once(WIDE, types[t], NULL, 1, KV_F16, ids, N, chunk);
            for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
                float *many = run_once(WIDE, types[t], NULL, counts[i], KV_F16, ids, N, chunk);
                assert_same(types[t], "threads", counts[i], one, many, N * 611);
                free(many);
            }
            free(one);
        }
    }
    free(ids);
}

static void any_prefill_chunk_gives_the_same_bits(void **state) {
    (void)state;
    static const size_t chunks[] = {1, 7, 64};
    int32_t *ids = text("chunks", 1100, TOKENS);
    for (size_t i = 0; i < SUBJECTS; i++) {
        /* Where it is cheap, the text is longer than one attention segment (1024 positions). */
        size_t n = subjects[i].fixture ? 150 : 1100;
        if (!tier_takes(i, 4, 1)) continue;
        ModelOptions options = {.n_threads = 2, .context = 2048};
        TinyModel tiny = open_subject(&subjects[i], &options, i % 4 > 1 ? KV_F16 : KV_F32);
        float *whole = tiny_model_run(&tiny, 0, 0, ids, n, 512);
        for (size_t k = 0; k < sizeof chunks / sizeof *chunks; k++) {
            float *parts = tiny_model_run(&tiny, 1, 0, ids, n, chunks[k]);
            assert_same(name_of(&subjects[i]), "chunks of", (long)chunks[k], whole, parts,
                        n * tiny.vocab_size);
            free(parts);
        }
        free(whole);
        tiny_model_close(&tiny);
    }
    free(ids);
}

/* Runs each layer as a part of its own, with other numbers of threads from part to part. */
typedef struct Parts {
    PassObserver observer;
    int n_begun, stop_at; /* the part that ends the pass; 0: none does */
} Parts;

static int begin_part(PassObserver *observer, int most, size_t n_rows, double work, double done) {
    Parts *parts = (Parts *)observer;
    assert_true(n_rows > 0 && work > 0);
    if (++parts->n_begun == parts->stop_at && done > 0) return 0;
    return 1 + parts->n_begun % most;
}

static void end_part(PassObserver *observer) {
    assert_true(((Parts *)observer)->n_begun > 0);
}

static void a_pass_in_parts_gives_the_same_bits(void **state) {
    (void)state;
    enum { N = 40 };
    int32_t *ids = text("parts", N, TOKENS);
    for (size_t i = 0; i < SUBJECTS; i++) {
        if (!tier_takes(i, 2, 1)) continue;
        ModelOptions options = {.n_threads = 3, .context = 256};
        TinyModel tiny = open_subject(&subjects[i], &options, KV_F16);
        Parts parts = {
            .observer = {.part_begins = begin_part, .part_work = 1.0, .part_ends = end_part}};
        float *whole = tiny_model_run(&tiny, 0, 0, ids, N, 13);
        model_add_observer(tiny.model, &parts.observer);
        float *divided = tiny_model_run(&tiny, 1, 0, ids, N, 13);
        assert_same(name_of(&subjects[i]), "parts", 0, whole, divided, N * tiny.vocab_size);
        assert_true(parts.n_begun >= 8); /* 4 calls, 2 layers at least */
        free(divided);

        /* Ended in the middle, a call leaves the cache as it was. */
        Row rows[N];
        for (int k = 0; k < N; k++) rows[k] = (Row){2, k, ids[k], k == N - 1};
        Error error;
        float *logits = malloc(tiny.vocab_size * sizeof *logits);
        assert_non_null(logits);
        parts.n_begun = 0, parts.stop_at = 2;
        assert_int_equal(model_forward(tiny.model, tiny.cache, rows, N, logits, &error),
                         STATUS_INTERRUPTED);
        assert_int_equal(kvcache_next(tiny.cache, 2), 0);
        parts.stop_at = 0;
        assert_int_equal(model_forward(tiny.model, tiny.cache, rows, N, logits, &error), STATUS_OK);
        assert_same(name_of(&subjects[i]), "after an interruption", 0,
                    whole + (N - 1) * tiny.vocab_size, logits, tiny.vocab_size);
        free(logits);
        free(whole);
        tiny_model_close(&tiny);
    }
    free(ids);
}

/* Runs a text in calls of different kinds. Threads share a call of one row where it is enough work
 * (SOLO_WORK in model.c). */
static void check_mixture(const char *source, const char *type, size_t n, size_t vocab_size) {
    static const struct {
        int n_threads;
        uint32_t max_rows;
        size_t chunk;
    } calls[] = {{2, 0, 120}, {8, 0, 1}, {3, 0, 33}, {5, 4, 4}, {9, 7, 7}, {1, 0, 1}, {2, 1, 1}};
    int32_t *ids = text("experts", n, vocab_size);
    float *expected = run_once(source, type, NULL, 1, KV_F16, ids, n, n);
    for (size_t i = 0; i < tier_count(2, 7, 7); i++) {
        ModelOptions options = {.n_threads = calls[i].n_threads, .max_rows = calls[i].max_rows};
        TinyModel tiny = tiny_model_open(source, type, &options, KV_F16);
        size_t chunk = calls[i].chunk < n ? calls[i].chunk : n;
        float *logits = tiny_model_run(&tiny, 0, 0, ids, n, chunk);
        assert_same(type, "call", (long)i, expected, logits, n * vocab_size);
        free(logits);
        tiny_model_close(&tiny);
    }
    free(expected);
    free(ids);
}

/* A call's experts are one list of work where there is room: with few rows a call, or with more
 * experts than a list holds, there are several. */
static void a_mixture_of_many_experts_gives_the_same_bits_in_any_call(void **state) {
    (void)state;
    static const char source[] =
        "random:dim=64,n_layers=2,n_heads=4,n_kv_heads=2,ffn_dim=64,n_experts=150,n_experts_used=9,"
        "expert_ffn_dim=48,router=softmax_chosen,vocab_size=131,context=256";
    /* Two full lists and a third, which ends with the shared expert. */
    static const char shared[] =
        "random:dim=64,n_layers=1,n_heads=4,n_kv_heads=2,ffn_dim=64,n_experts=290,n_experts_used=9,"
        "expert_ffn_dim=48,shared_ffn_dim=48,vocab_size=131,context=256";
    check_mixture(source, "f32", 120, 131);
    check_mixture(source, "q8", 120, 131);
    check_mixture(shared, "f32", 120, 131);
    check_mixture(shared, "q8", 120, 131);
}

/* Mixtures whose single rows have work for several threads: with latent attention, whose query
 * heads the threads share, and with a shared expert of the routed ones' shape and of another. */
static void a_row_of_a_mixture_has_the_same_bits_on_any_number_of_threads(void **state) {
    (void)state;
    enum { N = 40 };
#define MIXTURE                                                                                    \
    "random:dim=256,n_layers=2,ffn_dim=64,n_experts=14,n_experts_used=8,expert_ffn_dim=192,"       \
    "vocab_size=131,context=64,"
#define GROUPED "n_heads=8,n_kv_heads=2,"
#define LATENT                                                                                     \
    "n_heads=10,head_dim=24,rotary_dim=8,value_dim=16,latent_dim=64,rope_pairing=interleaved,"
    if (tier() != TIER_CHECK) {
        check_mixture(MIXTURE GROUPED "shared_ffn_dim=192", "f16", N, 131);
        check_mixture(MIXTURE GROUPED "shared_ffn_dim=192", "q4m", N, 131);
    }
    check_mixture(MIXTURE GROUPED "shared_ffn_dim=160", "q8", N, 131);
    check_mixture(MIXTURE LATENT "shared_ffn_dim=192", "q8", N, 131);
#undef GROUPED
#undef MIXTURE
#undef LATENT
}

/* Sequence 0 decodes one token per call while three other sequences start, prefill and decode in
 * rows before and after its row. */
static void a_batch_gives_the_same_bits_as_a_sequence_alone(void **state) {
    (void)state;
    enum { N = 60, OTHERS = 3, MAX_ROWS = 64 };
    static const size_t strides[OTHERS] = {1, 5, 13}, starts[OTHERS] = {0, 20, 40};
    int32_t *ids = text("alone", N, TOKENS), *other_ids = text("others", 4096, TOKENS);
    Error error;
    for (size_t s = 0; s < SUBJECTS; s++) {
        if (!tier_takes(s + 2, 4, 1)) continue;
        ModelOptions options = {.n_threads = 2, .max_rows = MAX_ROWS, .context = 2048};
        TinyModel tiny = open_subject(&subjects[s], &options, KV_F16);
        const char *name = name_of(&subjects[s]);
        size_t vocab_size = tiny.vocab_size;
        float *alone = tiny_model_run(&tiny, 7, 0, ids, N, 1);
        float *logits = malloc(MAX_ROWS * vocab_size * sizeof *logits);
        assert_non_null(logits);
        for (size_t step = 0; step < N; step++) {
            Row rows[MAX_ROWS];
            size_t n = 0, mine = 0, n_logits = 0;
            for (int32_t sequence = 0; sequence < 1 + OTHERS; sequence++) {
                size_t other = (size_t)(sequence + OTHERS - 1) % (1 + OTHERS);
                bool is_mine = other == OTHERS; /* its row is the second */
                if (!is_mine && step < starts[other]) continue;
                size_t count = is_mine ? 1 : strides[other];
                int32_t position = kvcache_next(tiny.cache, sequence);
                for (size_t i = 0; i < count; i++) {
                    int32_t token = is_mine ? ids[step] : other_ids[(step * 31 + i) % 4096];
                    bool wants = is_mine || i % 2 == 0;
                    rows[n++] = (Row){sequence, position + (int32_t)i, token, wants};
                    if (is_mine) mine = n_logits;
                    n_logits += wants;
                }
            }
            if (model_forward(tiny.model, tiny.cache, rows, n, logits, &error) != STATUS_OK)
                fail_msg("%s", error.text);
            assert_same(name, "in a batch, step", (long)step, alone + step * vocab_size,
                        logits + mine * vocab_size, vocab_size);
        }
        free(logits);
        free(alone);
        tiny_model_close(&tiny);
    }
    free(ids);
    free(other_ids);
}

/* Continues a sequence that was to keep `kept` positions and may keep fewer, for it goes back to
 * where its states are known, with the rest of ids[n]; compares the logits from `kept` on. */
static void assert_continued(TinyModel *tiny, const char *name, const char *what, int32_t sequence,
                             const int32_t *ids, size_t kept, size_t n, size_t chunk,
                             const float *whole, float *rest) {
    size_t next = (size_t)kvcache_next(tiny->cache, sequence), vocab_size = tiny->vocab_size;
    assert_in_range(next, 0, kept);
    tiny_model_continue(tiny, sequence, ids + next, n - next, chunk, rest);
    assert_same(name, what, (long)kept, whole + kept * vocab_size,
                rest + (kept - next) * vocab_size, (n - kept) * vocab_size);
}

static void a_reused_cache_gives_the_same_bits(void **state) {
    (void)state;
    enum { N = 150, KEPT = 101 };
    int32_t *ids = text("reuse", N, TOKENS), *others = text("discarded", N, TOKENS);
    Error error;
    for (size_t s = 0; s < SUBJECTS; s++) {
        if (!tier_takes(s + 1, 2, 1)) continue;
        ModelOptions options = {.n_threads = 2, .context = 2048};
        TinyModel tiny = open_subject(&subjects[s], &options, KV_F16);
        const char *name = name_of(&subjects[s]);
        float *whole = tiny_model_run(&tiny, 0, 0, ids, N, N);
        float *rest = tiny_model_run(&tiny, 1, 0, others, N, N); /* has room for all logits */
        /* The sequence is truncated after a different continuation was stored. */
        free(tiny_model_run(&tiny, 2, 0, ids, KEPT, KEPT));
        tiny_model_continue(&tiny, 2, others, N - KEPT, N, rest);
        kvcache_truncate(tiny.cache, 2, KEPT);
        assert_continued(&tiny, name, "truncated at", 2, ids, KEPT, N, N, whole, rest);
        /* The sequence is forked from another one, which shares its pages. */
        if (kvcache_fork(tiny.cache, 0, KEPT, 3, &error) != STATUS_OK) fail_msg("%s", error.text);
        assert_continued(&tiny, name, "forked at", 3, ids, KEPT, N, 3, whole, rest);
        free(whole);
        free(rest);
        tiny_model_close(&tiny);
    }
    free(ids);
    free(others);
}

static void every_instruction_set_gives_the_same_bits(void **state) {
    (void)state;
    enum { N = 70 };
    int32_t *ids = text("instruction sets", N, 203);
    for (size_t t = 0; t < TYPES; t++) {
        for (KvType kv_type = KV_F32; kv_type < KV_TYPES; kv_type++) {
            if (!tier_takes(t + (size_t)kv_type, 3, 1)) continue;
            float *expected = run_once(NARROW, types[t], isa_available(0), 1, kv_type, ids, N, N);
            for (size_t i = 1; isa_available(i); i++) {
                for (size_t chunk = 1; chunk <= N; chunk = chunk == 1    ? 33
                                                           : chunk == 33 ? N
                                                                         : N + 1) {
                    float *logits =
                        run_once(NARROW, types[t], isa_available(i), 2, kv_type, ids, N, chunk);
                    assert_same(types[t], isa_available(i)->name, (long)chunk, expected, logits,
                                N * 203);
                    free(logits);
                }
            }
            free(expected);
        }
    }
    free(ids);
}

static void a_later_token_never_changes_an_earlier_position(void **state) {
    (void)state;
    enum { N = 100 };
    int32_t *ids = text("causal", N, 203);
    for (size_t t = 0; t < TYPES; t++) {
        ModelOptions options = {.n_threads = 2};
        TinyModel tiny = tiny_model_open(NARROW, types[t], &options, KV_F16);
        float *before = tiny_model_run(&tiny, 0, 0, ids, N, N);
        for (size_t changed = 1; changed < N; changed += 14) {
            int32_t token = ids[changed];
            ids[changed] = (token + 1) % 203;
            float *after = tiny_model_run(&tiny, 0, 0, ids, N, N);
            assert_same(types[t], "changed token", (long)changed, before, after, changed * 203);
            for (size_t i = changed; i < N; i++)
                assert_memory_not_equal(before + i * 203, after + i * 203, 203 * sizeof(float));
            ids[changed] = token;
            free(after);
        }
        free(before);
        tiny_model_close(&tiny);
    }
    free(ids);
}

/* A hash of the logits that every compiler, optimization level and instruction set must produce. */
typedef struct KnownBits {
    const char *source, *type;
    uint64_t xxh3;
} KnownBits;

/* Compares the hash with the known one. Prints a difference instead of failing at once, so that one
 * run shows every new hash. */
static bool has_known_bits(const KnownBits *known, KvType kv_type) {
    enum { N = 100 };
    bool same = true;
    portable_list(true);
    for (size_t i = 0; isa_available(i); i++) {
        ModelOptions options = {.isa = isa_available(i), .n_threads = 2};
        TinyModel tiny = tiny_model_open(known->source, known->type, &options, kv_type);
        int32_t *ids = text("known bits", N, tiny.vocab_size);
        float *logits = tiny_model_run(&tiny, 0, 0, ids, N, 40);
        uint64_t hash = XXH3_64bits(logits, N * tiny.vocab_size * sizeof *logits);
        if (hash != known->xxh3)
            print_error("%s, %s, %s: 0x%016llX, expected 0x%016llX\n", known->source, known->type,
                        isa_available(i)->name, (unsigned long long)hash,
                        (unsigned long long)known->xxh3);
        same = same && hash == known->xxh3;
        free(ids);
        free(logits);
        tiny_model_close(&tiny);
    }
    return same;
}

static void assert_known_bits(const KnownBits *known, size_t n, KvType kv_type) {
    bool same = true;
    for (size_t i = 0; i < n; i++) same = has_known_bits(&known[i], kv_type) && same;
    assert_true(same);
}

static void a_generated_model_has_the_known_bits(void **state) {
    (void)state;
    static const KnownBits known[] = {
        {NARROW, "f32", 0x979637892A116AA2},  {NARROW, "f16", 0x9A8BC0B47FD14168},
        {NARROW, "bf16", 0x8577E40D4CA250C6}, {NARROW, "q8", 0x32168AAF83696DC4},
        {NARROW, "q4", 0xF73F2AAADFFBF550},   {NARROW, "bf16_act", 0xE3364994D34B1FE7},
    };
    assert_known_bits(known, sizeof known / sizeof *known, KV_F16);
}

static void a_cache_in_bfloat16_has_the_known_bits(void **state) {
    (void)state;
    static const KnownBits known[] = {{NARROW, "q8", 0x405D0EA7634DF9EF},
                                      {NARROW, "bf16_act", 0x6D537FC3661A4AD1}};
    assert_known_bits(known, sizeof known / sizeof *known, KV_BF16);
}

static void a_trained_model_has_the_known_bits(void **state) {
    (void)state;
    static const KnownBits known[] = {
        {"../shared/data/stories260K/stories260K.bin", "f32", 0x8FE97DEF0293DC1F},
        {"../shared/data/stories260K/stories260K.bin", "q8", 0xAA90D2918AEE9FB4},
        {"../shared/data/stories260K/stories260K.bin", "q4", 0x7B307F1531FECE4A},
    };
    if (access(known[0].source, R_OK) != 0) {
        print_message("skipped: %s is not there\n", known[0].source);
        skip();
    }
    assert_known_bits(known, sizeof known / sizeof *known, KV_F16);
}

/* test_exactness [PATTERN] runs the tests whose names match. */
int main(int argc, char **argv) {
    if (argc > 1) cmocka_set_test_filter(argv[1]);
    portable_list(tier() == TIER_ALL);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_number_of_threads_gives_the_same_bits),
        cmocka_unit_test(any_prefill_chunk_gives_the_same_bits),
        cmocka_unit_test(a_pass_in_parts_gives_the_same_bits),
        cmocka_unit_test(a_mixture_of_many_experts_gives_the_same_bits_in_any_call),
        cmocka_unit_test(a_row_of_a_mixture_has_the_same_bits_on_any_number_of_threads),
        cmocka_unit_test(a_batch_gives_the_same_bits_as_a_sequence_alone),
        cmocka_unit_test(a_reused_cache_gives_the_same_bits),
        cmocka_unit_test(every_instruction_set_gives_the_same_bits),
        cmocka_unit_test(a_later_token_never_changes_an_earlier_position),
        cmocka_unit_test(a_generated_model_has_the_known_bits),
        cmocka_unit_test(a_cache_in_bfloat16_has_the_known_bits),
        cmocka_unit_test(a_trained_model_has_the_known_bits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
