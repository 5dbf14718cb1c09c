/* Models that people wrote themselves (own_transformer): what they compute, their vocabularies, and
 * what is refused. The state dicts were saved by PyTorch (tests/fixtures/own_models.py). */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>
#include <jansson.h>

#include "process.h"
#include "tests/tiny_model.h"

#define OWN "tests/fixtures/own/"

/* The logits equal PyTorch's modules', to the rounding of float32. */
static void the_logits_are_those_of_their_authors(void **state) {
    (void)state;
    static const char *const names[] = {"torch",     "torch_first", "nanogpt", "lecture",
                                        "annotated", "universal",   "modules"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char path[256];
        int32_t ids[16];
        snprintf(path, sizeof path, OWN "%s/logits.json", names[i]);
        json_t *json = json_load_file(path, 0, NULL);
        assert_non_null(json);
        size_t n = json_array_size(json_object_get(json, "ids"));
        assert_int_equal(n, 12);
        for (size_t k = 0; k < n; k++)
            ids[k] = (int32_t)json_integer_value(json_array_get(json_object_get(json, "ids"), k));
        snprintf(path, sizeof path, OWN "%s", names[i]);
        TinyModel tiny = tiny_model_open(path, NULL, &(ModelOptions){.n_threads = 1}, KV_F32);
        float *logits = tiny_model_run(&tiny, 0, 0, ids, n, n);
        double worst = 0.0;
        for (size_t k = 0; k < n * tiny.vocab_size; k++) {
            const json_t *row =
                json_array_get(json_object_get(json, "logits"), k / tiny.vocab_size);
            double expected = json_number_value(json_array_get(row, k % tiny.vocab_size));
            worst = fmax(worst, fabs((double)logits[k] - expected));
        }
        if (worst > 3e-5) fail_msg("%s: off by %g", names[i], worst);
        free(logits);
        tiny_model_close(&tiny);
        json_decref(json);
    }
}

static char *exported(const char *name) {
    char source[256];
    char *path = build_path("tests/own.bin");
    snprintf(source, sizeof source, OWN "%s", name);
    Process p = RUN("export", source, path, "-q", "-f");
    if (p.status) print_message("%s", p.err);
    assert_int_equal(p.status, 0);
    process_free(&p);
    return path;
}

