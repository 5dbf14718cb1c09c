/* Gemma 3n and Gemma 4, whose stacks are in layers/altup.c and layers/gemma4.c. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "formats/family.h"
#include "formats/json.h"
#include "formats/normal_quantile.h"

/* ---- Keys ---- */

#define GEMMA_KEYS(kv_heads, positions)                                                            \
    KV_HEADS(kv_heads), HEAD_DIM(256), CONTEXT(positions), {"rms_norm_eps", "norm_eps", 1e-6}, {   \
        "hidden_activation", "activation", ACTIVATION_GELU_TANH                                    \
    }
#define PER_LAYER_KEYS                                                                             \
    {"hidden_size_per_layer_input", "per_layer_dim", 256}, {                                       \
        "vocab_size_per_layer_input", "per_layer_vocab", 262144                                    \
    }

static const ConfigRule gemma4_config[] = {
    SIZE_KEYS(262144, 2304, 9216, 30, 8), GEMMA_KEYS(4, 131072), PER_LAYER_KEYS, {0}};
static const ConfigRule unified_config[] = {
    SIZE_KEYS(262144, 2304, 9216, 30, 8), GEMMA_KEYS(4, 262144), {0}};

/* intermediate_size may be a list. */
static const ConfigRule gemma3n_config[] = {
    {"vocab_size", "vocab_size", 262400},
    {"hidden_size", "dim", 2048},
    {"num_hidden_layers", "n_layers", 35},
    {"num_attention_heads", "n_heads", 8},
    GEMMA_KEYS(2, 32768),
    PER_LAYER_KEYS,
    {"altup_num_inputs", "altup_streams", 4},
    {"altup_active_idx", "altup_active", 0},
    {"altup_correct_scale", "altup_scales", 1},
    {"laurel_rank", "laurel_rank", 64},
    {0},
};

/* The class reads RoPE's parameters from rope_parameters alone. */
static const FixedKey gemma4_fixed[] = {{"rope_scaling", "null"}, {"rope_theta", "null"}, {0}};

static const BiasRule attention_biases[] = {{QKVO, "attention_bias", false}, {0}};

/* ---- Tensors ---- */

#define LAYER(name) "model.layers.%u." name
#define OWN(to, from, rows, flags) PART(to, from, rows, N_DIM, RULE_OWN_KEYS | (flags), {0}, {0})
/* A layer that reads the keys of an earlier one has none, or has some that nothing reads. */
#define GEMMA_LAYER                                                                                \
    NORM("attention_norm", LAYER("input_layernorm")),                                              \
        LINEAR("wq", LAYER("self_attn.q_proj"), N_Q, N_DIM),                                       \
        OWN("wk", LAYER("self_attn.k_proj"), N_KV, 0),                                             \
        OWN("wv", LAYER("self_attn.v_proj"), N_V, RULE_OPTIONAL),                                  \
        LINEAR("wo", LAYER("self_attn.o_proj"), N_DIM, N_OUT),                                     \
        NORM_OF("q_norm", LAYER("self_attn.q_norm"), N_HEAD),                                      \
        {"k_norm", LAYER("self_attn.k_norm.weight"), N_ONE, N_HEAD, RULE_OWN_KEYS, {0}, {0}},      \
        NORM("post_attention_norm", LAYER("post_attention_layernorm")),                            \
        NORM("ffn_norm", LAYER("pre_feedforward_layernorm")), LLAMA_FFN,                           \
        NORM("post_ffn_norm", LAYER("post_feedforward_layernorm"))
#define PER_LAYER_GATE                                                                             \
    LINEAR("per_layer.gate", LAYER("per_layer_input_gate"), N_PER_LAYER, N_DIM),                   \
        LINEAR("per_layer.projection", LAYER("per_layer_projection"), N_DIM, N_PER_LAYER),         \
        NORM("per_layer.norm", LAYER("post_per_layer_input_norm"))
#define PER_LAYER_TABLE                                                                            \
    LINEAR("per_layer.embedding", "model.embed_tokens_per_layer", N_PER_LAYER_VOCAB,               \
           N_PER_LAYERS),                                                                          \
        LINEAR("per_layer.projection", "model.per_layer_model_projection", N_PER_LAYERS, N_DIM),   \
        NORM_OF("per_layer.norm", "model.per_layer_projection_norm", N_PER_LAYER)

