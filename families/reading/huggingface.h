/* The reader of Hugging Face directories: config.json, safetensors, generation_config.json, the
 * tokenizer's files and the chat template. */
#ifndef FAMILIES_READING_HUGGINGFACE_H
#define FAMILIES_READING_HUGGINGFACE_H

#include <stdio.h>

#include "formats/containers/source.h"

/* Opens every file of the directory source->path that a model may need. */
Status huggingface_open(Source *source, Error *error);
/* Parses them. */
Status huggingface_parse(Source *source, Error *error);

/* Prints the draft of a page for a model_type that is not known, or the page of one that is. */
Status huggingface_draft(Source *source, FILE *out, Error *error);

#endif
