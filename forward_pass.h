/* A call of model_forward as its steps see it, and the steps that model.c and the kinds of layers
 * in layers/ share. All threads of a call run the same functions: loops over rows are divided among
 * them by `omp for nowait` and end in forward_wait; matmul and attention_forward divide their own
 * work. */
#ifndef FORWARD_PASS_H
#define FORWARD_PASS_H

#include <stdatomic.h>

#include "model_state.h"

struct ForwardPass;

/* Steps of model.c, for the stacks of layers/ (stack_kind.h), which compute blocks of their own. */
typedef struct ForwardSteps {
    /* y[n][dim] = the layer's attention, without the bias of the output projection. */
    void (*attention)(struct ForwardPass *pass, size_t layer, const float *in, float *y);
    /* Adds row `row` of y, with the bias and the post-norm, to the residual stream Model.x. */
    void (*add)(struct ForwardPass *pass, size_t layer, size_t row, const Linear *last,
                const Norm *post, const Norm *after, float *y);
} ForwardSteps;

/* One call of model_forward, shared by its threads. */
typedef struct ForwardPass {
    Model *model;
    KvCache *cache;
    const Row *rows;
    size_t n;
    float *logits;
    const ForwardSteps *steps;
    atomic_int bad_layer; /* the first one with a non-finite value; n_layers: the logits */
    double last_time;     /* of the first thread's last forward_add_time */
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

/* out[n] = the norm of x[n]; out may be x. */
void forward_normalize(const Model *model, const Norm *norm, float *out, const float *x, size_t n);

/* Adds the bias, if there is one, to out[outputs]. */
void forward_add_bias(const Model *model, const Linear *linear, float *out);

/* x[n] clamped to +- limit. */
void forward_clip(float *x, size_t n, float limit);

/* x[rotary_dim of the layer] of one head, rotated by the angles of row `row`; unchanged in layers
 * that rotate nothing. */
void forward_rotate(const Model *model, size_t layer, size_t row, float *x);

/* What a row's queries are multiplied by at its position. */
float forward_query_scale(const Config *config, size_t layer, int32_t position);

#endif