static const TensorRule gemma4_tensors[] = {
    LLAMA_EMBEDDING, GEMMA_LAYER, OPTIONAL("output_scale", LAYER("layer_scalar"), N_ONE, N_ONE),
    LLAMA_END,       {0},
};
static const TensorRule per_layer_tensors[] = {PER_LAYER_TABLE, PER_LAYER_GATE, {0}};
#define STACKED(to, from, rows, cols, ...)                                                         \
    { to, LAYER(from), rows, cols, 0, __VA_ARGS__ }
static const TensorRule mixture_tensors[] = {
    LINEAR("router", LAYER("router.proj"), N_EXPERTS, N_DIM),
    STACKED("router_scale", "router.scale", N_ONE, N_DIM, {0}, {0}),
    STACKED("router.correction", "router.per_expert_scale", N_ONE, N_EXPERTS, {0}, {0}),
    STACKED("experts.%u.w_gate", "experts.gate_up_proj", N_EXPERT_FFN, N_DIM, {0},
            {N_EXPERT_FFN, N_EXPERT_FFN}),
    STACKED("experts.%u.w_up", "experts.gate_up_proj", N_EXPERT_FFN, N_DIM, {N_EXPERT_FFN},
            {N_EXPERT_FFN, N_EXPERT_FFN}),
    STACKED("experts.%u.w_down", "experts.down_proj", N_DIM, N_EXPERT_FFN, {0}, {0}),
    NORM("expert_norm", LAYER("pre_feedforward_layernorm_2")),
    NORM("post_expert_norm", LAYER("post_feedforward_layernorm_2")),
    NORM("post_dense_norm", LAYER("post_feedforward_layernorm_1")),
    {0},
};

static const TensorRule gemma3n_tensors[] = {
    LLAMA_EMBEDDING,
    PER_LAYER_TABLE,
    GEMMA_LAYER,
    PER_LAYER_GATE,
    LINEAR("altup.router", LAYER("altup.modality_router"), N_STREAMS, N_DIM),
    NORM("altup.router_norm", LAYER("altup.router_norm")),
    {"altup.predict",
     LAYER("altup.prediction_coefs.weight"),
     N_STREAM_PAIRS,
     N_STREAMS,
     RULE_VECTOR,
     {0},
     {0}},
    {"altup.correct",
     LAYER("altup.correction_coefs.weight"),
     N_STREAMS,
     N_STREAMS,
     RULE_VECTOR,
     {0},
     {0}},
    OPTIONAL("altup.scale", LAYER("altup.correct_output_scale"), N_ONE, N_DIM),
    LINEAR("laurel.left", LAYER("laurel.linear_left"), N_LAUREL, N_DIM),
    LINEAR("laurel.right", LAYER("laurel.linear_right"), N_DIM, N_LAUREL),
    NORM("laurel.norm", LAYER("laurel.post_laurel_norm")),
    LLAMA_END,
    {0},
};

/* ---- What a rule cannot describe ---- */

static void gemma_preset(Config *c) {
    c->norm_place = NORM_AROUND;
    c->qk_norm = QK_NORM_HEAD;
    c->value_norm = true;
    c->attention_scale = 1.0f;
    c->rope_theta = 1e6f;
}

static void gemma4_preset(Config *c) {
    gemma_preset(c);
    c->stack = STACK_GEMMA4;
}

static void gemma3n_preset(Config *c) {
    gemma_preset(c);
    c->stack = STACK_ALTUP;
}

/* Reads a whole number; `absent` where the key is absent or null. */
static Status read_uint(const json_t *json, const char *key, uint32_t absent, uint32_t *out,
                        Error *error) {
    const json_t *value = json_value(json, key);
    double number = value ? json_number_value(value) : absent;
    if ((value && !json_is_number(value)) || !(number >= 0 && number <= 1 << 30) ||
        number != floor(number))
        return error_set(error, "config.json: %s is not a whole number", key);
    *out = (uint32_t)number;
    return STATUS_OK;
}

/* Sets the windows and what follows from them: the second RoPE table. */
static Status read_windows(const json_t *json, Config *c, double absent, uint32_t pattern,
                           Error *error) {
    const json_t *window = json_object_get(json, "sliding_window");
    if (c->n_layers == 0) return error_set(error, "config.json: no layers");
    if (json_is_null(window)) return error_set(error, "config.json: sliding_window is null");
    if (family_windows(json, json_value(json, "layer_types"), c, absent, 0, pattern, error) !=
        STATUS_OK)
        return STATUS_FAILED;
    for (uint32_t l = 0; l < c->n_layers; l++) c->rope_table[l] = c->window[l] ? 1 : 0;
    return STATUS_OK;
}

