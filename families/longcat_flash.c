/* LongCat-Flash: one layer of the files is two of ours; the first has the mixture. */
#include "families/shared.h"

static const RopeKeys plain_rope;

/* Sets the layers, the heads' scales and the experts. A layer of config.json is two of ours. The
 * experts that give their input are the last ones. The queries' scale is part of the scores'. */
static Status longcat_flash_finish(const json_t *json, Config *config, Error *error) {
    double layers = json_number(json, "num_layers", 28), width = config->dim;
    double q_dim = json_number(json, "qk_head_dim", config->head_dim + config->rotary_dim);
    if (!json_value(json, "num_layers"))
        layers = floor(json_number(json, "num_hidden_layers", 2 * layers) / 2);
    if (!(layers >= 1 && layers <= CONFIG_MAX_LAYERS / 2 && layers == floor(layers)))
        return error_set(error, "config.json: num_layers is %g, which must be from 1 to %d", layers,
                         CONFIG_MAX_LAYERS / 2);
    if (q_dim != config->head_dim + config->rotary_dim)
        return error_set(error, "config.json: qk_head_dim is %g, but its parts have %u and %u",
                         q_dim, config->head_dim, config->rotary_dim);
    if (config->experts.count > CONFIG_MAX_EXPERTS || config->experts.identity > CONFIG_MAX_EXPERTS)
        return error_set(error, "config.json: %u experts and zero_expert_num %u are too many",
                         config->experts.count, config->experts.identity);
    if (config->latent.q_lora_rank == 0)
        return error_set(error, "config.json: q_lora_rank is missing or 0");
    config->n_layers = 2 * (uint32_t)layers;
    config->experts.count += config->experts.identity;
    if (family_latent_heads(json, &plain_rope, config, error) != STATUS_OK) return STATUS_FAILED;
    config->attention_scale *= (float)sqrt(width / config->latent.q_lora_rank);
    config->latent.scale = (float)sqrt(width / config->latent.kv_lora_rank);
    return STATUS_OK;
}

/* transformers saves matrices of the experts that give their input, too, and never reads them. */
static Status longcat_flash_more(const RuleContext *context, const json_t *json, Error *error) {
    static const char *const parts[] = {"gate_proj", "up_proj", "down_proj"};
    const Config *c = &context->source->config;
    (void)json;
    (void)error;
    for (uint32_t l = 0; l < c->n_layers / 2; l++)
        for (uint32_t e = c->experts.count - c->experts.identity; e < c->experts.count; e++)
            for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
                char name[96];
                snprintf(name, sizeof name, FROM_LAYER "mlp.experts.%u.%s.weight", l, e, parts[i]);
                RawTensor *raw = rules_find(context, name);
                if (raw) raw->used = true;
            }
    return STATUS_OK;
}

const FamilyHook families_longcat_flash[] = {
    {"longcat_flash", .finish = longcat_flash_finish, .more = longcat_flash_more},
    {0},
};
