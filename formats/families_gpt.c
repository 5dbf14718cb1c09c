/* The GPTs and their time: layer norms, biases, feed-forward without a gate; learned,
 * sinusoidal, rotary and ALiBi positions. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "formats/family.h"
#include "formats/json.h"

/* ---- Keys ---- */

#define GPT_SIZES(vocab, dim, layers, heads, positions)                                            \
    {"vocab_size", "vocab_size", vocab}, {"n_embd|hidden_size", "dim", dim},                       \
        {"n_layer|num_hidden_layers", "n_layers", layers},                                         \
        {"n_head|num_attention_heads", "n_heads", heads}, {                                        \
        "n_positions|max_position_embeddings", "context", positions                                \
    }
#define GPT_EPSILON(eps)                                                                           \
    { "layer_norm_epsilon", "norm_eps", eps }
#define GPT_ACTIVATION(absent)                                                                     \
    { "activation_function", "activation", absent }
#define INNER(key)                                                                                 \
    { key, "ffn_dim", 0 }

static const ConfigRule openai_gpt_config[] = {GPT_SIZES(40478, 768, 12, 12, 512),
                                               GPT_EPSILON(1e-5),
                                               {"afn", "activation", ACTIVATION_GELU_TANH},
                                               {0}};
static const ConfigRule gpt2_config[] = {GPT_SIZES(50257, 768, 12, 12, 1024),
                                         INNER("n_inner"),
                                         GPT_EPSILON(1e-5),
                                         GPT_ACTIVATION(ACTIVATION_GELU_TANH),
                                         {0}};
static const ConfigRule gptj_config[] = {GPT_SIZES(50400, 4096, 28, 16, 2048),
                                         INNER("n_inner"),
                                         GPT_EPSILON(1e-5),
                                         GPT_ACTIVATION(ACTIVATION_GELU_TANH),
                                         {"rotary_dim", "rotary_dim", 64},
                                         {0}};
/* The epsilon of its blocks' norms is fixed, and the last norm must have the same. */
static const ConfigRule ctrl_config[] = {
    GPT_SIZES(246534, 1280, 48, 16, 256), {"dff", "ffn_dim", 8192}, {0}};
static const FixedKey ctrl_fixed[] = {{"layer_norm_epsilon", "1e-6"}, {0}};
static const ConfigRule gpt_neo_config[] = {
    {"vocab_size", "vocab_size", 50257},
    {"hidden_size", "dim", 2048},
    {"num_layers|num_hidden_layers", "n_layers", 24},
    {"num_heads|num_attention_heads", "n_heads", 16},
    INNER("intermediate_size"),
    CONTEXT(2048),
    GPT_EPSILON(1e-5),
    GPT_ACTIVATION(ACTIVATION_GELU_TANH),
    {0},
};
static const ConfigRule gpt_neox_config[] = {
    SIZE_KEYS(50432, 6144, 24576, 44, 64),          CONTEXT(2048),
    {"layer_norm_eps", "norm_eps", 1e-5},           {"hidden_act", "activation", ACTIVATION_GELU},
    {"use_parallel_residual", "parallel_block", 1}, {0},
};
static const ConfigRule phi_config[] = {
    SIZE_KEYS(51200, 2048, 8192, 24, 32),
    KV_HEADS(0),
    CONTEXT(2048),
    {"layer_norm_eps", "norm_eps", 1e-5},
    {"hidden_act", "activation", ACTIVATION_GELU_TANH},
    {0},
};
static const ConfigRule starcoder2_config[] = {
    SIZE_KEYS(49152, 3072, 12288, 30, 24),
    KV_HEADS(2),
    CONTEXT(4096),
    {"norm_epsilon", "norm_eps", 1e-5},
    {"hidden_act", "activation", ACTIVATION_GELU_TANH},
    {0},
};
static const ConfigRule falcon_config[] = {
    {"vocab_size", "vocab_size", 65024},
    {"n_embed|hidden_size", "dim", 4544},
    {"num_hidden_layers", "n_layers", 32},
    {"num_attention_heads", "n_heads", 71},
    {"num_kv_heads", "n_kv_heads", 0},
    INNER("ffn_hidden_size"),
    CONTEXT(2048),
    GPT_EPSILON(1e-5),
    {"activation", "activation", ACTIVATION_GELU},
    {0},
};
static const ConfigRule mpt_config[] = {
    {"vocab_size", "vocab_size", 50368},
    {"d_model|hidden_size", "dim", 2048},
    {"n_layers|num_hidden_layers", "n_layers", 24},
    {"n_heads|num_attention_heads", "n_heads", 16},
    {"max_seq_len", "context", 2048},
    GPT_EPSILON(1e-5),
    {0},
};
static const ConfigRule bloom_config[] = {
    {"vocab_size", "vocab_size", 250880},
    {"n_embed|hidden_size", "dim", 64},
    {"n_layer|num_hidden_layers", "n_layers", 2},
    {"n_head|num_attention_heads", "n_heads", 8},
    {"seq_length", "context", 2048},
    GPT_EPSILON(1e-5),
    {0},
};
static const ConfigRule opt_config[] = {
    {"vocab_size", "vocab_size", 50272},   {"hidden_size", "dim", 768},
    {"num_hidden_layers", "n_layers", 12}, {"num_attention_heads", "n_heads", 12},
    {"ffn_dim", "ffn_dim", 3072},          CONTEXT(2048),
    GPT_ACTIVATION(ACTIVATION_RELU),       {0},
};
static const ConfigRule xglm_config[] = {
    {"vocab_size", "vocab_size", 256008},
    {"d_model|hidden_size", "dim", 1024},
    {"num_layers|num_hidden_layers", "n_layers", 24},
    {"attention_heads|num_attention_heads", "n_heads", 16},
    {"ffn_dim", "ffn_dim", 4096},
    CONTEXT(2048),
    GPT_ACTIVATION(ACTIVATION_GELU),
    {0},
};
static const FixedKey no_cross_attention[] = {{"add_cross_attention", "false"}, {0}};

