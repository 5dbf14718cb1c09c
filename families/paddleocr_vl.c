/* The text half of PaddleOCR-VL: ERNIE 4.5 under its own name. */
#include "families/shared.h"

const Family families_paddleocr_vl[] = {
    {
        .model_type = "paddleocr_vl_text",
        .set = SET({"rope_theta", 500000}),
        .keys =
            KEYS(SIZE_KEYS(103424, 1024, 3072, 18, 16), KV_HEADS(2), HEAD_DIM(128), CONTEXT(131072),
                 {"rms_norm_eps", "norm_eps", 1e-5}, {"hidden_act", "activation", ACTIVATION_SILU}),
        .biases = BIASES({QKVO GATED, "use_bias", false}),
        .tensors =
            (const TensorRule[]){
                EMBEDDING("model.embed_tokens"),
                LLAMA_NORMS,
                LLAMA_ATTENTION,
                LLAMA_FFN,
                LLAMA_END,
                {0},
            },
        .rope = {.has_sections = true},
        .tied = true,
        .bos_id = 1,
        .eos_id = 2,
    },
    {0},
};
