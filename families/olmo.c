/* OLMo 1 to 3, OLMoE and FlexOlmo. */
#include "families/shared.h"

static FamilyFinish olmo3_finish;

static const BiasRule attention_biases[] = {
    {QKVO, "attention_bias", false},
    {0},
};

const Family families_olmo[] = {
    {
        .model_type = "olmoe",
        .set = SET({"qk_norm", QK_NORM_ALL}),
        .keys =
            KEYS(SIZE_KEYS(50304, 2048, 2048, 16, 16), KV_HEADS(0), HEAD_DIM(0), CONTEXT(4096),
                 {"rms_norm_eps", "norm_eps", 1e-5}, {"hidden_act", "activation", ACTIVATION_SILU},
                 {"num_local_experts|num_experts", "n_experts", 64},
                 {"num_experts_per_tok", "n_experts_used", 8},
                 {"intermediate_size", "expert_ffn_dim", 2048}, {"clip_qkv", "qkv_clip", 0}),
        .biases = BIASES({QKVO, "attention_bias", false}),
        .tensors =
            (const TensorRule[]){
                EMBEDDING("model.embed_tokens"),
                LLAMA_NORMS,
                LLAMA_ATTENTION,
                NORM("q_norm", ".self_attn.q_norm", "n_heads * head_dim"),
                NORM("k_norm", ".self_attn.k_norm", "n_kv_heads * head_dim"),
                DENSE_OR_EXPERTS,
                LLAMA_END,
                {0},
            },
        .bos_id = -1,
        .eos_id = 50279,
        .steps = STEPS(STEP("set", "router softmax_chosen", .when = "norm_topk_prob"),
                       STEP("refuse_zero", "clip_qkv")),
        .gguf =
            (const GgufFamily[]){
                {
                    .architecture = "olmoe",
                    .set = SET({"qk_norm", QK_NORM_ALL}),
                    .tensors =
                        (const TensorRule[]){
                            EMBEDDING("token_embd"),
                            GGUF_ATTENTION,
                            GGUF_QK_NORMS,
                            NORM("ffn_norm", ".ffn_norm"),
                            GGUF_EXPERTS,
                            GGUF_END,
                            {0},
                        },
                },
                {0},
            },
    },
    /* OLMo's epsilon is fixed. OLMo: its norms have no weights, so the file has no tensors for
       them. */
    {
        .model_type = "olmo",
        .set = SET({"norm", NORM_LAYER}),
        .keys = KEYS(SIZE_KEYS(50304, 4096, 11008, 32, 32), KV_HEADS(0), HEAD_DIM(0), CONTEXT(2048),
                     {"hidden_act", "activation", ACTIVATION_SILU}, {"clip_qkv", "qkv_clip", 0}),
        .biases = attention_biases,
        .tensors =
            (const TensorRule[]){
                EMBEDDING("model.embed_tokens"),
                LLAMA_ATTENTION,
                LLAMA_FFN,
                OUTPUT("lm_head"),
                {0},
            },
        .bos_id = -1,
        .eos_id = 50279,
        .steps = STEPS(STEP("refuse_zero", "clip_qkv")),
        .gguf =
            (const GgufFamily[]){
                {
                    .architecture = "olmo",
                    .pairing = ROPE_INTERLEAVED,
                    .set = SET({"norm", NORM_LAYER}),
                    .tensors =
                        (const TensorRule[]){
                            EMBEDDING("token_embd"),
                            GGUF_QKV,
                            GGUF_FFN,
                            OUTPUT("output"),
                            {0},
                        },
                },
                {0},
            },
    },
    {
        .model_type = "olmo2",
        .set = SET({"norm_place", NORM_OUTPUT}, {"qk_norm", QK_NORM_ALL}),
        .keys =
            KEYS(SIZE_KEYS(50304, 4096, 11008, 32, 32), KV_HEADS(0), HEAD_DIM(0), CONTEXT(2048),
                 {"rms_norm_eps", "norm_eps", 1e-5}, {"hidden_act", "activation", ACTIVATION_SILU}),
        .biases = attention_biases,
        .tensors =
            (const TensorRule[]){
                EMBEDDING("model.embed_tokens"),
                OUTPUT_NORMS,
                LLAMA_ATTENTION,
                NORM("q_norm", ".self_attn.q_norm", "n_heads * head_dim"),
                NORM("k_norm", ".self_attn.k_norm", "n_kv_heads * head_dim"),
                LLAMA_FFN,
                LLAMA_END,
                {0},
            },
        .bos_id = -1,
        .eos_id = 50279,
        .gguf =
            (const GgufFamily[]){
                {
                    .architecture = "olmo2",
                    .set = SET({"norm_place", NORM_OUTPUT}, {"qk_norm", QK_NORM_ALL}),
                    .tensors =
                        (const TensorRule[]){
                            EMBEDDING("token_embd"),
                            GGUF_QKV,
                            GGUF_QK_NORMS,
                            GGUF_FFN,
                            GGUF_OUTPUT_NORMS,
                            GGUF_END,
                            {0},
                        },
                    .full_every = 4,
                    .local_theta = -1,
                },
                {0},
            },
    },
    {
        .model_type = "flex_olmo",
        .set = SET({"norm_place", NORM_OUTPUT}, {"rope_theta", 500000}, {"qk_norm", QK_NORM_ALL}),
        .keys =
            KEYS(SIZE_KEYS(100352, 4096, 11008, 32, 32), KV_HEADS(0), HEAD_DIM(0), CONTEXT(4096),
                 {"rms_norm_eps", "norm_eps", 1e-6}, {"hidden_act", "activation", ACTIVATION_SILU},
                 {"num_local_experts|num_experts", "n_experts", 7},
                 {"num_experts_per_tok", "n_experts_used", 5},
                 {"intermediate_size", "expert_ffn_dim", 11008}),
        .biases = BIASES({QKVO, "attention_bias", false}),
        .tensors =
            (const TensorRule[]){
                EMBEDDING("model.embed_tokens"),
                OUTPUT_NORMS,
                LLAMA_ATTENTION,
                NORM("q_norm", ".self_attn.q_norm", "n_heads * head_dim"),
                NORM("k_norm", ".self_attn.k_norm", "n_kv_heads * head_dim"),
                LINEAR("router", ".mlp.gate", "n_experts", "dim"),
                SOME_EXPERTS(".mlp.experts."),
                LLAMA_END,
                {0},
            },
        .bos_id = -1,
        .eos_id = 100257,
        .steps = STEPS(STEP("set", "router softmax_chosen", .when = "norm_topk_prob")),
    },
    {
        .model_type = "olmo3",
        .set = SET({"norm_place", NORM_OUTPUT}, {"rope_theta", 500000}, {"qk_norm", QK_NORM_ALL}),
        .keys =
            KEYS(SIZE_KEYS(50304, 4096, 11008, 32, 32), KV_HEADS(0), HEAD_DIM(0), CONTEXT(2048),
                 {"rms_norm_eps", "norm_eps", 1e-5}, {"hidden_act", "activation", ACTIVATION_SILU}),
        .biases = BIASES({QKVO, "attention_bias", false}),
        .tensors =
            (const TensorRule[]){
                EMBEDDING("model.embed_tokens"),
                OUTPUT_NORMS,
                LLAMA_ATTENTION,
                NORM("q_norm", ".self_attn.q_norm", "n_heads * head_dim"),
                NORM("k_norm", ".self_attn.k_norm", "n_kv_heads * head_dim"),
                LLAMA_FFN,
                LLAMA_END,
                {0},
            },
        .rope = {.local_theta = 500000, .local_theta_key = ""},
        .bos_id = -1,
        .eos_id = 50279,
        .finish = olmo3_finish,
    },
    {0},
};

static Status olmo3_finish(const json_t *json, Config *config, Error *error) {
    if (family_windows(json, json_value(json, "layer_types"), config, 4096, 0, 4, error) !=
        STATUS_OK)
        return STATUS_FAILED;
    const json_t *types = json_value(json, "layer_types");
    if (types) family_local_tables(types, config);
    for (uint32_t i = 0; !types && i < config->n_layers; i++)
        config->rope_table[i] = (i + 1) % 4 != 0 ? 1 : 0;
    return STATUS_OK;
}
