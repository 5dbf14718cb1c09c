/* Prediction layers: kept at conversion, and their guesses compared with the reference
 * (tests/fixtures/make_mtp.py). */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/config_fields.h"
#include "convert/convert_target.h"
#include "formats/family/mtp_names.h"
#include "families/reading/source_open.h"
#include "layers/arrangements/mtp.h"
#include "tests/fixture.h"
#include "tests/gguf_fixture.h"
#include "tests/tiny_model.h"

/* Largest allowed difference from the reference's logits, in their standard deviations. */
static const double TOLERANCE = 5e-5;

static const char *const names[] = {"qwen3_5", "qwen3_5_moe", "qwen3_next", "deepseek_v3",
                                    "glm4_moe"};
enum { N_NAMES = sizeof names / sizeof *names };

/* A fixture of tests/fixtures/mtp. */
typedef struct Case {
    json_t *json;
    Fixture source; /* with the tensors of the prediction layers */
    size_t n_layers;
} Case;

static json_t *load(const char *name, const char *ending) {
    char path[256];
    json_error_t error;
    snprintf(path, sizeof path, "tests/fixtures/mtp/%s.%s", name, ending);
    json_t *json = json_load_file(path, 0, &error);
    if (!json) fail_msg("%s: %s", path, error.text);
    return json;
}

static Case case_load(const char *name) {
    Case c = {.json = load(name, "json")};
    c.source = fixture_load(json_string_value(json_object_get(c.json, "source")));
    c.n_layers = json_array_size(json_object_get(c.json, "layers"));
    json_object_update(json_object_get(c.source.json, "tensors"),
                       json_object_get(c.json, "tensors"));
    return c;
}

static void case_free(Case *c) {
    fixture_free(&c->source);
    json_decref(c->json);
}

/* The reference's logits of the last rows of each layer; the caller frees them. */
static float *expected_logits(const Case *c, const char *name) {
    char path[256];
    size_t n = 0;
    for (size_t i = 0; i < c->n_layers; i++)
        n += (size_t)json_integer_value(
                 json_object_get(json_array_get(json_object_get(c->json, "layers"), i), "rows")) *
             c->source.vocab_size;
    float *logits = malloc(n * sizeof *logits);
    snprintf(path, sizeof path, "tests/fixtures/mtp/%s.logits", name);
    FILE *f = fopen(path, "rb");
    assert_non_null(logits);
    assert_non_null(f);
    assert_int_equal(fread(logits, sizeof *logits, n, f), n);
    fclose(f);
    return logits;
}

/* Runs the text through the model, `chunk` rows at a time; the hidden states, [n_ids][dim]. */
static float *hidden_states(TinyModel *tiny, const Fixture *f, size_t chunk) {
    size_t dim = model_config(tiny->model)->dim;
    float *hidden = malloc(f->n_ids * dim * sizeof *hidden);
    float *logits = malloc(chunk * f->vocab_size * sizeof *logits);
    assert_non_null(hidden);
    assert_non_null(logits);
    kvcache_reset(tiny->cache, 0, 0);
    for (size_t at = 0; at < f->n_ids; at += chunk) {
        size_t n = f->n_ids - at < chunk ? f->n_ids - at : chunk;
        tiny_model_continue(tiny, 0, f->ids + at, n, chunk, logits);
        mtp_hidden(tiny->model, 0, n, hidden + at * dim);
    }
    free(logits);
    return hidden;
}

/* The logits of all guesses, one layer after another, with `chunk` rows in each call of the model
 * and of the layers; the caller frees them. */