/* ---- Biases ---- */

static const BiasRule all_biases[] = {{QKVO UP_DOWN, NULL, true}, {0}};
static const BiasRule all_and_output_biases[] = {{QKVO UP_DOWN "output ", NULL, true}, {0}};
static const BiasRule gpt_neo_biases[] = {{" wo " UP_DOWN, NULL, true}, {0}};
static const BiasRule gptj_biases[] = {{UP_DOWN "output ", NULL, true}, {0}};
static const BiasRule gpt_neox_biases[] = {
    {QKVO, "attention_bias", true}, {UP_DOWN, NULL, true}, {0}};
static const BiasRule starcoder2_biases[] = {{QKVO UP_DOWN, "use_bias", true}, {0}};
static const BiasRule falcon_biases[] = {{QKVO UP_DOWN, "bias", false}, {0}};
static const BiasRule opt_biases[] = {{QKVO UP_DOWN, "enable_bias", true}, {0}};

/* ---- Tensors ---- */

#define GPT_NORMS NORM("attention_norm", "model.h.%u.ln_1"), NORM("ffn_norm", "model.h.%u.ln_2")
#define GPT_POSITIONS(from)                                                                        \
    {                                                                                              \
        "position_embedding", from ".weight", N_POSITIONS, N_DIM, RULE_VECTOR, {0}, {              \
            0                                                                                      \
        }                                                                                          \
    }
#define GPT_END NORM("final_norm", "model.ln_f"), OUTPUT("lm_head")

/* GPT-1's and GPT-2's matrices are stored as inputs x outputs. */
#define CONV1D_LAYER                                                                               \
    GPT_NORMS, FUSED_QKV("model.h.%u.attn.c_attn", RULE_TRANSPOSED),                               \
        PART("wo", "model.h.%u.attn.c_proj", N_DIM, N_Q, RULE_TRANSPOSED, {0}, {0}),               \
        PART("w_up", "model.h.%u.mlp.c_fc", N_FFN, N_DIM, RULE_TRANSPOSED, {0}, {0}),              \
        PART("w_down", "model.h.%u.mlp.c_proj", N_DIM, N_FFN, RULE_TRANSPOSED, {0}, {0})

static const TensorRule gpt2_tensors[] = {
    EMBEDDING("model.wte"), GPT_POSITIONS("model.wpe"), CONV1D_LAYER, GPT_END, {0}};
static const TensorRule openai_gpt_tensors[] = {EMBEDDING("model.tokens_embed"),
                                                GPT_POSITIONS("model.positions_embed"),
                                                CONV1D_LAYER,
                                                OUTPUT("lm_head"),
                                                {0}};

