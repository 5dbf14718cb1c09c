/* NanoChat: norms without weights, reversed RoPE. */
#include "families/shared.h"

/* Adds the norm of the embeddings, which has no weights either. */
static Status nanochat_more(const RuleContext *c, const json_t *json, Error *error) {
    (void)json;
    return family_add_ones(c, "embedding_norm", c->source->config.dim, error);
}

const FamilyHook families_nanochat[] = {
    {"nanochat", .more = nanochat_more},
    {0},
};
