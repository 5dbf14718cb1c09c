/* Mistral Large 4: latent attention with indexers of the layer's input. */
#include "families/shared.h"

#define MISTRAL_LARGE4_ROPE                                                                        \
    {                                                                                              \
        .absent = "{\"rope_type\": \"yarn\", \"rope_theta\": 10000.0, \"factor\": 2048.0, "        \
                  "\"original_max_position_embeddings\": 512, \"beta_fast\": 32.0, "               \
                  "\"beta_slow\": 1.0, \"attention_factor\": 1.0}",                                \
        .learned = "model.lerope.alpha"                                                            \
    }

/* Sets which layers read the latents of an earlier one. A layer whose entry in kv_source_layers is
 * another layer reads the latents of the last layer before it that any later layer names and that
 * has RoPE if it has, as in transformers. */
static Status share_latents(const json_t *json, Config *config, Error *error) {
    const json_t *sources = json_value(json, "kv_source_layers");
    uint32_t last[2] = {UINT32_MAX, UINT32_MAX}; /* without RoPE, and with it */
    if (!sources) return STATUS_OK;
    if (json_array_size(sources) != config->n_layers)
        return error_set(error, "config.json: kv_source_layers is not a list of %u layers",
                         config->n_layers);
    for (uint32_t i = 0; i < config->n_layers; i++) {
        const json_t *source = json_array_get(sources, i);
        bool rotated = config->rope_table[i] == 0, named = false;
        if (!json_is_integer(source) || json_integer_value(source) < 0 ||
            json_integer_value(source) > i)
            return error_set(error, "config.json: kv_source_layers has no earlier layer for %u", i);
        if (json_integer_value(source) == i) {
            for (uint32_t k = i + 1; k < config->n_layers; k++)
                named = named || json_integer_value(json_array_get(sources, k)) == i;
            if (named) last[rotated] = i;
        } else if (last[rotated] == UINT32_MAX) {
            return error_set(error,
                             "config.json: kv_source_layers shares layer %d with layer %u, of "
                             "which only one has RoPE",
                             (int)json_integer_value(source), i);
        } else {
            config->kv_distance[i] = i - last[rotated];
        }
    }
    return STATUS_OK;
}

static Status mistral_large4_finish(const json_t *json, Config *config, Error *error) {
    static const RopeKeys rope = MISTRAL_LARGE4_ROPE;
    config->latent.norm_eps = config->norm_eps;
    if (family_refuse_zero(json, "final_logit_softcapping", error) != STATUS_OK ||
        family_indexers(json, config, error) != STATUS_OK)
        return STATUS_FAILED;
    if (share_latents(json, config, error) != STATUS_OK) return STATUS_FAILED;
    return family_latent_heads(json, &rope, config, error);
}

const FamilyHook families_mistral_large4[] = {
    {"mistral_large4", .finish = mistral_large4_finish},
    {0},
};
