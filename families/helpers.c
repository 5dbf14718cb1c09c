#include "families/helpers.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "json/json_object.h"

/* ---- Windows and positions ---- */

Status family_windows(const json_t *json, const json_t *types, Config *config, double absent,
                      uint32_t first, uint32_t pattern, Error *error) {
    const json_t *window = json_object_get(json, "sliding_window");
    bool is_none = window ? json_is_null(window) : absent == 0.0;
    double value = is_none ? 0.0 : window ? json_number_value(window) : absent;
    if (json_is_null(types)) types = NULL;
    if (window && !is_none && !json_is_number(window))
        return error_set(error, "config.json: sliding_window is not a number");
    if (value < 0 || value > (1 << 28))
        return error_set(error, "config.json: sliding_window is %g", value);
    if (types && json_array_size(types) < config->n_layers)
        return error_set(error, "config.json: layer_types is not a list of %u layers",
                         config->n_layers);
    for (uint32_t i = 0; i < config->n_layers; i++) {
        bool slides = i >= first && (pattern == 0 || (i + 1) % pattern != 0);
        if (types) {
            const char *type = json_string_value(json_array_get(types, i));
            slides = type && strcmp(type, "sliding_attention") == 0;
            if (!slides && (!type || strcmp(type, "full_attention") != 0))
                return error_set(error, "config.json: layer type '%.40s' is not known",
                                 type ? type : "(no text)");
        }
        if (slides && !is_none && value < 1)
            return error_set(error, "config.json: sliding_window is %g", value);
        config->window[i] = slides ? (uint32_t)value : 0;
    }
    return STATUS_OK;
}

Status family_no_windows(const json_t *json, Error *error) {
    const json_t *types = json_value(json, "layer_types"), *type;
    size_t i;
    json_array_foreach((json_t *)types, i, type) {
        const char *text = json_string_value(type);
        if (!text || strcmp(text, "full_attention") != 0)
            return error_set(error,
                             "config.json: layer_types has '%.40s' although "
                             "use_sliding_window is false",
                             text ? text : "(no text)");
    }
    return STATUS_OK;
}

Status family_pattern(const json_t *json, uint32_t absent, uint32_t *pattern, Error *error) {
    double every = json_number(json, "sliding_window_pattern", absent);
    if (!(every >= 1 && every < 1e6))
        return error_set(error, "config.json: sliding_window_pattern is %g", every);
    *pattern = (uint32_t)every;
    return STATUS_OK;
}

void family_local_tables(const json_t *types, Config *config) {
    for (uint32_t i = 0; i < config->n_layers; i++) {
        const char *type = json_string_value(json_array_get(types, i));
        config->rope_table[i] = type && strcmp(type, "sliding_attention") == 0 ? 1 : 0;
    }
}

Status family_no_rope_layers(const json_t *json, Config *config, Error *error) {
    const json_t *list = json_value(json, "no_rope_layers");
    double interval = json_number(json, "no_rope_layer_interval", 4);
    if (json_is_array(list) && json_array_size(list) == 0) list = NULL;
    if (!(interval >= 1 && interval <= 1e6))
        return error_set(error, "config.json: no_rope_layer_interval is %g", interval);
    if (list && json_array_size(list) < config->n_layers)
        return error_set(error, "config.json: no_rope_layers is not a list of %u layers",
                         config->n_layers);
    for (uint32_t i = 0; i < config->n_layers; i++) {
        bool rotated = list ? json_number_value(json_array_get(list, i)) != 0.0
                            : (i + 1) % (uint32_t)interval != 0;
        config->rope_table[i] = rotated ? 0 : 2;
    }
    return STATUS_OK;
}

Status family_add_ones(const RuleContext *c, const char *name, size_t n, Error *error) {
    float *ones = malloc(n * sizeof *ones);
    for (size_t i = 0; ones && i < n; i++) ones[i] = 1.0f;
    return source_add_values(c->source, name, 1, n, ones, error);
}

