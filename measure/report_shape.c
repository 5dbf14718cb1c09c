#include "measure/report_shape.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const ReportShape standard = {.dim = 1024,
                                     .n_layers = 16,
                                     .n_heads = 16,
                                     .n_kv_heads = 4,
                                     .ffn_dim = 4096,
                                     .vocab_size = 32000,
                                     .context = 1024};
static const ReportShape small = {.dim = 256,
                                  .n_layers = 2,
                                  .n_heads = 4,
                                  .n_kv_heads = 2,
                                  .ffn_dim = 512,
                                  .vocab_size = 512,
                                  .context = 1024};

const ReportShape *report_shape(bool quick) {
    return quick ? &small : &standard;
}

void report_shape_name(const ReportShape *s, char *name, size_t size) {
    snprintf(name, size,
             "random:dim=%" PRIu32 ",n_layers=%" PRIu32 ",n_heads=%" PRIu32 ",n_kv_heads=%" PRIu32
             ",ffn_dim=%" PRIu32 ",vocab_size=%" PRIu32 ",context=%" PRIu32,
             s->dim, s->n_layers, s->n_heads, s->n_kv_heads, s->ffn_dim, s->vocab_size, s->context);
}

/* ---- GGUF, version 3 ---- */

/* Numbers of the format (ggml's docs/gguf.md). */
enum {
    GGUF_VERSION = 3,
    GGUF_ALIGNMENT = 32,
    VALUE_UINT32 = 4,
    VALUE_FLOAT32 = 6,
    VALUE_STRING = 8
};
enum { GGUF_F32 = 0, GGUF_Q8_0 = 8, FILE_MOSTLY_Q8_0 = 7, BLOCK_INPUTS = 32, BLOCK_BYTES = 34 };

static void put_uint(FILE *out, uint64_t value, int bytes) {
    for (int i = 0; i < bytes; i++) putc((int)(value >> 8 * i & 255), out);
}

static void put_text(FILE *out, const char *text) {
    put_uint(out, strlen(text), 8);
    fputs(text, out);
}

static void put_number(FILE *out, const char *key, uint32_t value) {
    put_text(out, key);
    put_uint(out, VALUE_UINT32, 4);
    put_uint(out, value, 4);
}

static void put_string(FILE *out, const char *key, const char *value) {
    put_text(out, key);
    put_uint(out, VALUE_STRING, 4);
    put_text(out, value);
}

static void put_metadata(FILE *out, const ReportShape *s) {
    const float epsilon = 1e-5f;
    uint32_t bits;
    memcpy(&bits, &epsilon, sizeof bits);
    put_string(out, "general.architecture", "llama");
    put_string(out, "tokenizer.ggml.model", "no_vocab");
    put_number(out, "general.file_type", FILE_MOSTLY_Q8_0);
    put_number(out, "llama.block_count", s->n_layers);
    put_number(out, "llama.context_length", s->context);
    put_number(out, "llama.embedding_length", s->dim);
    put_number(out, "llama.feed_forward_length", s->ffn_dim);
    put_number(out, "llama.attention.head_count", s->n_heads);
    put_number(out, "llama.attention.head_count_kv", s->n_kv_heads);
    put_number(out, "llama.rope.dimension_count", s->dim / s->n_heads);
    put_number(out, "llama.vocab_size", s->vocab_size);
    put_text(out, "llama.attention.layer_norm_rms_epsilon");
    put_uint(out, VALUE_FLOAT32, 4);
    put_uint(out, bits, 4);
}
enum { METADATA = 12 };

/* A tensor; rows 0: a vector of float32. */
typedef struct GgufTensor {
    char name[48];
    uint32_t rows, cols;
} GgufTensor;

/* The tensors of layer l, or of what stands around the layers for l = n_layers. Returns how many.
 */
