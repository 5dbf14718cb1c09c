/* Files of the safetensors format (https://github.com/huggingface/safetensors): the length of the
 * header in eight bytes, a JSON header, the tensors. */
#ifndef FORMATS_CONTAINERS_SAFETENSORS_H
#define FORMATS_CONTAINERS_SAFETENSORS_H

#include "formats/family/rules.h"

/* Adds the file's tensors to the table; `index` is the file's index in Source.files. Every tensor
 * then lies inside the file. */
Status safetensors_read(const InputFile *file, size_t index, RawTable *table, Error *error);

#endif
