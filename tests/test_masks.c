/* --override mask, positions, global_tokens: the mistakes that guides warn of, computed. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/fixture.h"
#include "tests/process.h"
#include "tests/small_model.h"
#include "tests/tiny_model.h"

static char *directory, *other, *model, *sinusoidal;

static int make_models(void **state) {
    (void)state;
    directory = fixture_directory();
    model = small_model(directory, "tiny,window=4");
    other = fixture_directory();
    sinusoidal = small_model(other, "tiny,position=sinusoidal,norm_place=after");
    return 0;
}

static int remove_models(void **state) {
    (void)state;
    fixture_remove_directory(directory);
    fixture_remove_directory(other);
    free(sinusoidal);
    free(model);
    return 0;
}

/* The log-probability of the text's token number `index` by --score; one and two: overrides. */
static double log_probability(const char *path, const char *text, size_t index, const char *one,
                              const char *two) {
    Process p = RUN("run", path, "-i", text, "--score", "table", "--kv-type", "f32", "-j", "2",
                    one ? "--override" : NULL, one, two ? "--override" : NULL, two);
    if (p.status) print_message("%s", p.err);
    assert_int_equal(p.status, 0);
    const char *line = strchr(p.out, '\n');
    for (size_t i = 0; i < index; i++) line = strchr(line + 1, '\n');
    double value = strtod(line + 1, NULL);
    process_free(&p);
    return value;
}

static void a_mask_of_minus_a_billion_is_the_model_s_own(void **state) {
    (void)state;
    double own = log_probability(model, "abcdefgh", 6, NULL, NULL);
    assert_true(fabs(log_probability(model, "abcdefgh", 6, "mask=-1e9", NULL) - own) < 1e-3);
}

static void without_a_mask_or_with_zeros_a_later_token_changes_an_earlier_one(void **state) {
    (void)state;
    static const char *const masks[] = {NULL, "mask=-1e9", "mask=zero", "mask=none"};
    for (size_t i = 0; i < 4; i++) {
        double one = log_probability(model, "abcdefgh", 2, masks[i], NULL);
        double two = log_probability(model, "abcdefXY", 2, masks[i], NULL);
        if (i < 2)
            assert_true(one == two);
        else
            assert_true(fabs(one - two) > 1e-3);
    }
}

static void without_mask_and_positions_attention_is_blind_to_order(void **state) {
    (void)state;
    /* The score of 'p' after 'm', after a space; the letters before 'm' in another order. */
    double one = log_probability(model, "bcdfgkmp", 8, "mask=none", "position=none");
    double two = log_probability(model, "kfdbcgmp", 8, "mask=none", "position=none");
    assert_true(fabs(one - two) < 2e-3);
    one = log_probability(model, "bcdfgkmp", 8, "mask=none", NULL);
    two = log_probability(model, "kfdbcgmp", 8, "mask=none", NULL);
    assert_true(fabs(one - two) > 1e-2);
}

/* Copies the report's line of this name. */
static void read_line(const Process *p, const char *name, char line[64]) {
    const char *at = strstr(p->out, name);
    if (!at) fail_msg("%s%s", p->out, p->err);
    snprintf(line, 64, "%.*s", (int)strcspn(at, "\n"), at);
}

static void a_second_model_does_not_cut_a_masked_text(void **state) {
    (void)state;
    char *text = fixture_path(directory, "text"), alone[64], beside[64];
    file_write(text, "abcdefghijklmnopqrstuvwxyz", 26);
    Process one = RUN("run", model, "--eval", text, "--override", "mask=none", "--chunk", "4");
    Process two = RUN("run", model, "--eval", text, "--override", "mask=none", "--chunk", "4",
                      "--against", model);
    read_line(&one, "perplexity", alone);
    read_line(&two, "perplexity", beside);
    assert_string_equal(alone, beside);
    process_free(&one);
    process_free(&two);
    free(text);
}

