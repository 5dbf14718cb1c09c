/* XGLM: sinusoids, scaled embeddings. */
#include "families/shared.h"

static FamilyFinish xglm_finish;

const Family families_xglm[] = {
    {
        .model_type = "xglm",
        .set = SET({"norm", NORM_LAYER}, {"position", POSITION_SINUSOIDAL},
                   {"sinusoid_layout", SINUSOID_HALVES}, {"position_offset", 2}, {"gated", 0}),
        .keys = KEYS({"vocab_size", "vocab_size", 256008}, {"d_model|hidden_size", "dim", 1024},
                     {"num_layers|num_hidden_layers", "n_layers", 24},
                     {"attention_heads|num_attention_heads", "n_heads", 16},
                     {"ffn_dim", "ffn_dim", 4096}, CONTEXT(2048),
                     {"activation_function", "activation", ACTIVATION_GELU}),
        .fixed = FIXED({"add_cross_attention", "false"}),
        .biases = BIASES({QKVO UP_DOWN, NULL, true}),
        .tensors =
            (const TensorRule[]){
                EMBEDDING("model.embed_tokens"),
                NORM("attention_norm", ".self_attn_layer_norm"),
                NORM("ffn_norm", ".final_layer_norm"),
                SEPARATE_QKV(".self_attn."),
                LINEAR("wo", ".self_attn.out_proj", "dim", "n_heads * head_dim"),
                LINEAR("w_up", ".fc1", "ffn_dim", "dim"),
                LINEAR("w_down", ".fc2", "dim", "ffn_dim"),
                NORM("final_norm", "model.layer_norm"),
                OUTPUT("lm_head"),
                {0},
            },
        .tied = true,
        .sinusoid_ends_at_base = true,
        .bos_id = 0,
        .eos_id = 2,
        .steps = STEPS(STEP("scale", "embeddings", .when = "scale_embedding", .absent = true)),
        .finish = xglm_finish,
    },
    {0},
};

/* The row pad_token_id of XGLM's table of sinusoids is zero, which is that of position pad - 2. */
static Status xglm_finish(const json_t *json, Config *config, Error *error) {
    double pad = json_number(json, "pad_token_id", 1);
    if (pad >= 2)
        return error_set(error,
                         "config.json: pad_token_id is %g, which this program cannot compute "
                         "(only 0 and 1)",
                         pad);
    (void)config;
    return STATUS_OK;
}
