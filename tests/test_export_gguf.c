/* Llama models as GGUF files give the reference's logits: tensor names, the row order of queries
 * and keys, split files, RoPE frequency divisors. The files are written here from the fixtures'
 * weights. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "convert/convert.h"
#include "convert/gguf_write.h"
#include "fixture.h"
#include "families/reading/source_open.h"
#include "formats/containers/source_floats.h"
#include "formats/stored/stored.h"
#include "gguf_fixture.h"
#include "process.h"
#include "tier.h"
#include "tiny_model.h"

/* ---- Writing GGUF ---- */

typedef struct Out {
    uint8_t *bytes;
    size_t n, capacity;
} Out;

static void put(Out *o, const void *bytes, size_t n) {
    if (o->n + n > o->capacity) {
        o->capacity = 2 * (o->n + n);
        o->bytes = realloc(o->bytes, o->capacity);
        assert_non_null(o->bytes);
    }
    memcpy(o->bytes + o->n, bytes, n);
    o->n += n;
}

static void put_u32(Out *o, uint32_t value) {
    put(o, &value, sizeof value);
}

static void put_u64(Out *o, uint64_t value) {
    put(o, &value, sizeof value);
}

static void put_text(Out *o, const char *text) {
    put_u64(o, strlen(text));
    put(o, text, strlen(text));
}

static void put_align(Out *o) {
    while (o->n % 32) put(o, "", 1);
}

enum { KV_UINT32 = 4, KV_FLOAT32 = 6, KV_TEXT = 8 };

static void put_number(Out *o, const char *key, uint32_t value) {
    put_text(o, key);
    put_u32(o, KV_UINT32);
    put_u32(o, value);
}

static void put_float(Out *o, const char *key, float value) {
    put_text(o, key);
    put_u32(o, KV_FLOAT32);
    put(o, &value, sizeof value);
}

/* Returns "FAMILY.name" in a static buffer that the next call overwrites. */
static const char *key(const char *name, const Config *c) {
    static char text[128];
    snprintf(text, sizeof text, "%s.%s", c->family, name);
    return text;
}

/* Writes the metadata and returns the number of key/value pairs. The keys begin with the family's
 * name, which is also GGUF's architecture. */
static uint32_t put_metadata(Out *o, const Config *c) {
    put_text(o, "general.architecture");
    put_u32(o, KV_TEXT);
    put_text(o, c->family);
    put_number(o, key("context_length", c), c->context);
    put_number(o, key("embedding_length", c), c->dim);
    put_number(o, key("block_count", c), c->n_layers);
    put_number(o, key("feed_forward_length", c), c->ffn_dim);
    put_number(o, key("attention.head_count", c), c->n_heads);
    put_number(o, key("attention.head_count_kv", c), c->n_kv_heads);
    put_number(o, key("attention.key_length", c), c->head_dim);
    put_number(o, key("attention.value_length", c), c->head_dim);
    put_number(o, key("rope.dimension_count", c), c->rotary_dim);
    put_float(o, key("attention.layer_norm_rms_epsilon", c), c->norm_eps);
    put_float(o, key("rope.freq_base", c), c->rope_theta);
    return 12;
}

typedef struct GgufTensor {
    char name[64];
    size_t rows, cols; /* rows 0: one dimension */
    float *values;
    uint32_t type; /* ggml_type; 0: F32, else `values` points at `bytes` bytes of blocks */
    size_t bytes;
} GgufTensor;

/* Writes file number `part` of `parts` with tensors[from, to). Part 0 also holds the metadata. */
static void write_gguf(const char *path, const Config *c, const GgufTensor *tensors, size_t from,
                       size_t to, uint32_t part, uint32_t parts) {
    Out pairs = {0}, infos = {0}, data = {0}, file = {0};
    uint32_t n_pairs = part == 0 ? put_metadata(&pairs, c) : 0;
    if (parts > 1) {
        put_number(&pairs, "split.no", part);
        put_number(&pairs, "split.count", parts);
        n_pairs += 2;
    }
    for (size_t i = from; i < to; i++) {
        const GgufTensor *t = &tensors[i];
        put_text(&infos, t->name);
        put_u32(&infos, t->rows ? 2 : 1);
        put_u64(&infos, t->cols);
        if (t->rows) put_u64(&infos, t->rows);
        put_u32(&infos, t->type);
        put_u64(&infos, data.n);
        put(&data, t->values,
            t->type ? t->bytes : (t->rows ? t->rows : 1) * t->cols * sizeof(float));
        put_align(&data);
    }
    put(&file, "GGUF", 4);
    put_u32(&file, part == 0 ? 3 : 2);
    put_u64(&file, to - from);
    put_u64(&file, n_pairs);
    if (pairs.n) put(&file, pairs.bytes, pairs.n);
    put(&file, infos.bytes, infos.n);
    put_align(&file);
    put(&file, data.bytes, data.n);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(file.bytes, 1, file.n, f), file.n);
    assert_int_equal(fclose(f), 0);
    free(pairs.bytes);
    free(infos.bytes);
    free(data.bytes);
    free(file.bytes);
}

