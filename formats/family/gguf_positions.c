#include "formats/family/gguf_positions.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "formats/family/alibi.h"
#include "formats/family/rope.h"

/* Reads how positions are scaled. A factor without a type is linear, as in llama.cpp. */
static Status read_scaling(const GgufModel *m, Rope *rope) {
    TokenizerString type = {"linear", 6};
    bool has_factor = gguf_model_float(m, "rope.scale_linear", &rope->factor);
    has_factor |= gguf_model_float(m, "rope.scaling.factor", &rope->factor);
    if (m->absent.scaling_type)
        type = (TokenizerString){m->absent.scaling_type, strlen(m->absent.scaling_type)};
    bool has_type = gguf_model_text(m, "rope.scaling.type", &type);
    if (!has_factor && !has_type && m->absent.scaling_factor > 0.0) {
        rope->factor = m->absent.scaling_factor;
        has_factor = true;
    }
    if (rope->factor == 0.0) rope->factor = 1.0; /* as in llama.cpp */
    if (!has_type && (!has_factor || rope->factor == 1.0)) return STATUS_OK;
    if (tokenizer_string_is(type, "yarn")) {
        rope->scaling = ROPE_YARN;
    } else if (tokenizer_string_is(type, "linear")) {
        rope->scaling = ROPE_LINEAR;
    } else if (tokenizer_string_is(type, "none") || tokenizer_string_is(type, "longrope")) {
        rope->scaling = ROPE_DEFAULT; /* LongRoPE is told by the tensors of its factors */
    } else {
        return error_set(m->error, "%s: RoPE scaling '%.*s' is not known to this program",
                         m->source->path, type.length < 40 ? (int)type.length : 40, type.bytes);
    }
    return STATUS_OK;
}

/* Reads the attention factor. With YaRN, rope.scaling.attn_factor multiplies the factor that YaRN
 * has by itself, and rope.scaling.yarn_attn_factor replaces it. */
static void read_attention_factor(const GgufModel *m, const GgufFamily *family, Rope *rope) {
    double factor = 0.0;
    if (rope->scaling == ROPE_LONGROPE) {
        gguf_model_float(m, "rope.scaling.attn_factor", &rope->attention_factor);
    } else if (rope->scaling == ROPE_YARN) {
        if (gguf_model_float(m, "rope.scaling.attn_factor", &factor))
            rope->attention_factor =
                factor * (rope->factor > 1.0 ? 0.1 * log(rope->factor) + 1.0 : 1.0);
        gguf_model_float(m, "rope.scaling.yarn_attn_factor", &rope->attention_factor);
        /* The multiplier of mscale_all_dim; mscale itself is 1. */
        if (gguf_model_float(m, "rope.scaling.yarn_log_multiplier", &rope->mscale_all_dim))
            rope->mscale = family->mscales_are_equal ? rope->mscale_all_dim : 1.0;
    }
}

/* Reads the first n values, one for each frequency and all positive, of a tensor of `stored` values
 * into malloc'ed *values; leaves NULL when the file has no such tensor. */
static Status read_factors(GgufModel *m, const char *name, size_t n, size_t stored,
                           float **values) {
    RawTensor *raw = raw_table_find(&m->table, name);
    if (!raw) return STATUS_OK;
    raw->used = true;
    if (raw->type != STORED_F32 || raw->n_dims != 1 || raw->dims[0] != stored)
        return error_set(m->error, "%s: tensor '%s' must hold %zu values of F32", m->source->path,
                         name, stored);
    *values = malloc((n + 1) * sizeof **values);
    if (!*values) return error_set(m->error, "%s: no memory", m->source->path);
    if (input_read(&m->source->files[raw->file], raw->offset, *values, n * sizeof **values,
                   m->error) != STATUS_OK)
        return STATUS_FAILED;
    for (size_t i = 0; i < n; i++)
        if (!((*values)[i] > 0.0f) || !isfinite((*values)[i]))
            return error_set(m->error, "%s: tensor '%s': element %zu is %g", m->source->path, name,
                             i, (double)(*values)[i]);
    return STATUS_OK;
}

/* Stretches the base by rope.scaling.alpha, as HunYuan VL's dynamic scaling does for any context.
 */
static void stretch_base(const GgufModel *m, double *theta) {
    double alpha = 0.0, dim = m->source->config.rotary_dim;
    if (gguf_model_float(m, "rope.scaling.alpha", &alpha) && alpha > 0.0 && dim > 2.0)
        *theta *= pow(alpha, dim / (dim - 2.0));
}

static double base_of(const GgufModel *m, const GgufFamily *family) {
    double theta = family->rope_theta > 0.0 ? family->rope_theta : 10000.0;
    gguf_model_float(m, "rope.freq_base", &theta);
    return theta;
}

/* Reads the RoPE of all layers, or of those without a window or with pools: base, scaling,
 * LongRoPE's factors. */
