/* The text half of Llama 4: chunks of positions, layers without RoPE, a shared expert. */
#include "families/shared.h"

/* Queries of layers without RoPE grow with the position (attn_temperature_tuning; an integer in
 * the first files). */
static Status llama4_temperature(const json_t *json, Config *config, Error *error) {
    const json_t *tunes = json_value(json, "attn_temperature_tuning");
    if (tunes && !json_is_true(tunes) && json_number_value(tunes) == 0.0) return STATUS_OK;
    double floor_scale = json_number(json, "floor_scale", 8192);
    if (!(floor_scale >= 1 && floor_scale <= 1 << 28 && floor_scale == floor(floor_scale)))
        return error_set(error, "config.json: floor_scale is %g", floor_scale);
    config->query_scaling = (float)json_number(json, "attn_scale", 0.1);
    config->query_scaling_floor = (uint32_t)floor_scale;
    config->query_scaling_unrotated = true;
    return STATUS_OK;
}

/* Sets each layer's chunk from layer_types; without it the layers with RoPE have chunks, unless
 * their size is null. */
static Status llama4_chunks(const json_t *json, Config *config, Error *error) {
    const json_t *types = json_value(json, "layer_types");
    bool is_null = json_is_null(json_object_get(json, "attention_chunk_size"));
    double chunk = is_null ? 0.0 : json_number(json, "attention_chunk_size", 8192);
    if (types && json_array_size(types) < config->n_layers)
        return error_set(error, "config.json: layer_types is not a list of %u layers",
                         config->n_layers);
    for (uint32_t i = 0; i < config->n_layers; i++) {
        bool is_chunked = config->rope_table[i] == 0 && !is_null;
        const char *type = json_string_value(json_array_get(types, i));
        if (types) {
            is_chunked = type && strcmp(type, "chunked_attention") == 0;
            if (!is_chunked && (!type || strcmp(type, "full_attention") != 0))
                return error_set(error, "config.json: layer type '%.40s' is not known",
                                 type ? type : "(no text)");
        }
        if (is_chunked && !(chunk >= 1 && chunk <= 1 << 28 && chunk == floor(chunk)))
            return error_set(error, "config.json: attention_chunk_size is %g", chunk);
        config->chunk[i] = is_chunked ? (uint32_t)chunk : 0;
    }
    return STATUS_OK;
}

static Status llama4_finish(const json_t *json, Config *config, Error *error) {
    if (llama4_temperature(json, config, error) != STATUS_OK) return STATUS_FAILED;
    return llama4_chunks(json, config, error);
}

/* No key gives Llama 4's chunks, its layers without RoPE and how their queries grow. A window of 0
 * means that there are none of them. */
static Status gguf_llama4_finish(const GgufModel *m, Config *c) {
    uint32_t window = 1;
    gguf_model_uint(m, "attention.sliding_window", &window);
    if (window == 0) return STATUS_OK;
    c->query_scaling = 0.1f;
    c->query_scaling_floor = 8192;
    c->query_scaling_unrotated = true;
    for (uint32_t i = 0; i < c->n_layers && i < CONFIG_MAX_LAYERS; i++) {
        c->rope_table[i] = (i + 1) % 4 ? 0 : 2;
        c->chunk[i] = (i + 1) % 4 ? 8192 : 0;
    }
    return STATUS_OK;
}

const FamilyHook families_llama4[] = {
    {"llama4", .finish = llama4_finish, .gguf_finish = gguf_llama4_finish},
    {0},
};