/* ---- From a Hugging Face directory ---- */

/* Reorders the rows of wq or wk for GGUF, in each head: row i * head_dim / 2 + p moves to row 2p +
 * i (half i of rotated pair p). */
static void pair_rows(const SourceTensor *t, size_t head_dim, float *values) {
    float *from = malloc(t->rows * t->cols * sizeof *from);
    assert_non_null(from);
    memcpy(from, values, t->rows * t->cols * sizeof *from);
    for (size_t r = 0; r < t->rows; r++) {
        size_t head = r / head_dim, i = r % head_dim;
        size_t to = head * head_dim + (i < head_dim / 2 ? 2 * i : 2 * (i - head_dim / 2) + 1);
        memcpy(values + to * t->cols, from + r * t->cols, t->cols * sizeof *from);
    }
    free(from);
}

static bool gguf_name(const char *name, char *out, size_t size) {
    static const char *const names[][2] = {{"token_embedding", "token_embd.weight"},
                                           {"final_norm", "output_norm.weight"},
                                           {"output", "output.weight"},
                                           {"attention_norm", "attn_norm.weight"},
                                           {"wq", "attn_q.weight"},
                                           {"wk", "attn_k.weight"},
                                           {"wv", "attn_v.weight"},
                                           {"wo", "attn_output.weight"},
                                           {"ffn_norm", "ffn_norm.weight"},
                                           {"w_gate", "ffn_gate.weight"},
                                           {"w_up", "ffn_up.weight"},
                                           {"w_down", "ffn_down.weight"},
                                           {"wq.bias", "attn_q.bias"},
                                           {"wk.bias", "attn_k.bias"},
                                           {"wv.bias", "attn_v.bias"},
                                           {"q_norm", "attn_q_norm.weight"},
                                           {"k_norm", "attn_k_norm.weight"}};
    unsigned layer = 0;
    int start = 0;
    bool in_layer = sscanf(name, "layers.%u.%n", &layer, &start) == 1;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (strcmp(names[i][0], name + start) != 0) continue;
        if (in_layer)
            snprintf(out, size, "blk.%u.%s", layer, names[i][1]);
        else
            snprintf(out, size, "%s", names[i][1]);
        return true;
    }
    return false;
}

/* Reads a source's tensors, renames them for GGUF and permutes wq and wk. rope.freqs becomes
 * rope_freqs.weight, GGUF's divisors of the RoPE frequencies. Returns their number. */
static size_t read_tensors(const Source *source, GgufTensor *tensors) {
    size_t n = 0;
    Error error;
    const Config *c = &source->config;
    for (size_t i = 0; i < source->n_tensors; i++) {
        const SourceTensor *t = &source->tensors[i];
        GgufTensor *g = &tensors[n];
        if (t->shares) continue;
        g->values = malloc(t->rows * t->cols * sizeof(float));
        assert_int_equal(source_read_floats(source, t, 0, t->rows, g->values, &error), STATUS_OK);
        g->rows = t->is_vector ? 0 : t->rows;
        g->cols = t->cols;
        if (strcmp(t->name, "rope.freqs") == 0) {
            strcpy(g->name, "rope_freqs.weight");
            for (size_t k = 0; k < t->cols; k++) {
                float plain = 1.0f / powf(c->rope_theta, (float)(2 * k) / (float)c->rotary_dim);
                g->values[k] = plain / g->values[k];
            }
        } else if (!gguf_name(t->name, g->name, sizeof g->name)) {
            free(g->values);
            continue;
        }
        const char *last = strrchr(t->name, '.');
        bool is_llama = strcmp(c->family, "llama") == 0;
        if (is_llama && last && (strcmp(last, ".wq") == 0 || strcmp(last, ".wk") == 0))
            pair_rows(t, c->head_dim, g->values);
        n++;
    }
    return n;
}

/* Writes the fixture as a GGUF model of `parts` files and compares its logits with the
 * reference's. */
