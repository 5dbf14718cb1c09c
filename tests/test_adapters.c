/* Adapters (--lora): their logits compared with peft's, the same bits however their rows are
 * mixed, and what is refused. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "convert/convert_target.h"
#include "adapters/lora.h"
#include "layers/model_watch.h"
#include "tests/adapter_fixture.h"
#include "tests/process.h"
#include "tests/small_model.h"

/* Largest allowed difference of a logit from peft's, in standard deviations of the logits. */
static const double TOLERANCE = 5e-5;

enum { MOST = 4 };

/* The directories of a fixture's adapters, as --lora takes them. */
typedef struct Specs {
    char *directories[MOST];
    char texts[MOST][512];
    const char *list[MOST];
    size_t n;
} Specs;

static void make_specs(Specs *specs, const AdapterFixture *f) {
    specs->n = f->n;
    for (size_t i = 0; i < f->n; i++) {
        specs->directories[i] = adapter_fixture_directory(f, i);
        snprintf(specs->texts[i], sizeof specs->texts[i], "a%zu=%s", i, specs->directories[i]);
        specs->list[i] = specs->texts[i];
    }
}

static void free_specs(Specs *specs) {
    for (size_t i = 0; i < specs->n; i++) fixture_remove_directory(specs->directories[i]);
}

static void assert_same_bits(const char *what, const float *a, const float *b, size_t n) {
    if (memcmp(a, b, n * sizeof *a) == 0) return;
    size_t i = 0;
    while (memcmp(&a[i], &b[i], sizeof *a) == 0) i++;
    fail_msg("%s: logit %zu is %.9g, expected %.9g", what, i, (double)b[i], (double)a[i]);
}

static double largest_difference(const float *a, const float *b, size_t n) {
    double worst = 0;
    for (size_t i = 0; i < n; i++) {
        double difference = fabs((double)a[i] - (double)b[i]);
        if (!(difference <= worst)) worst = difference;
    }
    return worst;
}

/* The largest difference from peft's logits, in standard deviations. logits: of the whole text. */
static double difference_of(const AdapterFixture *f, const float *logits) {
    size_t vocab = f->base.vocab_size, first = f->base.n_ids - f->kept;
    return largest_difference(logits + first * vocab, f->logits, f->kept * vocab) / f->std;
}

/* ---- peft ---- */

static void logits_are_those_of_peft(void **state) {
    AdapterFixture f = adapter_fixture_load(*state);
    Specs specs;
    Adapted a;
    make_specs(&specs, &f);
    char *source = fixture_source(&f.base);
    const ModelOptions options = {.n_threads = 2};
    adapted_open(&a, source, "f32", &options, KV_F32, specs.list, specs.n);
    float *logits = tiny_model_run(&a.tiny, 0, 0, f.base.ids, f.base.n_ids, 48);
    double worst = difference_of(&f, logits);
    printf("%-16s %.1e of a deviation\n", (const char *)*state, worst);
    assert_true(worst <= TOLERANCE);
    free(logits);
    adapted_close(&a);
    fixture_remove_directory(source);
    free_specs(&specs);
    adapter_fixture_free(&f);
}

/* Opens a fixture's base in `type` with its adapters, runs ids[n], and returns the logits. */
static float *logits_on(const AdapterFixture *f, const char *type, const int32_t *ids, size_t n) {
    Specs specs;
    Adapted a;
    make_specs(&specs, f);
    char *source = fixture_source(&f->base);
    const ModelOptions options = {.n_threads = 2};
    adapted_open(&a, source, type, &options, KV_F32, specs.list, specs.n);
    float *logits = tiny_model_run(&a.tiny, 0, 0, ids, n, 7);
    adapted_close(&a);
    fixture_remove_directory(source);
    free_specs(&specs);
    return logits;
}

/* peft over layers that compute the products of quantized types as numerics.md defines them. The
 * texts keep away from activations that the last bit of a sum would round to another code:
 * fixtures/make_adapters_quantized.py. */
static void logits_on_quantized_bases_are_those_of_peft(void **state) {
    (void)state;
    AdapterFixtureText *texts;
    size_t n = adapter_fixture_quantized(&texts);
    assert_int_equal(n, 12);
    for (size_t i = 0; i < n; i++) {
        AdapterFixture f = adapter_fixture_load(texts[i].name);
        float *logits = logits_on(&f, texts[i].type, texts[i].ids, texts[i].n_ids);
        size_t vocab = f.base.vocab_size, first = texts[i].n_ids - texts[i].kept;
        double worst =
            largest_difference(logits + first * vocab, texts[i].logits, texts[i].kept * vocab) /
            texts[i].std;
        printf("%-16s %-4s %.1e of a deviation\n", texts[i].name, texts[i].type, worst);
        assert_true(worst <= TOLERANCE);
        free(logits);
        adapter_fixture_free(&f);
    }
    adapter_fixture_quantized_free(texts, n);
}

/* ---- GGUF ---- */

/* The logits of the model at `source` with the adapter. */
static float *logits_of(const AdapterFixture *f, const char *source, const char *adapter) {
    Adapted a;
    const ModelOptions options = {.n_threads = 2};
    adapted_open(&a, source, "f32", &options, KV_F32, &adapter, 1);
    float *logits = tiny_model_run(&a.tiny, 0, 0, f->base.ids, f->base.n_ids, 48);
    adapted_close(&a);
    return logits;
}

