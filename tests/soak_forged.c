/* Models whose configuration a stranger changed: values of a few fields are drawn for small models
 * of each kind. Whatever config_validate and model_open accept must run without an error of memory
 * or arithmetic (build it with the flags of `make asan`), and give the same bits in any calls, by
 * any number of threads, in parts, and after an interruption.
 *
 * So must what conversions make of directories whose config.json or tensors were changed.
 *
 *     soak_forged [SECONDS [SEED [FIXTURE]]]     60 seconds for each unless told otherwise */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "core/config_fields.h"
#include "convert/convert_target.h"
#include "layers/arrangements/mtp.h"
#include "layers/model_watch.h"
#include "tests/fixture.h"
#include "tests/tiny_model.h"

enum { ROWS = 40, CONTEXT = 96, MTP_ROWS = 8 };

static const char *const fixtures[] = {
    "glm_moe_dsa",   "deepseek_v32",   "longcat_flash", "olmo_hybrid", "kimi_linear",
    "minimax",       "falcon_h1-bias", "zamba2-bias",   "jamba",       "falcon_mamba",
    "mamba2",        "diffllama",      "lfm3",          "gemma4-moe",  "gemma3n",
    "nemotron_h",    "axk1",           "qwen3_next",    "gpt_oss",     "nemotron_h-latent",
    "glm5_next",     "mistral_large4", "minimax_m3_vl", "beam",        "kolibri1",
    "deepseek_v4",   "qwen4_exp",      "zaya",          "inkling",     "inkling2",
    "inkling2_loop", "zamba",          "jetmoe",        "chameleon",
};
enum { FIXTURES = sizeof fixtures / sizeof *fixtures };

/* Models with prediction layers. */
#define PLAIN "random:dim=64,n_layers=3,n_heads=4,n_kv_heads=2,ffn_dim=96,vocab_size=131,"
#define INDEXED                                                                                    \
    "random:dim=64,n_layers=3,n_heads=4,head_dim=24,rotary_dim=8,value_dim=16,latent_dim=32,"      \
    "latent_q_dim=48,index_heads=2,index_dim=16,index_topk=8,ffn_dim=96,vocab_size=131,"
static const char *const made[] = {PLAIN "mtp_layers=2", INDEXED "mtp_layers=1",
                                   PLAIN "mtp_layers=1,n_experts=5,expert_ffn_dim=32"};
enum { MADE = sizeof made / sizeof *made, MODELS = FIXTURES + MADE };

static uint64_t state;
static uint64_t draw(uint64_t n) {
    state += 0x9E3779B97F4A7C15u;
    uint64_t z = state;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return (z ^ z >> 31) % n;
}

/* ---- Changes of a Config ---- */

static uint32_t draw_number(uint32_t old) {
    static const uint32_t values[] = {0,    1,    2,     3,     4,       5,         7,   8,   12,
                                      15,   16,   17,    24,    31,      32,        33,  48,  63,
                                      64,   65,   96,    100,   128,     255,       256, 511, 512,
                                      1024, 4096, 65535, 65536, 1 << 20, UINT32_MAX};
    switch (draw(6)) {
    case 0:
        return old + 1;
    case 1:
        return old - 1;
    case 2:
        return draw(2) ? old * 2 : old / 2;
    case 3:
        return values[draw(sizeof values / sizeof *values)];
    default:
        return (uint32_t)draw(6);
    }
}

static void change_field(Config *c, const ConfigField *field) {
    static const float floats[] = {0.0f, 1.0f, -1.0f, 0.5f, 2.0f, 1e-30f, 1e30f, 1e-6f, 100.0f};
    void *value = (char *)c + field->offset;
    unsigned n_names = 0;
    uint32_t *layer, n_layers = c->n_layers < CONFIG_MAX_LAYERS / 2 ? c->n_layers + 1 : 1;
    switch (field->kind) {
    case FIELD_UINT:
        *(uint32_t *)value = draw_number(*(uint32_t *)value);
        break;
    case FIELD_FLOAT:
        *(float *)value = floats[draw(sizeof floats / sizeof *floats)];
        break;
    case FIELD_BOOL:
        *(bool *)value = !*(bool *)value;
        break;
    case FIELD_ENUM:
        while (field->names[n_names]) n_names++;
        *(unsigned *)value = (unsigned)draw(n_names);
        break;
    case FIELD_PER_LAYER:
        layer = (uint32_t *)value + draw(n_layers + 1);
        *layer = draw_number(*layer);
        break;
    default:
        break;
    }
}

