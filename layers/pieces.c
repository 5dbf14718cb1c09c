#include "layers/pieces.h"

#include <math.h>
#include <omp.h>
#include <string.h>

#include "base/numbers.h"

/* Floats of AttentionJob.scratch: a page of keys or values and one register beyond, and queries as
 * 8-bit codes with the codes of a page's values. */
static size_t scratch_floats(size_t wide) {
    size_t page = KV_PAGE * round_up(wide, 32) + 16;
    size_t codes = ATTENTION_QUERIES * q8_groups(wide) * sizeof(Q8Group) / sizeof(float) +
                   q8_scratch_bytes(wide) / sizeof(float);
    return round_up(page + codes, 16);
}

static size_t partial_floats(size_t wide) {
    return PARTIAL_OUT + round_up(wide, 16);
}

size_t pieces_floats(size_t wide) {
    return scratch_floats(wide) + ATTENTION_QUERIES * (KV_PAGE + 2 * partial_floats(wide));
}

Pieces pieces_of(const Model *m, size_t wide, size_t offset) {
    size_t thread = (size_t)omp_get_thread_num();
    Pieces p = {.scratch = m->layer_threads + thread * m->layer_thread_floats + offset,
                .stride = partial_floats(wide)};
    p.weights = (void *)(p.scratch + scratch_floats(wide));
    p.next = p.weights[ATTENTION_QUERIES];
    p.running = p.next + ATTENTION_QUERIES * p.stride;
    return p;
}

void pieces_begin(const Pieces *p, size_t n) {
    for (size_t i = 0; i < n; i++) {
        memset(p->running + i * p->stride, 0, p->stride * sizeof *p->running);
        p->running[i * p->stride + PARTIAL_MAX] = -INFINITY;
    }
}

/* Where positions begin ... end - 1 are cut because a segment ends. */
static size_t piece_end(size_t begin, size_t end) {
    size_t segment_end = (begin / ATTENTION_SEGMENT + 1) * ATTENTION_SEGMENT;
    return segment_end < end ? segment_end : end;
}

/* Computes partial results for the positions [begin, end) of one segment, at pieces->next. */
static void run_piece(const Model *m, const Pieces *p, const PieceHeads *h, const KvCache *cache,
                      size_t begin, size_t end) {
    AttentionQuery queries[ATTENTION_QUERIES];
    for (size_t i = 0; i < h->n; i++)
        queries[i] = (AttentionQuery){.q = h->q + i * h->params->head_dim,
                                      .begin = begin,
                                      .end = end,
                                      .partial = p->next + i * p->stride};
    const AttentionBf16 bf16 = attention_bf16_of(m->attention);
    const AttentionJob job = {.cache = cache,
                              .sequence = h->sequence,
                              .kv_head = h->kv_head,
                              .n_queries = h->n,
                              .queries = queries,
                              .scratch = p->scratch,
                              .weights = p->weights,
                              .bf16 = &bf16};
    m->isa->attention->segment(h->params, &job);
}

void pieces_add(const Model *m, const Pieces *p, const PieceHeads *h, const KvCache *cache,
                size_t begin, size_t end) {
    for (size_t stop; begin < end; begin = stop) {
        stop = piece_end(begin, end);
        run_piece(m, p, h, cache, begin, stop);
        for (size_t i = 0; i < h->n; i++)
            m->isa->attention->join(p->running + i * p->stride, p->next + i * p->stride,
                                    h->params->value_dim);
    }
}

float pieces_largest(const Model *m, const Pieces *p, const PieceHeads *h, const KvCache *cache,
                     size_t begin, size_t end) {
    float most = -INFINITY;
    for (size_t stop; begin < end; begin = stop) {
        stop = piece_end(begin, end);
        run_piece(m, p, h, cache, begin, stop);
        if (!(p->next[PARTIAL_MAX] <= most)) most = p->next[PARTIAL_MAX];
    }
    return most;
}

void pieces_finish(const Model *m, const Pieces *p, const PieceHeads *h, const float *sinks,
                   float *out) {
    size_t dim = h->params->value_dim;
    for (size_t i = 0; i < h->n; i++)
        m->isa->attention->finish(out + i * dim, p->running + i * p->stride,
                                  sinks ? sinks + i : NULL, dim);
}
