/* The inspection features as a user sees them: attention, token scores, position pictures, --info,
 * overrides. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <jansson.h>

#include "base/address_sanitizer.h"
#include "layers/model_watch.h"
#include "modes/inspect/singular_values.h"
#include "process.h"
#include "tests/fixture.h"
#include "tests/tiny_model.h"

#define TEXT "Once upon a time there was a cat"

static char *scratch;

/* Generated models, one for each kind of attention. */
static const struct {
    const char *name, *shape;
} kinds[] = {
    {"inside-mha.bin", "tiny,n_heads=4,n_kv_heads=4"},
    {"inside-gqa.bin", "tiny,n_heads=4,n_kv_heads=2"},
    {"inside-mqa.bin", "tiny,n_heads=4,n_kv_heads=1"},
    {"inside-window.bin", "tiny,window=5"},
    {"inside-alibi.bin", "tiny,position=alibi"},
    {"inside-sinusoidal.bin", "tiny,position=sinusoidal,norm=layer"},
    {"inside-learned.bin", "tiny,position=learned"},
    {"inside-latent.bin",
     "tiny,latent_dim=24,latent_q_dim=40,head_dim=20,rotary_dim=8,value_dim=12"},
    {"inside-indexer.bin", "tiny,latent_dim=24,latent_q_dim=40,head_dim=20,rotary_dim=8,"
                           "value_dim=12,index_heads=3,index_dim=16,index_topk=5"},
    {"inside-experts.bin", "tiny,n_experts=4,n_experts_used=2,expert_ffn_dim=48"},
};
enum { KINDS = sizeof kinds / sizeof *kinds };
static char *models[KINDS];

static int make_models(void **state) {
    (void)state;
    scratch = build_path("tests/inside-scratch");
    for (size_t i = 0; i < KINDS; i++) {
        char name[64];
        snprintf(name, sizeof name, "tests/%s", kinds[i].name);
        models[i] = build_path(name);
        Process p = RUN("export", "--random", kinds[i].shape, models[i], "-q");
        if (p.status) print_message("%s", p.err);
        assert_int_equal(p.status, 0);
        process_free(&p);
    }
    return 0;
}

static int remove_models(void **state) {
    (void)state;
    for (size_t i = 0; i < KINDS; i++) {
        unlink(models[i]);
        free(models[i]);
    }
    free(scratch);
    return 0;
}

static void assert_done(const Process *p) {
    if (p->status) print_message("status %d: %s", p->status, p->err);
    assert_int_equal(p->status, 0);
}

/* Runs the program with --attention on the text and returns the JSON file that it writes. */
static json_t *attention_of(const char *model, const char *text) {
    char path[512];
    snprintf(path, sizeof path, "%s.json", scratch);
    Process p = RUN("run", model, "-i", text, "--attention", path);
    assert_done(&p);
    process_free(&p);
    json_error_t error;
    json_t *json = json_load_file(path, 0, &error);
    if (!json) fail_msg("line %d: %s", error.line, error.text);
    unlink(path);
    return json;
}

static double weight(const json_t *json, size_t layer, size_t head, size_t query, size_t key) {
    const json_t *layers = json_object_get(json, "layers");
    const json_t *heads = json_object_get(json_array_get(layers, layer), "heads");
    const json_t *map = json_object_get(json_array_get(heads, head), "weights");
    return json_number_value(json_array_get(json_array_get(map, query), key));
}

static void rows_add_up_to_one_and_see_no_future(void **state) {
    (void)state;
    for (size_t i = 0; i < KINDS; i++) {
        json_t *json = attention_of(models[i], TEXT);
        size_t n = json_array_size(json_object_get(json, "tokens"));
        size_t layers = (size_t)json_integer_value(json_object_get(json, "n_layers"));
        size_t heads = (size_t)json_integer_value(json_object_get(json, "n_heads"));
        size_t window = strstr(kinds[i].name, "window") ? 5 : n;
        assert_true(n > 8);
        assert_int_equal(layers, 2);
        assert_int_equal(heads, 4);
        for (size_t map = 0; map < layers * heads; map++)
            for (size_t q = 0; q < n; q++) {
                double sum = 0.0;
                size_t n_seen = 0;
                for (size_t k = 0; k < n; k++) {
                    double w = weight(json, map / heads, map % heads, q, k);
                    assert_true(w >= 0.0 && w <= 1.0 + 1e-6);
                    if (k > q || k + window <= q) assert_true(w == 0.0);
                    sum += w;
                    n_seen += w > 0.0;
                }
                assert_true(fabs(sum - 1.0) < 1e-5);
                if (strstr(kinds[i].name, "indexer")) assert_int_equal(n_seen, q < 5 ? q + 1 : 5);
            }
        json_decref(json);
    }
}

/* The report names the key/value head of every head, also when heads share one. */
static void grouped_heads_name_their_keys(void **state) {
    (void)state;
    static const int expected[3][4] = {{0, 1, 2, 3}, {0, 0, 1, 1}, {0, 0, 0, 0}};
    for (size_t i = 0; i < 3; i++) {
        json_t *json = attention_of(models[i], TEXT);
        const json_t *heads =
            json_object_get(json_array_get(json_object_get(json, "layers"), 0), "heads");
        for (size_t h = 0; h < 4; h++)
            assert_int_equal(
                json_integer_value(json_object_get(json_array_get(heads, h), "kv_head")),
                expected[i][h]);
        json_decref(json);
    }
}

static const json_t *head_of(const json_t *json, size_t layer, size_t head) {
    const json_t *layers = json_object_get(json, "layers");
    return json_array_get(json_object_get(json_array_get(layers, layer), "heads"), head);
}

/* The softmax of a row's scores is its weights; what is masked has no score. The variance of q . k
 * is that of the scores without the scale. */
