/* Families of Mamba: models that have nothing else, Jamba, Falcon-H1 and Zamba 2. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "formats/json.h"
#include "formats/state_rules.h"

/* ---- Keys ---- */

static const ConfigRule jamba_config[] = {
    SIZE_KEYS(65536, 4096, 14336, 32, 32),
    MOE_KEYS(8, 0, 262144, 1e-6),
    EXPERT_KEYS(BOTH_NAMES, 16, 2, "intermediate_size", 14336),
    {"mamba_d_state", "state_key_dim", 16},
    {"mamba_d_conv", "state_kernel", 4},
    {0},
};

static const ConfigRule zamba2_config[] = {
    SIZE_KEYS(32000, 2560, 0, 54, 32),
    KV_HEADS(0),
    CONTEXT(4096),
    {"rms_norm_eps", "norm_eps", 1e-5},
    {"hidden_act", "activation", ACTIVATION_GELU},
    {"n_mamba_heads", "state_heads", 8},
    {"mamba_ngroups", "state_key_heads", 1},
    {"mamba_d_state", "state_key_dim", 64},
    {"mamba_d_conv", "state_kernel", 4},
    {"num_mem_blocks", "shared_blocks", 1},
    {"adapter_rank", "adapter_rank", 128},
    {0},
};
static const ConfigRule falcon_h1_config[] = {
    SIZE_KEYS(128000, 4096, 14336, 32, 32),
    MOE_KEYS(8, 0, 8192, 1e-5),
    {"embedding_multiplier", "embedding_scale", 1},
    {"lm_head_multiplier", "logit_scale", 1},
    {"mamba_n_heads", "state_heads", 128},
    {"mamba_n_groups", "state_key_heads", 1},
    {"mamba_d_state", "state_key_dim", 256},
    {"mamba_d_conv", "state_kernel", 4},
    {"mamba_norm_before_gate", "state_norm_first", 1},
    {0},
};

#define PURE_KEYS(vocab, dim, layers, state)                                                       \
    {"vocab_size", "vocab_size", vocab}, {"hidden_size", "dim", dim},                              \
        {"num_hidden_layers", "n_layers", layers}, {"state_size", "state_key_dim", state},         \
        {"conv_kernel", "state_kernel", 4}, {                                                      \
        "layer_norm_epsilon", "norm_eps", 1e-5                                                     \
    }
static const ConfigRule mamba_config[] = {PURE_KEYS(50280, 768, 32, 16), {0}};
static const ConfigRule falcon_mamba_config[] = {
    PURE_KEYS(50280, 768, 32, 16), {"mixer_rms_eps", "state_norm_eps", 1e-6}, {0}};
static const ConfigRule mamba2_config[] = {
    PURE_KEYS(32768, 4096, 64, 128),
    {"num_heads", "state_heads", 128},
    {"head_dim", "state_value_dim", 64},
    {"n_groups", "state_key_heads", 8},
    {0},
};

/* The activation of the feed-forward is that of the convolution as well. */
static const FixedKey silu_fixed[] = {{"hidden_act", "\"silu\""}, {0}};

/* ---- Biases ---- */

static const BiasRule jamba_biases[] = {{" mamba.z mamba.x mamba.out ", "mamba_proj_bias", false},
                                        {" mamba.taps ", "mamba_conv_bias", true},
                                        {0}};
static const BiasRule falcon_h1_biases[] = {
    {QKVO, "attention_bias", false},
    {" mamba.z mamba.x mamba.b mamba.c mamba.step ", "mamba_proj_bias", false},
    {" mamba.taps ", "mamba_conv_bias", true},
    {" mamba.out ", "projectors_bias", false},
    {0}};
static const BiasRule zamba2_biases[] = {
    {MAMBA_IN GATED, "add_bias_linear", false}, {" mamba.taps ", NULL, true}, {0}};
static const BiasRule pure_biases[] = {
    {MAMBA_IN, "use_bias", false}, {" mamba.taps ", "use_conv_bias", true}, {0}};

/* ---- Tensors ---- */

