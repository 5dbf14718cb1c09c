/* GPT-NeoX Japanese: GPT-NeoX one half after the other, without biases but for the last layer's
 * attention. */
#include "families/shared.h"

static FamilyFinish japanese_finish;

const Family families_gpt_neox_japanese[] = {
    {
        .model_type = "gpt_neox_japanese",
        .set = SET({"norm", NORM_LAYER}, {"gated", 0}),
        .keys = KEYS(SIZES_WITHOUT_FFN(32000, 2560, 32, 32), CONTEXT(2048),
                     {"layer_norm_eps", "norm_eps", 1e-5},
                     {"hidden_act", "activation", ACTIVATION_GELU}),
        .biases = BIASES({" wo ", NULL, true}),
        .layers = "gpt_neox_japanese.layers.%u.",
        .tensors =
            (const TensorRule[]){
                EMBEDDING("gpt_neox_japanese.embed_in"),
                LLAMA_NORMS,
                LINEAR("wq wk wv", ".attention.query_key_value",
                       "n_heads * head_dim + n_kv_heads * head_dim + n_kv_heads * head_dim", "dim",
                       .by = "n_kv_heads"),
                MATRIX("wo", ".attention.dense.weight", "dim", "n_heads * head_dim"),
                VECTOR("wo.bias", ".attention.dense_bias", "dim", .optional = true),
                LINEAR("w_up", ".mlp.dense_h_to_4h", "ffn_dim", "dim"),
                LINEAR("w_down", ".mlp.dense_4h_to_h", "dim", "ffn_dim"),
                NORM("final_norm", "gpt_neox_japanese.final_layer_norm"),
                OUTPUT("embed_out"),
                {0},
            },
        .rope = {.theta = "rotary_emb_base", .part = "rotary_pct", .part_absent = 1.0},
        .tied = true,
        .bos_id = 31996,
        .eos_id = 31999,
        .finish = japanese_finish,
    },
    {0},
};

static Status japanese_finish(const json_t *json, Config *config, Error *error) {
    double times = json_number(json, "intermediate_multiple_size", 4);
    double width = times * config->dim;
    if (!(width >= 1 && width <= 1 << 24))
        return error_set(error, "config.json: intermediate_multiple_size is %g", times);
    config->ffn_dim = (uint32_t)width;
    return STATUS_OK;
}
