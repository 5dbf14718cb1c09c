#include "layers/arrangements/ngram.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/numbers.h"
#include "core/forward_steps.h"
#include "layers/arrangements/ngram_fields.h"
#include "layers/state/state_steps.h"

struct Ngram {
    NgramHash hash;
    Matrix key;                                     /* S * dim x ngram.dim */
    Matrix value;                                   /* dim x ngram.dim */
    const float *norm_key, *norm_query, *norm_conv; /* [S * dim] */
    Convolution convolution;                        /* of S * dim channels */
    size_t tokens;  /* where the last tokens begin in the layer's state */
    Matrix parts[]; /* [ngram.hash.parts], rows x ngram.dim / tables each */
};

/* ---- Weights ---- */

size_t ngram_bytes(const Config *c) {
    return round_up(sizeof(Ngram) + c->ngram.hash.parts * sizeof(Matrix), 64);
}

static size_t channels_of(const Config *c) {
    return (size_t)c->gated_streams * c->dim;
}

/* The convolution's length: its taps, and the zeros between them. */
static size_t kernel_of(const Config *c) {
    return (size_t)(c->ngram.conv_kernel - 1) * c->ngram.hash.size + 1;
}

void ngram_find(Finder *f, uint32_t l, size_t state, Ngram *w) {
    const Config *c = f->config;
    size_t channels = channels_of(c), head = c->ngram.dim / ngram_hash_tables(&c->ngram.hash);
    ngram_hash_make(&c->ngram.hash, c->ngram.layer[l] - 1, c->vocab_size, &w->hash);
    w->key = weights_matrix(f, "ngram.key", channels, c->ngram.dim, true);
    w->value = weights_matrix(f, "ngram.value", c->dim, c->ngram.dim, true);
    w->norm_key = weights_vector(f, "ngram.norm_key", 1, channels, true);
    w->norm_query = weights_vector(f, "ngram.norm_query", 1, channels, true);
    w->norm_conv = weights_vector(f, "ngram.norm_conv", 1, channels, true);
    w->convolution =
        (Convolution){.weight = weights_vector(f, "ngram.taps", kernel_of(c), channels, true),
                      .channels = channels,
                      .kernel = kernel_of(c),
                      .silu = true,
                      .state = state};
    w->tokens = state + state_convolution_floats(kernel_of(c), channels);
    for (size_t part = 0; part < c->ngram.hash.parts; part++) {
        char name[32];
        size_t rows = ngram_hash_part_rows(&c->ngram.hash, &w->hash, part);
        snprintf(name, sizeof name, "ngram.table.%zu", part);
        if (rows > 0) w->parts[part] = weights_matrix(f, name, rows, head, true);
    }
}

/* ---- Working memory ---- */

/* Numbers of the tokens before a row, rounded up. */
enum { TOKENS = 16 };
_Static_assert((int)NGRAM_HASH_MAX_SIZE <= (int)TOKENS, "the last tokens have room in the state");

size_t ngram_state_floats(const Config *c, uint32_t layer) {
    if (c->ngram.layer[layer] == 0) return 0;
    return state_convolution_floats(kernel_of(c), channels_of(c)) + TOKENS;
}

/* Arrays of n rows. */
typedef struct NgramRows {
    float *embedded;  /* [ngram.dim] */
    float *key;       /* [S * dim] */
    float *value;     /* [dim] */
    float *convolved; /* [S * dim] */
    float *query;     /* [dim], of one stream */
} NgramRows;

static NgramRows ngram_take_rows(Rows *memory, const Model *m) {
    const Config *c = m->config;
    size_t n = m->max_rows;
    NgramRows r;
    r.embedded = rows_take(memory, n, c->ngram.dim);
    r.key = rows_take(memory, n, channels_of(c));
    r.value = rows_take(memory, n, c->dim);
    r.convolved = rows_take(memory, n, channels_of(c));
    r.query = rows_take(memory, n, c->dim);
    return r;
}

static void ngram_rows(Rows *memory, const Model *m, const Branch *b) {
    (void)b;
    ngram_take_rows(memory, m);
}

/* ---- Embeddings ---- */

/* The token `back` positions before row `row`. The state holds 1 more than each of the last tokens
 * before the run, the latest last, and 0 before the start. */
static uint32_t token_before(const ForwardPass *pass, const StateRun *run, const float *tokens,
                             size_t row, size_t back) {
    const Config *c = pass->model->config;
    size_t index = row - run->first;
    if (back <= index) return (uint32_t)pass->rows[row - back].token;
    float held = tokens[c->ngram.hash.size - 1 - (back - index)];
    return held > 0.0f ? (uint32_t)held - 1 : c->ngram.end_token;
}