/* in_proj holds x and z, x_proj what makes the steps, B and C. */
#define TWO_OUTS                                                                                   \
    { N_STATE_OUT, N_STATE_OUT }
#define SELECTED                                                                                   \
    { N_STATE_RANK, N_STATE_KEYS, N_STATE_KEYS }
#define MAMBA(at)                                                                                  \
    SOME_PART("mamba.x", at "in_proj", N_STATE_OUT, N_DIM, {N_NONE}, TWO_OUTS),                    \
        SOME_PART("mamba.z", at "in_proj", N_STATE_OUT, N_DIM, {N_STATE_OUT}, TWO_OUTS),           \
        SOME("mamba.taps", at "conv1d.weight", N_STATE_TAPS, N_STATE_OUT,                          \
             RULE_VECTOR | RULE_TRANSPOSED, {0}, {0}),                                             \
        SOME_VECTOR("mamba.taps.bias", at "conv1d.bias", N_STATE_OUT),                             \
        SOME("mamba.rank", at "x_proj.weight", N_STATE_RANK, N_STATE_OUT, RULE_MATRIX, {N_NONE},   \
             SELECTED),                                                                            \
        SOME("mamba.b", at "x_proj.weight", N_STATE_KEYS, N_STATE_OUT, RULE_MATRIX,                \
             {N_STATE_RANK}, SELECTED),                                                            \
        SOME("mamba.c", at "x_proj.weight", N_STATE_KEYS, N_STATE_OUT, RULE_MATRIX,                \
             {N_STATE_RANK, N_STATE_KEYS}, SELECTED),                                              \
        SOME_MATRIX("mamba.step", at "dt_proj", N_STATE_OUT, N_STATE_RANK),                        \
        SOME_VECTOR("mamba.step_bias", at "dt_proj.bias", N_STATE_OUT),                            \
        SOME("mamba.decay", at "A_log", N_STATE_KEYS, N_STATE_OUT,                                 \
             RULE_VECTOR | RULE_TRANSPOSED | RULE_MINUS_EXP, {0}, {0}),                            \
        SOME_VECTOR("mamba.skip", at "D", N_STATE_OUT),                                            \
        SOME_LINEAR("mamba.out", at "out_proj", N_DIM, N_STATE_OUT)

static const TensorRule jamba_tensors[] = {
    LLAMA_EMBEDDING,
    NORM("attention_norm", FROM_LAYER "input_layernorm"),
    NORM("ffn_norm", FROM_LAYER "pre_ff_layernorm"),
    SOME_QKV,
    SOME_LINEAR("wo", "self_attn.o_proj", N_DIM, N_OUT),
    MAMBA("mamba."),
    SOME_VECTOR("mamba.rank_norm", "mamba.dt_layernorm.weight", N_STATE_RANK),
    SOME_VECTOR("mamba.b_norm", "mamba.b_layernorm.weight", N_STATE_KEYS),
    SOME_VECTOR("mamba.c_norm", "mamba.c_layernorm.weight", N_STATE_KEYS),
    SOME_MATRIX("w_gate", "feed_forward.gate_proj", N_FFN, N_DIM),
    SOME_MATRIX("w_up", "feed_forward.up_proj", N_FFN, N_DIM),
    SOME_MATRIX("w_down", "feed_forward.down_proj", N_DIM, N_FFN),
    SOME_MATRIX("router", "feed_forward.router", N_EXPERTS, N_DIM),
    SOME_MATRIX("experts.%u.w_gate", "feed_forward.experts.%u.gate_proj", N_EXPERT_FFN, N_DIM),
    SOME_MATRIX("experts.%u.w_up", "feed_forward.experts.%u.up_proj", N_EXPERT_FFN, N_DIM),
    SOME_MATRIX("experts.%u.w_down", "feed_forward.experts.%u.down_proj", N_DIM, N_EXPERT_FFN),
    NORM("final_norm", "model.final_layernorm"),
    OUTPUT("lm_head"),
    {0},
};