Status family_add_slopes(const RuleContext *context, uint32_t layer, Error *error) {
    const Config *c = &context->source->config;
    float *slope = malloc(c->state.n_heads * sizeof *slope + 1);
    double base = 1.0 / pow(2.0, 8.0 / c->state.n_heads);
    float factor = (float)(1.0 - layer / (c->n_layers - 1 + 1e-5) + 1e-5);
    char name[MODELFILE_NAME_BYTES];
    for (uint32_t i = 0; slope && i < c->state.n_heads; i++)
        slope[i] = (float)pow(base, i + 1.0) * factor;
    snprintf(name, sizeof name, "layers.%u.lightning.slope", layer);
    return source_add_values(context->source, name, 1, c->state.n_heads, slope, error);
}

Status family_add_mamba_norms(const RuleContext *context, Error *error) {
    const Config *c = &context->source->config;
    Status status = STATUS_OK;
    char name[64];
    for (uint32_t l = 0; l < c->n_layers && status == STATUS_OK; l++) {
        const struct {
            const char *name;
            uint32_t n;
        } norms[] = {{"rank_norm", c->state.dt_rank},
                     {"b_norm", c->state.key_dim},
                     {"c_norm", c->state.key_dim}};
        for (size_t i = 0; i < 3 && status == STATUS_OK; i++) {
            snprintf(name, sizeof name, "layers.%u.mamba.%s", l, norms[i].name);
            status = family_add_ones(context, name, norms[i].n, error);
        }
    }
    return status;
}

Status family_shared_width(const json_t *json, const char *key, double absent, Config *config,
                           Error *error) {
    const json_t *value = json_first(json, key);
    double n = json_is_number(value) ? json_number_value(value) : absent;
    double width = n * config->experts.ffn_dim;
    if (!(n >= 0 && n == floor(n) && width <= 1 << 20))
        return error_set(error, "config.json: %s is %g", key, n);
    config->experts.shared_ffn_dim = (uint32_t)width;
    return STATUS_OK;
}

Status family_indexer_type(const json_t *types, const char *key, uint32_t i, bool *own,
                           Error *error) {
    const char *letters = json_string_value(types);
    const char *name = json_string_value(json_array_get(types, i));
    char letter[2] = {letters && i < strlen(letters) ? letters[i] : '\0', '\0'};
    if (letters) name = letter;
    *own = name && strcmp(name, letters ? "F" : "full") == 0;
    if (!*own && (!name || strcmp(name, letters ? "S" : "shared") != 0))
        return error_set(error, "config.json: %s says '%.20s' of layer %u", key,
                         name ? name : "nothing", i);
    return STATUS_OK;
}

Status family_indexers(const json_t *json, Config *config, Error *error) {
    const char *key = json_value(json, "indexer_types") ? "indexer_types" : "index_topk_pattern";
    const json_t *types = json_value(json, key);
    double every = json_number(json, "index_topk_freq", 1);
    double offset = json_number(json, "index_skip_topk_offset", 2);
    if (!(every < 1e6 && offset > -1e6 && offset < 1e6 && offset == floor(offset) &&
          every == floor(every)))
        return error_set(error, "config.json: index_topk_freq is %g, index_skip_topk_offset %g",
                         every, offset);
    for (uint32_t i = 0; i < config->n_layers; i++) {
        bool own = every <= 1 || fmod(fmax(i - offset + 1, 0), every) == 0;
        if (types && family_indexer_type(types, key, i, &own, error) != STATUS_OK)
            return STATUS_FAILED;
        config->indexer.layer[i] = own ? INDEXER_OWN : INDEXER_SHARED;
    }
    return STATUS_OK;
}

