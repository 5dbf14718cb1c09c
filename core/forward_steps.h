/* A call of model_forward as its steps see it, and the steps that model.c and the kinds of layers
 * in layers/ share. All threads of a call run the same functions: loops over rows are divided among
 * them by `omp for nowait` and end in forward_wait; matmul and attention_forward divide their own
 * work. */
#ifndef FORWARD_STEPS_H
#define FORWARD_STEPS_H

#include <stdatomic.h>

#include "core/arena.h"
#include "core/attention.h"
#include "base/threads.h"
#include "core/branch.h"
#include "core/isa.h"
#include "core/layer_kind.h"
#include "core/model_row.h"
#include "core/weights.h"

/* The model's state, which model_setup.c allocates. */
struct Model {
    const Config *config;
    const ModelFile *file;
    Weights weights;
    const LayerKinds *layers;
    const Arrangement *arrangement;
    BranchList branches; /* of all layers */
    const Isa *isa;
    int n_threads;
    uint32_t context, max_rows;
    size_t ffn_rows; /* of feed-forwards in one call: max_rows, and room for a token's experts */
    double row_work; /* multiply-adds of the matrix products of one row */
    PassObserver *observers; /* a list, which layers/model_watch.c makes */
    unsigned watched;        /* PASS_...: the functions that they have */
    Exchange *exchange;
    Barrier barrier;
    MatmulMemory *matmul;
    AttentionMemory *attention;

    /* Working memory of a forward pass, n = max_rows. Branches take theirs from the arena. */
    Arena arena;
    float *x;                     /* [n][dim]  the residual stream */
    float *normed;                /* [n][dim]  the input of most branches */
    float *y;                     /* [n][dim]  their output */
    float *cosine[2], *sine[2];   /* [n][n_pairs], of each RoPE table */
    size_t n_pairs[2];            /* half the table's rotary_dim; 0: no such table */
    AttentionRow *attention_rows; /* [n] */
    float *layer_threads;         /* [n_threads][layer_thread_floats], each 64-byte aligned */
    size_t layer_thread_floats;   /* the most that a branch or the arrangement asks for */
    float *scaled_freqs; /* [rotary_dim / 2], a RoPE table made for this context; or NULL */
};

/* Which layers a pass runs, and what lies before and after them: those of the model, or one of its
 * prediction layers (layers/arrangements/mtp.h). */
typedef struct PassPath {
    size_t first_layer, end_layer;
    const Matrix *embedding; /* vocab_size x dim */
    const Norm *final_norm;
    const Linear *output;
    const float *hidden; /* [n][dim], beside the tokens' embeddings: prediction layers; or NULL */
    bool is_whole;       /* the model's own layers: an observer may let them begin later (`x`) */
    const float *x;      /* [n][dim], the residual stream before first_layer; NULL: the embedding */
} PassPath;

/* One call of model_forward, shared by its threads. */
typedef struct ForwardPass {
    Model *model;
    const PassPath *path;
    KvCache *cache;
    const Row *rows;
    size_t n;
    float *logits;
    size_t first_layer, end_layer; /* the part of the layers that is being run */
    atomic_int bad_layer;          /* the first one with a non-finite value; n_layers: the logits */
    double last_time;              /* of the first thread's last forward_add_time */
} ForwardPass;

/* Waits until all threads of the call are here. */
void forward_wait(const ForwardPass *pass);

/* Adds the time since the last call to the seconds of `part`. */
void forward_add_time(ForwardPass *pass, ModelPart part);

/* Multiplies in[n][inputs] with each matrix of the list. */
void forward_multiply(Model *model, const float *in, size_t n, const Product *products,
                      size_t n_products);

/* Multiplies the input of each set, all of one width, with the set's matrices: one list of work
 * for the threads. n_sets is not 0. */
void forward_multiply_sets(Model *model, const ProductSet *sets, size_t n_sets);

/* Gathers x[n][this rank's elements] to x[n][share->width]; does nothing without a share. */
void forward_gather(ForwardPass *pass, const Share *share, float *x, size_t n);

/* out[n] = the norm of x[n], whether it is `present` or not; out may be x. */
void forward_normalize(const Model *model, const Norm *norm, float *out, const float *x, size_t n);

/* Adds the bias, if there is one, to out[outputs]. */
void forward_add_bias(const Model *model, const Linear *linear, float *out);

/* y[n][outputs] = in[n] times the matrix, with the bias: a layer's last projection. Adds the time
 * to PART_PROJECTIONS. */
