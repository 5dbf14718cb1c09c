/* A stack whose blocks do not read the residual stream itself, but attend over sums of earlier
 * layers (block attention residuals: Inkling 2). Each block_layers layers have a stream x of their
 * own, which begins with the output of the first one's attention; the first such sum is the
 * embedding. With the n sums before it, s[0] ... s[n - 1], and s[n] = x:
 *
 *     u[j]   = s[j] / sqrt(mean of s[j]^2 + 1e-6)
 *     a      = softmax over j of (query . u[j]) / sqrt(dim)
 *     read   = sum over j of a[j] * u[j]
 *     x      = x + convolution(attention(norm(read)))      another query, and without x in the
 *                                                          first layer of a block
 *     x      = x + convolution(feed-forward(norm(read)))   another query
 *
 * Attention of layers without a window has three queries and three norms, for queries, keys and
 * values. The first layer's attention reads norm(x), and the output head norm(read). Feed-forwards
 * are as in layers/convolved.h. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "forward_pass.h"
#include "layers/convolved.h"
#include "layers/relative.h"
#include "layers/sums.h"

static const float UNIT_EPS = 1e-6f; /* of the norms without weights, whatever Config.norm_eps */

/* What reads one input: a query, and the norm of what it gives. */
typedef struct Reader {
    const float *query; /* [dim]; NULL: x is read */
    const Norm *norm;   /* NULL: none */
} Reader;

enum { READ_QUERY, READ_KEY, READ_VALUE, ATTENTION_READERS };

typedef struct BlockLayer {
    Norm key_norm, value_norm; /* in layers whose keys and values have inputs of their own */
    Reader attention[ATTENTION_READERS];
    Reader ffn;
    Convolution convolution; /* of the feed-forward */
    size_t n_sums;           /* sums before x when its attention reads */
    bool begins_block;
} BlockLayer;

typedef struct BlockSums {
    float *sums;   /* [n][most + 1][dim], normalized; rows that live for a pass. Behind the sums
                    * there is room for x */
    float *scores; /* [n][most + 1] */
    size_t most;   /* sums before x in the end */
    Reader end;
    BlockLayer layers[]; /* [n_layers] */
} BlockSums;

/* ---- Weights ---- */

static void find_layer(Finder *f, Weights *weights, uint32_t l, BlockLayer *layer) {
    const Config *c = f->config;
    size_t dim = c->dim, n = c->window[l] > 0 ? 1 : ATTENTION_READERS;
    layer->begins_block = l % c->block_layers == 0;
    layer->n_sums = (l + c->block_layers - 1) / c->block_layers;
    convolved_find(f, l, &layer->convolution);
    const float *queries = l > 0 ? weights_vector(f, "attention.queries", n, dim, true) : NULL;
    if (n > 1) {
        layer->key_norm = weights_norm(f, "k_input_norm", dim, true);
        layer->value_norm = weights_norm(f, "v_input_norm", dim, true);
    }
    const Norm *norms[] = {&weights->layers[l].attention_norm, &layer->key_norm,
                           &layer->value_norm};
    for (size_t i = 0; i < n; i++)
        layer->attention[i] = (Reader){queries ? queries + i * dim : NULL, norms[i]};
    layer->ffn =
        (Reader){weights_vector(f, "ffn.query", 1, dim, true), &weights->layers[l].ffn_norm};
}

static void block_sums_find(Finder *f, Weights *weights) {
    const Config *c = f->config;
    BlockSums *own = arrangement_allocate(f, sizeof *own + c->n_layers * sizeof *own->layers);
    weights->stack = own;
    if (!own) return;
    own->most = (c->n_layers - 1) / c->block_layers + 1;
    f->prefix[0] = '\0';
    own->end.query = weights_vector(f, "final_query", 1, c->dim, true);
    for (uint32_t l = 0; l < c->n_layers; l++) find_layer(f, weights, l, &own->layers[l]);
}

/* ---- Reading and adding ---- */

static float *row_sums(const Model *m, size_t row) {
    const BlockSums *own = m->weights.stack;
    return own->sums + row * (own->most + 1) * m->config->dim;
}

/* Writes x's unit vector, by its mean square, behind the row's n sums. */
static void place_x(const Model *m, size_t row, size_t n) {
    size_t dim = m->config->dim;
    m->isa->numeric->rms_norm(row_sums(m, row) + n * dim, m->x + row * dim, NULL, dim, UNIT_EPS);
}

/* a . b in the order of docs/numerics.md. */
static float product_of(const float *a, const float *b, size_t n) {
    float sums[SUMS] = {0.0f};
    size_t whole = n - n % SUMS;
    for (size_t i = 0; i < whole; i += SUMS)
        for (size_t k = 0; k < SUMS; k++) sums[k] += a[i + k] * b[i + k];
    for (size_t i = whole; i < n; i++) sums[i - whole] += a[i] * b[i];
    return sums_join(sums);
}

