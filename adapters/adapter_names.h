/* How peft's names of modules become names of the base's tensors. */
#ifndef ADAPTERS_ADAPTER_NAMES_H
#define ADAPTERS_ADAPTER_NAMES_H

#include "formats/family/families.h"

/* The name of the tensor that the family's rules look for, malloc'ed; NULL: no memory. The rules'
 * names begin with "model."; peft's may begin with something else before the layers, or with
 * nothing. */
char *adapter_peft_name(const Family *family, const char *module);

#endif