static float *guesses(TinyModel *tiny, const Fixture *f, size_t n_layers, size_t chunk) {
    Error error;
    Mtp *mtp;
    KvCache *cache;
    size_t dim = model_config(tiny->model)->dim, vocab = f->vocab_size;
    if (mtp_open(&mtp, tiny->file, tiny->model, (uint32_t)chunk, &error) != STATUS_OK)
        fail_msg("%s", error.text);
    assert_non_null(mtp);
    assert_int_equal(mtp_layers(mtp), n_layers);
    const KvShape shape = mtp_kv_shape(mtp, KV_F32);
    assert_int_equal(kvcache_new(&cache, &shape, n_layers, 0, &error), STATUS_OK);
    float *hidden = hidden_states(tiny, f, chunk);
    float *logits = malloc(n_layers * f->n_ids * vocab * sizeof *logits), *out = logits;
    Row *rows = calloc(chunk, sizeof *rows);
    assert_non_null(logits);
    for (uint32_t layer = 0; layer < n_layers; layer++) {
        kvcache_reset(cache, (int32_t)layer, (int32_t)layer + 1);
        size_t all = f->n_ids - 1 - layer;
        for (size_t at = 0, n; at < all; at += n) {
            n = all - at < chunk ? all - at : chunk;
            for (size_t i = 0; i < n; i++) {
                size_t position = at + i + layer + 1;
                rows[i] = (Row){(int32_t)layer, (int32_t)position, f->ids[position], true};
            }
            /* The layer's own states take the place of the ones it read. */
            if (mtp_forward(mtp, cache, layer, rows, n, hidden + at * dim, out, hidden + at * dim,
                            &error) != STATUS_OK)
                fail_msg("%s", error.text);
            out += n * vocab;
        }
    }
    free(rows);
    free(hidden);
    kvcache_free(cache);
    mtp_close(mtp);
    return logits;
}

static size_t guessed_floats(const Case *c) {
    size_t n = 0;
    for (size_t i = 0; i < c->n_layers; i++) n += c->source.n_ids - 1 - i;
    return n * c->source.vocab_size;
}

/* The largest difference from the reference, in standard deviations. */
static double worst_of(const Case *c, const float *logits, const float *expected) {
    size_t vocab = c->source.vocab_size;
    double worst = 0;
    for (size_t i = 0; i < c->n_layers; i++) {
        const json_t *layer = json_array_get(json_object_get(c->json, "layers"), i);
        size_t kept = (size_t)json_integer_value(json_object_get(layer, "rows"));
        size_t n = c->source.n_ids - 1 - i;
        const float *last = logits + (n - kept) * vocab;
        for (size_t k = 0; k < kept * vocab; k++) {
            double difference = fabs((double)last[k] - (double)expected[k]) /
                                json_real_value(json_object_get(layer, "std"));
            if (!(difference <= worst)) worst = difference;
        }
        expected += kept * vocab;
        logits += n * vocab;
    }
    return worst;
}

static void guesses_are_those_of_the_reference(void **state) {
    (void)state;
    for (size_t i = 0; i < N_NAMES; i++) {
        Case c = case_load(names[i]);
        char *source = fixture_source(&c.source);
        const ModelOptions options = {.n_threads = 2};
        TinyModel tiny = tiny_model_open(source, NULL, &options, KV_F32);
        float *expected = expected_logits(&c, names[i]);
        float *whole =
            guesses(&tiny, &c.source, c.n_layers, c.source.n_ids < 512 ? c.source.n_ids : 512);
        float *steps = guesses(&tiny, &c.source, c.n_layers, 1);
        float *sevens = guesses(&tiny, &c.source, c.n_layers, 7);
        double worst = worst_of(&c, whole, expected);
        printf("%-12s %zu: %.1e\n", names[i], c.n_layers, worst);
        assert_true(worst <= TOLERANCE);
        assert_memory_equal(whole, steps, guessed_floats(&c) * sizeof *whole);
        assert_memory_equal(whole, sevens, guessed_floats(&c) * sizeof *whole);
        free(expected);
        free(whole);
        free(steps);
        free(sevens);
        tiny_model_close(&tiny);
        fixture_remove_directory(source);
        case_free(&c);
    }
}

