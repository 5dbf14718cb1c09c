/* ZAYA: compressed convolutional attention, a router with layers of its own, an expert that skips,
 * and sums that weigh both parts by element. */
#include "families/shared.h"

#define CCA_AT ".self_attn.qkv_proj."

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

const FamilyHook families_zaya[] = {
    {"zaya", .finish = zaya_finish, .more = zaya_more},
    {0},
};