static void assert_reference_logits(const char *name, uint32_t parts) {
    Fixture fixture = fixture_load(name);
    char *directory = fixture_source(&fixture);
    Source *source;
    Error error;
    assert_int_equal(source_open(&source, directory, NULL, &error), STATUS_OK);
    assert_int_equal(source_parse(source, &error), STATUS_OK);
    GgufTensor *tensors = calloc(source->n_tensors, sizeof *tensors);
    size_t n = read_tensors(source, tensors);
    char paths[4][512];
    for (uint32_t i = 0; i < parts; i++) {
        snprintf(paths[i], sizeof paths[i], parts > 1 ? "%s/m-%05u-of-%05u.gguf" : "%s/m.gguf",
                 directory, i + 1, parts);
        write_gguf(paths[i], &source->config, tensors, n * i / parts, n * (i + 1) / parts, i,
                   parts);
    }
    TinyModel tiny = tiny_model_open(paths[0], NULL, &(ModelOptions){.n_threads = 2}, KV_F32);
    bool is_llama = strcmp(source->config.family, "llama") == 0;
    assert_int_equal(modelfile_config(tiny.file)->rope_pairing,
                     is_llama ? ROPE_INTERLEAVED : ROPE_HALVES);
    float *logits = tiny_model_run(&tiny, 0, 0, fixture.ids, fixture.n_ids, fixture.n_ids);
    double worst = 0.0;
    for (size_t i = 0; i < fixture.n_ids * fixture.vocab_size; i++)
        worst = fmax(worst, fabs(logits[i] - fixture.passes[0].logits[i]) / fixture.passes[0].std);
    print_message("%s in %u parts: at most %.1e standard deviations\n", name, parts, worst);
    assert_true(worst < 5e-5);
    free(logits);
    tiny_model_close(&tiny);
    for (size_t i = 0; i < n; i++) free(tensors[i].values);
    free(tensors);
    source_close(source);
    fixture_remove_directory(directory);
    fixture_free(&fixture);
}

static void a_llama_gives_the_reference_logits(void **state) {
    (void)state;
    assert_reference_logits("llama-gqa", 1);
    assert_reference_logits("llama-tied", 1);
    assert_reference_logits("llama-rope-llama3", 1);
}

static void other_families_give_the_reference_logits(void **state) {
    (void)state;
    assert_reference_logits("qwen2-tied", 1);
    assert_reference_logits("qwen3-gqa", 1);
    assert_reference_logits("gemma", 1);
}

static void split_files_give_the_reference_logits(void **state) {
    (void)state;
    assert_reference_logits("llama-mqa", 3);
}

static void parts_that_do_not_fit_are_refused(void **state) {
    (void)state;
    char *directory = fixture_directory(), path[512], second[512];
    float value = 1.0f;
    GgufTensor tensor = {.name = "x", .cols = 1, .values = &value};
    Config config = {.dim = 1};
    Error error;
    Source *source;
    snprintf(path, sizeof path, "%s/m-00001-of-00002.gguf", directory);
    snprintf(second, sizeof second, "%s/m-00002-of-00002.gguf", directory);
    write_gguf(path, &config, &tensor, 0, 1, 0, 2);
    assert_int_equal(source_open(&source, path, NULL, &error), STATUS_FAILED);
    assert_non_null(strstr(error.text, "m-00002-of-00002.gguf: No such file"));
    write_gguf(second, &config, &tensor, 0, 1, 1, 2);
    assert_int_equal(source_open(&source, second, NULL, &error), STATUS_FAILED);
    assert_non_null(strstr(error.text, "give the first"));
    assert_int_equal(source_open(&source, path, NULL, &error), STATUS_OK);
    assert_int_equal(source_parse(source, &error), STATUS_FAILED);
    assert_non_null(strstr(error.text, "two tensors are called 'x'"));
    source_close(source);
    unlink(second);
    char other[512];
    snprintf(other, sizeof other, "%s/renamed.gguf", directory);
    assert_int_equal(rename(path, other), 0);
    assert_int_equal(source_open(&source, other, NULL, &error), STATUS_OK);
    assert_int_equal(source_parse(source, &error), STATUS_FAILED);
    assert_non_null(strstr(error.text, "one of 2 parts"));
    source_close(source);
    fixture_remove_directory(directory);
}

/* Fills the matrices with random blocks of another type. `scale` holds up to two byte offsets of
 * f16 scales in a block (-1: none); these scales are made small. */
