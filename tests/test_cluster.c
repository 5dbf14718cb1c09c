/* A model that is divided among ranks gives the logits of the whole model, bit for bit, whatever
 * its family, its types and the number of ranks. The ranks are threads: tests/test_mpi.c runs
 * processes.
 *
 *     test_cluster [PART]      of the fixtures, only those whose names contain PART */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "convert/convert_target.h"
#include "adapters/lora.h"
#include "layers/model_watch.h"
#include "tests/adapter_fixture.h"
#include "tests/fixture.h"
#include "tests/ranks.h"
#include "tests/tier.h"
#include "tests/wire_cases.h"

static void assert_same_bits(const char *what, const float *a, const float *b, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (memcmp(&a[i], &b[i], sizeof *a) != 0)
            fail_msg("%s: logit %zu is %.9g, expected %.9g", what, i, (double)b[i], (double)a[i]);
}

static char *convert(const char *directory, const char *source, const char *type) {
    char *path = fixture_path(directory, "divided.bin");
    const ConvertOptions options = {.type = type, .n_threads = 1};
    Error error;
    if (convert_to_path(source, &options, NULL, path, &error) != STATUS_OK)
        fail_msg("%s: %s", source, error.text);
    return path;
}

/* Compares the logits of ids[n] on `ranks` ranks with the whole model's, in one call and in calls
 * of three rows. Returns how much of the model is divided. */
static Divided check(const char *what, const char *path, size_t ranks, const int32_t *ids, size_t n,
                     uint32_t context, KvType kv_type) {
    const ModelOptions options = {.n_threads = 1, .context = context};
    TinyModel whole = tiny_model_map(path, &options, kv_type);
    Ranks divided = ranks_open(path, ranks, &options, kv_type);
    size_t chunk = n < 512 ? n : 512;
    float *expected = tiny_model_run(&whole, 0, 0, ids, n, chunk);
    float *all = tiny_model_run(&divided.tiny, 0, 0, ids, n, chunk);
    float *few = tiny_model_run(&divided.tiny, 1, 0, ids, n, 3);
    float *single = tiny_model_run(&divided.tiny, 2, 0, ids, n < 8 ? n : 8, 1);
    assert_same_bits(what, expected, all, n * whole.vocab_size);
    assert_same_bits(what, expected, few, n * whole.vocab_size);
    assert_same_bits(what, expected, single, (n < 8 ? n : 8) * whole.vocab_size);
    free(expected);
    free(all);
    free(few);
    free(single);
    Divided result = divided.divided;
    ranks_close(&divided);
    tiny_model_close(&whole);
    return result;
}

static void check_fixture(const char *name, const char *type, size_t ranks) {
    Fixture f = fixture_load(name);
    char *source = fixture_source(&f), *path = convert(source, source, type);
    Divided d = check(name, path, ranks, f.ids, f.n_ids, f.context, KV_F16);
    print_message("%-24s %s, %zu ranks: %zu layers, %zu with divided heads, %zu with divided "
                  "feed-forwards\n",
                  name, type, ranks, d.n_layers, d.attention, d.ffn);
    free(path);
    fixture_remove_directory(source);
    fixture_free(&f);
}

static void families_give_the_same_bits(void **state) {
    static const char *const names[] = {
        "llama-head-dim", "gemma2-gguf", "bloom",         "olmo2",        "gpt_oss-small",
        "bitnet",         "deepseek_v3", "gemma3n",       "deepseek_v32", "nemotron_h-latent",
        "mistral_large4", "beam",        "minimax_m3_vl", "glm5_next",    "deepseek_v4",
        "qwen4_exp",      "zaya",        "inkling",       "inkling2",     "inkling2_loop",
        "muse_spark",     "dots3_note",  "doge-moe"};
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (!tier_takes(i, 2, 1)) continue;
        check_fixture(names[i], "f32", 3);
    }
}

/* ---- Every type, every number of ranks ---- */

static const char model[] = "random:dim=256,n_layers=2,n_heads=8,n_kv_heads=4,head_dim=32,ffn_dim="
                            "544,vocab_size=307,n_experts=0";
/* Of one layer, since some types take long to make. */
static const char small[] = "random:dim=256,n_layers=1,n_heads=8,n_kv_heads=4,head_dim=32,ffn_dim="
                            "544,vocab_size=307,n_experts=0";