/* llama.cpp's converter reorders the rows of heads, in models and adapters. */
static void adapters_and_models_of_either_format_go_together(void **state) {
    (void)state;
    AdapterFixture f = adapter_fixture_load("llama-attention");
    Specs specs;
    make_specs(&specs, &f);
    char *source = fixture_source(&f.base), *gguf = fixture_path(source, "base.gguf");
    char *adapter = fixture_path(source, "adapter.gguf");
    json_t *base = gguf_fixture_load("llama-gqa");
    gguf_fixture_write(base, gguf, STORED_F32, false);
    adapter_fixture_gguf(&f, "llama-attention", adapter, STORED_F32);
    float *expected = logits_of(&f, source, specs.list[0]);
    float *other = logits_of(&f, source, adapter);
    assert_same_bits("a GGUF adapter", expected, other, f.base.n_ids * f.base.vocab_size);
    float *peft = logits_of(&f, gguf, specs.list[0]), *both = logits_of(&f, gguf, adapter);
    assert_same_bits("on a GGUF model", peft, both, f.base.n_ids * f.base.vocab_size);
    printf("on a GGUF model: %.1e of a deviation\n", difference_of(&f, peft));
    assert_true(difference_of(&f, peft) <= TOLERANCE);
    free(expected), free(other), free(peft), free(both);
    free(gguf), free(adapter);
    json_decref(base);
    fixture_remove_directory(source);
    free_specs(&specs);
    adapter_fixture_free(&f);
}

/* Reads the adapter at `path` as it adds to a base with this configuration. */
static Adapter read_for(const char *path, const Config *config) {
    Adapter adapter = {0};
    Error error;
    const AdapterBase base = {.config = config};
    if (adapter_open(&adapter, path, &error) != STATUS_OK ||
        adapter_read(&adapter, &base, &error) != STATUS_OK)
        fail_msg("%s", error.text);
    return adapter;
}

/* The number of a's parts with the same factors as the part of b with their name. */
static size_t count_equal(const Adapter *a, const Adapter *b) {
    size_t n = 0;
    assert_int_equal(a->n_parts, b->n_parts);
    for (size_t i = 0; i < a->n_parts; i++) {
        const AdapterPart *p = &a->parts[i], *q = b->parts;
        while (q < b->parts + b->n_parts && strcmp(q->name, p->name) != 0) q++;
        assert_true(q < b->parts + b->n_parts && q->rank == p->rank);
        n += memcmp(p->rows_factor, q->rows_factor, p->rows * p->rank * sizeof(float)) == 0 &&
             memcmp(p->cols_factor, q->cols_factor, p->rank * p->cols * sizeof(float)) == 0;
    }
    return n;
}

/* The heads of states have another order in peft's adapters than in llama.cpp's and in models.
 * Models that were converted before this order was adopted have peft's (state_tiled 0). */
static void adapters_follow_the_order_of_the_heads_of_states(void **state) {
    (void)state;
    AdapterFixture f = adapter_fixture_load("qwen3_5-states");
    Specs specs;
    make_specs(&specs, &f);
    char *source = fixture_source(&f.base), *gguf = fixture_path(source, "base.gguf");
    char *adapter = fixture_path(source, "adapter.gguf");
    json_t *base = gguf_fixture_load("qwen3_5");
    gguf_fixture_write(base, gguf, STORED_F32, false);
    adapter_fixture_gguf(&f, "qwen3_5-states", adapter, STORED_F32);
    float *expected = logits_of(&f, source, specs.list[0]);
    const char *const pairs[][2] = {{source, adapter}, {gguf, specs.list[0]}, {gguf, adapter}};
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        float *other = logits_of(&f, pairs[i][0], pairs[i][1]);
        assert_same_bits(pairs[i][1], expected, other, f.base.n_ids * f.base.vocab_size);
        free(other);
    }
    const ModelOptions options = {.n_threads = 1};
    TinyModel tiny = tiny_model_open(source, NULL, &options, KV_F32);
    Config config = *modelfile_config(tiny.file);
    Adapter read[2][2];
    for (int tiled = 0; tiled < 2; tiled++) {
        config.state.tiled = tiled;
        read[tiled][0] = read_for(specs.directories[0], &config);
        read[tiled][1] = read_for(adapter, &config);
        assert_int_equal(count_equal(&read[tiled][0], &read[tiled][1]), read[tiled][0].n_parts);
    }
    /* Of two layers the parts of v, z, a, b and the output differ; q and k, and wq and the gate of
     * the layer that attends, do not. */
    assert_int_equal(count_equal(&read[0][0], &read[1][0]), read[0][0].n_parts - 2 * 5);
    assert_int_equal(read[0][0].n_parts, 2 * 7 + 2);
    for (int i = 0; i < 4; i++) adapter_close(&read[i / 2][i % 2]);
    tiny_model_close(&tiny);
    free(expected), free(gguf), free(adapter);
    json_decref(base);
    fixture_remove_directory(source);
    free_specs(&specs);
    adapter_fixture_free(&f);
}

static void a_gguf_adapter_of_embeddings_is_read(void **state) {
    (void)state;
    AdapterFixture f = adapter_fixture_load("qwen2-ends");
    char *source = fixture_source(&f.base), *adapter = fixture_path(source, "adapter.gguf");
    adapter_fixture_gguf(&f, "qwen2-ends", adapter, STORED_F32);
    float *logits = logits_of(&f, source, adapter);
    printf("a GGUF adapter: %.1e of a deviation\n", difference_of(&f, logits));
    assert_true(difference_of(&f, logits) <= TOLERANCE);
    free(logits);
    free(adapter);
    fixture_remove_directory(source);
    adapter_fixture_free(&f);
}

