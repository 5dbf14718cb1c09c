/* Adds adapters to the weights of a source, for good: `export --lora`. */
#ifndef ADAPTER_MERGE_H
#define ADAPTER_MERGE_H

#include "convert/adapter_opening.h"

/* Parses the adapters for this parsed source and lets its tensors be read with what they add:
 * W + scale * B A for each, in the order of the command line. Tied embeddings come apart where an
 * adapter changes one of the two. The source borrows from the opening. */
Status adapter_merge(AdapterOpening *opening, Source *source, Error *error);

#endif
