/* Embeddings and ranking: as sentence-transformers computes them, the same in whatever batch, in
 * every form of request, and refused by name where a model or a request does not allow them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/text.h"
#include "fixture.h"
#include "gguf_fixture.h"
#include "process.h"

static const char *const names[] = {"qwen3-last",     "mistral-last", "llama-mean", "qwen2-cls",
                                    "llama-weighted", "llama-max",    "qwen3-sqrt"};
enum { MODELS = sizeof names / sizeof *names };

/* ---- Models ---- */

static json_t *load(const char *name) {
    char path[128];
    snprintf(path, sizeof path, "tests/fixtures/embeddings/%s.json", name);
    json_t *json = json_load_file(path, 0, NULL);
    assert_non_null(json);
    return json;
}

static void write_json(const char *directory, const char *name, const json_t *json) {
    char *path = fixture_path(directory, name);
    assert_int_equal(json_dump_file(json, path, JSON_ENCODE_ANY), 0);
    free(path);
}

/* Gives some marks the names that `renamed` has for them. Those that are words are not special. */
static void rename_marks(json_t *tokenizer, const json_t *renamed) {
    json_t *token;
    size_t i;
    json_array_foreach(json_object_get(tokenizer, "added_tokens"), i, token) {
        const char *name = json_string_value(json_object_get(token, "content"));
        json_t *other = json_object_get(renamed, name);
        if (other) json_object_set(token, "content", other);
        name = json_string_value(json_object_get(token, "content"));
        bool is_word = strcmp(name, "yes") == 0 || strcmp(name, "no") == 0 ||
                       strcmp(name, "<think>") == 0 || strcmp(name, "</think>") == 0;
        json_object_set_new(token, "special", json_boolean(!is_word));
    }
}

/* The directory of the fixture's model; remove_source deletes it. */
static char *new_source(json_t *fixture) {
    const Fixture f = {.json = fixture};
    char *directory = fixture_source(&f), *pooling = fixture_path(directory, "1_Pooling");
    json_t *files = json_object_get(fixture, "files"), *value;
    json_t *tokenizer = json_load_file("tests/fixtures/marks_tokenizer.json", 0, NULL);
    const char *name;
    assert_int_equal(mkdir(pooling, 0700), 0);
    free(pooling);
    json_object_foreach(files, name, value) {
        if (strcmp(name, "post_processor") != 0) write_json(directory, name, value);
    }
    if (files)
        json_object_set(tokenizer, "post_processor", json_object_get(files, "post_processor"));
    if (json_object_get(fixture, "renamed"))
        rename_marks(tokenizer, json_object_get(fixture, "renamed"));
    write_json(directory, "tokenizer.json", tokenizer);
    json_decref(tokenizer);
    return directory;
}

static void remove_source(char *directory) {
    char *file = fixture_path(directory, "1_Pooling/config.json");
    char *pooling = fixture_path(directory, "1_Pooling");
    unlink(file);
    rmdir(pooling);
    free(file);
    free(pooling);
    fixture_remove_directory(directory);
}

/* Converts the fixture's model, as float32, and returns its path. */
static char *new_model(json_t *fixture) {
    char *directory = new_source(fixture), *path = build_path("tests/embeddings.bin");
    Process p = RUN("export", directory, path, "-f", "-t", "f32", "-q");
    if (p.status != 0) print_message("%s", p.err);
    assert_int_equal(p.status, 0);
    process_free(&p);
    remove_source(directory);
    return path;
}

static void remove_model(char *path) {
    unlink(path);
    free(path);
}

static Process batch(const char *model, const char *lines, const char *const *more) {
    const char *argv[24] = {"run", model, "--batch", "-", "--ordered"};
    size_t n = 5;
    for (; more && *more; more++) argv[n++] = *more;
    return process_run(argv, lines, strlen(lines));
}

/* The lines of the output, parsed. */
static json_t *results(const Process *p) {
    json_t *list = json_array();
    for (char *line = p->out; *line;) {
        char *end = strchr(line, '\n');
        json_t *json = json_loadb(line, (size_t)(end - line), 0, NULL);
        assert_non_null(json);
        json_array_append_new(list, json);
        line = end + 1;
    }
    return list;
}

/* ---- What sentence-transformers computes ---- */

static double number_at(const json_t *list, size_t i) {
    return json_number_value(json_array_get(list, i));
}

