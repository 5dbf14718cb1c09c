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
 * are as in layers/arrangements/convolved.h. Middle layers may run several times, with messages
 * between the runs (layers/arrangements/messages.h): each run begins with the x and the sums of the
 * first one.
 */
#include <stdio.h>
#include <string.h>

#include "core/forward_steps.h"
#include "layers/arrangements/convolved.h"
#include "layers/arrangements/messages.h"
#include "layers/attention/relative.h"
#include "layers/arrangements/unit_sums.h"
#include "layers/layer_allocate.h"

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
    Messages messages;       /* of layers that run several times */
    size_t n_sums;           /* sums before x when its attention reads */
    bool begins_block;
} BlockLayer;

typedef struct BlockSums {
    float *sums;   /* [n][most + 1][dim], normalized; rows that live for a pass. After the sums
                    * there is room for x */
    float *scores; /* [n][most + 1] */
    MessageRows messages;
    size_t most; /* sums before x in the end */
    Reader end;
    BlockLayer layers[]; /* [n_layers] */
} BlockSums;

/* ---- Weights ---- */

/* Finds the weights of layer l that the arrangement has: the queries and norms of what its
 * attention and its feed-forward read, the convolution, and the messages of layers that run
 * several times. */
static void find_layer(Finder *f, Weights *weights, uint32_t l, BlockLayer *layer) {
    const Config *c = f->config;
    size_t dim = c->dim, n = c->window[l] > 0 ? 1 : ATTENTION_READERS;
    uint32_t stored = messages_stored_layer(c, l);
    layer->begins_block = stored % c->block_layers == 0;
    layer->n_sums = (stored + c->block_layers - 1) / c->block_layers;
    convolved_find(f, l, &layer->convolution);
    if (messages_loops(c, l)) messages_find(f, &layer->messages);
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
    BlockSums *own = layer_allocate(f, sizeof *own + c->n_layers * sizeof *own->layers);
    weights->stack = own;
    if (!own) return;
    own->most = messages_stored_layer(c, c->n_layers - 1) / c->block_layers + 1;
    f->prefix[0] = '\0';
    own->end.query = weights_vector(f, "final_query", 1, c->dim, true);
    for (uint32_t l = 0; l < c->n_layers; l++) find_layer(f, weights, l, &own->layers[l]);
}

/* ---- Reading ---- */

static float *row_sums(const Model *m, size_t row) {
    const BlockSums *own = m->weights.stack;
    return own->sums + row * (own->most + 1) * m->config->dim;
}

/* Writes x's unit vector, by its mean square, after the row's n sums. */
static void place_x(const Model *m, size_t row, size_t n) {
    size_t dim = m->config->dim;
    unit_sums_normalize(m, m->x + row * dim, row_sums(m, row) + n * dim);
}

static float *row_scores(const Model *m, size_t row) {
    const BlockSums *own = m->weights.stack;
    return own->scores + row * (own->most + 1);
}

/* out[dim] = what the reader's query gives of the row's n sums. */
static void read_query(const Model *m, const Reader *reader, size_t row, size_t n, float *out) {
    if (reader->query)
        unit_sums_attend(m, reader->query, row_sums(m, row), n, row_scores(m, row), out);
    else
        memcpy(out, m->x + row * m->config->dim, m->config->dim * sizeof *out);
}

static void normalize(const Model *m, const Reader *reader, float *out) {
    if (reader->norm) forward_normalize(m, reader->norm, out, out, m->config->dim);
}

