/* Opening and closing a model: its working memory, the RoPE tables that depend on the context, and
 * small questions about the model. The forward pass: model.c. */
#include "model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/lines.h"
#include "base/machine.h"
#include "base/numbers.h"
#include "base/threads.h"
#include "core/branches.h"
#include "core/config_fields.h"
#include "core/layer_kind.h"
#include "core/weights.h"

/* ---- Working memory ---- */

/* The widest head of all layers, of its key or its value. */
static size_t widest_head(const Config *c) {
    size_t most = 1;
    for (uint32_t l = 0; l < c->n_layers; l++) {
        const HeadShape h = config_heads(c, l);
        KvLayer kv = {.key_dim = h.head_dim, .value_dim = h.value_dim};
        if (c->layer_kind[l] != LAYER_ATTENTION)
            kv = layer_kinds.kinds[c->layer_kind[l]]->cached(c, l);
        most = size_max(most, size_max(kv.key_dim, kv.value_dim));
    }
    return most;
}

/* The most inputs of any matrix. */
static size_t widest_input(const ModelFile *file) {
    size_t most = 0;
    for (size_t i = 0; i < modelfile_n_tensors(file); i++) {
        const FileTensor *tensor = modelfile_tensor(file, i);
        if (tensor->type != TENSOR_VECTOR) most = size_max(most, tensor->cols);
    }
    return most;
}

/* The most working memory of a thread, in floats, that any kind of layer or the arrangement needs.
 */
static size_t widest_thread(const Model *m) {
    const Config *c = m->config;
    size_t most = m->arrangement->thread_floats ? m->arrangement->thread_floats(c) : 0;
    for (uint32_t l = 0; l < c->n_layers; l++) {
        const BranchKind *kind = m->weights.layers[l].kind;
        if (kind && kind->thread_floats) most = size_max(most, kind->thread_floats(c));
    }
    return round_up(most, 16);
}

/* Names the rows that the model keeps in its arena, and makes the branches, which name theirs. */
static void place_rows(Model *m) {
    Arena *a = &m->arena;
    size_t n = m->max_rows, dim = m->config->dim;
    m->x = arena_keep(a, "x", n, dim);
    m->normed = arena_keep(a, "input", n, dim);
    m->y = arena_keep(a, "output", n, dim);
    m->cosine[0] = arena_keep(a, "cosine", n, m->n_pairs[0]);
    m->cosine[1] = arena_keep(a, "cosine.1", n, m->n_pairs[1]);
    m->sine[0] = arena_keep(a, "sine", n, m->n_pairs[0]);
    m->sine[1] = arena_keep(a, "sine.1", n, m->n_pairs[1]);
    m->attention_rows = arena_keep(a, "positions", n, sizeof(AttentionRow) / 4);
    branches_make(m);
}

/* Allocates the working memory: the arena of rows, the memory of the threads, and that of matrix
 * products and attention. place_rows runs twice: first to measure the arena, then to place the
 * rows in it. */
static Status model_setup_allocate(Model *m, Error *error) {
    const Config *c = m->config;
    for (int table = 0; table < 2; table++)
        if (m->weights.rope_freqs[table])
            m->n_pairs[table] = (table == 1 && c->rope_local_rotary_dim ? c->rope_local_rotary_dim
                                                                        : c->rotary_dim) /
                                2;
    if (branches_new(m, error) != STATUS_OK) return STATUS_FAILED;
    place_rows(m);
    size_t bytes, threads = (size_t)m->n_threads;
    bool placed = arena_allocate(&m->arena);
    if (placed) place_rows(m);
    m->layer_thread_floats = widest_thread(m);
    bool fits = size_mul(threads, m->layer_thread_floats, &bytes) && size_mul(bytes, 4, &bytes);
    m->layer_threads = fits ? lines_new(bytes) : NULL;
    m->matmul =
        matmul_memory_new(m->isa->kernels, m->ffn_rows, widest_input(m->file), m->n_threads);
    m->attention = attention_memory_new(m->isa->kernels, m->matmul, (uint32_t)widest_head(c),
                                        m->context, m->n_threads);
    if (placed && m->layer_threads && m->matmul && m->attention) return STATUS_OK;
    return error_set(error,
                     "%s: no memory for the activations of %u rows (fewer at a time need less)",
                     modelfile_path(m->file), m->max_rows);
}

/* ---- RoPE tables of the context ---- */

/* Sets the first RoPE table to plain RoPE's frequencies, base^(-2i / rotary_dim). */
static Status make_frequencies(Model *m, float base, Error *error) {
    const Config *c = m->config;
    size_t n = c->rotary_dim / 2;
    m->scaled_freqs = malloc(n * sizeof *m->scaled_freqs);
    if (!m->scaled_freqs) return error_set(error, "no memory for RoPE frequencies");
    for (size_t i = 0; i < n; i++)
        m->scaled_freqs[i] =
            copysignf(/* NanoChat rotates the other way */
                      1.0f / (float)numbers_power((double)base,
                                                  (double)((float)(2 * i) / (float)c->rotary_dim)),
                      m->weights.rope_freqs[0][i]);
    m->weights.rope_freqs[0] = m->scaled_freqs;
    return STATUS_OK;
}

/* Chooses or makes the RoPE tables that depend on the context: LongRoPE has one for its original
 * context and one for longer ones; dynamic NTK scaling stretches the base, as transformers does for
 * a text that fills the context. theta: a base given by the user, or 0. */