/* 1 - the cosine of both vectors. */
static double distance(const json_t *a, const json_t *b) {
    size_t n = json_array_size(a);
    double both = 0, of_a = 0, of_b = 0;
    assert_int_equal(json_array_size(b), n);
    for (size_t i = 0; i < n; i++) {
        both += number_at(a, i) * number_at(b, i);
        of_a += number_at(a, i) * number_at(a, i);
        of_b += number_at(b, i) * number_at(b, i);
    }
    return 1.0 - both / sqrt(of_a * of_b);
}

static void check_vector(const json_t *wanted, const json_t *got) {
    const json_t *expected = json_object_get(wanted, "embedding");
    const json_t *embedding = json_object_get(got, "embedding");
    double far = fabs(distance(expected, embedding));
    if (!(far < 1e-9))
        print_message("'%s': %g\n", json_string_value(json_object_get(wanted, "text")), far);
    assert_true(far < 1e-9);
    /* sentence-transformers does not normalize again what it has cut. */
    bool cut = json_is_integer(json_object_get(wanted, "dimensions"));
    for (size_t i = 0; !cut && i < json_array_size(expected); i++)
        assert_true(fabs(number_at(expected, i) - number_at(embedding, i)) < 1e-4);
}

static void check_model(const char *name) {
    json_t *fixture = load(name), *texts = json_object_get(fixture, "texts"), *text;
    char *model = new_model(fixture), lines[8192] = "";
    size_t i;
    json_array_foreach(texts, i, text) {
        json_t *request =
            json_pack("{s:O, s:O, s:O, s:b}", "input", json_object_get(text, "text"), "prompt_name",
                      json_object_get(text, "prompt_name"), "dimensions",
                      json_object_get(text, "dimensions"), "truncate", 1);
        char *line = json_dumps(request, 0);
        strcat(strcat(lines, line), "\n");
        free(line);
        json_decref(request);
    }
    Process p = batch(model, lines, NULL);
    if (p.status != 0) print_message("%s: %s%s", name, p.out, p.err);
    assert_int_equal(p.status, 0);
    json_t *list = results(&p);
    assert_int_equal(json_array_size(list), json_array_size(texts));
    json_array_foreach(texts, i, text) {
        check_vector(text, json_array_get(list, i));
    }
    json_decref(list);
    process_free(&p);
    remove_model(model);
    json_decref(fixture);
}

static void embeddings_are_those_of_sentence_transformers(void **state) {
    (void)state;
    for (size_t i = 0; i < MODELS; i++) check_model(names[i]);
}

/* ---- The same in whatever batch ---- */

/* Texts of many lengths, some of them with a common beginning. */
static char *many_texts(void) {
    TextBuffer text = {0};
    for (int i = 0; i < 40; i++) {
        if (i % 3 == 0)
            text_put(&text, "A beginning that several texts have, long enough: ", 50, 0);
        for (int k = 0; k < (i * 7) % 60; k++) text_put(&text, &"abcdefg "[(i + k) % 8], 1, 0);
        text_put(&text, i == 17 ? "\n" : "z\n", i == 17 ? 1 : 2, 0);
    }
    text_put(&text, "", 1, 0);
    return text.bytes;
}

static void embeddings_have_the_same_bits_in_any_batch(void **state) {
    (void)state;
    static const char *const ways[][6] = {{"-j", "1", "--max-concurrent", "1"},
                                          {"-j", "2", "--chunk", "7"},
                                          {"-j", "1", "--chunk", "1"},
                                          {"-j", "2", "--max-concurrent", "40"},
                                          {"--isa", "reference"}};
    json_t *fixture = load("llama-mean");
    char *model = new_model(fixture), *texts = many_texts(), *first = NULL;
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        const char *argv[16] = {"run", model, "--embed", "-", "--embed-truncate"};
        for (size_t k = 0; ways[i][k]; k++) argv[5 + k] = ways[i][k];
        Process p = process_run(argv, texts, strlen(texts));
        assert_int_equal(p.status, 0);
        if (first) assert_string_equal(p.out, first);
        if (!first) first = strdup(p.out);
        process_free(&p);
    }
    json_t *one = json_loadb(first, strcspn(first, "\n"), 0, NULL);
    assert_int_equal(json_integer_value(json_object_get(one, "line")), 1);
    json_decref(one);
    free(first);
    free(texts);
    remove_model(model);
    json_decref(fixture);
}