static void the_softmax_of_the_scores_is_the_weights(void **state) {
    (void)state;
    for (size_t i = 0; i < KINDS; i++) {
        json_t *json = attention_of(models[i], TEXT);
        size_t n = json_array_size(json_object_get(json, "tokens"));
        const json_t *layer = json_array_get(json_object_get(json, "layers"), 1);
        double scale = json_number_value(json_object_get(layer, "scale"));
        const json_t *head = head_of(json, 1, 2);
        double sum = 0.0, squares = 0.0, n_seen = 0.0, gradient = 0.0;
        for (size_t q = 0; q < n; q++) {
            const json_t *row = json_array_get(json_object_get(head, "scores"), q);
            double max = -INFINITY, exps = 0.0;
            for (size_t k = 0; k < n; k++) {
                const json_t *score = json_array_get(row, k);
                assert_true(json_is_null(score) == (weight(json, 1, 2, q, k) == 0.0));
                if (json_is_null(score)) continue;
                double s = json_number_value(score);
                max = fmax(max, s);
                sum += s, squares += s * s, n_seen++;
            }
            for (size_t k = 0; k < n; k++)
                if (!json_is_null(json_array_get(row, k)))
                    exps += exp(json_number_value(json_array_get(row, k)) - max);
            for (size_t k = 0; k < n; k++) {
                if (json_is_null(json_array_get(row, k))) continue;
                double w = exp(json_number_value(json_array_get(row, k)) - max) / exps;
                assert_true(fabs(w - weight(json, 1, 2, q, k)) < 1e-5);
                gradient += w * (1.0 - w) / (double)n;
            }
        }
        double variance = squares / n_seen - sum / n_seen * (sum / n_seen);
        double told = json_number_value(json_object_get(head, "score_variance"));
        double products = json_number_value(json_object_get(head, "product_variance"));
        assert_true(fabs(variance / told - 1.0) < 1e-3);
        told = json_number_value(json_object_get(head, "gradient"));
        assert_true(fabs(gradient - told) < 1e-4);
        told = json_number_value(json_object_get(head, "score_variance"));
        if (!strstr(kinds[i].name, "alibi"))
            assert_true(fabs(products * scale * scale / told - 1.0) < 1e-3);
        json_decref(json);
    }
}

static void a_head_and_the_scores_of_all_can_be_read_in_the_terminal(void **state) {
    (void)state;
    Process p = RUN("run", models[1], "-i", TEXT, "--attention", "1.3");
    assert_done(&p);
    assert_non_null(strstr(p.out, "layer 1, head 3, which reads keys and values 1"));
    assert_non_null(strstr(p.out, "without the scale"));
    process_free(&p);
    p = RUN("run", models[1], "-i", TEXT, "--attention", "scores");
    assert_done(&p);
    assert_non_null(strstr(p.out, "q . k times 0.25 (1 / sqrt of a head's width of 16 is 0.25)"));
    process_free(&p);
    static const char *const wrong[][2] = {{"2.0", "layers 0 to 1"}, {"0.4", "heads 0 to 3"}};
    for (size_t i = 0; i < 2; i++) {
        p = RUN("run", models[1], "-i", TEXT, "--attention", wrong[i][0]);
        assert_int_equal(p.status, 1);
        assert_non_null(strstr(p.err, wrong[i][1]));
        process_free(&p);
    }
}

/* The picture of a long text holds images, and stays small. */
static void pictures_stripe_what_is_masked_and_stay_small(void **state) {
    (void)state;
    char path[512], text[1024] = "";
    snprintf(path, sizeof path, "%s.svg", scratch);
    for (size_t i = 0; i < 100; i++) strcat(text, i % 7 ? "a" : " b");
    const char *const texts[] = {TEXT, text};
    for (size_t i = 0; i < 2; i++) {
        Process p = RUN("run", models[1], "-i", texts[i], "--attention", path);
        assert_done(&p);
        process_free(&p);
        size_t length;
        char *file = file_read(path, &length);
        assert_true(length < 400000);
        assert_non_null(strstr(file, "url(#hatch)"));
        assert_non_null(strstr(file, "prefers-color-scheme:dark"));
        assert_non_null(strstr(file, ">keys 1<") ? file : strstr(file, "share keys and values 1"));
        assert_true((strstr(file, "image/png") != NULL) == (i == 1));
        free(file);
        unlink(path);
    }
}

/* A picture is a single well-formed XML element, and untrusted text in it is escaped. */
static void pictures_and_pages_escape_what_they_show(void **state) {
    (void)state;
    static const char *const ends[] = {".svg", ".html", ".json"};
    for (size_t i = 0; i < 3; i++) {
        char path[512];
        snprintf(path, sizeof path, "%s%s", scratch, ends[i]);
        Process p =
            RUN("run", models[1], "-i", "a</script><b>&\"\x01 \xC3\xA9", "--attention", path);
        assert_done(&p);
        process_free(&p);
        size_t length;
        char *file = file_read(path, &length);
        assert_true(length > 1000);
        assert_null(strstr(file, "a</script><b>"));
        assert_null(strchr(file, '\x01'));
        if (i == 0) {
            assert_true(strncmp(file, "<svg ", 5) == 0);
            assert_string_equal(file + length - 7, "</svg>\n");
            assert_non_null(strstr(file, "weight; each row adds up to 1"));
            assert_non_null(strstr(file, "head 3"));
        }
        if (i == 1) { /* colours as in the picture (attention_picture.c), thumbnails as large */
            assert_non_null(strstr(file, "root=n>40"));
            assert_non_null(strstr(file, "mix(one,root?Math.cbrt(x):x)"));
            assert_non_null(strstr(file, "c.style.width=c.style.height='120px'"));
        }
        free(file);
        unlink(path);
    }
    Process p = RUN("run", models[1], "-i", TEXT, "--attention", "-");
    assert_done(&p);
    assert_non_null(strstr(p.out, "layer 1, mean of 4 heads"));
    process_free(&p);
}

static void the_terminal_and_the_files_are_the_same_on_any_thread_count(void **state) {
    (void)state;
    Process one = RUN("run", models[1], "-i", TEXT, "--attention", "-", "-j1", "--chunk", "3");
    Process two = RUN("run", models[1], "-i", TEXT, "--attention", "-", "-j2");
    assert_done(&one);
    assert_string_equal(one.out, two.out);
    process_free(&one);
    process_free(&two);
}

/* Each token's score is its log-probability after the tokens before it; --eval's perplexity is made
 * from the sum of the scores. */