/* falcon_h1_more adds the norms before the feed-forwards and the biases in these. */
static const TensorRule falcon_h1_tensors[] = {
    LLAMA_EMBEDDING,
    NORM("attention_norm", FROM_LAYER "input_layernorm"),
    SOME_QKV,
    SOME_LINEAR("wo", "self_attn.o_proj", N_DIM, N_OUT),
    MAMBA2("mamba."),
    SOME_MATRIX("w_gate", "feed_forward.gate_proj", N_FFN, N_DIM),
    SOME_MATRIX("w_up", "feed_forward.up_proj", N_FFN, N_DIM),
    SOME_MATRIX("w_down", "feed_forward.down_proj", N_DIM, N_FFN),
    NORM("final_norm", "model.final_layernorm"),
    OUTPUT("lm_head"),
    {0},
};

/* zamba2_more adds the blocks and the adapters. */
static const TensorRule zamba2_tensors[] = {
    LLAMA_EMBEDDING,
    SOME_VECTOR("attention_norm", "input_layernorm.weight", N_DIM),
    SOME_VECTOR("attention_norm", "mamba_decoder.input_layernorm.weight", N_DIM),
    MAMBA2("mamba."),
    MAMBA2("mamba_decoder.mamba."),
    SOME_MATRIX("block_out", "linear", N_DIM, N_DIM),
    NORM("final_norm", "model.final_layernorm"),
    OUTPUT("lm_head"),
    {0},
};

#define PURE_BEGIN EMBEDDING("model.embeddings"), NORM("attention_norm", FROM_LAYER "norm")
#define PURE_END NORM("final_norm", "model.norm_f"), OUTPUT("lm_head")
static const TensorRule mamba_tensors[] = {PURE_BEGIN, MAMBA("mixer."), PURE_END, {0}};
static const TensorRule mamba2_tensors[] = {PURE_BEGIN, MAMBA2("mixer."), PURE_END, {0}};

/* ---- Fields that no key gives, and keys that a rule cannot describe ---- */

/* Reads the channels of Mamba (`inner` where the key is there, else expand * dim) and the rank of
 * its steps ("auto": a sixteenth of dim). */
static Status read_mamba(const json_t *json, const char *inner, const char *expand,
                         const char *rank, Config *config, Error *error) {
    uint32_t times = 1;
    const char *text = json_text(json, rank);
    double least = ceil(config->dim / 16.0);
    if (state_read_whole(json, expand, 2, &times, error) != STATUS_OK) return STATUS_FAILED;
    if (state_read_whole(json, inner, (double)times * config->dim, &config->state_heads, error) !=
        STATUS_OK)
        return STATUS_FAILED;
    config->state_key_heads = config->state_value_dim = 1;
    if (text && strcmp(text, "auto") == 0) {
        config->state_rank = (uint32_t)least;
        return STATUS_OK;
    }
    if (text) return error_set(error, "config.json: %s is '%.40s'", rank, text);
    return state_read_whole(json, rank, least, &config->state_rank, error);
}

/* Every attn_layer_period-th layer attends, from attn_layer_offset on. */
static Status jamba_finish(const json_t *json, Config *config, Error *error) {
    double period = json_number(json, "attn_layer_period", 8);
    double offset = json_number(json, "attn_layer_offset", 4);
    if (!(period >= 1 && period <= 1e6 && offset >= 0 && offset < period) ||
        period != floor(period) || offset != floor(offset))
        return error_set(error, "config.json: attn_layer_period is %g, attn_layer_offset %g",
                         period, offset);
    for (uint32_t l = 0; l < config->n_layers; l++)
        config->layer_kind[l] =
            l % (uint32_t)period == (uint32_t)offset ? LAYER_ATTENTION : LAYER_MAMBA;
    if (config->n_experts == 1) config->n_experts = 0;
    config->position = POSITION_NONE;
    config->router = ROUTER_SOFTMAX;
    return read_mamba(json, "", "mamba_expand", "mamba_dt_rank", config, error);
}

/* ---- Falcon-H1 ---- */

