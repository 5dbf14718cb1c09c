/* GGUF files as llama.cpp's converter makes them have the logits that transformers computes for the
 * original model. This covers tensor names, keys, permutations, offsets and stacked experts.
 *
 *     test_gguf_families [PART]      only fixtures whose names contain PART
 *
 * With the environment variable VERBATIM_FAMILIES, writes the table of docs/families.md to that
 * file. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "convert/convert_target.h"
#include "formats/containers/gguf.h"
#include "families/reading/source_open.h"
#include "tests/fixture.h"
#include "tests/gguf_fixture.h"
#include "tests/process.h"
#include "tests/tier.h"
#include "tests/tiny_model.h"

/* Largest allowed difference of a logit, in standard deviations of the logits. */
static const double TOLERANCE = 1e-4;

static FILE *table;

/* Writes the GGUF file, converts it with matrices of type `to` (NULL: lossless) and returns the
 * logits of the fixture's text. *equal: number of greedy tokens that agree with the reference. */
static float *logits_of(const json_t *gguf, const Fixture *f, StoredType type, bool widened,
                        const char *to, char *family, size_t *equal) {
    char *directory = fixture_directory(), *path = fixture_path(directory, "model.gguf");
    gguf_fixture_write(gguf, path, type, widened);
    ModelOptions options = {.n_threads = 2, .context = f->context};
    TinyModel tiny = tiny_model_open(path, to, &options, KV_F32);
    assert_int_equal(tiny.vocab_size, f->vocab_size);
    if (family) snprintf(family, 32, "%s", modelfile_config(tiny.file)->family);
    float *logits = tiny_model_run(&tiny, 0, 0, f->ids, f->n_ids, f->n_ids < 512 ? f->n_ids : 512);
    if (equal) {
        float *next = malloc(f->vocab_size * sizeof *next);
        int32_t token = tiny_model_argmax(logits + (f->n_ids - 1) * f->vocab_size, f->vocab_size);
        for (*equal = 0; *equal < f->n_greedy && token == f->greedy[*equal]; ++*equal) {
            tiny_model_continue(&tiny, 0, &token, 1, 1, next);
            token = tiny_model_argmax(next, f->vocab_size);
        }
        free(next);
    }
    tiny_model_close(&tiny);
    free(path);
    fixture_remove_directory(directory);
    return logits;
}

/* Matrices stored in a narrow type give the same bits as the same rounded values stored as F32. */
static void assert_narrow_is_exact(const json_t *gguf, const Fixture *f, StoredType type) {
    float *narrow = logits_of(gguf, f, type, false, "f32", NULL, NULL);
    float *wide = logits_of(gguf, f, type, true, "f32", NULL, NULL);
    assert_memory_equal(narrow, wide, f->n_ids * f->vocab_size * sizeof *wide);
    free(narrow);
    free(wide);
}

static void logits_are_those_of_the_source(void **state) {
    const char *name = *state;
    json_t *gguf = gguf_fixture_load(name);
    Fixture f = fixture_load(json_string_value(json_object_get(gguf, "source")));
    const FixturePass *pass = &f.passes[0];
    char family[32];
    size_t equal;
    float *logits = logits_of(gguf, &f, STORED_F32, false, NULL, family, &equal);
    double worst = 0.0;
    for (size_t i = 0; i < (f.n_ids - pass->first) * f.vocab_size; i++) {
        double difference =
            fabs((double)logits[pass->first * f.vocab_size + i] - (double)pass->logits[i]);
        if (!(difference <= worst)) worst = difference;
    }
    worst /= pass->std;
    free(logits);
    const char *architecture =
        json_string_value(json_array_get(json_array_get(json_object_get(gguf, "keys"), 0), 2));
    printf("%-24s %-12s %-12s %.1e  greedy %zu of %zu\n", name, architecture, family, worst, equal,
           f.n_greedy);
    bool is_own = strcmp(f.name, name) == 0;
    const json_t *other = json_object_get(gguf, "llama_cpp");
    char theirs[128] = "";
    if (json_is_real(other)) snprintf(theirs, sizeof theirs, "%.1e", json_real_value(other));
    if (json_is_string(other)) snprintf(theirs, sizeof theirs, "%s", json_string_value(other));
    if (table)
        fprintf(table, "| %s | %s | %s | %.1e | %s | %s |\n", architecture, family,
                is_own ? f.features : "a llama's weights under its names", worst,
                equal == f.n_greedy ? "equal" : "DIFFERENT", theirs);
    assert_true(worst <= TOLERANCE);
    assert_int_equal(equal, f.n_greedy);
    assert_narrow_is_exact(gguf, &f, STORED_F16);
    assert_narrow_is_exact(gguf, &f, STORED_Q8_0);
    if (strcmp(architecture, "gpt-oss") == 0) assert_narrow_is_exact(gguf, &f, STORED_MXFP4);
    fixture_free(&f);
    json_decref(gguf);
}

/* GGUF fixtures whose file gives the bits of the directory. */
static const char *const same_bits[] = {"granitemoehybrid",
                                        "lfm2",
                                        "lfm2_moe",
                                        "qwen3_5",
                                        "qwen3_5_moe",
                                        "qwen3_next",
                                        "bamba",
                                        "falcon_h1-gguf",
                                        "jamba",
                                        "mamba",
                                        "falcon_mamba-bias",
                                        "mamba2",
                                        "nemotron_h",
                                        "nemotron_h-moe",
                                        "nemotron_h-latent",
                                        "kimi_linear",
                                        "minimax",
                                        "hrm_text",
                                        "hrm_text-bias",
                                        "hunyuan_vl-older",
                                        "paddleocr_vl",
                                        "deepseek_ocr2",
                                        "unlimited_ocr",
                                        "hy_v4",
                                        "glm5_next",
                                        "bailing_hybrid-gguf",
                                        "chameleon-gguf",
                                        "minimax_m3_vl",
                                        "deepseek_v4",
                                        "qwen4_exp-gguf",
                                        "sarvam_moe"};

