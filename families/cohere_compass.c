/* The text half of Cohere Compass: Command R7B (cohere2.family) whose layers of each kind have RoPE
 * parameters of their own, or null for none. transformers reads rope_parameters alone. */
#include "families/shared.h"

static FamilyFinish compass_finish;

const Family families_cohere_compass[] = {
    {
        .model_type = "cohere_compass_text",
        .set = SET({"norm", NORM_LAYER}, {"parallel_block", 1}),
        .keys = KEYS(SIZE_KEYS(256000, 8192, 22528, 40, 64), KV_HEADS(0), HEAD_DIM(0),
                     CONTEXT(8192), {"layer_norm_eps", "norm_eps", 1e-5},
                     {"hidden_act", "activation", ACTIVATION_SILU}),
        .fixed = FIXED({"rope_scaling", "null"}),
        .biases = BIASES({QKVO, "attention_bias", false}),
        .tensors =
            (const TensorRule[]){
                EMBEDDING("model.embed_tokens"),
                NORM("attention_norm", ".input_layernorm"),
                LLAMA_ATTENTION,
                VECTOR("q_norm", ".self_attn.q_norm.weight", "n_heads * head_dim",
                       .optional = true),
                VECTOR("k_norm", ".self_attn.k_norm.weight", "n_kv_heads * head_dim",
                       .optional = true),
                LLAMA_FFN,
                LLAMA_END,
                {0},
            },
        .norms_have_no_bias = true,
        .rope = {.theta = "rope_parameters.rope_theta",
                 .local_theta = 10000,
                 .local_theta_key = "rope_parameters.rope_theta"},
        .tied = true,
        .bos_id = 5,
        .eos_id = 255001,
        .steps = STEPS(STEP("windows", "4096 every 1")),
        .finish = compass_finish,
    },
    {0},
};

static Status compass_finish(const json_t *json, Config *config, Error *error) {
    const json_t *rope = json_value(json, "rope_parameters");
    if (family_refuse_zero(json, "logit_scale", error) != STATUS_OK) return STATUS_FAILED;
    config->logit_scale = (float)json_number(json, "logit_scale", 1);
    for (uint32_t i = 0; i < config->n_layers; i++) {
        bool slides = config->window[i] > 0;
        const char *kind = slides ? "sliding_attention" : "full_attention";
        config->rope_table[i] = !json_value(rope, kind) ? 2 : slides ? 1 : 0;
    }
    return STATUS_OK;
}