static void make_blocks(GgufTensor *tensors, size_t n, StoredType type, uint32_t number,
                        const int *scale) {
    const StoredTypeInfo *info = stored_type_info(type);
    uint64_t state = number;
    for (size_t i = 0; i < n; i++) {
        GgufTensor *t = &tensors[i];
        if (t->rows == 0) continue;
        t->type = number;
        assert_true(stored_bytes(type, t->rows * t->cols, &t->bytes));
        uint8_t *bytes = (uint8_t *)t->values;
        for (size_t k = 0; k < t->bytes; k++) {
            state = state * 6364136223846793005u + 1442695040888963407u;
            bytes[k] = (uint8_t)(state >> 56);
        }
        for (size_t k = 0; k < t->bytes; k += info->block_bytes)
            for (size_t s = 0; s < 2 && scale[s] >= 0; s++)
                bytes[k + (size_t)scale[s] + 1] = (uint8_t)(4 + bytes[k] % 8);
    }
}

/* Converts a file of such a type and expects `note` (NULL: no note) about the loss: from export,
 * and from run only on the first of two runs. */
static void assert_note(const char *path, const char *directory, const char *note) {
    char *target = fixture_path(directory, "m.bin"), *cache = fixture_path(directory, "cache");
    Process p = RUN("export", path, target, "--force");
    if (p.status) print_message("%s", p.err);
    assert_int_equal(p.status, 0);
    if (note) assert_non_null(strstr(p.err, note));
    assert_int_equal(strstr(p.err, "has no equal") != NULL, note != NULL);
    process_free(&p);
    for (int again = 0; again < 2; again++) {
        p = RUN("run", path, "--verify", "--cache-dir", cache);
        if (p.status) print_message("%s", p.err);
        assert_int_equal(p.status, 0);
        assert_int_equal(strstr(p.err, "has no equal") != NULL, note != NULL && !again);
        process_free(&p);
    }
    p = RUN("run", "--cache-clear", "--cache-dir", cache);
    process_free(&p);
    rmdir(cache);
    free(target);
    free(cache);
}

static void types_without_an_equal_say_what_their_conversion_cost(void **state) {
    (void)state;
    static const struct {
        StoredType type;
        uint32_t number;
        int scale[2];
        const char *note;
    } cases[] = {{STORED_Q2_K, 10, {80, 82}, NULL},  {STORED_IQ2_XXS, 16, {0, -1}, NULL},
                 {STORED_IQ1_S, 19, {0, -1}, NULL},  {STORED_IQ3_S, 21, {0, -1}, NULL},
                 {STORED_IQ4_XS, 23, {0, -1}, NULL}, {STORED_TQ1_0, 34, {52, -1}, NULL}};
    Source *source;
    Error error;
    assert_int_equal(source_open(&source, "random:tiny,dim=256,ffn_dim=512", NULL, &error),
                     STATUS_OK);
    assert_int_equal(source_parse(source, &error), STATUS_OK);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *directory = fixture_directory(), *path = fixture_path(directory, "m.gguf");
        GgufTensor *tensors = calloc(source->n_tensors, sizeof *tensors);
        size_t n = read_tensors(source, tensors);
        make_blocks(tensors, n, cases[i].type, cases[i].number, cases[i].scale);
        write_gguf(path, &source->config, tensors, 0, n, 0, 1);
        assert_note(path, directory, cases[i].note);
        for (size_t k = 0; k < n; k++) free(tensors[k].values);
        free(tensors);
        free(path);
        fixture_remove_directory(directory);
    }
    source_close(source);
}

/* Fills a matrix with random blocks of a type whose rows have a scale. Returns the blocks as they
 * are read, each with its row's scale; the tensor has them as a file does, the scale once. */
static uint8_t *make_scaled_rows(GgufTensor *t, StoredType type, uint32_t number) {
    const StoredTypeInfo *info = stored_type_info(type);
    const size_t scale = info->row_scale, of_row = t->cols / info->block;
    size_t bytes;
    make_blocks(t, 1, type, number, (int[]){(int)scale - 2, -1});
    assert_true(stored_file_bytes(type, t->rows * t->cols, t->cols, &bytes));
    uint8_t *blocks = malloc(t->bytes), *file = (uint8_t *)t->values;
    assert_non_null(blocks);
    memcpy(blocks, file, t->bytes);
    for (size_t b = 0; b < t->rows * of_row; b++) {
        uint8_t *block = blocks + b * info->block_bytes;
        if (b % of_row == 0) {
            memcpy(file, block, scale);
            file += scale;
        } else {
            memcpy(block, block - info->block_bytes, scale);
        }
        memcpy(file, block + scale, info->block_bytes - scale);
        file += info->block_bytes - scale;
    }
    assert_int_equal(file - (uint8_t *)t->values, bytes);
    t->bytes = bytes;
    return blocks;
}

