/* Layers that do something else than attend over keys and values: recurrent states, latent
 * attention and the like (Config.layer_kind). Each kind is a file of layers/ and a row in the
 * tables of layers/layer_kinds.c and layers/layer_fields.c; the forward pass, the weights and the
 * cache call it through this header alone. The core build has no such kind and refuses the models
 * by name. */
#ifndef LAYER_KIND_H
#define LAYER_KIND_H

#include "base/outside_core.h"
#include "config.h"
#include "kvcache.h"

struct ForwardPass;
struct Finder;

typedef struct LayerKind {
    /* Finds the weights of a layer (weights_internal.h). Returns memory that weights_free gives to
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
OUTSIDE_CORE(const LayerKind *layer_kind(uint32_t number), (void)number; return NULL;)

/* The fields of Config that only these kinds read; NULL past the end. */
OUTSIDE_CORE(const ConfigField *layer_kind_field(size_t i), (void)i; return NULL;)

/* Checks what the layer's kind reads of the configuration. */
OUTSIDE_CORE(Status layer_kind_validate(const Config *config, uint32_t layer, Error *error),
             return error_set(error,
                              "layer %u is of a kind that this build leaves out (layer_kind %u)",
                              layer, config->layer_kind[layer]);)

/* Multiply-adds of the layer's matrix products for one row. */
OUTSIDE_CORE(double layer_kind_work(const Config *config, uint32_t layer), (void)config;
             (void)layer; return 0;)

/* Checks what a mixture of experts (mixture.h) reads of the configuration. */
OUTSIDE_CORE(Status mixture_validate(const Config *config, Error *error),
             return error_set(error,
                              "n_experts is %u, but this build leaves out mixtures of experts",
                              config->n_experts);)

#endif