static void scores_are_the_chain_rule(void **state) {
    (void)state;
    char path[512];
    snprintf(path, sizeof path, "%s.txt", scratch);
    file_write(path, TEXT, strlen(TEXT));
    Process p = RUN("run", models[1], "-i", TEXT, "--score", "json");
    assert_done(&p);
    json_t *json = json_loads(p.out, 0, NULL);
    assert_non_null(json);
    const json_t *tokens = json_object_get(json, "tokens"), *token;
    size_t i;
    double sum = 0.0;
    json_array_foreach(tokens, i, token) {
        double logprob = json_number_value(json_object_get(token, "logprob"));
        const json_t *top = json_object_get(token, "top");
        json_int_t rank = json_integer_value(json_object_get(token, "rank"));
        assert_int_equal(json_array_size(top), 5);
        double best = json_number_value(json_object_get(json_array_get(top, 0), "logprob"));
        assert_true(logprob <= best && rank >= 1);
        if (rank <= 5)
            assert_int_equal(
                json_integer_value(json_object_get(json_array_get(top, (size_t)rank - 1), "id")),
                json_integer_value(json_object_get(token, "id")));
        sum += logprob;
    }
    assert_true(fabs(sum - json_number_value(json_object_get(json, "logprob"))) < 1e-6);
    double perplexity = json_number_value(json_object_get(json, "perplexity")), eval = 0.0;
    process_free(&p);
    p = RUN("run", models[1], "--eval", path);
    assert_done(&p);
    assert_int_equal(sscanf(strstr(p.out, "perplexity"), "perplexity %lf", &eval), 1);
    assert_true(fabs(eval / perplexity - 1.0) < 1e-4);
    process_free(&p);
    p = RUN("run", models[1], "-i", TEXT, "--score", "table");
    assert_done(&p);
    assert_non_null(strstr(p.out, "token; likeliest"));
    process_free(&p);
    json_decref(json);
    unlink(path);
}

static void without_a_cache_the_text_is_the_same(void **state) {
    (void)state;
    for (size_t i = 0; i < KINDS; i++) {
        Process with = RUN("run", models[i], "-i", TEXT, "-t", "0", "-n", "12");
        Process without = RUN("run", models[i], "-i", TEXT, "-t", "0", "-n", "12", "--no-cache");
        assert_done(&without);
        assert_string_equal(with.out, without.out);
        assert_non_null(strstr(without.err, "the same bits at each of"));
        process_free(&with);
        process_free(&without);
    }
}

/* ---- --trace --------------------------------------------------------------------------------- */

/* The trace lists all 300 tokens, so that each probability can be computed from the logits that it
 * prints, by the definitions in sampler.h. */
static void assert_choice_adds_up(const json_t *trace, const json_t *choice) {
    static const char *const steps[] = {"temperature", "top_k", "top_p", "min_p"};
    const json_t *rows = json_object_get(choice, "candidates");
    double temperature = json_number_value(json_object_get(trace, "temperature"));
    double draw = json_number_value(json_object_get(choice, "draw"));
    double min_p = json_number_value(json_object_get(trace, "min_p"));
    double top_p = json_number_value(json_object_get(trace, "top_p"));
    size_t n = json_array_size(rows), top_k, left = 0;
    top_k = (size_t)json_integer_value(json_object_get(trace, "top_k"));
    assert_int_equal(n, (size_t)json_integer_value(json_object_get(choice, "n_allowed")));
    double sum = 0.0, mass = 0.0, first = 0.0, sums[4] = {0}, parts = 0.0;
    for (size_t i = 0; i < n; i++) {
        double x = json_number_value(json_object_get(json_array_get(rows, i), "penalized"));
        if (i == 0) first = x;
        assert_true(x <= first);
        sum += exp((x - first) / temperature);
    }
    for (size_t i = 0; i < n; i++) {
        const json_t *row = json_array_get(rows, i), *from = json_object_get(row, "from");
        double x = json_number_value(json_object_get(row, "penalized"));
        double weight = exp((x - first) / temperature);
        double p = json_number_value(json_object_get(row, "temperature"));
        assert_true(fabs(p - weight / sum) < 1e-5);
        for (int s = 0; s < 4; s++) sums[s] += json_number_value(json_object_get(row, steps[s]));
        bool in_k = top_k == 0 || i < top_k;
        if (top_k > 0)
            assert_true((json_number_value(json_object_get(row, "top_k")) > 0.0) == in_k);
        if (min_p > 0.0 && weight < min_p * 0.9999) assert_null(from);
        if (!in_k) assert_null(from);
        if (!from) continue;
        double begin = json_number_value(from), end = json_number_value(json_object_get(row, "to"));
        bool chosen = json_integer_value(json_object_get(row, "id")) ==
                      json_integer_value(json_object_get(choice, "chosen"));
        assert_true(chosen == (begin <= draw && draw < end));
        assert_true(i == left++); /* every filter leaves the likeliest */
        parts += end - begin;
        mass += p;
    }
    assert_true(fabs(parts - 1.0) < 1e-9);
    for (int s = 0; s < 4; s++) assert_true(sums[s] == 0.0 || fabs(sums[s] - 1.0) < 1e-6);
    if (top_p < 1.0 && top_k == 0 && min_p == 0.0) assert_true(mass >= top_p - 1e-6);
}

/* Ids of the prompt, the begin token among them. */
static size_t prompt_ids(int32_t *ids, size_t most) {
    Process p = RUN("run", models[1], "-i", TEXT, "--tokenize", "--bos", "yes");
    assert_done(&p);
    size_t n = 0;
    char *at = p.out, *end;
    for (long id; n < most && (id = strtol(at, &end, 10), end != at); at = end)
        ids[n++] = (int32_t)id;
    process_free(&p);
    return n;
}

/* Logit bias, then the penalties in the order and by the formulas at the head of sampler.h, of the
 * numbers that the trace says, for the choice after `before` others. */