/* A model with an output head does both in one run. */
static void texts_and_embeddings_do_not_disturb_each_other(void **state) {
    (void)state;
    static const char *const pooling[] = {"--pooling", "mean", "-n", "12", "-t", "0", NULL};
    static const char alone[][160] = {
        "{\"id\": 1, \"prompt\": \"one\"}\n{\"id\": 3, \"prompt\": \"three and more\"}\n",
        "{\"id\": 2, \"input\": \"two\"}\n{\"id\": 4, \"input\": [\"four\", \"five\"]}\n"};
    static const char both[] = "{\"id\": 1, \"prompt\": \"one\"}\n{\"id\": 2, \"input\": \"two\"}\n"
                               "{\"id\": 3, \"prompt\": \"three and more\"}\n{\"id\": 4, "
                               "\"input\": [\"four\", \"five\"]}\n";
    char *model = build_path("tests/embeddings.bin");
    Process made = RUN("export", "--random", "tiny", model, "-q", "-f");
    assert_int_equal(made.status, 0);
    process_free(&made);
    Process p = batch(model, both, pooling);
    Process q[] = {batch(model, alone[0], pooling), batch(model, alone[1], pooling)};
    json_t *mixed = results(&p);
    assert_int_equal(json_array_size(mixed), 4);
    for (size_t i = 0; i < 2; i++) {
        json_t *own = results(&q[i]);
        assert_true(json_equal(json_array_get(own, 0), json_array_get(mixed, i)));
        assert_true(json_equal(json_array_get(own, 1), json_array_get(mixed, i + 2)));
        json_decref(own);
        process_free(&q[i]);
    }
    json_decref(mixed);
    process_free(&p);
    remove_model(model);
}

/* ---- Forms of requests ---- */

static void openai_requests_get_lists_or_base64(void **state) {
    (void)state;
    static const char lines[] =
        "{\"custom_id\": \"a\", \"method\": \"POST\", \"url\": \"/v1/embeddings\", \"body\": "
        "{\"model\": \"m\", \"input\": [\"one\", \"two\"], \"dimensions\": 2}}\n"
        "{\"custom_id\": \"b\", \"method\": \"POST\", \"url\": \"/v1/embeddings\", \"body\": "
        "{\"model\": \"m\", \"input\": [[111, 110, 101, 257]], \"encoding_format\": \"base64\", "
        "\"dimensions\": 2}}\n";
    json_t *fixture = load("qwen3-last");
    char *model = new_model(fixture);
    Process p = batch(model, lines, NULL);
    assert_int_equal(p.status, 0);
    json_t *list = results(&p), *body[2];
    for (size_t i = 0; i < 2; i++)
        body[i] = json_object_get(json_object_get(json_array_get(list, i), "response"), "body");
    json_t *data = json_object_get(body[0], "data"), *vector;
    assert_string_equal(json_string_value(json_object_get(body[0], "object")), "list");
    assert_string_equal(json_string_value(json_object_get(body[0], "model")), "m");
    assert_int_equal(json_array_size(data), 2);
    vector = json_object_get(json_array_get(data, 0), "embedding");
    assert_int_equal(json_array_size(vector), 2);
    assert_true(fabs(hypot(number_at(vector, 0), number_at(vector, 1)) - 1.0) < 1e-6);
    /* Two float32 values are eight bytes: twelve digits. */
    data = json_object_get(body[1], "data");
    assert_int_equal(json_string_length(json_object_get(json_array_get(data, 0), "embedding")), 12);
    json_decref(list);
    process_free(&p);
    remove_model(model);
    json_decref(fixture);
}

