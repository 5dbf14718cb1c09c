/* HyperCLOVA X: a llama with multipliers and norms after its blocks. */
#include "families/shared.h"

static FamilyFinish hyperclovax_finish;

const Family families_hyperclovax[] = {
    /* attention_multiplier is read by hyperclovax_finish, because null means 1 / sqrt(head_dim). */
    {
        .model_type = "hyperclovax",
        .keys = KEYS(
            SIZE_KEYS(32000, 4096, 11008, 32, 32), KV_HEADS(0), HEAD_DIM(0), CONTEXT(2048),
            {"rms_norm_eps", "norm_eps", 1e-6}, {"hidden_act", "activation", ACTIVATION_SILU},
            {"embedding_multiplier", "embedding_scale", 1},
            {"residual_multiplier", "residual_scale", 1}, {"logits_scaling", "logit_scale", 1}),
        .biases = BIASES({QKVO, "attention_bias", false}, {GATED, "mlp_bias", false}),
        .tensors =
            (const TensorRule[]){
                EMBEDDING("model.embed_tokens"),
                LLAMA_NORMS,
                LLAMA_ATTENTION,
                NORM("post_attention_norm", ".post_norm1", .optional = true),
                LLAMA_FFN,
                NORM("post_ffn_norm", ".post_norm2", .optional = true),
                LLAMA_END,
                {0},
            },
        .bos_id = 1,
        .eos_id = 2,
        .steps = STEPS(STEP("set", "norm_place around", .when = "use_post_norm", .absent = true)),
        .finish = hyperclovax_finish,
    },
    {0},
};

static Status hyperclovax_finish(const json_t *json, Config *config, Error *error) {
    (void)error;
    config->attention_scale =
        (float)json_number(json, "attention_multiplier", (double)config->attention_scale);
    return STATUS_OK;
}
