/* The tensors of prediction layers (Config.mtp.n_layers), told by their names. */
#ifndef FORMATS_FAMILY_MTP_NAMES_H
#define FORMATS_FAMILY_MTP_NAMES_H

#include <stdio.h>

#include "core/config.h"

/* Whether the tensor of this name belongs to a prediction layer: no token of a text needs it. */
static inline bool mtp_is_tensor(const Config *c, const char *name) {
    unsigned layer;
    return c->mtp.n_layers > 0 && sscanf(name, "layers.%u.", &layer) == 1 && layer >= c->n_layers;
}

#endif