/* out[ngram.dim] = the embeddings of the row's n-grams. */
static void embed_row(const ForwardPass *pass, const Ngram *w, const StateRun *run, size_t row,
                      float *out) {
    const Config *c = pass->model->config;
    size_t head = c->ngram.dim / ngram_hash_tables(&c->ngram.hash),
           each = ngram_hash_part_rows(&c->ngram.hash, &w->hash, 0);
    uint64_t mixed = (uint64_t)(uint32_t)pass->rows[row].token * w->hash.factors[0];
    bool ended = false;
    for (size_t back = 1; back < c->ngram.hash.size; back++) {
        uint32_t token = token_before(pass, run, run->state + w->tokens, row, back);
        ended = ended || token == c->ngram.end_token;
        mixed ^= (ended ? c->ngram.end_token : token) * w->hash.factors[back];
        for (size_t k = 0; k < c->ngram.hash.heads; k++, out += head) {
            size_t table = (back - 1) * c->ngram.hash.heads + k;
            uint64_t at = w->hash.offsets[table] + mixed % w->hash.sizes[table];
            matrix_row(&w->parts[at / each], (size_t)(at % each), out);
        }
    }
}

/* Moves tokens[ngram.hash.size - 1], the last tokens before the run, on by n rows of the run. */
static void advance_tokens(const ForwardPass *pass, const StateRun *run, float *tokens, size_t n) {
    size_t kept = pass->model->config->ngram.hash.size - 1;
    for (size_t i = 0; i < kept; i++)
        tokens[i] =
            i + n < kept ? tokens[i + n] : (float)(pass->rows[run->first + i + n - kept].token + 1);
}

/* Embeds the rows of one sequence, and keeps its last tokens. */
static void embed_run(ForwardPass *pass, const Ngram *w, const NgramRows *r, const StateRun *run) {
    size_t dim = pass->model->config->ngram.dim;
#pragma omp for schedule(static) nowait
    for (size_t i = run->first; i < run->first + run->n; i++)
        embed_row(pass, w, run, i, r->embedded + i * dim);
    forward_wait(pass);
#pragma omp single nowait
    {
        if (run->held) {
            memcpy(run->held + w->tokens, run->state + w->tokens, TOKENS * sizeof(float));
            advance_tokens(pass, run, run->held + w->tokens, run->n_before);
        }
        advance_tokens(pass, run, run->state + w->tokens, run->n);
    }
}

/* ---- The streams ---- */

/* Gates the row's value for each stream: out[S * dim], and its norm for the convolution. */
static void gate_row(const Model *m, const Ngram *w, const NgramRows *r, const float *streams,
                     size_t row, float *out) {
    const Config *c = m->config;
    const Numeric *numeric = m->isa->numeric;
    size_t dim = c->dim, channels = channels_of(c);
    const float *value = r->value + row * dim;
    float *query = r->query + row * dim, *normed = r->convolved + row * channels;
    for (size_t at = 0; at < channels; at += dim) {
        float *key = r->key + row * channels + at, dot = 0.0f;
        numeric->rms_norm(key, key, w->norm_key + at, dim, c->norm_eps);
        numeric->rms_norm(query, streams + at, w->norm_query + at, dim, c->norm_eps);
        for (size_t i = 0; i < dim; i++) dot = fmaf(key[i], query[i], dot);
        dot /= sqrtf((float)dim);
        float size = sqrtf(fabsf(dot) < 1e-6f ? 1e-6f : fabsf(dot));
        float gate = dot > 0.0f ? size : dot < 0.0f ? -size : dot;
        numeric->activate(ACTIVATION_SIGMOID, &gate, NULL, 1);
        memset(out + at, 0, dim * sizeof *out);
        numeric->add_scaled(out + at, value, gate, dim);
        numeric->rms_norm(normed + at, out + at, w->norm_conv + at, dim, c->norm_eps);
    }
}

/* Embeds the n-grams of all rows, gates their value for each stream, convolves it, and leaves the
 * sum in b->kept: the formulas of ngram.h in their order. */
static void ngram_run(ForwardPass *pass, const Branch *b) {
    Model *m = pass->model;
    const Config *c = m->config;
    const Ngram *w = b->weights;
    const float *streams = b->stream_weights;
    float *out = b->kept;
    size_t channels = channels_of(c);
    Rows memory = arena_rows(&m->arena);
    const NgramRows r = ngram_take_rows(&memory, m);
    const Product products[] = {{&w->key, r.key, channels}, {&w->value, r.value, c->dim}};
    forward_add_time(pass, PART_REST);
    for (size_t first = 0; first < pass->n;) {
        const StateRun run = state_run(pass, b->layer, first);
        embed_run(pass, w, &r, &run);
        first += run.n;
    }
    forward_wait(pass);
    forward_multiply(m, r.embedded, pass->n, products, 2);
#pragma omp for schedule(static) nowait
    for (size_t i = 0; i < pass->n; i++)
        gate_row(m, w, &r, streams + i * channels, i, out + i * channels);
    forward_wait(pass);
    state_convolve(pass, b->layer, &w->convolution, r.convolved, channels);
#pragma omp for schedule(static) nowait
    for (size_t i = 0; i < pass->n; i++)
        m->isa->numeric->add_scaled(out + i * channels, r.convolved + i * channels, 1.0f, channels);
    forward_wait(pass);
    forward_add_time(pass, PART_REST);
}

const BranchKind ngram_kind = {.name = "n-grams", .run = ngram_run, .rows = ngram_rows};
