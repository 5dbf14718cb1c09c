/* JetMoE: mixtures of attention heads and of feed-forwards. */
#include "families/shared.h"

static FamilyFinish jetmoe_finish;

const Family families_jetmoe[] = {
    {
        .model_type = "jetmoe",
        /* Only the last norm reads rms_norm_eps. */
        .set = SET({"router", ROUTER_SOFTMAX_CHOSEN}, {"norm_eps", 1e-6}, {"n_heads", 1}),
        .keys = KEYS(
            {"vocab_size", "vocab_size", 32000}, {"hidden_size", "dim", 2048},
            {"num_hidden_layers", "n_layers", 12}, {"num_key_value_heads", "n_kv_heads", 16},
            {"head_dim|kv_channels", "head_dim", 128}, CONTEXT(4096),
            {"intermediate_size", "ffn_dim", 5632}, {"intermediate_size", "expert_ffn_dim", 5632},
            {"activation_function", "activation", ACTIVATION_SILU},
            {"num_local_experts", "n_experts", 8}, {"num_experts_per_tok", "n_experts_used", 2},
            {"rms_norm_eps", "final_norm_eps", 1e-6}),
        .tensors =
            (const TensorRule[]){
                EMBEDDING("model.embed_tokens"),
                LLAMA_NORMS,
                MATRIX("heads.router", ".self_attention.experts.router.layer.weight", "n_experts",
                       "dim"),
                MATRIX("wk wv", ".self_attention.kv_proj.weight",
                       "n_kv_heads * head_dim + n_kv_heads * head_dim", "dim"),
                MATRIX("heads.%u.wq", ".self_attention.experts.input_linear.weight",
                       "n_kv_heads * head_dim", "dim"),
                MATRIX("heads.%u.wo", ".self_attention.experts.output_linear.weight", "dim",
                       "n_kv_heads * head_dim"),
                VECTOR("heads.bias", ".self_attention.experts.bias", "dim"),
                MATRIX("router", ".mlp.router.layer.weight", "n_experts", "dim"),
                MATRIX("experts.%u.w_gate experts.%u.w_up", ".mlp.input_linear.weight",
                       "expert_ffn_dim + expert_ffn_dim", "dim"),
                MATRIX("experts.%u.w_down", ".mlp.output_linear.weight", "dim", "expert_ffn_dim"),
                VECTOR("experts.bias", ".mlp.bias", "dim"),
                LLAMA_END,
                {0},
            },
        .tied = true,
        .bos_id = 1,
        .eos_id = 2,
        .finish = jetmoe_finish,
    },
    {0},
};

/* Each expert of a token has a query head for each key/value head. */
static Status jetmoe_finish(const json_t *json, Config *config, Error *error) {
    uint64_t n_heads = (uint64_t)config->n_kv_heads * config->experts.per_token;
    if (family_refuse_zero(json, "rms_norm_eps", error) != STATUS_OK) return STATUS_FAILED;
    if (n_heads == 0 || n_heads > 1 << 12)
        return error_set(error, "config.json: num_key_value_heads is %u, num_experts_per_tok %u",
                         config->n_kv_heads, config->experts.per_token);
    config->n_heads = (uint32_t)n_heads;
    for (uint32_t l = 0; l < config->n_layers; l++) config->layer_kind[l] = LAYER_HEAD_MIXTURE;
    return STATUS_OK;
}
