/* Reads peft's adapters: adapter_config.json and adapter_model.safetensors. */
#ifndef ADAPTERS_ADAPTER_PEFT_H
#define ADAPTERS_ADAPTER_PEFT_H

#include "adapters/adapter_modules.h"

/* Fills modules from the files. `base` is the model's. Every module then has both factors, matrices
 * whose ranks agree, and a scale. */
Status adapter_read_peft(AdapterModules *modules, const InputFile *config, const InputFile *weights,
                         const Config *base, Error *error);

#endif
