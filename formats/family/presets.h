/* Values that a family gives fields of Config. */
#ifndef FORMATS_FAMILY_PRESETS_H
#define FORMATS_FAMILY_PRESETS_H

#include "core/config.h"

/* The field called `field` has this value: a number, an enumerator of the field's, or 0 and 1 for
 * false and true. */
typedef struct Preset {
    const char *field;
    double value;
} Preset;

/* *value = what the text says for the field: a number that it can have, the name of an enumerator,
 * true or false. */
Status preset_value(const char *field, const char *text, double *value, Error *error);

/* Sets the field to the value that the text gives. */
Status preset_text(const char *field, const char *text, Config *config, Error *error);

/* Whether the field has the value. */
bool preset_holds(const Preset *preset, const Config *config);

/* Sets the fields of presets[], which ends with one without a field; NULL: none. */
Status preset_apply(const Preset *presets, Config *config, Error *error);

#endif
