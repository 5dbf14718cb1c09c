/* The text half of Molmo 2: a Qwen 3 in names of its own, or an OLMo 2. */
#include "families/shared.h"

static FamilyFinish molmo2_finish;
static FamilyMore molmo2_more;

const Family families_molmo2[] = {
    /* The vectors of the additional tokens, which mark images and are never predicted, are left
     * out. transformers saves them behind the others. */
    {
        .model_type = "molmo2_text",
        .set = SET({"qk_norm", QK_NORM_HEAD}),
        .keys = KEYS(SIZE_KEYS(151936, 4096, 12288, 36, 32), KV_HEADS(8), HEAD_DIM(128),
                     CONTEXT(36864), {"rms_norm_eps|layer_norm_eps", "norm_eps", 1e-6},
                     {"hidden_act", "activation", ACTIVATION_SILU}),
        .biases = BIASES({QKV, "attention_bias", false}, {QKV, "qkv_bias", false}),
        .layers = "model.transformer.blocks.%u.",
        .tensors =
            (const TensorRule[]){
                MATRIX("token_embedding", "model.transformer.wte.embedding", "vocab_size", "dim",
                       .longer = true),
                LINEAR("wq wk wv", ".self_attn.att_proj",
                       "n_heads * head_dim + n_kv_heads * head_dim + n_kv_heads * head_dim", "dim"),
                LINEAR("wo", ".self_attn.attn_out", "dim", "n_heads * head_dim"),
                LINEAR("w_up w_gate", ".mlp.ff_proj", "ffn_dim + ffn_dim", "dim"),
                LINEAR("w_down", ".mlp.ff_out", "dim", "ffn_dim"),
                NORM("final_norm", "model.transformer.ln_f"),
                OUTPUT("lm_head"),
                {0},
            },
        .rope = {.scaled_layers = true},
        .bos_id = -1,
        .eos_id = -1,
        .finish = molmo2_finish,
        .more = molmo2_more,
    },
    {0},
};

static Status molmo2_finish(const json_t *json, Config *config, Error *error) {
    const char *kind = json_text(json, "qk_norm_type");
    if (kind && strcmp(kind, "olmo") == 0)
        config->qk_norm = QK_NORM_ALL;
    else if (kind && strcmp(kind, "qwen3") != 0)
        return error_set(error, "config.json: qk_norm_type is '%.40s'", kind);
    if (json_flag(json, "norm_after", false)) config->norm_place = NORM_OUTPUT;
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
