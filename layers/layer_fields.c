/* What the kinds of layers read of the configuration: their fields, their checks, and the size of
 * their matrix products. It stands apart from layer_kinds.c because config.c calls it, and the
 * kinds' own files need modules that need config.c. */
#include "layers/layer_fields.h"

#include "layer_kind.h"

/* One row for each kind, in the order of LayerKindNumber. */
static const LayerFields *const kinds[LAYER_KINDS] = {NULL};

static const ConfigField fields[] = {{.name = NULL}};

const ConfigField *layer_kind_field(size_t i) {
    return i + 1 < sizeof fields / sizeof *fields ? &fields[i] : NULL;
}

Status layer_kind_validate(const Config *c, uint32_t layer, Error *error) {
    const LayerFields *kind = kinds[c->layer_kind[layer]];
    if (!kind)
        return error_set(error, "layer %u: layer_kind %u is unknown", layer, c->layer_kind[layer]);
    return kind->validate(c, layer, error);
}

double layer_kind_work(const Config *c, uint32_t layer) {
    const LayerFields *kind = kinds[c->layer_kind[layer]];
    return kind ? kind->work(c, layer) : 0;
}
