#include "layers/attention/ranking.h"

#include <math.h>
#include <omp.h>

#include "base/numbers.h"
#include "kvcache/pool_keys.h"
#include "layers/attention/index_scores.h"

/* ---- Working memory ---- */

/* A thread's part: the candidates of one row, or of a part of what it sees. */
typedef struct Section {
    Selection *selection;
    uint32_t *candidates;
    float *scratch, *keys; /* keys: of a page of pools */
} Section;

static size_t scratch_floats(const Config *c) {
    return round_up(index_scratch_floats(c->indexer.n_heads, c->indexer.head_dim), 16);
}

size_t ranking_thread_floats(const Config *c, size_t k, bool pools) {
    size_t keys = pools ? KV_PAGE * (round_up(c->indexer.head_dim, 4) + 1) : 0;
    return round_up(sizeof(Selection), 64) / 4 + round_up(selection_words(k), 16) +
           scratch_floats(c) + keys;
}

static Section section_of(const Model *m, const Ranking *r, int thread) {
    float *at = m->layer_threads + (size_t)thread * m->layer_thread_floats + r->thread_offset;
    Section s = {.selection = (Selection *)at};
    s.candidates = (uint32_t *)(at + round_up(sizeof(Selection), 64) / 4);
    s.scratch = (float *)(s.candidates + round_up(selection_words(r->k), 16));
    s.keys = s.scratch + scratch_floats(m->config);
    return s;
}

/* ---- Candidates ---- */

size_t ranking_seen(const ForwardPass *pass, size_t row) {
    const Row *r = &pass->rows[row];
    return (size_t)(r->position - kvcache_start(pass->cache, r->sequence)) + 1;
}

void *ranking_keys(const ForwardPass *pass, size_t layer, size_t row, size_t page) {
    return kvcache_values(pass->cache, pass->rows[row].sequence, page, layer, 0);
}

static const IndexScores *scores_of(const Model *m) {
    static const struct {
        const Numeric *numeric;
        const IndexScores *scores;
    } all[] = {
#define BUILD(name, lanes) {&numeric_##lanes, &index_scores_##lanes},
        EACH_ISA(BUILD)
#undef BUILD
    };
    for (size_t i = 1; i < sizeof all / sizeof *all; i++)
        if (all[i].numeric == m->isa->numeric) return all[i].scores;
    return all[0].scores;
}

/* The keys of a page of positions, or copies of the keys of KV_PAGE pools. */
static const char *candidate_keys(const ForwardPass *pass, const Ranking *r, size_t row,
                                  size_t page, size_t n, float *copies) {
    uint32_t pools[KV_PAGE];
    if (r->pool == 0) return ranking_keys(pass, r->layer, row, page);
    for (size_t i = 0; i < n; i++) pools[i] = (uint32_t)(page * KV_PAGE + i);
    pool_keys_copy(pass->cache, pass->rows[row].sequence, r->layer, POOL_INDEX_KEY, pools, n,
                   copies, 0);
    return (const char *)copies;
}

/* Finds the best of the candidates that `row` sees in part `part` of n_parts. */
static void choose_part(const ForwardPass *pass, const Ranking *r, size_t row, size_t part,
                        size_t n_parts, const Section *out) {
    const Model *m = pass->model;
    const Config *c = m->config;
    const IndexScores *kernel = scores_of(m);
    size_t seen = ranking_seen(pass, row) / (r->pool > 0 ? r->pool : 1);
    size_t n_pages = (seen + KV_PAGE - 1) / KV_PAGE;
    size_t page = n_pages * part / n_parts, end = n_pages * (part + 1) / n_parts;
    const Section own = section_of(m, r, omp_get_thread_num());
    const IndexQuery query = {.q = r->q + row * c->indexer.n_heads * c->indexer.head_dim,
                              .weights = r->weights + row * c->indexer.n_heads,
                              .n_heads = c->indexer.n_heads,
                              .dim = c->indexer.head_dim,
                              .scale = 1.0f / sqrtf((float)c->indexer.head_dim),
                              .type = kvcache_shape(pass->cache)->type,
                              .scratch = own.scratch};
    *out->selection = selection_begin(out->candidates, r->k);
    kernel->begin(&query);
    for (; page < end; page++) {
        _Alignas(64) float scores[KV_PAGE];
        size_t first = page * KV_PAGE, n = seen - first < KV_PAGE ? seen - first : KV_PAGE;
        const char *keys = candidate_keys(pass, r, row, page, n, own.keys), *next = keys;
        if (page + 1 < end && r->pool == 0) next = ranking_keys(pass, r->layer, row, page + 1);
        kernel->page(&query, keys, next - keys, scores);
        selection_add(out->selection, scores, first, n);
    }
}

/* ---- Choosing ---- */

void ranking_choose(ForwardPass *pass, const Ranking *r, size_t first, size_t n,
                    void (*take)(void *context, size_t row, const Selection *best), void *context) {
    const Model *m = pass->model;
    size_t n_parts = (size_t)omp_get_num_threads() / n;
#pragma omp for schedule(dynamic, 1) nowait
    for (size_t i = 0; i < n * n_parts; i++) {
        const Section section = section_of(m, r, (int)i);
        choose_part(pass, r, first + i / n_parts, i % n_parts, n_parts, &section);
    }
    forward_wait(pass);
#pragma omp for schedule(static) nowait
    for (size_t i = 0; i < n; i++) {
        Selection *all = section_of(m, r, (int)(i * n_parts)).selection;
        for (size_t part = 1; part < n_parts; part++)
            selection_join(all, section_of(m, r, (int)(i * n_parts + part)).selection);
        selection_finish(all);
        take(context, first + i, all);
    }
    forward_wait(pass);
}