/* The scores come from the code on Qwen3-Reranker's model card, the most relevant first. */
static void documents_are_ranked_as_the_reference_does(void **state) {
    (void)state;
    json_t *fixture = load("qwen3-rerank"), *scores = json_object_get(fixture, "scores"), *item;
    char *model = new_model(fixture), lines[4096];
    json_t *request = json_pack("{s:O, s:O, s:O}", "query", json_object_get(fixture, "query"),
                                "instruction", json_object_get(fixture, "instruction"), "documents",
                                json_object_get(fixture, "documents"));
    char *plain = json_dumps(request, 0);
    json_object_set_new(request, "top_n", json_integer(2));
    json_object_set_new(request, "return_documents", json_false());
    char *top = json_dumps(request, 0);
    snprintf(lines, sizeof lines,
             "%s\n{\"custom_id\": \"r\", \"method\": \"POST\", \"url\": \"/v1/rerank\", \"body\": "
             "%s}\n",
             plain, top);
    Process p = batch(model, lines, NULL);
    if (p.status != 0) print_message("%s%s", p.out, p.err);
    assert_int_equal(p.status, 0);
    json_t *list = results(&p), *ranked = json_object_get(json_array_get(list, 0), "results");
    double last = 1.0;
    size_t i;
    assert_int_equal(json_array_size(ranked), json_array_size(scores));
    json_array_foreach(ranked, i, item) {
        size_t index = (size_t)json_integer_value(json_object_get(item, "index"));
        double score = json_number_value(json_object_get(item, "relevance_score"));
        assert_true(fabs(score - number_at(scores, index)) < 1e-5);
        assert_true(score <= last);
        last = score;
        assert_string_equal(
            json_string_value(json_object_get(json_object_get(item, "document"), "text")),
            json_string_value(json_array_get(json_object_get(fixture, "documents"), index)));
    }
    json_t *body = json_object_get(json_object_get(json_array_get(list, 1), "response"), "body");
    json_t *best = json_object_get(body, "results");
    assert_int_equal(json_array_size(best), 2);
    json_array_foreach(best, i, item) {
        assert_null(json_object_get(item, "document"));
        assert_true(json_equal(json_object_get(item, "relevance_score"),
                               json_object_get(json_array_get(ranked, i), "relevance_score")));
    }
    free(plain);
    free(top);
    json_decref(request);
    json_decref(list);
    process_free(&p);
    remove_model(model);
    json_decref(fixture);
}

static void assert_says(const Process *p, int status, const char *what) {
    bool says = strstr(p->out, what) || strstr(p->err, what);
    if (p->status != status || !says) print_message("%d: %s%s", p->status, p->out, p->err);
    assert_int_equal(p->status, status);
    assert_true(says);
}

static void what_cannot_be_done_is_refused_by_name(void **state) {
    (void)state;
    static const struct {
        const char *line, *says;
    } cases[] = {
        {"{\"input\": \"a\", \"dimensions\": 49}", "49 dimensions are asked for"},
        {"{\"input\": \"a\", \"prompt_name\": \"doc\"}", "no prompt 'doc'; it has query, document"},
        {"{\"input\": \"a\", \"dimesions\": 4}", "did you mean 'dimensions'"},
        {"{\"input\": [1, 2, 289]}", "element 3 is not a token id"},
        {"{\"input\": []}", "'input' must be"},
        {"{\"prompt\": \"a\"}", "without an output head"},
        {"{\"query\": \"a\", \"documents\": [\"b\"]}", "without an output head"},
        {"{\"query\": \"a\", \"documents\": [1]}", "'documents' must be a list of texts"},
        {"{\"documents\": [\"a\"]}", "there is no 'query'"},
        {"{\"query\": \"a\", \"docs\": [\"b\"]}", "texts are ranked by 'query' and 'documents'"},
        {"{\"custom_id\": \"x\", \"method\": \"POST\", \"url\": \"/v1/rerank\", \"body\": "
         "{\"query\": \"a\", \"docs\": [\"b\"]}}",
         "the field 'docs' is not supported; did you mean 'documents'?"},
    };
    json_t *fixture = load("qwen3-last");
    char *model = new_model(fixture), *core = build_path("core/run"), line[700];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Process p = batch(model, cases[i].line, NULL);
        assert_says(&p, 3, cases[i].says);
        process_free(&p);
    }
    snprintf(line, sizeof line, "%0600d\n", 1);
    Process p[] = {
        RUN("run", model, "-i", "a"), RUN("run", model, "--score", "table"),
        RUN(core, model, "-i", "a"),
        process_run((const char *const[]){"run", model, "--embed", "-", NULL}, line, 601)};
    for (size_t i = 0; i < 3; i++) assert_says(&p[i], 1, "without an output head");
    assert_says(&p[3], 3, "601 tokens long, but the model takes 512; --embed-truncate, ");
    for (size_t i = 0; i < 4; i++) process_free(&p[i]);
    free(core);
    remove_model(model);
    json_decref(fixture);
}