/* Reads a list of n numbers; ones where it is absent. */
static Status read_multipliers(const json_t *json, const char *key, size_t n, double *out,
                               Error *error) {
    const json_t *list = json_value(json, key);
    if (list && json_array_size(list) != n)
        return error_set(error, "config.json: %s is not a list of %zu numbers", key, n);
    for (size_t i = 0; i < n; i++) {
        const json_t *item = json_array_get(list, i);
        out[i] = list ? json_number_value(item) : 1.0;
        if ((list && !json_is_number(item)) || !(fabs(out[i]) < 1e6))
            return error_set(error, "config.json: %s is not a list of %zu numbers", key, n);
    }
    return STATUS_OK;
}

/* The multipliers of the gate and of the output of feed-forwards. Neither may be 0. */
static Status read_ffn_multipliers(const json_t *json, double out[2], Error *error) {
    if (read_multipliers(json, "mlp_multipliers", 2, out, error) != STATUS_OK) return STATUS_FAILED;
    if (fabs(out[0]) > 1e-6 && fabs(out[1]) > 1e-6) return STATUS_OK;
    return error_set(error, "config.json: mlp_multipliers are %g and %g", out[0], out[1]);
}

/* The norm before a feed-forward takes the gate's multiplier, which `up` then has as well; what the
 * layers add to the residual stream is multiplied by the rest of the output's. */
static Status falcon_h1_finish(const json_t *json, Config *config, Error *error) {
    const json_t *inner = json_object_get(json, "mamba_d_ssm");
    const json_t *width = json_value(json, "mamba_d_head");
    uint32_t expand = 1, values = 1024;
    double ffn[2];
    Status status = read_ffn_multipliers(json, ffn, error);
    if (status == STATUS_OK) status = state_read_whole(json, "mamba_expand", 2, &expand, error);
    if (status == STATUS_OK && json_is_null(inner)) {
        if ((uint64_t)expand * config->dim > 1 << 24)
            return error_set(error, "config.json: mamba_expand is %u", expand);
        values = expand * config->dim;
    } else if (status == STATUS_OK) {
        status = state_read_whole(json, "mamba_d_ssm", values, &values, error);
    }
    if (status != STATUS_OK) return STATUS_FAILED;
    if (config->state_heads == 0 || values % config->state_heads != 0 ||
        (json_is_number(width) && json_number_value(width) != (double)values / config->state_heads))
        return error_set(error,
                         "config.json: mamba_d_ssm %u are not mamba_n_heads %u of mamba_d_head",
                         values, config->state_heads);
    config->state_value_dim = values / config->state_heads;
    config->residual_scale = (float)(ffn[1] / ffn[0]);
    for (uint32_t l = 0; l < config->n_layers; l++) config->layer_kind[l] = LAYER_BESIDE;
    return state_no_step_limit(json, error);
}

/* Adds the layer's vector TO: FROM times `factor`. */
static Status add_multiplied(const RuleContext *context, uint32_t layer, const char *from,
                             const char *to, size_t n, double factor, Error *error) {
    char name[128];
    float *values;
    snprintf(name, sizeof name, FROM_LAYER "%s", layer, from);
    if (rules_read(context, name, 1, n, &values, error) != STATUS_OK) return STATUS_FAILED;
    for (size_t i = 0; i < n; i++) values[i] *= (float)factor;
    snprintf(name, sizeof name, "layers.%u.%s", layer, to);
    return source_add_values(context->source, name, 1, n, values, error);
}

/* Adds the layer's vector TO. */
static Status add_vector(const RuleContext *context, uint32_t layer, const char *to,
                         const double *from, size_t n, Error *error) {
    char name[64];
    float *values = malloc(n * sizeof *values);
    for (size_t i = 0; values && i < n; i++) values[i] = (float)from[i];
    snprintf(name, sizeof name, "layers.%u.%s", layer, to);
    return source_add_values(context->source, name, 1, n, values, error);
}

