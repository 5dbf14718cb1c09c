/* Layers that have nothing in the place of attention: a feed-forward alone (Nemotron-H). */
#ifndef LAYERS_NONE_H
#define LAYERS_NONE_H

#include "core/layer_kind.h"

extern const BranchKind none_kind;

#endif
