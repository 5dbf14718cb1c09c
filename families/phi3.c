/* Phi 3 and the text half of Phi 4: a llama with fused matrices. */
#include "families/shared.h"

static const ConfigRule phi4_config[] = {
    SIZE_KEYS(200064, 3072, 8192, 32, 32),
    KV_HEADS(8),
    HEAD_DIM(0),
    CONTEXT(131072),
    {"rms_norm_eps", "norm_eps", 1e-5},
    {"hidden_act", "activation", ACTIVATION_SILU},
    {0},
};

const Family families_phi3[] = {
    {
        .model_type = "phi3",
        .keys =
            KEYS(SIZE_KEYS(32064, 3072, 8192, 32, 32), KV_HEADS(0), HEAD_DIM(0), CONTEXT(4096),
                 {"rms_norm_eps", "norm_eps", 1e-5}, {"hidden_act", "activation", ACTIVATION_SILU}),
        .tensors =
            (const TensorRule[]){
                EMBEDDING("model.embed_tokens"),
                LLAMA_NORMS,
                LINEAR("wq wk wv", ".self_attn.qkv_proj",
                       "n_heads * head_dim + n_kv_heads * head_dim + n_kv_heads * head_dim", "dim"),
                LINEAR("wo", ".self_attn.o_proj", "dim", "n_heads * head_dim"),
                LINEAR("w_gate w_up", ".mlp.gate_up_proj", "ffn_dim + ffn_dim", "dim"),
                LINEAR("w_down", ".mlp.down_proj", "dim", "ffn_dim"),
                LLAMA_END,
                {0},
            },
        .rope = {.part = "partial_rotary_factor",
                 .part_absent = 1,
                 .original_context = 4096,
                 .yarn_is_longrope = true},
        .bos_id = 1,
        .eos_id = 32000,
        .steps = STEPS(STEP("windows", "0 unlisted")),
        .gguf =
            (const GgufFamily[]){
                {
                    .architecture = "phi3",
                    .tensors =
                        (const TensorRule[]){
                            EMBEDDING("token_embd"),
                            GGUF_ATTENTION,
                            NORM("ffn_norm", ".ffn_norm"),
                            GGUF_FUSED_FFN,
                            GGUF_END,
                            {0},
                        },
                    .full_every = 1,
                },
                {0},
            },
    },
    {
        .model_type = "phi4_multimodal",
        .keys = phi4_config,
        .tensors =
            (const TensorRule[]){
                EMBEDDING("model.embed_tokens"),
                LLAMA_NORMS,
                LINEAR("wq wk wv", ".self_attn.qkv_proj",
                       "n_heads * head_dim + n_kv_heads * head_dim + n_kv_heads * head_dim", "dim"),
                LINEAR("wo", ".self_attn.o_proj", "dim", "n_heads * head_dim"),
                LINEAR("w_gate w_up", ".mlp.gate_up_proj", "ffn_dim + ffn_dim", "dim"),
                LINEAR("w_down", ".mlp.down_proj", "dim", "ffn_dim"),
                LLAMA_END,
                {0},
            },
        .rope = {.part = "partial_rotary_factor",
                 .part_absent = 1,
                 .original_context = 4096,
                 .yarn_is_longrope = true},
        .reads_text_alone = true,
        .bos_id = 199999,
        .eos_id = 199999,
        .more_eos_ids = {200020, 0},
        .steps = STEPS(STEP("windows", "0 unlisted")),
    },
    {
        .model_type = "phi4mm",
        .keys = phi4_config,
        .tensors =
            (const TensorRule[]){
                EMBEDDING("model.embed_tokens"),
                LLAMA_NORMS,
                LINEAR("wq wk wv", ".self_attn.qkv_proj.base_layer",
                       "n_heads * head_dim + n_kv_heads * head_dim + n_kv_heads * head_dim", "dim"),
                LINEAR("wo", ".self_attn.o_proj.base_layer", "dim", "n_heads * head_dim"),
                LINEAR("w_gate w_up", ".mlp.gate_up_proj.base_layer", "ffn_dim + ffn_dim", "dim"),
                LINEAR("w_down", ".mlp.down_proj.base_layer", "dim", "ffn_dim"),
                LLAMA_END,
                {0},
            },
        .rope = {.part = "partial_rotary_factor",
                 .part_absent = 1,
                 .original_context = 4096,
                 .yarn_is_longrope = true},
        .reads_text_alone = true,
        .bos_id = 199999,
        .eos_id = 199999,
        .more_eos_ids = {200020, 0},
        .steps = STEPS(STEP("windows", "0 unlisted")),
    },
    {0},
};
