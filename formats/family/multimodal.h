/* Models of images or sound and text, whose config.json wraps that of a text model. This program
 * runs the text model. */
#ifndef FORMATS_FAMILY_MULTIMODAL_H
#define FORMATS_FAMILY_MULTIMODAL_H

#include <jansson.h>
#include <stdbool.h>

#include "base/status.h"

/* Replaces *config by the configuration of its text model, with that one's model_type and the keys
 * that apply to all parts (tie_word_embeddings, quantization_config). *is_part: whether it did; a
 * config.json of another model_type is left as it is. */
Status multimodal_text_config(json_t **config, bool *is_part, Error *error);

/* The name that the tensor has in the model's released files, where transformers' save_pretrained
 * has given another one to a model of this type; NULL: it has the name. Writes to out. */
const char *multimodal_released_name(const char *model_type, const char *name, char *out,
                                     size_t size);

/* The configuration of the text model in a config.json that multimodal_text_config leaves as it is,
 * and its key; NULL: it has none. */
const json_t *multimodal_inner(const json_t *config, const char **key);

/* The i-th model_type that multimodal_text_config knows; NULL past the end. */
const char *multimodal_type(size_t i);

#endif