/* A receipt of a batch holds digests of the vectors: another vector is told. */
static void a_receipt_tells_another_embedding(void **state) {
    (void)state;
    static const char line[] = "{\"id\": 1, \"input\": [\"one\", \"two\"]}\n";
    static const char key[] = "\"result_sha256\": \"";
    json_t *fixture = load("qwen3-last");
    char *model = new_model(fixture), *receipt = build_path("tests/embeddings.receipt");
    unlink(receipt);
    Process p = batch(model, line, (const char *const[]){"--receipt", receipt, NULL});
    if (p.status != 0) print_message("%s%s", p.out, p.err);
    assert_int_equal(p.status, 0);
    Process same = RUN("run", model, "--replay", receipt);
    if (same.status != 0) print_message("%s%s", same.out, same.err);
    assert_int_equal(same.status, 0);
    size_t length;
    char *text = file_read(receipt, &length), *digest = strstr(text, key);
    assert_non_null(digest);
    digest[strlen(key)] = digest[strlen(key)] == '0' ? '1' : '0';
    file_write(receipt, text, length);
    Process other = RUN("run", model, "--replay", receipt);
    assert_int_equal(other.status, 3);
    Process *const all[] = {&p, &same, &other};
    for (size_t i = 0; i < 3; i++) process_free(all[i]);
    free(text);
    remove_model(receipt);
    remove_model(model);
    json_decref(fixture);
}

static void models_that_pool_otherwise_are_refused_by_name(void **state) {
    (void)state;
    static const struct {
        const char *file, *key, *value, *says;
    } cases[] = {
        {"config.json", "is_causal", "false", "in both directions"},
        {"config.json", "architectures", "[\"Qwen3BidirectionalModel\"]",
         "Qwen3BidirectionalModel"},
        {"1_Pooling/config.json", "pooling_mode_mean_tokens", "true", "more than one way"},
        {"1_Pooling/config.json", "pooling_mode", "\"attention\"", "pooling_mode 'attention'"},
        {"1_Pooling/config.json", "word_embedding_dimension", "32", "states of 32 elements"},
        {"1_Pooling/config.json", "heads", "2", "'heads' is not known"},
        {"sentence_bert_config.json", "do_lower_case", "true", "do_lower_case"},
        {"config_sentence_transformers.json", "default_prompt_name", "\"x\"",
         "none of the prompts"},
        {"modules.json", "type", "\"sentence_transformers.models.Dense\"", "module 'Dense'"},
    };
    json_t *fixture = load("qwen3-last");
    char *directory = new_source(fixture), *bin = build_path("tests/embeddings.bin");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        bool is_config = strcmp(cases[i].file, "config.json") == 0;
        json_t *whole = is_config
                            ? json_object_get(fixture, "config")
                            : json_object_get(json_object_get(fixture, "files"), cases[i].file);
        json_t *changed = json_deep_copy(whole);
        json_t *at = json_is_array(changed) ? json_array_get(changed, 2) : changed;
        json_object_set_new(at, cases[i].key, json_loads(cases[i].value, JSON_DECODE_ANY, NULL));
        write_json(directory, cases[i].file, changed);
        Process p = RUN("export", directory, bin, "-f", "-q");
        assert_says(&p, 1, cases[i].says);
        process_free(&p);
        write_json(directory, cases[i].file, whole);
        json_decref(changed);
    }
    remove_source(directory);
    remove_model(bin);
    json_decref(fixture);
}

/* Prose has empty lines; without BOS they have no token. */
static void empty_lines_without_a_token_are_skipped_and_counted(void **state) {
    (void)state;
    static const char text[] = "one\n\ntwo\n\n";
    char *bin = build_path("tests/embeddings.bin");
    unlink(bin);
    const char *const bare[] = {"run", "models/stories.bin", "--embed", "-", NULL};
    Process p = process_run(bare, text, strlen(text));
    assert_says(&p, 1,
                "run models/stories.bin --embed - --pooling last (or mean, cls); "
                "./export SOURCE model.bin --pooling last says it once");
    process_free(&p);
    p = RUN("export", "models/stories.bin", bin, "-q", "-f", "--pooling", "mean");
    assert_int_equal(p.status, 0);
    process_free(&p);
    const char *const argv[] = {"run", bin, "--embed", "-", "--bos", "no", NULL};
    p = process_run(argv, text, strlen(text));
    assert_says(&p, 0, "2 empty lines skipped");
    assert_says(&p, 0, "\"line\": 3,");
    assert_null(strstr(p.out, "\"line\": 2,"));
    process_free(&p);
    remove_model(bin);
}

