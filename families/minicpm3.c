/* MiniCPM 3: latent attention and multipliers. */
#include "families/shared.h"

static FamilyFinish minicpm3_finish;
static GgufFinish gguf_minicpm3_finish;

const Family families_minicpm3[] = {
    {
        .model_type = "minicpm3",
        .set = SET({"router", ROUTER_SIGMOID_SCORES}, {"latent_norm_eps", 1e-6}),
        .keys = KEYS(SIZE_KEYS(73448, 2560, 6400, 62, 40), {"kv_lora_rank", "latent_dim", 256},
                     {"q_lora_rank", "latent_q_dim", 768}, {"qk_nope_head_dim", "head_dim", 64},
                     {"qk_rope_head_dim", "rotary_dim", 32}, {"v_head_dim", "value_dim", 0},
                     CONTEXT(32768), {"rms_norm_eps", "norm_eps", 1e-5},
                     {"hidden_act", "activation", ACTIVATION_SILU},
                     {"scale_emb", "embedding_scale", 12}),
        .biases = BIASES({" wq_a wkv_a wo ", "attention_bias", false},
                         {DENSE_AND_SHARED, "mlp_bias", false}),
        .tensors =
            (const TensorRule[]){
                EMBEDDING("model.embed_tokens"),
                LLAMA_NORMS,
                LATENT_ATTENTION,
                LLAMA_FFN,
                LLAMA_END,
                {0},
            },
        .tied = true,
        .bos_id = 1,
        .eos_id = 2,
        .finish = minicpm3_finish,
        .gguf =
            (const GgufFamily[]){
                {
                    .architecture = "minicpm3",
                    .required = "attention.q_lora_rank attention.kv_lora_rank",
                    .tensors =
                        (const TensorRule[]){
                            EMBEDDING("token_embd"),
                            NORM("attention_norm", ".attn_norm"),
                            GGUF_LATENT_ATTENTION,
                            NORM("ffn_norm", ".ffn_norm"),
                            GGUF_FFN,
                            GGUF_END,
                            {0},
                        },
                    .finish = gguf_minicpm3_finish,
                },
                {0},
            },
    },
    {0},
};

static const RopeKeys plain_rope;

static Status minicpm3_finish(const json_t *json, Config *config, Error *error) {
    double layers = config->n_layers, width = config->dim;
    const json_t *depth = json_object_get(json, "scale_depth");
    double scale = json_number(json, "scale_depth", depth ? sqrt(layers) : 1.4);
    const json_t *base = json_object_get(json, "dim_model_base");
    double model_base = json_number(json, "dim_model_base", base ? width : 256);
    if (config->value_dim == 0) config->value_dim = config->dim / config->n_heads;
    config->residual_scale = (float)(scale / sqrt(layers));
    config->logit_scale = (float)(model_base / width);
    return family_latent_heads(json, &plain_rope, config, error);
}

/* No key gives MiniCPM 3's multipliers; all of its models have these. */
static Status gguf_minicpm3_finish(const GgufModel *m, Config *c) {
    c->embedding_scale = 12.0f;
    c->residual_scale = c->n_layers ? (float)(1.4 / sqrt((double)c->n_layers)) : 1.0f;
    c->logit_scale = c->dim ? (float)(256.0 / c->dim) : 1.0f;
    return gguf_latent_finish(m, c);
}