Status family_refuse_zero(const json_t *json, const char *key, Error *error) {
    const json_t *value = json_first(json, key);
    if (!value || json_is_null(value) || (json_is_number(value) && json_number_value(value) > 0.0))
        return STATUS_OK;
    if (!json_is_number(value)) return error_set(error, "config.json: %s is not a number", key);
    return error_set(error, "config.json: %s is %g, which this program cannot compute", key,
                     json_number_value(value));
}

Status family_granite(const json_t *json, double absent, Config *config, Error *error) {
    double divisor = json_number(json, "logits_scaling", absent);
    if (!(divisor > 0)) return error_set(error, "config.json: logits_scaling is %g", divisor);
    config->logit_scale = (float)(1.0 / divisor);
    return family_refuse_zero(json, "attention_multiplier", error);
}

/* ---- Latent attention ---- */

Status family_latent_heads(const json_t *json, const RopeKeys *rope, Config *config, Error *error) {
    double factor = 1.0;
    if (json_number(json, "qk_nope_head_dim", 1) < 1 || config->head_dim > 1 << 12 ||
        config->rotary_dim == 0 || config->rotary_dim > 1 << 12)
        return error_set(error,
                         "config.json: heads of qk_nope_head_dim %g and qk_rope_head_dim %u cannot "
                         "be computed",
                         json_number(json, "qk_nope_head_dim", config->head_dim),
                         config->rotary_dim);
    if (config->value_dim == 0 || config->latent.kv_lora_rank == 0)
        return error_set(error, "config.json: v_head_dim is %u, kv_lora_rank %u", config->value_dim,
                         config->latent.kv_lora_rank);
    if (rope_score_factor(rope, json, &factor, error) != STATUS_OK) return STATUS_FAILED;
    config->head_dim += config->rotary_dim;
    config->n_kv_heads = config->n_heads;
    config->attention_scale = (float)(1.0 / sqrt((double)config->head_dim) * factor);
    for (uint32_t i = 0; i < config->n_layers; i++) config->layer_kind[i] = LAYER_LATENT;
    return STATUS_OK;
}

Status family_state_no_step_limit(const json_t *json, Error *error) {
    const json_t *limit = json_value(json, "time_step_limit");
    const json_t *low = json_array_get(limit, 0), *high = json_array_get(limit, 1);
    if (!limit || (json_is_number(low) && json_number_value(low) == 0.0 && !json_is_number(high)))
        return STATUS_OK;
    return error_set(error, "config.json: time_step_limit is not [0, Infinity], which this program "
                            "cannot compute");
}

/* ---- Layers with a state ---- */

Status family_state_read_kinds(const json_t *types, const KindName *names, Config *config,
                               Error *error) {
    if (json_array_size(types) < config->n_layers)
        return error_set(error, "config.json: layer_types is not a list of %u layers",
                         config->n_layers);
    for (uint32_t l = 0; l < config->n_layers; l++) {
        const char *type = json_string_value(json_array_get(types, l));
        const KindName *name = names;
        while (name->name && !(type && strcmp(type, name->name) == 0)) name++;
        if (!name->name)
            return error_set(error, "config.json: layer type '%.40s' is not known",
                             type ? type : "(no text)");
        config->layer_kind[l] = name->kind;
    }
    return STATUS_OK;
}

Status family_read_whole(const json_t *json, const char *key, double absent, double least,
                         double most, uint32_t *out, Error *error) {
    const json_t *given = json_first(json, key);
    bool is_given = given && !json_is_null(given);
    double value = is_given ? json_number_value(given) : absent;
    if (is_given && !json_is_number(given))
        return error_set(error, "config.json: %s is not a number", key);
    if (!(value >= least && value <= most && value == floor(value)))
        return error_set(error, "config.json: %s is %g", key, value);
    *out = (uint32_t)value;
    return STATUS_OK;
}

Status family_state_read_whole(const json_t *json, const char *key, double absent, uint32_t *out,
                               Error *error) {
    return family_read_whole(json, key, absent, 1, 1 << 24, out, error);
}
