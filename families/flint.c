/* Flint: a mixture with sinks, and windows in three of four layers. */
#include "families/shared.h"

static FamilyFinish flint_finish;

const Family families_flint[] = {
    {
        .model_type = "flint",
        .set = SET({"qk_norm", QK_NORM_HEAD}, {"router", ROUTER_SIGMOID_SCORES}),
        .keys =
            KEYS(SIZE_KEYS(150144, 2048, 6144, 49, 32), KV_HEADS(4), HEAD_DIM(128), CONTEXT(262144),
                 {"rms_norm_eps", "norm_eps", 1e-6}, {"hidden_act", "activation", ACTIVATION_SILU},
                 {"num_experts", "n_experts", 256}, {"num_experts_per_tok", "n_experts_used", 6},
                 {"moe_intermediate_size", "expert_ffn_dim", 512},
                 {"shared_expert_intermediate_size", "shared_ffn_dim", 1024},
                 {"norm_topk_prob", "router_normalize", 1}),
        .biases = BIASES({QKVO, "attention_bias", false}),
        .tensors =
            (const TensorRule[]){
                EMBEDDING("model.embed_tokens"),
                LLAMA_NORMS,
                LLAMA_ATTENTION,
                QK_HEAD_NORMS,
                VECTOR("sinks", ".self_attn.softmax_offset", "n_heads"),
                DENSE_OR_EXPERTS,
                SHARED_EXPERT(".mlp.shared_expert."),
                LLAMA_END,
                {0},
            },
        .bos_id = -1,
        .eos_id = -1,
        .finish = flint_finish,
    },
    {0},
};

/* Layers with full attention have no RoPE. They are those that layer_types lists; without a list
 * the first two, every fourth from the second on, and the last. The others have a window (513
 * unless config.json has another). */
static Status flint_finish(const json_t *json, Config *config, Error *error) {
    const json_t *types = json_value(json, "layer_types");
    if (family_windows(json, types, config, 513, 0, 0, error) != STATUS_OK) return STATUS_FAILED;
    for (uint32_t i = 0; i < config->n_layers; i++) {
        bool full = i < 2 || i % 4 == 1 || i == config->n_layers - 1;
        if (!types && full) config->window[i] = 0;
        config->rope_table[i] = config->window[i] ? 0 : 2; /* 2: not rotated */
    }
    return STATUS_OK;
}
