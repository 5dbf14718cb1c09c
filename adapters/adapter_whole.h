/* Whole tensors beside an adapter's factors. With a LoRA on the embedding or the output head, peft
 * saves that tensor of the base as well, as `...base_layer.weight` (save_embedding_layers of its
 * get_peft_model_state_dict, "auto" by default). It says nothing where it equals the model's own;
 * where it differs, the adapter is for another base, and adding the factors to this one would give
 * what nobody trained. */
#ifndef ADAPTERS_ADAPTER_WHOLE_H
#define ADAPTERS_ADAPTER_WHOLE_H

#include "adapters/adapter_modules.h"
#include "formats/family/family.h"
#include "core/modelfile.h"

/* The files to compare: the adapter's and the model's. */
typedef struct AdapterFiles {
    const char *path; /* of the adapter, for messages */
    InputFile *files; /* [n_files] the adapter's */
    size_t n_files;
    const Config *config;  /* of the base */
    const ModelFile *base; /* where the base's tensors are; NULL: in the source */
    const Source *source;
} AdapterFiles;

/* Refuses the adapter unless each of modules->wholes is a tensor of the base and equals it. Values
 * are equal if rounding one side to the other's number format makes them so. Of a base with codes
 * of n bits only the nearest values are known: there the difference may have 2.4 / 2^n of the norm,
 * twice what rounding to such codes costs. */
Status adapter_check_wholes(const AdapterModules *modules, const AdapterFiles *files,
                            const Family *family, Error *error);

#endif
