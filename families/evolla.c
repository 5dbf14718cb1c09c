/* Evolla without a protein: a llama, whose adapters for proteins then add nothing and are left out.
 */
#include "families/shared.h"

/* Marks the tensors of adapters as known. */
static Status evolla_more(const RuleContext *context, const json_t *json, Error *error) {
    (void)json, (void)error;
    for (size_t i = 0; i < context->table->n; i++) {
        RawTensor *tensor = &context->table->items[i];
        if (strstr(tensor->name, ".adapter.")) tensor->used = true;
    }
    return STATUS_OK;
}

const FamilyHook families_evolla[] = {
    {"evolla", .more = evolla_more},
    {0},
};
