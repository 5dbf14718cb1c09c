#include "modes/open/masks.h"

#include <math.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

#include "base/numbers.h"
#include "session/logprobs.h"
#include "core/self_attention.h"

const char *const masks_names[MASK_KINDS + 1] = {"causal", "none", "zero", "-1e9", NULL};

/* The kind that a branch gets: Branch.kind points to its first member. */
typedef struct MaskedKind {
    BranchKind kind;
    const BranchKind *original;
    const Masks *masks;
} MaskedKind;

struct Masks {
    MaskOverride override;
    MaskedKind *kinds; /* [branches of the model] */
    float *scores;     /* [max_rows][max_rows], a row of scores for each query of a pass */
};

bool masks_any(const MaskOverride *o) {
    return o->mask != MASK_MODEL || o->global_tokens > 0 || o->every_layer;
}

bool masks_see_future(const MaskOverride *o) {
    return o->mask == MASK_NONE || o->mask == MASK_ZERO;
}

/* ---- Attention by the formula ---------------------------------------------------------------- */

/* Whether the query at position q sees the key at position k by the model's mask. */
static bool is_seen(const Config *c, const MaskOverride *o, size_t layer, int32_t q, int32_t k) {
    int32_t window = (int32_t)c->window[layer], chunk = (int32_t)c->chunk[layer];
    if (k > q) return false;
    if (k < (int32_t)o->global_tokens) return true;
    return (window == 0 || k > q - window) && (chunk == 0 || k >= q / chunk * chunk);
}

/* scores[pass->n] of one query and head; -infinity takes no weight. */
static void score_row(const ForwardPass *pass, const Masks *masks, size_t layer, size_t row,
                      uint32_t head, const SelfAttentionRows *rows, float *scores) {
    const Model *m = pass->model;
    const Config *c = m->config;
    const HeadShape h = config_heads(c, layer);
    const MaskOverride *o = &masks->override;
    const uint32_t kv = head * h.n_kv_heads / h.n_heads;
    const float *q = rows->q + (row * h.n_heads + head) * h.head_dim;
    float scale = c->attention_scale / (c->attention_scale_falls ? (float)(layer + 1) : 1.0f);
    for (size_t i = 0; i < pass->n; i++) {
        const float *k = rows->k + (i * h.n_kv_heads + kv) * h.head_dim;
        int32_t distance = pass->rows[row].position - pass->rows[i].position;
        float product = 0.0f;
        for (size_t d = 0; d < h.head_dim; d++) product += q[d] * k[d];
        float score = scale * product;
        if (c->attention_softcap > 0.0f)
            score = c->attention_softcap * tanhf(score / c->attention_softcap);
        if (m->weights.alibi_slopes)
            score -= fabsf(m->weights.alibi_slopes[head]) * (float)abs(distance);
        bool seen = is_seen(c, o, layer, pass->rows[row].position, pass->rows[i].position);
        scores[i] = seen || o->mask == MASK_NONE ? score
                    : o->mask == MASK_ZERO       ? 0.0f
                    : o->mask == MASK_BILLION    ? -1e9f
                                                 : -INFINITY;
    }
}

/* Turns scores[n] to weights. */
static void softmax(float *scores, size_t n) {
    float max = scores[0];
    double sum = 0.0;
    for (size_t i = 1; i < n; i++) max = scores[i] > max ? scores[i] : max;
    for (size_t i = 0; i < n; i++) sum += (double)(scores[i] = expf(scores[i] - max));
    for (size_t i = 0; i < n; i++) scores[i] = (float)((double)scores[i] / sum);
}

/* The positions that observers see of a query: as without masks, but to the end of the text. */
static size_t n_shown(const ForwardPass *pass, const Masks *masks, size_t row) {
    return masks_see_future(&masks->override) ? pass->n : row + 1;
}

