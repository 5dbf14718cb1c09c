/* Stacks whose layers are more than a residual stream with attention and feed-forwards
 * (Config.stack): Gemma 4's inputs of each layer's own, Gemma 3n's several streams. Each kind is a
 * file of layers/ and a row in the tables of layers/stack_kinds.c and layers/stack_fields.c; the
 * forward pass and the weights call it through this header alone. The core build has no such kind
 * and refuses the models by name. */
#ifndef STACK_KIND_H
#define STACK_KIND_H

#include "base/outside_core.h"
#include "config.h"

struct ForwardPass;
struct Finder;
struct Weights;

typedef struct StackKind {
    /* Finds the weights that weights_find does not know: weights->stack and the layers' `own`. A
     * failure is the finder's. */
    void (*find)(struct Finder *finder, struct Weights *weights);
    /* Floats of working memory for each row of a call, and for each thread: Model.layer_rows and
     * Model.layer_threads. */
    size_t (*row_floats)(const Config *config);
    size_t (*thread_floats)(const Config *config);
    /* Computes all layers: from Model.x, the rows' embeddings, with the first layer's pre-norm in
     * Model.normed, to Model.x, which the output head reads. All threads of the forward pass call
     * it (forward_pass.h). */
    void (*forward)(struct ForwardPass *pass);
} StackKind;

/* The kind of a Config.stack that is not STACK_PLAIN. The Config was validated, so that it is never
 * NULL. */
OUTSIDE_CORE(const StackKind *stack_kind(StackNumber number), (void)number; return NULL;)

/* Checks what the stack reads of the configuration. */
OUTSIDE_CORE(Status stack_kind_validate(const Config *config, Error *error),
             return error_set(error, "this build leaves out the stack of '%s'", config->family);)

/* Multiply-adds of the stack's own matrix products for one row. */
OUTSIDE_CORE(double stack_kind_work(const Config *config), (void)config; return 0;)

#endif