/* ---- Merging ---- */

/* The largest difference from peft's logits of a model.bin, in standard deviations. */
static double worst_of(const AdapterFixture *f, const char *path) {
    const ModelOptions options = {.n_threads = 2};
    TinyModel tiny = tiny_model_map(path, &options, KV_F32);
    float *logits = tiny_model_run(&tiny, 0, 0, f->base.ids, f->base.n_ids, 48);
    double worst = difference_of(f, logits);
    free(logits);
    tiny_model_close(&tiny);
    return worst;
}

/* Converts the source with the adapters merged. */
static void merge(const char *source, const char *target, const Specs *specs) {
    Error error;
    AdapterOpening opening = {0};
    OptionList list = {.n = specs->n};
    memcpy(list.items, specs->list, sizeof specs->list);
    const ConvertOptions options = {.type = "f32", .n_threads = 1};
    const ExportOptions wishes = {.adapters = &opening};
    if (adapter_opening_begin(&opening, &list, &error) != STATUS_OK ||
        convert_to_path(source, &options, &wishes, target, &error) != STATUS_OK)
        fail_msg("%s", error.text);
    adapter_opening_close(&opening);
}

static void a_merged_model_gives_the_same_logits(void **state) {
    AdapterFixture f = adapter_fixture_load(*state);
    Specs specs;
    make_specs(&specs, &f);
    char *source = fixture_source(&f.base), *plain = fixture_path(source, "plain.bin");
    char *direct = fixture_path(source, "direct.bin"), *again = fixture_path(source, "again.bin");
    merge(source, direct, &specs);
    Error error;
    const ConvertOptions options = {.type = "f32", .n_threads = 1};
    if (convert_to_path(source, &options, NULL, plain, &error) != STATUS_OK)
        fail_msg("%s", error.text);
    merge(plain, again, &specs); /* from a model.bin */
    double worst = worst_of(&f, direct), other = worst_of(&f, again);
    printf("%-16s merged: %.1e, from a model.bin: %.1e\n", (const char *)*state, worst, other);
    assert_true(worst <= TOLERANCE && other <= TOLERANCE);
    assert_true(worst_of(&f, plain) > 0.1);
    free(plain), free(direct), free(again);
    fixture_remove_directory(source);
    free_specs(&specs);
    adapter_fixture_free(&f);
}

/* ---- Whole tensors ---- */

/* Adds to the adapter's tensors what peft saves beside a LoRA on the ends of a model. */
static void add_base_layers(const AdapterFixture *f, const char *wrapped) {
    static const char *const ends[] = {"lm_head", "model.embed_tokens"};
    json_t *adapter = json_array_get(json_object_get(f->json, "adapters"), 0);
    json_t *tensors = json_object_get(f->base.json, "tensors");
    for (size_t i = 0; i < 2; i++) {
        char name[128], own[64];
        snprintf(own, sizeof own, "%s.weight", ends[i]);
        if (!json_object_get(tensors, own)) /* tied */
            snprintf(own, sizeof own, "%s.weight", ends[1 - i]);
        json_t *recipe = json_deep_copy(json_object_get(tensors, own));
        json_array_append_new(recipe, json_string(own));
        snprintf(name, sizeof name, "base_model.model.%s%s.weight", ends[i], wrapped);
        json_object_set_new(json_object_get(adapter, "tensors"), name, recipe);
    }
}

/* peft's get_peft_model_state_dict (save_embedding_layers "auto") saves lm_head and embed_tokens of
 * the base where they are adapted, and its logits are those without. */
