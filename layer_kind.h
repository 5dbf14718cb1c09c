/* What the forward pass, the weights and the cache call in layers/: kinds of layers, stacks and
 * mixtures of experts. Each kind is a file of layers/ and a row in its tables. The core build has
 * none of them and refuses the models by name. */
#ifndef LAYER_KIND_H
#define LAYER_KIND_H

#include "base/outside_core.h"
#include "config.h"
#include "kvcache.h"
#include "numeric.h"

struct FeedForward;
struct ForwardPass;
struct Finder;
struct LayerWeights;
struct Weights;

/* ---- Layers that do something else than attend over keys and values (Config.layer_kind) ---- */

typedef struct LayerKind {
    /* Finds the weights of a layer (weights.h). Returns memory that weights_free gives to
     * free(), or NULL after a failure, which the finder then holds. */
    void *(*find)(struct Finder *finder, uint32_t layer);
    /* Floats of working memory for each row of a call, and for each thread. NULL: none. */
    size_t (*row_floats)(const Config *config);
    size_t (*thread_floats)(const Config *config);
    /* What the layer stores in the cache. */
    KvLayer (*cached)(const Config *config, uint32_t layer);
    /* y[n][dim] = the layer's output for in[n][dim], before it is added to the residual stream. All
     * threads of the forward pass call it, and it returns when all are done (forward_pass.h). */
    void (*forward)(struct ForwardPass *pass, size_t layer, const float *in, float *y);
} LayerKind;

/* The kind of a layer whose Config.layer_kind is not LAYER_ATTENTION. Its Config was validated, so
 * that it is never NULL. */
OUTSIDE_CORE(const LayerKind *layer_kind(uint32_t number), return NULL;)

/* The fields of Config that only these kinds read; NULL past the end. */
OUTSIDE_CORE(const ConfigField *layer_kind_field(size_t i), return NULL;)

/* Checks what the layer's kind reads of the configuration. */
OUTSIDE_CORE(Status layer_kind_validate(const Config *config, uint32_t layer, Error *error),
             return error_set(error,
                              "layer %u is of a kind that this build leaves out (layer_kind %u)",
                              layer, config->layer_kind[layer]);)

/* Multiply-adds of the layer's matrix products for one row. */
OUTSIDE_CORE(double layer_kind_work(const Config *config, uint32_t layer), return 0;)

/* ---- Mixtures of experts: feed-forwards of which a router chooses some for each token ---- */

/* y[n][dim] = the sum of the experts' outputs for in[n][dim], each times its share, in the order of
 * their numbers; the router chooses them by routed[n][dim]. */
OUTSIDE_CORE(void mixture_forward(struct ForwardPass *pass, const struct LayerWeights *weights,
                                  const float *routed, const float *in, float *y), )

/* gate[width] = what down takes of it, in models of experts whose gates are limited. GPT-OSS:
 * activation(min(gate, limit)) * (up within +- limit, plus 1) with Config.swiglu_limit. Step 3.5:
 * min(activation(gate), limit) * (up within +- limit) with FeedForward.limit. Changes up[width]. */
OUTSIDE_CORE(void limited_activate(const Numeric *numeric, const Config *c,
                                   const struct FeedForward *f, float *gate, float *up), )

/* Checks what a mixture of experts, or a limit of its gates, reads of the configuration. */
OUTSIDE_CORE(Status mixture_validate(const Config *config, Error *error),
             return error_set(error,
                              "n_experts is %u, but this build leaves out mixtures of experts",
                              config->n_experts);)

/* ---- Stacks whose layers are more than a residual stream with attention and feed-forwards
 * (Config.stack): Gemma 4's inputs of each layer's own, Gemma 3n's several streams ---- */

typedef struct StackKind {
    /* Finds the weights that weights_find does not know: weights->stack and the layers' `own`. A
     * failure is the finder's. */
    void (*find)(struct Finder *finder, struct Weights *weights);
    /* Floats of working memory for each row of a call, and for each thread: Model.layer_rows and
     * Model.layer_threads. */
    size_t (*row_floats)(const Config *config);
    size_t (*thread_floats)(const Config *config);
    /* Computes the layers from the pass's first_layer to its end_layer: from Model.x, the rows'
     * embeddings, with the first layer's pre-norm in Model.normed, to Model.x, which the output
     * head reads. What one part leaves for the next lies in the rows' working memory. All threads
     * of the forward pass call it (forward_pass.h). */
    void (*forward)(struct ForwardPass *pass);
} StackKind;

/* The kind of a Config.stack that is not STACK_PLAIN. The Config was validated, so that it is never
 * NULL. */
OUTSIDE_CORE(const StackKind *stack_kind(StackNumber number), return NULL;)

/* Checks what the stack reads of the configuration. */
OUTSIDE_CORE(Status stack_kind_validate(const Config *config, Error *error),
             return error_set(error, "this build leaves out the stack of '%s'", config->family);)

/* Multiply-adds of the stack's own matrix products for one row. */
OUTSIDE_CORE(double stack_kind_work(const Config *config), return 0;)

#endif
