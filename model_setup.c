/* Opening and closing a model: its working memory, the RoPE tables that depend on the context, and
 * small questions about the model. The forward pass: model.c. */
#include "model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/lines.h"
#include "base/numbers.h"
#include "branches.h"
#include "config_fields.h"
#include "layer_kind.h"
#include "weights.h"

/* ---- Working memory ---- */

static size_t larger(size_t a, size_t b) {
    return a > b ? a : b;
}

/* The widest of all layers: what working memory must hold. */
typedef struct Widths {
    size_t q, k, v, attended, head, ffn;
} Widths;

static Widths widest(const Config *c) {
    size_t of_experts = larger(c->expert_ffn_dim, c->shared_ffn_dim);
    Widths w = {.ffn = c->n_experts > 0 ? of_experts : 0};
    for (uint32_t l = 0; l < c->n_layers; l++) {
        const HeadShape h = config_heads(c, l);
        w.ffn = larger(w.ffn, config_ffn_dim(c, l));
        if (c->layer_kind[l] != LAYER_ATTENTION) {
            const KvLayer kv = layer_kind(c->layer_kind[l])->cached(c, l);
            w.head = larger(w.head, larger(kv.key_dim, kv.value_dim));
            continue;
        }
        w.q = larger(w.q, (size_t)h.n_heads * h.head_dim);
        w.k = larger(w.k, (size_t)h.n_kv_heads * h.head_dim);
        w.v = larger(w.v, (size_t)h.n_kv_heads * h.value_dim);
        w.attended = larger(w.attended, (size_t)h.n_heads * h.value_dim);
        w.head = larger(w.head, larger(h.head_dim, h.value_dim));
    }
    return w;
}

/* The most that any layer's kind asks for. */
static void find_layer_memory(Model *m) {
    const Config *c = m->config;
    const Arrangement *a = m->arrangement;
    if (a->row_floats) m->layer_row_floats = a->row_floats(c);
    if (a->thread_floats) m->layer_thread_floats = round_up(a->thread_floats(c), 16);
    for (uint32_t l = 0; l < c->n_layers; l++) {
        if (c->layer_kind[l] == LAYER_ATTENTION) continue;
        const BranchKind *kind = layer_kind(c->layer_kind[l]);
        size_t row = kind->row_floats ? kind->row_floats(c) : 0;
        size_t thread = kind->thread_floats ? round_up(kind->thread_floats(c), 16) : 0;
        m->layer_row_floats = larger(m->layer_row_floats, row);
        m->layer_thread_floats = larger(m->layer_thread_floats, thread);
    }
}

/* A buffer of the model: n rows of `width` numbers of 4 bytes. */
typedef struct Buffer {
    void **pointer; /* the model's pointer to it */
    size_t n, width;
} Buffer;
enum { MAX_BUFFERS = 32 };

/* Lists all buffers of struct Model. Returns their number. */
static size_t list_buffers(Model *m, Buffer list[MAX_BUFFERS]) {
    const Config *c = m->config;
    const Widths w = widest(c);
    size_t n = m->max_rows, used = c->n_experts_used, dim = c->dim;
    size_t n_parallel = c->parallel_block ? n : 0, n_mixed = c->n_experts > 0 ? n : 0;
    bool is_gated = false;
    for (uint32_t l = 0; m->weights.layers && l < c->n_layers; l++)
        is_gated = is_gated || m->weights.layers[l].attention_gate.w.data;
#define BUFFER(name, n, width)                                                                     \
    { (void **)&m->name, n, width }
    const Buffer all[] = {
        BUFFER(x, n, dim),
        BUFFER(normed, n, dim),
        BUFFER(normed2, n_parallel, dim),
        BUFFER(y, n, dim),
        BUFFER(z, n_parallel, dim),
        BUFFER(q, n, w.q),
        BUFFER(attended, n, w.attended),
        BUFFER(k, n, w.k),
        BUFFER(v, n, w.v),
        BUFFER(attention_gate, is_gated ? n : 0, w.attended),
        BUFFER(gate, m->ffn_rows, w.ffn),
        BUFFER(up, m->ffn_rows, w.ffn),
        BUFFER(cosine[0], n, m->n_pairs[0]),
        BUFFER(cosine[1], n, m->n_pairs[1]),
        BUFFER(sine[0], n, m->n_pairs[0]),
        BUFFER(sine[1], n, m->n_pairs[1]),
        BUFFER(attention_rows, n, sizeof(AttentionRow) / 4),
        BUFFER(routing, n_mixed, c->n_experts),
        BUFFER(shares, n_mixed, used),
        BUFFER(chosen, n_mixed, used),
        BUFFER(expert_first, 1, c->n_experts + 1),
        BUFFER(expert_slots, n_mixed, 2 * used),
        BUFFER(expert_in, n_mixed ? m->ffn_rows : 0, dim),
        BUFFER(expert_out, n_mixed ? m->ffn_rows : 0, dim),
        BUFFER(layer_rows, n, m->layer_row_floats),
        BUFFER(layer_threads, (size_t)m->n_threads, m->layer_thread_floats),
    };
#undef BUFFER
    _Static_assert(sizeof all / sizeof *all <= MAX_BUFFERS, "the list has room for all");
    memcpy(list, all, sizeof all);
    return sizeof all / sizeof *all;
}

