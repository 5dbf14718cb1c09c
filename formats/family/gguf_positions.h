/* The position tables of a GGUF model: RoPE's frequencies, from keys and from the tensors that hold
 * divisors, and ALiBi's slopes. */
#ifndef FORMATS_FAMILY_GGUF_POSITIONS_H
#define FORMATS_FAMILY_GGUF_POSITIONS_H

#include "formats/family/gguf_family.h"

/* Adds the tables that config->position asks for to the source. */
Status gguf_add_positions(GgufModel *model, const GgufFamily *family);

#endif