static void tensors_that_equal_the_base_are_no_part_of_an_adapter(void **state) {
    (void)state;
    static const struct {
        const char *fixture, *wrapped, *type;
    } cases[] = {{"qwen2-ends", ".base_layer", "f32"}, {"gemma2-head", ".base_layer", "bf16"},
                 {"qwen2-ends", ".base_layer", "f16"}, {"qwen2-ends", "", "f32"},
                 {"qwen2-ends", ".base_layer", "q8"},  {"gemma2-head", ".base_layer", "q4m"},
                 {"gemma2-head", ".base_layer", "q2"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        AdapterFixture f = adapter_fixture_load(cases[i].fixture);
        char *source = fixture_source(&f.base), *direct = fixture_path(source, "direct.bin");
        float *logits[2];
        print_message("%s on %s\n", cases[i].fixture, cases[i].type);
        for (int more = 0; more < 2; more++) {
            Specs specs;
            Adapted a;
            const ModelOptions options = {.n_threads = 1};
            if (more) add_base_layers(&f, cases[i].wrapped);
            make_specs(&specs, &f);
            adapted_open(&a, source, cases[i].type, &options, KV_F32, specs.list, specs.n);
            logits[more] = tiny_model_run(&a.tiny, 0, 0, f.base.ids, 8, 8);
            adapted_close(&a);
            if (more && i == 0) merge(source, direct, &specs);
            if (more && i == 0) assert_true(worst_of(&f, direct) <= TOLERANCE);
            free_specs(&specs);
        }
        assert_same_bits(cases[i].type, logits[0], logits[1], 8 * f.base.vocab_size);
        free(logits[0]), free(logits[1]), free(direct);
        fixture_remove_directory(source);
        adapter_fixture_free(&f);
    }
}

/* ---- The same bits ---- */

/* Runs the text in calls of `chunk` rows on one instruction set; the caller frees the logits. */
static float *run_on(const AdapterFixture *f, const char *source, const char *type, const Isa *isa,
                     int threads, size_t chunk, const Specs *specs) {
    Adapted a;
    const ModelOptions options = {.isa = isa, .n_threads = threads};
    adapted_open(&a, source, type, &options, KV_F16, specs->list, specs->n);
    float *logits = tiny_model_run(&a.tiny, 0, 0, f->base.ids, f->base.n_ids, chunk);
    adapted_close(&a);
    return logits;
}

static void bits_do_not_depend_on_threads_chunks_or_instruction_sets(void **state) {
    (void)state;
    static const char *const cases[] = {"qwen2-two", "gemma2-head", "qwen3_moe-experts"},
                             *const types[] = {"f32", "q8", "q8"};
    for (size_t c = 0; c < 3; c++) {
        AdapterFixture f = adapter_fixture_load(cases[c]);
        Specs specs;
        make_specs(&specs, &f);
        char *source = fixture_source(&f.base);
        size_t n = f.base.n_ids * f.base.vocab_size;
        float *expected = run_on(&f, source, types[c], isa_available(0), 1, f.base.n_ids, &specs);
        for (size_t i = 0; isa_available(i); i++) {
            const size_t chunks[] = {1, 7, 48};
            float *logits = run_on(&f, source, types[c], isa_available(i), 1 + (int)(i % 2),
                                   chunks[i % 3], &specs);
            assert_same_bits(isa_available(i)->name, expected, logits, n);
            free(logits);
        }
        free(expected);
        fixture_remove_directory(source);
        free_specs(&specs);
        adapter_fixture_free(&f);
    }
}

/* Runs one more row of each sequence in one pass. */
static void step(Adapted *a, const int32_t *ids, int32_t position, size_t n, float *logits) {
    Row rows[8];
    Error error;
    for (size_t i = 0; i < n; i++) rows[i] = (Row){(int32_t)i, position, ids[position], true};
    if (model_forward(a->tiny.model, a->tiny.cache, rows, n, logits, &error) != STATUS_OK)
        fail_msg("%s", error.text);
}

static void rows_have_the_bits_of_their_adapters(const char *name) {
    AdapterFixture f = adapter_fixture_load(name);
    Specs specs;
    Adapted a;
    make_specs(&specs, &f);
    char *source = fixture_source(&f.base);
    const ModelOptions options = {.n_threads = 2};
    adapted_open(&a, source, "q8", &options, KV_F16, specs.list, specs.n);
    Lora *lora = a.opening.adapters.lora;
    assert_int_equal(lora_all(lora), 3);
    enum { SEQUENCES = 8 };
    static const uint64_t of[SEQUENCES] = {1, 2, 0, 3, 1, 0, 2, 1};
    size_t vocab = f.base.vocab_size, n_ids = 16;
    float *alone[4], *mixed = malloc(SEQUENCES * vocab * sizeof *mixed);
    for (uint64_t mask = 0; mask < 4; mask++) {
        assert_true(lora_select(lora, 0, mask));
        alone[mask] = tiny_model_run(&a.tiny, 0, 0, f.base.ids, n_ids, 16);
    }
    float *plain = NULL;
    TinyModel base = tiny_model_open(source, "q8", &options, KV_F16);
    plain = tiny_model_run(&base, 0, 0, f.base.ids, n_ids, 16);
    assert_same_bits("no adapter", plain, alone[0], n_ids * vocab);
    assert_int_not_equal(memcmp(alone[1], alone[2], vocab * sizeof *mixed), 0);
    for (int32_t i = 0; i < SEQUENCES; i++) {
        kvcache_reset(a.tiny.cache, i, 0);
        assert_true(lora_select(lora, i, of[i]));
    }
    for (size_t at = 0; at < n_ids; at++) {
        step(&a, f.base.ids, (int32_t)at, SEQUENCES, mixed);
        for (size_t i = 0; i < SEQUENCES; i++)
            assert_same_bits("mixed", alone[of[i]] + at * vocab, mixed + i * vocab, vocab);
    }
    for (size_t i = 0; i < 4; i++) free(alone[i]);
    free(plain);
    free(mixed);
    tiny_model_close(&base);
    adapted_close(&a);
    fixture_remove_directory(source);
    free_specs(&specs);
    adapter_fixture_free(&f);
}

static void a_row_has_the_bits_of_its_adapters_beside_any_others(void **state) {
    (void)state;
    rows_have_the_bits_of_their_adapters("qwen2-two");
    rows_have_the_bits_of_their_adapters("qwen3_moe-experts");
}

/* ---- The definition ---- */

/* Stands between the forward pass and the adapters: computes what they are to give in plain C. */
typedef struct Witness {
    PassObserver observer; /* the first field */
    PassObserver *adapters;
    const Adapted *adapted;
    const AdapterOpening *read; /* the adapters' factors */
    size_t n_checked;
} Witness;

static size_t witness_begin(PassObserver *observer, const Row *rows, size_t n, const float **x) {
    const Witness *w = (const Witness *)observer;
    return w->adapters->begin(w->adapters, rows, n, x);
}

static const AdapterPart *part_for(const Witness *w, size_t adapter, const void *data) {
    const Adapter *a = &w->read->items[adapter].adapter;
    for (size_t i = 0; i < a->n_parts; i++) {
        const FileTensor *tensor = modelfile_find(w->adapted->tiny.file, a->parts[i].name);
        if (modelfile_data(w->adapted->tiny.file, tensor) == data) return &a->parts[i];
    }
    return NULL;
}

/* The bias of the tensor with this data; NULL: none. */
static const float *bias_for(const Witness *w, const void *data) {
    const ModelFile *file = w->adapted->tiny.file;
    for (size_t i = 0; i < modelfile_n_tensors(file); i++) {
        const FileTensor *t = modelfile_tensor(file, i);
        char name[MODELFILE_NAME_BYTES + 8];
        snprintf(name, sizeof name, "%s.bias", t->name);
        const FileTensor *bias = modelfile_find(file, name);
        if (modelfile_data(file, t) == data) return bias ? modelfile_data(file, bias) : NULL;
    }
    return NULL;
}

/* y[i] = fma(scale, (B (A x))[i], y[i]) */
static void add_by_definition(const AdapterPart *p, float scale, const float *x, float *y) {
    for (size_t i = 0; i < p->rows; i++) {
        float sum = 0.0f;
        for (size_t k = 0; k < p->rank; k++) {
            float inner = 0.0f;
            for (size_t c = 0; c < p->cols; c++)
                inner = fmaf(p->cols_factor[k * p->cols + c], x[c], inner);
            sum = fmaf(p->rows_factor[i * p->rank + k], inner, sum);
        }
        y[i] = fmaf(scale, sum, y[i]);
    }
}

static void witness_multiplied(PassObserver *observer, const ProductSet *sets, size_t n_sets) {
    Witness *w = (Witness *)observer;
    assert_int_equal(n_sets, 1);
    for (size_t p = 0; p < sets->n_products; p++) {
        const ProductSet one = {sets->x, sets->n_rows, &sets->products[p], 1, NULL};
        const Product *product = &sets->products[p];
        size_t rows = product->w->rows, n = sets->n_rows;
        const float *bias = bias_for(w, product->w->data);
        const AdapterPart *parts[] = {part_for(w, 0, product->w->data),
                                      part_for(w, 1, product->w->data)};
        float *expected = malloc(n * rows * sizeof *expected);
        assert_non_null(expected);
        for (size_t r = 0; r < n; r++) {
            float *y = expected + r * rows;
            memcpy(y, product->out + r * product->stride, rows * sizeof *y);
            for (size_t i = 0; bias && (parts[0] || parts[1]) && i < rows; i++) y[i] += bias[i];
            for (size_t a = 0; a < 2; a++)
                if (parts[a])
                    add_by_definition(parts[a], adapter_spec_scale(&w->read->items[a], parts[a]),
                                      sets->x + r * product->w->cols, y);
        }
        w->adapters->multiplied(w->adapters, &one, 1);
        for (size_t r = 0; r < n; r++)
            assert_same_bits("the definition", expected + r * rows,
                             product->out + r * product->stride, rows);
        w->n_checked += parts[0] || parts[1];
        free(expected);
    }
}

static void products_with_adapters_are_as_defined_on_any_type(void **state) {
    (void)state;
    static const char *const types[] = {"f32", "bf16", "q8", "q4", "q4m"};
    AdapterFixture f = adapter_fixture_load("qwen2-two");
    Specs specs;
    make_specs(&specs, &f);
    char *source = fixture_source(&f.base);
    for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
        Adapted a;
        Error error;
        const ModelOptions options = {.n_threads = 1};
        adapted_open(&a, source, types[t], &options, KV_F16, specs.list, specs.n);
        AdapterOpening read = {0};
        OptionList list = {.n = specs.n};
        memcpy(list.items, specs.list, sizeof specs.list);
        const AdapterBase base = adapter_base_of_file(a.tiny.file);
        if (adapter_opening_begin(&read, &list, &error) != STATUS_OK ||
            adapter_opening_read(&read, &base, "base", &error) != STATUS_OK)
            fail_msg("%s", error.text);
        Witness witness = {.observer = {.begin = witness_begin,
                                        .multiplied = witness_multiplied,
                                        .reads_inputs = true},
                           .adapters = lora_observer(a.opening.adapters.lora),
                           .adapted = &a,
                           .read = &read};
        model_remove_observer(a.tiny.model, witness.adapters);
        model_add_observer(a.tiny.model, &witness.observer);
        free(tiny_model_run(&a.tiny, 0, 0, f.base.ids, 5, 5));
        assert_true(witness.n_checked > 20);
        adapter_opening_close(&read);
        adapted_close(&a);
    }
    fixture_remove_directory(source);
    free_specs(&specs);
    adapter_fixture_free(&f);
}

