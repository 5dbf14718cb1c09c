/* ZAYA: compressed convolutional attention, a router with layers of its own, an expert that skips,
 * and sums that weigh both parts by element. */
#include "families/shared.h"

static FamilyFinish zaya_finish;
static FamilyMore zaya_more;

#define CCA_AT ".self_attn.qkv_proj."
#define ROUTER_AT ".mlp.gate."

/* How a block's output is added. */
#define SCALED_SUM(to, at)                                                                         \
    VECTOR(to ".input_scale", at ".residual_scale", "dim"),                                        \
        VECTOR(to ".input_bias", at ".residual_bias", "dim"),                                      \
        VECTOR(to ".output_scale", at ".hidden_states_scale", "dim"),                              \
        VECTOR(to ".output_bias", at ".hidden_states_bias", "dim")

const Family families_zaya[] = {
    {
        .model_type = "zaya",
        .set = SET({"rope_theta", 5000000}, {"stack", STACK_SCALED_SUMS},
                   {"router", ROUTER_SOFTMAX_SCORES}, {"router_scale", 1}, {"n_experts_used", 1},
                   {"zero_experts_skip", 1}),
        .keys =
            KEYS(SIZES_WITHOUT_FFN(262272, 2048, 40, 8), {"moe_intermediate_size", "ffn_dim", 2048},
                 KV_HEADS(2), HEAD_DIM(128), CONTEXT(131072), {"rms_norm_eps", "norm_eps", 1e-5},
                 {"hidden_act", "activation", ACTIVATION_SILU},
                 {"moe_intermediate_size", "expert_ffn_dim", 2048},
                 {"num_experts", "n_experts", 16}, {"router_hidden_size", "router_dim", 256},
                 {"cca_time0", "state_kernel", 2}, {"cca_time1", "state_mix_kernel", 2}),
        .fixed = FIXED({"num_experts_per_tok", "1"}),
        .biases = BIASES({QKVO "wv_now wv_before ", "attention_bias", false},
                         {" output ", "lm_head_bias", false},
                         {" router.in router.hidden_0 router.hidden_1 ", NULL, true}),
        .tensors =
            (const TensorRule[]){
                EMBEDDING("model.embed_tokens"),
                VECTOR("embedding_scale", "model.input_hidden_states_scale", "dim"),
                VECTOR("embedding_bias", "model.input_hidden_states_bias", "dim"),
                LLAMA_NORMS,
                LINEAR("wq", CCA_AT "q_proj", "n_heads * head_dim", "dim"),
                LINEAR("wk", CCA_AT "k_proj", "n_kv_heads * head_dim", "dim"),
                LINEAR("wv_now", CCA_AT "v_proj_current", "half_values", "dim"),
                LINEAR("wv_before", CCA_AT "v_proj_delayed", "half_values", "dim"),
                LINEAR("wo", ".self_attn.o_proj", "dim", "n_heads * head_dim"),
                TABLE("cca.taps", CCA_AT "conv_qk_depthwise.weight", "state_kernel",
                      "n_heads * head_dim + n_kv_heads * head_dim", .turned = TURNED_ALWAYS),
                VECTOR("cca.key_scale", ".self_attn.qk_norm.temp", "n_kv_heads"),
                SCALED_SUM("attention_sum", ".post_attention_residual_scale"),
                LINEAR("router.in", ROUTER_AT "down_proj", "router_dim", "dim"),
                VECTOR("router.carry", ROUTER_AT "router_states_scale", "router_dim",
                       .optional = true),
                NORM("router.norm", ROUTER_AT "router_mlp.norm", "router_dim"),
                LINEAR("router.hidden_0", ROUTER_AT "router_mlp.fc1", "router_dim", "router_dim"),
                LINEAR("router.hidden_1", ROUTER_AT "router_mlp.fc2", "router_dim", "router_dim"),
                MATRIX("router", ROUTER_AT "router_mlp.out_proj.weight", "n_experts", "router_dim"),
                VECTOR("router.correction", ROUTER_AT "balancing_biases", "n_experts"),
                GATE_UP_EXPERTS(".mlp.experts."),
                SCALED_SUM("ffn_sum", ".post_mlp_residual_scale"),
                LLAMA_END,
                {0},
            },
        .tied = true,
        .rope = {.theta = "rope_parameters.rope_theta",
                 .part = "rope_parameters.partial_rotary_factor",
                 .part_absent = 1,
                 .absent = "{\"partial_rotary_factor\": 0.5}",
                 .local_theta = 10000,
                 .local_theta_key = "rope_parameters.rope_theta",
                 .hybrid = true},
        .bos_id = 2,
        .eos_id = 106,
        .finish = zaya_finish,
        .more = zaya_more,
    },
    {0},
};