/* Converters store -exp(A_log) of layers with a state, and some reorder heads or their elements.
 * Our conversion of the directory has the same order and the same values, and so the same bits. (A
 * file whose converter rounded -exp(A_log) otherwise, as torch does for one value in a hundred,
 * differs in the last bit of that decay.) */
static void states_from_gguf_give_the_bits_of_the_directory(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof same_bits / sizeof *same_bits; i++) {
        json_t *gguf = gguf_fixture_load(same_bits[i]);
        Fixture f = fixture_load(json_string_value(json_object_get(gguf, "source")));
        char *directory = fixture_source(&f);
        const ModelOptions options = {.n_threads = 2, .context = f.context};
        TinyModel tiny = tiny_model_open(directory, NULL, &options, KV_F32);
        float *own = tiny_model_run(&tiny, 0, 0, f.ids, f.n_ids, f.n_ids < 512 ? f.n_ids : 512);
        float *other = logits_of(gguf, &f, STORED_F32, false, NULL, NULL, NULL);
        for (size_t k = 0; k < f.n_ids * f.vocab_size; k++)
            if (memcmp(&own[k], &other[k], sizeof *own) != 0)
                fail_msg("%s: logit %zu is %.9g, from GGUF %.9g", same_bits[i], k, (double)own[k],
                         (double)other[k]);
        free(own);
        free(other);
        tiny_model_close(&tiny);
        fixture_remove_directory(directory);
        fixture_free(&f);
        json_decref(gguf);
    }
}

/* ---- Changed files ---- */

static void set_key(json_t *gguf, const char *key, json_t *value, const char *kind) {
    json_t *keys = json_object_get(gguf, "keys");
    for (size_t i = 0; i < json_array_size(keys); i++)
        if (strcmp(json_string_value(json_array_get(json_array_get(keys, i), 0)), key) == 0)
            json_array_remove(keys, i);
    json_array_append_new(keys, json_pack("[s, s, o]", key, kind, value));
}

/* Older files hold attn_kv_b instead of attn_k_b and attn_v_b, and the widths of whole heads. */
static void latent_attention_is_the_same_where_its_matrix_is_not_split(void **state) {
    (void)state;
    json_t *gguf = gguf_fixture_load("deepseek_v2-gguf");
    Fixture f = fixture_load("deepseek_v2-gguf");
    float *split = logits_of(gguf, &f, STORED_F32, false, NULL, NULL, NULL);
    json_t *tensors = json_object_get(gguf, "tensors");
    for (int l = 0; l < 2; l++) {
        char name[64], source[80];
        snprintf(name, sizeof name, "blk.%d.attn_k_b.weight", l);
        json_object_del(tensors, name);
        snprintf(name, sizeof name, "blk.%d.attn_v_b.weight", l);
        json_object_del(tensors, name);
        snprintf(name, sizeof name, "blk.%d.attn_kv_b.weight", l);
        snprintf(source, sizeof source, "model.layers.%d.self_attn.kv_b_proj.weight", l);
        /* Two heads of 10 rows for keys and 16 for values, 32 wide. */
        json_object_set_new(tensors, name,
                            json_pack("{s: [i, i], s: [[s, i, [[i, i, i]]]]}", "shape", 52, 32,
                                      "from", source, 1, 0, 32, 52));
    }
    set_key(gguf, "deepseek2.attention.key_length", json_integer(16), "uint32");
    set_key(gguf, "deepseek2.attention.value_length", json_integer(16), "uint32");
    set_key(gguf, "deepseek2.attention.key_length_mla", json_integer(16), "uint32");
    set_key(gguf, "deepseek2.attention.value_length_mla", json_integer(16), "uint32");
    float *whole = logits_of(gguf, &f, STORED_F32, false, NULL, NULL, NULL);
    assert_memory_equal(split, whole, f.n_ids * f.vocab_size * sizeof *whole);
    assert_narrow_is_exact(gguf, &f, STORED_F16);
    assert_narrow_is_exact(gguf, &f, STORED_Q8_0);
    free(split);
    free(whole);
    fixture_free(&f);
    json_decref(gguf);
}

/* Expects that the file is refused with a message that contains `expected`. */
static void assert_source_refused(const char *path, const char *expected) {
    const ConvertOptions options = {.n_threads = 1};
    Error error = {.text = ""};
    int fd = -1;
    assert_int_equal(convert_temporary(path, &options, &fd, &error), STATUS_FAILED);
    if (!strstr(error.text, expected)) fail_msg("'%s' does not say '%s'", error.text, expected);
}

/* Sets one key of the fixture and expects a refusal whose message contains `expected`. */
static void assert_refused(const char *name, const char *key, json_t *value, const char *kind,
                           const char *expected) {
    char *directory = fixture_directory(), *path = fixture_path(directory, "model.gguf");
    json_t *gguf = gguf_fixture_load(name);
    set_key(gguf, key, value, kind);
    gguf_fixture_write(gguf, path, STORED_F32, false);
    assert_source_refused(path, expected);
    json_decref(gguf);
    free(path);
    fixture_remove_directory(directory);
}

/* llama.cpp refuses a key of another type ("has wrong type"); taken for absent, its default would
 * count. */