static const char mixture[] = "random:dim=256,n_layers=2,n_heads=8,n_kv_heads=4,head_dim=32,"
                              "n_experts=6,n_experts_used=2,expert_ffn_dim=256,vocab_size=307";

/* Checks a model on each number of ranks from `first` to `last`. */
static void check_random(const char *source, const char *type, size_t first, size_t last,
                         KvType kv_type) {
    int32_t ids[11];
    char what[64], *directory = fixture_directory(), *path = convert(directory, source, type);
    for (size_t i = 0; i < 11; i++) ids[i] = (int32_t)(i * i % 300);
    for (size_t ranks = first; ranks <= last; ranks++) {
        snprintf(what, sizeof what, "%s on %zu ranks", type, ranks);
        Divided d = check(what, path, ranks, ids, 11, 0, kv_type);
        assert_int_equal(d.attention, d.n_layers);
        assert_int_equal(d.ffn, d.n_layers);
    }
    free(path);
    fixture_remove_directory(directory);
}

static void every_type_gives_the_same_bits(void **state) {
    (void)state;
    for (uint32_t t = 1; t < TENSOR_TYPES; t++) {
        const TensorTypeInfo *info = tensor_type_info(t);
        if (!info || t == TENSOR_VECTOR || !tier_takes(t + 2, 24, 1)) continue;
        check_random(small, info->name, 3, 3, KV_F16);
    }
    check_random(mixture, "q8", 3, 3, KV_Q8);
    check_random(model, "f16", 3, 3, KV_BF16);
}

/* What attention may be made of, where heads are wide enough to be divided. */
static void every_kind_of_heads_gives_the_same_bits(void **state) {
    static const struct {
        const char *fields;
        size_t divided; /* layers */
    } cases[] = {{"position=alibi", 4},
                 {"qk_norm=each", 4},
                 {"qk_norm=all", 0},
                 {"qk_norm=head,window=5,window_pattern=2", 4},
                 {"shared_layers=2", 4},
                 {"attend=2,state_kernel=4", 2},
                 {"attention_softcap=20,bias=1", 4},
                 {"n_kv_heads=1", 0},
                 {"latent_dim=64,latent_q_dim=96,head_dim=48,rotary_dim=16,value_dim=32", 4},
                 {"latent_dim=64,head_dim=40,rotary_dim=8,value_dim=16", 4},
                 {"latent_dim=64,latent_q_dim=96,head_dim=48,rotary_dim=16,value_dim=32,"
                  "index_heads=2,index_dim=16,index_topk=4",
                  4}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (!tier_takes(i, 2, 1)) continue;
        char source[256], *directory = fixture_directory();
        int32_t ids[11];
        for (size_t k = 0; k < 11; k++) ids[k] = (int32_t)(k * k % 300);
        snprintf(source, sizeof source,
                 "random:dim=256,n_layers=4,n_heads=8,n_kv_heads=4,head_dim=32,ffn_dim=160,"
                 "vocab_size=307,%s",
                 cases[i].fields);
        char *path = convert(directory, source, "q8");
        Divided d = check(cases[i].fields, path, 3, ids, 11, 0, KV_F16);
        if (d.attention != cases[i].divided) fail_msg("%s: %zu", cases[i].fields, d.attention);
        free(path);
        fixture_remove_directory(directory);
    }
}

static void any_number_of_ranks_gives_the_same_bits(void **state) {
    (void)state;
    check_random(model, "q8", 1, 9, KV_F32);
    check_random(mixture, "f32", 8, 8, KV_F32);
}

/* ---- Observers of attention ---- */

enum { SEEN_IDS = 11, SEEN_HEADS = 8, SEEN_LAYERS = 4 };

/* Softmax weights, and how often each row of them was seen. */
typedef struct Seen {
    PassObserver observer;
    float weights[SEEN_LAYERS][SEEN_HEADS][SEEN_IDS][SEEN_IDS];
    int times[SEEN_LAYERS][SEEN_HEADS][SEEN_IDS];
    size_t base; /* rows of earlier passes */
} Seen;

static void see(PassObserver *observer, size_t layer, size_t row, size_t head, int32_t first,
                float *weights, size_t n) {
    Seen *seen = (Seen *)observer;
    size_t query = seen->base + row;
    memcpy(seen->weights[layer][head][query] + first, weights, n * sizeof *weights);
    seen->times[layer][head][query]++;
}

