/* GLM-5: DeepSeek V3.2 whose indexers are shared among layers. */
#include "families/shared.h"

static GgufFinish gguf_glm_dsa_finish;

const Family families_glm_dsa[] = {
    {
        .model_type = "glm_moe_dsa",
        .set = SET({"rope_pairing", ROPE_INTERLEAVED}, {"router", ROUTER_SIGMOID_SCORES},
                   {"latent_norm_eps", 1e-6}, {"index_interleaved", 1}),
        .keys =
            KEYS(SIZE_KEYS(154880, 6144, 12288, 78, 64), {"kv_lora_rank", "latent_dim", 512},
                 {"q_lora_rank", "latent_q_dim", 2048}, {"qk_nope_head_dim", "head_dim", 192},
                 {"qk_rope_head_dim", "rotary_dim", 64}, {"v_head_dim", "value_dim", 256},
                 CONTEXT(202752), {"rms_norm_eps", "norm_eps", 1e-5},
                 {"hidden_act", "activation", ACTIVATION_SILU},
                 {"num_experts|n_routed_experts|num_local_experts", "n_experts", 256},
                 {"num_experts_per_tok", "n_experts_used", 8},
                 {"moe_intermediate_size", "expert_ffn_dim", 2048}, {"n_group", "router_groups", 1},
                 {"topk_group", "router_groups_used", 1}, {"norm_topk_prob", "router_normalize", 1},
                 {"routed_scaling_factor", "router_scale", 2.5}, {"index_topk", "index_topk", 2048},
                 {"index_head_dim", "index_dim", 128}, {"index_n_heads", "index_heads", 32}),
        .biases =
            BIASES({" wq_a wkv_a wo ", "attention_bias", false}, {" indexer.k_norm ", NULL, true}),
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
                INDEXER,
                {0},
            },
        .prediction = PREDICTION_NEXTN,
        .bos_id = 0,
        .eos_id = 1,
        .steps = STEPS(STEP("indexers"), STEP("shared_width", "n_shared_experts 1"),
                       STEP("latent_heads")),
        .gguf =
            (const GgufFamily[]){
                {
                    .architecture = "glm-dsa",
                    .pairing = ROPE_INTERLEAVED,
                    .tensors =
                        (const TensorRule[]){
                            EMBEDDING("token_embd"),
                            NORM("attention_norm", ".attn_norm"),
                            GGUF_LATENT_ATTENTION,
                            NORM("ffn_norm", ".ffn_norm"),
                            GGUF_ROUTED,
                            MATRIX("indexer.wq", ".indexer.attn_q_b.weight",
                                   "index_heads * index_dim", "latent_q_dim", .optional = true),
                            MATRIX("indexer.wk", ".indexer.attn_k.weight", "index_dim", "dim",
                                   .optional = true),
                            NORM("indexer.k_norm", ".indexer.k_norm", "index_dim",
                                 .optional = true),
                            MATRIX("indexer.weights", ".indexer.proj.weight", "index_heads", "dim",
                                   .optional = true),
                            GGUF_END,
                            {0},
                        },
                    .mscales_are_equal = true,
                    .predicts = true,
                    .finish = gguf_glm_dsa_finish,
                },
                {0},
            },
    },
    {0},
};

static Status gguf_glm_dsa_finish(const GgufModel *m, Config *c) {
    c->indexer.interleaved = true;
    return gguf_indexed_finish(m, c);
}