static void assert_penalties_follow(const json_t *trace, size_t before, int biased, double bias) {
    int32_t ids[128];
    const json_t *choices = json_object_get(trace, "choices");
    size_t n_prompt = prompt_ids(ids, 100), n = n_prompt;
    double repetition = json_number_value(json_object_get(trace, "repetition_penalty"));
    double presence = json_number_value(json_object_get(trace, "presence_penalty"));
    double frequency = json_number_value(json_object_get(trace, "frequency_penalty"));
    const json_t *rows = json_object_get(json_array_get(choices, before), "candidates"), *row;
    for (size_t i = 0; i < before; i++)
        ids[n++] =
            (int32_t)json_integer_value(json_object_get(json_array_get(choices, i), "chosen"));
    assert_int_equal(
        n, json_integer_value(json_object_get(json_array_get(choices, before), "position")));
    size_t i;
    json_array_foreach(rows, i, row) {
        int id = (int)json_integer_value(json_object_get(row, "id"));
        double x = json_number_value(json_object_get(row, "logit")), in_text = 0.0;
        bool seen = false;
        for (size_t k = 0; k < n; k++) {
            seen = seen || ids[k] == id;
            in_text += k >= n_prompt && ids[k] == id;
        }
        if (id == biased) x += bias;
        if (seen) x = x > 0.0 ? x / repetition : x * repetition;
        if (in_text > 0.0) x -= presence + frequency * in_text;
        double told = json_number_value(json_object_get(row, "penalized"));
        if (fabs(x - told) > 1e-4) fail_msg("token %d: %g, but the trace has %g", id, x, told);
    }
}

/* At temperature 0 the largest logit wins, of the first id where two are equal. */
static void assert_largest_wins(const json_t *choice) {
    const json_t *row, *rows = json_object_get(choice, "candidates"), *first;
    size_t i;
    first = json_array_get(rows, 0);
    assert_null(json_object_get(choice, "draw"));
    assert_int_equal(json_integer_value(json_object_get(first, "id")),
                     json_integer_value(json_object_get(choice, "chosen")));
    json_array_foreach(rows, i, row) {
        assert_true(json_number_value(json_object_get(row, "penalized")) <=
                    json_number_value(json_object_get(first, "penalized")));
    }
}

static void the_trace_is_of_the_text_that_is_written_without(void **state) {
    (void)state;
    static const char grammar[] = "root ::= [a-z]+ \" \" [a-z]+";
    static const char *const options[][8] = {
        {"-t", "0"},
        {"-t", "0", "--repetition-penalty", "1.8", "--logit-bias", "100=2"},
        {"-t", "1", "-p", "1", "--logit-bias", "100=-100"}, /* a ban */
        {"-t", "1", "-p", "1", "--ignore-eos"},
        {"-t", "1.5", "-p", "0.9", "--top-k", "30", "--grammar", grammar},
        {"-t", "1", "-p", "1"},
        {"-t", "0.7", "-p", "0.6"},
        {"-t", "1.3", "-p", "1", "--top-k", "20"},
        {"-t", "1.2", "-p", "0.9", "--min-p", "0.02"},
        {"-t", "1.5", "-p", "1", "--repetition-penalty", "1.4", "--presence-penalty", "0.5"},
        {"-t", "1", "-p", "1", "--frequency-penalty", "0.8", "--logit-bias", "100=4"},
        {"-t", "1", "-p", "0.8", "--top-k", "50", "--regex", "[a-z ]+"},
    };
    for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
        const char *plain[PROCESS_MAX_ARGUMENTS] = {"run", models[1], "-i", TEXT,
                                                    "-n",  "9",       "-s", "3"};
        const char *traced[PROCESS_MAX_ARGUMENTS];
        size_t n = 8;
        for (size_t k = 0; k < 8 && options[i][k]; k++) plain[n++] = options[i][k];
        memcpy(traced, plain, sizeof plain);
        traced[n] = "--trace", traced[n + 1] = "1000", traced[n + 2] = "--json";
        Process text = process_run(plain, NULL, 0), p = process_run(traced, NULL, 0);
        assert_done(&text);
        assert_done(&p);
        json_error_t error;
        json_t *trace = json_loads(p.out, JSON_ALLOW_NUL, &error);
        if (!trace) fail_msg("line %d: %s", error.line, error.text);
        const char *said = json_string_value(json_object_get(trace, "text"));
        if (strstr(options[i][6] ? options[i][6] : "", "--regex")) /* letters alone */
            assert_true(strncmp(said, text.out, text.out_length - 1) == 0);
        const json_t *choices = json_object_get(trace, "choices");
        assert_true(json_array_size(choices) > 0 && json_array_size(choices) <= 9);
        const char *bias = NULL; /* "100=X" */
        for (size_t k = 0; k + 1 < 8 && options[i][k]; k++)
            if (strcmp(options[i][k], "--logit-bias") == 0) bias = options[i][k + 1];
        for (size_t k = 0; k < json_array_size(choices); k++) {
            if (strcmp(options[i][1], "0") == 0)
                assert_largest_wins(json_array_get(choices, k));
            else
                assert_choice_adds_up(trace, json_array_get(choices, k));
            assert_penalties_follow(trace, k, bias ? 100 : -1,
                                    bias ? strtod(strchr(bias, '=') + 1, NULL) : 0.0);
        }
        process_free(&p);
        traced[n + 1] = "2", traced[n + 2] = NULL;
        p = process_run(traced, NULL, 0);
        assert_done(&p);
        assert_true(p.out_length > text.out_length);
        assert_string_equal(p.out + p.out_length - text.out_length, text.out);
        json_decref(trace);
        process_free(&p);
        process_free(&text);
    }
}

static void what_a_mode_would_not_use_is_refused(void **state) {
    (void)state;
    static const char *const wrong[][4] = {{"--score", "table", "-t", "0.5"},
                                           {"--score", "json", "-n", "5"},
                                           {"--attention", "1.0", "--top-k", "3"},
                                           {"--layer", "1", "--logit-bias", "3=1"},
                                           {"--layer", "1", "-p", "0.5"}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        Process p =
            RUN("run", models[1], "-i", TEXT, wrong[i][0], wrong[i][1], wrong[i][2], wrong[i][3]);
        PROCESS_SAYS(p, 2, "looks at the text of -i and generates none: no -");
    }
    Process p = RUN("run", models[1], "-i", TEXT, "--no-cache", "--top-k", "3");
    PROCESS_SAYS(p, 2, "--no-cache takes the likeliest token each time: no --top-k");
    p = RUN("run", models[1], "-i", TEXT, "--trace", "3", "--stats");
    PROCESS_SAYS(p, 2, "--trace N watches one text");
    p = RUN("run", models[1], "-i", TEXT, "--trace", "3", "-o", "a.png");
    PROCESS_SAYS(p, 2, "the name says the form of --trace: .json or .txt");
}