static Status read_rope(GgufModel *m, const GgufFamily *family, Rope *rope) {
    const Config *c = &m->source->config;
    double theta = base_of(m, family);
    if (family->compressed_rope) gguf_model_float(m, "attention.compress_rope_freq_base", &theta);
    stretch_base(m, &theta);
    *rope = rope_default(theta, c->rotary_dim);
    rope->original_context = c->context;
    rope->truncate = !family->yarn_keeps_ends;
    uint32_t original = 0;
    if (gguf_model_uint(m, "rope.scaling.original_context_length", &original))
        rope->original_context = original;
    if (read_scaling(m, rope) != STATUS_OK) return STATUS_FAILED;
    size_t n = rope->dim / 2;
    if (read_factors(m, "rope_factors_long.weight", n, n, &rope->factors) != STATUS_OK ||
        read_factors(m, "rope_factors_short.weight", n, n, &rope->short_factors) != STATUS_OK)
        return STATUS_FAILED;
    if (!rope->factors != !rope->short_factors)
        return error_set(m->error,
                         "%s: one of the tensors 'rope_factors_long.weight' and "
                         "'rope_factors_short.weight' is missing",
                         m->source->path);
    if (rope->factors) {
        rope->scaling = ROPE_LONGROPE;
        rope->factor = c->context / rope->original_context;
    }
    gguf_model_float(m, "rope.scaling.yarn_beta_fast", &rope->beta_fast);
    gguf_model_float(m, "rope.scaling.yarn_beta_slow", &rope->beta_slow);
    read_attention_factor(m, family, rope);
    if (family->compressed_rope && isnan(rope->attention_factor)) rope->attention_factor = 1.0;
    if (!(theta > 1.0) || !isfinite((float)theta) || !(rope->factor > 0.0) ||
        !(rope->original_context > 0.0 && rope->original_context < 1 << 28))
        return error_set(m->error, "%s: RoPE with base %g, factor %g and original context %g",
                         m->source->path, theta, rope->factor, rope->original_context);
    return STATUS_OK;
}

/* Divides the frequencies that were added last by rope_freqs.weight: Llama 3.1's scaling. */
static Status divide_frequencies(GgufModel *m, const GgufFamily *family) {
    const Config *c = &m->source->config;
    size_t n = c->rotary_dim / 2, local = c->rope_local_rotary_dim / 2;
    size_t stored = family->pads_rope_freqs && local > n ? local : n;
    float *divisors = NULL;
    Status status = read_factors(m, "rope_freqs.weight", n, stored, &divisors);
    float *freqs = (float *)m->source->tensors[m->source->n_tensors - 1].values;
    for (size_t i = 0; status == STATUS_OK && divisors && i < n; i++) {
        /* Gemma 4's files have 1e30 for elements that are not rotated. */
        freqs[i] = divisors[i] >= 1e30f ? 0.0f : freqs[i] / divisors[i];
        if (!isfinite(freqs[i]))
            status = error_set(m->error, "%s: tensor 'rope_freqs.weight': element %zu is %g",
                               m->source->path, i, (double)divisors[i]);
    }
    free(divisors);
    return status;
}

/* Adds the second RoPE table, which layers with a window use: it has no scaling, and a base of its
 * own (Gemma 3) or, with local_theta < 0, that of the other layers. With local_theta 0 the family
 * has no such table, and a second base is refused. */
static Status add_local_rope(GgufModel *m, const GgufFamily *family) {
    Config *c = &m->source->config;
    bool has_windows = false;
    for (uint32_t i = 0; i < c->n_layers; i++) has_windows = has_windows || c->window[i];
    double theta = base_of(m, family), local = family->local_theta;
    if (local < 0.0) local = theta;
    bool is_given = gguf_model_float(m, "rope.freq_base_swa", &local);
    if (family->local_theta == 0.0) {
        if (!is_given || local == theta || !has_windows) return STATUS_OK;
        return error_set(m->error, "%s: rope.freq_base_swa is not known for the architecture '%s'",
                         m->source->path, m->architecture);
    }
    if (!has_windows) return STATUS_OK;
    if (!(local > 1.0) || !isfinite((float)local))
        return error_set(m->error, "%s: rope.freq_base_swa is %g", m->source->path, local);
    for (uint32_t i = 0; i < c->n_layers; i++) c->rope_table[i] = c->window[i] ? 1 : 0;
    Rope rope =
        rope_default(local, c->rope_local_rotary_dim ? c->rope_local_rotary_dim : c->rotary_dim);
    return rope_add_local(m->source, &rope, m->error);
}

/* Adds both tables of GgufFamily.compressed_rope; `rope` is that of layers with pools. */
static Status add_compressed_rope(GgufModel *m, const GgufFamily *family, const Rope *rope) {
    double theta = base_of(m, family);
    if (!(theta > 1.0) || !isfinite((float)theta))
        return error_set(m->error, "%s: rope.freq_base is %g", m->source->path, theta);
    if (rope->scaling == ROPE_LONGROPE)
        return error_set(m->error, "%s: LongRoPE is not known for the architecture '%s'",
                         m->source->path, m->architecture);
    const Rope plain = rope_default(theta, rope->dim);
    if (rope_add(m->source, "rope.freqs", &plain, m->error) != STATUS_OK) return STATUS_FAILED;
    return rope_add_local(m->source, rope, m->error);
}

Status gguf_add_positions(GgufModel *m, const GgufFamily *family) {
    Config *c = &m->source->config;
    if (c->position == POSITION_ALIBI)
        return source_add_values(m->source, "alibi.slopes", 1, c->n_heads, alibi_slopes(c),
                                 m->error);
    if (c->position != POSITION_ROPE) return STATUS_OK;
    Rope rope;
    Status status = read_rope(m, family, &rope);
    if (family->compressed_rope) {
        if (status == STATUS_OK) status = add_compressed_rope(m, family, &rope);
        rope_free(&rope);
        return status;
    }
    if (status == STATUS_OK) status = rope_add(m->source, "rope.freqs", &rope, m->error);
    if (status == STATUS_OK) status = divide_frequencies(m, family);
    if (status == STATUS_OK) status = add_local_rope(m, family);
    rope_free(&rope);
    return status;
}
