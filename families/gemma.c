/* Gemma 1, 2 and 3, and VaultGemma: norms whose weights lack 1, scaled embeddings. */
#include "families/shared.h"

static FamilyFinish gemma_finish;
static GgufFinish gguf_gemma_finish;
static GgufFinish gguf_gemma2_finish;
static GgufFinish gguf_gemma3_finish;

static const FixedKey gemma_fixed[] = {
    {"use_bidirectional_attention", "false"},
    {0},
};

static const BiasRule attention_biases[] = {
    {QKVO, "attention_bias", false},
    {0},
};

static const ConfigRule gemma2_config[] = {
    SIZE_KEYS(256000, 2304, 9216, 26, 8),
    KV_HEADS(4),
    HEAD_DIM(256),
    CONTEXT(8192),
    {"rms_norm_eps", "norm_eps", 1e-6},
    {"hidden_activation", "activation", ACTIVATION_GELU_TANH},
    {0},
};

const Family families_gemma[] = {
    {
        .model_type = "gemma",
        .keys = KEYS(SIZE_KEYS(256000, 3072, 24576, 28, 16), KV_HEADS(16), HEAD_DIM(256),
                     CONTEXT(8192), {"rms_norm_eps", "norm_eps", 1e-6},
                     {"hidden_act", "activation", ACTIVATION_GELU_TANH}),
        .fixed = gemma_fixed,
        .biases = attention_biases,
        .tensors =
            (const TensorRule[]){
                EMBEDDING("model.embed_tokens"),
                VECTOR("attention_norm", ".input_layernorm.weight", "dim",
                       .values = VALUES_PLUS_ONE),
                LLAMA_ATTENTION,
                VECTOR("ffn_norm", ".post_attention_layernorm.weight", "dim",
                       .values = VALUES_PLUS_ONE),
                LLAMA_FFN,
                VECTOR("final_norm", "model.norm.weight", "dim", .values = VALUES_PLUS_ONE),
                OUTPUT("lm_head"),
                {0},
            },
        .tied = true,
        .bos_id = 2,
        .eos_id = 1,
        .steps = STEPS(STEP("scale", "embeddings")),
        .finish = gemma_finish,
        .gguf =
            (const GgufFamily[]){
                {
                    .architecture = "gemma",
                    .tensors =
                        (const TensorRule[]){
                            EMBEDDING("token_embd"),
                            GGUF_ATTENTION,
                            NORM("ffn_norm", ".ffn_norm"),
                            GGUF_FFN,
                            GGUF_END,
                            {0},
                        },
                    .finish = gguf_gemma_finish,
                },
                {0},
            },
    },
    {
        .model_type = "gemma2",
        .set = SET({"norm_place", NORM_AROUND}),
        .keys = gemma2_config,
        .fixed = gemma_fixed,
        .biases = attention_biases,
        .tensors =
            (const TensorRule[]){
                EMBEDDING("model.embed_tokens"),
                VECTOR("attention_norm", ".input_layernorm.weight", "dim",
                       .values = VALUES_PLUS_ONE),
                LLAMA_ATTENTION,
                VECTOR("post_attention_norm", ".post_attention_layernorm.weight", "dim",
                       .values = VALUES_PLUS_ONE),
                VECTOR("ffn_norm", ".pre_feedforward_layernorm.weight", "dim",
                       .values = VALUES_PLUS_ONE),
                LLAMA_FFN,
                VECTOR("post_ffn_norm", ".post_feedforward_layernorm.weight", "dim",
                       .values = VALUES_PLUS_ONE),
                VECTOR("final_norm", "model.norm.weight", "dim", .values = VALUES_PLUS_ONE),
                OUTPUT("lm_head"),
                {0},
            },
        .tied = true,
        .bos_id = 2,
        .eos_id = 1,
        .steps = STEPS(STEP("cap", "attn_logit_softcapping attention_softcap 50"),
                       STEP("cap", "final_logit_softcapping logit_softcap 30"),
                       STEP("scale", "scores query_pre_attn_scalar 256"),
                       STEP("scale", "embeddings"), STEP("windows", "4096 every 2")),
        .gguf =
            (const GgufFamily[]){
                {
                    .architecture = "gemma2",
                    .tensors =
                        (const TensorRule[]){
                            EMBEDDING("token_embd"),
                            GGUF_ATTENTION,
                            NORM("ffn_norm", ".ffn_norm"),
                            GGUF_FFN,
                            GGUF_OUTPUT_NORMS,
                            GGUF_END,
                            {0},
                        },
                    .full_every = 2,
                    .window = 4096,
                    .finish = gguf_gemma2_finish,
                },
                {0},
            },
    },
    {
        .model_type = "gemma3_text",
        .set = SET({"norm_place", NORM_AROUND}, {"rope_theta", 1e6}, {"qk_norm", QK_NORM_HEAD}),
        .keys = KEYS(SIZE_KEYS(262208, 2304, 9216, 26, 8), KV_HEADS(4), HEAD_DIM(256),
                     CONTEXT(131072), {"rms_norm_eps", "norm_eps", 1e-6},
                     {"hidden_activation", "activation", ACTIVATION_GELU_TANH}),
        .fixed = gemma_fixed,
        .biases = attention_biases,
        .tensors =
            (const TensorRule[]){
                EMBEDDING("model.embed_tokens"),
                VECTOR("attention_norm", ".input_layernorm.weight", "dim",
                       .values = VALUES_PLUS_ONE),
                LLAMA_ATTENTION,
                VECTOR("post_attention_norm", ".post_attention_layernorm.weight", "dim",
                       .values = VALUES_PLUS_ONE),
                VECTOR("ffn_norm", ".pre_feedforward_layernorm.weight", "dim",
                       .values = VALUES_PLUS_ONE),
                LLAMA_FFN,
                VECTOR("post_ffn_norm", ".post_feedforward_layernorm.weight", "dim",
                       .values = VALUES_PLUS_ONE),
                VECTOR("q_norm", ".self_attn.q_norm.weight", "head_dim", .values = VALUES_PLUS_ONE),
                VECTOR("k_norm", ".self_attn.k_norm.weight", "head_dim", .values = VALUES_PLUS_ONE),
                VECTOR("final_norm", "model.norm.weight", "dim", .values = VALUES_PLUS_ONE),
                OUTPUT("lm_head"),
                {0},
            },
        .rope = {.local_theta = 10000, .local_theta_key = "rope_local_base_freq"},
        .tied = true,
        .bos_id = 2,
        .eos_id = 1,
        /* attn_logit_softcapping is ignored, as transformers does for Gemma 3. */
        .steps = STEPS(
            STEP("cap", "final_logit_softcapping logit_softcap 0"),
            STEP("scale", "scores query_pre_attn_scalar 256"), STEP("scale", "embeddings"),
            STEP("windows", "4096 every sliding_window_pattern 6"), STEP("rope_layers", "local")),
        .gguf =
            (const GgufFamily[]){
                {
                    .architecture = "gemma3",
                    .tensors =
                        (const TensorRule[]){
                            EMBEDDING("token_embd"),
                            GGUF_ATTENTION,
                            GGUF_QK_HEAD_NORMS,
                            NORM("ffn_norm", ".ffn_norm"),
                            GGUF_FFN,
                            GGUF_OUTPUT_NORMS,
                            GGUF_END,
                            {0},
                        },
                    .full_every = 6,
                    .local_theta = 10000,
                    /* transformers' Gemma3TextConfig: ollama's library writes neither */
                    .norm_eps = 1e-6,
                    .rope_theta = 1000000,
                    .finish = gguf_gemma3_finish,
                },
                {0},
            },
    },
    {0},
};

