/* The kinds of stacks (stack_kind.h), each in the file of its name. */
#ifndef LAYERS_STACKS_H
#define LAYERS_STACKS_H

#include "stack_kind.h"
#include "weights_internal.h"

extern const StackKind stack_gemma4, stack_altup;

/* Zeroed memory for weights that weights_free gives to free(); NULL after a failure, which the
 * finder then holds. */
void *stack_allocate(Finder *finder, size_t bytes);

#endif