/* tests/fixtures/llama_mtp.cpp wrote these logits, of a GGUF file of the same weights. */
static void guesses_are_those_of_llama_cpp(void **state) {
    static const char *const computed[][2] = {{"qwen3_5", "qwen3_5.llama_cpp"},
                                              {"glm4_moe", "glm4_moe.llama_cpp"}};
    (void)state;
    for (size_t i = 0; i < sizeof computed / sizeof *computed; i++) {
        Case c = case_load(computed[i][0]);
        char *source = fixture_source(&c.source);
        const ModelOptions options = {.n_threads = 2};
        TinyModel tiny = tiny_model_open(source, NULL, &options, KV_F32);
        float *expected = expected_logits(&c, computed[i][1]);
        float *logits = guesses(&tiny, &c.source, c.n_layers, 16);
        double worst = worst_of(&c, logits, expected);
        printf("%-12s %.1e from llama.cpp\n", computed[i][0], worst);
        assert_true(worst <= TOLERANCE);
        free(expected);
        free(logits);
        tiny_model_close(&tiny);
        fixture_remove_directory(source);
        case_free(&c);
    }
}

static void guesses_have_the_same_bits_on_every_instruction_set(void **state) {
    (void)state;
    Case c = case_load("deepseek_v3");
    char *source = fixture_source(&c.source);
    float *first = NULL;
    for (size_t i = 0; isa_available(i); i++) {
        const ModelOptions options = {.isa = isa_available(i), .n_threads = 1 + (int)(i % 2)};
        TinyModel tiny = tiny_model_open(source, "q8", &options, KV_F16);
        float *logits = guesses(&tiny, &c.source, c.n_layers, 16);
        if (first) assert_memory_equal(first, logits, guessed_floats(&c) * sizeof *first);
        tiny_model_close(&tiny);
        if (first) {
            free(logits);
        } else {
            first = logits;
        }
    }
    free(first);
    fixture_remove_directory(source);
    case_free(&c);
}

/* ---- What a conversion keeps ---- */

static ModelFile *convert(const char *source, bool no_mtp) {
    Error error;
    int fd;
    ModelFile *file;
    const ConvertOptions options = {.n_threads = 1, .source.no_mtp = no_mtp};
    if (convert_temporary(source, &options, &fd, &error) != STATUS_OK) fail_msg("%s", error.text);
    if (modelfile_open(&file, source, fd, &error) != STATUS_OK) fail_msg("%s", error.text);
    return file;
}

static size_t count_tensors(const ModelFile *file, const Config *config) {
    size_t n = 0;
    for (size_t i = 0; i < modelfile_n_tensors(file); i++)
        n += mtp_is_tensor(config, modelfile_tensor(file, i)->name);
    return n;
}

static void they_are_left_out_on_request(void **state) {
    (void)state;
    for (size_t i = 0; i < N_NAMES; i++) {
        Case c = case_load(names[i]);
        char *source = fixture_source(&c.source);
        ModelFile *with = convert(source, false), *without = convert(source, true);
        const Config *config = modelfile_config(with);
        assert_int_equal(config->mtp.n_layers, c.n_layers);
        assert_int_equal(modelfile_config(without)->mtp.n_layers, 0);
        assert_true(count_tensors(with, config) > 4 * c.n_layers);
        assert_int_equal(count_tensors(without, config), 0);
        assert_int_equal(modelfile_n_tensors(with) - count_tensors(with, config),
                         modelfile_n_tensors(without));
        modelfile_close(with);
        modelfile_close(without);
        fixture_remove_directory(source);
        case_free(&c);
    }
}

