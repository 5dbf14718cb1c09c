/* The transformer of docs/guide-to-code.md; docs/format.md lists its tensors. */
#include "families/shared.h"

const Family families_guide_transformer[] = {
    /* The transformer of docs/guide-to-code.md; docs/format.md lists its tensors. A block's norms
       come after attention and feed-forward. */
    {
        .model_type = "guide_transformer",
        .set =
            SET({"norm", NORM_LAYER}, {"norm_place", NORM_AFTER}, {"final_norm", 0},
                {"position", POSITION_SINUSOIDAL}, {"activation", ACTIVATION_RELU}, {"gated", 0}),
        .keys = KEYS(SIZE_KEYS(REQUIRED, REQUIRED, REQUIRED, REQUIRED, REQUIRED), KV_HEADS(0),
                     CONTEXT(REQUIRED), {"layer_norm_eps", "norm_eps", 1e-5}),
        .biases = BIASES({QKVO UP_DOWN " output ", NULL, true}),
        .layers = "layers.%u.",
        .tensors =
            (const TensorRule[]){
                EMBEDDING("token_embedding"),
                LINEAR("wq", ".attention.wq", "n_heads * head_dim", "dim"),
                LINEAR("wk", ".attention.wk", "n_kv_heads * head_dim", "dim"),
                LINEAR("wv", ".attention.wv", "n_kv_heads * head_dim", "dim"),
                LINEAR("wo", ".attention.wo", "dim", "n_heads * head_dim"),
                NORM("attention_norm", ".norm1"),
                LINEAR("w_up", ".ffn.w1", "ffn_dim", "dim"),
                LINEAR("w_down", ".ffn.w2", "dim", "ffn_dim"),
                NORM("ffn_norm", ".norm2"),
                OUTPUT("output"),
                {0},
            },
        .bos_id = -1,
        .eos_id = -1,
        .steps = STEPS(STEP("scale_embeddings")),
    },
    {0},
};