/* ---- What is refused ---- */

/* Opens the adapter on the base; returns the error, or "" when it is taken. */
static const char *refusal(const AdapterFixture *f, json_t *config, json_t *tensors) {
    static Error error;
    Adapted a = {0};
    char *directory = adapter_directory(config, tensors), *source = fixture_source(&f->base);
    const OptionList list = {.items = {directory}, .n = 1};
    const ModelOptions options = {.n_threads = 1};
    a.tiny = tiny_model_open(source, "f32", &options, KV_F32);
    a.session.model = a.tiny.model;
    a.session.file = a.tiny.file;
    error.text[0] = '\0';
    if (adapter_opening_begin(&a.opening, &list, &error) == STATUS_OK)
        adapter_opening_start(&a.opening, &a.session, &error);
    adapted_close(&a);
    fixture_remove_directory(source);
    fixture_remove_directory(directory);
    return error.text;
}

static void assert_refused(const AdapterFixture *f, json_t *config, json_t *tensors,
                           const char *why) {
    const char *error = refusal(f, config, tensors);
    if (!strstr(error, why)) fail_msg("refused with '%s', not '%s'", error, why);
}

static void what_is_not_plain_lora_is_refused_by_name(void **state) {
    (void)state;
    static const struct {
        const char *key, *value, *why;
    } cases[] = {
        {"use_dora", "true", "use_dora is true: DoRA"},
        {"bias", "\"all\"", "bias is 'all'"},
        {"lora_bias", "true", "lora_bias is true"},
        {"modules_to_save", "[\"lm_head\"]", "modules_to_save is [\"lm_head\"]: whole modules"},
        {"layer_replication", "[[0,2]]", "layer_replication"},
        {"trainable_token_indices", "[3]", "trainable_token_indices"},
        {"peft_type", "\"IA3\"", "peft_type is 'IA3'"},
        {"init_lora_weights", "\"pissa\"", "init_lora_weights"},
        {"use_unheard", "1", "the key 'use_unheard' is not known"},
        {"r", "5", "rank 5, but its factors have rank 4"},
        {"lora_alpha", "1e300", "lora_alpha"},
        {"alpha_pattern", "{\"(\":1}", "not a regular expression"},
        {"rank_pattern", "{\"q_proj\":\"2\"}", "not a number"},
        {"rank_pattern", "{\"k_proj\":7}", "rank 7"},
    };
    AdapterFixture f = adapter_fixture_load("llama-attention");
    json_t *adapter = json_array_get(json_object_get(f.json, "adapters"), 0);
    json_t *tensors = json_object_get(adapter, "tensors");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        json_t *config = json_deep_copy(json_object_get(adapter, "config"));
        json_object_set_new(config, cases[i].key,
                            json_loads(cases[i].value, JSON_DECODE_ANY, NULL));
        assert_refused(&f, config, tensors, cases[i].why);
        json_decref(config);
    }
    adapter_fixture_free(&f);
}