static bool allocate_buffer(const Buffer *buffer) {
    size_t bytes;
    bool fits = size_mul(buffer->n, buffer->width, &bytes) && size_mul(bytes, 4, &bytes);
    *buffer->pointer = fits ? lines_new(bytes) : NULL;
    return *buffer->pointer != NULL;
}

static Status allocate(Model *m, Error *error) {
    const Config *c = m->config;
    const Widths w = widest(c);
    for (int table = 0; table < 2; table++)
        if (m->weights.rope_freqs[table])
            m->n_pairs[table] = (table == 1 && c->rope_local_rotary_dim ? c->rope_local_rotary_dim
                                                                        : c->rotary_dim) /
                                2;
    find_layer_memory(m);
    size_t widest_input = larger(larger(c->dim, w.ffn), larger(w.attended, m->layer_row_floats));
    Buffer buffers[MAX_BUFFERS];
    size_t n = list_buffers(m, buffers), n_allocated = 0;
    while (n_allocated < n && allocate_buffer(&buffers[n_allocated])) n_allocated++;
    m->matmul = matmul_memory_new(m->isa->kernels, m->ffn_rows, widest_input, m->n_threads);
    m->attention = attention_memory_new((uint32_t)larger(w.head, 1), m->context, m->n_threads);
    if (n_allocated == n && m->matmul && m->attention) return STATUS_OK;
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
                      1.0f / (float)power((double)base,
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
    return make_frequencies(m, (float)((double)c->rope_theta * power(stretch, dim / (dim - 2))),
                            error);
}

/* ---- Layers of other kinds ---- */

static Status find_own_weights(Model *m, Error *error) {
    const Config *c = m->config;
    Finder finder = {.file = m->file, .config = c, .error = error};
    if (m->arrangement->find) m->arrangement->find(&finder, &m->weights);
    for (uint32_t l = 0; l < c->n_layers && finder.status == STATUS_OK; l++) {
        if (c->layer_kind[l] == LAYER_ATTENTION) continue;
        snprintf(finder.prefix, sizeof finder.prefix, "layers.%u.", l);
        m->weights.layers[l].own = layer_kind(c->layer_kind[l])->find(&finder, l);
    }
    return finder.status == STATUS_OK ? STATUS_OK
                                      : error_prefix(error, "%s", modelfile_path(m->file));
}

/* ---- Opening and closing ---- */

Status model_open(Model **out, const ModelFile *file, const ModelOptions *options, Error *error) {
    Model *m = calloc(1, sizeof *m);
    if (!m) return error_set(error, "no memory for a model");
    m->file = file;
    m->config = modelfile_config(file);
    m->exchange = options->exchange;
    m->isa = options->isa ? options->isa : isa_choose(NULL, error);
    m->n_threads = options->n_threads > 0 ? options->n_threads : threads_default();
    m->context = options->context ? options->context : m->config->context;
    m->max_rows = options->max_rows ? options->max_rows : MATMUL_MAX_ROWS;
    if (m->max_rows > MATMUL_MAX_ROWS) m->max_rows = MATMUL_MAX_ROWS;
    if (m->max_rows > m->context && !options->max_rows) m->max_rows = m->context;
    m->ffn_rows = larger(m->max_rows, m->config->n_experts_used);
    m->row_work = config_work(m->config, 1, 1);
    static const Arrangement plain = {.list = branches_list};
    m->arrangement = m->config->stack == STACK_PLAIN ? &plain : arrangement_of(m->config->stack);
    Status status = weights_find(&m->weights, file, error);
    if (status == STATUS_OK) status = find_own_weights(m, error);
    if (status == STATUS_OK) status = allocate(m, error);
    if (status == STATUS_OK) status = choose_frequencies(m, options->rope_theta, error);
    if (status == STATUS_OK && m->exchange) status = m->exchange->divide(m->exchange, m, error);
    if (status == STATUS_OK) status = branches_make(m, error);
    if (status != STATUS_OK) {
        model_close(m);
        return status;
    }
    *out = m;
    return STATUS_OK;
}

void model_close(Model *m) {
    if (!m) return;
    Buffer buffers[MAX_BUFFERS];
    size_t n = list_buffers(m, buffers);
    for (size_t i = 0; i < n; i++) free(*buffers[i].pointer);
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
            shape.layers[l] = layer_kind(c->layer_kind[l])->cached(c, l);
        } else if (c->kv_distance[l] == 0) {
            shape.layers[l] = (KvLayer){.n_kv_heads = h.n_kv_heads,
                                        .key_dim = h.head_dim,
                                        .value_dim = h.value_dim,
                                        .window = widest_window(c, l)};
        }
    }
    return shape;
}

KvType model_kv_type(const Model *m) {
    const Matrix *first = &m->weights.layers[0].wq.w;
    if (!first->data) first = &m->weights.output.w;
    return first->type == TENSOR_F32 ? KV_F32 : KV_F16;
}