/* Expects that the rows of the file's matrix have the values of the blocks. */
static void assert_rows(const char *path, const char *name, StoredType type,
                        const uint8_t *blocks) {
    Source *source;
    Error error;
    assert_int_equal(source_open(&source, path, NULL, &error), STATUS_OK);
    assert_int_equal(source_parse(source, &error), STATUS_OK);
    size_t i = 0;
    while (strcmp(source->tensors[i].name, name) != 0) assert_true(++i < source->n_tensors);
    const SourceTensor *t = &source->tensors[i];
    const size_t n = t->rows * t->cols;
    float *read = malloc(n * sizeof *read), *values = malloc(n * sizeof *values);
    stored_to_floats(type, blocks, n, values);
    assert_int_equal(source_read_floats(source, t, 0, t->rows, read, &error), STATUS_OK);
    assert_memory_equal(read, values, n * sizeof *read);
    assert_int_equal(source_read_floats(source, t, 3, 2, read, &error), STATUS_OK);
    assert_memory_equal(read, values + 3 * t->cols, 2 * t->cols * sizeof *read);
    free(read);
    free(values);
    source_close(source);
}

static void scales_of_rows_belong_to_all_blocks_of_a_row(void **state) {
    (void)state;
    static const struct {
        StoredType type;
        uint32_t number;
    } cases[] = {{STORED_IQ4_KS, 144}, {STORED_IQ2_KS, 145}};
    char *directory = fixture_directory(), *path = fixture_path(directory, "m.gguf");
    Source *source;
    Error error;
    assert_int_equal(source_open(&source, "random:tiny,dim=256,ffn_dim=512", NULL, &error),
                     STATUS_OK);
    assert_int_equal(source_parse(source, &error), STATUS_OK);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        GgufTensor *tensors = calloc(source->n_tensors, sizeof *tensors);
        uint8_t *down = NULL;
        size_t n = read_tensors(source, tensors);
        for (size_t k = 0; k < n; k++) {
            if (tensors[k].rows == 0) continue;
            uint8_t *blocks = make_scaled_rows(&tensors[k], cases[i].type, cases[i].number);
            if (strcmp(tensors[k].name, "blk.0.ffn_down.weight") == 0) {
                down = blocks;
            } else {
                free(blocks);
            }
        }
        write_gguf(path, &source->config, tensors, 0, n, 0, 1);
        assert_rows(path, "layers.0.w_down", cases[i].type, down);
        assert_note(path, directory, NULL);
        free(down);
        for (size_t k = 0; k < n; k++) free(tensors[k].values);
        free(tensors);
    }
    source_close(source);
    free(path);
    fixture_remove_directory(directory);
}

/* Adds "NAME.scale" and "NAME.input_scale" of `count` numbers beside the first n tensors. Returns
 * the new number of tensors. */
static size_t add_factors(GgufTensor *tensors, size_t n, float factor, size_t count) {
    size_t all = n;
    for (size_t i = 0; i < n; i++) {
        if (tensors[i].rows == 0) continue;
        for (int input = 0; input < 2; input++) {
            GgufTensor *t = &tensors[all++];
            const GgufTensor *weight = &tensors[i];
            size_t stem = strlen(weight->name) - strlen(".weight");
            assert_true(stem + sizeof ".input_scale" <= sizeof t->name);
            memcpy(t->name, weight->name, stem);
            strcpy(t->name + stem, input ? ".input_scale" : ".scale");
            t->cols = count;
            t->values = calloc(count, sizeof *t->values);
            for (size_t k = 0; k < count; k++) t->values[k] = input ? 0.5f : factor;
        }
    }
    return all;
}

/* Writes a model of NVFP4 blocks whose scales are 2^-shift of what they are otherwise, beside
 * factors (0: none) of `count` numbers. */
static void write_nvfp4(const Source *source, const char *path, int shift, float factor,
                        size_t count) {
    GgufTensor *tensors = calloc(3 * source->n_tensors, sizeof *tensors);
    size_t n = read_tensors(source, tensors), all;
    make_blocks(tensors, n, STORED_NVFP4, 40, (int[]){-1, -1});
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; tensors[i].rows && k < tensors[i].bytes; k += 36)
            for (size_t s = 0; s < 4; s++) {
                uint8_t *code = (uint8_t *)tensors[i].values + k + s;
                *code = (uint8_t)(32 + *code % 24 - 8 * shift);
            }
    all = factor != 0.0f ? add_factors(tensors, n, factor, count) : n;
    write_gguf(path, &source->config, tensors, 0, all, 0, 1);
    for (size_t i = 0; i < all; i++) free(tensors[i].values);
    free(tensors);
}

