/* Cohere's mixtures: Command R7B's layers with experts and dense layers before them. */
#include "families/shared.h"

/* Whether layer i has one feed-forward instead of experts. */
static bool is_dense(const json_t *json, uint32_t i, double n_first) {
    const json_t *types = json_value(json, "mlp_layer_types");
    const char *type = json_string_value(json_array_get(types, i));
    return types ? type && strcmp(type, "dense") == 0 : i < n_first;
}

/* Sets the windows and which layers rotate. Every n-th layer has no window and no RoPE, counted
 * anew after the first dense ones, which have a pattern of their own
 * (prefix_dense_sliding_window_pattern): where it is 1, dense layers see everything and rotate all
 * the same. */
static Status cohere2_moe_windows(const json_t *json, Config *config, Error *error) {
    double n_dense = json_number(json, "first_k_dense_replace", 0);
    double dense_every = json_number(json, "prefix_dense_sliding_window_pattern", 1);
    const json_t *types = json_value(json, "layer_types");
    uint32_t every;
    if (family_pattern(json, 4, &every, error) != STATUS_OK ||
        family_windows(json, types, config, 4096, 0, 0, error) != STATUS_OK)
        return STATUS_FAILED;
    if (!(dense_every >= 1 && dense_every < 1e6))
        return error_set(error, "config.json: prefix_dense_sliding_window_pattern is %g",
                         dense_every);
    if (!(n_dense >= 0 && n_dense <= config->n_layers))
        return error_set(error, "config.json: first_k_dense_replace is %g", n_dense);
    uint32_t first = (uint32_t)n_dense;
    for (uint32_t i = 0; i < config->n_layers; i++) {
        uint32_t place = i < first ? i + 1 : i + 1 - first;
        uint32_t pattern = i < first ? (uint32_t)dense_every : every;
        if (!types && place % pattern == 0) config->window[i] = 0;
        bool rotated = config->window[i] || (dense_every == 1 && is_dense(json, i, n_dense));
        config->rope_table[i] = rotated ? 0 : 2;
    }
    return STATUS_OK;
}

/* Sets the router. A softmax over the chosen experts equals one over all experts whose routing
 * weights are normalized. */
static Status cohere2_moe_router(const json_t *json, Config *config, Error *error) {
    const char *kind = json_text(json, "expert_selection_fn");
    if (kind && strcmp(kind, "softmax") != 0 && strcmp(kind, "sigmoid") != 0)
        return error_set(error, "config.json: expert_selection_fn '%.40s' is not known", kind);
    bool is_sigmoid = kind && strcmp(kind, "sigmoid") == 0;
    config->router.kind = is_sigmoid ? ROUTER_SIGMOID_SCORES : ROUTER_SOFTMAX_SCORES;
    config->router.normalize = !is_sigmoid || json_switch(json, "norm_topk_prob", true);
    return STATUS_OK;
}

/* Reads the kind of norm, the width of dense layers, the router and how the shared expert's output
 * is combined with the others', and sets the windows. */
static Status cohere2_moe_finish(const json_t *json, Config *config, Error *error) {
    const char *strategy = json_text(json, "shared_expert_combination_strategy");
    double eps = json_number(json, "rms_norm_eps", -1);
    double width = json_number(json, "prefix_dense_intermediate_size", config->ffn_dim);
    if (strategy && strcmp(strategy, "average") != 0 && strcmp(strategy, "sum") != 0)
        return error_set(error,
                         "config.json: shared_expert_combination_strategy '%.40s' is not known",
                         strategy);
    if (eps >= 0) {
        config->norm = NORM_RMS;
        config->norm_eps = (float)eps;
    }
    if (!(width >= 1 && width <= 1 << 20 && width == floor(width)))
        return error_set(error, "config.json: prefix_dense_intermediate_size is %g", width);
    config->ffn_dim = (uint32_t)width;
    if (family_shared_width(json, "num_shared_experts", 0, config, error) != STATUS_OK ||
        cohere2_moe_router(json, config, error) != STATUS_OK)
        return STATUS_FAILED;
    /* The average of the chosen experts' output and the shared one's. */
    if (config->experts.shared_ffn_dim > 0 && (!strategy || strcmp(strategy, "average") == 0))
        config->router.scale = config->experts.shared_scale = 0.5f;
    return cohere2_moe_windows(json, config, error);
}

/* The converter takes only models that average the chosen experts with the shared one. */
static Status gguf_cohere2moe_finish(const GgufModel *m, Config *c) {
    (void)m;
    if (c->experts.shared_ffn_dim > 0) c->router.scale = c->experts.shared_scale = 0.5f;
    return STATUS_OK;
}

const FamilyHook families_cohere2_moe[] = {
    {"cohere2_moe", .finish = cohere2_moe_finish},
    {"cohere2moe", .gguf_finish = gguf_cohere2moe_finish},
    {0},
};
