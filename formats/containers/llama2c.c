#include "formats/containers/llama2c.h"

#include <stdlib.h>
#include <string.h>

#include "core/config_fields.h"
#include "formats/family/rope.h"

enum { HEADER_BYTES = 256 };

typedef struct Checkpoint {
    Source *source;
    Error *error;
    int version;
    bool shared;
    uint32_t group;  /* version 2 */
    uint64_t offset; /* of the next tensor */
    bool overflow;   /* the sizes do not fit into 64 bits */
} Checkpoint;

/* Reads the header into the Config. A legacy one is seven numbers, where a negative vocab_size
 * means an output head of its own; versions 1 and 2 have a magic and say so in a byte. */
static Status read_header(Checkpoint *c) {
    const InputFile *file = &c->source->files[0];
    size_t at = 0;
    int32_t h[7];
    if (memcmp(file->map, "24ka", 4) == 0) {
        if (file->bytes < HEADER_BYTES)
            return error_set(c->error, "%s: cut off inside its header", file->path);
        memcpy(&c->version, file->map + 4, 4);
        if (c->version != 1 && c->version != 2)
            return error_set(c->error, "%s: llama2.c checkpoint of version %d; 1 and 2 are known",
                             file->path, c->version);
        at = 8;
    }
    memcpy(h, file->map + at, sizeof h);
    c->shared = h[5] > 0;
    if (c->version) c->shared = file->map[at + sizeof h] != 0;
    if (c->version == 2) memcpy(&c->group, file->map + at + sizeof h + 1, 4);
    c->offset = c->version ? HEADER_BYTES : sizeof h;

    for (int i = 0; i < 7; i++)
        if (h[i] == 0 || (h[i] < 0 && (i != 5 || c->version)) || h[i] == INT32_MIN)
            return error_set(c->error, "%s: header: number %d is %d", file->path, i, h[i]);
    Config *config = &c->source->config;
    config->dim = (uint32_t)h[0];
    config->ffn_dim = (uint32_t)h[1];
    config->n_layers = (uint32_t)h[2];
    config->n_heads = (uint32_t)h[3];
    config->n_kv_heads = (uint32_t)h[4];
    config->vocab_size = (uint32_t)abs(h[5]);
    config->context = (uint32_t)h[6];
    if (config->dim % config->n_heads != 0)
        return error_set(c->error, "%s: header: dim %u is not a multiple of n_heads %u", file->path,
                         config->dim, config->n_heads);
    if (c->version == 2 && (c->group == 0 || c->group > 1 << 16))
        return error_set(c->error, "%s: header: group size %u", file->path, c->group);
    return STATUS_OK;
}

static void fill_config(Source *source) {
    Config *c = &source->config;
    strcpy(c->family, "llama");
    c->head_dim = c->rotary_dim = c->dim / c->n_heads;
    c->rope_pairing = ROPE_INTERLEAVED;
    c->attention_scale = 1.0f / __builtin_sqrtf((float)c->head_dim);
    /* llama2.c's run.c begins a text with token 1, ends it at the next 1, and ends a turn of a chat
     * at token 2. */
    if (c->vocab_size <= 2) return;
    c->bos_id = 1;
    c->add_bos = true;
    c->n_eos = 2;
    c->eos_id[0] = 1;
    c->eos_id[1] = 2;
}

/* Adds `count` tensors of one kind, which follow each other in the file. A name that begins with
 * "layers." stands for one in each layer: the number goes after that. */
