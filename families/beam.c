/* Beam: a mixture by scores whose residuals are scaled. */
#include "families/shared.h"

/* Without layer_types every 6th layer and the last have full attention. rope_parameters has null
 * for the kinds of layers without RoPE; where it is absent, layers with full attention have none.
 */
static Status beam_finish(const json_t *json, Config *config, Error *error) {
    const json_t *types = json_value(json, "layer_types");
    const json_t *cap = json_object_get(json, "final_logit_softcapping"); /* null: none */
    const json_t *rope = json_value(json, "rope_parameters");
    if (config->n_layers == 0) return error_set(error, "config.json: no layers");
    if (family_windows(json, types, config, 512, 0, 6, error) != STATUS_OK) return STATUS_FAILED;
    if (!types) config->window[config->n_layers - 1] = 0;
    for (uint32_t i = 0; i < config->n_layers; i++) {
        bool slides = config->window[i] > 0;
        const char *kind = slides ? "sliding_attention" : "full_attention";
        bool rotates = rope ? json_value(rope, kind) != NULL : slides;
        config->rope_table[i] = !rotates ? 2 : slides ? 1 : 0;
    }
    config->logit_softcap = cap ? (float)json_number_value(cap) : 30.0f;
    return family_refuse_zero(json, "final_logit_softcapping", error);
}

/* Adds the bias of each layer's attention gate: the file has one number a head, which all elements
 * of the head's output share. */
static Status beam_more(const RuleContext *context, const json_t *json, Error *error) {
    const Config *c = &context->source->config;
    (void)json;
    for (uint32_t l = 0; l < c->n_layers; l++) {
        const HeadShape h = config_heads(c, l);
        size_t n = (size_t)h.n_heads * h.value_dim;
        char name[96];
        float *of_heads;
        snprintf(name, sizeof name, FROM_LAYER "self_attn.gate_bias", l);
        Status status = rules_read(context, name, 1, h.n_heads, &of_heads, error);
        float *bias = malloc(n * sizeof *bias);
        for (size_t i = 0; status == STATUS_OK && bias && i < n; i++)
            bias[i] = of_heads[i / h.value_dim];
        free(of_heads);
        snprintf(name, sizeof name, "layers.%u.attention_gate.bias", l);
        if (status == STATUS_OK)
            status = source_add_values(context->source, name, 1, n, bias, error);
        else
            free(bias);
        if (status != STATUS_OK) return status;
    }
    return STATUS_OK;
}

const FamilyHook families_beam[] = {
    {"beam", .finish = beam_finish, .more = beam_more},
    {0},
};