static size_t list_tensors(const ReportShape *s, uint32_t l, GgufTensor tensors[9]) {
    const uint32_t kv_dim = s->dim / s->n_heads * s->n_kv_heads;
    const GgufTensor around[] = {{"token_embd.weight", s->vocab_size, s->dim},
                                 {"output_norm.weight", 0, s->dim},
                                 {"output.weight", s->vocab_size, s->dim}};
    const GgufTensor layer[] = {{"attn_norm", 0, s->dim},         {"attn_q", s->dim, s->dim},
                                {"attn_k", kv_dim, s->dim},       {"attn_v", kv_dim, s->dim},
                                {"attn_output", s->dim, s->dim},  {"ffn_norm", 0, s->dim},
                                {"ffn_gate", s->ffn_dim, s->dim}, {"ffn_up", s->ffn_dim, s->dim},
                                {"ffn_down", s->dim, s->ffn_dim}};
    if (l == s->n_layers) {
        memcpy(tensors, around, sizeof around);
        return sizeof around / sizeof *around;
    }
    for (size_t i = 0; i < sizeof layer / sizeof *layer; i++) {
        tensors[i] = layer[i];
        snprintf(tensors[i].name, sizeof tensors[i].name, "blk.%" PRIu32 ".%.20s.weight", l,
                 layer[i].name);
    }
    return sizeof layer / sizeof *layer;
}

static uint64_t tensor_bytes(const GgufTensor *t) {
    return t->rows == 0 ? (uint64_t)t->cols * sizeof(float)
                        : (uint64_t)t->rows * (t->cols / BLOCK_INPUTS) * BLOCK_BYTES;
}

/* Describes a tensor that lies at *offset, and moves that behind it. */
static void put_description(FILE *out, const GgufTensor *t, uint64_t *offset) {
    put_text(out, t->name);
    put_uint(out, t->rows ? 2 : 1, 4);
    put_uint(out, t->cols, 8);
    if (t->rows) put_uint(out, t->rows, 8);
    put_uint(out, t->rows ? GGUF_Q8_0 : GGUF_F32, 4);
    put_uint(out, *offset, 8);
    *offset += round_up(tensor_bytes(t), GGUF_ALIGNMENT);
}

/* A vector of ones, or blocks of a scale of 2^-10 and codes that differ from block to block. */
static void put_weights(FILE *out, const GgufTensor *t) {
    static const float one = 1.0f;
    uint8_t block[BLOCK_BYTES] = {0x00, 0x14}; /* 2^-10 in float16 */
    uint64_t state = 1, bytes = tensor_bytes(t);
    if (t->rows == 0)
        for (uint32_t i = 0; i < t->cols; i++) fwrite(&one, sizeof one, 1, out);
    for (uint64_t i = 0; t->rows && i < bytes / BLOCK_BYTES; i++) {
        for (int k = 2; k < BLOCK_BYTES; k++) {
            state = state * 6364136223846793005u + 1442695040888963407u;
            block[k] = (uint8_t)(state >> 56);
        }
        fwrite(block, sizeof block, 1, out);
    }
    for (uint64_t i = bytes; i % GGUF_ALIGNMENT; i++) putc(0, out);
}

static void put_file(FILE *out, const ReportShape *s) {
    GgufTensor tensors[9];
    uint64_t offset = 0;
    fputs("GGUF", out);
    put_uint(out, GGUF_VERSION, 4);
    put_uint(out, 9 * (uint64_t)s->n_layers + 3, 8);
    put_uint(out, METADATA, 8);
    put_metadata(out, s);
    for (uint32_t l = 0; l <= s->n_layers; l++)
        for (size_t i = 0, n = list_tensors(s, l, tensors); i < n; i++)
            put_description(out, &tensors[i], &offset);
    for (long at = ftell(out); at >= 0 && at % GGUF_ALIGNMENT; at++) putc(0, out);
    for (uint32_t l = 0; l <= s->n_layers && !ferror(out); l++)
        for (size_t i = 0, n = list_tensors(s, l, tensors); i < n; i++)
            put_weights(out, &tensors[i]);
}

Status report_shape_gguf(const ReportShape *shape, int fd, Error *error) {
    int own = dup(fd);
    FILE *out = own >= 0 ? fdopen(own, "wb") : NULL;
    if (!out) {
        if (own >= 0) close(own);
        return error_set(error, "a temporary GGUF file: %s", strerror(errno));
    }
    put_file(out, shape);
    bool failed = ferror(out);
    if (fclose(out) != 0 || failed)
        return error_set(error, "a temporary GGUF file: %s", strerror(errno));
    return STATUS_OK;
}
