/* Prompt lookup: drafts change how many tokens a pass computes, never the logits or the text. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "kvcache/kvcache_sizes.h"
#include "draft/lookup.h"
#include "draft/speculation.h"
#include "tests/fixture.h"
#include "tests/process.h"
#include "tests/small_model.h"
#include "tests/tiny_model.h"

enum { PROMPT = 20, CONTEXT = 192 };

static const ModelOptions machine = {.n_threads = 2, .context = CONTEXT};

/* Writes a text that repeats itself, breaks off a repetition in the middle, and ends in an endless
 * cycle. */
static void write_text(int32_t ids[CONTEXT]) {
    for (int i = 0; i < CONTEXT; i++) ids[i] = 3 + i * i % 61;
    for (int i = 40; i < 70; i++) ids[i] = ids[i - 25];
    for (int i = 70; i < 130; i++) ids[i] = i % 7 == 6 ? 100 + i : ids[i - 60];
    for (int i = 140; i < CONTEXT; i++) ids[i] = 10 + i % 3;
}

/* Decodes ids[PROMPT ... n - 1] with up to `most` drafts a pass and compares each row of logits
 * with `expected`, computed without drafts. Returns the statistics. */
static SpeculationStats follow(TinyModel *tiny, const int32_t *ids, size_t n, size_t most,
                               const float *expected) {
    Error error;
    Decoding decoding;
    Drafter *lookup = most ? lookup_new(most) : NULL;
    float *logits = calloc(PROMPT * tiny->vocab_size, sizeof *logits), *next;
    kvcache_reset(tiny->cache, 0, 0);
    tiny_model_continue(tiny, 0, ids, PROMPT, 7, logits);
    free(logits);
    assert_int_equal(
        decoding_init(&decoding, tiny->model, tiny->cache, lookup, ids, PROMPT, &error), STATUS_OK);
    for (size_t i = PROMPT; i < n; i++) {
        assert_int_equal(decoding_next(&decoding, ids[i], &next, &error), STATUS_OK);
        assert_memory_equal(next, expected + i * tiny->vocab_size, tiny->vocab_size * sizeof *next);
        /* Samplers overwrite the logits, so the decoder must not depend on them. */
        memset(next, 0xFF, tiny->vocab_size * sizeof *next);
    }
    decoding_end(&decoding);
    /* Where layers have states, the rows of the last pass may have to run again. */
    size_t cached = (size_t)kvcache_next(tiny->cache, 0);
    bool exact = !kvcache_has_states(kvcache_shape(tiny->cache));
    assert_true(exact ? cached == n : cached <= n && cached + DRAFTS_MAX + 1 >= n);
    SpeculationStats stats = decoding.speculation.stats;
    decoding_free(&decoding);
    drafter_free(lookup);
    assert_int_equal(stats.passes + stats.accepted, n - PROMPT);
    return stats;
}

static void drafts_change_no_bit(void **state) {
    static const char *const types[] = {"f32", "q8", "q4_k", "q8", "q8"};
    static const char *const shapes[] = {
        "random:tiny", "random:tiny", "random:tiny",
        "random:tiny,latent_dim=24,head_dim=20,rotary_dim=8,value_dim=12",
        ("random:tiny,latent_dim=24,latent_q_dim=40,head_dim=20,rotary_dim=8,value_dim=12,"
         "index_heads=3,index_dim=16,index_topk=9")};
    static const size_t counts[] = {0, 1, 3, 7, DRAFTS_MAX};
    int32_t ids[CONTEXT];
    (void)state;
    write_text(ids);
    for (size_t t = 0; t < 5; t++) {
        for (KvType kv = KV_F32; kv < KV_TYPES; kv++) {
            TinyModel tiny = tiny_model_open(shapes[t], types[t], &machine, kv);
            float *expected = tiny_model_run(&tiny, 1, 0, ids, CONTEXT, 50);
            for (size_t i = 0; i < 5; i++) {
                SpeculationStats stats = follow(&tiny, ids, CONTEXT, counts[i], expected);
                if (counts[i] == 0) assert_int_equal(stats.drafted, 0);
                /* Two in three tokens are in a repetition or in the cycle. */
                if (counts[i] >= 3) assert_true(stats.passes < (CONTEXT - PROMPT) * 2 / 3);
            }
            free(expected);
            tiny_model_close(&tiny);
        }
    }
}