/* out[dim] = what the reader reads of the row's n sums. */
static void read_sums(const Model *m, const Reader *reader, size_t row, size_t n, float *out) {
    const BlockSums *own = m->weights.stack;
    const Numeric *numeric = m->isa->numeric;
    size_t dim = m->config->dim;
    const float *sums = row_sums(m, row);
    float *scores = own->scores + row * (own->most + 1);
    if (reader->query) {
        float scale = 1.0f / sqrtf((float)dim);
        for (size_t j = 0; j < n; j++)
            scores[j] = product_of(reader->query, sums + j * dim, dim) * scale;
        float total = numeric->softmax_sum(scores, numeric->maximum(scores, n), n);
        memset(out, 0, dim * sizeof *out);
        for (size_t j = 0; j < n; j++)
            numeric->add_scaled(out, sums + j * dim, scores[j] / total, dim);
    } else {
        memcpy(out, m->x + row * dim, dim * sizeof *out);
    }
    if (reader->norm) forward_normalize(m, reader->norm, out, out, dim);
}

static void read_attention(const ForwardPass *pass, const Branch *b, size_t row) {
    const Model *m = pass->model;
    const BlockLayer *layer = b->stream_weights;
    size_t n = layer->n_sums, at = row * m->config->dim;
    place_x(m, row, n);
    read_sums(m, &layer->attention[READ_QUERY], row, n + 1, b->in + at);
    if (!layer->attention[READ_KEY].norm) return;
    read_sums(m, &layer->attention[READ_KEY], row, n + 1, relative_key_input(m, b) + at);
    read_sums(m, &layer->attention[READ_VALUE], row, n + 1, relative_value_input(m, b) + at);
}

static void read_ffn(const ForwardPass *pass, const Branch *b, size_t row) {
    const Model *m = pass->model;
    const BlockLayer *layer = b->stream_weights;
    size_t n = layer->n_sums + layer->begins_block;
    place_x(m, row, n);
    read_sums(m, &layer->ffn, row, n + 1, b->in + row * m->config->dim);
}

static void block_add(ForwardPass *pass, const Branch *b, size_t row, float *y) {
    const Model *m = pass->model;
    size_t dim = m->config->dim;
    float *x = m->x + row * dim;
    m->isa->numeric->add_scaled(x, y, 1.0f, dim);
    if (!m->isa->numeric->all_finite(x, dim)) forward_not_finite(pass, b->layer);
}

/* The stream of a new block. The one before it lies behind the sums, where read_attention has put
 * it, and is one of them from now on. */
static void block_begin(ForwardPass *pass, const Branch *b, size_t row, float *y) {
    const Model *m = pass->model;
    size_t dim = m->config->dim;
    memcpy(m->x + row * dim, y, dim * sizeof *y);
    if (!m->isa->numeric->all_finite(y, dim)) forward_not_finite(pass, b->layer);
}

/* ---- The arrangement ---- */

static void block_sums_list(Model *m, size_t l) {
    static const StreamUse begins = {.reads = "n = the sums, by attention",
                                     .adds = "x = ",
                                     .read = read_attention,
                                     .add = block_begin};
    static const StreamUse attention = {.reads = "n = the sums, by attention",
                                        .adds = "x += ",
                                        .read = read_attention,
                                        .add = block_add};
    static const StreamUse ffn = {
        .reads = "n = the sums, by attention", .adds = "x += ", .read = read_ffn, .add = block_add};
    const BlockSums *own = m->weights.stack;
    const BlockLayer *layer = &own->layers[l];
    Branch *b = branches_append_attention(m, l, NULL, m->normed);
    b->streams = layer->begins_block ? &begins : &attention;
    b->stream_weights = layer;
    b = convolved_append(m, l, NULL, m->normed, &layer->convolution);
    b->streams = &ffn;
    b->stream_weights = layer;
}

static void block_sums_keep(Model *m) {
    BlockSums *own = m->weights.stack;
    own->sums = arena_keep(&m->arena, "block sums", m->max_rows, (own->most + 1) * m->config->dim);
    own->scores = arena_keep(&m->arena, "scores of sums", m->max_rows, own->most + 1);
}

/* x = what the output head reads. */
static void block_sums_end(ForwardPass *pass) {
    const Model *m = pass->model;
    const BlockSums *own = m->weights.stack;
#pragma omp for schedule(static) nowait
    for (size_t i = 0; i < pass->n; i++) {
        place_x(m, i, own->most);
        read_sums(m, &own->end, i, own->most + 1, m->x + i * m->config->dim);
    }
    forward_wait(pass);
}

const Arrangement block_sums_arrangement = {
    .find = block_sums_find,
    .keep = block_sums_keep,
    .list = block_sums_list,
    .end = block_sums_end,
};