/* Changes 1 to 4 fields; writes which ones. */
static void change(Config *c, char *what, size_t size) {
    size_t n_fields = 0, used = 0;
    while (config_field(n_fields)) n_fields++;
    for (size_t n = 1 + draw(4); n > 0; n--) {
        const ConfigField *field = config_field(draw(n_fields));
        if (draw(3) == 0)
            while (field->kind != FIELD_PER_LAYER) field = config_field(draw(n_fields));
        if (strcmp(field->name, "context") == 0) continue;
        change_field(c, field);
        if (used < size) used += (size_t)snprintf(what + used, size - used, " %s", field->name);
    }
}

/* ---- Runs ---- */

typedef struct Parts {
    PassObserver observer;
    int stop_in; /* parts until the pass ends; 0: it does not */
} Parts;

static int begin_part(PassObserver *observer, int most, size_t n_rows, double work, double done) {
    Parts *parts = (Parts *)observer;
    (void)n_rows, (void)work;
    if (done > 0 && parts->stop_in > 0 && --parts->stop_in == 0) return 0;
    return 1 + (int)draw((uint64_t)most);
}

static void end_part(PassObserver *observer) {
    (void)observer;
}

/* Runs ids[ROWS] from where the sequence is, in calls of at most `chunk` rows. */
static Status run_calls(Model *model, KvCache *cache, int32_t sequence, const int32_t *ids,
                        size_t chunk, float *logits, Error *error) {
    size_t vocab = model_config(model)->vocab_size;
    Status status = STATUS_OK;
    while (status == STATUS_OK || status == STATUS_INTERRUPTED) {
        Row rows[ROWS];
        size_t at = (size_t)kvcache_next(cache, sequence),
               n = ROWS - at < chunk ? ROWS - at : chunk;
        if (at == ROWS) return STATUS_OK;
        for (size_t i = 0; i < n; i++)
            rows[i] = (Row){sequence, (int32_t)(at + i), ids[at + i], true};
        status = model_forward(model, cache, rows, n, logits + at * vocab, error);
    }
    return status;
}

static void run_prediction(ModelFile *file, Model *model, const int32_t *ids) {
    Error error;
    Mtp *mtp = NULL;
    KvCache *cache = NULL;
    if (mtp_open(&mtp, file, model, MTP_ROWS, &error) != STATUS_OK || !mtp) return;
    const KvShape shape = mtp_kv_shape(mtp, KV_F16);
    size_t vocab = model_config(model)->vocab_size, dim = model_config(model)->dim;
    float *hidden = malloc(MTP_ROWS * dim * sizeof *hidden);
    float *logits = malloc(MTP_ROWS * vocab * sizeof *logits);
    if (kvcache_new(&cache, &shape, 1, 64 << 20, &error) == STATUS_OK && hidden && logits) {
        mtp_hidden(model, 0, MTP_ROWS, hidden);
        for (uint32_t layer = 0; layer < mtp_layers(mtp); layer++) {
            Row rows[MTP_ROWS];
            kvcache_reset(cache, 0, 1);
            for (int i = 0; i < MTP_ROWS; i++) rows[i] = (Row){0, i + 1, ids[i], true};
            if (mtp_forward(mtp, cache, layer, rows, MTP_ROWS, hidden, logits, hidden, &error) !=
                STATUS_OK)
                break;
        }
    }
    kvcache_free(cache);
    free(hidden);
    free(logits);
    mtp_close(mtp);
}

static size_t n_opened, n_ran, n_compared;

static void run_forged(ModelFile *file, const char *name, const char *what) {
    static const KvType types[] = {KV_F32, KV_F16, KV_Q8, KV_BF16};
    const ModelOptions options = {
        .n_threads = 1 + (int)draw(3), .context = CONTEXT, .max_rows = ROWS};
    const Config *c = modelfile_config(file);
    Error error;
    Model *model = NULL;
    KvCache *cache = NULL;
    int32_t ids[ROWS];
    if (model_open(&model, file, &options, &error) != STATUS_OK) return;
    n_opened++;
    const KvShape shape = model_kv_shape(model, types[draw(KV_TYPES)]);
    float *logits = calloc(ROWS * (size_t)c->vocab_size, sizeof *logits);
    float *again = calloc(ROWS * (size_t)c->vocab_size, sizeof *again);
    for (int i = 0; i < ROWS; i++) ids[i] = (int32_t)draw(c->vocab_size);
    if (logits && again && kvcache_new(&cache, &shape, 2, 256 << 20, &error) == STATUS_OK &&
        run_calls(model, cache, 0, ids, ROWS, logits, &error) == STATUS_OK) {
        Parts parts = {
            .observer = {.part_begins = begin_part, .part_work = 1.0, .part_ends = end_part},
            .stop_in = (int)draw(8)};
        n_ran++;
        if (c->mtp.n_layers > 0) run_prediction(file, model, ids);
        model_add_observer(model, &parts.observer);
        Status status = run_calls(model, cache, 1, ids, 1 + draw(ROWS), again, &error);
        if (status != STATUS_OK) fail_msg("%s:%s: fails in calls: %s", name, what, error.text);
        if (memcmp(logits, again, ROWS * (size_t)c->vocab_size * sizeof *logits) != 0)
            fail_msg("%s:%s: other bits in other calls", name, what);
        n_compared++;
    }
    kvcache_free(cache);
    free(logits);
    free(again);
    model_close(model);
}