void forward_project(ForwardPass *pass, const Linear *linear, const float *in, float *y);

/* x[rotary_dim of the layer] of one head, rotated by the angles of row `row`; unchanged in layers
 * that rotate nothing. */
void forward_rotate(const Model *model, size_t layer, size_t row, float *x);

/* forward_rotate of n_heads heads that follow each other. */
void forward_rotate_heads(const Model *model, size_t layer, size_t row, float *heads,
                          size_t n_heads, size_t head_dim);

/* cosine[n], sine[n] = what rotates pairs first to first + n - 1 at a position, by RoPE table
 * `table`, which the model has. The angle is the float32 product, as in transformers. */
void forward_angles(const Model *model, size_t table, int32_t position, size_t first, size_t n,
                    float *cosine, float *sine);

/* Rotates x[rotary_dim of the layer] as at a position that the pass may have no row for. */
void forward_rotate_to(const Model *model, size_t layer, int32_t position, float *x);

/* What a row's queries are multiplied by at its position. */
float forward_query_scale(const Config *config, size_t layer, int32_t position);

/* Records that the layer (n_layers: the logits) gave a value that is not finite, unless an earlier
 * layer is recorded. */
void forward_not_finite(ForwardPass *pass, size_t layer);

/* ---- The feed-forward network ---- */

/* What feed-forwards of n rows in all work in. */
typedef struct HiddenRows {
    float *gate, *up; /* [rows][width] */
} HiddenRows;

HiddenRows hidden_rows(Rows *memory, size_t n, size_t widest);

/* Some rows of a call to forward_ffns, and the network that they go through. */
typedef struct FeedForwardRows {
    const FeedForward *network;
    size_t first, n;
    const float *in;      /* [n][dim], or of the width that the network has */
    const uint32_t *rows; /* the rows of `in`, as in ProductSet; or NULL */
} FeedForwardRows;

enum { FEED_FORWARD_PARTS = 129 }; /* the most of one call: 128 experts and the shared one */

/* y[rows][dim] = feed-forwards of the parts' inputs without the bias of their last projections; of
 * a rank, y[rows][its rows of down]. All are equally wide; their rows follow each other. One list
 * of work for gate and up, and one for down. */
void forward_ffns(ForwardPass *pass, const FeedForwardRows *parts, size_t n_parts,
                  const HiddenRows *hidden, float *y);

/* y[n][dim] = feed-forward of in[n][dim], without the bias of its last projection. */
void forward_ffn(ForwardPass *pass, const FeedForward *network, size_t n, const float *in,
                 const HiddenRows *hidden, float *y);

/* The feed-forward network LayerWeights.ffn, alone or beside a mixture. */
extern const BranchKind forward_ffn_kind;

/* Takes what layer l's forward_ffn_kind works in from `memory`, which is as arena_rows gives it.
 * When its `run` has returned and until another branch runs, `gate` (`up`, where the network is not
 * gated) holds what the last matrix has read. */
HiddenRows forward_ffn_take_rows(Rows *memory, const Model *model, size_t l);

/* A kind that attends has four steps: project (forward_multiply), prepare (norms, rotation,
 * kvcache_store), attend, and project. The plain ones are layers/attention/attention_part.h, and
 * core/self_attention.c with all that models add to them; a kind whose steps differ has its own,
 * named KIND_project, KIND_prepare and KIND_attend, and its header says which differ.
 *
 * What plain attention of a layer takes: its heads, its own keys and values, Config's scale and the
 * layer's window. A kind of layer changes what it has otherwise. */
static inline AttentionParams forward_attention_params(const Config *config, const HeadShape *heads,
                                                       size_t layer) {
    return (AttentionParams){.layer = layer,
                             .cache_layer = layer,
                             .n_heads = heads->n_heads,
                             .n_kv_heads = heads->n_kv_heads,
                             .head_dim = heads->head_dim,
                             .value_dim = heads->value_dim,
                             .scale = config->attention_scale,
                             .window = config->window[layer]};
}

/* The model's observers where one of them looks at attention; else NULL. */
static inline PassObserver *forward_attention_observers(const Model *model) {
    return model->watched & PASS_ATTENTION ? model->observers : NULL;
}

/* attention_forward for the rows of the pass, with the model's observers. */
void forward_attend(ForwardPass *pass, const AttentionParams *params, const float *q,
                    float *attended);

#endif