#define GPT_FFN(up, down)                                                                          \
    LINEAR("w_up", "model.h.%u.mlp." up, N_FFN, N_DIM),                                            \
        LINEAR("w_down", "model.h.%u.mlp." down, N_DIM, N_FFN)

static const TensorRule gpt_bigcode_tensors[] = {
    EMBEDDING("model.wte"),
    GPT_POSITIONS("model.wpe"),
    GPT_NORMS,
    GROUPED_QKV("model.h.%u.attn.c_attn"),
    LINEAR("wo", "model.h.%u.attn.c_proj", N_DIM, N_Q),
    GPT_FFN("c_fc", "c_proj"),
    GPT_END,
    {0},
};
static const TensorRule gpt_neo_tensors[] = {
    EMBEDDING("model.wte"),
    GPT_POSITIONS("model.wpe"),
    GPT_NORMS,
    SEPARATE_QKV("model.h.%u.attn.attention."),
    LINEAR("wo", "model.h.%u.attn.attention.out_proj", N_DIM, N_Q),
    GPT_FFN("c_fc", "c_proj"),
    GPT_END,
    {0},
};
static const TensorRule gptj_tensors[] = {
    EMBEDDING("model.wte"),
    NORM("attention_norm", "model.h.%u.ln_1"),
    SEPARATE_QKV("model.h.%u.attn."),
    LINEAR("wo", "model.h.%u.attn.out_proj", N_DIM, N_Q),
    GPT_FFN("fc_in", "fc_out"),
    GPT_END,
    {0},
};
static const TensorRule ctrl_tensors[] = {
    EMBEDDING("model.w"),
    NORM("attention_norm", "model.h.%u.layernorm1"),
    NORM("ffn_norm", "model.h.%u.layernorm2"),
    LINEAR("wq", "model.h.%u.multi_head_attention.Wq", N_Q, N_DIM),
    LINEAR("wk", "model.h.%u.multi_head_attention.Wk", N_KV, N_DIM),
    LINEAR("wv", "model.h.%u.multi_head_attention.Wv", N_KV, N_DIM),
    LINEAR("wo", "model.h.%u.multi_head_attention.dense", N_DIM, N_Q),
    LINEAR("w_up", "model.h.%u.ffn.0", N_FFN, N_DIM),
    LINEAR("w_down", "model.h.%u.ffn.2", N_DIM, N_FFN),
    NORM("final_norm", "model.layernorm"),
    OUTPUT("lm_head"),
    {0},
};
static const TensorRule gpt_neox_tensors[] = {
    EMBEDDING("model.embed_in"),
    LLAMA_NORMS,
    GROUPED_QKV("model.layers.%u.attention.query_key_value"),
    LINEAR("wo", "model.layers.%u.attention.dense", N_DIM, N_Q),
    LINEAR("w_up", "model.layers.%u.mlp.dense_h_to_4h", N_FFN, N_DIM),
    LINEAR("w_down", "model.layers.%u.mlp.dense_4h_to_h", N_DIM, N_FFN),
    NORM("final_norm", "model.final_layer_norm"),
    OUTPUT("embed_out"),
    {0},
};
static const TensorRule phi_tensors[] = {
    LLAMA_EMBEDDING,
    NORM("attention_norm", "model.layers.%u.input_layernorm"),
    SEPARATE_QKV("model.layers.%u.self_attn."),
    LINEAR("wo", "model.layers.%u.self_attn.dense", N_DIM, N_Q),
    OPTIONAL_NORM("q_norm", "model.layers.%u.self_attn.q_layernorm", N_HEAD),
    OPTIONAL_NORM("k_norm", "model.layers.%u.self_attn.k_layernorm", N_HEAD),
    LINEAR("w_up", "model.layers.%u.mlp.fc1", N_FFN, N_DIM),
    LINEAR("w_down", "model.layers.%u.mlp.fc2", N_DIM, N_FFN),
    NORM("final_norm", "model.final_layernorm"),
    OUTPUT("lm_head"),
    {0},
};
static const TensorRule starcoder2_tensors[] = {
    LLAMA_EMBEDDING,
    LLAMA_NORMS,
    LLAMA_ATTENTION,
    LINEAR("w_up", "model.layers.%u.mlp.c_fc", N_FFN, N_DIM),
    LINEAR("w_down", "model.layers.%u.mlp.c_proj", N_DIM, N_FFN),
    LLAMA_END,
    {0},
};