typedef struct Subject {
    const char *name;
    TinyModel tiny;
    Config config;
} Subject;

static Subject open_subject(size_t i) {
    const ModelOptions options = {.n_threads = 1, .context = CONTEXT, .max_rows = 8};
    Subject s = {.name = i < FIXTURES ? fixtures[i] : made[i - FIXTURES]};
    if (i < FIXTURES) {
        Fixture f = fixture_load(s.name);
        char *source = fixture_source(&f);
        s.tiny = tiny_model_open(source, "f32", &options, KV_F16);
        fixture_remove_directory(source);
        fixture_free(&f);
    } else {
        s.tiny = tiny_model_open(s.name, "q8", &options, KV_F16);
    }
    s.config = *modelfile_config(s.tiny.file);
    return s;
}

static double seconds = 60;
static const char *only;

static void forged_configurations_are_refused_or_run(void **unused) {
    (void)unused;
    static Subject subjects[MODELS];
    size_t n = 0, tried = 0;
    for (size_t i = 0; i < MODELS; i++)
        if (!only || strstr(i < FIXTURES ? fixtures[i] : made[i - FIXTURES], only))
            subjects[n++] = open_subject(i);
    for (double end = clock_seconds() + seconds; clock_seconds() < end; tried++) {
        const Subject *s = &subjects[draw(n)];
        Config *config = modelfile_config_to_change(s->tiny.file);
        char what[256] = "";
        Error error;
        uint64_t seed = state;
        *config = s->config;
        change(config, what, sizeof what);
        if (getenv("FORGED_SHOW"))
            fprintf(stderr, "seed %llu %s:%s\n", (unsigned long long)seed, s->name, what);
        if (config_validate(config, &error) == STATUS_OK) run_forged(s->tiny.file, s->name, what);
        *config = s->config;
    }
    print_message("%zu tried, %zu opened, %zu ran, %zu compared\n", tried, n_opened, n_ran,
                  n_compared);
    for (size_t i = 0; i < n; i++) tiny_model_close(&subjects[i].tiny);
}

/* ---- config.json ---- */

/* Some value, often of a kind that the key does not have. */
static json_t *draw_value(const json_t *old) {
    static const double numbers[] = {
        0, -1, 1, 2, 3, 7, 0.5, 1e308, -16, 1e-30, 65536, 1 << 24, 4294967295.0, 1e19, 512, 1024};
    json_t *item;
    switch (draw(12)) {
    case 0:
        return json_null();
    case 1:
        return json_string(draw(2) ? "auto" : "full_attention");
    case 2:
        return json_array();
    case 3:
        return json_boolean(draw(2));
    case 4:
        return json_object();
    case 5:
        return json_pack("[i, f, s]", 1, 1e300, "x");
    case 6:
    case 7:
        item = json_array_get(old, draw(json_array_size(old) + 1));
        if (!item) return json_integer(json_integer_value(old) + (draw(2) ? 1 : -1));
        json_t *list = json_deep_copy(old);
        json_t *value = draw_value(item);
        json_array_set_new(list, draw(json_array_size(old)), value);
        return list;
    case 8:
        return json_integer(json_integer_value(old) * (draw(2) ? 2 : 3));
    case 9:
        return json_integer(json_integer_value(old) / 2);
    default: {
        double number = numbers[draw(sizeof numbers / sizeof *numbers)];
        bool whole = number == (double)(json_int_t)(number < 1e18 ? number : 0);
        return whole ? json_integer((json_int_t)number) : json_real(number);
    }
    }
}

/* Changes a value of the object or of one in it. */
static void change_json(json_t *object, const json_t *keys, char *what, size_t size) {
    const char *key = json_string_value(json_array_get(keys, draw(json_array_size(keys))));
    json_t *old = json_object_get(object, key);
    if (json_is_object(old) && draw(3)) {
        json_t *inner = json_array();
        const char *name;
        json_t *value;
        json_object_foreach(old, name, value) {
            json_array_append_new(inner, json_string(name));
        }
        if (json_array_size(inner) > 0) change_json(old, inner, what, size);
        json_decref(inner);
        return;
    }
    size_t used = strlen(what);
    json_t *value = draw_value(old);
    char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);
    snprintf(what + used, size - used, " %s=%.60s", key, text ? text : "?");
    free(text);
    json_object_set_new(object, key, value);
}

static void add_keys(json_t *keys, const json_t *object) {
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)object, key, value) {
        json_array_append_new(keys, json_string(key));
    }
}