static void a_key_of_another_type_is_refused_by_name(void **state) {
    (void)state;
    const char *llama = "llama-mha";
    assert_refused(llama, "llama.rope.freq_base", json_string("500000"), "string",
                   "the key 'llama.rope.freq_base' is text, but a float is wanted");
    assert_refused(llama, "llama.rope.freq_base", json_integer(500000), "uint32",
                   "'llama.rope.freq_base' is uint32 500000, but a float is wanted");
    assert_refused(llama, "llama.attention.layer_norm_rms_epsilon", json_true(), "bool",
                   "layer_norm_rms_epsilon' is bool 1, but a float is wanted");
    assert_refused(llama, "llama.block_count", json_real(3.0), "float32",
                   "'llama.block_count' is float32 3, but a whole number is wanted");
    assert_refused(llama, "llama.block_count", json_integer(-3), "int32",
                   "'llama.block_count' is int32 -3, but a whole number that is not negative");
    assert_refused(llama, "llama.context_length", json_pack("[i]", 64), "uint32[]",
                   "'llama.context_length' is an array of uint32, but a whole number is wanted");
    assert_refused(llama, "llama.attention.head_count", json_string("4"), "string",
                   "'llama.attention.head_count' is text, but a whole number is wanted");
    assert_refused(llama, "llama.rope.scaling.type", json_integer(1), "uint32",
                   "'llama.rope.scaling.type' is uint32 1, but a text is wanted");
    assert_refused(llama, "tokenizer.ggml.add_bos_token", json_string("no"), "string",
                   "'tokenizer.ggml.add_bos_token' is text, but true or false is wanted");
    assert_refused(llama, "tokenizer.ggml.add_bos_token", json_integer(2), "uint8",
                   "'tokenizer.ggml.add_bos_token' is uint8 2, but true or false is wanted");
    assert_refused(llama, "tokenizer.ggml.eos_token_id", json_string("2"), "string",
                   "'tokenizer.ggml.eos_token_id' is text, but a whole number is wanted");
    assert_refused(llama, "general.alignment", json_real(32.0), "float32",
                   "'general.alignment' is float32 32, but a whole number is wanted");
    assert_refused("exaone4", "exaone4.attention.sliding_window_pattern",
                   json_pack("[s, s, s]", "a", "b", "c"), "string[]",
                   "is an array of text, but true or false is wanted");
    assert_refused("qwen3_moe", "qwen3moe.expert_weights_norm", json_string("true"), "string",
                   "'qwen3moe.expert_weights_norm' is text, but true or false is wanted");
}

/* Neither a second value of a key nor an unknown tensor is passed over. */
static void what_would_be_passed_over_is_refused(void **state) {
    (void)state;
    static const char *const tensors[] = {"token_embd_norm.weight", "output.scale",
                                          "blk.0.attn_q.scale"};
    char *directory = fixture_directory(), *path = fixture_path(directory, "model.gguf");
    json_t *gguf = gguf_fixture_load("llama-mha");
    json_array_append_new(json_object_get(gguf, "keys"),
                          json_pack("[s, s, i]", "llama.block_count", "uint32", 3));
    gguf_fixture_write(gguf, path, STORED_F32, false);
    assert_source_refused(path, "the key 'llama.block_count' is there twice");
    json_decref(gguf);
    for (size_t i = 0; i < sizeof tensors / sizeof *tensors; i++) {
        char expected[100];
        gguf = gguf_fixture_load("llama-mha");
        json_object_set(json_object_get(gguf, "tensors"), tensors[i],
                        json_object_get(json_object_get(gguf, "tensors"), "output_norm.weight"));
        gguf_fixture_write(gguf, path, STORED_F32, false);
        snprintf(expected, sizeof expected, "tensor '%s' is not part of a model", tensors[i]);
        assert_source_refused(path, expected);
        json_decref(gguf);
    }
    free(path);
    fixture_remove_directory(directory);
}

/* Each key was looked for from the beginning of the list: a file of 800,000 keys took 5 s. An
 * unknown architecture is compared with all. */
static void a_file_of_many_keys_takes_no_time(void **state) {
    (void)state;
    char *directory = fixture_directory(), *path = fixture_path(directory, "model.gguf");
    for (size_t i = 0; i < 3; i++) {
        json_t *gguf = gguf_fixture_load("llama-mha"), *keys = json_object_get(gguf, "keys");
        if (i == 1) set_key(gguf, "general.architecture", json_string("lama"), "string");
        size_t n = i == 2 ? GGUF_MOST_KEYS + 1 : GGUF_MOST_KEYS;
        while (json_array_size(keys) < n) {
            char name[40];
            snprintf(name, sizeof name, "some.keys.%zu", json_array_size(keys));
            json_array_append_new(keys, json_pack("[s, s, i]", name, "uint8", 1));
        }
        gguf_fixture_write(gguf, path, STORED_F32, false);
        clock_t start = clock();
        Error error = {{0}};
        const ConvertOptions options = {.n_threads = 1};
        int fd = -1;
        Status status = convert_temporary(path, &options, &fd, &error);
        double seconds = (double)(clock() - start) / CLOCKS_PER_SEC;
        if (fd >= 0) close(fd);
        if (seconds > 5.0) fail_msg("case %zu: %g s", i, seconds); /* 0.1 without a sanitizer */
        assert_int_equal(status, i ? STATUS_FAILED : STATUS_OK);
        if (i) assert_non_null(strstr(error.text, i == 1 ? "'lama' is not known" : "65537 keys"));
        json_decref(gguf);
    }
    free(path);
    fixture_remove_directory(directory);
}

/* A whole number may have any width, and 0 and 1 are a switch: gguf-py's users write such files. */
static void whole_numbers_of_any_width_are_read(void **state) {
    (void)state;
    json_t *gguf = gguf_fixture_load("llama-mha");
    Fixture f = fixture_load("llama-mha");
    float *plain = logits_of(gguf, &f, STORED_F32, false, NULL, NULL, NULL);
    set_key(gguf, "llama.block_count", json_integer(3), "uint8");
    set_key(gguf, "llama.context_length", json_integer(2048), "uint64");
    set_key(gguf, "llama.attention.causal", json_integer(1), "int16");
    float *other = logits_of(gguf, &f, STORED_F32, false, NULL, NULL, NULL);
    assert_memory_equal(plain, other, f.n_ids * f.vocab_size * sizeof *plain);
    free(plain);
    free(other);
    fixture_free(&f);
    json_decref(gguf);
    assert_refused("llama-mha", "llama.attention.causal", json_integer(0), "uint8",
                   "attention.causal is false");
}

/* ---- Keys that a file must have ---- */