static void nor_do_they_where_windows_and_states_are_lost(void **state) {
    static const char *const models[] = {
        "random:tiny,n_layers=3,window=20,window_pattern=3",
        "random:tiny,n_layers=3,window_pattern=3,state_kernel=4",
    };
    static const size_t counts[] = {1, 7, DRAFTS_MAX};
    int32_t ids[CONTEXT];
    (void)state;
    write_text(ids);
    for (size_t m = 0; m < 2; m++) {
        TinyModel tiny = tiny_model_open(models[m], NULL, &machine, KV_F16);
        float *expected = tiny_model_run(&tiny, 1, 0, ids, CONTEXT, 50);
        for (size_t i = 0; i < 3; i++) {
            /* follow() checks that a rejected draft costs no pass of its own. */
            SpeculationStats stats = follow(&tiny, ids, CONTEXT, counts[i], expected);
            assert_true(stats.accepted > 0 && stats.accepted < stats.drafted);
        }
        free(expected);
        tiny_model_close(&tiny);
    }
}

static void a_text_broken_off_at_any_place_goes_on_as_if_never_drafted(void **state) {
    int32_t ids[CONTEXT], other[8] = {9, 8, 7, 6, 5, 4, 3, 2};
    (void)state;
    write_text(ids);
    TinyModel tiny = tiny_model_open("random:tiny", "q8", &machine, KV_F16);
    float *expected = tiny_model_run(&tiny, 1, 0, ids, CONTEXT, 50);
    float *after = calloc(8 * tiny.vocab_size, sizeof *after);
    for (size_t n = 64; n < 150; n += 5) {
        int32_t all[CONTEXT];
        memcpy(all, ids, n * sizeof *ids);
        memcpy(all + n, other, sizeof other);
        float *fresh = tiny_model_run(&tiny, 1, 0, all, n + 8, 64);
        follow(&tiny, ids, n, 7, expected);
        tiny_model_continue(&tiny, 0, other, 8, 3, after);
        assert_memory_equal(after, fresh + n * tiny.vocab_size,
                            8 * tiny.vocab_size * sizeof *after);
        free(fresh);
    }
    free(after);
    free(expected);
    tiny_model_close(&tiny);
}

static void wrong_drafts_become_rare(void **state) {
    int32_t ids[CONTEXT];
    (void)state;
    /* Each pair of tokens has occurred before, but the token after it always differs. */
    for (int i = 0; i < CONTEXT; i++) ids[i] = i % 3 == 2 ? 20 + i : 5 + i % 3;
    TinyModel tiny = tiny_model_open("random:tiny", "q8", &machine, KV_F16);
    float *expected = tiny_model_run(&tiny, 1, 0, ids, CONTEXT, 50);
    SpeculationStats stats = follow(&tiny, ids, CONTEXT, DRAFTS_MAX, expected);
    assert_true(stats.drafted < (CONTEXT - PROMPT) / 8);
    free(expected);
    tiny_model_close(&tiny);
}

static void a_draft_that_cannot_be_computed_is_no_error(void **state) {
    int32_t ids[PROMPT + 2] = {0};
    Error error;
    Decoding decoding;
    Drafter *lookup = lookup_new(3);
    float *next;
    (void)state;
    TinyModel tiny = tiny_model_open("random:tiny", "q8", &machine, KV_F16);
    for (int i = 0; i < PROMPT; i++) ids[i] = 5 + i;
    ids[PROMPT] = 7, ids[PROMPT + 1] = 8;
    float *expected = tiny_model_run(&tiny, 1, 0, ids, PROMPT + 2, 50);
    float *logits = tiny_model_run(&tiny, 0, 0, ids, PROMPT, 50);
    /* The lookup drafts from this copy of the text, which contains a token outside the
     * vocabulary. */
    ids[4] = (int32_t)tiny.vocab_size;
    assert_int_equal(decoding_init(&decoding, tiny.model, tiny.cache, lookup, ids, PROMPT, &error),
                     STATUS_OK);
    for (size_t i = PROMPT; i < PROMPT + 2; i++) {
        assert_int_equal(decoding_next(&decoding, ids[i], &next, &error), STATUS_OK);
        assert_memory_equal(next, expected + i * tiny.vocab_size, tiny.vocab_size * sizeof *next);
    }
    assert_int_equal(decoding.speculation.stats.drafted, 3);
    assert_int_equal(kvcache_next(tiny.cache, 0), PROMPT + 2);
    /* A sampled token (not a draft) outside the vocabulary is an error. */
    assert_int_equal(decoding_next(&decoding, (int32_t)tiny.vocab_size, &next, &error),
                     STATUS_FAILED);
    decoding_free(&decoding);
    drafter_free(lookup);
    free(logits);
    free(expected);
    tiny_model_close(&tiny);
}

