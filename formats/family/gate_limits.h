/* The limits of gates (limits_activate), which a model file holds as tensors: Step 3.5. */
#ifndef FORMATS_FAMILY_GATE_LIMITS_H
#define FORMATS_FAMILY_GATE_LIMITS_H

#include "formats/containers/source.h"

/* Adds layers.N.experts.E.gate_limit of all experts of a layer, or layers.N.gate_limit and
 * layers.N.shared.gate_limit. */
Status gate_limit_add(Source *source, uint32_t layer, bool of_experts, double limit, Error *error);

#endif