/* Also where the source is a model.bin that has them. */
static void a_model_bin_can_lose_them(void **state) {
    (void)state;
    static const char source[] = "random:dim=64,n_layers=2,n_heads=4,n_kv_heads=2,ffn_dim=96,"
                                 "vocab_size=131,mtp_layers=2";
    const ConvertOptions options = {.n_threads = 1};
    char *directory = fixture_directory(), *path = fixture_path(directory, "model.bin");
    Error error;
    if (convert_to_path(source, &options, NULL, path, &error) != STATUS_OK)
        fail_msg("%s", error.text);
    ModelFile *with = convert(path, false), *without = convert(path, true);
    const Config *config = modelfile_config(with);
    assert_int_equal(config->mtp.n_layers, 2);
    assert_int_equal(modelfile_config(without)->mtp.n_layers, 0);
    assert_true(count_tensors(with, config) > 0);
    assert_int_equal(count_tensors(without, config), 0);
    assert_int_equal(modelfile_n_tensors(with) - count_tensors(with, config),
                     modelfile_n_tensors(without));
    modelfile_close(with);
    modelfile_close(without);
    free(path);
    fixture_remove_directory(directory);
}

/* DeepSeek's first prediction layer has the model's embedding and head once more, its second one
 * has others. */
static void copies_of_the_embedding_and_the_head_are_shared(void **state) {
    (void)state;
    Case c = case_load("deepseek_v3");
    char *source = fixture_source(&c.source);
    ModelFile *file = convert(source, false);
    uint32_t l = modelfile_config(file)->n_layers;
    static const char *const of_model[] = {"token_embedding", "output"};
    static const char *const own[] = {"embedding", "output"};
    for (uint32_t i = 0; i < 2; i++)
        for (int k = 0; k < 2; k++) {
            char name[64];
            snprintf(name, sizeof name, "layers.%u.mtp.%s", l + i, own[k]);
            bool is_shared =
                modelfile_find(file, name)->offset == modelfile_find(file, of_model[k])->offset;
            assert_int_equal(is_shared, i == 0);
        }
    modelfile_close(file);
    fixture_remove_directory(source);
    case_free(&c);
}

/* Converts the case's directory and expects an error that contains `expected`. */
static void assert_refused(const Case *c, const char *expected) {
    char *directory = fixture_source(&c->source);
    Source *source;
    Error error = {.text = ""};
    assert_int_equal(source_open(&source, directory, NULL, &error), STATUS_OK);
    assert_int_equal(source_parse(source, &error), STATUS_FAILED);
    if (!strstr(error.text, expected)) fail_msg("'%s' does not say '%s'", error.text, expected);
    source_close(source);
    assert_int_equal(source_open(&source, directory, NULL, &error), STATUS_OK);
    source->no_mtp = true;
    assert_int_equal(source_parse(source, &error), STATUS_OK);
    source_close(source);
    fixture_remove_directory(directory);
}

/* transformers says nothing of them either (_keys_to_ignore_on_load_unexpected). */
static void what_is_left_out_is_no_layer_too_many(void **state) {
    (void)state;
    for (size_t i = 0; i < N_NAMES; i++) {
        Case c = case_load(names[i]);
        char *directory = fixture_source(&c.source);
        Source *source;
        Error error = {.text = ""};
        assert_int_equal(source_open(&source, directory, NULL, &error), STATUS_OK);
        source->no_mtp = true;
        assert_int_equal(source_parse(source, &error), STATUS_OK);
        for (size_t k = 0; k < source->n_notes; k++)
            assert_null(strstr(source->notes[k], "left out: its configuration"));
        source_close(source);
        fixture_remove_directory(directory);
        case_free(&c);
    }
}