static Status add_ffn_vectors(const RuleContext *context, const json_t *json, uint32_t layer,
                              double factor, Error *error) {
    const Config *c = &context->source->config;
    Status status = add_multiplied(context, layer, "pre_ff_layernorm.weight", "ffn_norm", c->dim,
                                   factor, error);
    if (!json_flag(json, "mlp_bias", false)) return status;
    if (status == STATUS_OK)
        status = add_multiplied(context, layer, "feed_forward.gate_proj.bias", "w_gate.bias",
                                c->ffn_dim, factor, error);
    if (status == STATUS_OK)
        status = add_multiplied(context, layer, "feed_forward.up_proj.bias", "w_up.bias",
                                c->ffn_dim, factor, error);
    if (status == STATUS_OK)
        status = add_multiplied(context, layer, "feed_forward.down_proj.bias", "w_down.bias",
                                c->dim, factor, error);
    return status;
}

static Status falcon_h1_more(const RuleContext *context, const json_t *json, Error *error) {
    const Config *c = &context->source->config;
    double ffn[2] = {1, 1}, attention[2] = {1, 1}, outputs[2] = {1, 1}, mamba[6];
    bool has_norm = rules_find(context, "model.layers.0.mamba.norm.weight");
    if (has_norm != json_flag(json, "mamba_rms_norm", false))
        return error_set(error, "%s: mamba_rms_norm is %s, but the layers have %s",
                         context->source->path, has_norm ? "false" : "true",
                         has_norm ? "mamba.norm.weight" : "no mamba.norm.weight");
    Status status = read_ffn_multipliers(json, ffn, error);
    if (status == STATUS_OK)
        status = read_multipliers(json, "ssm_multipliers", 5, mamba + 1, error);
    const struct {
        const char *key;
        double *out;
    } numbers[] = {{"ssm_in_multiplier", &mamba[0]},
                   {"attention_in_multiplier", &attention[0]},
                   {"key_multiplier", &attention[1]},
                   {"attention_out_multiplier", &outputs[0]},
                   {"ssm_out_multiplier", &outputs[1]}};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers && status == STATUS_OK; i++) {
        *numbers[i].out = json_number(json, numbers[i].key, 1);
        if (!(fabs(*numbers[i].out) < 1e6))
            status = error_set(error, "config.json: %s is %g", numbers[i].key, *numbers[i].out);
    }
    for (size_t i = 0; i < 2; i++) outputs[i] *= ffn[0] / ffn[1];
    for (uint32_t l = 0; l < c->n_layers && status == STATUS_OK; l++) {
        status = add_ffn_vectors(context, json, l, ffn[0], error);
        if (status == STATUS_OK) status = add_vector(context, l, "mamba.scales", mamba, 6, error);
        if (status == STATUS_OK)
            status = add_vector(context, l, "attention.scales", attention, 2, error);
        if (status == STATUS_OK) status = add_vector(context, l, "scales", outputs, 2, error);
    }
    return status;
}

/* ---- Zamba 2 ---- */

/* The kinds of the layers: without layers_block_type, those of Zamba2-2.7B. Where embeddings are
 * not tied, transformers ties no blocks either: each layer has a block of its own. */
static Status zamba2_kinds(const json_t *json, Config *config, Error *error) {
    static const KindName names[] = {
        {"mamba", LAYER_MAMBA2}, {"linear_attention", LAYER_MAMBA2}, {"hybrid", LAYER_SHARED}, {0}};
    const json_t *types = json_value(json, "layers_block_type");
    if (!types) types = json_value(json, "layer_types");
    if (!types && config->n_layers != 54)
        return error_set(error, "config.json: layers_block_type is missing");
    if (types && json_array_size(types) != config->n_layers)
        return error_set(error, "config.json: layers_block_type is not a list of %u layers",
                         config->n_layers);
    if (types && state_read_kinds(types, names, config, error) != STATUS_OK) return STATUS_FAILED;
    uint32_t n_shared = 0;
    for (uint32_t l = 0; l < config->n_layers; l++) {
        bool is_shared = (l > 0 && l % 6 == 0 && l <= 42) || l == 47 || l == 51;
        if (!types) config->layer_kind[l] = is_shared ? LAYER_SHARED : LAYER_MAMBA2;
        config->without_ffn[l] = 1;
        n_shared += config->layer_kind[l] == LAYER_SHARED;
    }
    if (!json_flag(json, "tie_word_embeddings", true) && config->shared_blocks > 0 && n_shared > 0)
        config->shared_blocks = n_shared;
    return STATUS_OK;
}