/* Sets the window and the RoPE table of each layer by layer_types, and counts the expert that
 * skips, which files do not count. */
static Status zaya_finish(const json_t *json, Config *c, Error *error) {
    const json_t *types = json_value(json, "layer_types");
    double window = json_number(json, "sliding_window", 0);
    c->experts.count++; /* the last one skips */
    c->experts.identity = 1;
    if (types && json_array_size(types) < c->n_layers)
        return error_set(error, "config.json: layer_types is not a list of %u layers", c->n_layers);
    for (uint32_t l = 0; l < c->n_layers; l++) {
        const char *type = types ? json_string_value(json_array_get(types, l)) : "hybrid";
        bool slides = type && strcmp(type, "hybrid_sliding") == 0;
        c->layer_kind[l] = LAYER_CCA;
        if (!slides && (!type || strcmp(type, "hybrid") != 0))
            return error_set(error, "config.json: layer type '%.40s' is not known",
                             type ? type : "(no text)");
        if (!slides) continue;
        if (!(window >= 1 && window <= 1 << 28 && window == floor(window)))
            return error_set(error, "config.json: sliding_window is %g", window);
        c->window[l] = (uint32_t)window;
        c->rope_table[l] = 1;
    }
    return STATUS_OK;
}

/* The matrix of each head that mixes its elements over some positions, and what is added to its
 * outputs: its bias, and what it makes of the bias of the convolution before it. */
static Status add_mix(const RuleContext *context, uint32_t l, Error *error) {
    static const TensorRule mix[] = {MATRIX("cca.mix.%u", CCA_AT "conv_qk_grouped.weight",
                                            "head_dim", "head_dim * state_mix_kernel",
                                            .each_head = true, .parts = "n_heads + n_kv_heads"),
                                     {0}};
    const Config *c = &context->source->config;
    const HeadShape h = config_heads(c, l);
    size_t dim = h.head_dim, taps = c->state.mix_kernel, width = dim * taps;
    size_t channels = ((size_t)h.n_heads + h.n_kv_heads) * dim;
    char name[128];
    float *weight = NULL, *before = NULL, *bias = NULL;
    snprintf(name, sizeof name, FROM_LAYER "self_attn.qkv_proj.conv_qk_grouped.weight", l);
    RawTensor *raw = rules_find(context, name);
    /* Stored as [channels][elements of the head][taps]: columns side by side. */
    if (raw && raw->n_dims == 3 && raw->dims[1] == dim && raw->dims[2] == taps) {
        raw->n_dims = 2;
        raw->dims[1] = width;
    }
    Status status = rules_read(context, name, channels, width, &weight, error);
    snprintf(name, sizeof name, FROM_LAYER "self_attn.qkv_proj.conv_qk_depthwise.bias", l);
    if (status == STATUS_OK) status = rules_read(context, name, 1, channels, &before, error);
    snprintf(name, sizeof name, FROM_LAYER "self_attn.qkv_proj.conv_qk_grouped.bias", l);
    if (status == STATUS_OK) status = rules_read(context, name, 1, channels, &bias, error);
    for (size_t i = 0; status == STATUS_OK && i < channels; i++) {
        double sum = bias[i];
        for (size_t k = 0; k < width; k++)
            sum += (double)weight[i * width + k] * before[i / dim * dim + k / taps];
        bias[i] = (float)sum;
    }
    free(weight);
    free(before);
    if (status != STATUS_OK) {
        free(bias);
        return status;
    }
    snprintf(name, sizeof name, "layers.%u.cca.mix.bias", l);
    status = source_add_values(context->source, name, 1, channels, bias, error);
    return status == STATUS_OK ? rules_apply_to_layer(context, mix, l, error) : status;
}

static Status zaya_more(const RuleContext *context, const json_t *json, Error *error) {
    (void)json;
    for (uint32_t l = 0; l < context->source->config.n_layers; l++)
        if (add_mix(context, l, error) != STATUS_OK) return STATUS_FAILED;
    return STATUS_OK;
}
