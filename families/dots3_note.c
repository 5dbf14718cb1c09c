/* The text half of dots3 note: DeepSeek V3.2's layers, with layers in windows between them whose
 * latents and heads have sizes of their own, and a gate for each head. */
#include "families/shared.h"

/* The sizes of the layers with a window, by their keys in per_layer_config; with "swa_" before them
 * they stand in the first files. */
enum { N_HEADS, KV_LORA, Q_LORA, NOPE, ROPE, VALUE, HEAD, KV_HEADS_KEY, LOCAL_SIZES };
static const struct {
    const char *key;
    double absent; /* where the older key is absent */
} local_sizes[LOCAL_SIZES] = {
    [N_HEADS] = {"num_attention_heads", 64},
    [KV_LORA] = {"kv_lora_rank", 1024},
    [Q_LORA] = {"q_lora_rank", 1024},
    [NOPE] = {"qk_nope_head_dim", 192},
    [ROPE] = {"qk_rope_head_dim", 64},
    [VALUE] = {"v_head_dim", 128},
    [HEAD] = {"head_dim", 256},
    [KV_HEADS_KEY] = {"num_key_value_heads", 64},
};

/* The member of per_layer_config, a list or an object with layers' numbers as keys, for the layer.
 */
static const json_t *layer_config(const json_t *all, uint32_t layer) {
    char number[16];
    snprintf(number, sizeof number, "%u", layer);
    return json_is_array(all) ? json_array_get(all, layer) : json_object_get(all, number);
}

/* Refuses a per_layer_config in which the layers with a window are not alike, or others have one.
 */
static Status check_layer_config(const json_t *all, const Config *config, Error *error) {
    const json_t *first = NULL;
    bool is_first = true;
    for (uint32_t l = 0; l < config->n_layers; l++) {
        const json_t *own = layer_config(all, l);
        const char *key;
        json_t *value;
        if (json_object_size(own) == 0) own = NULL;
        if (config->rope_table[l] == 0 && own)
            return error_set(error,
                             "config.json: per_layer_config of layer %u, which has no window, "
                             "cannot be computed by this program",
                             l);
        if (config->rope_table[l] == 0) continue;
        if (is_first) first = own, is_first = false;
        if (own != first && !(own && first && json_equal((json_t *)own, (json_t *)first)))
            return error_set(error,
                             "config.json: per_layer_config of layer %u differs from that of "
                             "another layer with a window, which this program cannot compute",
                             l);
        json_object_foreach((json_t *)own, key, value) {
            bool known = false;
            for (int i = 0; i < LOCAL_SIZES; i++)
                known = known || strcmp(key, local_sizes[i].key) == 0;
            if (!known)
                return error_set(error,
                                 "config.json: per_layer_config of layer %u has '%.40s', which "
                                 "this program cannot compute",
                                 l, key);
        }
    }
    return STATUS_OK;
}

/* Reads the sizes of the layers with a window, of which `layer` is one. */
static Status read_local_sizes(const json_t *json, uint32_t layer, const Config *config,
                               uint32_t sizes[LOCAL_SIZES], Error *error) {
    const json_t *all = json_value(json, "per_layer_config");
    const double whole[LOCAL_SIZES] = {config->n_heads,
                                       config->latent.kv_lora_rank,
                                       config->latent.q_lora_rank,
                                       config->head_dim,
                                       config->rotary_dim,
                                       config->value_dim,
                                       256,
                                       json_number(json, "num_key_value_heads", 128)};
    double found[LOCAL_SIZES];
    for (int i = 0; i < LOCAL_SIZES; i++) {
        char key[48];
        snprintf(key, sizeof key, "swa_%s", local_sizes[i].key);
        found[i] = all ? json_number(layer_config(all, layer), local_sizes[i].key,
                                     i == HEAD ? json_number(json, "head_dim", 256) : whole[i])
                       : json_number(json, key, local_sizes[i].absent);
        if (!all && i == HEAD && !json_value(json, "swa_qk_rope_head_dim"))
            found[ROPE] = found[HEAD] - found[NOPE];
    }
    for (int i = 0; i < LOCAL_SIZES; i++) {
        if (!(found[i] >= 1 && found[i] <= 1 << 12 && found[i] == floor(found[i])))
            return error_set(error, "config.json: %s of layers with a window is %g",
                             local_sizes[i].key, found[i]);
        sizes[i] = (uint32_t)found[i];
    }
    if (sizes[HEAD] != sizes[NOPE] + sizes[ROPE] || sizes[KV_HEADS_KEY] != sizes[N_HEADS])
        return error_set(error,
                         "config.json: layers with a window have %u and %u heads of %u elements, "
                         "%u + %u",
                         sizes[N_HEADS], sizes[KV_HEADS_KEY], sizes[HEAD], sizes[NOPE],
                         sizes[ROPE]);
    return STATUS_OK;
}