static void tensors_that_do_not_fit_the_model_are_refused(void **state) {
    (void)state;
#define Q "base_model.model.model.layers.0.self_attn.q_proj."
    static const struct {
        const char *remove, *name, *recipe, *why;
    } cases[] = {
        {Q "lora_B.weight", NULL, NULL, "only one of the two factors"},
        {Q "lora_B.weight", Q "lora_B.weight", "[20,0.25,0,[72,3]]", "A has rank 4 and B rank 3"},
        {Q "lora_A.weight", Q "lora_A.weight", "[20,0.25,0,[4,61]]", "expected"},
        {Q "lora_B.weight", Q "lora_B.weight", "[20,0.25,0,[61,4]]", "expected"},
        {Q "lora_B.weight", Q "lora_B.weight", "[20,0.25,0,[72,4,1]]", "not a plain matrix"},
        {Q "lora_B.weight", Q "lora_B.weight", "[20,1e39,0,[72,4]]", "not a finite number"},
        {NULL, Q "lora_magnitude_vector", "[20,1,0,[60]]", "DoRA"},
        {NULL, "base_model.model.lm_head.weight", "[20,1,0,[131,60]]", "whole tensors"},
        {NULL, "base_model.model.model.layers.99.mlp.up_proj.lora_A.weight", "[20,1,0,[4,60]]",
         "only one"},
    };
    AdapterFixture f = adapter_fixture_load("llama-attention");
    json_t *adapter = json_array_get(json_object_get(f.json, "adapters"), 0);
    json_t *config = json_object_get(adapter, "config");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        json_t *tensors = json_deep_copy(json_object_get(adapter, "tensors"));
        if (cases[i].remove) json_object_del(tensors, cases[i].remove);
        if (cases[i].name)
            json_object_set_new(tensors, cases[i].name, json_loads(cases[i].recipe, 0, NULL));
        assert_refused(&f, config, tensors, cases[i].why);
        json_decref(tensors);
    }
    AdapterFixture ends = adapter_fixture_load("qwen2-ends");
    for (int i = 0; i < 2; i++) {
        static const char *const names[] = {"base_model.model.lm_head.base_layer.weight",
                                            "base_model.model.model.embed_tokens.weight"};
        json_t *changed = json_array_get(json_object_get(ends.json, "adapters"), 0);
        json_t *all = json_deep_copy(json_object_get(changed, "tensors"));
        json_object_set_new(
            all, names[i],
            json_pack("[i, f, f, [i, i]]", 20, 1.0, 0.0, (int)ends.base.vocab_size, 60));
        assert_refused(&ends, json_object_get(changed, "config"), all,
                       "is not that of this model: whole tensors");
        json_decref(all);
    }
    adapter_fixture_free(&ends);
    json_t *tensors = json_object();
#define EXPERTS "base_model.model.model.layers.0.mlp.experts.base_layer."
    json_object_set_new(tensors, EXPERTS "lora_A.weight", json_loads("[20,1,0,[8,60]]", 0, NULL));
    json_object_set_new(tensors, EXPERTS "lora_B.weight", json_loads("[20,1,0,[64,8]]", 0, NULL));
    assert_refused(&f, config, tensors, "which is no parameter of 0 experts");
    json_object_clear(tensors);
    json_object_set_new(tensors, "base_model.model.model.layers.0.mlp.router.lora_A.weight",
                        json_loads("[20,1,0,[4,60]]", 0, NULL));
    json_object_set_new(tensors, "base_model.model.model.layers.0.mlp.router.lora_B.weight",
                        json_loads("[20,1,0,[8,4]]", 0, NULL));
    assert_refused(&f, config, tensors, "which is not a matrix of a model of type 'llama'");
    json_decref(tensors);
    adapter_fixture_free(&f);
}

/* ---- The program ---- */