/* Converts the file and returns what the model.bin holds; NULL, and *error filled: refused. */
static uint8_t *converted(const json_t *gguf, size_t *bytes, Error *error) {
    char *directory = fixture_directory(), *path = fixture_path(directory, "model.gguf");
    gguf_fixture_write(gguf, path, STORED_F32, false);
    const ConvertOptions options = {.n_threads = 1};
    uint8_t *model = NULL;
    int fd = -1;
    if (convert_temporary(path, &options, &fd, error) == STATUS_OK) {
        *bytes = (size_t)lseek(fd, 0, SEEK_END);
        model = malloc(*bytes + 1);
        assert_non_null(model);
        assert_int_equal(pread(fd, model, *bytes, 0), *bytes);
        close(fd);
    }
    free(path);
    fixture_remove_directory(directory);
    return model;
}

static bool remove_key(json_t *gguf, const char *key) {
    json_t *keys = json_object_get(gguf, "keys");
    for (size_t i = 0; i < json_array_size(keys); i++)
        if (strcmp(json_string_value(json_array_get(json_array_get(keys, i), 0)), key) == 0)
            return json_array_remove(keys, i) == 0;
    return false;
}

/* The architecture of a fixture. */
static const char *architecture_of(const json_t *gguf) {
    const json_t *keys = json_object_get(gguf, "keys");
    for (size_t i = 0; i < json_array_size(keys); i++)
        if (strcmp(json_string_value(json_array_get(json_array_get(keys, i), 0)),
                   "general.architecture") == 0)
            return json_string_value(json_array_get(json_array_get(keys, i), 2));
    fail_msg("no architecture");
    return NULL;
}

/* A file of the fixture without the key: refused by the key's name, or, where `needed` is false,
 * with the same model.bin. */
static void try_without(const json_t *gguf, const char *architecture, const char *key,
                        bool needed) {
    char full[200];
    size_t whole_bytes = 0, bytes = 0;
    Error error = {.text = ""};
    json_t *less = json_deep_copy(gguf);
    snprintf(full, sizeof full, "%s.%s", architecture, key);
    if (remove_key(less, full)) {
        uint8_t *other = converted(less, &bytes, &error);
        if (needed && (other || !strstr(error.text, key)))
            fail_msg("without %s: %s", full, other ? "converted" : error.text);
        if (!needed) {
            uint8_t *whole = converted(gguf, &whole_bytes, &error);
            if (!other || !whole || bytes != whole_bytes || memcmp(whole, other, bytes) != 0)
                fail_msg("without %s: %s", full, other ? "another model" : error.text);
            free(whole);
        }
        free(other);
    }
    json_decref(less);
}

/* Takes each key of a row of the table in docs/families.md out of the fixture: those between
 * backticks; the last column has those that are not needed. */
static void try_row(const json_t *gguf, const char *architecture, const char *row) {
    static const char *const every[] = {"context_length", "embedding_length", "block_count"};
    for (size_t i = 0; i < sizeof every / sizeof *every; i++)
        try_without(gguf, architecture, every[i], true);
    bool needed = true;
    for (const char *p = row; *p && *p != '\n'; p++) {
        if (*p == '|') needed = false;
        if (*p != '`') continue;
        char key[100];
        size_t n = strcspn(p + 1, "`");
        snprintf(key, sizeof key, "%.*s", (int)n, p + 1);
        p += n + 1;
        /* A file without its epsilon, and one without its layers' extra embeddings. */
        bool has_own =
            strstr(key, "epsilon") || strcmp(key, "embedding_length_per_layer_input") == 0;
        if (needed || !has_own) try_without(gguf, architecture, key, needed);
    }
}

/* Each key that llama.cpp requires is required here, or its value comes from elsewhere: the table
 * that scripts/gguf-keys makes of llama.cpp's sources says which. */
static void a_key_that_llama_cpp_requires_is_never_defaulted(void **state) {
    (void)state;
    size_t length;
    char *text = file_read("docs/families.md", &length), **names = gguf_fixture_names();
    const char *table_start = strstr(text, "<!-- scripts/gguf-keys -->");
    assert_non_null(table_start);
    for (size_t i = 0; names[i]; i++) {
        if (tier_takes(i, 8, 2)) {
            json_t *gguf = gguf_fixture_load(names[i]);
            const char *architecture = architecture_of(gguf), *row;
            char start[64];
            snprintf(start, sizeof start, "\n| %s |", architecture);
            if (!(row = strstr(table_start, start))) fail_msg("%s: not in the table", architecture);
            try_row(gguf, architecture, row + strlen(start));
            json_decref(gguf);
        }
        free(names[i]);
    }
    free(names);
    free(text);
}

