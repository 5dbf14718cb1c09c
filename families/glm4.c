/* GLM and GLM-4: llamas with a fused gate; GLM-4 (2025) has norms around each block. */
#include "families/shared.h"

static GgufFinish gguf_glm4v_or_glm4_finish;

static const ConfigRule glm_config[] = {
    SIZE_KEYS(151552, 4096, 13696, 40, 32),
    KV_HEADS(2),
    HEAD_DIM(128),
    CONTEXT(131072),
    {"rms_norm_eps", "norm_eps", 1.5625e-7},
    {"hidden_act", "activation", ACTIVATION_SILU},
    {0},
};

static const BiasRule glm_biases[] = {
    {QKV, "attention_bias", true},
    {0},
};

const Family families_glm4[] = {
    {
        .model_type = "glm4",
        .set = SET({"norm_place", NORM_AROUND}, {"rope_pairing", ROPE_INTERLEAVED}),
        .keys = glm_config,
        .biases = glm_biases,
        .tensors =
            (const TensorRule[]){
                EMBEDDING("model.embed_tokens"),
                LLAMA_NORMS,
                LLAMA_ATTENTION,
                NORM("post_attention_norm", ".post_self_attn_layernorm"),
                LINEAR("w_gate w_up", ".mlp.gate_up_proj", "ffn_dim + ffn_dim", "dim"),
                LINEAR("w_down", ".mlp.down_proj", "dim", "ffn_dim"),
                NORM("post_ffn_norm", ".post_mlp_layernorm"),
                LLAMA_END,
                {0},
            },
        .rope = {.part = "partial_rotary_factor", .part_absent = 0.5},
        .bos_id = -1,
        .eos_id = 151329,
        .more_eos_ids = {151336, 151338},
        .gguf =
            (const GgufFamily[]){
                {
                    .architecture = "glm4",
                    .pairing = ROPE_INTERLEAVED,
                    .set = SET({"norm_place", NORM_AROUND}),
                    .tensors =
                        (const TensorRule[]){
                            EMBEDDING("token_embd"),
                            GGUF_ATTENTION,
                            NORM("ffn_norm", ".ffn_norm"),
                            GGUF_FUSED_FFN,
                            GGUF_OUTPUT_NORMS,
                            GGUF_END,
                            {0},
                        },
                    .finish = gguf_glm4v_or_glm4_finish,
                },
                {0},
            },
    },
    {0},
};

/* The RoPE of a text in a model of images; there the converter leaves q and k as they are. */
static Status gguf_glm4v_or_glm4_finish(const GgufModel *m, Config *c) {
    if (gguf_model_find(m, "rope.dimension_sections")) c->rope_pairing = ROPE_HALVES;
    return STATUS_OK;
}
