/* The fields of a Config as text. */
#ifndef CONFIG_TEXT_H
#define CONFIG_TEXT_H

#include "core/config.h"

/* Writes the field's value as --info prints it into text[size]. Returns the length, as snprintf. */
int config_text(const Config *config, const ConfigField *field, char *text, size_t size);

#endif