/* Norms of both kinds in one file: the RMS norms' epsilon is not that of the layer norms. */
static void an_epsilon_is_required(void **state) {
    (void)state;
    static const struct {
        const char *fixture, *architecture, *key;
    } cases[] = {{"llama-mha", "llama", "attention.layer_norm_rms_epsilon"},
                 {"gpt2", "gpt2", "attention.layer_norm_epsilon"},
                 {"glm5_next", "glm5-next", "attention.layer_norm_rms_epsilon"},
                 {"nemotron_h", "nemotron_h", "attention.layer_norm_epsilon"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        json_t *gguf = gguf_fixture_load(cases[i].fixture);
        try_without(gguf, cases[i].architecture, cases[i].key, true);
        json_decref(gguf);
    }
}

/* ---- Files of ollama's ---- */

/* Gives the fixture's tensors that end in `from` the end `to`, and its keys that begin with `from`
 * the beginning `to`. */
static void rename_ends(json_t *gguf, const char *from, const char *to) {
    json_t *tensors = json_object_get(gguf, "tensors"), *renamed = json_object(), *tensor;
    const char *name;
    size_t n_found = 0;
    json_object_foreach(tensors, name, tensor) {
        char other[100];
        size_t n = strlen(name), m = strlen(from);
        bool ends = n >= m && strcmp(name + n - m, from) == 0;
        snprintf(other, sizeof other, "%.*s%s", (int)(ends ? n - m : n), name, ends ? to : "");
        json_object_set(renamed, other, tensor);
        n_found += ends;
    }
    json_object_set_new(gguf, "tensors", renamed);
    if (n_found == 0) fail_msg("no tensor ends in %s", from);
}

static void rename_keys(json_t *gguf, const char *from, const char *to) {
    json_t *keys = json_object_get(gguf, "keys");
    for (size_t i = 0; i < json_array_size(keys); i++) {
        json_t *pair = json_array_get(keys, i);
        const char *name = json_string_value(json_array_get(pair, 0));
        char other[200];
        if (strncmp(name, from, strlen(from)) != 0) continue;
        snprintf(other, sizeof other, "%s%s", to, name + strlen(from));
        json_array_set_new(pair, 0, json_string(other));
    }
}

/* Expects that the file of the fixture, whose architecture and keys have another name, is told
 * this. */
static void assert_nearest(const json_t *gguf, const char *expected) {
    char *directory = fixture_directory(), *path = fixture_path(directory, "model.gguf");
    gguf_fixture_write(gguf, path, STORED_F32, false);
    assert_source_refused(path, expected);
    free(path);
    fixture_remove_directory(directory);
}

static json_t *renamed(const char *fixture, const char *architecture) {
    json_t *gguf = gguf_fixture_load(fixture);
    char prefix[64];
    snprintf(prefix, sizeof prefix, "%s.", architecture);
    rename_keys(gguf, prefix, "newmodel.");
    set_key(gguf, "general.architecture", json_string("newmodel"), "string");
    return gguf;
}

/* A list of all architectures told nobody what to do with the file. */
static void an_unknown_architecture_is_told_the_nearest(void **state) {
    (void)state;
    static const char *const same[][3] = {
        {"llama-mha", "llama", "'llama'"},     {"gpt2", "gpt2", "'gpt2'"},
        {"gemma3-gguf", "gemma3", "'gemma3'"}, {"deepseek_v2-gguf", "deepseek2", "'deepseek2'"},
        {"gpt_oss", "gpt-oss", "'gpt-oss'"},   {"qwen3_next", "qwen3next", "'qwen3next'"},
        {"mamba", "mamba", "'mamba'"},
    };
    for (size_t i = 0; i < sizeof same / sizeof *same; i++) {
        char says[200];
        json_t *gguf = renamed(same[i][0], same[i][1]);
        snprintf(says, sizeof says,
                 "architecture 'newmodel' is not known to this program: the nearest that runs is "
                 "%s: it reads all keys and takes all tensors",
                 same[i][2]);
        assert_nearest(gguf, says);
        json_decref(gguf);
    }
    /* What a function of the family reads cannot be told from its tables. */
    json_t *gguf = renamed("gemma4", "gemma4");
    assert_nearest(gguf, "the nearest that runs is 'gemma4': it reads no key "
                         "'attention.value_length_swa'; steps of 'gemma4' in C may read more; "
                         "what is missing is");
    json_decref(gguf);
    gguf = renamed("llama-mha", "llama");
    set_key(gguf, "newmodel.attention.extra_scale", json_real(0.5), "float32");
    rename_ends(gguf, ".ffn_up.weight", ".ffn_other.weight");
    assert_nearest(gguf, "the nearest that runs is 'llama': it reads no key "
                         "'attention.extra_scale'; it takes no tensor '.ffn_other.weight'; the "
                         "model lacks its '.ffn_up.weight'; what is missing is");
    json_decref(gguf);
    gguf = renamed("deepseek_v2-gguf", "deepseek2");
    rename_keys(gguf, "newmodel.attention.kv_lora_rank", "newmodel.other");
    assert_nearest(gguf, "the nearest that runs is 'deepseek2': it takes all tensors; it does not "
                         "accept the keys: heads with keys of ");
    json_decref(gguf);
}

/* Expects the same model.bin of both. */
static void assert_same_model(const json_t *one, const json_t *other) {
    size_t n = 0, m = 0;
    Error error = {.text = ""};
    uint8_t *a = converted(one, &n, &error), *b = a ? converted(other, &m, &error) : NULL;
    if (!a || !b) fail_msg("%s", error.text);
    assert_int_equal(n, m);
    assert_memory_equal(a, b, n);
    free(a);
    free(b);
}

/* The library's Gemma 3 has neither epsilon nor RoPE base, and of a context of 131,072 no scaling:
 * 1e-6, 1000000 and linear 8 (ollama's llama/compat; Google's config.json of Gemma 3 4B). */
static void the_gemma3_of_ollama_has_its_own_values(void **state) {
    (void)state;
    json_t *ollama = gguf_fixture_load("gemma3-gguf"), *whole = json_deep_copy(ollama);
    set_key(ollama, "gemma3.context_length", json_integer(131072), "uint32");
    remove_key(ollama, "gemma3.attention.layer_norm_rms_epsilon");
    remove_key(ollama, "gemma3.rope.freq_base");
    remove_key(ollama, "gemma3.rope.freq_base_swa");
    remove_key(ollama, "gemma3.rope.scaling.type");
    remove_key(ollama, "gemma3.rope.scaling.factor");
    set_key(whole, "gemma3.context_length", json_integer(131072), "uint32");
    set_key(whole, "gemma3.attention.layer_norm_rms_epsilon", json_real(1e-6), "float32");
    set_key(whole, "gemma3.rope.freq_base", json_real(1e6), "float32");
    set_key(whole, "gemma3.rope.freq_base_swa", json_real(1e4), "float32");
    set_key(whole, "gemma3.rope.scaling.type", json_string("linear"), "string");
    set_key(whole, "gemma3.rope.scaling.factor", json_real(8.0), "float32");
    assert_same_model(ollama, whole);
    /* A factor without a type is linear, as in llama.cpp; the converter's own names of the bases.
     */
    set_key(ollama, "gemma3.rope.scaling.factor", json_real(8.0), "float32");
    set_key(ollama, "gemma3.rope.global.freq_base", json_real(1e6), "float32");
    set_key(ollama, "gemma3.rope.local.freq_base", json_real(1e4), "float32");
    assert_same_model(ollama, whole);
    json_decref(ollama);
    json_decref(whole);
}

/* What ollama's converter calls otherwise than llama.cpp (ollama's llama/compat). */
static void the_names_of_ollama_are_known(void **state) {
    (void)state;
    static const char *const gptoss[][2] = {{".attn_output.weight", ".attn_out.weight"},
                                            {".attn_output.bias", ".attn_out.bias"},
                                            {".attn_sinks.weight", ".attn_sinks"},
                                            {".post_attention_norm.weight", ".ffn_norm.weight"}};
    json_t *ollama = gguf_fixture_load("gpt_oss"), *whole = json_deep_copy(ollama);
    for (size_t i = 0; i < sizeof gptoss / sizeof *gptoss; i++)
        rename_ends(ollama, gptoss[i][0], gptoss[i][1]);
    rename_keys(ollama, "gpt-oss.", "gptoss.");
    remove_key(ollama, "gptoss.expert_feed_forward_length");
    remove_key(ollama, "gptoss.rope.scaling.type");
    set_key(ollama, "general.architecture", json_string("gptoss"), "string");
    assert_same_model(ollama, whole);
    json_decref(ollama);
    json_decref(whole);
    static const char *const others[][3] = {
        {"qwen3_5", ".ssm_dt.bias", ".ssm_dt"},
        {"qwen3_5_moe", ".ssm_dt.bias", ".ssm_dt"},
        {"qwen3_next", ".ssm_dt.bias", ".ssm_dt"},
        {"lfm2", "token_embd_norm.weight", "output_norm.weight"}};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        ollama = gguf_fixture_load(others[i][0]);
        whole = json_deep_copy(ollama);
        rename_ends(ollama, others[i][1], others[i][2]);
        json_object_set_new(json_object_get(ollama, "tensors"), "v.patch_embd.weight",
                            json_deep_copy(json_object_get(json_object_get(ollama, "tensors"),
                                                           "token_embd.weight")));
        assert_same_model(ollama, whole);
        json_decref(ollama);
        json_decref(whole);
    }
}