/* Changes the shape of one of the tensors, or leaves it out. */
static void change_tensor(json_t *tensors, char *what, size_t size) {
    json_t *names = json_array();
    add_keys(names, tensors);
    const char *name = json_string_value(json_array_get(names, draw(json_array_size(names))));
    json_t *recipe = json_deep_copy(json_object_get(tensors, name));
    json_t *shape = json_array_get(recipe, 3);
    size_t n = json_array_size(shape), at = n ? draw(n) : 0, used = strlen(what);
    json_int_t old = json_integer_value(json_array_get(shape, at)), elements = 1;
    const json_int_t dims[] = {0, 1, 2, 3, old - 1, old + 1, old / 2, old * 2, 64};
    switch (n ? draw(6) : 0) {
    case 0:
        json_array_append_new(shape, json_integer(draw(2) ? 1 : 2));
        break;
    case 1:
        if (n > 1) json_array_remove(shape, at);
        break;
    case 2:
        json_array_insert_new(shape, at, json_integer((json_int_t)draw(4)));
        break;
    default:
        json_array_set_new(shape, at, json_integer(dims[draw(sizeof dims / sizeof *dims)]));
    }
    for (size_t i = 0; i < json_array_size(shape); i++)
        elements *= json_integer_value(json_array_get(shape, i));
    char *text = json_dumps(shape, JSON_COMPACT);
    snprintf(what + used, size - used, " %s %s", name, text ? text : "?");
    free(text);
    if (elements < 1 || elements > 1 << 20 || draw(8) == 0) {
        json_object_del(tensors, name);
        json_decref(recipe);
    } else {
        json_object_set_new(tensors, name, recipe);
    }
    json_decref(names);
}

/* Directories whose weights are quantized. */
static const char *const quantized[] = {"qwen3-fp8",
                                        "deepseek_v3-fp8",
                                        "mistral4-fp8",
                                        "ministral3-fp8",
                                        "llama-compressed-int4",
                                        "gpt_oss-mxfp4",
                                        "llama-compressed-fp8",
                                        "llama-compressed-int8"};
enum { QUANTIZED = sizeof quantized / sizeof *quantized };

static void forged_directories_are_refused_or_run(void **unused) {
    (void)unused;
    Fixture all[FIXTURES + QUANTIZED];
    json_t *keys = json_array();
    size_t n = 0, tried = 0, n_converted = 0;
    for (size_t i = 0; i < FIXTURES + QUANTIZED; i++) {
        const char *name = i < FIXTURES ? fixtures[i] : quantized[i - FIXTURES];
        if (only && !strstr(name, only)) continue;
        all[n] = fixture_load(name);
        add_keys(keys, json_object_get(all[n++].json, "config"));
    }
    if (n == 0) {
        json_decref(keys);
        skip();
    }
    for (double end = clock_seconds() + seconds; clock_seconds() < end; tried++) {
        Fixture *f = &all[draw(n)];
        json_t *config = json_object_get(f->json, "config"), *saved = json_object();
        json_t *own = json_array();
        char what[512] = "";
        Error error;
        int fd = -1;
        ModelFile *file;
        uint64_t seed = state;
        add_keys(own, config);
        json_object_set_new(saved, "config", json_deep_copy(config));
        json_object_set_new(saved, "tensors", json_deep_copy(json_object_get(f->json, "tensors")));
        for (size_t k = 1 + draw(2); k > 0; k--)
            if (draw(3)) {
                change_json(config, draw(4) ? own : keys, what, sizeof what);
            } else {
                change_tensor(json_object_get(f->json, "tensors"), what, sizeof what);
            }
        char *source = fixture_source(f);
        if (getenv("FORGED_SHOW"))
            fprintf(stderr, "seed %llu %s:%s\n", (unsigned long long)seed, f->name, what);
        const ConvertOptions options = {.n_threads = 1};
        if (convert_temporary(source, &options, &fd, &error) == STATUS_OK) {
            n_converted++;
            if (modelfile_open(&file, source, fd, &error) != STATUS_OK)
                fail_msg("%s:%s: does not open: %s", f->name, what, error.text);
            run_forged(file, f->name, what);
            modelfile_close(file);
        }
        fixture_remove_directory(source);
        json_object_update(f->json, saved);
        json_decref(saved);
        json_decref(own);
    }
    print_message("%zu tried, %zu converted\n", tried, n_converted);
    for (size_t i = 0; i < n; i++) fixture_free(&all[i]);
    json_decref(keys);
}

int main(int argc, char **argv) {
    if (argc > 1) seconds = atof(argv[1]);
    state = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
    if (argc > 3) only = argv[3];
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(forged_configurations_are_refused_or_run),
        cmocka_unit_test(forged_directories_are_refused_or_run),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