/* ---- The program ----------------------------------------------------------------------------- */

static char *directory, *model;

/* Runs the program with and without --lookup and expects the same text. The arguments in `more`
 * leave the model few tokens, so that texts repeat themselves. `guesses`: --stats must report
 * drafts. */
static void same_text(const char *const *more, bool guesses) {
    const char *argv[2][24];
    Process p[2];
    for (size_t i = 0; i < 2; i++) {
        size_t n = 0;
        const char *const first[] = {"run", model, "-i",      "one one two",  "-j",      "2",
                                     "-s",  "3",   "--stats", "--ignore-eos", "--lookup"};
        for (; n < 11; n++) argv[i][n] = first[n];
        argv[i][n++] = i ? "7" : "0";
        for (size_t k = 0; more[k]; k++) argv[i][n++] = more[k];
        argv[i][n] = NULL;
        p[i] = process_run(argv[i], NULL, 0);
        if (p[i].status != 0) fail_msg("%s", p[i].err);
    }
    assert_int_equal(p[0].out_length, p[1].out_length);
    assert_memory_equal(p[0].out, p[1].out, p[0].out_length);
    assert_null(strstr(p[0].err, "drafts:"));
    if (guesses) assert_non_null(strstr(p[1].err, "drafts:"));
    process_free(&p[0]);
    process_free(&p[1]);
}
#define SAME_TEXT(guesses, ...) same_text((const char *const[]){__VA_ARGS__, NULL}, guesses)

static void the_program_writes_the_same_text(void **state) {
    (void)state;
    SAME_TEXT(true, "-n", "60", "-t", "0", "--logit-bias", "40=1000");
    SAME_TEXT(true, "-n", "0", "-t", "0", "--logit-bias", "40=1000"); /* to the context's limit */
    SAME_TEXT(true, "-n", "100", "--logit-bias", "40=30", "--logit-bias", "41=30");
    SAME_TEXT(false, "-n", "100", "--repetition-penalty", "1.3", "--frequency-penalty", "0.5");
    SAME_TEXT(false, "-n", "100", "--top-k", "2", "--stop", "e");
    SAME_TEXT(true, "-n", "60", "-t", "0", "--logit-bias", "40=1000", "-m", "chat");
}

static Process chat(const char *lookup, const char *session, const char *said) {
    const char *argv[] = {
        "run",       model,          "-m",    "chat",         "-s",    "5",        "-n",
        "30",        "--logit-bias", "40=30", "--logit-bias", "41=30", "--lookup", lookup,
        "--session", session,        NULL};
    Process p = process_run(argv, said, strlen(said));
    if (p.status != 0) fail_msg("%s", p.err);
    return p;
}

static void a_chat_and_its_session_are_the_same(void **state) {
    char *plain = fixture_path(directory, "plain"), *guessed = fixture_path(directory, "guessed");
    (void)state;
    for (int round = 0; round < 2; round++) {
        Process a = chat("0", plain, "one two\nthree\n"),
                b = chat("15", guessed, "one two\nthree\n");
        assert_string_equal(a.out, b.out);
        process_free(&a);
        process_free(&b);
    }
    free(plain);
    free(guessed);
}

static int make_model(void **state) {
    (void)state;
    directory = fixture_directory();
    model = small_model(directory, "tiny,context=256");
    return 0;
}

static int remove_model(void **state) {
    (void)state;
    free(model);
    fixture_remove_directory(directory);
    return 0;
}

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(drafts_change_no_bit),
        cmocka_unit_test(nor_do_they_where_windows_and_states_are_lost),
        cmocka_unit_test(a_text_broken_off_at_any_place_goes_on_as_if_never_drafted),
        cmocka_unit_test(wrong_drafts_become_rare),
        cmocka_unit_test(a_draft_that_cannot_be_computed_is_no_error),
        cmocka_unit_test(the_program_writes_the_same_text),
        cmocka_unit_test(a_chat_and_its_session_are_the_same),
    };
    return cmocka_run_group_tests_name("lookup", tests, make_model, remove_model);
}
