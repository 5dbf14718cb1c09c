/* A model from opening to closing: the working memory, the RoPE tables that depend on the context,
 * and what the model says of itself. The forward pass: model.c. */
#include "model_internal.h"

#include <stdlib.h>

/* ---- Working memory ---- */

static size_t widest_ffn(const Config *c) {
    size_t widest = c->ffn_dim;
    if (c->n_experts > 0 && c->expert_ffn_dim > widest) widest = c->expert_ffn_dim;
    if (c->n_experts > 0 && c->shared_ffn_dim > widest) widest = c->shared_ffn_dim;
    return widest;
}

/* Largest input of any product. */
static size_t widest_input(const Config *c) {
    size_t widest = c->dim, q_dim = (size_t)c->n_heads * c->head_dim;
    if (q_dim > widest) widest = q_dim;
    return widest_ffn(c) > widest ? widest_ffn(c) : widest;
}

/* n rows of `width` floats, 64-byte aligned; sets *failed when there is no memory. */
static float *rows_of(size_t n, size_t width, bool *failed) {
    size_t bytes;
    if (!size_mul(n, width, &bytes) || !size_mul(bytes, sizeof(float), &bytes) ||
        bytes > SIZE_MAX / 2) {
        *failed = true;
        return NULL;
    }
    float *rows = aligned_alloc(64, round_up(bytes ? bytes : 1, 64));
    if (!rows) {
        *failed = true;
        return NULL;
    }
    return rows;
}

static Status allocate(Model *m, Error *error) {
    const Config *c = m->config;
    size_t n = m->max_rows, q_dim = (size_t)c->n_heads * c->head_dim;
    size_t kv_dim = (size_t)c->n_kv_heads * c->head_dim;
    bool failed = false;
    m->x = rows_of(n, c->dim, &failed);
    m->normed = rows_of(n, c->dim, &failed);
    m->normed2 = rows_of(c->parallel_block ? n : 0, c->dim, &failed);
    m->y = rows_of(n, c->dim, &failed);
    m->z = rows_of(c->parallel_block ? n : 0, c->dim, &failed);
    m->q = rows_of(n, q_dim, &failed);
    m->attended = rows_of(n, q_dim, &failed);
    m->k = rows_of(n, kv_dim, &failed);
    m->v = rows_of(n, kv_dim, &failed);
    m->gate = rows_of(n, widest_ffn(c), &failed);
    m->up = rows_of(n, widest_ffn(c), &failed);
    size_t n_slots = n * c->n_experts_used;
    m->routing = rows_of(n, c->n_experts, &failed);
    m->shares = rows_of(n, c->n_experts_used, &failed);
    m->expert_in = rows_of(c->n_experts ? n : 0, c->dim, &failed);
    m->expert_out = rows_of(c->n_experts ? n : 0, c->dim, &failed);
    m->chosen = calloc(n_slots + 1, sizeof *m->chosen);
    m->expert_slots = calloc(n_slots + 1, sizeof *m->expert_slots);
    m->expert_first = calloc(c->n_experts + 1, sizeof *m->expert_first);
    for (int table = 0; table < 2; table++) {
        size_t width = m->weights.rope_freqs[table] ? c->rotary_dim / 2 : 0;
        m->cosine[table] = rows_of(n, width, &failed);
        m->sine[table] = rows_of(n, width, &failed);
    }
    m->places = calloc(n, sizeof *m->places);
    m->matmul = matmul_memory_new(m->isa->kernels, n, widest_input(c), m->n_threads);
    m->attention = attention_memory_new(c->head_dim, m->n_threads);
    if (failed || !m->places || !m->matmul || !m->attention || !m->chosen || !m->expert_slots ||
        !m->expert_first)
        return error_set(error,
                         "%s: no memory for the activations of %zu rows (a smaller --chunk "
                         "needs less)",
                         modelfile_path(m->file), n);
    return STATUS_OK;
}

/* ---- RoPE tables of the context ---- */

/* A table of plain RoPE: base^(-2i / rotary_dim). */
static Status make_frequencies(Model *m, float base, Error *error) {
    const Config *c = m->config;
    size_t n = c->rotary_dim / 2;
    m->scaled_freqs = malloc(n * sizeof *m->scaled_freqs);
    if (!m->scaled_freqs) return error_set(error, "no memory for RoPE frequencies");
    for (size_t i = 0; i < n; i++)
        m->scaled_freqs[i] =
            1.0f / (float)power((double)base, (double)((float)(2 * i) / (float)c->rotary_dim));
    m->weights.rope_freqs[0] = m->scaled_freqs;
    return STATUS_OK;
}