/* out[dim] = what the reader reads of the row's n sums. */
static void read_sums(const Model *m, const Reader *reader, size_t row, size_t n, float *out) {
    read_query(m, reader, row, n, out);
    normalize(m, reader, out);
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

/* ---- Reading with messages ---- */

/* Called before each run but the first: the sums of the previous run, ending with x, become
 * messages to the next run. The sums from before the first run, and x as it was then, still lie
 * before them. */
static void end_run(const Model *m, size_t row, size_t n_sums) {
    const BlockSums *own = m->weights.stack;
    const Config *c = m->config;
    place_x(m, row, n_sums + c->loop_layers / c->block_layers);
    messages_remember(m, &own->messages, row, row_sums(m, row) + (n_sums + 1) * c->dim);
}

/* What attention's readers read, and what their gates need. */
static void gather_attention(ForwardPass *pass, const Branch *b) {
    const Model *m = pass->model;
    const BlockSums *own = m->weights.stack;
    const BlockLayer *layer = b->stream_weights;
    size_t n = layer->n_sums;
#pragma omp for schedule(static) nowait
    for (size_t i = 0; i < pass->n; i++) {
        if (messages_begins_run(m->config, b->layer))
            end_run(m, i, n);
        else
            place_x(m, i, n);
        for (size_t r = 0; r < ATTENTION_READERS; r++) {
            bool apart = layer->attention[READ_KEY].norm || r == READ_QUERY;
            read_query(m, &layer->attention[apart ? r : READ_QUERY], i, n + 1,
                       messages_hidden(m, &own->messages, r, i));
            messages_make(m, &own->messages, &layer->messages.of[r], r, i, row_scores(m, i));
        }
    }
    forward_wait(pass);
    messages_multiply(pass, &own->messages, layer->messages.of, ATTENTION_READERS);
}

static void mix_attention(const ForwardPass *pass, const Branch *b, size_t row) {
    const Model *m = pass->model;
    const BlockSums *own = m->weights.stack;
    const BlockLayer *layer = b->stream_weights;
    size_t at = row * m->config->dim;
    float *const out[] = {b->in + at, relative_key_input(m, b) + at,
                          relative_value_input(m, b) + at};
    for (size_t r = 0; r < ATTENTION_READERS; r++) {
        bool apart = layer->attention[READ_KEY].norm != NULL;
        messages_mix(m, &own->messages, r, row, out[r]);
        normalize(m, &layer->attention[apart ? r : READ_QUERY], out[r]);
    }
}

static void gather_ffn(ForwardPass *pass, const Branch *b) {
    const Model *m = pass->model;
    const BlockSums *own = m->weights.stack;
    const BlockLayer *layer = b->stream_weights;
    const MessageGate *gate = &layer->messages.of[MESSAGE_FFN];
    size_t n = layer->n_sums + layer->begins_block;
#pragma omp for schedule(static) nowait
    for (size_t i = 0; i < pass->n; i++) {
        place_x(m, i, n);
        read_query(m, &layer->ffn, i, n + 1, messages_hidden(m, &own->messages, 0, i));
        messages_make(m, &own->messages, gate, 0, i, row_scores(m, i));
    }
    forward_wait(pass);
    messages_multiply(pass, &own->messages, gate, 1);
}

static void mix_ffn(const ForwardPass *pass, const Branch *b, size_t row) {
    const Model *m = pass->model;
    const BlockSums *own = m->weights.stack;
    const BlockLayer *layer = b->stream_weights;
    float *out = b->in + row * m->config->dim;
    messages_mix(m, &own->messages, 0, row, out);
    normalize(m, &layer->ffn, out);
}

/* ---- Adding ---- */

static void block_add(ForwardPass *pass, const Branch *b, size_t row, float *y) {
    const Model *m = pass->model;
    size_t dim = m->config->dim;
    float *x = m->x + row * dim;
    m->isa->numeric->add_scaled(x, y, 1.0f, dim);
    if (!m->isa->numeric->all_finite(x, dim)) forward_not_finite(pass, b->layer);
}

/* Begins a new block: its x is y. The unit vector of the previous block's x already lies after the
 * row's sums (place_x), and later layers read it as one more sum. */
static void block_begin(ForwardPass *pass, const Branch *b, size_t row, float *y) {
    const Model *m = pass->model;
    size_t dim = m->config->dim;
    memcpy(m->x + row * dim, y, dim * sizeof *y);
    if (!m->isa->numeric->all_finite(y, dim)) forward_not_finite(pass, b->layer);
}

/* ---- The arrangement ---- */

/* How a layer reads, and how its attention is added. */
static const StreamUse *attention_use(bool begins_block, bool reach) {
    static const char sums[] = "n = the sums, by attention";
    static const char mixed[] = "n = the sums, by attention, and messages of the run before";
    static const StreamUse uses[2][2] = {
        {{.reads = sums, .adds = "x += ", .read = read_attention, .add = block_add},
         {.reads = mixed,
          .adds = "x += ",
          .gather = gather_attention,
          .read = mix_attention,
          .add = block_add}},
        {{.reads = sums, .adds = "x = ", .read = read_attention, .add = block_begin},
         {.reads = mixed,
          .adds = "x = ",
          .gather = gather_attention,
          .read = mix_attention,
          .add = block_begin}}};
    return &uses[begins_block][reach];
}

static const StreamUse *ffn_use(bool reach) {
    static const StreamUse uses[2] = {
        {.reads = "n = the sums, by attention",
         .adds = "x += ",
         .read = read_ffn,
         .add = block_add},
        {.reads = "n = the sums, by attention, and a message of the run before",
         .adds = "x += ",
         .gather = gather_ffn,
         .read = mix_ffn,
         .add = block_add}};
    return &uses[reach];
}

static void block_sums_list(Model *m, size_t l) {
    const BlockSums *own = m->weights.stack;
    const BlockLayer *layer = &own->layers[l];
    bool reach = messages_reach(m->config, l);
    Branch *b = branches_append_attention(m, l, NULL, m->normed);
    b->streams = attention_use(layer->begins_block, reach);
    b->stream_weights = layer;
    b = convolved_append(m, l, NULL, m->normed, &layer->convolution);
    b->streams = ffn_use(reach);
    b->stream_weights = layer;
}

static void block_sums_keep(Model *m) {
    BlockSums *own = m->weights.stack;
    own->sums = arena_keep(&m->arena, "block sums", m->max_rows, (own->most + 1) * m->config->dim);
    own->scores = arena_keep(&m->arena, "scores of sums", m->max_rows, own->most + 1);
    if (m->config->loop_layers > 0) messages_keep(m, &own->messages);
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
