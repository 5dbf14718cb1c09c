/* `run MODEL --layer L --position P` shows what one layer makes of one position. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "tests/fixture.h"
#include "tests/process.h"
#include "tests/small_model.h"
#include "tests/tiny_model.h"

#define TEXT "Once upon a time"

static json_t *view_of(const char *model, const char *layer, const char *position,
                       const char *threads, const char *chunk) {
    Process p = RUN("run", model, "-i", TEXT, "--layer", layer, "--position", position, "--json",
                    "--kv-type", "f32", "-j", threads, "--chunk", chunk);
    json_error_t error;
    assert_string_equal(p.err, "");
    json_t *json = json_loads(p.out, 0, &error);
    if (!json) fail_msg("line %d: %s", error.line, error.text);
    process_free(&p);
    return json;
}

static json_t *branch(const json_t *view, size_t i) {
    return json_array_get(json_object_get(view, "branches"), i);
}

static double at(const json_t *vector, size_t i) {
    return json_number_value(json_array_get(vector, i));
}

static const json_t *values(const json_t *branch, const char *stage) {
    return json_object_get(json_object_get(branch, stage), "values");
}

static void heads_follow_the_formula_of_attention(void **state) {
    (void)state;
    char *directory = fixture_directory();
    char *model = small_model(directory, "tiny,window=5");
    json_t *view = view_of(model, "1", "9", "1", "512"), *attention = branch(view, 0);
    const json_t *heads = json_object_get(attention, "heads");
    const json_t *cached = json_object_get(attention, "kv_heads");
    double scale = json_number_value(json_object_get(attention, "scale"));
    assert_int_equal(json_array_size(heads), 4);
    assert_int_equal(json_integer_value(json_object_get(attention, "first_key")), 5);
    for (size_t h = 0; h < 4; h++) {
        const json_t *head = json_array_get(heads, h), *kv = json_array_get(cached, h / 2);
        const json_t *query = json_object_get(head, "query"), *sum = json_object_get(head, "sum");
        const json_t *weights = json_object_get(head, "weights");
        const json_t *scores = json_object_get(head, "scores");
        double total = 0.0;
        assert_int_equal(json_array_size(weights), 10);
        for (size_t p = 0; p < 10; p++) {
            const json_t *key = json_array_get(json_object_get(kv, "keys"), p);
            double product = 0.0;
            for (size_t i = 0; i < 16; i++) product += at(query, i) * at(key, i);
            if (p >= 5) assert_true(fabs(product * scale - at(scores, p)) < 1e-4);
            if (p < 5) assert_true(at(weights, p) == 0.0);
            total += at(weights, p);
        }
        assert_true(fabs(total - 1.0) < 1e-5);
        for (size_t i = 0; i < 16; i++) {
            double expected = 0.0;
            for (size_t p = 0; p < 10; p++)
                expected +=
                    at(weights, p) * at(json_array_get(json_object_get(kv, "values"), p), i);
            assert_true(fabs(expected - at(sum, i)) < 1e-4);
        }
    }
    json_decref(view);
    free(model);
    fixture_remove_directory(directory);
}

static void each_branch_adds_to_what_the_next_one_reads(void **state) {
    (void)state;
    char *directory = fixture_directory(), *model = small_model(directory, "tiny");
    json_t *first = view_of(model, "0", "6", "1", "512");
    json_t *second = view_of(model, "1", "6", "1", "512");
    for (size_t i = 0; i < 64; i++) {
        const json_t *x = values(branch(first, 0), "x"), *y = values(branch(first, 0), "output");
        const json_t *next = values(branch(first, 1), "x");
        const json_t *z = values(branch(first, 1), "output");
        double after = at(json_object_get(first, "x_after"), i);
        assert_true(fabs(at(x, i) + at(y, i) - at(next, i)) < 1e-5);
        assert_true(fabs(at(next, i) + at(z, i) - after) < 1e-5);
        assert_true(after == at(values(branch(second, 0), "x"), i));
    }
    /* RMSNorm by weights of about 1: the mean of the squares is about 1. */
    double size =
        json_number_value(json_object_get(json_object_get(branch(first, 0), "norm_x"), "size"));
    assert_true(size * size / 64 > 0.5 && size * size / 64 < 2.0);
    assert_int_equal(json_array_size(values(branch(first, 1), "hidden")), 96);
    const json_t *depth = json_array_get(json_object_get(first, "depths"), 0);
    assert_true(fabs(json_number_value(json_object_get(depth, "to_embedding")) - 1.0) < 1e-6);
    json_decref(first);
    json_decref(second);
    free(model);
    fixture_remove_directory(directory);
}

