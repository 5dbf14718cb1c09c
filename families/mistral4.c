/* Mistral 4: latent attention, experts in groups, queries that grow with the position. */
#include "families/shared.h"

static GgufFinish gguf_mistral4_finish;

const Family families_mistral4[] = {
    {
        .model_type = "mistral4",
        .set = SET({"rope_pairing", ROPE_INTERLEAVED}, {"router", ROUTER_SOFTMAX_SCORES},
                   {"latent_norm_eps", 1e-6}, {"router_group_pairs", 1}),
        .keys =
            KEYS(SIZE_KEYS(131072, 4096, 12288, 36, 32), {"kv_lora_rank", "latent_dim", 256},
                 {"q_lora_rank", "latent_q_dim", 1024}, {"qk_nope_head_dim", "head_dim", 64},
                 {"qk_rope_head_dim", "rotary_dim", 64}, {"v_head_dim", "value_dim", 128},
                 CONTEXT(1048576), {"rms_norm_eps", "norm_eps", 1e-6},
                 {"hidden_act", "activation", ACTIVATION_SILU},
                 {"n_routed_experts|num_local_experts", "n_experts", 128},
                 {"num_experts_per_tok", "n_experts_used", 4},
                 {"moe_intermediate_size", "expert_ffn_dim", 2048}, {"n_group", "router_groups", 1},
                 {"topk_group", "router_groups_used", 1}, {"norm_topk_prob", "router_normalize", 1},
                 {"routed_scaling_factor", "router_scale", 1}),
        .biases = BIASES({" wq_a wkv_a wo ", "attention_bias", false}),
        .tensors =
            (const TensorRule[]){
                EMBEDDING("model.embed_tokens"),
                LLAMA_NORMS,
                LATENT_ATTENTION,
                DENSE_OR_EXPERTS,
                GATE_UP_EXPERTS(".mlp.experts."),
                DENSE_BIASES,
                CORRECTION(".mlp.gate.e_score_correction_bias"),
                SHARED_EXPERT(".mlp.shared_experts."),
                LLAMA_END,
                {0},
            },
        .rope =
            {.has_query_scaling = true,
             .absent =
                 "{\"type\": \"yarn\", \"rope_theta\": 10000.0, \"factor\": 128.0, \"beta_fast\": "
                 "32.0, \"beta_slow\": 1.0, \"original_max_position_embeddings\": 8192, "
                 "\"mscale\": 1.0, \"mscale_all_dim\": 1.0, \"llama_4_scaling_beta\": 0.1}"},
        .bos_id = 1,
        .eos_id = 2,
        .steps =
            STEPS(STEP("set", "rope_pairing halves", .unless = "rope_interleave", .absent = true),
                  STEP("shared_width", "n_shared_experts 1"), STEP("latent_heads")),
        .gguf =
            (const GgufFamily[]){
                {
                    .architecture = "mistral4",
                    .required = "attention.kv_lora_rank",
                    .pairing = ROPE_INTERLEAVED,
                    .tensors =
                        (const TensorRule[]){
                            EMBEDDING("token_embd"),
                            NORM("attention_norm", ".attn_norm"),
                            GGUF_LATENT_ATTENTION,
                            NORM("ffn_norm", ".ffn_norm"),
                            GGUF_ROUTED,
                            GGUF_END,
                            {0},
                        },
                    .mscales_are_equal = true,
                    .scales_queries = true,
                    .finish = gguf_mistral4_finish,
                },
                {0},
            },
    },
    {0},
};

/* llama.cpp's converter may write no key of how queries grow with the position. */
static Status gguf_mistral4_finish(const GgufModel *m, Config *c) {
    c->router.group_pairs = true;
    if (c->query_scaling == 0.0f) {
        c->query_scaling = 0.1f;
        c->query_scaling_floor = c->context;
        gguf_model_uint(m, "rope.scaling.original_context_length", &c->query_scaling_floor);
    }
    return gguf_deepseek2_finish(m, c);
}
