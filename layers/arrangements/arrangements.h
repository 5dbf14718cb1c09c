/* The arrangements of layers/ (core/layer_kind.h), each in the file of its name. */
#ifndef LAYERS_ARRANGEMENTS_ARRANGEMENTS_H
#define LAYERS_ARRANGEMENTS_ARRANGEMENTS_H

#include "core/branches.h"

extern const Arrangement gemma4_arrangement, altup_arrangement, shortcut_arrangement,
    mixed_norms_arrangement, mtp_arrangement, hyper_arrangement, gated_streams_arrangement,
    scaled_sums_arrangement, convolved_arrangement, block_sums_arrangement,
    residual_gates_arrangement, cycles_arrangement, looped_arrangement;

#endif