/* A model.bin and two adapters, "one" and "two". */
typedef struct Place {
    char *directory, *model, *paths[2], *input, *output, *session;
    char specs[2][512];
} Place;

static void make_place(Place *p) {
    p->directory = fixture_directory();
    p->model = small_model(p->directory, NULL);
    p->input = fixture_path(p->directory, "requests.jsonl");
    p->output = fixture_path(p->directory, "results.jsonl");
    p->session = fixture_path(p->directory, "session");
    for (int i = 0; i < 2; i++) {
        p->paths[i] = adapter_of_small_model(i ? "two" : "one", i ? 4 : 2);
        snprintf(p->specs[i], sizeof p->specs[i], "%s=%s", i ? "two" : "one", p->paths[i]);
    }
}

static void free_place(Place *p) {
    fixture_remove_directory(p->paths[0]);
    fixture_remove_directory(p->paths[1]);
    fixture_remove_directory(p->directory);
    free(p->model), free(p->input), free(p->output), free(p->session);
}

/* The text of a result line, as JSON; the caller frees it. */
static char *text_of(const char *line) {
    json_t *json = json_loads(line, JSON_DISABLE_EOF_CHECK | JSON_ALLOW_NUL, NULL);
    char *text = json_dumps(json_object_get(json, "text"), JSON_ENCODE_ANY);
    if (!text) fail_msg("%s", line);
    json_decref(json);
    return text;
}

/* Longer than a page of the cache, so that texts wait for others that compute the same prefix. */
#define PROMPT                                                                                     \
    "the rain and the sun, the wind and the snow, the day and the night, the sea and the land, "   \
    "the hand and the stone"

/* The text that a batch of one line gives with the adapter (NULL: with none, "": with both). */
static char *text_alone(const Place *p, const char *adapter) {
    static const char line[] = "{\"prompt\": \"" PROMPT "\", \"temperature\": 0}\n";
    const char *argv[16] = {"run", p->model, "--batch", "-", "-n", "12"};
    size_t n = 6;
    for (int i = 0; i < 2; i++) {
        if (!adapter || (*adapter && strcmp(adapter, i ? "two" : "one") != 0)) continue;
        argv[n++] = "--lora";
        argv[n++] = p->specs[i];
    }
    Process process = process_run(argv, line, sizeof line - 1);
    if (process.status != 0) fail_msg("%s", process.err);
    char *text = text_of(process.out);
    process_free(&process);
    return text;
}

static void a_batch_selects_adapters_by_the_model_that_a_request_names(void **state) {
    (void)state;
    static const struct {
        const char *field, *alone;
    } kinds[] = {{"\"model\": \"one\", ", "one"},
                 {"\"model\": \"two\", ", "two"},
                 {"\"model\": \"random:tiny\", ", NULL},
                 {"", ""}};
    Place p;
    make_place(&p);
    char *expected[4];
    for (int k = 0; k < 4; k++) expected[k] = text_alone(&p, kinds[k].alone);
    assert_string_not_equal(expected[0], expected[1]);
    assert_string_not_equal(expected[0], expected[2]);
    enum { LINES = 24 };
    FILE *f = fopen(p.input, "w");
    assert_non_null(f);
    for (int i = 0; i < LINES; i++) /* one prompt, so that prefixes could be shared wrongly */
        fprintf(f, "{%s\"prompt\": \"" PROMPT "\", \"temperature\": 0}\n", kinds[i % 4].field);
    fclose(f);
    static const char *const most[] = {"1", "7", "24"};
    for (int m = 0; m < 3; m++) {
        remove(p.output);
        Process b =
            RUN("run", p.model, "--lora", p.specs[0], "--lora", p.specs[1], "--batch", p.input,
                "-o", p.output, "--ordered", "-n", "12", "--special", "--max-concurrent", most[m]);
        if (b.status != 0) fail_msg("%d: %s", b.status, b.err);
        process_free(&b);
        size_t length;
        char *results = file_read(p.output, &length), *line = results;
        for (int i = 0; i < LINES; i++) {
            char *text = text_of(line);
            if (strcmp(text, expected[i % 4]) != 0)
                fail_msg("line %d, at most %s: '%s', expected '%s'", i, most[m], text,
                         expected[i % 4]);
            free(text);
            line = strchr(line, '\n') + 1;
        }
        free(results);
    }
    for (int k = 0; k < 4; k++) free(expected[k]);
    free_place(&p);
}

static void a_batch_refuses_a_model_that_is_no_adapter(void **state) {
    (void)state;
    Place p;
    make_place(&p);
    static const char line[] = "{\"model\": \"three\", \"prompt\": \"a\"}\n";
    Process b = process_run((const char *const[]){"run", p.model, "--lora", p.specs[0], "--batch",
                                                  "-", "-n", "3", NULL},
                            line, sizeof line - 1);
    assert_int_equal(b.status, 3);
    if (!strstr(b.out, "'three' is neither the model's name 'random:tiny' nor an adapter's, 'one'"))
        fail_msg("%s", b.out);
    process_free(&b);
    /* Without adapters any name will do, as before. */
    b = process_run((const char *const[]){"run", p.model, "--batch", "-", "-n", "3", NULL}, line,
                    sizeof line - 1);
    assert_int_equal(b.status, 0);
    process_free(&b);
    free_place(&p);
}