#define BLOOM_MATRICES                                                                             \
    GROUPED_QKV("model.h.%u.self_attention.query_key_value"),                                      \
        LINEAR("wo", "model.h.%u.self_attention.dense", N_DIM, N_Q),                               \
        GPT_FFN("dense_h_to_4h", "dense_4h_to_h")

/* A Falcon's block has one norm, two, or two of other names, depending on its generation. */
static const TensorRule falcon_tensors[] = {
    EMBEDDING("model.word_embeddings"),
    OPTIONAL_NORM("attention_norm", "model.h.%u.input_layernorm", N_DIM),
    OPTIONAL_NORM("attention_norm", "model.h.%u.ln_attn", N_DIM),
    OPTIONAL_NORM("ffn_norm", "model.h.%u.post_attention_layernorm", N_DIM),
    OPTIONAL_NORM("ffn_norm", "model.h.%u.ln_mlp", N_DIM),
    BLOOM_MATRICES,
    GPT_END,
    {0},
};
static const TensorRule bloom_tensors[] = {
    EMBEDDING("model.word_embeddings"),
    NORM("embedding_norm", "model.word_embeddings_layernorm"),
    NORM("attention_norm", "model.h.%u.input_layernorm"),
    NORM("ffn_norm", "model.h.%u.post_attention_layernorm"),
    BLOOM_MATRICES,
    GPT_END,
    {0},
};
static const TensorRule mpt_tensors[] = {
    EMBEDDING("model.wte"),
    NORM("attention_norm", "model.blocks.%u.norm_1"),
    NORM("ffn_norm", "model.blocks.%u.norm_2"),
    FUSED_QKV("model.blocks.%u.attn.Wqkv", 0),
    LINEAR("wo", "model.blocks.%u.attn.out_proj", N_DIM, N_Q),
    LINEAR("w_up", "model.blocks.%u.ffn.up_proj", N_FFN, N_DIM),
    LINEAR("w_down", "model.blocks.%u.ffn.down_proj", N_DIM, N_FFN),
    NORM("final_norm", "model.norm_f"),
    OUTPUT("lm_head"),
    {0},
};

#define FAIRSEQ_NORMS(at)                                                                          \
    NORM("attention_norm", at "layers.%u.self_attn_layer_norm"),                                   \
        NORM("ffn_norm", at "layers.%u.final_layer_norm")
#define FAIRSEQ_LAYER(at)                                                                          \
    SEPARATE_QKV(at "layers.%u.self_attn."),                                                       \
        LINEAR("wo", at "layers.%u.self_attn.out_proj", N_DIM, N_Q),                               \
        LINEAR("w_up", at "layers.%u.fc1", N_FFN, N_DIM),                                          \
        LINEAR("w_down", at "layers.%u.fc2", N_DIM, N_FFN)

/* opt_more adds the norms, which may have no weights, and the embeddings, which may be narrower
 * than the model. */
static const TensorRule opt_tensors[] = {
    GPT_POSITIONS("model.decoder.embed_positions"),
    FAIRSEQ_LAYER("model.decoder."),
    {0},
};
static const TensorRule opt_norms[] = {
    FAIRSEQ_NORMS("model.decoder."),
    OPTIONAL_NORM("final_norm", "model.decoder.final_layer_norm", N_DIM),
    {0},
};
static const TensorRule opt_embeddings[] = {
    EMBEDDING("model.decoder.embed_tokens"), OUTPUT("lm_head"), {0}};
static const TensorRule xglm_tensors[] = {
    EMBEDDING("model.embed_tokens"),        FAIRSEQ_NORMS("model."), FAIRSEQ_LAYER("model."),
    NORM("final_norm", "model.layer_norm"), OUTPUT("lm_head"),       {0}};

/* ---- Fields that no key gives, and keys that a rule cannot describe ---- */

static void layer_norms(Config *config) {
    config->norm = NORM_LAYER;
    config->gated = false;
}