/* The last num_kv_shared_layers layers read the keys of the last layer before them that has the
 * same type. */
static Status share_keys(const json_t *json, Config *c, uint32_t absent, Error *error) {
    uint32_t shared = 0;
    if (read_uint(json, "num_kv_shared_layers", absent, &shared, error) != STATUS_OK)
        return STATUS_FAILED;
    for (uint32_t l = c->n_layers - (shared < c->n_layers ? shared : 0); l < c->n_layers; l++) {
        uint32_t from = c->n_layers - shared;
        while (from > 0 && !c->window[from - 1] != !c->window[l]) from--;
        if (from == 0)
            return error_set(error,
                             "config.json: layer %u shares keys, but none of the %u layers that "
                             "have keys is of its type",
                             l, c->n_layers - shared);
        c->kv_distance[l] = l - (from - 1);
    }
    if (shared < c->n_layers || shared == 0) return STATUS_OK;
    return error_set(error, "config.json: num_kv_shared_layers is %u of %u layers", shared,
                     c->n_layers);
}

static Status gemma_scales(const json_t *json, Config *c, double cap, Error *error) {
    const json_t *given = json_object_get(json, "final_logit_softcapping");
    c->embedding_scale = (float)sqrt((double)c->dim);
    c->logit_softcap = (float)(given ? json_number_value(given) : cap);
    return family_refuse_zero(json, "final_logit_softcapping", error);
}

/* ---- Gemma 4 ---- */

/* Sets the heads of one layer from `heads`, an object with head_dim and num_key_value_heads. */
static Status read_layer_heads(const json_t *heads, Config *c, uint32_t l, Error *error) {
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)heads, key, value) {
        if (strcmp(key, "head_dim") != 0 && strcmp(key, "num_key_value_heads") != 0)
            return error_set(error,
                             "config.json: per_layer_config of layer %u has '%.40s', which this "
                             "program cannot compute",
                             l, key);
    }
    if (read_uint(heads, "head_dim", 0, &c->layer_head_dim[l], error) != STATUS_OK)
        return STATUS_FAILED;
    return read_uint(heads, "num_key_value_heads", 0, &c->layer_n_kv_heads[l], error);
}

static Status read_layer_config(const json_t *layers, Config *c, Error *error) {
    const char *key;
    json_t *heads;
    if (!json_is_object(layers))
        return error_set(error, "config.json: per_layer_config is not an object");
    json_object_foreach((json_t *)layers, key, heads) {
        char *end;
        unsigned long l = strtoul(key, &end, 10);
        if (end == key || *end || l >= c->n_layers || !json_is_object(heads))
            return error_set(error, "config.json: per_layer_config has no layer '%.40s'", key);
        if (read_layer_heads(heads, c, (uint32_t)l, error) != STATUS_OK) return STATUS_FAILED;
    }
    return STATUS_OK;
}

/* Layers without a window have heads of another width and, where keys are values, another number of
 * key/value heads. All of them must have the same width, as they share a RoPE table. */
static Status read_global_heads(const json_t *json, Config *c, Error *error) {
    const json_t *layers = json_value(json, "per_layer_config");
    bool keys_are_values = json_flag(json, "attention_k_eq_v", false);
    uint32_t width = 0, kv_heads = 0;
    if (layers && read_layer_config(layers, c, error) != STATUS_OK) return STATUS_FAILED;
    if (json_is_null(json_object_get(json, "global_head_dim")))
        return error_set(error, "config.json: global_head_dim is null");
    if (read_uint(json, "global_head_dim", 512, &width, error) != STATUS_OK ||
        read_uint(json, "num_global_key_value_heads", 0, &kv_heads, error) != STATUS_OK)
        return STATUS_FAILED;
    for (uint32_t l = 0; !layers && l < c->n_layers; l++) {
        if (c->window[l]) continue;
        c->layer_head_dim[l] = width;
        if (keys_are_values) c->layer_n_kv_heads[l] = kv_heads;
    }
    uint32_t *const rotary[] = {&c->rotary_dim, &c->rope_local_rotary_dim};
    for (uint32_t l = 0; l < c->n_layers; l++) {
        uint32_t head_dim = config_heads(c, l).head_dim, *of_table = rotary[c->rope_table[l]];
        if (*of_table && *of_table != head_dim)
            return error_set(error, "config.json: layer %u's heads have %u elements, others %u", l,
                             head_dim, *of_table);
        *of_table = head_dim;
    }
    if (c->rotary_dim == 0) c->rotary_dim = c->head_dim;
    return STATUS_OK;
}

