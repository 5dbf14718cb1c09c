/* The table of the kinds of layers (layer_kind.h). */
#include "layer_kind.h"

#include "layers/delta.h"
#include "layers/latent.h"

static const LayerKind *const kinds[LAYER_KINDS] = {
    [LAYER_LATENT] = &latent_kind,
    [LAYER_DELTA] = &delta_layer,
};

const LayerKind *layer_kind(uint32_t number) {
    return number < LAYER_KINDS ? kinds[number] : NULL;
}