/* The feed-forward is 4 times as wide as the model where no key says otherwise. */
static Status wide_ffn(const json_t *json, Config *config, Error *error) {
    (void)json;
    if (config->ffn_dim > 0) return STATUS_OK;
    if (config->dim > 1 << 18) return error_set(error, "config.json: a width of %u", config->dim);
    config->ffn_dim = 4 * config->dim;
    return STATUS_OK;
}

static void gpt2_preset(Config *config) {
    layer_norms(config);
    config->position = POSITION_LEARNED;
}

static Status gpt2_finish(const json_t *json, Config *config, Error *error) {
    config->attention_scale_falls = json_flag(json, "scale_attn_by_inverse_layer_idx", false);
    if (!json_flag(json, "scale_attn_weights", true)) config->attention_scale = 1.0f;
    return wide_ffn(json, config, error);
}

static void openai_gpt_preset(Config *config) {
    gpt2_preset(config);
    config->norm_place = NORM_AFTER;
    config->final_norm = false;
}

static Status openai_gpt_finish(const json_t *json, Config *config, Error *error) {
    /* GPT-1's "gelu" means the tanh approximation. */
    if (config->activation == ACTIVATION_GELU) config->activation = ACTIVATION_GELU_TANH;
    return wide_ffn(json, config, error);
}

static Status gpt_bigcode_finish(const json_t *json, Config *config, Error *error) {
    if (json_flag(json, "multi_query", true)) config->n_kv_heads = 1;
    return gpt2_finish(json, config, error);
}

/* Sets the windows from attention_types: [[["global", "local"], 12]] means that pair of layers, 12
 * times. */
static Status gpt_neo_finish(const json_t *json, Config *config, Error *error) {
    const json_t *types = json_value(json, "attention_types");
    double window = json_number(json, "window_size", 256);
    uint32_t layer = 0;
    if (!(window >= 1 && window < 1 << 28))
        return error_set(error, "config.json: window_size is %g", window);
    for (size_t i = 0; i < json_array_size(types); i++) {
        const json_t *kinds = json_array_get(json_array_get(types, i), 0);
        json_int_t times = json_integer_value(json_array_get(json_array_get(types, i), 1));
        size_t n = json_array_size(kinds);
        for (json_int_t k = 0; k < times && n > 0 && layer < config->n_layers; k++) {
            for (size_t at = 0; at < n && layer < config->n_layers; at++) {
                const char *kind = json_string_value(json_array_get(kinds, at));
                if (!kind || (strcmp(kind, "global") != 0 && strcmp(kind, "local") != 0))
                    return error_set(error, "config.json: attention type '%.40s' is not known",
                                     kind ? kind : "(no text)");
                config->window[layer++] = strcmp(kind, "local") == 0 ? (uint32_t)window : 0;
            }
        }
    }
    if (layer != config->n_layers)
        return error_set(error, "config.json: attention_types is not for %u layers",
                         config->n_layers);
    config->attention_scale = 1.0f;
    return wide_ffn(json, config, error);
}

static void gptj_preset(Config *config) {
    layer_norms(config);
    config->parallel_block = true;
    config->rope_pairing = ROPE_INTERLEAVED;
}

static void ctrl_preset(Config *config) {
    layer_norms(config);
    config->norm_eps = 1e-6f;
    config->position = POSITION_SINUSOIDAL;
    config->sinusoid_layout = SINUSOID_HALVES;
    config->activation = ACTIVATION_RELU;
}

static Status scale_embeddings(const json_t *json, Config *config, Error *error) {
    (void)error;
    if (json_flag(json, "scale_embedding", true))
        config->embedding_scale = (float)sqrt((double)config->dim);
    return STATUS_OK;
}

static void phi_preset(Config *config) {
    layer_norms(config);
    config->parallel_block = true;
}

static Status phi_finish(const json_t *json, Config *config, Error *error) {
    (void)error;
    if (json_flag(json, "qk_layernorm", false)) config->qk_norm = QK_NORM_HEAD;
    return STATUS_OK;
}

static Status starcoder2_finish(const json_t *json, Config *config, Error *error) {
    return family_windows(json, NULL, config, 0, 0, 0, error);
}

