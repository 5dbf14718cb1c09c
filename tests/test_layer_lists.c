/* `run MODEL --layers` prints what each layer computes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/fixture.h"
#include "tests/process.h"
#include "tests/small_model.h"
#include "tests/tiny_model.h"

/* Expects --layers to print exactly `lines` between its first line and "logits = ", for a model of
 * random weights. */
static void expect_layers(const char *shape, const char *lines) {
    char *directory = fixture_directory(), *model = small_model(directory, shape);
    Process p = RUN("run", model, "--layers");
    const char *begin = strchr(p.out, '\n'), *end = strstr(p.out, "logits = ");
    assert_string_equal(p.err, "");
    assert_non_null(begin);
    assert_non_null(end);
    size_t n = (size_t)(end - begin - 1);
    if (n != strlen(lines) || memcmp(begin + 1, lines, n) != 0) fail_msg("%s", p.out);
    process_free(&p);
    free(model);
    fixture_remove_directory(directory);
}

static void equal_layers_stand_once(void **state) {
    (void)state;
    expect_layers("tiny", "layers 0-1\n"
                          "    x += attention{4 heads of 16, 2 of keys}(norm(x))\n"
                          "    x += feed-forward{96, gated}(norm(x))\n");
    expect_layers("tiny,n_layers=4,window=20,window_pattern=2",
                  "layers 0, 2\n"
                  "    x += attention{4 heads of 16, 2 of keys, window 20}(norm(x))\n"
                  "    x += feed-forward{96, gated}(norm(x))\n"
                  "layers 1, 3\n"
                  "    x += attention{4 heads of 16, 2 of keys}(norm(x))\n"
                  "    x += feed-forward{96, gated}(norm(x))\n");
}

static void norms_stand_where_they_are(void **state) {
    (void)state;
    expect_layers("tiny,norm_place=after",
                  "layers 0-1\n"
                  "    x = norm(x + attention{4 heads of 16, 2 of keys}(x))\n"
                  "    x = norm(x + feed-forward{96, gated}(x))\n");
    expect_layers("tiny,norm_place=output",
                  "layers 0-1\n"
                  "    x += norm(attention{4 heads of 16, 2 of keys}(x))\n"
                  "    x += norm(feed-forward{96, gated}(x))\n");
}

static void a_router_that_reads_another_norm_says_so(void **state) {
    (void)state;
    expect_layers("tiny,stack=gemma4,norm_place=around,n_experts=8,n_experts_used=2,"
                  "expert_ffn_dim=48",
                  "layers 0-1\n"
                  "    x += norm(attention{4 heads of 16, 2 of keys}(norm(x)))\n"
                  "    x += norm(norm(feed-forward{96, gated}(norm(x))) + norm(mixture{2 of 8 "
                  "experts of 48}(norm(x), router: norm(x) / 8)))\n");
}

/* Expects lines in what --layers prints of a fixture. */
static void expect_in_fixture(const char *name, const char *lines) {
    Fixture f = fixture_load(name);
    char *source = fixture_source(&f), *model = fixture_path(source, "model.bin");
    Process export = RUN("export", source, model, "--quiet");
    Process p = RUN("run", model, "--layers");
    if (!strstr(p.out, lines)) fail_msg("%s: %s%s", name, p.out, p.err);
    process_free(&p);
    process_free(&export);
    free(model);
    fixture_remove_directory(source);
    fixture_free(&f);
}

static void experts_that_the_token_chooses_say_so(void **state) {
    (void)state;
    expect_in_fixture("deepseek_v4", "(norm(x), experts by the token)");
}

static void sums_that_a_stack_makes_itself_say_so(void **state) {
    (void)state;
    expect_in_fixture("zaya", "    x = the embedding, scaled\n"
                              "    x = scaled x + scaled convolutional attention{4 heads of 10, 2 "
                              "of keys}(norm(x))\n"
                              "    x = scaled x + scaled mixture{1 of 5 experts of 20}(norm(x))\n");
    expect_in_fixture("inkling2", "layer 2\n"
                                  "    n = the sums, by attention\n"
                                  "    x = relative attention{4 heads of 10, 2 of keys}(n)\n"
                                  "    n = the sums, by attention\n"
                                  "    x += convolved mixture{2 of 4 experts of 18}(n)\n");
    expect_in_fixture("inkling2_loop",
                      "    n = the sums, by attention, and messages of the run before\n"
                      "    x = relative attention{6 heads of 8, 3 of keys, window 9}(n)\n"
                      "    n = the sums, by attention, and a message of the run before\n"
                      "    x += convolved mixture{2 of 4 experts of 18}(n)\n");
}

static void a_mixture_that_skips_a_layer_is_added_there(void **state) {
    (void)state;
    expect_layers(
        "tiny,latent_dim=24,head_dim=20,rotary_dim=8,value_dim=12,stack=shortcut,n_experts=7,"
        "n_experts_used=3,expert_ffn_dim=48",
        "layer 0\n"
        "    x += latent attention{4 heads of 20, latent of 24}(norm(x))\n"
        "    later x += mixture{3 of 7 experts of 48}(norm(x)), x += feed-forward{96, "
        "gated}(norm(x))\n"
        "layer 1\n"
        "    x += latent attention{4 heads of 20, latent of 24}(norm(x))\n"
        "    x += feed-forward{96, gated}(norm(x)), x += the mixture of the layer before\n");
}

static void a_number_of_layers_gets_a_hint(void **state) {
    (void)state;
    Process p = RUN("run", "model.bin", "--layers", "99");
    assert_int_equal(p.status, 2);
    assert_string_equal(p.err,
                        "run: 99 is not a model. --layers takes no number: it prints the layers, "
                        "which all run on the processor\n");
    process_free(&p);
}

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_layers_stand_once),
        cmocka_unit_test(norms_stand_where_they_are),
        cmocka_unit_test(a_router_that_reads_another_norm_says_so),
        cmocka_unit_test(experts_that_the_token_chooses_say_so),
        cmocka_unit_test(sums_that_a_stack_makes_itself_say_so),
        cmocka_unit_test(a_mixture_that_skips_a_layer_is_added_there),
        cmocka_unit_test(a_number_of_layers_gets_a_hint),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
