/* Evolla without a protein: a llama, whose adapters for proteins then add nothing and are left out.
 */
#include "families/shared.h"

static FamilyMore evolla_more;

const Family families_evolla[] = {
    {
        .model_type = "evolla",
        .set = SET({"rope_theta", 500000}),
        .keys =
            KEYS(SIZE_KEYS(128256, 4096, 14336, 32, 32), KV_HEADS(8), HEAD_DIM(0), CONTEXT(8192),
                 {"rms_norm_eps", "norm_eps", 1e-5}, {"hidden_act", "activation", ACTIVATION_SILU}),
        .biases = BIASES({QKVO, "attention_bias", false}, {GATED, "mlp_bias", false}),
        .tensors =
            (const TensorRule[]){
                EMBEDDING("model.embed_tokens"),
                LLAMA_NORMS,
                LLAMA_ATTENTION,
                LLAMA_FFN,
                NORM("final_norm", "model.norm"),
                LINEAR("output", "lm_head", "vocab_size", "dim"), /* the class never ties it */
                {0},
            },
        .reads_text_alone = true,
        .bos_id = 128000,
        .eos_id = 128009,
        .more = evolla_more,
    },
    {0},
};

/* Marks the tensors of adapters as known. */
static Status evolla_more(const RuleContext *context, const json_t *json, Error *error) {
    (void)json, (void)error;
    for (size_t i = 0; i < context->table->n; i++) {
        RawTensor *tensor = &context->table->items[i];
        if (strstr(tensor->name, ".adapter.")) tensor->used = true;
    }
    return STATUS_OK;
}
