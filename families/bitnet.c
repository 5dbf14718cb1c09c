/* BitNet b1.58: ternary weights, and norms inside attention and feed-forward. */
#include "families/shared.h"

static FamilyFinish bitnet_finish;

const Family families_bitnet[] = {
    {
        .model_type = "bitnet",
        .set = SET({"rope_theta", 500000}),
        .keys = KEYS(SIZE_KEYS(128256, 2560, 6912, 30, 20), KV_HEADS(5), HEAD_DIM(0), CONTEXT(2048),
                     {"rms_norm_eps", "norm_eps", 1e-5},
                     {"hidden_act", "activation", ACTIVATION_RELU2}),
        .biases = BIASES({QKVO, "attention_bias", false}),
        .tensors =
            (const TensorRule[]){
                EMBEDDING("model.embed_tokens"),
                LLAMA_NORMS,
                LLAMA_ATTENTION,
                NORM("attention_inner_norm", ".self_attn.attn_sub_norm", "n_heads * head_dim"),
                LLAMA_FFN,
                NORM("ffn_inner_norm", ".mlp.ffn_sub_norm", "ffn_dim"),
                LLAMA_END,
                {0},
            },
        .bos_id = 128000,
        .eos_id = 128001,
        .finish = bitnet_finish,
    },
    {0},
};

/* Quantized, the inputs of all products but the output head's are rounded to 8 bits. */
static Status bitnet_finish(const json_t *json, Config *config, Error *error) {
    const json_t *quantization = json_value(json, "quantization_config");
    config->round_inputs = quantization != NULL;
    if (family_refuse(quantization, "quantization_mode", "\"offline\"", error) != STATUS_OK)
        return STATUS_FAILED;
    return family_refuse(quantization, "use_rms_norm", "false", error);
}
