/* The matrices of an adapter's file, before they are assigned to the model's tensors (adapter.h):
 * what the readers of the two formats fill in. */
#ifndef ADAPTERS_ADAPTER_MODULES_H
#define ADAPTERS_ADAPTER_MODULES_H

#include "formats/family/rules.h"

/* One matrix of the base that an adapter adds to. Linear: a is [rank][inputs], b [outputs][rank].
 * An embedding's factors lie the other way round: see a_is_turned. */
typedef struct AdapterModule {
    char *name;     /* the base's tensor, as the rules of its format call it; owned */
    char *own_name; /* for messages and patterns: as the adapter calls it; owned */
    const RawTensor *a, *b;
    bool is_embedding; /* rows: the vocabulary. a is [rank][vocabulary], b [dim][rank] */
    bool a_is_turned;  /* of an embedding in GGUF: a is [vocabulary][rank] */
    double alpha_over_rank;
    /* One expert of a parameter of all (peft's target_parameters): a is [n_experts][rank][inputs],
     * b [outputs][rank][n_experts]. 0: a matrix of its own. */
    size_t n_experts, expert;
    size_t first_row, n_rows; /* of b's outputs: the module's */
} AdapterModule;

typedef struct AdapterModules {
    AdapterModule *items;
    size_t n, capacity;
    const RawTensor **wholes; /* [n_wholes] tensors that are no factors: adapter_whole.h */
    size_t n_wholes, wholes_capacity;
    RawTable table; /* of the file; `a`, `b` and `wholes` point into it */
} AdapterModules;

/* The module that was added last if it has this name of its own, else a new one; NULL: no memory.
 */
AdapterModule *adapter_module(AdapterModules *modules, const char *own_name, size_t length);
void adapter_modules_free(AdapterModules *modules);

/* A module's rank and outputs; the module's a and b are matrices. */
size_t adapter_rank(const AdapterModule *module);
size_t adapter_rows(const AdapterModule *module);

/* Checks that every module has two matrices of one rank. `path` is for messages. */
Status adapter_check_modules(const AdapterModules *modules, const char *path, Error *error);

#endif