static void global_tokens_stand_beside_a_window(void **state) {
    (void)state;
    Process p = RUN("run", model, "-i", "abcdefghij", "--attention", "0.0", "--override",
                    "global_tokens=2");
    assert_int_equal(p.status, 0);
    assert_non_null(strstr(p.out, "overridden: global_tokens = 2 (the model's: 0)"));
    process_free(&p);
    double one = log_probability(model, "abcdefgh", 7, "global_tokens=2", NULL);
    assert_true(fabs(one - log_probability(model, "abcdefgh", 7, NULL, NULL)) > 1e-3);
    /* A window that is all global is not a window. */
    one = log_probability(model, "abcdefgh", 7, "global_tokens=9", NULL);
    assert_true(fabs(one - log_probability(model, "abcdefgh", 7, "window=0", NULL)) < 1e-3);
}

static void positions_in_every_layer_change_the_logits(void **state) {
    (void)state;
    double own = log_probability(sinusoidal, "abcdefgh", 7, NULL, NULL);
    double every = log_probability(sinusoidal, "abcdefgh", 7, "positions=every-layer", NULL);
    assert_true(fabs(own - every) > 1e-3);
}

#define REFUSES(message, path, ...)                                                                \
    do {                                                                                           \
        Process p = RUN("run", path, "-i", "abc", __VA_ARGS__);                                    \
        assert_int_not_equal(p.status, 0);                                                         \
        if (!strstr(p.err, message)) fail_msg("%s", p.err);                                        \
        assert_null(strstr(p.err, "overridden: ")); /* said of what is done */                     \
        process_free(&p);                                                                          \
    } while (0)

/* ---- Branches that are off ------------------------------------------------------------------- */

/* The log-probability of the whole text "abcdefgh" with these overrides. */
static double text_probability(const char *path, const char *const *overrides) {
    const char *arguments[PROCESS_MAX_ARGUMENTS] = {"run",     path,   "-i",        "abcdefgh",
                                                    "--score", "json", "--kv-type", "f32"};
    for (size_t i = 0, n = 8; overrides[i]; i++, n += 2)
        arguments[n] = "--override", arguments[n + 1] = overrides[i];
    Process p = process_run(arguments, NULL, 0);
    if (p.status) fail_msg("%s", p.err);
    const char *at = strstr(p.out, "\"logprob\"");
    assert_non_null(at);
    for (const char *next; (next = strstr(at + 1, "\"logprob\""));) at = next;
    double value = strtod(strchr(at, ':') + 1, NULL);
    process_free(&p);
    return value;
}

/* Both branches off is what residual_scale=0 computes: x goes from the embedding to the output. All
 * heads off is attention off, and all layers off one by one is all of them. */
static void branches_that_are_off_add_nothing(void **state) {
    (void)state;
    char *place = fixture_directory(), *plain = small_model(place, "tiny");
    const char *const own[] = {NULL}, *const scaled[] = {"residual_scale=0", NULL};
    const char *const both[] = {"attention=off", "ffn=off", NULL};
    const char *const attention[] = {"attention=off", NULL}, *const ffn[] = {"ffn=off", NULL};
    const char *const layers[] = {"attention=off:0", "attention=off:1", NULL};
    const char *const heads[] = {"attention=off:0.0", "attention=off:0.1", "attention=off:0.2",
                                 "attention=off:0.3", "attention=off:1",   NULL};
    const char *const one[] = {"attention=off:1.2", NULL};
    double as_it_is = text_probability(plain, own), without = text_probability(plain, attention);
    assert_true(text_probability(plain, both) == text_probability(plain, scaled));
    assert_true(without == text_probability(plain, layers));
    assert_true(without == text_probability(plain, heads));
    assert_true(fabs(without - as_it_is) > 1e-3);
    assert_true(fabs(text_probability(plain, ffn) - as_it_is) > 1e-3);
    assert_true(fabs(text_probability(plain, ffn) - without) > 1e-3);
    assert_true(fabs(text_probability(plain, one) - as_it_is) > 1e-4);
    free(plain);
    fixture_remove_directory(place);
}

