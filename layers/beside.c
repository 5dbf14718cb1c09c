#include "layers/beside.h"

#include <stdlib.h>

#include "layers/attention_part.h"
#include "layers/mamba2.h"

/* What the outputs are multiplied by. */
enum { OF_ATTENTION, OF_MAMBA, OUTPUT_SCALES };

typedef struct Beside {
    AttentionPart attention;
    Mamba2 mamba;
    const float *scales; /* [OUTPUT_SCALES]; NULL: 1 */
} Beside;

static void *find(Finder *f, uint32_t layer) {
    Beside *w = calloc(1, sizeof *w);
    if (!w) {
        f->status = error_set(f->error, "no memory for a layer");
        return NULL;
    }
    attention_part_find(f, layer, f->config->dim, &w->attention);
    mamba2_find(f, &w->mamba);
    w->scales = weights_vector(f, "scales", 1, OUTPUT_SCALES, false);
    return w;
}

/* The working memory is that of either part, and the output of attention. */
static size_t row_floats(const Config *c) {
    size_t attention = attention_part_row_floats(c), mamba = mamba2_row_floats(c);
    return c->dim + (attention > mamba ? attention : mamba);
}

static KvLayer cached(const Config *c, uint32_t layer) {
    KvLayer stored = attention_part_cached(c, layer);
    stored.state_floats = mamba2_state_floats(c);
    return stored;
}

static void beside_run(ForwardPass *pass, const Branch *b) {
    size_t layer = b->layer;
    const float *in = b->in;
    float *y = b->out;
    Model *m = pass->model;
    const Beside *w = b->weights;
    size_t dim = m->config->dim;
    float *attended = m->layer_rows, *memory = attended + m->max_rows * dim;
    const AttentionPartRows rows = attention_part_rows(m, memory);
    forward_add_time(pass, PART_REST);
    attention_part_project(pass, &w->attention, in, &rows);
    attention_part_attend(pass, layer, &w->attention, &rows, attended);
    mamba2_run(pass, layer, &w->mamba, in, memory, y);
#pragma omp for schedule(static) nowait
    for (size_t i = 0; i < pass->n; i++) {
        if (w->scales) m->isa->numeric->scale(y + i * dim, w->scales[OF_MAMBA], dim);
        m->isa->numeric->add_scaled(y + i * dim, attended + i * dim,
                                    w->scales ? w->scales[OF_ATTENTION] : 1.0f, dim);
    }
    forward_wait(pass);
}

const BranchKind beside_layer = {
    .name = "attention and mamba 2",
    .find = find,
    .row_floats = row_floats,
    .cached = cached,
    .run = beside_run,
};