/* Heads of the blocks, whose input is twice as wide as the residual stream, and of the states. */
static Status zamba2_finish(const json_t *json, Config *config, Error *error) {
    uint32_t expand = 1;
    uint64_t wide = 2 * (uint64_t)config->dim;
    double width = (double)(wide / config->n_heads);
    if (wide % config->n_heads != 0 || width < 2 ||
        json_number(json, "attention_head_dim", width) != width)
        return error_set(error,
                         "config.json: attention_head_dim is not twice hidden_size %u, "
                         "divided by num_attention_heads %u",
                         config->dim, config->n_heads);
    if (state_read_whole(json, "mamba_expand", 2, &expand, error) != STATUS_OK)
        return STATUS_FAILED;
    uint64_t inner = (uint64_t)expand * config->dim;
    if (config->state_heads == 0 || inner % config->state_heads != 0 || inner > 1 << 24)
        return error_set(error, "config.json: n_mamba_heads %u, mamba_expand %u",
                         config->state_heads, expand);
    config->state_value_dim = (uint32_t)(inner / config->state_heads);
    config->state_norm_eps = 1e-5f; /* whatever rms_norm_eps is */
    config->head_dim = (uint32_t)width;
    config->attention_scale = (float)(1.0 / sqrt(width / 2));
    if (config->ffn_dim == 0) config->ffn_dim = config->dim > 1 << 18 ? 0 : 4 * config->dim;
    if (json_flag(json, "use_long_context", false)) config->context = 16384;
    if (!json_flag(json, "use_mem_rope", false)) config->position = POSITION_NONE;
    return zamba2_kinds(json, config, error);
}

/* Applies rules[n] to one layer's names: each `from` follows `prefix`, each `to` follows `at`. */
static Status apply_named(const RuleContext *context, const TensorRule *rules, const char *prefix,
                          const char *at, Error *error) {
    Status status = STATUS_OK;
    for (; rules->to && status == STATUS_OK; rules++) {
        char from[160], to[MODELFILE_NAME_BYTES];
        TensorRule one[2] = {*rules, {0}};
        snprintf(from, sizeof from, "%s%s", prefix, rules->from);
        snprintf(to, sizeof to, "%s%s", at, rules->to);
        one[0].from = from;
        one[0].to = to;
        status = rules_apply(context, one, error);
    }
    return status;
}

#define PLAIN(to, from, rows, cols)                                                                \
    {                                                                                              \
        to, from, rows, cols, 0, {0}, {                                                            \
            0                                                                                      \
        }                                                                                          \
    }
#define GATE_UP                                                                                    \
    { N_FFN, N_FFN }