static Status gemma_finish(const json_t *json, Config *config, Error *error) {
    /* "gelu" in Gemma's first files means the tanh approximation. */
    const char *name = json_text(json, "hidden_act");
    if (name && strcmp(name, "gelu") == 0) config->activation = ACTIVATION_GELU_TANH;
    (void)error;
    return STATUS_OK;
}

/* llama.cpp's converter has already added the 1 to the weights of Gemma's norms. */
static Status gguf_gemma_finish(const GgufModel *m, Config *c) {
    (void)m;
    c->activation = ACTIVATION_GELU_TANH;
    c->embedding_scale = (float)sqrt((double)c->dim);
    return STATUS_OK;
}

/* The largest models (46 and 62 layers) scale scores by dim / n_heads instead of the heads' width;
 * no key says so. */
static Status gguf_gemma2_finish(const GgufModel *m, Config *c) {
    uint32_t largest = strcmp(m->architecture, "gemma2") == 0 ? 46 : 62;
    if (c->n_layers == largest && c->n_heads > 0)
        c->attention_scale = (float)(1.0 / sqrt((double)(c->dim / c->n_heads)));
    c->norm_place = NORM_AROUND;
    return gguf_gemma_finish(m, c);
}

static Status gguf_gemma3_finish(const GgufModel *m, Config *c) {
    c->qk_norm = QK_NORM_HEAD;
    return gguf_gemma2_finish(m, c);
}
