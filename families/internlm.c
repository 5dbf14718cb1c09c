/* InternLM 2 and 3: llamas, the first with names of its own. */
#include "families/shared.h"

static FamilyFinish internlm3_finish;

const Family families_internlm[] = {
    /* InternLM 2: a llama whose tensors have other names. */
    {
        .model_type = "internlm2",
        .keys =
            KEYS(SIZE_KEYS(32000, 4096, 11008, 32, 32), KV_HEADS(0), HEAD_DIM(0), CONTEXT(2048),
                 {"rms_norm_eps", "norm_eps", 1e-6}, {"hidden_act", "activation", ACTIVATION_SILU}),
        .biases = BIASES({QKVO, "bias", true}),
        .tensors =
            (const TensorRule[]){
                EMBEDDING("model.tok_embeddings"),
                NORM("attention_norm", ".attention_norm"),
                LINEAR("wq wk wv", ".attention.wqkv",
                       "n_heads * head_dim + n_kv_heads * head_dim + n_kv_heads * head_dim", "dim",
                       .by = "n_kv_heads"),
                LINEAR("wo", ".attention.wo", "dim", "n_heads * head_dim"),
                NORM("ffn_norm", ".ffn_norm"),
                LINEAR("w_gate", ".feed_forward.w1", "ffn_dim", "dim"),
                LINEAR("w_up", ".feed_forward.w3", "ffn_dim", "dim"),
                LINEAR("w_down", ".feed_forward.w2", "dim", "ffn_dim"),
                NORM("final_norm", "model.norm"),
                OUTPUT("output"),
                {0},
            },
        .bos_id = 1,
        .eos_id = 2,
        .gguf =
            (const GgufFamily[]){
                {
                    .architecture = "internlm2",
                    .pairing = ROPE_INTERLEAVED,
                    .tensors =
                        (const TensorRule[]){
                            EMBEDDING("token_embd"),
                            GGUF_ATTENTION,
                            NORM("ffn_norm", ".ffn_norm"),
                            GGUF_FFN,
                            GGUF_END,
                            {0},
                        },
                },
                {0},
            },
    },
    /* InternLM 3's class knows each switch by two names. */
    {
        .model_type = "internlm3",
        .keys =
            KEYS(SIZE_KEYS(128512, 4096, 10240, 48, 32), KV_HEADS(2), HEAD_DIM(128), CONTEXT(32768),
                 {"rms_norm_eps", "norm_eps", 1e-5}, {"hidden_act", "activation", ACTIVATION_SILU}),
        .biases = BIASES({QKVO, "qkv_bias", false}, {QKVO, "attention_bias", false},
                         {GATED, "bias", false}, {GATED, "mlp_bias", false}),
        .tensors =
            (const TensorRule[]){
                EMBEDDING("model.embed_tokens"),
                LLAMA_NORMS,
                LLAMA_ATTENTION,
                LLAMA_FFN,
                LLAMA_END,
                {0},
            },
        .bos_id = 1,
        .eos_id = 2,
        .finish = internlm3_finish,
    },
    {0},
};

static Status internlm3_finish(const json_t *json, Config *config, Error *error) {
    (void)config;
    bool attention = json_flag(json, "qkv_bias", false) || json_flag(json, "attention_bias", false);
    if (attention == (json_flag(json, "bias", false) || json_flag(json, "mlp_bias", false)))
        return STATUS_OK;
    return error_set(error, "config.json: qkv_bias is not bias, which this program cannot compute");
}
