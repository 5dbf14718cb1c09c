/* What core/config_fields.c needs to know of arrangements. */
#ifndef LAYERS_ARRANGEMENTS_ARRANGEMENT_FIELDS_H
#define LAYERS_ARRANGEMENTS_ARRANGEMENT_FIELDS_H

#include "layers/fields.h"

/* The keys of Config.streams, Config.per_layer, Config.mtp and so on, a table for each. */
extern const FieldTable arrangement_hyper_keys, arrangement_altup_keys, arrangement_mtp_keys,
    arrangement_block_keys, arrangement_product_keys, arrangement_loop_keys;

/* LayerConfig.validate_arrangement and arrangement_work */
Status arrangement_validate(const Config *config, Error *error);
double arrangement_work(const Config *config);

#endif
