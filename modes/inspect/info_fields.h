/* Which fields of the configuration --info shows. The table has those of all families
 * (core/config_fields.h), and most of them are at rest in any one model. */
#ifndef INFO_FIELDS_H
#define INFO_FIELDS_H

#include "core/config_fields.h"

/* Whether a reader of the model wants the field: it is one of those that every decoder has, belongs
 * to the kind of positions that the model has, or differs from config_default(). */
bool info_fields_is_set(const Config *config, const ConfigField *field);

#endif