/* Expects that the file converted to f32 is the file converted without loss and then to f32. */
static void assert_same_floats(const char *path, const char *directory) {
    char *target[3];
    char *bytes[2];
    size_t length[2];
    for (int i = 0; i < 3; i++)
        target[i] =
            fixture_path(directory, (const char *[]){"direct.bin", "own.bin", "f32.bin"}[i]);
    const char *const from[] = {path, path, target[1]};
    for (int i = 0; i < 3; i++) {
        Process p = RUN("export", from[i], target[i], "-q", i == 1 ? NULL : "-t", "f32");
        PROCESS_SAYS(p, 0, "");
    }
    for (int i = 0; i < 2; i++) bytes[i] = file_read(target[2 * i], &length[i]);
    assert_int_equal(length[0], length[1]);
    assert_memory_equal(bytes[0], bytes[1], length[0]);
    for (int i = 0; i < 2; i++) free(bytes[i]);
    for (int i = 0; i < 3; i++) {
        unlink(target[i]);
        free(target[i]);
    }
}

/* NVFP4 weights are multiplied with the factor beside them, the scales of activations are left out
 * with a note, and a factor of another shape is refused. */
static void factors_beside_nvfp4_weights_are_multiplied_in(void **state) {
    (void)state;
    static const char note[] = "scales for rounding activations are left out";
    char *directory = fixture_directory(), *path = fixture_path(directory, "m.gguf");
    char *target = fixture_path(directory, "m.bin");
    int32_t ids[] = {3, 1, 4, 1, 5, 9};
    float *logits[2];
    Source *source;
    Error error;
    assert_int_equal(source_open(&source, "random:tiny,dim=256,ffn_dim=512", NULL, &error),
                     STATUS_OK);
    assert_int_equal(source_parse(source, &error), STATUS_OK);
    for (int i = 0; i < 2; i++) {
        write_nvfp4(source, path, i ? 3 : 0, i ? 8.0f : 0.0f, 1);
        Process p = RUN("export", path, target, "--force");
        assert_int_equal(p.status, 0);
        assert_int_equal(strstr(p.err, note) != NULL, i == 1);
        assert_null(strstr(p.err, "has no equal"));
        process_free(&p);
        TinyModel tiny = tiny_model_open(path, NULL, &(ModelOptions){.n_threads = 1}, KV_F32);
        logits[i] = tiny_model_run(&tiny, 0, 0, ids, 6, 6);
        if (i == 1) assert_memory_equal(logits[0], logits[1], 6 * tiny.vocab_size * sizeof(float));
        tiny_model_close(&tiny);
    }
    write_nvfp4(source, path, 0, 1.1f, 1);
    assert_note(path, directory, NULL);
    assert_same_floats(path, directory);
    write_nvfp4(source, path, 0, NAN, 1);
    Process p = RUN("export", path, target, "-f");
    PROCESS_SAYS(p, 1, "holds a scale that is not finite");
    write_nvfp4(source, path, 0, 0x1p97f, 1);
    p = RUN("export", path, target, "-f");
    PROCESS_SAYS(p, 1, "has the scale 1.58456e+29, and the largest that is read is 2^96");
    write_nvfp4(source, path, 0, 1.1f, 2);
    p = RUN("export", path, target, "-f");
    PROCESS_SAYS(p, 1, ".scale' holds more than one");
    free(logits[0]);
    free(logits[1]);
    free(path);
    free(target);
    source_close(source);
    fixture_remove_directory(directory);
}

/* --type nvfp4 of a matrix that is NVFP4, with a factor or without one, in GGUF or in a model.bin,
 * takes it as it is. */
static void nvfp4_of_nvfp4_is_not_rounded_again(void **state) {
    (void)state;
    static const char type[] = "nvfp4,token_embedding=nvfp4,output=nvfp4";
    char *directory = fixture_directory(), *path = fixture_path(directory, "m.gguf"), *target[3];
    const char *const names[] = {"as-it-is.bin", "named.bin", "again.bin"};
    Source *source;
    Error error;
    for (int i = 0; i < 3; i++) target[i] = fixture_path(directory, names[i]);
    assert_int_equal(source_open(&source, "random:tiny,dim=256,ffn_dim=512", NULL, &error),
                     STATUS_OK);
    assert_int_equal(source_parse(source, &error), STATUS_OK);
    for (int i = 0; i < 2; i++) {
        write_nvfp4(source, path, 0, i ? 1.1f : 0.0f, 1);
        Process p = RUN("export", path, target[0], "-f", "-q");
        PROCESS_SAYS(p, 0, "");
        p = RUN("export", path, target[1], "-f", "-q", "-t", type);
        PROCESS_SAYS(p, 0, "");
        p = RUN("export", target[0], target[2], "-f", "-t", type);
        assert_int_equal(p.status, 0);
        assert_null(strstr(p.err, "rounded a second time"));
        process_free(&p);
        size_t length[3];
        char *bytes[3];
        for (int k = 0; k < 3; k++) bytes[k] = file_read(target[k], &length[k]);
        for (int k = 1; k < 3; k++) {
            assert_int_equal(length[k], length[0]);
            assert_memory_equal(bytes[k], bytes[0], length[0]);
        }
        for (int k = 0; k < 3; k++) free(bytes[k]);
    }
    for (int i = 0; i < 3; i++) free(target[i]);
    free(path);
    source_close(source);
    fixture_remove_directory(directory);
}