/* The root of dim / rank, by which the class multiplies a normalized latent. */
static double latent_scale(const Config *config, uint32_t rank) {
    return sqrt((double)config->dim / rank);
}

/* Sets the sizes of the layers with a window, which have RoPE table 1. */
static Status set_local_sizes(const json_t *json, Config *config, Error *error) {
    uint32_t sizes[LOCAL_SIZES], first = 0;
    const json_t *all = json_value(json, "per_layer_config");
    if (all && check_layer_config(all, config, error) != STATUS_OK) return STATUS_FAILED;
    while (first < config->n_layers && config->rope_table[first] != 1) first++;
    if (first == config->n_layers) return STATUS_OK;
    if (read_local_sizes(json, first, config, sizes, error) != STATUS_OK) return STATUS_FAILED;
    for (uint32_t l = first; l < config->n_layers; l++) {
        if (config->rope_table[l] != 1) continue;
        config->layer_n_heads[l] = config->layer_n_kv_heads[l] = sizes[N_HEADS];
        config->layer_head_dim[l] = sizes[HEAD];
    }
    config->rope_local_rotary_dim = sizes[ROPE];
    config->latent.local_kv_lora_rank = sizes[KV_LORA];
    config->latent.local_q_lora_rank = sizes[Q_LORA];
    config->latent.local_value_dim = sizes[VALUE];
    config->latent.local_scale = (float)latent_scale(config, sizes[KV_LORA]);
    config->latent.local_attention_scale =
        (float)(latent_scale(config, sizes[Q_LORA]) / sqrt((double)sizes[HEAD]));
    return STATUS_OK;
}

/* The kind of a layer, as layer_types has it or where config.json has no such list. */
static const char *layer_type(const json_t *json, uint32_t layer) {
    const json_t *types = json_value(json, "layer_types");
    const json_t *dsa = json_object_get(json, "use_dsa");
    bool given = dsa ? !json_is_null(dsa) : !json_object_get(json, "per_layer_config");
    bool indexes = !dsa || json_switch(json, "use_dsa", true);
    bool slides = json_switch(json, "use_sliding_window", true) && layer >= 2 && layer % 4 != 1;
    const char *type = types     ? json_string_value(json_array_get(types, layer))
                       : slides  ? "sliding_attention"
                       : indexes ? "indexed_attention"
                                 : "full_attention";
    if (!type || !given || strcmp(type, "sliding_attention") == 0) return type;
    if (strcmp(type, indexes ? "full_attention" : "indexed_attention") != 0) return type;
    return indexes ? "indexed_attention" : "full_attention";
}

static Status read_layer_types(const json_t *json, Config *config, Error *error) {
    double window =
        json_number(json, "sliding_window", json_number(json, "sliding_window_size", 512));
    if (!(window >= 1 && window <= 1 << 28 && window == floor(window)))
        return error_set(error, "config.json: sliding_window is %g", window);
    for (uint32_t l = 0; l < config->n_layers; l++) {
        const char *type = layer_type(json, l);
        bool slides = type && strcmp(type, "sliding_attention") == 0;
        bool indexes = type && strcmp(type, "indexed_attention") == 0;
        if (!slides && !indexes && (!type || strcmp(type, "full_attention") != 0))
            return error_set(error, "config.json: layer type '%.40s' is not known",
                             type ? type : "(no text)");
        config->layer_kind[l] = LAYER_LATENT;
        config->window[l] = slides ? (uint32_t)window : 0;
        config->rope_table[l] = slides ? 1 : 0;
        config->indexer.layer[l] = indexes ? INDEXER_OWN : INDEXER_NONE;
    }
    return STATUS_OK;
}

