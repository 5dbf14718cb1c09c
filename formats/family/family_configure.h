/* Config from config.json, as a family's description says. */
#ifndef FORMATS_FAMILY_FAMILY_CONFIGURE_H
#define FORMATS_FAMILY_FAMILY_CONFIGURE_H

#include "formats/family/family.h"

/* Fills config from json: the family's presets, its keys, what follows from them, its refusals, its
 * steps and its `finish`. */
Status family_configure(const Family *family, const json_t *json, Config *config, Error *error);

/* Adds to an error that names fields of `config` by which keys of config.json they are filled, and
 * where a head's width comes from that is not part of the model's. */
void family_name_keys(const Family *family, const Config *config, Error *error);

#endif