static void a_conversation_with_other_adapters_is_refused(void **state) {
    (void)state;
    Place p;
    make_place(&p);
    Process first = RUN("run", p.model, "-m", "chat", "--lora", p.specs[0], "--session", p.session,
                        "-i", "hello", "-n", "3");
    Process again = RUN("run", p.model, "-m", "chat", "--lora", p.specs[0], "--session", p.session,
                        "-i", "hello", "-n", "3");
    Process other = RUN("run", p.model, "-m", "chat", "--lora", p.specs[1], "--session", p.session,
                        "-i", "hello", "-n", "3");
    Process none = RUN("run", p.model, "-m", "chat", "--session", p.session, "-i", "x", "-n", "3");
    if (first.status || again.status) fail_msg("%s%s", first.err, again.err);
    assert_int_equal(other.status, 1);
    assert_int_equal(none.status, 1);
    assert_non_null(strstr(other.err, "or other adapters"));
    process_free(&first), process_free(&again), process_free(&other), process_free(&none);
    free_place(&p);
}

static void info_and_wrong_arguments_name_the_adapter(void **state) {
    (void)state;
    Place p;
    make_place(&p);
    Process info = RUN("run", p.model, "--info", "--lora", p.specs[1]);
    if (!strstr(info.out, "adapter             two, ") || !strstr(info.out, "2 matrices, rank 4"))
        fail_msg("%s%s", info.out, info.err);
    process_free(&info);
    char twice[512], missing[600];
    snprintf(twice, sizeof twice, "two=%s:0.5", p.paths[0]);
    snprintf(missing, sizeof missing, "x=%s/none", p.paths[0]);
    Process both = RUN("run", p.model, "--lora", p.specs[1], "--lora", twice, "-i", "a");
    Process none = RUN("run", p.model, "--lora", missing, "-i", "a");
    assert_int_equal(both.status, 2);
    assert_non_null(strstr(both.err, "two adapters are called 'two'"));
    assert_int_equal(none.status, 1);
    assert_non_null(strstr(none.err, "No such file"));
    process_free(&both);
    process_free(&none);
    free_place(&p);
}

/* --why with one model against the same with an adapter. */
static void why_compares_a_model_with_itself_and_a_merged_adapter(void **state) {
    (void)state;
    Place p;
    make_place(&p);
    char *merged = fixture_path(p.directory, "merged.bin");
    file_write(p.input, PROMPT, strlen(PROMPT));
    Process beside =
        RUN("run", p.model, "--lora", p.specs[0], "--eval", p.input, "--against", p.model, "--why");
    PROCESS_SAYS(beside, 2, "merge the adapter (export --lora) and compare the result");
    Process made = RUN("export", p.model, merged, "-q", "--lora", p.specs[0]);
    if (made.status) fail_msg("%s", made.err);
    Process why = RUN("run", merged, "--eval", p.input, "--against", p.model, "--why");
    if (why.status) fail_msg("%s", why.err);
    assert_non_null(strstr(why.out, "answers; 2 tensors differ\n"));
    assert_non_null(strstr(why.out, "\n  --keep layers."));
    process_free(&made), process_free(&why);
    free(merged);
    free_place(&p);
}

/* test_adapters [NAME...]: only the logits of these fixtures. */
int main(int argc, char **argv) {
    static char *usual[] = {"llama-attention", "phi3-fused",        "qwen2-two",
                            "qwen2-ends",      "gpt2-all",          "gemma2-head",
                            "qwen3_5-states",  "qwen3_moe-experts", "qwen3_moe-parameters"};
    enum { MOST_NAMES = 64 };
    char **names = argc > 1 ? argv + 1 : usual;
    size_t n = argc > 1 ? (size_t)argc - 1 : sizeof usual / sizeof *usual;
    const struct CMUnitTest others[] = {
        cmocka_unit_test(logits_on_quantized_bases_are_those_of_peft),
        cmocka_unit_test(adapters_and_models_of_either_format_go_together),
        cmocka_unit_test(adapters_follow_the_order_of_the_heads_of_states),
        cmocka_unit_test(a_gguf_adapter_of_embeddings_is_read),
        cmocka_unit_test(bits_do_not_depend_on_threads_chunks_or_instruction_sets),
        cmocka_unit_test(a_row_has_the_bits_of_its_adapters_beside_any_others),
        cmocka_unit_test(products_with_adapters_are_as_defined_on_any_type),
        cmocka_unit_test(what_is_not_plain_lora_is_refused_by_name),
        cmocka_unit_test(tensors_that_equal_the_base_are_no_part_of_an_adapter),
        cmocka_unit_test(tensors_that_do_not_fit_the_model_are_refused),
        cmocka_unit_test(a_batch_selects_adapters_by_the_model_that_a_request_names),
        cmocka_unit_test(a_batch_refuses_a_model_that_is_no_adapter),
        cmocka_unit_test(a_conversation_with_other_adapters_is_refused),
        cmocka_unit_test(info_and_wrong_arguments_name_the_adapter),
        cmocka_unit_test(why_compares_a_model_with_itself_and_a_merged_adapter),
    };
    enum { OTHERS = sizeof others / sizeof *others };
    struct CMUnitTest tests[2 * MOST_NAMES + OTHERS];
    if (n > MOST_NAMES) n = MOST_NAMES;
    for (size_t i = 0; i < 2 * n; i++)
        tests[i] = (struct CMUnitTest){.name = names[i % n],
                                       .test_func = i < n ? logits_are_those_of_peft
                                                          : a_merged_model_gives_the_same_logits,
                                       .initial_state = names[i % n]};
    memcpy(tests + 2 * n, others, sizeof others);
    return _cmocka_run_group_tests("adapters", tests, 2 * n + (argc > 1 ? 0 : OTHERS), NULL, NULL);
}