/* A message has the key as the file has it. */
static void keys_of_ollama_are_named_as_they_are(void **state) {
    (void)state;
    char *directory = fixture_directory(), *path = fixture_path(directory, "model.gguf");
    json_t *gguf = gguf_fixture_load("gpt_oss");
    rename_keys(gguf, "gpt-oss.", "gptoss.");
    set_key(gguf, "general.architecture", json_string("gptoss"), "string");
    set_key(gguf, "gptoss.attention.head_count_kv", json_pack("[i]", -1), "int32[]");
    gguf_fixture_write(gguf, path, STORED_F32, false);
    assert_source_refused(path, ": gptoss.attention.head_count_kv is -1");
    set_key(gguf, "gptoss.attention.head_count_kv", json_pack("[i, i]", 1, 2), "int32[]");
    gguf_fixture_write(gguf, path, STORED_F32, false);
    assert_source_refused(path, ": gptoss.attention.head_count_kv is not a list of");
    json_decref(gguf);
    free(path);
    fixture_remove_directory(directory);
}

/* ---- What a model recommends ---- */

static Source *parsed(const char *path) {
    Source *source;
    Error error = {.text = ""};
    if (source_open(&source, path, NULL, &error) != STATUS_OK ||
        source_parse(source, &error) != STATUS_OK)
        fail_msg("%s", error.text);
    return source;
}

/* general.sampling.* is what llama.cpp takes for the defaults of a file (common.cpp). */
static void a_gguf_file_recommends_how_to_sample(void **state) {
    (void)state;
    static const char *const keys[] = {"generation.temperature", "generation.top_k",
                                       "generation.top_p", "generation.min_p",
                                       "generation.repetition_penalty"};
    char *directory = fixture_directory(), *path = fixture_path(directory, "model.gguf");
    json_t *gguf = gguf_fixture_load("llama-mha");
    set_key(gguf, "general.sampling.temp", json_real(0.5), "float32");
    set_key(gguf, "general.sampling.top_k", json_integer(20), "int32");
    set_key(gguf, "general.sampling.top_p", json_real(0.75), "float32");
    set_key(gguf, "general.sampling.min_p", json_real(0.25), "float32");
    set_key(gguf, "general.sampling.penalty_repeat", json_real(1.5), "float32");
    set_key(gguf, "general.sampling.penalty_last_n", json_integer(64), "int32");
    set_key(gguf, "general.sampling.mirostat", json_integer(2), "int32");
    set_key(gguf, "general.sampling.xtc_probability", json_real(0), "float32");
    gguf_fixture_write(gguf, path, STORED_F32, false);
    Source *source = parsed(path);
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (!metadata_has(&source->metadata, keys[i])) fail_msg("no %s", keys[i]);
    assert_int_equal(source->n_notes, 1);
    assert_string_equal(source->notes[0],
                        "recommended by the model, but not applied here: "
                        "general.sampling.mirostat, general.sampling.penalty_last_n");
    source_close(source);
    /* What the program can do without is no reason to refuse a model. */
    set_key(gguf, "general.sampling.temp", json_string("0"), "string");
    set_key(gguf, "general.name", json_integer(1), "uint32");
    gguf_fixture_write(gguf, path, STORED_F32, false);
    source = parsed(path);
    assert_false(metadata_has(&source->metadata, "generation.temperature"));
    assert_non_null(strstr(source->notes[0], "general.sampling.temp"));
    source_close(source);
    json_decref(gguf);
    free(path);
    fixture_remove_directory(directory);
}

/* The first published files of Gemma 3n hold the number of layers that share keys as a float, files
 * of today's converter as a uint32. */
