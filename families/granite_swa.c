/* Granite with windows, and its mixtures: granite.family and granitemoe.family have those without.
 */
#include "families/shared.h"

static GgufFinish gguf_granite_swa_finish;

static const ConfigRule granite_config[] = {
    SIZE_KEYS(32000, 4096, 11008, 32, 32),
    KV_HEADS(0),
    HEAD_DIM(0),
    CONTEXT(2048),
    {"rms_norm_eps", "norm_eps", 1e-6},
    {"hidden_act", "activation", ACTIVATION_SILU},
    {"num_local_experts", "n_experts", 8},
    {"num_experts_per_tok", "n_experts_used", 2},
    {"intermediate_size", "expert_ffn_dim", 11008},
    {"shared_intermediate_size", "shared_ffn_dim", 0},
    {"embedding_multiplier", "embedding_scale", 1},
    {"attention_multiplier", "attention_scale", 1},
    {"residual_multiplier", "residual_scale", 1},
    {0},
};

static const BiasRule attention_biases[] = {
    {QKVO, "attention_bias", false},
    {0},
};

const Family families_granite_swa[] = {
    {
        .model_type = "granitemoe_swa",
        .set = SET({"router", ROUTER_SOFTMAX_CHOSEN}),
        .keys = granite_config,
        .biases = attention_biases,
        .tensors =
            (const TensorRule[]){
                EMBEDDING("model.embed_tokens"),
                LLAMA_NORMS,
                LLAMA_ATTENTION,
                VECTOR("sinks", ".self_attn.sinks", "n_heads"),
                LINEAR("router", ".block_sparse_moe.router", "n_experts", "dim"),
                MATRIX("experts.%u.w_gate experts.%u.w_up",
                       ".block_sparse_moe.experts.gate_up_proj", "expert_ffn_dim + expert_ffn_dim",
                       "dim"),
                MATRIX("experts.%u.w_down", ".block_sparse_moe.experts.down_proj", "dim",
                       "expert_ffn_dim"),
                MATRIX("shared.w_gate shared.w_up", ".shared_mlp.input_linear.weight",
                       "shared_ffn_dim + shared_ffn_dim", "dim", .optional = true),
                MATRIX("shared.w_down", ".shared_mlp.output_linear.weight", "dim", "shared_ffn_dim",
                       .optional = true),
                LLAMA_END,
                {0},
            },
        .rope = {.layer_thetas = true},
        .bos_id = 1,
        .eos_id = 2,
        .steps = STEPS(STEP("granite")),
        .finish = family_granite_windows,
    },
    {
        .model_type = "granite_swa",
        .keys =
            KEYS(SIZE_KEYS(100352, 2560, 8192, 24, 20), KV_HEADS(4), HEAD_DIM(0), CONTEXT(8192),
                 {"rms_norm_eps", "norm_eps", 1e-5}, {"hidden_act", "activation", ACTIVATION_SILU},
                 {"embedding_multiplier", "embedding_scale", 1},
                 {"attention_multiplier", "attention_scale", 1},
                 {"residual_multiplier", "residual_scale", 1}),
        .biases = BIASES({QKVO, "attention_bias", false}, {GATED, "mlp_bias", false}),
        .tensors =
            (const TensorRule[]){
                EMBEDDING("model.embed_tokens"),
                LLAMA_NORMS,
                LLAMA_ATTENTION,
                VECTOR("sinks", ".self_attn.sinks", "n_heads"),
                LLAMA_FFN,
                LLAMA_END,
                {0},
            },
        .rope = {.layer_thetas = true},
        .tied = true,
        .bos_id = 100257,
        .eos_id = 100257,
        .steps = STEPS(STEP("granite")),
        .finish = family_granite_windows,
        .gguf =
            (const GgufFamily[]){
                {
                    .architecture = "granite_swa",
                    .required =
                        "logit_scale attention.sliding_window_pattern attention.sliding_window",
                    .pairing = ROPE_INTERLEAVED,
                    .set = SET({"router", ROUTER_SOFTMAX_CHOSEN}),
                    .keys = GGUF_KEYS({"embedding_scale", "embedding_scale"},
                                      {"residual_scale", "residual_scale"}),
                    .steps = STEPS(STEP("granite")),
                    .tensors =
                        (const TensorRule[]){
                            EMBEDDING("token_embd"),
                            GGUF_ATTENTION,
                            VECTOR("sinks", ".attn_sinks.weight", "n_heads"),
                            NORM("ffn_norm", ".ffn_norm"),
                            GGUF_ROUTED,
                            GGUF_END,
                            {0},
                        },
                    .full_every = 4,
                    .finish = gguf_granite_swa_finish,
                },
                {0},
            },
    },
    {0},
};

/* attention.rope_pattern says which layers rotate. */
static Status gguf_granite_swa_finish(const GgufModel *m, Config *c) {
    const GgufValue *pattern = gguf_model_find(m, "attention.rope_pattern", GGUF_AS_BOOL);
    double rotates;
    if (pattern && (!pattern->is_array || pattern->count < c->n_layers))
        return error_set(m->error, "%s: attention.rope_pattern is not a list of %u layers",
                         m->source->path, c->n_layers);
    for (uint32_t i = 0; pattern && i < c->n_layers && i < CONFIG_MAX_LAYERS; i++)
        c->rope_table[i] = gguf_element(pattern, i, &rotates) && rotates == 0.0 ? 2 : 0;
    return STATUS_OK;
}
