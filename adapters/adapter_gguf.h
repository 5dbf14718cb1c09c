/* Reads adapters in GGUF, as llama.cpp's convert_lora_to_gguf.py writes them. */
#ifndef ADAPTERS_ADAPTER_GGUF_H
#define ADAPTERS_ADAPTER_GGUF_H

#include "adapters/adapter_modules.h"

/* Fills modules from the file, as adapter_read_peft does; `architecture` is the base's. */
Status adapter_read_gguf(AdapterModules *modules, const InputFile *file, char architecture[32],
                         Error *error);

#endif