static void gemma3n_may_count_its_layers_in_a_float(void **state) {
    (void)state;
    char *directory = fixture_directory(), *path = fixture_path(directory, "model.gguf");
    uint32_t distance[2] = {0};
    for (int i = 0; i < 2; i++) {
        json_t *gguf = gguf_fixture_load("gemma3n-gguf");
        const char *key = "gemma3n.attention.shared_kv_layers";
        if (i == 1) set_key(gguf, key, json_real(2), "float32");
        if (i == 0) set_key(gguf, key, json_integer(2), "uint32");
        gguf_fixture_write(gguf, path, STORED_F32, false);
        Source *source = parsed(path);
        distance[i] = source->config.kv_distance[source->config.n_layers - 1];
        source_close(source);
        json_decref(gguf);
    }
    assert_true(distance[0] > 0);
    assert_int_equal(distance[0], distance[1]);
    assert_refused("gemma3n-gguf", "gemma3n.attention.shared_kv_layers", json_real(1.5), "float32",
                   "attention.shared_kv_layers is 1.5 of");
    free(path);
    fixture_remove_directory(directory);
}

/* Keys of transformers' GenerationConfig that change the text are named, unless their value
 * changes nothing. */
static void what_generation_config_json_wants_in_vain_is_named(void **state) {
    (void)state;
    static const char neutral[] =
        "{\"temperature\": 0.5, \"num_beams\": 1, \"guidance_scale\": null, \"typical_p\": 1.0, "
        "\"bad_words_ids\": [], \"no_repeat_ngram_size\": 0, \"max_length\": 20}";
    static const char given[] =
        "{\"num_beams\": 4, \"guidance_scale\": 1.5, \"no_repeat_ngram_size\": 3, "
        "\"exponential_decay_length_penalty\": [20, 1.1]}";
    Fixture f = fixture_load("llama-mha");
    char *directory = fixture_source(&f);
    char *path = fixture_path(directory, "generation_config.json");
    file_write(path, neutral, sizeof neutral - 1);
    Source *source = parsed(directory);
    assert_true(metadata_has(&source->metadata, "generation.temperature"));
    assert_int_equal(source->n_notes, 0);
    source_close(source);
    file_write(path, given, sizeof given - 1);
    source = parsed(directory);
    assert_int_equal(source->n_notes, 1);
    assert_string_equal(source->notes[0],
                        "recommended by the model, but not applied here: no_repeat_ngram_size, "
                        "num_beams, guidance_scale, exponential_decay_length_penalty");
    source_close(source);
    free(path);
    fixture_remove_directory(directory);
    fixture_free(&f);
}

static void a_matrix_given_twice_is_refused(void **state) {
    (void)state;
    char *directory = fixture_directory(), *path = fixture_path(directory, "model.gguf");
    json_t *gguf = gguf_fixture_load("gpt2"), *tensors = json_object_get(gguf, "tensors");
    Source *source;
    Error error = {.text = ""};
    assert_non_null(json_object_get(tensors, "blk.0.attn_qkv.weight"));
    json_object_set(tensors, "blk.0.attn_q.weight",
                    json_object_get(tensors, "blk.0.attn_output.weight"));
    gguf_fixture_write(gguf, path, STORED_F32, false);
    assert_int_equal(source_open(&source, path, NULL, &error), STATUS_OK);
    assert_int_equal(source_parse(source, &error), STATUS_FAILED);
    if (!strstr(error.text, "two of its tensors become 'layers.0.wq'"))
        fail_msg("'%s'", error.text);
    source_close(source);
    json_decref(gguf);
    free(path);
    fixture_remove_directory(directory);
}

static void what_cannot_be_computed_is_refused_by_name(void **state) {
    (void)state;
    static const char *const unknown[] = {"kimi-k3", "plamo2",           "arwkv7",
                                          "t5",      "gemma4-assistant", "rwkv7"};
    for (size_t i = 0; i < sizeof unknown / sizeof *unknown; i++)
        assert_refused("llama-mha", "general.architecture", json_string(unknown[i]), "string",
                       unknown[i]);
    assert_refused("qwen3_moe", "qwen3moe.attention.sliding_window", json_integer(9), "uint32",
                   "attention.sliding_window 9 is not known for the architecture 'qwen3moe'");
    assert_refused("qwen3_moe", "qwen3moe.expert_gating_func", json_integer(2), "uint32",
                   "expert_gating_func 2");
    assert_refused("qwen3_moe", "qwen3moe.expert_weights_scale", json_real(2.5), "float32",
                   "expert_weights_scale 2.5");
    assert_refused("qwen3_moe", "qwen3moe.expert_group_count", json_integer(2), "uint32",
                   "expert_group_count 2");
    assert_refused("llama-mha", "llama.attention.causal", json_false(), "bool",
                   "attention.causal is false");
    assert_refused("granite", "granite.rope.scaling.finetuned", json_false(), "bool",
                   "without RoPE");
    assert_refused("mpt", "mpt.attention.max_alibi_bias", json_real(0.0), "float32",
                   "without ALiBi");
    assert_refused("cohere2-gguf", "cohere2.rope.freq_base_swa", json_real(500.0), "float32",
                   "rope.freq_base_swa");
    assert_refused("llama-mha", "llama.rope.scaling.type", json_string("su2"), "string", "'su2'");
    assert_refused("exaone4", "exaone4.attention.sliding_window_pattern", json_pack("[b]", 1),
                   "bool[]", "not a list of 3 layers");
    assert_refused("llama-mha", "llama.feed_forward_length", json_pack("[i, i]", 92, 93),
                   "uint32[]", "feed_forward_length is not a list of 3 layers");
    assert_refused("llama-rope-llama3", "llama.rope.dimension_count", json_integer(16), "uint32",
                   "'rope_freqs.weight' must hold 8 values");
}