static void cut_the_end(const char *path) {
    struct stat info;
    assert_int_equal(stat(path, &info), 0);
    assert_int_equal(truncate(path, info.st_size - 64), 0);
}

static void a_file_that_shrinks_meanwhile_is_named_once(void **state) {
    (void)state;
    char *directory = fixture_directory(), *path = fixture_path(directory, "m.gguf");
    Source *source;
    Error error;
    assert_int_equal(source_open(&source, "random:tiny,dim=256,ffn_dim=512", NULL, &error),
                     STATUS_OK);
    assert_int_equal(source_parse(source, &error), STATUS_OK);
    write_nvfp4(source, path, 0, 0.0f, 1);
    source_close(source);
    const ConvertOptions options = {.n_threads = 1};
    int fd = memfd_create("target", MFD_CLOEXEC);
    assert_int_equal(convert_open(&source, path, &options.source, &error), STATUS_OK);
    cut_the_end(path);
    Status status = source_parse(source, &error);
    if (status == STATUS_OK) status = convert_parsed(source, &options, fd, &error);
    assert_int_equal(status, STATUS_FAILED);
    source_close(source);
    const char *name = strstr(error.text, path);
    if (!name || strstr(name + 1, path) || !strstr(name, ": became shorter while it was read"))
        fail_msg("%s", error.text);
    close(fd);
    free(path);
    fixture_remove_directory(directory);
}

/* ---- GGUF files that export writes ---- */

static void assert_refused(const char *from, const char *to, const char *type, const char *why) {
    Process p = RUN("export", from, to, "-f", "-t", type);
    assert_int_equal(p.status, 1);
    assert_non_null(strstr(p.err, why));
    process_free(&p);
}

/* Converts `from` to `to` with --type `type` ("": as the source). */
static void assert_exported(const char *from, const char *to, const char *type) {
    Process p = type[0] ? RUN("export", from, to, "-f", "-q", "-t", type)
                        : RUN("export", from, to, "-f", "-q");
    if (p.status) print_message("%s", p.err);
    assert_int_equal(p.status, 0);
    process_free(&p);
}

static void assert_same_tensors(const char *a, const char *b) {
    ModelFile *x, *y;
    Error error;
    if (modelfile_open(&x, a, -1, &error) != STATUS_OK) fail_msg("%s", error.text);
    if (modelfile_open(&y, b, -1, &error) != STATUS_OK) fail_msg("%s", error.text);
    assert_int_equal(modelfile_n_tensors(x), modelfile_n_tensors(y));
    for (size_t i = 0; i < modelfile_n_tensors(x); i++) {
        const FileTensor *t = modelfile_tensor(x, i), *u = modelfile_find(y, t->name);
        assert_non_null(u);
        assert_int_equal(t->type, u->type);
        assert_int_equal(t->bytes, u->bytes);
        assert_memory_equal(modelfile_data(x, t), modelfile_data(y, u), t->bytes);
    }
    modelfile_close(x);
    modelfile_close(y);
}

