/* The table of Config's fields, through which they are written, read and printed; and the checks of
 * their values. */
#ifndef CONFIG_FIELDS_H
#define CONFIG_FIELDS_H

#include "core/config.h"

/* Field i in the order in which they are written and printed; NULL past the end. */
const ConfigField *config_field(size_t i);

/* Checks every field and their relations; the Error names the field. */
Status config_validate(const Config *config, Error *error);

/* Multiply-adds of the matrix products of n_rows tokens when n_logits of them want logits. */
double config_work(const Config *config, double n_rows, double n_logits);

#endif
