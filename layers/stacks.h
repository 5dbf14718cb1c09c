/* The kinds of stacks (layer_kind.h), each in the file of its name. */
#ifndef LAYERS_STACKS_H
#define LAYERS_STACKS_H

#include "layer_kind.h"
#include "weights.h"

extern const StackKind stack_gemma4, stack_altup, stack_shortcut, stack_mixed_norms, stack_mtp,
    stack_hyper;

/* Zeroed memory for weights that weights_free gives to free(); NULL after a failure, which the
 * finder then holds. */
void *stack_allocate(Finder *finder, size_t bytes);

/* Floats of each row of Model.layer_rows that the kinds of layers use. What a stack keeps from one
 * layer to the next lies behind max_rows of them. */
size_t stack_kind_floats(const Config *config);

#endif