/* Observes a text in two passes: its weights (kinds 1), its scores (2), or both at once (3). */
static void watch(Seen seen[2], TinyModel *tiny, const int32_t *ids, int kinds) {
    float *logits = malloc(SEEN_IDS * tiny->vocab_size * sizeof *logits);
    memset(seen, 0, 2 * sizeof *seen);
    seen[0].observer.attended = see;
    seen[1].observer.scored = see;
    for (int k = 0; k < 2; k++)
        if (kinds >> k & 1) model_add_observer(tiny->model, &seen[k].observer);
    kvcache_reset(tiny->cache, 0, 0);
    tiny_model_continue(tiny, 0, ids, 7, 7, logits);
    seen[0].base = seen[1].base = 7;
    tiny_model_continue(tiny, 0, ids + 7, SEEN_IDS - 7, SEEN_IDS - 7, logits);
    for (int k = 0; k < 2; k++) {
        model_remove_observer(tiny->model, &seen[k].observer);
        memset(&seen[k].observer, 0, sizeof seen[k].observer);
    }
    free(logits);
}

/* Ranks show what one process does, to two observers as to each alone. */
static void observers_see_the_heads_of_all_ranks(void **state) {
    static const char *const fields[] = {
        "window=5,window_pattern=2", "n_kv_heads=1", "attend=2,state_kernel=4",
        ("latent_dim=64,latent_q_dim=96,head_dim=48,rotary_dim=16,value_dim=32,index_heads=2,"
         "index_dim=16,index_topk=4")};
    int32_t ids[SEEN_IDS];
    (void)state;
    for (size_t k = 0; k < SEEN_IDS; k++) ids[k] = (int32_t)(k * k % 300);
    for (size_t i = 0; i < 2 * (sizeof fields / sizeof *fields); i++) {
        const ModelOptions options = {.n_threads = 1 + (int)(i % 2)};
        char source[256], *directory = fixture_directory();
        Seen *expected = malloc(2 * sizeof *expected), *seen = malloc(2 * sizeof *seen);
        snprintf(source, sizeof source,
                 "random:dim=256,n_layers=4,n_heads=8,n_kv_heads=4,head_dim=32,ffn_dim=160,"
                 "vocab_size=307,%s",
                 fields[i / 2]);
        char *path = convert(directory, source, "q8");
        TinyModel whole = tiny_model_map(path, &options, KV_F16);
        Ranks divided = ranks_open(path, 3, &options, KV_F16);
        watch(expected, &whole, ids, 1);
        watch(seen, &whole, ids, 2);
        expected[1] = seen[1];
        watch(seen, &whole, ids, 3);
        if (memcmp(expected, seen, 2 * sizeof *seen) != 0) fail_msg("both of %s", fields[i / 2]);
        watch(seen, &divided.tiny, ids, 3);
        if (memcmp(expected, seen, 2 * sizeof *seen) != 0) fail_msg("%s", fields[i / 2]);
        watch(seen, &divided.tiny, ids, 1 + (int)(i % 2));
        if (memcmp(&expected[i % 2], &seen[i % 2], sizeof *seen) != 0)
            fail_msg("one of %s", fields[i / 2]);
        ranks_close(&divided);
        tiny_model_close(&whole);
        free(expected);
        free(seen);
        free(path);
        fixture_remove_directory(directory);
    }
}

/* ---- Adapters ---- */

/* Selects adapters for sequence 0, and compares the logits of the text. */
static void check_selected(const AdapterFixture *f, Adapted *whole, Ranks *divided, uint64_t bits,
                           size_t chunk) {
    const Fixture *base = &f->base;
    assert_true(lora_select(whole->opening.adapters.lora, 0, bits));
    assert_true(lora_select(divided->adapters->adapters.lora, 0, bits));
    float *expected = tiny_model_run(&whole->tiny, 0, 0, base->ids, base->n_ids, base->n_ids);
    float *logits = tiny_model_run(&divided->tiny, 0, 0, base->ids, base->n_ids, chunk);
    assert_same_bits("adapters", expected, logits, base->n_ids * base->vocab_size);
    free(expected);
    free(logits);
}

