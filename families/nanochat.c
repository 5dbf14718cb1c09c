/* NanoChat: norms without weights, reversed RoPE. */
#include "families/shared.h"

static FamilyMore nanochat_more;

const Family families_nanochat[] = {
    /* NanoChat: no norm has weights. */
    {
        .model_type = "nanochat",
        .set = SET({"qk_norm", QK_NORM_HEAD}, {"qk_norm_after_rope", 1}, {"gated", 0}),
        .keys = KEYS(SIZE_KEYS(50304, 768, 8192, 12, 6), KV_HEADS(0), HEAD_DIM(0), CONTEXT(2048),
                     {"rms_norm_eps", "norm_eps", 1e-6},
                     {"hidden_act", "activation", ACTIVATION_RELU2}),
        .biases = BIASES({QKVO, "attention_bias", false}),
        .tensors =
            (const TensorRule[]){
                EMBEDDING("model.embed_tokens"),
                LLAMA_ATTENTION,
                LINEAR("w_up", ".mlp.fc1", "ffn_dim", "dim"),
                LINEAR("w_down", ".mlp.fc2", "dim", "ffn_dim"),
                OUTPUT("lm_head"),
                {0},
            },
        .rope = {.reversed = true},
        .bos_id = 0,
        .eos_id = 1,
        .steps = STEPS(STEP("cap", "final_logit_softcapping logit_softcap 15")),
        .more = nanochat_more,
    },
    {0},
};

/* Adds the norm of the embeddings, which has no weights either. */
static Status nanochat_more(const RuleContext *c, const json_t *json, Error *error) {
    (void)json;
    return family_add_ones(c, "embedding_norm", c->source->config.dim, error);
}