static void overrides_change_the_model_and_say_so(void **state) {
    (void)state;
    char path[512];
    snprintf(path, sizeof path, "%s.txt", scratch);
    file_write(path, TEXT, strlen(TEXT));
    static const char *const changes[] = {"attention_scale=1", "position=none", "rope_theta=500",
                                          "window=3", "activation=relu"};
    Process plain = RUN("run", models[1], "--eval", path);
    assert_done(&plain);
    assert_null(strstr(plain.out, "overridden"));
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        char name[64];
        snprintf(name, sizeof name, "%.*s = ", (int)strcspn(changes[i], "="), changes[i]);
        Process p = RUN("run", models[1], "--eval", path, "--override", changes[i]);
        assert_done(&p);
        assert_true(strncmp(plain.out, p.out, 60) != 0);
        assert_non_null(strstr(p.out, name));
        assert_non_null(strstr(p.err, name));
        assert_non_null(strstr(p.out, "attention entropy"));
        process_free(&p);
    }
    process_free(&plain);
    Process p = RUN("run", models[1], "--info", "--override", "attention_scale=1");
    assert_done(&p);
    assert_non_null(strstr(p.out, "overridden          attention_scale = 1 (the model's: 0.25)"));
    process_free(&p);
    static const char *const wrong[][2] = {{"dim=3", "FIELD is one of attention_scale"},
                                           {"position=rope", "'none'"},
                                           {"norm=soft", "one of rms, layer"},
                                           {"attention_scale=x", "a number"},
                                           {"n_experts_used=2", "the model has no experts"},
                                           {"activation=silu", "it changes nothing: the model has"},
                                           {"attention_scale=0.25", "changes nothing"},
                                           {"window=0", "changes nothing"},
                                           {"window=100000", "the model's context ends at"},
                                           {"index_topk=4", "no indexer"},
                                           {"query_scaling_floor=4", "does not scale its queries"},
                                           {"window=-1", "a whole number"}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        p = RUN("run", models[1], "-i", "a", "--override", wrong[i][0]);
        assert_int_equal(p.status, 2);
        if (!strstr(p.err, wrong[i][1])) fail_msg("'%s' lacks '%s'", p.err, wrong[i][1]);
        process_free(&p);
    }
    unlink(path);
}

/* Without scaling of the attention scores, attention is sharper: its entropy falls. */
static void sharper_scores_have_less_entropy(void **state) {
    (void)state;
    char path[512];
    double entropy[2];
    static const char *const scales[] = {"attention_scale=0.05", "attention_scale=2"};
    snprintf(path, sizeof path, "%s.txt", scratch);
    file_write(path, TEXT, strlen(TEXT));
    for (size_t i = 0; i < 2; i++) {
        Process p = RUN("run", models[0], "--eval", path, "--override", scales[i]);
        assert_done(&p);
        assert_int_equal(
            sscanf(strstr(p.out, "attention entropy"), "attention entropy %lf", &entropy[i]), 1);
        process_free(&p);
    }
    assert_true(entropy[1] < 0.7 * entropy[0]);
    unlink(path);
}

static void a_picture_of_changed_positions_says_so_and_shows_them(void **state) {
    (void)state;
    Process plain = RUN("run", models[0], "--positions", "-");
    Process p = RUN("run", models[0], "--positions", "-", "--override", "rope_theta=50");
    assert_done(&plain);
    assert_done(&p);
    assert_null(strstr(plain.out, "overridden"));
    const char *said = strstr(p.out, "rope_theta = 50"), *cells = strstr(p.out, "<rect");
    assert_non_null(said);
    assert_non_null(cells);
    /* The cells themselves differ, not the words alone. */
    const char *other = strstr(plain.out, "<rect");
    assert_non_null(other);
    assert_string_not_equal(cells, other);
    process_free(&plain);
    process_free(&p);
}