static bool llama2c_add(Checkpoint *c, const char *name, size_t count, size_t rows, size_t cols) {
    bool is_vector = rows == 1;
    for (size_t i = 0; i < count; i++) {
        char full[MODELFILE_NAME_BYTES];
        if (count > 1 || strncmp(name, "layers.", 7) == 0) {
            const char *rest = name + strlen("layers.");
            __builtin_snprintf(full, sizeof full, "layers.%zu.%s", i, rest);
        } else {
            __builtin_snprintf(full, sizeof full, "%s", name);
        }
        SourceTensor *t = source_add(c->source, c->error, "%s", full);
        if (!t) return false;
        t->is_vector = is_vector;
        t->rows = t->stored_rows = rows;
        t->cols = t->stored_cols = cols;
        t->offset = c->offset;
        size_t elements, bytes;
        bool quantized = c->version == 2 && !is_vector;
        t->stored = quantized ? STORED_LLAMA2C_Q8 : STORED_F32;
        if (!size_mul(rows, cols, &elements) ||
            !size_mul(elements, quantized ? 1 : sizeof(float), &bytes)) {
            c->overflow = true;
            return true;
        }
        if (quantized) {
            t->group = c->group;
            if (elements % c->group != 0) {
                error_set(c->error, "%s: header: group size %u does not divide %s", c->source->path,
                          c->group, full);
                return false;
            }
            bytes += elements / c->group * sizeof(float);
        }
        c->overflow = c->overflow || __builtin_add_overflow(c->offset, bytes, &c->offset);
    }
    return true;
}

/* Lists the tensors in the order of the file. Legacy checkpoints have the embedding first and the
 * norms between the matrices; versions 1 and 2 begin with the norms. */
static bool add_tensors(Checkpoint *c) {
    const Config *p = &c->source->config;
    size_t n = p->n_layers, dim = p->dim, kv_dim = (size_t)p->n_kv_heads * p->head_dim;
    size_t ffn = p->ffn_dim, vocab = p->vocab_size;
    bool ok = true;
    if (c->version) {
        ok = ok && llama2c_add(c, "layers.attention_norm", n, 1, dim);
        ok = ok && llama2c_add(c, "layers.ffn_norm", n, 1, dim);
        ok = ok && llama2c_add(c, "final_norm", 1, 1, dim);
        ok = ok && llama2c_add(c, "token_embedding", 1, vocab, dim);
    } else {
        ok = ok && llama2c_add(c, "token_embedding", 1, vocab, dim);
        ok = ok && llama2c_add(c, "layers.attention_norm", n, 1, dim);
    }
    ok = ok && llama2c_add(c, "layers.wq", n, dim, dim);
    ok = ok && llama2c_add(c, "layers.wk", n, kv_dim, dim);
    ok = ok && llama2c_add(c, "layers.wv", n, kv_dim, dim);
    ok = ok && llama2c_add(c, "layers.wo", n, dim, dim);
    if (!c->version) ok = ok && llama2c_add(c, "layers.ffn_norm", n, 1, dim);
    ok = ok && llama2c_add(c, "layers.w_gate", n, ffn, dim);
    ok = ok && llama2c_add(c, "layers.w_down", n, dim, ffn);
    ok = ok && llama2c_add(c, "layers.w_up", n, ffn, dim);
    if (!c->version) {
        ok = ok && llama2c_add(c, "final_norm", 1, 1, dim);
        /* The tables of cosines and sines, which nothing reads any more. */
        uint64_t tables = (uint64_t)p->context * (p->head_dim / 2) * 2 * sizeof(float);
        c->overflow = c->overflow || __builtin_add_overflow(c->offset, tables, &c->offset);
    }
    if (!ok) return false;
    if (!c->shared) return llama2c_add(c, "output", 1, vocab, dim);
    return source_add_shared(c->source, "output", "token_embedding", vocab, dim, c->error) ==
           STATUS_OK;
}

Status llama2c_parse(Source *source, Error *error) {
    Checkpoint c = {.source = source, .error = error};
    if (read_header(&c) != STATUS_OK) return STATUS_FAILED;
    fill_config(source);
    if (config_validate(&source->config, error) != STATUS_OK)
        return error_prefix(error, "%s: header", source->path);
    if (!add_tensors(&c)) return STATUS_FAILED;
    const InputFile *file = &source->files[0];
    if (c.overflow || c.offset != file->bytes)
        return error_set(error, "%s: %llu bytes, but a llama2.c checkpoint of this shape has %llu",
                         file->path, (unsigned long long)file->bytes,
                         (unsigned long long)(c.overflow ? UINT64_MAX : c.offset));
    return source_add_values(
        source, "rope.freqs", 1, source->config.rotary_dim / 2,
        rope_inverse_frequencies(source->config.rope_theta, source->config.rotary_dim), error);
}