/* A head that is off gives 0 to the output, in passes of any size and with a cache. */
static void a_head_that_is_off_is_off_in_every_pass(void **state) {
    (void)state;
    Process p = RUN("run", model, "-i", "abcdefgh", "-n", "8", "-t", "0", "--override",
                    "attention=off:1.2", "--chunk", "3", "-j", "2");
    Process q = RUN("run", model, "-i", "abcdefgh", "-n", "8", "-t", "0", "--override",
                    "attention=off:1.2", "-j", "1");
    assert_int_equal(p.status, 0);
    assert_non_null(strstr(p.err, "overridden: attention = off in head 2 of layer 1"));
    assert_string_equal(p.out, q.out);
    process_free(&p);
    process_free(&q);
    /* --layer shows every head of its layer, with zeros for a head that is off, and works for other
     * layers as well. */
    p = RUN("run", model, "-i", "abcd", "--layer", "1", "--override", "attention=off:1.2");
    assert_int_equal(p.status, 0);
    q = RUN("run", model, "-i", "abcd", "--layer", "0", "--override", "attention=off:1.2");
    assert_int_equal(q.status, 0);
    assert_non_null(strstr(p.out, "head 2"));
    assert_string_not_equal(p.out, q.out);
    process_free(&p);
    process_free(&q);
}

static void what_cannot_be_computed_so_is_refused(void **state) {
    (void)state;
    REFUSES("are for looking and scoring: with --score, --eval or --attention", model, "--override",
            "mask=none");
    REFUSES("the value is not one of none, zero, -1e9", model, "--score", "table", "--override",
            "mask=all");
    REFUSES("it changes nothing: the model has causal", model, "--score", "table", "--override",
            "mask=causal");
    REFUSES("the model adds no positions to its embeddings", model, "--score", "table",
            "--override", "positions=every-layer");
    REFUSES("a layer has no window", sinusoidal, "--score", "table", "--override",
            "global_tokens=1");
    /* A vocabulary so large that a text's logits don't fit one pass. */
    REFUSES("a pass scores at most 167 positions: give -c 167",
            "random:dim=64,n_layers=1,n_heads=2,vocab_size=100000,context=2048", "--score", "table",
            "--override", "mask=none");
    REFUSES("give -c 2048", model, "--score", "table", "-c", "4096", "--override", "mask=none");
}

static void branches_that_are_not_there_are_named(void **state) {
    (void)state;
    REFUSES("--override attention=of: the value is not off, off:LAYER or off:LAYER.HEAD", model,
            "--score", "table", "--override", "attention=of");
    REFUSES("--override ffn=off:1.0: the value is not off or off:LAYER", model, "--score", "table",
            "--override", "ffn=off:1.0");
    REFUSES("--override ffn=off:7: the model has layers 0 to 1", model, "--score", "table",
            "--override", "ffn=off:7");
    REFUSES("--override attention=off:1.9: the layer has heads 0 to 3", model, "--score", "table",
            "--override", "attention=off:1.9");
    REFUSES("--override attention=off:1: it changes nothing: it is off already", model, "--score",
            "table", "--override", "attention=off", "--override", "attention=off:1");
}

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_mask_of_minus_a_billion_is_the_model_s_own),
        cmocka_unit_test(without_a_mask_or_with_zeros_a_later_token_changes_an_earlier_one),
        cmocka_unit_test(without_mask_and_positions_attention_is_blind_to_order),
        cmocka_unit_test(a_second_model_does_not_cut_a_masked_text),
        cmocka_unit_test(global_tokens_stand_beside_a_window),
        cmocka_unit_test(positions_in_every_layer_change_the_logits),
        cmocka_unit_test(branches_that_are_off_add_nothing),
        cmocka_unit_test(a_head_that_is_off_is_off_in_every_pass),
        cmocka_unit_test(branches_that_are_not_there_are_named),
        cmocka_unit_test(what_cannot_be_computed_so_is_refused),
    };
    return cmocka_run_group_tests(tests, make_models, remove_models);
}