/* One query: attended[n_heads][value_dim] = its weighted sums of values. */
static void attend(const ForwardPass *pass, const Masks *masks, unsigned watched, size_t layer,
                   size_t row, const SelfAttentionRows *rows) {
    PassObserver *observers = pass->model->observers;
    int32_t first = pass->rows[0].position;
    const HeadShape h = config_heads(pass->model->config, layer);
    float *scores = masks->scores + row * pass->model->max_rows;
    for (uint32_t head = 0; head < h.n_heads; head++) {
        const uint32_t kv = head * h.n_kv_heads / h.n_heads;
        float *sum = rows->attended + (row * h.n_heads + head) * h.value_dim;
        score_row(pass, masks, layer, row, head, rows, scores);
        if (watched & PASS_SCORED) {
            for (size_t i = 0; i < pass->n; i++)
                if (scores[i] == -1e9f) scores[i] = -INFINITY;
            OBSERVERS_CALL(observers, scored, layer, row, head, first, scores,
                           n_shown(pass, masks, row));
            score_row(pass, masks, layer, row, head, rows, scores);
        }
        softmax(scores, pass->n);
        memset(sum, 0, h.value_dim * sizeof *sum);
        for (size_t i = 0; i < pass->n; i++) {
            const float *v = rows->v + (i * h.n_kv_heads + kv) * h.value_dim;
            for (size_t d = 0; d < h.value_dim; d++) sum[d] += scores[i] * v[d];
        }
        if (watched & PASS_ATTENDED)
            OBSERVERS_CALL(observers, attended, layer, row, head, first, scores,
                           n_shown(pass, masks, row));
    }
}

/* Computes the branch as it is, then its attention and the output matrix once more. Nobody looks at
 * attention the first time. */
static void attention_run(ForwardPass *pass, const Branch *b) {
    const MaskedKind *kind = (const MaskedKind *)b->kind;
    Model *m = pass->model;
    unsigned watched = m->watched;
    const Linear *wo = &m->weights.layers[b->layer].wo;
    const Product out = {&wo->w, b->out, wo->w.rows};
    forward_wait(pass); /* every thread has read what is watched */
#pragma omp master
    m->watched &= ~(unsigned)PASS_ATTENTION;
    forward_wait(pass);
    kind->original->run(pass, b);
    Rows memory = arena_rows(&m->arena);
    const SelfAttentionRows rows = self_attention_take_rows(&memory, m, b->layer);
    forward_wait(pass);
#pragma omp master
    m->watched = watched;
#pragma omp for schedule(static) nowait
    for (size_t i = 0; i < pass->n; i++) attend(pass, kind->masks, watched, b->layer, i, &rows);
    forward_wait(pass);
    forward_multiply(m, rows.attended, pass->n, &out, 1);
}

/* ---- Positions in every layer ---------------------------------------------------------------- */

static void add_position(const Model *m, float *x, int32_t position) {
    const Config *c = m->config;
    size_t half = c->dim / 2, at = (size_t)position + c->position_offset;
    bool interleaved = c->sinusoid_layout == SINUSOID_INTERLEAVED;
    if (c->position == POSITION_LEARNED) {
        const float *vector = m->weights.position_embedding + at * c->dim;
        m->isa->numeric->add_scaled(x, vector, 1.0f, c->dim);
        return;
    }
    for (size_t i = 0; i < half; i++) {
        float sine, cosine;
        numbers_sin_cos((float)at * m->weights.sinusoid_freqs[i], &sine, &cosine);
        x[interleaved ? 2 * i : i] += sine;
        x[interleaved ? 2 * i + 1 : half + i] += cosine;
    }
}

/* The first branch of a layer: adds the positions to x, and reads x again for its group. */
static void positioned_run(ForwardPass *pass, const Branch *b) {
    const MaskedKind *kind = (const MaskedKind *)b->kind;
    const Model *m = pass->model;
    size_t dim = m->config->dim;
#pragma omp for schedule(static) nowait
    for (size_t i = 0; i < pass->n; i++) {
        add_position(m, m->x + i * dim, pass->rows[i].position);
        for (const Branch *reader = b;; reader++) {
            if (reader->pre)
                forward_normalize(m, reader->pre, reader->in + i * dim, m->x + i * dim, dim);
            if (!reader->same_x) break;
        }
    }
    forward_wait(pass);
    if (kind->masks->override.mask == MASK_MODEL && kind->masks->override.global_tokens == 0)
        kind->original->run(pass, b);
    else
        attention_run(pass, b);
}