/* Reads the experts, the latents and the indexers. The scale of the queries' latents is part of
 * the scores'; the indexer's ranks do not depend on it. */
static Status dots3_finish(const json_t *json, Config *config, Error *error) {
    const char *older = "moe_shared_expert_intermediate_size";
    const char *key = json_value(json, older) ? older : "shared_experts_intermediate_size";
    double shared = json_number(json, key, 1536) * json_number(json, "n_shared_experts", 1);
    if (config->latent.kv_lora_rank == 0 || config->latent.q_lora_rank == 0 ||
        config->head_dim == 0 || config->head_dim > 1 << 12 || config->rotary_dim == 0 ||
        config->rotary_dim > 1 << 12 || config->value_dim == 0)
        return error_set(error,
                         "config.json: kv_lora_rank is %u, q_lora_rank %u, with heads of "
                         "qk_nope_head_dim %u, qk_rope_head_dim %u and v_head_dim %u",
                         config->latent.kv_lora_rank, config->latent.q_lora_rank, config->head_dim,
                         config->rotary_dim, config->value_dim);
    if (!(shared >= 1 && shared <= 1 << 20 && shared == floor(shared)))
        return error_set(error, "config.json: shared experts of %g are not known", shared);
    config->experts.shared_ffn_dim = (uint32_t)shared;
    if (read_layer_types(json, config, error) != STATUS_OK ||
        set_local_sizes(json, config, error) != STATUS_OK)
        return STATUS_FAILED;
    config->head_dim += config->rotary_dim;
    config->n_kv_heads = config->n_heads;
    config->latent.scale = (float)latent_scale(config, config->latent.kv_lora_rank);
    config->attention_scale =
        (float)(latent_scale(config, config->latent.q_lora_rank) / sqrt((double)config->head_dim));
    return STATUS_OK;
}

/* ---- GGUF ---- */

static Status gguf_dots3_finish(const GgufModel *m, Config *c) {
    if (gguf_latent_finish(m, c) != STATUS_OK) return STATUS_FAILED;
    c->latent.norm_eps = c->norm_eps;
    gguf_indexers(m, c);
    return STATUS_OK;
}

/* The sizes of the layers with a window, which have no indexer. */
static Status gguf_dots3_by_layer(const GgufModel *m, Config *c) {
    uint32_t rank = c->latent.kv_lora_rank, head_dim = c->head_dim, value_dim = c->value_dim;
    bool slides = false;
    gguf_model_uint(m, "attention.kv_lora_rank_swa", &rank);
    gguf_model_uint(m, "attention.key_length_mla_swa", &head_dim);
    gguf_model_uint(m, "attention.value_length_mla_swa", &value_dim);
    if (rank == 0 || head_dim == 0 || value_dim == 0)
        return error_set(m->error,
                         "%s: layers with a window have keys of %u, values of %u and a latent of "
                         "%u elements",
                         m->source->path, head_dim, value_dim, rank);
    for (uint32_t l = 0; l < c->n_layers && l < CONFIG_MAX_LAYERS; l++) {
        if (!c->window[l]) continue;
        slides = true;
        if (c->layer_n_heads[l] == 0) c->layer_n_heads[l] = c->n_heads;
        c->layer_n_kv_heads[l] = c->layer_n_heads[l];
        c->layer_head_dim[l] = head_dim;
        c->rope_table[l] = 1;
        c->indexer.layer[l] = INDEXER_NONE;
    }
    if (!slides) return STATUS_OK;
    c->rope_local_rotary_dim = c->rotary_dim;
    c->latent.local_kv_lora_rank = rank;
    c->latent.local_q_lora_rank = c->latent.q_lora_rank;
    c->latent.local_value_dim = value_dim;
    c->latent.local_attention_scale = (float)(1.0 / sqrt((double)head_dim));
    return STATUS_OK;
}

const FamilyHook families_dots3_note[] = {
    {"dots3", .finish = dots3_finish, .gguf_finish = gguf_dots3_finish,
     .gguf_by_layer = gguf_dots3_by_layer},
    {0},
};