static Status falcon_finish(const json_t *json, Config *config, Error *error) {
    bool is_new = json_flag(json, "new_decoder_architecture", false);
    if (!is_new) config->n_kv_heads = json_flag(json, "multi_query", true) ? 1 : config->n_heads;
    config->parallel_block = is_new || json_flag(json, "parallel_attn", true);
    if (json_flag(json, "alibi", false)) config->position = POSITION_ALIBI;
    return wide_ffn(json, config, error);
}

static void alibi_preset(Config *config) {
    layer_norms(config);
    config->position = POSITION_ALIBI;
    config->activation = ACTIVATION_GELU;
}

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
    return wide_ffn(json, config, error);
}

static void bloom_preset(Config *config) {
    alibi_preset(config);
    config->activation = ACTIVATION_GELU_TANH;
}

static Status bloom_finish(const json_t *json, Config *config, Error *error) {
    if (json_flag(json, "apply_residual_connection_post_layernorm", false))
        config->norm_place = NORM_STREAM;
    return wide_ffn(json, config, error);
}

static void opt_preset(Config *config) {
    gpt2_preset(config);
    config->position_offset = 2;
    config->norm_eps = 1e-5f;
}

static Status opt_finish(const json_t *json, Config *config, Error *error) {
    (void)error;
    bool before = json_flag(json, "do_layer_norm_before", true);
    if (!before) config->norm_place = NORM_AFTER;
    config->final_norm = before && !json_flag(json, "_remove_final_layer_norm", false);
    return STATUS_OK;
}

/* The row pad_token_id of XGLM's table of sinusoids is zero, which is that of position pad - 2. */
static Status xglm_finish(const json_t *json, Config *config, Error *error) {
    double pad = json_number(json, "pad_token_id", 1);
    if (pad >= 2)
        return error_set(error,
                         "config.json: pad_token_id is %g, which this program cannot compute "
                         "(only 0 and 1)",
                         pad);
    return scale_embeddings(json, config, error);
}

static void xglm_preset(Config *config) {
    layer_norms(config);
    config->position = POSITION_SINUSOIDAL;
    config->sinusoid_layout = SINUSOID_HALVES;
    config->position_offset = 2;
}

/* Adds the tensor a[vocab_size][inner] * b[inner][dim], where element (k, i) of b is
 * b[k * row + i * column]. Each element is summed in order, in double. */
static Status multiply(Source *source, const char *name, const float *a, const float *b,
                       size_t inner, size_t row, size_t column, Error *error) {
    size_t rows = source->config.vocab_size, dim = source->config.dim;
    float *out = malloc(rows * dim * sizeof *out);
    double *sums = malloc(dim * sizeof *sums), *by_input = malloc(inner * dim * sizeof *by_input);
    for (size_t k = 0; by_input && k < inner; k++)
        for (size_t i = 0; i < dim; i++) by_input[k * dim + i] = (double)b[k * row + i * column];
    for (size_t r = 0; out && sums && by_input && r < rows; r++) {
        memset(sums, 0, dim * sizeof *sums);
        for (size_t k = 0; k < inner; k++)
            for (size_t i = 0; i < dim; i++)
                sums[i] += (double)a[r * inner + k] * by_input[k * dim + i];
        for (size_t i = 0; i < dim; i++) out[r * dim + i] = (float)sums[i];
    }
    bool worked = sums && by_input;
    free(sums);
    free(by_input);
    if (!worked) {
        free(out);
        out = NULL; /* source_add_values reports the lack of memory */
    }
    if (source_add_values(source, name, rows, dim, out, error) != STATUS_OK) return STATUS_FAILED;
    source->tensors[source->n_tensors - 1].is_vector = false;
    return STATUS_OK;
}

/* Adds the norms and the embeddings. The embeddings of OPT 350m are narrower than the model, with a
 * projection into it and one out of it. The embeddings are multiplied with the first here, and the
 * output head with the second, once. */