/* ---- A model --------------------------------------------------------------------------------- */

/* Why the model cannot be computed so; NULL: it can. */
static const char *obstacle(const Model *m, const MaskOverride *o) {
    const Config *c = m->config;
    if (m->exchange) return "several processes compute the model";
    if (o->every_layer && c->position != POSITION_SINUSOIDAL && c->position != POSITION_LEARNED)
        return "the model adds no positions to its embeddings";
    for (uint32_t l = 0; l < c->n_layers; l++) {
        const Branch *b = m->branches.all + m->branches.first[l];
        const LayerWeights *w = &m->weights.layers[l];
        if (b->kind != &self_attention_kind)
            return "its layers are not attention by keys and values alone";
        if (w->sinks || w->attention_gate.w.data || w->inner_norm.present || c->kv_distance[l] > 0)
            return "its attention has sinks, gates, a norm or keys of another layer";
        if (b->plus || b->streams || b->gate || b->pre_replaces_x)
            return "its layers read more than a norm of x";
        if (o->global_tokens > 0 && c->window[l] == 0 && c->chunk[l] == 0)
            return "a layer has no window (give --override window=N first)";
    }
    return NULL;
}

Status masks_prepare(const Config *config, ModelOptions *options, Error *error) {
    uint32_t context = options->context ? options->context : config->context;
    if (context > MASKS_POSITIONS)
        return error_set(error,
                         "--override mask, positions or global_tokens: a text is one pass of at "
                         "most %d positions: give -c %d",
                         MASKS_POSITIONS, MASKS_POSITIONS);
    options->max_rows = context;
    return STATUS_OK;
}

/* Replaces the attention of each layer that the override concerns by one that computes with its
 * mask and positions. What it allocates is in *masks even after a failure, for masks_free. */
Status masks_apply(Masks **out, Model *model, const MaskOverride *override, Error *error) {
    const char *why = obstacle(model, override);
    if (why) return error_set(error, "--override mask, positions or global_tokens: %s", why);
    /* Scores are read in passes of so many rows, and a mask sees no other pass. */
    size_t rows = logprobs_max_rows(model);
    if (rows < model->max_rows)
        return error_set(error,
                         "--override mask, positions or global_tokens: with this vocabulary a pass "
                         "scores at most %zu positions: give -c %zu",
                         rows, rows);
    BranchList *list = &model->branches;
    Masks *masks = calloc(1, sizeof *masks);
    *out = masks;
    if (!masks) return error_set(error, "no memory for a mask");
    masks->override = *override;
    masks->kinds = calloc(list->n + 1, sizeof *masks->kinds);
    masks->scores = calloc((size_t)model->max_rows * model->max_rows, sizeof *masks->scores);
    if (!masks->kinds || !masks->scores) return error_set(error, "no memory for a mask");
    for (uint32_t l = 0; l < model->config->n_layers; l++) {
        size_t i = list->first[l];
        Branch *b = &list->all[i];
        bool masked = override->mask != MASK_MODEL || override->global_tokens > 0;
        bool positioned = override->every_layer && l > 0;
        if (!masked && !positioned) continue;
        masks->kinds[i] = (MaskedKind){.kind = *b->kind, .original = b->kind, .masks = masks};
        masks->kinds[i].kind.run = positioned ? positioned_run : attention_run;
        b->kind = &masks->kinds[i].kind;
    }
    return STATUS_OK;
}

void masks_free(Masks *masks) {
    if (!masks) return;
    free(masks->kinds);
    free(masks->scores);
    free(masks);
}
