/* The names that guides and courses give to a decoder's tensors. */
#ifndef FORMATS_FAMILY_OWN_NAMES_H
#define FORMATS_FAMILY_OWN_NAMES_H

#include <stdbool.h>
#include <stddef.h>

/* What a name stands for. WQKV: queries, keys and values in one matrix. */
typedef enum OwnPart {
    OWN_EMBEDDING,
    OWN_POSITIONS,
    OWN_OUTPUT,
    OWN_FINAL_NORM,
    OWN_LAYER, /* the first part that each layer has */
    OWN_WQ = OWN_LAYER,
    OWN_WK,
    OWN_WV,
    OWN_WQKV,
    OWN_WO,
    OWN_UP,
    OWN_GATE,
    OWN_DOWN,
    OWN_ATTENTION_NORM,
    OWN_FFN_NORM,
    OWN_PARTS
} OwnPart;

/* The keys of "tensors" in config.json, by OwnPart. */
extern const char *const own_part_keys[OWN_PARTS];

/* Names of a tensor outside the layers, without ".weight", the likeliest first; NULL ends them. */
const char *const *own_outer_names(OwnPart part);

/* How a guide names a layer's tensors, without ".weight", after the layers' prefix and the layer's
 * number; NULL: it has none. "%h" is the number of a head that has matrices of its own. */
typedef struct OwnStyle {
    const char *name;  /* in config.json: "names" */
    const char *probe; /* a tensor of layer 0 by which the style is known */
    const char *parts[OWN_PARTS];
    /* Defaults of config.json. */
    const char *positions, *activation;
    bool norm_before, annotated_norm;
} OwnStyle;

/* Ends with one whose name is NULL. */
extern const OwnStyle own_styles[];

#endif