static void damaged_ones_are_refused_by_name(void **state) {
    (void)state;
    Case c = case_load("qwen3_5");
    json_t *tensors = json_object_get(c.source.json, "tensors");
    json_t *projection = json_incref(json_object_get(tensors, "mtp.fc.weight"));
    json_object_del(tensors, "mtp.fc.weight");
    assert_refused(&c, "'mtp.fc.weight' is missing");
    json_object_set_new(tensors, "mtp.fc.weight", projection);
    json_object_set(tensors, "mtp.layers.0.self_attn.other.weight", projection);
    assert_refused(&c, "'mtp.layers.0.self_attn.other.weight' is not part of");
    json_object_del(tensors, "mtp.layers.0.self_attn.other.weight");
    json_object_set(tensors, "mtp.layers.0.self_attn.o_proj.weight", projection);
    assert_refused(&c, "'mtp.layers.0.self_attn.o_proj.weight' is ");
    case_free(&c);
}

/* Files of llama.cpp's converter, which numbers the prediction layers on from the others. */
static void guesses_from_gguf_are_the_same(void **state) {
    (void)state;
    static const char *const kept[] = {"qwen3_5", "qwen3_next", "glm4_moe"};
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++) {
        Case c = case_load(kept[i]);
        json_t *gguf = load(kept[i], "gguf.json");
        json_object_set(gguf, "more_recipes", json_object_get(c.json, "tensors"));
        char *directory = fixture_directory(), *path = fixture_path(directory, "model.gguf");
        gguf_fixture_write(gguf, path, STORED_F32, false);
        const ModelOptions options = {.n_threads = 2};
        TinyModel tiny = tiny_model_open(path, NULL, &options, KV_F32);
        float *expected = expected_logits(&c, kept[i]);
        float *logits = guesses(&tiny, &c.source, c.n_layers, 16);
        assert_true(worst_of(&c, logits, expected) <= TOLERANCE);
        free(expected);
        free(logits);
        tiny_model_close(&tiny);
        ModelFile *without = convert(path, true);
        assert_int_equal(modelfile_config(without)->mtp.n_layers, 0);
        modelfile_close(without);
        free(path);
        fixture_remove_directory(directory);
        json_decref(gguf);
        case_free(&c);
    }
}

/* A file may say that a prediction layer reads the keys of an earlier layer, which the cache of the
 * prediction layers does not hold, or that it has no feed-forward. */
static void forged_ones_are_refused(void **state) {
    (void)state;
    static const char source[] = "random:dim=64,n_layers=2,n_heads=4,n_kv_heads=2,ffn_dim=96,"
                                 "vocab_size=131,mtp_layers=2";
    const ModelOptions options = {.n_threads = 1};
    TinyModel tiny = tiny_model_open(source, NULL, &options, KV_F32);
    Config *config = modelfile_config_to_change(tiny.file);
    uint32_t *const fields[] = {config->kv_distance, config->without_ffn};
    static const char *const reasons[] = {"kv_distance", "without_ffn"};
    Error error;
    Mtp *mtp;
    for (size_t i = 0; i < 2; i++) {
        fields[i][3] = 1;
        assert_int_equal(config_validate(config, &error), STATUS_OK); /* it reads 2 layers */
        assert_int_equal(mtp_open(&mtp, tiny.file, tiny.model, 8, &error), STATUS_FAILED);
        assert_non_null(strstr(error.text, reasons[i]));
        assert_null(mtp);
        fields[i][3] = 0;
    }
    assert_int_equal(mtp_open(&mtp, tiny.file, tiny.model, 8, &error), STATUS_OK);
    mtp_close(mtp);
    tiny_model_close(&tiny);
}

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(guesses_are_those_of_the_reference),
        cmocka_unit_test(guesses_are_those_of_llama_cpp),
        cmocka_unit_test(guesses_have_the_same_bits_on_every_instruction_set),
        cmocka_unit_test(guesses_from_gguf_are_the_same),
        cmocka_unit_test(they_are_left_out_on_request),
        cmocka_unit_test(a_model_bin_can_lose_them),
        cmocka_unit_test(copies_of_the_embedding_and_the_head_are_shared),
        cmocka_unit_test(what_is_left_out_is_no_layer_too_many),
        cmocka_unit_test(damaged_ones_are_refused_by_name),
        cmocka_unit_test(forged_ones_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
