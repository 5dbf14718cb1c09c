/* StableLM: layer norms, partial RoPE, norms of each head. */
#include "families/shared.h"

static GgufFinish gguf_stablelm_finish;

const Family families_stablelm[] = {
    /* StableLM: a parallel block (attention and feed-forward of one input) has no second norm. */
    {
        .model_type = "stablelm",
        .set = SET({"norm", NORM_LAYER}),
        .keys = KEYS(SIZE_KEYS(50304, 2560, 6912, 32, 32), KV_HEADS(32), HEAD_DIM(0), CONTEXT(4096),
                     {"layer_norm_eps", "norm_eps", 1e-5},
                     {"hidden_act", "activation", ACTIVATION_SILU}),
        .biases = BIASES({QKV, "use_qkv_bias", false}),
        .tensors =
            (const TensorRule[]){
                EMBEDDING("model.embed_tokens"),
                NORM("attention_norm", ".input_layernorm"),
                NORM("ffn_norm", ".post_attention_layernorm", .optional = true),
                LLAMA_ATTENTION,
                VECTOR("q_norm", ".self_attn.q_layernorm.norms.%h.weight", "n_heads * head_dim",
                       .optional = true),
                VECTOR("k_norm", ".self_attn.k_layernorm.norms.%h.weight", "n_kv_heads * head_dim",
                       .optional = true),
                LLAMA_FFN,
                LLAMA_END,
                {0},
            },
        .rope = {.part = "partial_rotary_factor", .part_absent = 0.25, .part_is_even = true},
        .bos_id = 0,
        .eos_id = 0,
        .steps = STEPS(STEP("set", "parallel_block 1", .when = "use_parallel_residual"),
                       STEP("set", "qk_norm each", .when = "qk_layernorm")),
        .gguf =
            (const GgufFamily[]){
                {
                    .architecture = "stablelm",
                    .tensors =
                        (const TensorRule[]){
                            EMBEDDING("token_embd"),
                            NORM("attention_norm", ".attn_norm"),
                            NORM("ffn_norm", ".ffn_norm", .optional = true),
                            GGUF_QKV,
                            GGUF_SOME_QK_WEIGHTS,
                            GGUF_FFN,
                            GGUF_END,
                            {0},
                        },
                    .finish = gguf_stablelm_finish,
                },
                {0},
            },
    },
    {0},
};

static Status gguf_stablelm_finish(const GgufModel *m, Config *c) {
    c->norm = NORM_LAYER;
    c->parallel_block = !gguf_model_has(m, "blk.0.ffn_norm.weight");
    if (gguf_model_has(m, "blk.0.attn_q_norm.weight")) c->qk_norm = QK_NORM_EACH;
    return STATUS_OK;
}