static void vocabularies_are_characters_words_or_ids(void **state) {
    (void)state;
    static const struct {
        const char *name, *text, *ids;
    } cases[] = {{"nanogpt", "hello a!", "8 7 9 9 10 1 3 2\n"},
                 {"torch", "a  cat\nran home", "0 2 6 4\n"},
                 {"lecture", "11 0 7", "11 0 7\n"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *model = exported(cases[i].name);
        Process p = RUN("run", model, "-i", cases[i].text, "--tokenize");
        if (p.status) print_message("%s: %s", cases[i].name, p.err);
        assert_int_equal(p.status, 0);
        assert_string_equal(p.out, cases[i].ids);
        process_free(&p);
        p = RUN("run", model, "-i", cases[i].text, "--score", "table");
        assert_int_equal(p.status, 0);
        process_free(&p);
        p = RUN("run", model, "-i", cases[i].text, "-n", "4", "-t", "0", "--echo", "--ignore-eos");
        assert_int_equal(p.status, 0);
        assert_true(strncmp(p.out, cases[i].text, strlen(cases[i].text)) == 0);
        process_free(&p);
        p = RUN("run", model, "-i", "\xE2\x82\xAC", "--tokenize");
        PROCESS_SAYS(p, 1, "the word '\xE2\x82\xAC' is not in the vocabulary");
        unlink(model);
        free(model);
    }
}

/* One set of weights for six layers makes a file of one layer. */
static void layers_that_share_weights_share_their_bytes(void **state) {
    (void)state;
    char *model = exported("universal");
    struct stat info;
    assert_int_equal(stat(model, &info), 0);
    Process p = RUN("run", model, "--info");
    assert_non_null(strstr(p.out, "n_layers            6"));
    process_free(&p);
    p = RUN("run", model, "--verify");
    assert_int_equal(p.status, 0);
    process_free(&p);
    unlink(model);
    free(model);
}

/* Groups of layers make smaller files. That such layers compute the right thing is
 * the_logits_are_those_of_their_authors's `universal`. */
static void generated_layers_may_share_weights(void **state) {
    (void)state;
    char *one = build_path("tests/own-one.bin"), *shared = build_path("tests/own-shared.bin");
    char *groups = build_path("tests/own-groups.bin");
    static const char shape[] = "tiny,n_layers=6,window=5,window_pattern=2,weight_groups=";
    const char *const paths[] = {one, shared, groups};
    off_t bytes[3];
    for (size_t i = 0; i < 3; i++) {
        char settings[128];
        struct stat info;
        snprintf(settings, sizeof settings, "%s%zu", shape, i ? 2 * i - 1 : 6);
        Process p = RUN("export", "--random", settings, paths[i], "-q", "-f");
        if (p.status) print_message("%s", p.err);
        assert_int_equal(p.status, 0);
        process_free(&p);
        assert_int_equal(stat(paths[i], &info), 0);
        bytes[i] = info.st_size;
    }
    assert_true(bytes[1] < bytes[2] && bytes[2] < bytes[0]);
    Process all = RUN("run", one, "-i", "a b c", "-t", "0", "-n", "8");
    Process few = RUN("run", shared, "-i", "a b c", "-t", "0", "-n", "8");
    assert_int_equal(few.status, 0);
    assert_string_not_equal(all.out, few.out);
    process_free(&all);
    process_free(&few);
    Process p = RUN("export", "--random", "tiny,n_layers=6,weight_groups=4", one, "-q", "-f");
    PROCESS_SAYS(p, 1, "6 layers cannot share the weights of 4");
    for (size_t i = 0; i < 3; i++) unlink(paths[i]);
    free(one);
    free(shared);
    free(groups);
}

/* Converts a copy of a fixture with another config.json; returns the message. */
static char *refusal(const char *name, const char *config) {
    char file[512], *directory = build_path("tests/own-directory");
    size_t length;
    mkdir(directory, 0700);
    snprintf(file, sizeof file, OWN "%s/model.safetensors", name);
    char *weights = file_read(file, &length);
    snprintf(file, sizeof file, "%s/model.safetensors", directory);
    file_write(file, weights, length);
    free(weights);
    snprintf(file, sizeof file, "%s/config.json", directory);
    file_write(file, config, strlen(config));
    char *target = build_path("tests/own-refused.bin");
    Process p = RUN("export", directory, target, "-q");
    assert_int_equal(p.status, 1);
    char *message = strdup(p.err);
    process_free(&p);
    unlink(file);
    snprintf(file, sizeof file, "%s/model.safetensors", directory);
    unlink(file);
    rmdir(directory);
    free(directory);
    free(target);
    return message;
}

static void what_is_missing_or_unknown_is_named(void **state) {
    (void)state;
#define OWN_TYPE "{\"model_type\":\"own_transformer\""
    static const struct {
        const char *fixture, *config, *says;
    } cases[] = {
        {"nanogpt", OWN_TYPE "}", "num_attention_heads is missing"},
        {"universal",
         OWN_TYPE ",\"num_attention_heads\":2,\"tensors\":{"
                  "\"token_embedding\":\"E\",\"wo\":\"stack.*.o\",\"w_up\":\"stack.*.up\"}}",
         "max_position_embeddings is missing"},
        {"nanogpt", OWN_TYPE ",\"num_attention_heads\":2,\"heads\":2}", "has no key 'heads'"},
        {"nanogpt", OWN_TYPE ",\"num_attention_heads\":2,\"norm\":\"soft\"}",
         "norm is 'soft', but must be one of layer, rms, annotated"},
        {"nanogpt", OWN_TYPE ",\"num_attention_heads\":2,\"activation\":\"sin\"}", "'sin'"},
        {"nanogpt", OWN_TYPE ",\"num_attention_heads\":2,\"names\":\"torch\"}",
         "not those of 'torch'"},
        {"nanogpt", OWN_TYPE ",\"num_attention_heads\":2,\"vocabulary\":[\"a\",\"b\"]}",
         "the vocabulary has 2 tokens, but the model 12"},
        {"nanogpt", OWN_TYPE ",\"num_attention_heads\":2,\"vocabulary\":\"words\"}",
         "neither vocabulary.txt"},
        {"universal", OWN_TYPE ",\"num_attention_heads\":2}", "which is which"},
        {"universal",
         OWN_TYPE ",\"num_attention_heads\":2,\"max_position_embeddings\":9,\"tensors\":{"
                  "\"token_embedding\":\"E\",\"wo\":\"stack.*.o\",\"w_up\":\"stack.*.up\"}}",
         "has no place"},
        {"universal", OWN_TYPE ",\"num_attention_heads\":2,\"tensors\":{\"wo\":\"stack.0.o\"}}",
         "a * stands for the layer's number"},
        {"universal", OWN_TYPE ",\"num_attention_heads\":2,\"tensors\":{\"wx\":\"E\"}}",
         "'wx' is none of"},
        {"nanogpt", OWN_TYPE ",\"num_attention_heads\":2,\"num_hidden_layers\":3}",
         "3 layers cannot share the weights of 2"},
        {"nanogpt", OWN_TYPE ",\"num_attention_heads\":1e300}", "num_attention_heads"},
        {"nanogpt", OWN_TYPE ",\"num_attention_heads\":2,\"#wq\":\"%u%u%u\"}", "no key '#wq'"},
        {"nanogpt", OWN_TYPE ",\"num_attention_heads\":-1}", "num_attention_heads"},
        {"nanogpt",
         OWN_TYPE ",\"num_attention_heads\":2,"
                  "\"tensors\":{\"wq\":\"transformer.h.*.attn.c_proj.weight\"}}",
         "beside wqkv"},
        {"lecture", OWN_TYPE ",\"transposed\":true}", "each head has matrices of its own"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *message = refusal(cases[i].fixture, cases[i].config);
        if (!strstr(message, cases[i].says))
            fail_msg("%zu: '%s' lacks '%s'", i, message, cases[i].says);
        free(message);
    }
}

/* Names in a file are a stranger's: one with marks that stand for numbers in patterns is not
 * a pattern. */
static void names_of_tensors_are_not_patterns(void **state) {
    (void)state;
    static const char header[] =
        "{\"%u%u%u%h.0.attn.c_attn.weight\":{\"dtype\":\"F32\",\"shape\":[1],"
        "\"data_offsets\":[0,4]},\"wte.weight\":{\"dtype\":\"F32\",\"shape\":[1],"
        "\"data_offsets\":[4,8]}}";
    static const char config[] = OWN_TYPE ",\"num_attention_heads\":1}";
    char bytes[512] = {0}, file[512], *directory = build_path("tests/own-names");
    uint64_t length = sizeof header - 1;
    memcpy(bytes, &length, sizeof length);
    memcpy(bytes + sizeof length, header, sizeof header);
    mkdir(directory, 0700);
    snprintf(file, sizeof file, "%s/config.json", directory);
    file_write(file, config, strlen(config));
    snprintf(file, sizeof file, "%s/model.safetensors", directory);
    file_write(file, bytes, sizeof length + length + 8);
    char *target = build_path("tests/own-refused.bin");
    Process p = RUN("export", directory, target, "-q");
    assert_int_equal(p.status, 1);
    if (!strstr(p.err, "which is which")) fail_msg("%s", p.err);
    process_free(&p);
    unlink(file);
    snprintf(file, sizeof file, "%s/config.json", directory);
    unlink(file);
    rmdir(directory);
    free(directory);
    free(target);
}

/* Converts the fixture `torch` with one more tensor, [16][8], and returns the message. */
static char *with_table(const char *name, const float *table) {
    enum { BYTES = 16 * 8 * sizeof(float) };
    char file[512], entry[200], *directory = build_path("tests/own-table");
    char *target = build_path("tests/own-refused.bin");
    static const char *const copied[] = {"config.json", "input.txt"};
    size_t length, n;
    uint64_t header;
    mkdir(directory, 0700);
    for (size_t i = 0; i < 2; i++) {
        snprintf(file, sizeof file, OWN "torch/%s", copied[i]);
        char *text = file_read(file, &length);
        snprintf(file, sizeof file, "%s/%s", directory, copied[i]);
        file_write(file, text, length);
        free(text);
    }
    char *weights = file_read(OWN "torch/model.safetensors", &length);
    memcpy(&header, weights, sizeof header);
    size_t data = length - sizeof header - header;
    n = (size_t)snprintf(entry, sizeof entry,
                         "{\"%s\":{\"dtype\":\"F32\",\"shape\":[16,8],\"data_offsets\":"
                         "[%zu,%zu]},",
                         name, data, data + BYTES);
    char *whole = malloc(length + n + BYTES);
    assert_non_null(whole);
    uint64_t longer = header + n - 1;
    memcpy(whole, &longer, sizeof longer);
    memcpy(whole + sizeof header, entry, n);
    memcpy(whole + sizeof header + n, weights + sizeof header + 1, length - sizeof header - 1);
    memcpy(whole + length + n - 1, table, BYTES);
    snprintf(file, sizeof file, "%s/model.safetensors", directory);
    file_write(file, whole, length + n - 1 + BYTES);
    free(whole);
    free(weights);
    Process p = RUN("export", directory, target, "-q");
    char *message = strdup(p.status ? p.err : "");
    process_free(&p);
    unlink(file);
    for (size_t i = 0; i < 2; i++) {
        snprintf(file, sizeof file, "%s/%s", directory, copied[i]);
        unlink(file);
    }
    unlink(target);
    rmdir(directory);
    free(directory);
    free(target);
    return message;
}

/* The sinusoids that a state dict has may be left out, because they are computed: another table in
 * their place may not. */
static void only_tables_that_are_computed_may_be_left_out(void **state) {
    (void)state;
    float table[16 * 8];
    for (size_t i = 0; i < 16 * 8; i++) {
        double angle = (double)(i / 8) * pow(10000.0, -(double)(i % 8 / 2 * 2) / 8);
        table[i] = (float)(i % 2 ? cos(angle) : sin(angle));
    }
    char *message = with_table("positions.pe", table);
    assert_string_equal(message, "");
    free(message);
    message = with_table("scope", table);
    assert_non_null(strstr(message, "'scope' has no place"));
    free(message);
    table[3 * 8 + 5] += 0.1f;
    message = with_table("positions.pe", table);
    assert_non_null(strstr(message, "is not the table of sinusoids"));
    free(message);
    table[3 * 8 + 5] = NAN;
    message = with_table("pe", table);
    assert_non_null(strstr(message, "is not the table of sinusoids"));
    free(message);
}

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_logits_are_those_of_their_authors),
        cmocka_unit_test(vocabularies_are_characters_words_or_ids),
        cmocka_unit_test(layers_that_share_weights_share_their_bytes),
        cmocka_unit_test(generated_layers_may_share_weights),
        cmocka_unit_test(names_of_tensors_are_not_patterns),
        cmocka_unit_test(only_tables_that_are_computed_may_be_left_out),
        cmocka_unit_test(what_is_missing_or_unknown_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
