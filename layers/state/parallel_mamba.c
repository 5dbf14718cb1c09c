#include "layers/state/parallel_mamba.h"

#include "core/branches.h"
#include "layers/attention/attention_part.h"
#include "layers/layer_allocate.h"
#include "layers/state/mamba2.h"

/* Scales of the two outputs. */
enum { OF_ATTENTION, OF_MAMBA, OUTPUT_SCALES };

typedef struct ParallelMamba {
    AttentionPart attention;
    Mamba2 mamba;
    const float *scales; /* [OUTPUT_SCALES]; NULL: 1 */
} ParallelMamba;

static void *parallel_mamba_find(Finder *f, uint32_t layer) {
    ParallelMamba *w = layer_allocate(f, sizeof *w);
    if (!w) return NULL;
    attention_part_find(f, layer, f->config->dim, &w->attention);
    mamba2_find(f, &w->mamba);
    w->scales = weights_vector(f, "scales", 1, OUTPUT_SCALES, false);
    return w;
}

static KvLayer parallel_mamba_cached(const Config *c, uint32_t layer) {
    KvLayer stored = attention_part_cached(c, layer);
    stored.state_floats = mamba2_state_floats(c);
    return stored;
}

/* x += scale * mamba(pre(x)) + scale * attention(the same) */
static void parallel_mamba_list(Model *m, size_t l, const Norm *pre, float *in) {
    const ParallelMamba *w = m->weights.layers[l].own;
    Branch *mamba = branches_append(m, l, &mamba2_kind);
    branches_set_input(mamba, pre, in);
    mamba->weights = &w->mamba;
    mamba->addition = ADD_TO_NEXT;
    mamba->same_x = true;
    Branch *attention = branches_append(m, l, &attention_part_kind);
    branches_set_input(attention, NULL, in);
    attention->weights = &w->attention;
    attention->last_linear = &w->attention.wo;
    attention->out = branches_second_output(m);
    if (!w->scales) return;
    mamba->part_scale = w->scales[OF_MAMBA];
    attention->part_scale = w->scales[OF_ATTENTION];
}

const BranchKind parallel_mamba_kind = {
    .find = parallel_mamba_find, .cached = parallel_mamba_cached, .list = parallel_mamba_list};
