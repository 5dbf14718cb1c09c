/* `run MODEL --layer L --position P` shows what one layer makes of one position. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "tests/fixture.h"
#include "tests/process.h"
#include "tests/small_model.h"
#include "tests/tier.h"
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

/* Multiplies out the vectors that --json gives. */
static void assert_heads_follow_the_formula(const char *shape) {
    char *directory = fixture_directory();
    char *model = small_model(directory, shape);
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
        double total = 0.0, slope = json_number_value(json_object_get(head, "slope"));
        assert_true((slope > 0.0) == (strstr(shape, "alibi") != NULL));
        assert_int_equal(json_array_size(weights), 10);
        for (size_t p = 0; p < 10; p++) {
            const json_t *key = json_array_get(json_object_get(kv, "keys"), p);
            double product = 0.0;
            for (size_t i = 0; i < 16; i++) product += at(query, i) * at(key, i);
            double score = product * scale - slope * (double)(9 - p);
            if (p >= 5) assert_true(fabs(score - at(scores, p)) < 1e-4);
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

static void heads_follow_the_formula_of_attention(void **state) {
    (void)state;
    assert_heads_follow_the_formula("tiny,window=5");
    assert_heads_follow_the_formula("tiny,window=5,position=alibi");
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
                              "  queries, turned          [4][16] ",
                              "  its key, turned          [2][16] ",
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

/* ---- The printed formula --------------------------------------------------------------------- */

/* The formula above the table of heads, as a reader takes it from the text. */
typedef struct Formula {
    double scale, cap; /* cap 0: scores are not capped */
    double slopes[16], sinks[16];
    bool has_slopes, has_sinks;
    size_t window; /* 0: none */
} Formula;

/* Reads the numbers of a line "  NAME of heads 0, 1, ...: x, y, z"; false: there is none. */
static bool read_by_head(const char *text, const char *name, double *out) {
    char begin[64];
    snprintf(begin, sizeof begin, "\n  %s of heads 0, 1, ...:", name);
    const char *at = strstr(text, begin);
    if (!at) return false;
    char *end = (char *)at + strlen(begin);
    for (size_t i = 0; i < 16; i++) {
        out[i] = strtod(end, &end);
        if (*end != ',') break;
        end++;
    }
    return true;
}

static Formula formula_of(const char *text) {
    Formula f = {0};
    const char *at = strstr(text, "\n  score = ");
    assert_non_null(at);
    const char *product = strstr(at, "q . k"), *times = " times ";
    assert_non_null(product);
    if (sscanf(at, "\n  score = %lf * tanh(", &f.cap) != 1) assert_ptr_equal(product, at + 11);
    product += strlen("q . k");
    f.scale = strncmp(product, times, strlen(times)) == 0 ? strtod(product + strlen(times), NULL)
                                                          : 1.0; /* nothing is said of it */
    f.has_slopes = read_by_head(text, "slopes", f.slopes);
    f.has_sinks = read_by_head(text, "sinks", f.sinks);
    bool slope_is_said = strstr(at, " - slope of the head * distance; weight");
    assert_true(slope_is_said == f.has_slopes);
    assert_true((strstr(at, "softmax of the scores and the head's sink") != NULL) == f.has_sinks);
    const char *window = strstr(at, ", of the last ");
    if (window) f.window = strtoul(window + 14, NULL, 10);
    return f;
}

/* The scores and weights of one head, as they are printed. */
typedef struct HeadRows {
    double scores[64], weights[64];
    size_t n;
} HeadRows;

/* The weights are the softmax of the scores and, where there is one, the sink. */
static void assert_softmax(const char *model, const HeadRows *rows, const double *sink) {
    double largest = sink ? *sink : -INFINITY, sum;
    for (size_t i = 0; i < rows->n; i++) largest = fmax(largest, rows->scores[i]);
    sum = sink ? exp(*sink - largest) : 0.0;
    for (size_t i = 0; i < rows->n; i++) sum += exp(rows->scores[i] - largest);
    for (size_t i = 0; i < rows->n; i++) {
        double weight = exp(rows->scores[i] - largest) / sum;
        if (!(fabs(weight - rows->weights[i]) < 2e-3))
            fail_msg("%s: a score of %g makes a weight of %g, not %g", model, rows->scores[i],
                     weight, rows->weights[i]);
    }
}

/* Computes each score and weight that `shown`, the output of --layer, prints from the printed
 * q . k, and compares. The text has at most as many tokens as a head shows keys, 3, so that a
 * softmax is all there. Returns how many rows there are. */
static size_t check_formula(const char *model, const char *shown, const Formula *f) {
    size_t n_rows = 0, position, head = 0;
    HeadRows rows = {.n = 0};
    assert_int_equal(sscanf(strstr(shown, " at position "), " at position %zu", &position), 1);
    const char *line = strstr(shown, "  head keys ");
    assert_non_null(line);
    while ((line = strchr(line, '\n')) && line[1] == ' ' && rows.n < 64) {
        line++;
        /* The columns from |k| on stand after the token's name, at the end of the line. */
        const char *end = strchr(line, '\n');
        double key_size, product, score, weight, value_size;
        size_t key;
        assert_int_equal(sscanf(end - 47, "%lf %lf %lf %lf %lf", &key_size, &product, &score,
                                &weight, &value_size),
                         5);
        if (line[5] != ' ') { /* the next head: that above is whole */
            assert_softmax(model, &rows, f->has_sinks ? &f->sinks[head] : NULL);
            rows.n = 0;
            head = strtoul(line, NULL, 10);
        }
        assert_int_equal(sscanf(line + 29, "%zu", &key), 1);
        double made = product * f->scale;
        if (f->cap > 0.0) made = f->cap * tanh(made / f->cap);
        if (f->has_slopes) made -= f->slopes[head] * (double)(position - key);
        if (!(fabs(made - score) <= 2e-3 + 1e-5 * fabs(score)))
            fail_msg("%s: q . k %g gives %g, not %g:\n%s", model, product, made, score, shown);
        if (f->window) assert_true(position - key < f->window);
        rows.scores[rows.n] = score, rows.weights[rows.n++] = weight;
        n_rows++;
    }
    assert_softmax(model, &rows, f->has_sinks ? &f->sinks[head] : NULL);
    return n_rows;
}

static void assert_formula_holds(const char *model, const char *text, const char *layer,
                                 const char *const *options, const Formula *expected) {
    const char *arguments[PROCESS_MAX_ARGUMENTS] = {"run", model, "-i", text, "--layer", layer};
    size_t n = 6;
    for (size_t i = 0; options[i]; i++) arguments[n++] = options[i];
    Process p = process_run(arguments, NULL, 0);
    if (p.status) fail_msg("%s", p.err);
    const Formula f = formula_of(p.out);
    assert_true(f.has_slopes == expected->has_slopes && f.has_sinks == expected->has_sinks);
    assert_true(f.cap == expected->cap && f.window == expected->window);
    assert_true(check_formula(model, p.out, &f) >= 4);
    process_free(&p);
}

/* The formula is what core/attention_segment.c computes (finish_scores, segment_finish). */
static void the_printed_formula_gives_the_printed_scores_and_weights(void **state) {
    (void)state;
    static const char *const plain[] = {NULL},
                             *const cap[] = {"--override", "attention_softcap=2", NULL},
                             *const near[] = {"--override", "attention_softcap=0.5", "--override",
                                              "window=2", NULL};
    static const struct {
        const char *shape;
        const char *const *options;
        Formula expected;
    } kinds[] = {
        {"tiny", plain, {.cap = 0.0}},
        {"tiny,position=alibi", plain, {.has_slopes = true}},
        {"tiny,position=none", cap, {.cap = 2.0}},
        {"tiny,position=alibi", cap, {.cap = 2.0, .has_slopes = true}},
        {"tiny,position=alibi", near, {.cap = 0.5, .has_slopes = true, .window = 2}},
        {"tiny,window=2", plain, {.window = 2}},
    };
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        char *directory = fixture_directory(), *model = small_model(directory, kinds[i].shape);
        assert_formula_holds(model, "a", "1", kinds[i].options, &kinds[i].expected);
        free(model);
        fixture_remove_directory(directory);
    }
}

/* ---- The turn of RoPE ------------------------------------------------------------------------ */

/* One row of the table: a pair of the query and of the key, its product, and that of all pairs. */
typedef struct TurnRow {
    double q[2], k[2], product, whole;
} TurnRow;

static TurnRow turn_row(const char *table, const char *name) {
    TurnRow r;
    const char *at = strstr(table, name);
    assert_non_null(at);
    assert_int_equal(sscanf(at + strlen(name), "%lf %lf %lf %lf %lf %lf", &r.q[0], &r.q[1], &r.k[0],
                            &r.k[1], &r.product, &r.whole),
                     6);
    return r;
}

static void assert_turned(const double from[2], const double to[2], double angle, double factor) {
    double x = from[0] * cos(angle) - from[1] * sin(angle);
    double y = from[1] * cos(angle) + from[0] * sin(angle);
    assert_true(fabs(x * factor - to[0]) < 5e-3 && fabs(y * factor - to[1]) < 5e-3);
}

/* The vectors are those of --json, which are turned; the formula is RoFormer's (arXiv:2104.09864,
 * equation 34): a pair at position p is turned by p times its frequency. */
static void rope_is_taken_back_and_moved_on_as_its_formula_says(void **state) {
    (void)state;
    static const struct {
        const char *shape;
        size_t distance; /* of a pair's elements */
        double factor;
    } cases[] = {{"tiny", 8, 1.0},
                 {"tiny,rope_pairing=interleaved", 1, 1.0},
                 {"tiny,rotary_dim=8", 4, 1.0},
                 {"tiny,rope_attention_factor=1.5", 8, 1.5}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *directory = fixture_directory(), *model = small_model(directory, cases[i].shape);
        Process p =
            RUN("run", model, "-i", TEXT, "--layer", "1", "--position", "9", "--kv-type", "f32");
        const char *table = strstr(p.out, "  RoPE turns elements ");
        assert_non_null(table);
        size_t first, second, query, key;
        double frequency;
        assert_int_equal(sscanf(table, "  RoPE turns elements %zu and %zu of a head by %lf rad a",
                                &first, &second, &frequency),
                         3);
        assert_int_equal(second - first, cases[i].distance);
        assert_int_equal(
            sscanf(strstr(table, "query of"), "query of token %zu key of token %zu", &query, &key),
            2);
        assert_true(query == 9 && key < 9);
        const TurnRow before = turn_row(table, "\n  before ");
        const TurnRow met = turn_row(table, "\n  turned, as they meet ");
        const TurnRow later = turn_row(table, "\n  both 100 positions later ");
        assert_turned(before.q, met.q, 9.0 * frequency, cases[i].factor);
        assert_turned(before.k, met.k, (double)key * frequency, cases[i].factor);
        assert_turned(met.q, later.q, 100.0 * frequency, 1.0);
        assert_turned(met.k, later.k, 100.0 * frequency, 1.0);
        assert_true(fabs(met.whole - later.whole) < 2e-3);
        assert_true(fabs(met.whole - before.whole) > 1e-2);
        assert_true(fabs(met.product - met.q[0] * met.k[0] - met.q[1] * met.k[1]) < 2e-2);
        json_t *view = view_of(model, "1", "9", "1", "512"), *attention = branch(view, 0);
        const json_t *head = json_array_get(json_object_get(attention, "heads"), 0);
        const json_t *keys =
            json_object_get(json_array_get(json_object_get(attention, "kv_heads"), 0), "keys");
        const json_t *q = json_object_get(head, "query"), *k = json_array_get(keys, key);
        assert_true(fabs(at(q, first) - met.q[0]) < 1e-3 && fabs(at(q, second) - met.q[1]) < 1e-3);
        assert_true(fabs(at(k, first) - met.k[0]) < 1e-3 && fabs(at(k, second) - met.k[1]) < 1e-3);
        json_decref(view);
        process_free(&p);
        free(model);
        fixture_remove_directory(directory);
    }
    char *directory = fixture_directory(), *model = small_model(directory, "tiny,position=alibi");
    Process p = RUN("run", model, "-i", TEXT, "--layer", "1");
    assert_null(strstr(p.out, "RoPE"));
    assert_non_null(strstr(p.out, "\n  queries      "));
    process_free(&p);
    free(model);
    fixture_remove_directory(directory);
}

/* A tokenizer.json. */
static const char letters[] = "{\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0, \"b\": 1, "
                              "\"c\": 2}, \"merges\": []}}";

/* GPT-OSS: a sink of each head, and windows in every second layer. */
static void sinks_are_part_of_the_printed_formula(void **state) {
    (void)state;
    static const char *const options[] = {NULL};
    Fixture f = fixture_load("gpt_oss");
    char *source = fixture_source(&f), *path = fixture_path(source, "tokenizer.json");
    file_write(path, letters, sizeof letters - 1);
    assert_formula_holds(source, "abc", "0", options, &(Formula){.has_sinks = true, .window = 9});
    assert_formula_holds(source, "abc", "1", options, &(Formula){.has_sinks = true});
    free(path);
    fixture_remove_directory(source);
    fixture_free(&f);
}

/* Layers that attend in other ways print no formula, but their heads neither. */
static void the_printed_formula_holds_in_every_fixture(void **state) {
    (void)state;
    char **names = fixture_names();
    size_t checked = 0, fixtures = 0;
    for (size_t i = 0; names[i]; i++) {
        if (!tier_takes(i, 24, 4)) continue;
        Fixture f = fixture_load(names[i]);
        char *source = fixture_source(&f), *path = fixture_path(source, "tokenizer.json");
        file_write(path, letters, sizeof letters - 1);
        for (char layer[] = "0"; layer[0] < '4'; layer[0]++) {
            Process p = RUN("run", source, "-i", "abc", "--layer", layer, "--cache-dir", "none",
                            "--kv-type", "f32");
            bool has_heads = p.status == 0 && strstr(p.out, "\n  head keys ");
            if (p.status != 0 && !strstr(p.err, "the model has layers"))
                print_message("%s, layer %s: %s", names[i], layer, p.err);
            assert_true(!has_heads || strstr(p.out, "\n  score = "));
            if (has_heads) {
                const Formula formula = formula_of(p.out);
                size_t rows = check_formula(names[i], p.out, &formula);
                assert_true(rows >= 1);
                checked++;
            }
            bool last = p.status != 0;
            process_free(&p);
            if (last) break;
        }
        fixtures++;
        free(path);
        fixture_remove_directory(source);
        fixture_free(&f);
    }
    print_message("%zu layers of %zu fixtures\n", checked, fixtures);
    for (size_t i = 0; names[i]; i++) free(names[i]);
    free(names);
    assert_true(checked >= fixtures);
}

/* What --attention says of layers of other kinds: ZAYA's attend as others do. */
static void layers_without_maps_say_why(void **state) {
    (void)state;
    static const char *const says[][2] = {
        {"zaya", "layer 0, mean of "},
        {"doge", "layer 0 attends to positions that it chooses, which is not shown"},
        {"inkling", "layer 0 attends with a bias of distances, which is not shown"},
        {"qwen3_next", "layer 0 keeps a state and does not attend"}};
    for (size_t i = 0; i < sizeof says / sizeof *says; i++) {
        Fixture f = fixture_load(says[i][0]);
        char *source = fixture_source(&f), *path = fixture_path(source, "tokenizer.json");
        file_write(path, letters, sizeof letters - 1);
        Process p = RUN("run", source, "-i", "abc", "--attention", "-", "--cache-dir", "none");
        assert_int_equal(p.status, 0);
        if (!strstr(p.out, says[i][1])) fail_msg("%s", p.out);
        process_free(&p);
        free(path);
        fixture_remove_directory(source);
        fixture_free(&f);
    }
}

/* Its layers attend with a bias of distances, some with more heads than the model's n_heads says:
 * their weights were written behind the maps. */
static void layers_with_heads_beyond_the_maps_are_left_out(void **state) {
    (void)state;
    Fixture f = fixture_load("inkling2_loop-block");
    char *source = fixture_source(&f), *path = fixture_path(source, "tokenizer.json");
    file_write(path, letters, sizeof letters - 1);
    static const char *const looks[][2] = {
        {"--layer", "0"}, {"--layer", "5"}, {"--attention", "-"}, {"--attention", "scores"}};
    for (size_t i = 0; i < sizeof looks / sizeof *looks; i++) {
        Process p =
            RUN("run", source, "-i", "abcabc", looks[i][0], looks[i][1], "--cache-dir", "none");
        if (p.status) fail_msg("%s %s: %s", looks[i][0], looks[i][1], p.err);
        process_free(&p);
    }
    free(path);
    fixture_remove_directory(source);
    fixture_free(&f);
}

/* A cache that rounds is named, because its scores and sums do not follow from the numbers
 * shown. */
static void the_formula_names_a_cache_that_rounds(void **state) {
    (void)state;
    char *directory = fixture_directory(), *model = small_model(directory, "tiny");
    static const char *const types[][2] = {
        {"f32", NULL}, {"bf16", "the cache is bf16"}, {"q8", "the cache is q8"}};
    static const char *const looks[][2] = {
        {"--layer", "1"}, {"--attention", "1.0"}, {"--attention", "scores"}};
    for (size_t i = 0; i < 3; i++)
        for (size_t k = 0; k < 3; k++) {
            Process p =
                RUN("run", model, "-i", TEXT, looks[k][0], looks[k][1], "--kv-type", types[i][0]);
            assert_int_equal(p.status, 0);
            assert_true((strstr(p.out, "the cache is") != NULL) == (i > 0));
            if (i > 0) assert_non_null(strstr(p.out, types[i][1]));
            process_free(&p);
        }
    free(model);
    fixture_remove_directory(directory);
}

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(heads_follow_the_formula_of_attention),
        cmocka_unit_test(the_printed_formula_gives_the_printed_scores_and_weights),
        cmocka_unit_test(rope_is_taken_back_and_moved_on_as_its_formula_says),
        cmocka_unit_test(sinks_are_part_of_the_printed_formula),
        cmocka_unit_test(the_printed_formula_holds_in_every_fixture),
        cmocka_unit_test(layers_without_maps_say_why),
        cmocka_unit_test(layers_with_heads_beyond_the_maps_are_left_out),
        cmocka_unit_test(the_formula_names_a_cache_that_rounds),
        cmocka_unit_test(each_branch_adds_to_what_the_next_one_reads),
        cmocka_unit_test(the_view_is_the_same_on_any_threads_and_chunks),
        cmocka_unit_test(the_terminal_names_shapes_and_the_picture_is_whole),
        cmocka_unit_test(places_that_are_not_there_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