static Status choose_frequencies(Model *m, float theta, Error *error) {
    const Config *c = m->config;
    double original = c->rope_original_context, factor = (double)c->rope_dynamic_factor;
    bool is_long = m->context > c->rope_original_context;
    if (c->position != POSITION_ROPE) return STATUS_OK;
    if (theta != 0.0f) return make_frequencies(m, theta, error);
    if (original == 0) return STATUS_OK;
    if (factor == 0 && !is_long) m->weights.rope_freqs[0] = m->weights.rope_freqs_short;
    if (factor == 0 || !is_long) return STATUS_OK;
    double dim = c->rotary_dim, stretch = factor * m->context / original - (factor - 1);
    return make_frequencies(
        m, (float)((double)c->rope_theta * numbers_power(stretch, dim / (dim - 2))), error);
}

/* ---- Layers of other kinds ---- */

static Status find_own_weights(Model *m, Error *error) {
    const Config *c = m->config;
    Finder finder = {.file = m->file, .config = c, .error = error};
    if (m->arrangement->find) m->arrangement->find(&finder, &m->weights);
    for (uint32_t l = 0; l < c->n_layers && finder.status == STATUS_OK; l++) {
        if (c->layer_kind[l] == LAYER_ATTENTION) continue;
        snprintf(finder.prefix, sizeof finder.prefix, "layers.%u.", l);
        LayerWeights *w = &m->weights.layers[l];
        w->kind = layer_kinds.kinds[c->layer_kind[l]];
        w->own = w->kind->find(&finder, l);
    }
    return finder.status == STATUS_OK ? STATUS_OK
                                      : error_prefix(error, "%s", modelfile_path(m->file));
}

/* ---- Opening and closing ---- */

Status model_open(Model **out, const ModelFile *file, const ModelOptions *options, Error *error) {
    Model *m = calloc(1, sizeof *m);
    if (!m) return error_set(error, "no memory for a model");
    m->file = file;
    m->config = options->config ? options->config : modelfile_config(file);
    m->exchange = options->exchange;
    m->isa = options->isa ? options->isa : isa_choose(NULL, error);
    m->n_threads = options->n_threads > 0 ? options->n_threads : machine_cores();
    m->context = options->context ? options->context : m->config->context;
    m->max_rows = options->max_rows ? options->max_rows : MATMUL_MAX_ROWS;
    if (m->max_rows > MATMUL_MAX_ROWS) m->max_rows = MATMUL_MAX_ROWS;
    if (m->max_rows > m->context && !options->max_rows) m->max_rows = m->context;
    m->ffn_rows = size_max(m->max_rows, m->config->experts.per_token);
    m->row_work = config_work(m->config, 1, 1);
    static const Arrangement plain = {.list = branches_append_layer};
    m->layers = &layer_kinds;
    m->arrangement =
        m->config->stack == STACK_PLAIN ? &plain : m->layers->arrangements[m->config->stack];
    Status status = weights_find(&m->weights, file, m->config, error);
    if (status == STATUS_OK) status = find_own_weights(m, error);
    if (status == STATUS_OK) status = choose_frequencies(m, options->rope_theta, error);
    if (status == STATUS_OK && m->exchange) status = m->exchange->divide(m->exchange, m, error);
    if (status == STATUS_OK) status = model_setup_allocate(m, error);
    if (status == STATUS_OK) m->n_threads = threads_startable(m->n_threads); /* most is allocated */
    if (status != STATUS_OK) {
        model_close(m);
        return status;
    }
    *out = m;
    return STATUS_OK;
}

void model_close(Model *m) {
    if (!m) return;
    arena_free(&m->arena);
    free(m->layer_threads);
    free(m->scaled_freqs);
    matmul_memory_free(m->matmul);
    attention_memory_free(m->attention);
    weights_free(&m->weights);
    free(m->branches.all);
    free(m);
}

/* ---- Questions ---- */

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

/* How far back a layer's queries see: its window or, if that is all, its chunk; 0: to the start. */
static uint32_t seen_by(const Config *c, uint32_t layer) {
    uint32_t window = c->window[layer], chunk = c->chunk[layer];
    return window == 0 || (chunk > 0 && chunk < window) ? chunk : window;
}

/* How far back a layer's keys are seen, also by later layers that read them. */
static uint32_t widest_window(const Config *c, uint32_t layer) {
    uint32_t window = seen_by(c, layer);
    for (uint32_t l = layer + 1; l < c->n_layers && window > 0; l++)
        if (c->kv_distance[l] == l - layer)
            window = seen_by(c, l) == 0 || seen_by(c, l) > window ? seen_by(c, l) : window;
    return window;
}

KvShape model_kv_shape(const Model *m, KvType type) {
    const Config *c = m->config;
    KvShape shape = {.type = type, .n_layers = c->n_layers};
    if (m->exchange) shape.mirror = m->exchange->mirror;
    for (uint32_t l = 0; l < c->n_layers; l++) {
        const HeadShape h = config_heads(c, l);
        if (c->layer_kind[l] != LAYER_ATTENTION) {
            shape.layers[l] = layer_kinds.kinds[c->layer_kind[l]]->cached(c, l);
        } else if (c->kv_distance[l] == 0) {
            shape.layers[l] = (KvLayer){.n_kv_heads = h.n_kv_heads,
                                        .key_dim = h.head_dim,
                                        .value_dim = h.value_dim,
                                        .window = widest_window(c, l)};
        }
    }
    return shape;
}

TensorType model_weight_type(const Model *m) {
    const Matrix *first = &m->weights.layers[0].wq.w;
    return first->data ? first->type : m->weights.output.w.type;
}

KvType model_kv_type(const Model *m) {
    return model_weight_type(m) == TENSOR_F32 ? KV_F32 : KV_F16;
}
