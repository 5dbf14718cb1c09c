/* Gemma 3n and Gemma 4, whose stacks are in layers/arrangements/altup.c and
 * layers/arrangements/gemma4.c. */
#include "families/shared.h"
#include "formats/stored/normal_quantile.h"

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
    if (family_read_whole(json, "num_kv_shared_layers", absent, 0, 1 << 30, &shared, error) !=
        STATUS_OK)
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
    if (family_read_whole(heads, "head_dim", 0, 0, 1 << 30, &c->layer_head_dim[l], error) !=
        STATUS_OK)
        return STATUS_FAILED;
    return family_read_whole(heads, "num_key_value_heads", 0, 0, 1 << 30, &c->layer_n_kv_heads[l],
                             error);
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

/* Sets the heads of the layers without a window. Layers without a window have heads of another
 * width and, where keys are values, another number of key/value heads. All of them must have the
 * same width, as they share a RoPE table. */
static Status read_global_heads(const json_t *json, Config *c, Error *error) {
    const json_t *layers = json_value(json, "per_layer_config");
    bool keys_are_values = json_flag(json, "attention_k_eq_v", false);
    uint32_t width = 0, kv_heads = 0;
    if (layers && read_layer_config(layers, c, error) != STATUS_OK) return STATUS_FAILED;
    if (json_is_null(json_object_get(json, "global_head_dim")))
        return error_set(error, "config.json: global_head_dim is null");
    if (family_read_whole(json, "global_head_dim", 512, 0, 1 << 30, &width, error) != STATUS_OK ||
        family_read_whole(json, "num_global_key_value_heads", 0, 0, 1 << 30, &kv_heads, error) !=
            STATUS_OK)
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
    c->router.kind = ROUTER_SCALED;
    if (family_read_whole(json, "num_experts", 0, 0, 1 << 30, &c->experts.count, error) !=
            STATUS_OK ||
        family_read_whole(json, "top_k_experts", 0, 0, 1 << 30, &c->experts.per_token, error) !=
            STATUS_OK ||
        family_read_whole(json, "moe_intermediate_size", 0, 0, 1 << 30, &c->experts.ffn_dim,
                          error) != STATUS_OK)
        return STATUS_FAILED;
    if (c->experts.count > 0) return STATUS_OK;
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
    if (c->per_layer.dim == 0 || c->per_layer.vocab >= c->vocab_size) return STATUS_OK;
    return error_set(error, "config.json: vocab_size_per_layer_input is %u, but vocab_size %u",
                     c->per_layer.vocab, c->vocab_size);
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

/* intermediate_size is a number or a list of one for each layer. */
static Status read_widths(const json_t *json, Config *c, Error *error) {
    const json_t *list = json_value(json, "intermediate_size");
    if (!json_is_array(list))
        return family_read_whole(json, "intermediate_size", 16384, 0, 1 << 30, &c->ffn_dim, error);
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

/* Adds the maps into and out of each further stream, whose number is in the config, and the
 * cutoffs. */
static Status gemma3n_more(const RuleContext *context, const json_t *json, Error *error) {
    for (uint32_t i = 1; i < context->source->config.altup_streams; i++) {
        char in[64], out[64], to_in[32], to_out[32];
        snprintf(in, sizeof in, "model.altup_projections.%u.weight", i - 1);
        snprintf(out, sizeof out, "model.altup_unembed_projections.%u.weight", i - 1);
        snprintf(to_in, sizeof to_in, "altup.in.%u", i);
        snprintf(to_out, sizeof to_out, "altup.out.%u", i);
        const TensorRule rules[] = {
            MATRIX(to_in, in, "dim", "dim"), MATRIX(to_out, out, "dim", "dim"), {0}};
        if (rules_apply(context, rules, error) != STATUS_OK) return STATUS_FAILED;
    }
    return add_cutoffs(context, json, error);
}

/* The first dimension of a matrix; 0: there is no such matrix. */
static uint32_t gguf_rows_of(const GgufModel *m, const char *name) {
    const RawTensor *raw = raw_table_find(&m->table, name);
    return raw && raw->n_dims == 2 && raw->dims[0] <= UINT32_MAX ? (uint32_t)raw->dims[0] : 0;
}

static Status gguf_gemma4_finish(const GgufModel *m, Config *c) {
    c->per_layer.vocab = gguf_rows_of(m, "per_layer_token_embd.weight");
    if (c->experts.count > 0) c->router.kind = ROUTER_SCALED;
    return STATUS_OK;
}

static Status gguf_gemma3n_finish(const GgufModel *m, Config *c) {
    c->per_layer.vocab = gguf_rows_of(m, "per_layer_token_embd.weight");
    c->altup.scales = raw_table_find(&m->table, "blk.0.altup_correct_scale.weight") != NULL;
    c->altup.laurel_rank = gguf_rows_of(m, "blk.0.laurel_l.weight");
    return STATUS_OK;
}

/* Lets the last layers read the keys of the last layer before them that has a window as they have,
 * or none. */
static Status gguf_share_keys(const GgufModel *m, Config *c) {
    uint32_t shared = 0;
    /* The first published files of Gemma 3n have a float. */
    const GgufValue *told = gguf_model_find(m, "attention.shared_kv_layers", GGUF_AS_NUMBER);
    double number;
    if (c->stack == STACK_ALTUP && c->n_layers > 20) shared = c->n_layers - 20;
    if (told && !told->is_array && gguf_element(told, 0, &number)) {
        if (!(number >= 0.0 && number < c->n_layers) || number != floor(number))
            return error_set(m->error, "%s: attention.shared_kv_layers is %g of %u layers",
                             m->source->path, number, c->n_layers);
        shared = (uint32_t)number;
    }
    for (uint32_t l = c->n_layers - shared; l < c->n_layers; l++) {
        uint32_t from = c->n_layers - shared;
        while (from > 0 && !c->window[from - 1] != !c->window[l]) from--;
        if (from == 0)
            return error_set(m->error, "%s: layer %u shares keys, but no layer has such keys",
                             m->source->path, l);
        c->kv_distance[l] = l - (from - 1);
    }
    return STATUS_OK;
}

/* Gives the layers with a window their head width, and the RoPE of windows, and shares keys. */
static Status gguf_gemma_by_layer(const GgufModel *m, Config *c) {
    uint32_t width = 0;
    if (c->n_layers > CONFIG_MAX_LAYERS) return STATUS_OK; /* config_validate refuses it */
    gguf_model_uint(m, "attention.key_length_swa", &width);
    if (width > 0) {
        c->rope_local_rotary_dim = width;
        gguf_model_uint(m, "rope.dimension_count_swa", &c->rope_local_rotary_dim);
    }
    for (uint32_t l = 0; l < c->n_layers; l++) {
        c->rope_table[l] = c->window[l] ? 1 : 0;
        if (c->window[l] && width != c->head_dim) c->layer_head_dim[l] = width;
    }
    return gguf_share_keys(m, c);
}

/* Makes each matrix of a stack a tensor of its own, NAME.0, NAME.1, ... */
static Status gguf_unstack(GgufModel *m, const char *name) {
    char full[64];
    snprintf(full, sizeof full, "%s.weight", name);
    RawTensor *found = raw_table_find(&m->table, full);
    uint32_t n = m->source->config.altup_streams - 1;
    size_t bytes;
    if (!found || found->n_dims != 3 || found->dims[0] != n || found->type == STORED_TYPES ||
        !stored_file_bytes(found->type, found->dims[1] * found->dims[2], found->dims[2], &bytes))
        return error_set(m->error, "%s: tensor '%s' is missing or does not hold %u matrices",
                         m->source->path, full, n);
    const RawTensor stack = *found; /* raw_table_add may move it */
    found->used = true;
    for (uint32_t i = 0; i < n; i++) {
        int length = snprintf(full, sizeof full, "%s.%u", name, i);
        RawTensor *one = raw_table_add(&m->table, full, (size_t)length);
        if (!one) return error_set(m->error, "%s: no memory", m->source->path);
        char *own_name = one->name;
        *one = stack;
        one->name = own_name;
        one->n_dims = 2;
        one->dims[0] = stack.dims[1];
        one->dims[1] = stack.dims[2];
        one->offset = stack.offset + i * bytes;
        one->bytes = bytes;
    }
    return raw_table_sort(&m->table, m->error);
}

/* Adds the cutoffs of the layers whose gates are sparse: numbers of standard deviations, minus
 * infinity where all gates are kept. Files without them cut 95% in the first 10 layers. */
static Status gguf_add_cutoffs(GgufModel *m) {
    const GgufValue *given = gguf_model_find(m, "activation_sparsity_scale", GGUF_AS_FLOAT);
    for (uint32_t l = 0; l < m->source->config.n_layers; l++) {
        double scale = l < 10 && !given ? 1.6448533535003662 : -INFINITY;
        char name[48];
        if (given && !gguf_element(given, l, &scale))
            return error_set(m->error, "%s: activation_sparsity_scale is not a list of layers",
                             m->source->path);
        if (scale == -INFINITY) continue;
        if (!isfinite((float)scale))
            return error_set(m->error, "%s: activation_sparsity_scale of layer %u is %g",
                             m->source->path, l, scale);
        float *value = malloc(sizeof *value);
        if (value) *value = (float)scale;
        snprintf(name, sizeof name, "layers.%u.gate_cutoff", l);
        if (source_add_values(m->source, name, 1, 1, value, m->error) != STATUS_OK)
            return STATUS_FAILED;
    }
    return STATUS_OK;
}

static Status gguf_gemma3n_more(GgufModel *m) {
    const RuleContext context = {.source = m->source, .table = &m->table, .layers = GGUF_LAYERS};
    uint32_t n = m->source->config.altup_streams;
    if (n > 1 && (gguf_unstack(m, "altup_proj") != STATUS_OK ||
                  gguf_unstack(m, "altup_unembd_proj") != STATUS_OK))
        return STATUS_FAILED;
    for (uint32_t i = 1; i < n; i++) {
        char in[32], out[32], to_in[32], to_out[32];
        snprintf(in, sizeof in, "altup_proj.%u", i - 1);
        snprintf(out, sizeof out, "altup_unembd_proj.%u", i - 1);
        snprintf(to_in, sizeof to_in, "altup.in.%u", i);
        snprintf(to_out, sizeof to_out, "altup.out.%u", i);
        const TensorRule rules[] = {
            MATRIX(to_in, in, "dim", "dim"), MATRIX(to_out, out, "dim", "dim"), {0}};
        if (rules_apply(&context, rules, m->error) != STATUS_OK) return STATUS_FAILED;
    }
    return gguf_add_cutoffs(m);
}

const FamilyHook families_gemma4[] = {
    {"gemma3n", .finish = gemma3n_finish, .more = gemma3n_more, .gguf_finish = gguf_gemma3n_finish,
     .gguf_more = gguf_gemma3n_more},
    {"gemma4", .finish = gemma4_finish, .gguf_finish = gguf_gemma4_finish,
     .gguf_by_layer = gguf_gemma_by_layer},
    {"unified", .finish = unified_finish},
    {"check_values", .more = check_values},
    {0},
};