static Status opt_more(const RuleContext *c, const json_t *json, Error *error) {
    Source *source = c->source;
    size_t dim = source->config.dim, vocab = source->config.vocab_size;
    if (json_flag(json, "layer_norm_elementwise_affine", true) &&
        rules_apply(c, opt_norms, error) != STATUS_OK)
        return STATUS_FAILED;
    double width = json_number(json, "word_embed_proj_dim", (double)dim);
    if (width == (double)dim) return rules_apply(c, opt_embeddings, error);
    if (!(width >= 1 && width <= 1 << 18))
        return error_set(error, "config.json: word_embed_proj_dim is %g", width);
    size_t inner = (size_t)width;
    bool has_head = raw_table_find(c->table, "lm_head.weight") || !c->tied;
    float *embeddings = NULL, *in = NULL, *out = NULL, *head = NULL;
    Status status =
        rules_read(c, "model.decoder.embed_tokens.weight", vocab, inner, &embeddings, error);
    if (status == STATUS_OK)
        status = rules_read(c, "model.decoder.project_in.weight", dim, inner, &in, error);
    if (status == STATUS_OK)
        status = rules_read(c, "model.decoder.project_out.weight", inner, dim, &out, error);
    if (status == STATUS_OK && has_head)
        status = rules_read(c, "lm_head.weight", vocab, inner, &head, error);
    if (status == STATUS_OK)
        status = multiply(source, "token_embedding", embeddings, in, inner, 1, inner, error);
    if (status == STATUS_OK)
        status = multiply(source, "output", head ? head : embeddings, out, inner, dim, 1, error);
    free(embeddings);
    free(in);
    free(out);
    free(head);
    return status;
}

const Family families_gpt[] = {
    {"openai-gpt", openai_gpt_config, openai_gpt_tensors, openai_gpt_preset, openai_gpt_finish,
     .biases = all_biases, .tied = true, .bos_id = -1, .eos_id = -1},
    {"gpt2", gpt2_config, gpt2_tensors, gpt2_preset, gpt2_finish, .biases = all_biases,
     .fixed = no_cross_attention, .tied = true, .bos_id = 50256, .eos_id = 50256},
    {"ctrl", ctrl_config, ctrl_tensors, ctrl_preset, scale_embeddings,
     .biases = all_and_output_biases, .fixed = ctrl_fixed, .tied = true, .bos_id = -1,
     .eos_id = -1},
    {"gpt_neo", gpt_neo_config, gpt_neo_tensors, gpt2_preset, gpt_neo_finish,
     .biases = gpt_neo_biases, .tied = true, .bos_id = 50256, .eos_id = 50256},
    {"gptj", gptj_config, gptj_tensors, gptj_preset, wide_ffn, .biases = gptj_biases,
     .rope = {.none = true}, .bos_id = 50256, .eos_id = 50256},
    {"gpt_neox", gpt_neox_config, gpt_neox_tensors, layer_norms, .biases = gpt_neox_biases,
     .rope = {.theta = "rotary_emb_base", .part = "rotary_pct", .part_absent = 0.25}, .bos_id = 0,
     .eos_id = 2},
    {"gpt_bigcode", gpt2_config, gpt_bigcode_tensors, gpt2_preset, gpt_bigcode_finish,
     .biases = all_biases, .fixed = no_cross_attention, .tied = true, .bos_id = 50256,
     .eos_id = 50256},
    {"starcoder2", starcoder2_config, starcoder2_tensors, layer_norms, starcoder2_finish,
     .biases = starcoder2_biases, .tied = true, .bos_id = 50256, .eos_id = 50256},
    {"phi", phi_config, phi_tensors, phi_preset, phi_finish, .biases = all_and_output_biases,
     .rope = {.part = "partial_rotary_factor", .part_absent = 0.5, .part_is_even = true},
     .bos_id = 1, .eos_id = 2},
    {"falcon", falcon_config, falcon_tensors, layer_norms, falcon_finish, .biases = falcon_biases,
     .tied = true, .bos_id = 11, .eos_id = 11, .alibi_is_scaled = true},
    {"mpt", mpt_config, mpt_tensors, alibi_preset, mpt_finish, .norms_have_no_bias = true,
     .tied = true, .bos_id = -1, .eos_id = -1},
    {"bloom", bloom_config, bloom_tensors, bloom_preset, bloom_finish, .biases = all_biases,
     .tied = true, .bos_id = 1, .eos_id = 2},
    {"opt", opt_config, opt_tensors, opt_preset, opt_finish, opt_more, .biases = opt_biases,
     .tied = true, .bos_id = 2, .eos_id = 2},
    {"xglm", xglm_config, xglm_tensors, xglm_preset, xglm_finish, .biases = all_biases,
     .fixed = no_cross_attention, .tied = true, .bos_id = 0, .eos_id = 2,
     .sinusoid_ends_at_base = true},
    {0},
};
