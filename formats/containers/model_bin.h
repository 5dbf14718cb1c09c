/* Reads a model.bin as a source, so that it can be converted to other types. */
#ifndef FORMATS_CONTAINERS_MODEL_BIN_H
#define FORMATS_CONTAINERS_MODEL_BIN_H

#include "formats/containers/source.h"

/* Fills in the Source of files[0]. Without another type every tensor keeps its type, and the
 * conversion is the same file again. */
Status model_bin_parse(Source *source, Error *error);

#endif
