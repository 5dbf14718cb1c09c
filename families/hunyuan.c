/* Hunyuan's dense models and mixtures: norms of heads after RoPE; and Hy 3. */
#include "families/shared.h"

static FamilyFinish hunyuan_finish;

const Family families_hunyuan[] = {
    {
        .model_type = "hunyuan_v1_moe",
        .set = SET({"qk_norm", QK_NORM_HEAD}, {"qk_norm_after_rope", 1},
                   {"router", ROUTER_SOFTMAX_CHOSEN}),
        .keys =
            KEYS(SIZE_KEYS(290943, 4096, 11008, 32, 32), KV_HEADS(0), HEAD_DIM(0), CONTEXT(2048),
                 {"rms_norm_eps", "norm_eps", 1e-5}, {"hidden_act", "activation", ACTIVATION_SILU},
                 {"num_experts|num_local_experts", "n_experts", 1},
                 {"intermediate_size", "expert_ffn_dim", 11008},
                 {"intermediate_size", "shared_ffn_dim", 11008}),
        .biases = BIASES({QKVO, "attention_bias", false}),
        .tensors =
            (const TensorRule[]){
                EMBEDDING("model.embed_tokens"),
                LLAMA_NORMS,
                LLAMA_ATTENTION,
                NORM("q_norm", ".self_attn.query_layernorm", "head_dim"),
                NORM("k_norm", ".self_attn.key_layernorm", "head_dim"),
                LINEAR("router", ".mlp.gate.wg", "n_experts", "dim"),
                SOME_EXPERTS(".mlp.experts."),
                SHARED_WEIGHTS(".mlp.shared_mlp."),
                LLAMA_END,
                {0},
            },
        .rope = {.has_alpha = true},
        .bos_id = 1,
        .eos_id = 2,
        .finish = hunyuan_finish,
        .gguf =
            (const GgufFamily[]){
                {
                    .architecture = "hunyuan-moe",
                    .set = SET({"qk_norm_after_rope", 1}, {"router", ROUTER_SOFTMAX_CHOSEN},
                               {"qk_norm", QK_NORM_HEAD}),
                    .tensors =
                        (const TensorRule[]){
                            EMBEDDING("token_embd"),
                            GGUF_ATTENTION,
                            GGUF_QK_HEAD_NORMS,
                            NORM("ffn_norm", ".ffn_norm"),
                            GGUF_ROUTED,
                            GGUF_END,
                            {0},
                        },
                },
                {0},
            },
    },
    {0},
};

/* moe_topk is a number, or a list with the same number for each layer. */
static Status hunyuan_finish(const json_t *json, Config *config, Error *error) {
    const json_t *used = json_value(json, "moe_topk");
    if (!used) used = json_value(json, "num_experts_per_tok");
    double first = json_number_value(json_is_array(used) ? json_array_get(used, 0) : used);
    if (!used) first = 1;
    for (size_t i = 0; i < json_array_size(used); i++)
        if (json_number_value(json_array_get(used, i)) != first)
            return error_set(error, "config.json: moe_topk differs by layer, which this program "
                                    "cannot compute");
    if (!(first >= 1 && first <= CONFIG_MAX_EXPERTS && first == floor(first)))
        return error_set(error, "config.json: moe_topk is %g", first);
    config->experts.per_token = (uint32_t)first;
    return STATUS_OK;
}