static void a_gguf_file_that_export_writes_holds_the_tensors_of_its_model(void **state) {
    (void)state;
    static const char *const types[] = {"q8",    "f16",   "",     "q4",   "q4_min", "q5_k",
                                        "q6_k",  "q3_k",  "q4_k", "q2_k", "q4_nl",  "iq4_xs",
                                        "mxfp4", "tq2_0", "q2_0", "q1_0", "q5_0",   "q5_1"};
    char *directory = fixture_directory(), *path = fixture_path(directory, "m.gguf");
    char *written = fixture_path(directory, "w.gguf"), *model = fixture_path(directory, "m.bin");
    char *again = fixture_path(directory, "w.bin");
    Source *source;
    Error error;
    /* All matrices have whole panels, so that all of their bytes are of weights. */
    assert_int_equal(source_open(&source,
                                 "random:tiny,dim=256,ffn_dim=256,vocab_size=272,n_layers=1", NULL,
                                 &error),
                     STATUS_OK);
    assert_int_equal(source_parse(source, &error), STATUS_OK);
    GgufTensor *tensors = calloc(source->n_tensors, sizeof *tensors);
    size_t n = read_tensors(source, tensors);
    write_gguf(path, &source->config, tensors, 0, n, 0, 1);
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        if (!tier_takes(i, 8, 1)) continue;
        assert_exported(path, written, types[i]);
        assert_exported(path, model, types[i]);
        assert_exported(written, again, "");
        assert_same_tensors(model, again);
    }
    /* What cannot be written is named, and the file that was there stays. */
    assert_exported(path, written, "");
    assert_exported(path, model, "");
    assert_refused(path, written, "iq2", "as GGUF: it has no blocks for iq2");
    assert_exported(written, again, "");
    assert_same_tensors(model, again);
    assert_refused(model, written, "q8", "is not a GGUF file, and a .gguf is made of one alone");
    for (size_t k = 0; k < n; k++) free(tensors[k].values);
    free(tensors);
    source_close(source);
    free(path);
    free(written);
    free(model);
    free(again);
    fixture_remove_directory(directory);
}

/* DeepSeek V4's table of each token's experts. */
static void whole_numbers_of_a_gguf_file_are_copied(void **state) {
    (void)state;
    char *directory = fixture_directory(), *path = fixture_path(directory, "m.gguf");
    char *written = fixture_path(directory, "w.gguf"), *model = fixture_path(directory, "m.bin");
    char *again = fixture_path(directory, "w.bin");
    json_t *gguf = gguf_fixture_load("deepseek_v4");
    gguf_fixture_write(gguf, path, STORED_F32, false);
    assert_exported(path, written, "f16");
    assert_exported(path, model, "f16");
    assert_exported(written, again, "");
    assert_same_tensors(model, again);
    json_decref(gguf);
    free(path);
    free(written);
    free(model);
    free(again);
    fixture_remove_directory(directory);
}

/* --target-size chooses among these. */
static void a_type_is_held_by_a_gguf_file_where_rows_are_whole_blocks(void **state) {
    (void)state;
    assert_true(gguf_write_holds(TENSOR_Q4_K, 512));
    assert_false(gguf_write_holds(TENSOR_Q4_K, 544));
    assert_true(gguf_write_holds(TENSOR_Q4_NL, 544));
    assert_false(gguf_write_holds(TENSOR_Q8, 40));
    assert_true(gguf_write_holds(TENSOR_F16, 40));
    assert_true(gguf_write_holds(TENSOR_BF16_ACT, 40));
    assert_false(gguf_write_holds(TENSOR_IQ2, 512));
}

static void parts_of_a_matrix_with_two_types_are_named(void **state) {
    (void)state;
    char *directory = fixture_directory(), *path = fixture_path(directory, "fused.gguf");
    char *written = fixture_path(directory, "written.gguf");
    json_t *gguf = gguf_fixture_load("gpt2");
    gguf_fixture_write(gguf, path, STORED_F32, false);
    json_decref(gguf);
    assert_refused(path, written, "q3",
                   "'blk.0.attn_qkv.weight' as GGUF: its parts must have one type, but "
                   "'layers.0.wq' becomes q3_k and 'layers.0.wv' q5_k; choose the same for both "
                   "(--keep)");
    free(path), free(written);
    fixture_remove_directory(directory);
}

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_llama_gives_the_reference_logits),
        cmocka_unit_test(other_families_give_the_reference_logits),
        cmocka_unit_test(a_gguf_file_that_export_writes_holds_the_tensors_of_its_model),
        cmocka_unit_test(whole_numbers_of_a_gguf_file_are_copied),
        cmocka_unit_test(a_type_is_held_by_a_gguf_file_where_rows_are_whole_blocks),
        cmocka_unit_test(split_files_give_the_reference_logits),
        cmocka_unit_test(parts_that_do_not_fit_are_refused),
        cmocka_unit_test(types_without_an_equal_say_what_their_conversion_cost),
        cmocka_unit_test(scales_of_rows_belong_to_all_blocks_of_a_row),
        cmocka_unit_test(factors_beside_nvfp4_weights_are_multiplied_in),
        cmocka_unit_test(nvfp4_of_nvfp4_is_not_rounded_again),
        cmocka_unit_test(a_file_that_shrinks_meanwhile_is_named_once),
        cmocka_unit_test(parts_of_a_matrix_with_two_types_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
