/* MPT: ALiBi, no biases. */
#include "families/shared.h"

static FamilyFinish mpt_finish;
static GgufFinish gguf_mpt_finish;

const Family families_mpt[] = {
    {
        .model_type = "mpt",
        .set = SET({"norm", NORM_LAYER}, {"position", POSITION_ALIBI},
                   {"activation", ACTIVATION_GELU}, {"gated", 0}),
        .keys = KEYS({"vocab_size", "vocab_size", 50368}, {"d_model|hidden_size", "dim", 2048},
                     {"n_layers|num_hidden_layers", "n_layers", 24},
                     {"n_heads|num_attention_heads", "n_heads", 16},
                     {"max_seq_len", "context", 2048}, {"layer_norm_epsilon", "norm_eps", 1e-5}),
        .layers = "model.blocks.%u.",
        .tensors =
            (const TensorRule[]){
                EMBEDDING("model.wte"),
                NORM("attention_norm", ".norm_1"),
                NORM("ffn_norm", ".norm_2"),
                LINEAR("wq wk wv", ".attn.Wqkv",
                       "n_heads * head_dim + n_kv_heads * head_dim + n_kv_heads * head_dim", "dim"),
                LINEAR("wo", ".attn.out_proj", "dim", "n_heads * head_dim"),
                LINEAR("w_up", ".ffn.up_proj", "ffn_dim", "dim"),
                LINEAR("w_down", ".ffn.down_proj", "dim", "ffn_dim"),
                NORM("final_norm", "model.norm_f"),
                OUTPUT("lm_head"),
                {0},
            },
        .norms_have_no_bias = true,
        .tied = true,
        .bos_id = -1,
        .eos_id = -1,
        .steps = STEPS(STEP("wide_ffn")),
        .finish = mpt_finish,
        .gguf =
            (const GgufFamily[]){
                {
                    .architecture = "mpt",
                    .set = SET({"norm", NORM_LAYER}, {"gated", 0},
                               {"activation", ACTIVATION_GELU_TANH}),
                    .tensors =
                        (const TensorRule[]){
                            EMBEDDING("token_embd"),
                            GGUF_ATTENTION,
                            NORM("ffn_norm", ".ffn_norm"),
                            GGUF_UNGATED_FFN,
                            GGUF_END,
                            {0},
                        },
                    .finish = gguf_mpt_finish,
                },
                {0},
            },
    },
    {0},
};

static Status mpt_finish(const json_t *json, Config *config, Error *error) {
    const json_t *attention = json_value(json, "attn_config");
    /* transformers ignores these switches, but not so the models that have them. */
    if (family_refuse(attention, "alibi", "true", error) != STATUS_OK ||
        family_refuse(attention, "qk_ln", "false", error) != STATUS_OK ||
        family_refuse(attention, "prefix_lm", "false", error) != STATUS_OK)
        return STATUS_FAILED;
    config->qkv_clip = (float)json_number(attention, "clip_qkv", 0);
    config->attention_scale =
        (float)json_number(attention, "softmax_scale", (double)config->attention_scale);
    return STATUS_OK;
}

static Status gguf_mpt_finish(const GgufModel *m, Config *c) {
    double bias = 0.0;
    c->activation = ACTIVATION_GELU;
    gguf_model_float(m, "attention.max_alibi_bias", &bias);
    if (!(bias > 0.0))
        return error_set(m->error, "%s: an MPT without ALiBi is not known to this program",
                         m->source->path);
    c->position = POSITION_ALIBI;
    c->alibi_max_bias = (float)bias;
    return STATUS_OK;
}