static void the_view_is_the_same_on_any_threads_and_chunks(void **state) {
    (void)state;
    static const char *const shapes[] = {
        "tiny,norm_place=after", "tiny,parallel_block=1,norm=layer",
        "tiny,n_experts=4,n_experts_used=2,expert_ffn_dim=48",
        ("tiny,n_layers=4,state_heads=4,state_key_heads=2,state_key_dim=16,state_value_dim=16,"
         "state_kernel=4")};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        char *directory = fixture_directory(), *model = small_model(directory, shapes[i]);
        json_t *one = view_of(model, "1", "7", "1", "512"),
               *two = view_of(model, "1", "7", "2", "3");
        if (!json_equal(one, two)) fail_msg("%s", shapes[i]);
        json_decref(one);
        json_decref(two);
        free(model);
        fixture_remove_directory(directory);
    }
}

/* The pixels from the small print above a heading down to the heading. */
static double room_above_heading(const char *svg, const char *heading) {
    const char *small = "class=\"small\" ", *title = "class=\"title\" ",
               *end = strstr(svg, heading);
    const char *above = NULL, *own = NULL;
    assert_non_null(end);
    for (const char *at = svg; (at = strstr(at, small)) && at < end; at++) above = at;
    for (const char *at = svg; (at = strstr(at, title)) && at < end; at++) own = at;
    assert_true(above && own);
    return strtod(strstr(own, " y=\"") + 4, NULL) - strtod(strstr(above, " y=\"") + 4, NULL);
}

static void the_terminal_names_shapes_and_the_picture_is_whole(void **state) {
    (void)state;
    char *directory = fixture_directory(), *model = small_model(directory, "tiny,norm_place=after");
    Process p = RUN("run", model, "-i", TEXT, "--layer", "0");
    assert_int_equal(p.status, 0);
    const char *expected[] = {"layer 0 at position 15, e\n",
                              "    x = norm(x + attention{4 heads of 16, 2 of keys}(x))\n",
                              "  queries                  [4][16] ",
                              "  its key                  [2][16] ",
                              "  norm(x + output)         [64] ",
                              "  hidden, activated        [96] ",
                              " of 96 hidden units are above 0",
                              "  at the end "};
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++)
        if (!strstr(p.out, expected[i])) fail_msg("no '%s' in\n%s", expected[i], p.out);
    process_free(&p);
    char *path = fixture_path(directory, "layer.svg");
    p = RUN("run", model, "-i", TEXT, "--layer", "1", "--position", "3", "-o", path);
    assert_int_equal(p.status, 0);
    assert_string_equal(p.out, "");
    process_free(&p);
    size_t length;
    char *svg = file_read(path, &length);
    assert_non_null(strstr(svg, "<svg"));
    assert_non_null(strstr(svg, ">queries: heads by width<"));
    assert_string_equal(svg + length - 7, "</svg>\n");
    assert_true(room_above_heading(svg, "feed-forward") >= 30.0);
    free(svg);
    free(path);
    free(model);
    fixture_remove_directory(directory);
}

#define REFUSES(message, ...)                                                                      \
    do {                                                                                           \
        Process p = RUN("run", model, "-i", TEXT, __VA_ARGS__);                                    \
        assert_int_not_equal(p.status, 0);                                                         \
        assert_string_equal(p.err, "run: " message "\n");                                          \
        process_free(&p);                                                                          \
    } while (0)

static void places_that_are_not_there_are_named(void **state) {
    (void)state;
    char *directory = fixture_directory(), *model = small_model(directory, "tiny");
    REFUSES("--layer 2: the model has layers 0 to 1", "--layer", "2");
    REFUSES("--position 17: the text has tokens 0 to 15", "--layer", "1", "--position", "17");
    REFUSES("--position P is a token that --layer L looks at; --positions OUT draws the position "
            "code",
            "--position", "3");
    REFUSES("-o a.png: the name says the form of --layer: .svg, .json or .txt", "--layer", "1",
            "-o", "a.png");
    free(model);
    fixture_remove_directory(directory);
}

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(heads_follow_the_formula_of_attention),
        cmocka_unit_test(each_branch_adds_to_what_the_next_one_reads),
        cmocka_unit_test(the_view_is_the_same_on_any_threads_and_chunks),
        cmocka_unit_test(the_terminal_names_shapes_and_the_picture_is_whole),
        cmocka_unit_test(places_that_are_not_there_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