/* A block, which the first layer that uses it holds. */
static Status zamba2_block(const RuleContext *context, const json_t *json, uint32_t layer,
                           uint32_t block, Error *error) {
    static const TensorRule rules[] = {
        PLAIN("norm", "input_layernorm.weight", N_ONE, N_TWO_DIMS),
        PLAIN("wq", "self_attn.q_proj.weight", N_Q, N_TWO_DIMS),
        PLAIN("wk", "self_attn.k_proj.weight", N_KV, N_TWO_DIMS),
        PLAIN("wv", "self_attn.v_proj.weight", N_V, N_TWO_DIMS),
        PLAIN("wo", "self_attn.o_proj.weight", N_DIM, N_OUT),
        PLAIN("ffn_norm", "pre_ff_layernorm.weight", N_ONE, N_DIM),
        {"w_gate", "feed_forward.gate_up_proj.weight", N_FFN, N_DIM, 0, {N_NONE}, GATE_UP},
        {"w_up", "feed_forward.gate_up_proj.weight", N_FFN, N_DIM, 0, {N_FFN}, GATE_UP},
        PLAIN("w_down", "feed_forward.down_proj.weight", N_DIM, N_FFN),
        {0}};
    static const TensorRule biases[] = {
        {"w_gate.bias", "feed_forward.gate_up_proj.bias", N_ONE, N_FFN, 0, {N_NONE}, GATE_UP},
        {"w_up.bias", "feed_forward.gate_up_proj.bias", N_ONE, N_FFN, 0, {N_FFN}, GATE_UP},
        PLAIN("w_down.bias", "feed_forward.down_proj.bias", N_ONE, N_DIM),
        {0}};
    char prefix[80], at[32];
    snprintf(prefix, sizeof prefix, "model.layers.%u.shared_transformer.", layer);
    snprintf(at, sizeof at, "blocks.%u.", block);
    Status status = apply_named(context, rules, prefix, at, error);
    if (status == STATUS_OK && json_flag(json, "add_bias_linear", false))
        status = apply_named(context, biases, prefix, at, error);
    return status;
}

/* The adapters of the use-th layer with a block, which are lists in the layer `first` that holds
 * the block. */
static Status zamba2_adapters(const RuleContext *context, const json_t *json, uint32_t layer,
                              uint32_t first, uint32_t use, Error *error) {
    static const struct {
        const char *list;
        TensorRule rules[4];
    } parts[] = {
        {"self_attn.linear_q_adapter_list",
         {PLAIN("q.in", "0.weight", N_ADAPTER, N_TWO_DIMS),
          PLAIN("q.out", "1.weight", N_Q, N_ADAPTER)}},
        {"self_attn.linear_k_adapter_list",
         {PLAIN("k.in", "0.weight", N_ADAPTER, N_TWO_DIMS),
          PLAIN("k.out", "1.weight", N_KV, N_ADAPTER)}},
        {"self_attn.linear_v_adapter_list",
         {PLAIN("v.in", "0.weight", N_ADAPTER, N_TWO_DIMS),
          PLAIN("v.out", "1.weight", N_V, N_ADAPTER)}},
        {"feed_forward.gate_up_proj_adapter_list",
         {PLAIN("ffn.in", "0.weight", N_ADAPTER, N_DIM),
          {"gate.out", "1.weight", N_FFN, N_ADAPTER, 0, {N_NONE}, GATE_UP},
          {"up.out", "1.weight", N_FFN, N_ADAPTER, 0, {N_FFN}, GATE_UP}}},
    };
    bool of_attention = json_flag(json, "use_shared_attention_adapter", false);
    Status status = STATUS_OK;
    for (size_t i = of_attention ? 0 : 3; i < 4 && status == STATUS_OK; i++) {
        char prefix[128], at[48];
        snprintf(prefix, sizeof prefix, "model.layers.%u.shared_transformer.%s.%u.", first,
                 parts[i].list, use);
        snprintf(at, sizeof at, "layers.%u.adapter.", layer);
        status = apply_named(context, parts[i].rules, prefix, at, error);
    }
    return status;
}

/* Ignores copies of a block and of its adapters that a file holds for its later uses, as
 * transformers does. */
static void ignore_copies(const RuleContext *context, uint32_t layer) {
    char prefix[80];
    size_t n = (size_t)snprintf(prefix, sizeof prefix, "%slayers.%u.shared_transformer.",
                                context->prefix ? context->prefix : "model.", layer);
    for (size_t i = 0; i < context->table->n; i++)
        if (strncmp(context->table->items[i].name, prefix, n) == 0)
            context->table->items[i].used = true;
}