/* RoPE tables that depend on the context: LongRoPE's choice between two, and the dynamic
 * scaling by "neural tangent kernel", as transformers has it for a text that fills the context. */
static Status scale_positions(Model *m, float theta, Error *error) {
    const Config *c = m->config;
    double original = c->rope_original_context, factor = (double)c->rope_dynamic_factor;
    bool is_long = m->context > c->rope_original_context;
    if (c->position != POSITION_ROPE) return STATUS_OK;
    if (theta != 0.0f) return make_frequencies(m, theta, error);
    if (original == 0) return STATUS_OK;
    if (factor == 0 && !is_long) m->weights.rope_freqs[0] = m->weights.rope_freqs_short;
    if (factor == 0 || !is_long) return STATUS_OK;
    double dim = c->rotary_dim, stretch = factor * m->context / original - (factor - 1);
    return make_frequencies(m, (float)((double)c->rope_theta * power(stretch, dim / (dim - 2))),
                            error);
}

/* ---- Opening and closing ---- */

Status model_open(Model **out, const ModelFile *file, const ModelOptions *options, Error *error) {
    Model *m = calloc(1, sizeof *m);
    if (!m) return error_set(error, "no memory for a model");
    m->file = file;
    m->config = modelfile_config(file);
    m->isa = options->isa ? options->isa : isa_choose(NULL, error);
    m->n_threads = options->n_threads > 0 ? options->n_threads : threads_default();
    m->context = options->context ? options->context : m->config->context;
    m->max_rows = options->max_rows ? options->max_rows : MATMUL_MAX_ROWS;
    if (m->max_rows > MATMUL_MAX_ROWS) m->max_rows = MATMUL_MAX_ROWS;
    if (m->max_rows > m->context && !options->max_rows) m->max_rows = m->context;
    m->row_work = config_work(m->config, 1, 1);
    if (weights_find(&m->weights, file, error) != STATUS_OK || allocate(m, error) != STATUS_OK) {
        model_close(m);
        return STATUS_FAILED;
    }
    if (scale_positions(m, options->rope_theta, error) != STATUS_OK) {
        model_close(m);
        return STATUS_FAILED;
    }
    *out = m;
    return STATUS_OK;
}

void model_close(Model *m) {
    if (!m) return;
    float *buffers[] = {m->x,       m->normed,    m->normed2,   m->y,         m->z,
                        m->q,       m->attended,  m->k,         m->v,         m->gate,
                        m->up,      m->cosine[0], m->cosine[1], m->sine[0],   m->sine[1],
                        m->routing, m->shares,    m->expert_in, m->expert_out};
    for (size_t i = 0; i < sizeof buffers / sizeof *buffers; i++) free(buffers[i]);
    free(m->places);
    free(m->scaled_freqs);
    free(m->chosen);
    free(m->expert_slots);
    free(m->expert_first);
    matmul_memory_free(m->matmul);
    attention_memory_free(m->attention);
    weights_free(&m->weights);
    free(m);
}

/* ---- What it says, and who watches ---- */

const Config *model_config(const Model *m) {
    return m->config;
}
uint32_t model_context(const Model *m) {
    return m->context;
}
uint32_t model_max_rows(const Model *m) {
    return m->max_rows;
}
const Isa *model_isa(const Model *m) {
    return m->isa;
}
int model_threads(const Model *m) {
    return m->n_threads;
}

KvShape model_kv_shape(const Model *m, KvType type) {
    const Config *c = m->config;
    return (KvShape){c->n_layers, c->n_kv_heads, c->head_dim, type};
}

KvType model_kv_type(const Model *m) {
    return m->weights.layers[0].wq.w.type == TENSOR_F32 ? KV_F32 : KV_F16;
}

void model_set_attention_observer(Model *m, const AttentionObserver *observer) {
    m->observer = observer;
}

void model_set_input_observer(Model *m, const InputObserver *observer) {
    m->input_observer = observer;
}

void model_set_clock(Model *m, double *seconds) {
    m->seconds = seconds;
}
