/* The text half of Molmo 2: a Qwen 3 in names of its own, or an OLMo 2. */
#include "families/shared.h"

static Status molmo2_finish(const json_t *json, Config *config, Error *error) {
    const char *kind = json_text(json, "qk_norm_type");
    if (kind && strcmp(kind, "olmo") == 0)
        config->qk_norm = QK_NORM_ALL;
    else if (kind && strcmp(kind, "qwen3") != 0)
        return error_set(error, "config.json: qk_norm_type is '%.40s'", kind);
    const json_t *scaled = json_value(json, "rope_scaling_layers");
    if (scaled && !json_is_array(scaled))
        return error_set(error, "config.json: rope_scaling_layers is not a list");
    for (uint32_t i = 0; scaled && i < config->n_layers; i++) config->rope_table[i] = 1;
    for (size_t i = 0; i < json_array_size(scaled); i++) {
        const json_t *layer = json_array_get(scaled, i);
        json_int_t number = json_integer_value(layer);
        if (json_is_integer(layer) && number >= 0 && number < (json_int_t)config->n_layers)
            config->rope_table[number] = 0;
    }
    return STATUS_OK;
}

/* Adds the norms: before or after the blocks, and of queries and keys by head or as a whole. */
static Status molmo2_more(const RuleContext *context, const json_t *json, Error *error) {
    static const TensorRule before[] = {
        NORM("attention_norm", ".attn_norm"), NORM("ffn_norm", ".ff_norm"), {0}};
    static const TensorRule after[] = {
        NORM("post_attention_norm", ".attn_norm"), NORM("post_ffn_norm", ".ff_norm"), {0}};
    static const TensorRule of_heads[] = {QK_HEAD_NORMS, {0}};
    static const TensorRule whole[] = {
        NORM("q_norm", ".self_attn.q_norm", "n_heads * head_dim"),
        NORM("k_norm", ".self_attn.k_norm", "n_kv_heads * head_dim"),
        {0},
    };
    const Config *c = &context->source->config;
    (void)json;
    for (uint32_t l = 0; l < c->n_layers; l++)
        if (rules_apply_to_layer(context, c->norm_place == NORM_OUTPUT ? after : before, l,
                                 error) != STATUS_OK ||
            rules_apply_to_layer(context, c->qk_norm == QK_NORM_ALL ? whole : of_heads, l, error) !=
                STATUS_OK)
            return STATUS_FAILED;
    return STATUS_OK;
}

const FamilyHook families_molmo2[] = {
    {"molmo2", .finish = molmo2_finish, .more = molmo2_more},
    {0},
};