static Status zamba2_more(const RuleContext *context, const json_t *json, Error *error) {
    const Config *c = &context->source->config;
    uint32_t first[CONFIG_MAX_LAYERS], use = 0;
    Status status = STATUS_OK;
    for (uint32_t l = 0; l < c->n_layers && status == STATUS_OK; l++) {
        char norm[96];
        bool is_shared = c->layer_kind[l] == LAYER_SHARED;
        snprintf(norm, sizeof norm, "model.layers.%u.%sinput_layernorm.weight", l,
                 is_shared ? "mamba_decoder." : "");
        if (!rules_find(context, norm))
            return error_set(error, "%s: tensor '%s' is missing", context->source->path, norm);
        if (!is_shared) continue;
        uint32_t block = use % c->shared_blocks;
        if (use < c->shared_blocks) {
            first[use] = l;
            status = zamba2_block(context, json, l, block, error);
        }
        if (status == STATUS_OK)
            status = zamba2_adapters(context, json, l, first[block], use, error);
        ignore_copies(context, l);
        use++;
    }
    return status;
}

/* ---- Mamba without attention ---- */

/* Layers without attention and without a feed-forward, whose sizes are then of no use. */
static void pure_preset(Config *config) {
    config->n_heads = config->n_kv_heads = config->head_dim = config->ffn_dim = 1;
    config->context = 1 << 20;
    config->position = POSITION_NONE;
}

static void set_kinds(Config *config, LayerKindNumber kind) {
    for (uint32_t l = 0; l < config->n_layers; l++) {
        config->layer_kind[l] = kind;
        config->without_ffn[l] = 1;
    }
}

static Status mamba_finish(const json_t *json, Config *config, Error *error) {
    set_kinds(config, LAYER_MAMBA);
    return read_mamba(json, "intermediate_size", "expand", "time_step_rank", config, error);
}

static Status falcon_mamba_more(const RuleContext *context, const json_t *json, Error *error) {
    (void)json;
    return family_add_mamba_norms(context, error);
}

static Status falcon_mamba_finish(const json_t *json, Config *config, Error *error) {
    if (family_refuse_zero(json, "mixer_rms_eps", error) != STATUS_OK) return STATUS_FAILED;
    return mamba_finish(json, config, error);
}

static Status mamba2_finish(const json_t *json, Config *config, Error *error) {
    uint32_t expand = 1;
    set_kinds(config, LAYER_MAMBA2);
    if (state_read_whole(json, "expand", 2, &expand, error) != STATUS_OK) return STATUS_FAILED;
    if ((uint64_t)expand * config->dim != (uint64_t)config->state_heads * config->state_value_dim)
        return error_set(
            error,
            "config.json: expand %u of hidden_size %u are not num_heads %u of head_dim "
            "%u",
            expand, config->dim, config->state_heads, config->state_value_dim);
    return state_no_step_limit(json, error);
}

const Family families_mamba[] = {
    {"jamba", jamba_config, jamba_tensors, .finish = jamba_finish, .biases = jamba_biases,
     .fixed = silu_fixed, .rope = {.none = true}, .bos_id = 1, .eos_id = 2},
    {"falcon_h1", falcon_h1_config, falcon_h1_tensors, .finish = falcon_h1_finish,
     .more = falcon_h1_more, .biases = falcon_h1_biases, .fixed = silu_fixed, .bos_id = 1,
     .eos_id = 2},
    {"zamba2", zamba2_config, zamba2_tensors, .finish = zamba2_finish, .more = zamba2_more,
     .biases = zamba2_biases, .tied = true, .bos_id = 1, .eos_id = 2},
    {"mamba", mamba_config, mamba_tensors, pure_preset, mamba_finish, .biases = pure_biases,
     .fixed = silu_fixed, .rope = {.none = true}, .tied = true, .bos_id = 0, .eos_id = 0},
    {"falcon_mamba", falcon_mamba_config, mamba_tensors, pure_preset, falcon_mamba_finish,
     .more = falcon_mamba_more, .biases = pure_biases, .fixed = silu_fixed, .rope = {.none = true},
     .tied = true, .bos_id = 0, .eos_id = 0},
    {"mamba2", mamba2_config, mamba2_tensors, pure_preset, mamba2_finish, .biases = pure_biases,
     .fixed = silu_fixed, .rope = {.none = true}, .bos_id = 0, .eos_id = 2},
    {0},
};