static void every_position_code_has_a_picture(void **state) {
    (void)state;
    static const struct {
        size_t model;
        const char *title;
    } cases[] = {{0, "Rotary positions"}, {4, "ALiBi"}, {5, "Sinusoidal"}, {6, "Learned"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char path[512];
        snprintf(path, sizeof path, "%s.svg", scratch);
        Process p = RUN("run", models[cases[i].model], "--positions", path);
        assert_done(&p);
        process_free(&p);
        size_t length;
        char *file = file_read(path, &length);
        assert_true(strncmp(file, "<svg ", 5) == 0);
        assert_non_null(strstr(file, cases[i].title));
        free(file);
        unlink(path);
    }
}

/* Where a picture's text stands, in pixels; a letter is taken as 0.55 of the size wide. */
typedef struct Box {
    double left, right, top, bottom;
    char text[24];
} Box;

/* The boxes of all texts that are not rotated. */
static size_t text_boxes(const char *svg, Box *boxes, size_t most) {
    size_t n = 0;
    for (const char *at = svg; (at = strstr(at, "<text ")); at++) {
        char style[16], anchor[16];
        double x, y;
        const char *begin = strchr(at, '>'), *end = strstr(at, "</text>");
        assert_true(begin && end && n < most);
        if (sscanf(at, "<text class=\"%15[a-z]\" text-anchor=\"%15[a-z]\" x=\"%lf\" y=\"%lf\"",
                   style, anchor, &x, &y) != 4)
            fail_msg("%.80s", at);
        if (strstr(at, "rotate(") && strstr(at, "rotate(") < begin) continue;
        double size = strcmp(style, "title") == 0 ? 15 : strcmp(style, "label") == 0 ? 11 : 9;
        double letters = 0;
        bool entity = false;
        for (const char *c = begin + 1; c < end; c++) {
            if (*c == '&') entity = true;
            if (!entity && ((unsigned char)*c & 0xC0) != 0x80) letters++;
            if (entity && *c == ';') entity = false, letters++;
        }
        double width = letters * size * 0.55;
        double left = strcmp(anchor, "end") == 0      ? x - width
                      : strcmp(anchor, "middle") == 0 ? x - width / 2
                                                      : x;
        boxes[n] = (Box){left, left + width, y - 0.8 * size, y + 0.2 * size, ""};
        snprintf(boxes[n++].text, sizeof boxes->text, "%.*s", (int)(end - begin - 1), begin + 1);
    }
    return n;
}

static void no_text_of_a_picture_of_positions_lies_on_another(void **state) {
    (void)state;
    enum { MOST = 400 };
    static const char *const overrides[] = {NULL, "rope_theta=50"};
    static const char *const drawn[] = {"models/stories.bin", "models/paper-mha.bin",
                                        "models/paper-alibi.bin", "models/paper-learned.bin"};
    Box *boxes = malloc(MOST * sizeof *boxes);
    assert_non_null(boxes);
    for (size_t m = 0; m < 5; m++) {
        /* The fifth picture is the first model's with an override, so it has a line about the
         * change. */
        const char *model = drawn[m % 4], *override = overrides[m / 4];
        Process p = override ? RUN("run", model, "--positions", "-", "--override", override)
                             : RUN("run", model, "--positions", "-");
        assert_done(&p);
        size_t n = text_boxes(p.out, boxes, MOST);
        assert_true(n > 10);
        for (size_t i = 0; i < n; i++)
            for (size_t k = 0; k < i; k++)
                if (boxes[i].left < boxes[k].right && boxes[k].left < boxes[i].right &&
                    boxes[i].top < boxes[k].bottom && boxes[k].top < boxes[i].bottom)
                    fail_msg("%s: '%s' lies on '%s'", model, boxes[i].text, boxes[k].text);
        process_free(&p);
    }
    free(boxes);
}

/* The table of numbers: a position further is a turn of every pair, whatever the position. The
 * picture shows every element of a vector. */
/* Singular values by hand: A^T A of {3 0, 4 5} has the eigenvalues 45 and 5; an outer product has
 * one value, the product of the sizes; and those of a turn by any angle are 1. */
static void singular_values_are_those_of_the_textbook(void **state) {
    (void)state;
    double square[] = {3, 0, 4, 5}, outer[9], turn[] = {0.6, -0.8, 0.8, 0.6}, zero[4] = {0};
    double values[3];
    singular_values(square, 2, 2, values);
    assert_true(fabs(values[0] - sqrt(45)) < 1e-12 && fabs(values[1] - sqrt(5)) < 1e-12);
    assert_int_equal(singular_values_holding(values, 2, 0.89), 1);
    assert_int_equal(singular_values_holding(values, 2, 0.91), 2);
    for (size_t i = 0; i < 9; i++) outer[i] = (double)(i / 3 + 1) * (double)(i % 3 + 2);
    singular_values(outer, 3, 3, values);
    assert_true(fabs(values[0] - sqrt(14.0 * 29.0)) < 1e-12 && values[1] < 1e-12);
    assert_int_equal(singular_values_holding(values, 3, 0.99), 1);
    singular_values(turn, 2, 2, values);
    assert_true(fabs(values[0] - 1.0) < 1e-12 && fabs(values[1] - 1.0) < 1e-12);
    singular_values(zero, 2, 2, values);
    assert_int_equal(singular_values_holding(values, 2, 0.9), 0);
}

/* The scores of a head are products of vectors of 4 numbers, so that 4 singular values hold all. */
static void ranks_of_scores_are_at_most_the_width_of_a_head(void **state) {
    (void)state;
    char *path = build_path("tests/inside-narrow.bin");
    Process p = RUN("export", "--random", "tiny,head_dim=4,position=none", path, "-q", "--force");
    assert_done(&p);
    process_free(&p);
    p = RUN("run", path, "-i", TEXT, "--attention", "ranks", "--override", "mask=none");
    assert_done(&p);
    size_t heads = 0;
    unsigned n[7];
    for (const char *line = p.out; (line = strchr(line, '\n')); line++) {
        if (sscanf(line + 1, "%u %u %u %u %u %u %u", n, n + 1, n + 2, n + 3, n + 4, n + 5, n + 6) !=
            7)
            continue;
        heads++;
        assert_true(n[3] <= n[4] && n[5] <= n[6] && n[6] <= 4 && n[4] <= 33);
    }
    assert_int_equal(heads, 8);
    process_free(&p);
    p = RUN("run", path, "-i", TEXT, "--attention", "ranks");
    assert_done(&p);
    assert_non_null(strstr(p.out, "        -        -\n"));
    process_free(&p);
    unlink(path);
    p = RUN("export", "--random", "tiny,n_layers=1,context=1024", path, "-q", "--force");
    process_free(&p);
    char *text = malloc(601);
    memset(text, 'a', 600);
    text[600] = '\0';
    p = RUN("run", path, "-i", text, "--attention", "ranks");
    PROCESS_SAYS(p, 1, "--attention ranks: the text has 601 tokens, and 512 are the most");
    free(text);
    unlink(path);
    free(path);
}

static void positions_are_told_as_numbers_and_whole(void **state) {
    (void)state;
    Process p = RUN("run", models[5], "--positions", "table");
    assert_done(&p);
    assert_non_null(strstr(p.out, "64 elements in 32 pairs of a sine and a cosine"));
    double similarity = 0.0, error = 1.0;
    assert_int_equal(sscanf(strstr(p.out, "\n       1  ") + 9, "%lf %lf", &similarity, &error), 2);
    double expected = 0.0;
    for (int i = 0; i < 32; i++) expected += cos(pow(10000.0, -i / 32.0)) / 32;
    assert_true(fabs(similarity - expected) < 1e-4 && error < 1e-4);
    /* The vectors of two positions differ by sqrt(sum of 2 - 2 cos(distance * frequency)). */
    const char *unique = strstr(p.out, "No two of the positions 0 to ");
    unsigned last = 0, apart = 0, nearest = 0;
    double differ = 0.0, least = INFINITY;
    assert_non_null(unique);
    assert_int_equal(sscanf(unique,
                            "No two of the positions 0 to %u have the same vector: the most alike, "
                            "%u apart, differ by %lf",
                            &last, &apart, &differ),
                     3);
    for (unsigned d = 1; d <= last; d++) {
        double squares = 0.0;
        for (int i = 0; i < 32; i++) squares += 2.0 - 2.0 * cos(d * pow(10000.0, -i / 32.0));
        if (sqrt(squares) < least) least = sqrt(squares), nearest = d;
    }
    assert_true(apart == nearest && fabs(differ - least) < 0.01);
    process_free(&p);
    p = RUN("run", models[4], "--positions", "table");
    assert_done(&p);
    assert_non_null(strstr(p.out, "a weight is halved every"));
    process_free(&p);
    char *wide = build_path("tests/inside-wide.bin");
    unlink(wide); /* of a run that failed */
    p = RUN("export", "--random",
            "dim=512,n_layers=1,n_heads=4,ffn_dim=16,vocab_size=300,"
            "context=200,position=sinusoidal",
            wide, "-q");
    assert_done(&p);
    process_free(&p);
    p = RUN("run", wide, "--positions", "-");
    assert_done(&p);
    assert_non_null(strstr(p.out, ">element of the vector<"));
    assert_null(strstr(p.out, "every 2"));
    assert_null(strstr(p.out, "the first 1"));
    assert_non_null(strstr(p.out, ">480<"));
    assert_non_null(strstr(p.out, "PE(p) . PE(q)"));
    process_free(&p);
    unlink(wide);
    free(wide);
}

/* The shape of TinyLlama: 32 heads on 4 key/value heads, 22 layers, head size 64, f16, 2,048
 * positions. */
static void info_tells_what_grouping_saves(void **state) {
    (void)state;
    char *path = build_path("tests/inside-cache.bin");
    unlink(path); /* of a run that failed */
    Process p = RUN("export", "--random",
                    "dim=64,head_dim=64,n_layers=22,n_heads=32,n_kv_heads=4,ffn_dim=16,"
                    "vocab_size=300,context=2048",
                    path, "-q", "--type", "q4");
    assert_done(&p);
    process_free(&p);
    p = RUN("run", path, "--info", "--kv-type", "f16");
    assert_done(&p);
    assert_non_null(strstr(p.out, "multi-head (32) 352.0 MiB, as it is (4) 44.0 MiB, "
                                  "multi-query (1) 11.0 MiB"));
    process_free(&p);
    p = RUN("run", models[1], "-i", TEXT, "-n", "2", "--stats");
    assert_done(&p);
    assert_non_null(strstr(p.err, " bytes a position that all layers see"));
    process_free(&p);
    unlink(path);
    free(path);
}

/* ---- Observing the model ---- */

typedef struct Watch {
    PassObserver observer;
    size_t n_rows, n_heads;
    double *sums; /* [layers][rows][heads] */
    size_t seen;
} Watch;

static void watch(PassObserver *observer, size_t layer, size_t row, size_t head, int32_t first,
                  float *weights, size_t n) {
    Watch *w = (Watch *)observer;
    double sum = 0.0;
    assert_true(first >= 0 && (size_t)first + n == row + 1);
    for (size_t i = 0; i < n; i++) sum += (double)weights[i];
    w->sums[(layer * w->n_rows + row) * w->n_heads + head] = sum;
#pragma omp atomic
    w->seen++;
}

/* Observing attention changes no bit of the logits. Only with attention sinks do the weights sum to
 * less than 1. */
static void watching_changes_no_bit_and_sinks_take_weight(void **state) {
    (void)state;
    static const char *const names[] = {"llama-gqa", "mistral-window", "bloom", "gemma2",
                                        "gpt_oss"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        Fixture f = fixture_load(names[i]);
        char *source = fixture_source(&f);
        TinyModel tiny = tiny_model_open(source, NULL, &(ModelOptions){.n_threads = 2}, KV_F32);
        fixture_remove_directory(source);
        const Config *c = modelfile_config(tiny.file);
        size_t n = (size_t)c->n_layers * f.n_ids * c->n_heads, below = 0;
        Watch w = {{.attended = watch}, f.n_ids, c->n_heads, calloc(n, sizeof(double)), 0};
        float *plain = tiny_model_run(&tiny, 0, 0, f.ids, f.n_ids, f.n_ids);
        model_add_observer(tiny.model, &w.observer);
        float *watched = tiny_model_run(&tiny, 0, 0, f.ids, f.n_ids, f.n_ids);
        assert_memory_equal(plain, watched, f.n_ids * f.vocab_size * sizeof *plain);
        assert_int_equal(w.seen, n);
        for (size_t k = 0; k < n; k++) {
            assert_true(w.sums[k] < 1.0 + 1e-5);
            below += w.sums[k] < 1.0 - 1e-5;
        }
        assert_int_equal(below > n / 2, strcmp(names[i], "gpt_oss") == 0);
        if (strcmp(names[i], "gpt_oss") != 0) assert_int_equal(below, 0);
        free(plain);
        free(watched);
        free(w.sums);
        tiny_model_close(&tiny);
        fixture_free(&f);
    }
}

/* An observer that counts its calls. */
typedef struct Counter {
    PassObserver observer;
    size_t parts, products;
    double seconds;
} Counter;

static int count_part(PassObserver *observer, int most, size_t n_rows, double work, double done) {
    (void)n_rows, (void)work, (void)done;
    ((Counter *)observer)->parts++;
    return most;
}

static void count_products(PassObserver *observer, const ProductSet *sets, size_t n_sets) {
    (void)sets, (void)n_sets;
    ((Counter *)observer)->products++;
}

static void count_seconds(PassObserver *observer, ModelPart part, double seconds) {
    (void)part;
    ((Counter *)observer)->seconds += seconds;
}

/* Observers with different functions and with the same ones are all called until they are removed,
 * in any order. */
static void several_observers_see_a_pass_at_once(void **state) {
    (void)state;
    Fixture f = fixture_load("llama-gqa");
    char *source = fixture_source(&f);
    TinyModel tiny = tiny_model_open(source, NULL, &(ModelOptions){.n_threads = 1}, KV_F32);
    fixture_remove_directory(source);
    Counter parts = {.observer = {.part_begins = count_part, .part_work = 0.0}};
    Counter all = {.observer = {.part_begins = count_part,
                                .part_work = INFINITY,
                                .multiplied = count_products}};
    Counter clock = {.observer = {.timed = count_seconds, .multiplied = count_products}};
    const size_t n_layers = modelfile_config(tiny.file)->n_layers;
    float *plain = tiny_model_run(&tiny, 0, 0, f.ids, f.n_ids, f.n_ids);
    model_add_observer(tiny.model, &all.observer);
    model_add_observer(tiny.model, &parts.observer);
    model_add_observer(tiny.model, &clock.observer);
    model_add_observer(tiny.model, &all.observer); /* it moves to the end */
    float *watched = tiny_model_run(&tiny, 0, 0, f.ids, f.n_ids, f.n_ids);
    assert_memory_equal(plain, watched, f.n_ids * f.vocab_size * sizeof *plain);
    assert_int_equal(parts.parts, n_layers); /* the smaller part_work counts */
    assert_int_equal(all.parts, n_layers);
    assert_true(all.products > 0 && clock.products == all.products && clock.seconds > 0.0);
    const size_t products = all.products;
    model_remove_observer(tiny.model, &parts.observer);
    model_remove_observer(tiny.model, &parts.observer);
    free(tiny_model_run(&tiny, 0, 0, f.ids, f.n_ids, f.n_ids));
    assert_int_equal(parts.parts, n_layers);
    assert_int_equal(all.parts, n_layers + 1);
    assert_true(all.products == 2 * products && clock.products == 2 * products);
    model_remove_observer(tiny.model, &all.observer);
    model_remove_observer(tiny.model, &clock.observer);
    free(tiny_model_run(&tiny, 0, 0, f.ids, f.n_ids, f.n_ids));
    assert_true(all.products == 2 * products && clock.products == 2 * products);
    free(plain);
    free(watched);
    tiny_model_close(&tiny);
    fixture_free(&f);
}

/* Returns how many KiB of the mapping of `path` are resident in this process. */
static size_t touched(const char *path) {
    char line[1024];
    size_t total = 0, now;
    bool inside = false;
    FILE *f = fopen("/proc/self/smaps", "r");
    if (!f) return 0;
    while (fgets(line, sizeof line, f)) {
        if (strchr(line, '-') && strchr(line, '/')) inside = strstr(line, path) != NULL;
        if (inside && sscanf(line, "Rss: %zu kB", &now) == 1) total += now;
    }
    fclose(f);
    return total;
}

/* A token reads only the weights of the experts that it is routed to, and a text only the experts
 * that its tokens are routed to. This lets a mapped file larger than memory run. */
static void only_the_chosen_experts_are_read(void **state) {
    (void)state;
#if ADDRESS_SANITIZER /* folios of 10 MiB are mapped at opening beside the sanitizer */
    enum { FFN = 2048 };
#else
    enum { FFN = 1024 };
#endif
    enum { LAYERS = 4, DIM = 256, EXPERTS = 8 };
    char *path = build_path("tests/inside-large.bin"), shape[160];
    snprintf(shape, sizeof shape,
             "dim=256,n_layers=4,n_heads=4,ffn_dim=16,vocab_size=300,context=64,n_experts=%d,"
             "n_experts_used=2,expert_ffn_dim=%d",
             EXPERTS, FFN);
    unlink(path); /* of a run that failed */
    Process p = RUN("export", "--random", shape, path, "-q");
    assert_done(&p);
    process_free(&p);
    TinyModel tiny = tiny_model_map(path, &(ModelOptions){.n_threads = 1}, KV_F32);
    double one = 3.0 * DIM * FFN * 4 / 1024, all = one * LAYERS * EXPERTS;
    const int32_t ids[] = {65, 66, 67, 68};
    size_t before = touched("inside-large.bin");
    if (!before && !touched("inside-large.bin")) print_message("nothing of the file at opening\n");
    float *logits = tiny_model_run(&tiny, 0, 0, ids, 1, 1);
    size_t after = touched("inside-large.bin");
    free(logits);
    logits = tiny_model_run(&tiny, 0, 0, ids, 1, 1);
    print_message("experts %.0f KiB, active %.0f KiB; opening touched %zu KiB, a token %zu KiB\n",
                  all, one * LAYERS * 2, before, after);
    /* Weights outside the experts take less than 6 MiB here. Around a touched page the kernel also
     * maps cached neighbours: 64 KiB, or a whole folio, which can have 10 MiB and more. */
    assert_true((double)before < all / 4);
    if (after) assert_true((double)after < (double)before + one * LAYERS * 2 * 1.5 + 6144);
    /* Repeating the token touches nothing more, except for pages that the kernel maps along. */
    assert_true((double)touched("inside-large.bin") < (double)after + one / 4);
    free(logits);
    tiny_model_close(&tiny);
    unlink(path);
    free(path);
}

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_add_up_to_one_and_see_no_future),
        cmocka_unit_test(grouped_heads_name_their_keys),
        cmocka_unit_test(the_softmax_of_the_scores_is_the_weights),
        cmocka_unit_test(a_head_and_the_scores_of_all_can_be_read_in_the_terminal),
        cmocka_unit_test(pictures_stripe_what_is_masked_and_stay_small),
        cmocka_unit_test(pictures_and_pages_escape_what_they_show),
        cmocka_unit_test(the_terminal_and_the_files_are_the_same_on_any_thread_count),
        cmocka_unit_test(scores_are_the_chain_rule),
        cmocka_unit_test(without_a_cache_the_text_is_the_same),
        cmocka_unit_test(the_trace_is_of_the_text_that_is_written_without),
        cmocka_unit_test(what_a_mode_would_not_use_is_refused),
        cmocka_unit_test(overrides_change_the_model_and_say_so),
        cmocka_unit_test(sharper_scores_have_less_entropy),
        cmocka_unit_test(a_picture_of_changed_positions_says_so_and_shows_them),
        cmocka_unit_test(every_position_code_has_a_picture),
        cmocka_unit_test(no_text_of_a_picture_of_positions_lies_on_another),
        cmocka_unit_test(singular_values_are_those_of_the_textbook),
        cmocka_unit_test(ranks_of_scores_are_at_most_the_width_of_a_head),
        cmocka_unit_test(positions_are_told_as_numbers_and_whole),
        cmocka_unit_test(info_tells_what_grouping_saves),
        cmocka_unit_test(watching_changes_no_bit_and_sinks_take_weight),
        cmocka_unit_test(several_observers_see_a_pass_at_once),
        cmocka_unit_test(only_the_chosen_experts_are_read),
    };
    return cmocka_run_group_tests(tests, make_models, remove_models);
}