static void adapters_give_the_same_bits(void **state) {
    static const char *const names[] = {"qwen2-two", "gemma2-head", "qwen3_moe-experts"},
                             *const types[] = {"f32", "q8"};
    (void)state;
    for (size_t i = 0; i < 6; i++) {
        const ModelOptions options = {.n_threads = 1};
        AdapterFixture f = adapter_fixture_load(names[i % 3]);
        OptionList list = {.n = f.n};
        char *source = fixture_source(&f.base), *path = convert(source, source, types[i / 3]);
        for (size_t k = 0; k < f.n; k++) list.items[k] = adapter_fixture_directory(&f, k);
        Adapted whole;
        adapted_open(&whole, source, types[i / 3], &options, KV_F16, list.items, list.n);
        Ranks divided = ranks_open_adapted(path, 3, &options, KV_F16, &list);
        uint64_t all = lora_all(whole.opening.adapters.lora);
        check_selected(&f, &whole, &divided, all, f.base.n_ids);
        check_selected(&f, &whole, &divided, 1, 3);
        check_selected(&f, &whole, &divided, 0, 1);
        check_selected(&f, &whole, &divided, all, 5);
        ranks_close(&divided);
        adapted_close(&whole);
        for (size_t k = 0; k < f.n; k++) fixture_remove_directory((char *)list.items[k]);
        free(path);
        fixture_remove_directory(source);
        adapter_fixture_free(&f);
    }
}

/* ---- Wrong messages ---- */

static void changed_messages_are_errors_of_the_ranks_that_follow(void **state) {
    /* The header of exchange 1 is that of the first pass: kind, changes, rows, cache, observed. Its
     * first change makes the cache: kind, number, sequences, other, bytes, type. */
    static const struct {
        size_t offset;
        int value;
        const char *said;
    } cases[] = {
        {0, 77, "message 77"},      {4, -1, "changes 4294967295"},
        {8, -1, "rows 4294967295"}, {8, 0, "rows 0"},
        {12, 9, "cache 9"},         {12, -1, "cache -1"},
        {16, 5, "observer 5"},      {20, 1, "reserved field 1"},
        {56, 55, "change 55"},      {28, -5, "new cache -5"},
        {28, 50, "new cache 50"},   {32, -1, "sequences -1"},
        {32, 0, "sequence 0"},      {44, -1, "bytes of a cache"},
        {48, 4, "type of cache 4"}, {60, 1, "cache 1"},
        {76, -1, "position -"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint8_t input[1 + WIRE_CHANGE_BYTES] = {0};
        wire_case_write(input + 1, 1, cases[i].offset, cases[i].value);
        WireErrors errors = wire_case_run(input, sizeof input);
        for (size_t r = 1; r < WIRE_RANKS; r++)
            if (!strstr(errors.of[r].text, cases[i].said))
                fail_msg("case %zu, rank %zu: %s", i, r, errors.of[r].text);
    }
}

static void any_changed_message_ends_ranks_in_an_orderly_manner(void **state) {
    uint32_t seed = 1;
    (void)state;
    for (size_t i = 0; i < 90; i++) {
        uint8_t input[1 + 2 * WIRE_CHANGE_BYTES];
        for (size_t k = 0; k < sizeof input; k++) {
            seed = seed * 1664525u + 1013904223u;
            input[k] = (uint8_t)(seed >> 24);
        }
        input[0] = (uint8_t)i;
        input[2] &= 1; /* one of the first 85 exchanges; the other change is of any */
        wire_case_run(input, sizeof input);
    }
}

/* ---- The programs ---- */

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(families_give_the_same_bits),
        cmocka_unit_test(every_type_gives_the_same_bits),
        cmocka_unit_test(every_kind_of_heads_gives_the_same_bits),
        cmocka_unit_test(any_number_of_ranks_gives_the_same_bits),
        cmocka_unit_test(adapters_give_the_same_bits),
        cmocka_unit_test(observers_see_the_heads_of_all_ranks),
        cmocka_unit_test(changed_messages_are_errors_of_the_ranks_that_follow),
        cmocka_unit_test(any_changed_message_ends_ranks_in_an_orderly_manner),
    };
    if (argc <= 1) return cmocka_run_group_tests_name("cluster", tests, NULL, NULL);
    char **names = fixture_names();
    for (size_t i = 0; names[i]; i++) {
        if (!strstr(names[i], argv[1])) continue;
        check_fixture(names[i], "f32", 3);
        check_fixture(names[i], "q8", 4);
    }
    return 0;
}
