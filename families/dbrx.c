/* DBRX: layer norms without biases, clipped queries, keys and values, stacked experts. */
#include "families/shared.h"

static FamilyFinish dbrx_finish;

const Family families_dbrx[] = {
    /* DBRX: the rest of its keys are in attn_config and ffn_config (dbrx_finish). */
    {
        .model_type = "dbrx",
        .set = SET({"ffn_dim", 1}, {"norm", NORM_LAYER}),
        .keys = KEYS({"vocab_size", "vocab_size", 32000}, {"d_model|hidden_size", "dim", 2048},
                     {"n_layers|num_hidden_layers", "n_layers", 24},
                     {"n_heads|num_attention_heads", "n_heads", 16},
                     {"max_seq_len|max_position_embeddings", "context", 2048}),
        .layers = "transformer.blocks.%u.",
        .tensors =
            (const TensorRule[]){
                EMBEDDING("transformer.wte"),
                NORM("attention_norm", ".norm_attn_norm.norm_1"),
                LINEAR("wq wk wv", ".norm_attn_norm.attn.Wqkv",
                       "n_heads * head_dim + n_kv_heads * head_dim + n_kv_heads * head_dim", "dim"),
                LINEAR("wo", ".norm_attn_norm.attn.out_proj", "dim", "n_heads * head_dim"),
                NORM("ffn_norm", ".norm_attn_norm.norm_2"),
                LINEAR("router", ".ffn.router.layer", "n_experts", "dim"),
                MATRIX("experts.%u.w_gate", ".ffn.experts.mlp.w1", "expert_ffn_dim", "dim"),
                MATRIX("experts.%u.w_up", ".ffn.experts.mlp.v1", "expert_ffn_dim", "dim"),
                MATRIX("experts.%u.w_down", ".ffn.experts.mlp.w2", "dim", "expert_ffn_dim",
                       .turned = TURNED_ALWAYS),
                NORM("final_norm", "transformer.norm_f"),
                OUTPUT("lm_head"),
                {0},
            },
        .norms_have_no_bias = true,
        .bos_id = -1,
        .eos_id = -1,
        .finish = dbrx_finish,
        .gguf =
            (const GgufFamily[]){
                {
                    .architecture = "dbrx",
                    .required = "attention.clamp_kqv",
                    .set = SET({"norm", NORM_LAYER}, {"router", ROUTER_SOFTMAX_CHOSEN}),
                    .tensors =
                        (const TensorRule[]){
                            EMBEDDING("token_embd"),
                            GGUF_ATTENTION,
                            NORM("ffn_norm", ".attn_output_norm"),
                            GGUF_EXPERTS,
                            GGUF_END,
                            {0},
                        },
                },
                {0},
            },
    },
    {0},
};

/* Reads a whole number of the object, at least 1. */
static Status dbrx_size(const json_t *object, const char *key, double absent, uint32_t *out,
                        Error *error) {
    double value = json_number(object, key, absent);
    if (!(value >= 1 && value <= 1 << 20 && value == floor(value)))
        return error_set(error, "config.json: %s is %g", key, value);
    *out = (uint32_t)value;
    return STATUS_OK;
}

static Status dbrx_finish(const json_t *json, Config *config, Error *error) {
    const json_t *attention = json_value(json, "attn_config"),
                 *ffn = json_value(json, "ffn_config");
    const json_t *act = json_value(ffn, "ffn_act_fn");
    if (dbrx_size(attention, "kv_n_heads", 1, &config->n_kv_heads, error) != STATUS_OK ||
        dbrx_size(ffn, "ffn_hidden_size", 3584, &config->experts.ffn_dim, error) != STATUS_OK ||
        dbrx_size(ffn, "moe_num_experts", 4, &config->experts.count, error) != STATUS_OK ||
        dbrx_size(ffn, "moe_top_k", 1, &config->experts.per_token, error) != STATUS_OK ||
        family_refuse(ffn, "moe_normalize_expert_weights", "1.0", error) != STATUS_OK ||
        family_refuse(act, "name", "\"silu\"", error) != STATUS_OK ||
        family_refuse_zero(attention, "clip_qkv", error) != STATUS_OK)
        return STATUS_FAILED;
    /* Only null turns it off: without the key the class takes 1.0. */
    bool is_normalized = !json_is_null(json_object_get(ffn, "moe_normalize_expert_weights"));
    config->router.kind = is_normalized ? ROUTER_SOFTMAX_CHOSEN : ROUTER_SOFTMAX;
    config->qkv_clip = (float)json_number(attention, "clip_qkv", 0);
    config->rope_theta = (float)json_number(attention, "rope_theta", 10000);
    return STATUS_OK;
}
