/* What core/config_fields.c needs to know of mixtures of experts. */
#ifndef LAYERS_EXPERTS_MIXTURE_FIELDS_H
#define LAYERS_EXPERTS_MIXTURE_FIELDS_H

#include "layers/fields.h"

/* The keys of Config.experts and Config.router, a table for what came together. */
extern const FieldTable mixture_keys, mixture_limit_keys, mixture_group_keys, mixture_always_keys,
    mixture_softcap_keys, mixture_router_dim_keys, mixture_logit_scale_keys;

/* Checks that the fields of experts and router fit each other (LayerConfig.validate_mixture). */
Status mixture_validate(const Config *config, Error *error);
/* The multiplications that a token needs in experts (LayerConfig.mixture_work). */
double mixture_work(const Config *config);

#endif