static Status read_experts(const json_t *json, Config *c, Error *error) {
    if (!json_flag(json, "enable_moe_block", false)) return STATUS_OK;
    c->router = ROUTER_SCALED;
    if (read_uint(json, "num_experts", 0, &c->n_experts, error) != STATUS_OK ||
        read_uint(json, "top_k_experts", 0, &c->n_experts_used, error) != STATUS_OK ||
        read_uint(json, "moe_intermediate_size", 0, &c->expert_ffn_dim, error) != STATUS_OK)
        return STATUS_FAILED;
    if (c->n_experts > 0) return STATUS_OK;
    return error_set(error, "config.json: enable_moe_block is true, but num_experts is missing");
}

static Status configure_gemma4(const json_t *json, Config *c, double window, Error *error) {
    const char *both_ways = json_text(json, "use_bidirectional_attention");
    if (both_ways && strcmp(both_ways, "vision") != 0)
        return error_set(
            error, "config.json: use_bidirectional_attention is '%.40s': not a decoder", both_ways);
    if (read_windows(json, c, window, 6, error) != STATUS_OK) return STATUS_FAILED;
    /* The class makes the last layer a full one, whatever layer_types says. */
    c->window[c->n_layers - 1] = c->rope_table[c->n_layers - 1] = 0;
    if (share_keys(json, c, 0, error) != STATUS_OK ||
        read_global_heads(json, c, error) != STATUS_OK ||
        gemma_scales(json, c, 0, error) != STATUS_OK)
        return STATUS_FAILED;
    bool doubles = json_flag(json, "use_double_wide_mlp", false);
    for (uint32_t l = 0; doubles && l < c->n_layers; l++)
        if (c->kv_distance[l] > 0) c->layer_ffn_dim[l] = 2 * c->ffn_dim;
    return STATUS_OK;
}

/* The model of 12B: plain layers, with a window of another width where the key is absent. */
static Status unified_finish(const json_t *json, Config *c, Error *error) {
    return configure_gemma4(json, c, 1024, error);
}

static Status gemma4_finish(const json_t *json, Config *c, Error *error) {
    if (configure_gemma4(json, c, 512, error) != STATUS_OK ||
        read_experts(json, c, error) != STATUS_OK)
        return STATUS_FAILED;
    if (c->per_layer_dim == 0 || c->per_layer_vocab >= c->vocab_size) return STATUS_OK;
    return error_set(error, "config.json: vocab_size_per_layer_input is %u, but vocab_size %u",
                     c->per_layer_vocab, c->vocab_size);
}

/* Checks that the layers without v_proj are those whose keys are values. */
static Status check_values(const RuleContext *context, const json_t *json, Error *error) {
    Source *source = context->source;
    const Config *c = &source->config;
    bool keys_are_values = json_flag(json, "attention_k_eq_v", false);
    for (uint32_t l = 0; l < c->n_layers; l++) {
        char name[48];
        bool is_found = false;
        snprintf(name, sizeof name, "layers.%u.wv", l);
        for (size_t i = 0; i < source->n_tensors && !is_found; i++)
            is_found = strcmp(source->tensors[i].name, name) == 0;
        bool has_values = c->kv_distance[l] == 0 && !(keys_are_values && !c->window[l]);
        if (is_found != has_values)
            return error_set(error,
                             "%s: layer %u has %s v_proj, which attention_k_eq_v and "
                             "layer_types contradict",
                             source->path, l, is_found ? "a" : "no");
    }
    return STATUS_OK;
}

static Status gemma4_more(const RuleContext *context, const json_t *json, Error *error) {
    const Config *c = &context->source->config;
    if (c->per_layer_dim > 0 && rules_apply(context, per_layer_tensors, error) != STATUS_OK)
        return STATUS_FAILED;
    if (c->n_experts > 0 && rules_apply(context, mixture_tensors, error) != STATUS_OK)
        return STATUS_FAILED;
    return check_values(context, json, error);
}

/* ---- Gemma 3n ---- */

