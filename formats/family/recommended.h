/* What a model's files recommend for sampling: generation_config.json, and general.sampling.* of a
 * GGUF file. It becomes the metadata generation.* (docs/format.md), which generation.c reads. What
 * would change the text and is not known to this program is named in a note of the source. */
#ifndef FORMATS_FAMILY_RECOMMENDED_H
#define FORMATS_FAMILY_RECOMMENDED_H

#include <jansson.h>

#include "formats/containers/gguf.h"

/* Copies every number and switch of generation_config.json (NULL: none) into the metadata, as
 * "generation.KEY". */
void recommended_json(Source *source, const json_t *generation);
void recommended_gguf(Source *source, const Gguf *gguf);

#endif
