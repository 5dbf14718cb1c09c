/* Kolibri 1: a mixture by scores with norms around each block. */
#include "families/shared.h"

static FamilyFinish kolibri1_finish;

const Family families_kolibri1[] = {
    /* Every layer is a mixture. The released files' names are others than those that transformers
       writes; it reads both. */
    {
        .model_type = "kolibri1",
        .set = SET({"norm_place", NORM_AROUND}, {"qk_norm", QK_NORM_HEAD},
                   {"router", ROUTER_SIGMOID_SCORES}, {"router_ranks_logits", 1}),
        .keys = KEYS(SIZES_WITHOUT_FFN(128000, 2560, 50, 48), KV_HEADS(4), HEAD_DIM(128),
                     CONTEXT(262144), {"rms_norm_eps", "norm_eps", 1e-6},
                     {"hidden_act", "activation", ACTIVATION_SILU},
                     {"num_local_experts|num_experts", "n_experts", 384},
                     {"num_experts_per_tok", "n_experts_used", 6},
                     {"moe_intermediate_size", "expert_ffn_dim", 512},
                     {"moe_intermediate_size", "ffn_dim", 512},
                     {"shared_expert_intermediate_size", "shared_ffn_dim", 512},
                     {"norm_topk_prob", "router_normalize", 0}),
        .tensors =
            (const TensorRule[]){
                EMBEDDING("model.embed_tokens"),
                LLAMA_NORMS,
                VECTOR("post_attention_norm", ".post_attn_norm.weight", "dim", .optional = true),
                VECTOR("post_attention_norm", ".post_self_attn_layernorm.weight", "dim",
                       .optional = true),
                VECTOR("post_ffn_norm", ".post_ffn_norm.weight", "dim", .optional = true),
                VECTOR("post_ffn_norm", ".post_mlp_layernorm.weight", "dim", .optional = true),
                LLAMA_ATTENTION,
                QK_HEAD_NORMS,
                DENSE_OR_EXPERTS,
                CORRECTION(".moe.router.expert_bias"),
                CORRECTION(".mlp.gate.e_score_correction_bias"),
                SHARED_EXPERT(".mlp.shared_experts."),
                LLAMA_END,
                {0},
            },
        .bos_id = -1,
        .eos_id = -1,
        .steps = STEPS(STEP("windows", "513 every 5")),
        .finish = kolibri1_finish,
    },
    {0},
};

/* Without layer_types every 5th layer has full attention. Layers with full attention have RoPE only
 * in models without a window. */
static Status kolibri1_finish(const json_t *json, Config *config, Error *error) {
    bool has_window = !json_is_null(json_object_get(json, "sliding_window"));
    (void)error;
    for (uint32_t i = 0; i < config->n_layers; i++)
        config->rope_table[i] = config->window[i] == 0 && has_window ? 2 : 0;
    return STATUS_OK;
}