/* intermediate_size is a number or a list of one for each layer. */
static Status read_widths(const json_t *json, Config *c, Error *error) {
    const json_t *list = json_value(json, "intermediate_size");
    if (!json_is_array(list))
        return read_uint(json, "intermediate_size", 16384, &c->ffn_dim, error);
    if (json_array_size(list) != c->n_layers)
        return error_set(error, "config.json: intermediate_size is not a list of %u layers",
                         c->n_layers);
    for (uint32_t l = 0; l < c->n_layers; l++) {
        double width = json_number_value(json_array_get(list, l));
        if (!(width >= 1 && width <= 1 << 20))
            return error_set(error, "config.json: intermediate_size of layer %u is %g", l, width);
        c->layer_ffn_dim[l] = (uint32_t)width;
    }
    c->ffn_dim = c->layer_ffn_dim[0];
    return STATUS_OK;
}

static Status gemma3n_finish(const json_t *json, Config *c, Error *error) {
    if (read_windows(json, c, 512, 5, error) != STATUS_OK ||
        share_keys(json, c, 15, error) != STATUS_OK)
        return STATUS_FAILED;
    if (read_widths(json, c, error) != STATUS_OK) return STATUS_FAILED;
    return gemma_scales(json, c, 30, error);
}

/* Adds each layer's gate_cutoff from the part of its gates that activation_sparsity_pattern sets to
 * 0; without it the first 10 of more than 10 layers cut 95%. */
static Status add_cutoffs(const RuleContext *context, const json_t *json, Error *error) {
    const Config *c = &context->source->config;
    const json_t *list = json_value(json, "activation_sparsity_pattern");
    if (list && json_array_size(list) != c->n_layers)
        return error_set(error,
                         "config.json: activation_sparsity_pattern is not a list of %u layers",
                         c->n_layers);
    for (uint32_t l = 0; l < c->n_layers; l++) {
        double part = list                         ? json_number_value(json_array_get(list, l))
                      : c->n_layers > 10 && l < 10 ? 0.95
                                                   : 0.0;
        if (!(part < 1.0))
            return error_set(error, "config.json: activation_sparsity_pattern of layer %u is %g", l,
                             part);
        if (!(part > 0.0)) continue;
        char name[48];
        float *cutoff = malloc(sizeof *cutoff);
        if (cutoff) *cutoff = (float)normal_quantile((double)(float)part);
        snprintf(name, sizeof name, "layers.%u.gate_cutoff", l);
        if (source_add_values(context->source, name, 1, 1, cutoff, error) != STATUS_OK)
            return STATUS_FAILED;
    }
    return STATUS_OK;
}

static Status gemma3n_more(const RuleContext *context, const json_t *json, Error *error) {
    for (uint32_t i = 1; i < context->source->config.altup_streams; i++) {
        char in[64], out[64], to_in[32], to_out[32];
        snprintf(in, sizeof in, "model.altup_projections.%u.weight", i - 1);
        snprintf(out, sizeof out, "model.altup_unembed_projections.%u.weight", i - 1);
        snprintf(to_in, sizeof to_in, "altup.in.%u", i);
        snprintf(to_out, sizeof to_out, "altup.out.%u", i);
        const TensorRule rules[] = {
            {to_in, in, N_DIM, N_DIM, 0, {0}, {0}}, {to_out, out, N_DIM, N_DIM, 0, {0}, {0}}, {0}};
        if (rules_apply(context, rules, error) != STATUS_OK) return STATUS_FAILED;
    }
    return add_cutoffs(context, json, error);
}

#define GLOBAL_ROPE                                                                                \
    "{\"rope_type\": \"proportional\", \"partial_rotary_factor\": 0.25, \"rope_theta\": 1000000}"

const Family families_gemma[] = {
    {"gemma3n_text", gemma3n_config, gemma3n_tensors, gemma3n_preset, gemma3n_finish, gemma3n_more,
     .biases = attention_biases,
     .rope = {.local_theta = 10000, .local_theta_key = "rope_local_base_freq"}, .tied = true,
     .bos_id = 2, .eos_id = 1},
    {"gemma4_text", gemma4_config, gemma4_tensors, gemma4_preset, gemma4_finish, gemma4_more,
     .biases = attention_biases, .fixed = gemma4_fixed,
     .rope = {.local_theta = 10000,
              .local_theta_key = "rope_local_base_freq",
              .absent = GLOBAL_ROPE},
     .has_layer_config = true, .tied = true, .bos_id = 2, .eos_id = 1},
    {"gemma4_unified_text", unified_config, gemma4_tensors, gemma4_preset, unified_finish,
     check_values, .biases = attention_biases, .fixed = gemma4_fixed,
     .rope = {.local_theta = 10000,
              .local_theta_key = "rope_local_base_freq",
              .absent = GLOBAL_ROPE},
     .has_layer_config = true, .tied = true, .bos_id = 2, .eos_id = 1},
    {0},
};
