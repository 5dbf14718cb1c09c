/* Models of images or sound and text, whose config.json wraps that of a text model. This program
 * runs the text model. */
#ifndef FORMATS_MULTIMODAL_H
#define FORMATS_MULTIMODAL_H

#include <jansson.h>
#include <stdbool.h>

#include "base/status.h"

/* Replaces *config by the configuration of its text model, with that one's model_type and the keys
 * that apply to all parts (tie_word_embeddings, quantization_config). *is_part: whether it did; a
 * config.json of another model_type is left as it is. */
Status multimodal_text_config(json_t **config, bool *is_part, Error *error);

/* The i-th model_type that multimodal_text_config knows; NULL past the end. */
const char *multimodal_type(size_t i);

#endif