/* A tokenizer without a limit has a number of 31 digits in its tokenizer_config.json. */
static void tokenizers_may_be_without_a_limit(void **state) {
    (void)state;
    json_t *fixture = load("qwen3-last");
    char *directory = new_source(fixture), *bin = build_path("tests/embeddings.bin");
    char *file = fixture_path(directory, "tokenizer_config.json");
    static const char text[] = "{\"model_max_length\": 1000000000000000019884624838656}";
    file_write(file, text, strlen(text));
    Process p = RUN("export", directory, bin, "-f", "-q");
    if (p.status != 0) print_message("%s", p.err);
    assert_int_equal(p.status, 0);
    process_free(&p);
    free(file);
    remove_source(directory);
    remove_model(bin);
    json_decref(fixture);
}

/* ---- GGUF ---- */

static void set_key(json_t *keys, const char *key, const char *type, json_t *value) {
    json_array_append_new(keys, json_pack("[s, s, o]", key, type, value));
}

/* Writes the model with this pooling_type, and without an output matrix if `headless`. */
static void write_gguf(const char *path, int pooling, bool headless) {
    json_t *gguf = gguf_fixture_load("qwen3-gqa"), *keys = json_object_get(gguf, "keys");
    set_key(keys, "qwen3.pooling_type", "uint32", json_integer(pooling));
    if (headless) json_object_del(json_object_get(gguf, "tensors"), "output.weight");
    gguf_fixture_write(gguf, path, STORED_F32, false);
    json_decref(gguf);
}

static void gguf_says_how_to_pool(void **state) {
    (void)state;
    static const char ids[] = "{\"input\": [1, 2, 3, 4]}\n";
    static const char *const ways[] = {"mean", "cls", "last"};
    static const struct {
        int pooling;
        const char *says;
    } refused[] = {{4, "a head that ranks is not supported"}, {9, "pooling_type 9 is not known"}};
    static const char words[] =
        "{\"model\": {\"type\": \"WordLevel\", \"vocab\": {\"a\": 0, \"b\": 1}, "
        "\"unk_token\": \"a\"}}";
    char *path = build_path("tests/embeddings.gguf"), *model = build_path("tests/embeddings.bin");
    char *tokenizer = build_path("tests/embeddings.json");
    file_write(tokenizer, words, strlen(words));
    for (int pooling = 0; pooling <= 3; pooling++) {
        write_gguf(path, pooling, pooling == 3);
        Process made = RUN("export", path, model, "-f", "-t", "f32", "-q", "-z", tokenizer);
        if (made.status != 0) print_message("%s", made.err);
        assert_int_equal(made.status, 0);
        Process p = batch(model, ids, NULL);
        if (pooling == 0) {
            assert_says(&p, 3, "are pooled: --pooling last (or mean, cls) with --batch says it");
        } else {
            const char *const same[] = {"--pooling", ways[pooling - 1], NULL};
            Process q = batch(model, ids, same);
            json_t *own = results(&p), *given = results(&q);
            assert_true(json_equal(json_object_get(json_array_get(own, 0), "embedding"),
                                   json_object_get(json_array_get(given, 0), "embedding")));
            json_decref(own);
            json_decref(given);
            process_free(&q);
        }
        Process text = RUN("run", model, "-i", "a", "-n", "1");
        assert_int_equal(strstr(text.err, "without an output head") != NULL, pooling == 3);
        process_free(&text);
        process_free(&p);
        process_free(&made);
    }
    for (size_t i = 0; i < 2; i++) {
        write_gguf(path, refused[i].pooling, false);
        Process p = RUN("export", path, model, "-f", "-q");
        assert_says(&p, 1, refused[i].says);
        process_free(&p);
    }
    remove_model(path);
    remove_model(model);
    remove_model(tokenizer);
}

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(embeddings_are_those_of_sentence_transformers),
        cmocka_unit_test(embeddings_have_the_same_bits_in_any_batch),
        cmocka_unit_test(texts_and_embeddings_do_not_disturb_each_other),
        cmocka_unit_test(openai_requests_get_lists_or_base64),
        cmocka_unit_test(documents_are_ranked_as_the_reference_does),
        cmocka_unit_test(gguf_says_how_to_pool),
        cmocka_unit_test(what_cannot_be_done_is_refused_by_name),
        cmocka_unit_test(a_receipt_tells_another_embedding),
        cmocka_unit_test(models_that_pool_otherwise_are_refused_by_name),
        cmocka_unit_test(empty_lines_without_a_token_are_skipped_and_counted),
        cmocka_unit_test(tokenizers_may_be_without_a_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