/* Keys of the architectures with hashed n-grams, pools, cycles and delta attention. */
static void numbers_that_do_not_fit_are_refused_by_name(void **state) {
    (void)state;
    const char *qwen4 = "qwen4_exp-gguf", *deepseek = "deepseek_v4";
    assert_refused(qwen4, "qwen4exp.ple.layers", json_pack("[i]", 3), "uint32[]",
                   "ple.layers is not the number of one layer");
    assert_refused(qwen4, "qwen4exp.ple.layers", json_pack("[i, i]", 0, 1), "uint32[]",
                   "ple.layers is not the number of one layer");
    assert_refused(qwen4, "qwen4exp.ple.layer_multipliers", json_pack("[i, i, i]", 3, 5, 7),
                   "uint64[]", "no seed below 1048576 makes ple.layer_multipliers");
    assert_refused(qwen4, "qwen4exp.ple.layer_multipliers", json_pack("[i]", 3), "uint64[]",
                   "ple.layer_multipliers is not a list of 3 whole numbers");
    assert_refused(qwen4, "qwen4exp.ple.head_vocab_sizes",
                   json_pack("[i, i, i, i]", 53, 59, 61, 71), "uint64[]",
                   "ple.head_vocab_sizes are not neighbouring primes");
    assert_refused(qwen4, "qwen4exp.ple.heads_per_ngram", json_integer(4000000000), "uint32",
                   "ple.ngram_size 3 with ple.heads_per_ngram 4000000000");
    assert_refused(qwen4, "qwen4exp.attention.compress_ratios", json_pack("[i, i]", 0, 0),
                   "uint32[]", "attention.compress_ratios is not one number of positions");
    assert_refused(deepseek, "deepseek4.attention.compress_ratios", json_pack("[i, i]", 0, 4),
                   "uint32[]", "attention.compress_ratios gives layer 2 no rate");
    assert_refused(deepseek, "deepseek4.attention.compress_ratios", json_pack("[i, i, i]", 4, 4, 7),
                   "uint32[]", "tensor 'layers.0.pool_kv' is missing");
    assert_refused(deepseek, "deepseek4.swiglu_clamp_shexp", json_real(3.0), "float32",
                   "limited by 2, shared ones by 3");
    assert_refused(deepseek, "deepseek4.rope.freq_base", json_real(0.0), "float32",
                   "rope.freq_base is 0");
    assert_refused("hrm_text", "hrm_text.hrm.h_cycles", json_integer(3), "uint32",
                   "do not make block_count 6");
    assert_refused("bailing_hybrid-gguf", "bailingmoe3.kda.gate_lower_bound", json_real(1.0),
                   "float32", "kda.gate_lower_bound is 1, which must be below 0");
    assert_refused("glm5_next", "glm5-next.attention.indexer.kpool_select_tail", json_false(),
                   "bool", "kpool_select_tail is false");
    assert_refused("dots3_note-gguf", "dots3note.attention.kv_lora_rank_swa", json_integer(0),
                   "uint32", "a latent of 0 elements");
    assert_refused("hy_v4", "hy_v4.swiglu_clamp_exp", json_pack("[f]", 1.0), "float32[]",
                   "swiglu_clamp_exp gives layer 1 no limit");
}

int main(int argc, char **argv) {
    char **names = gguf_fixture_names();
    struct CMUnitTest tests[256];
    size_t n = 0;
    const char *path = getenv("VERBATIM_FAMILIES");
    if (path && !(table = fopen(path, "w"))) return 1;
    for (size_t i = 0; names[i]; i++) {
        if (argc > 1 ? !strstr(names[i], argv[1]) : !tier_takes(i, 8, 1)) continue;
        tests[n++] = (struct CMUnitTest){.name = names[i],
                                         .test_func = logits_are_those_of_the_source,
                                         .initial_state = names[i]};
    }
    if (argc <= 1) {
        tests[n++] =
            (struct CMUnitTest)cmocka_unit_test(what_cannot_be_computed_is_refused_by_name);
        tests[n++] =
            (struct CMUnitTest)cmocka_unit_test(numbers_that_do_not_fit_are_refused_by_name);
        tests[n++] =
            (struct CMUnitTest)cmocka_unit_test(states_from_gguf_give_the_bits_of_the_directory);
        tests[n++] = (struct CMUnitTest)cmocka_unit_test(a_matrix_given_twice_is_refused);
        tests[n++] = (struct CMUnitTest)cmocka_unit_test(a_key_of_another_type_is_refused_by_name);
        tests[n++] = (struct CMUnitTest)cmocka_unit_test(what_would_be_passed_over_is_refused);
        tests[n++] = (struct CMUnitTest)cmocka_unit_test(a_file_of_many_keys_takes_no_time);
        tests[n++] = (struct CMUnitTest)cmocka_unit_test(whole_numbers_of_any_width_are_read);
        tests[n++] = (struct CMUnitTest)cmocka_unit_test(an_epsilon_is_required);
        tests[n++] = (struct CMUnitTest)cmocka_unit_test(a_gguf_file_recommends_how_to_sample);
        tests[n++] = (struct CMUnitTest)cmocka_unit_test(gemma3n_may_count_its_layers_in_a_float);
        tests[n++] =
            (struct CMUnitTest)cmocka_unit_test(what_generation_config_json_wants_in_vain_is_named);
        tests[n++] = (struct CMUnitTest)cmocka_unit_test(the_gemma3_of_ollama_has_its_own_values);
        tests[n++] = (struct CMUnitTest)cmocka_unit_test(the_names_of_ollama_are_known);
        tests[n++] = (struct CMUnitTest)cmocka_unit_test(keys_of_ollama_are_named_as_they_are);
        tests[n++] =
            (struct CMUnitTest)cmocka_unit_test(an_unknown_architecture_is_told_the_nearest);
        tests[n++] =
            (struct CMUnitTest)cmocka_unit_test(a_key_that_llama_cpp_requires_is_never_defaulted);
        tests[n++] = (struct CMUnitTest)cmocka_unit_test(
            latent_attention_is_the_same_where_its_matrix_is_not_split);
    }
    int failed = _cmocka_run_group_tests("gguf_families", tests, n, NULL, NULL);
    if (table) fclose(table);
    for (size_t i = 0; names[i]; i++) free(names[i]);
    free(names);
    return failed;
}
