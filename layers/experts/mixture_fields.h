/* What core/config_fields.c needs to know of mixtures of experts; their checks and their
 * multiply-adds are in core/layer_kind.h, which the core has as well. */
#ifndef LAYERS_EXPERTS_MIXTURE_FIELDS_H
#define LAYERS_EXPERTS_MIXTURE_FIELDS_H

#include "layers/fields.h"

/* The keys of Config.experts and Config.router. */
enum { MIXTURE_KEYS = 25 };
extern const ConfigField mixture_keys[MIXTURE_KEYS];

#endif
