/* DeepSeek V4: compressed attention, hyper-connections, experts chosen by the token in the first
 * layers. */
#include "families/shared.h"

static const char *const layer_names[] = {"sliding_attention", "compressed_sparse_attention",
                                          "heavily_compressed_attention"};
enum { SLIDING, SPARSE, HEAVY, LAYER_NAMES };

/* The kind of layer l: by layer_types, by compress_ratios, or the default: the first two are heavy,
 * then heavy and sparse ones take turns. */
static Status layer_name(const json_t *json, uint32_t l, uint32_t *name, Error *error) {
    const json_t *types = json_value(json, "layer_types");
    const json_t *ratios = json_value(json, "compress_ratios");
    if (types) {
        const char *type = json_string_value(json_array_get(types, l));
        for (*name = 0; *name < LAYER_NAMES; ++*name)
            if (type && strcmp(type, layer_names[*name]) == 0) return STATUS_OK;
        return error_set(error, "config.json: layer type '%.40s' of layer %u is not known",
                         type ? type : "(no text)", l);
    }
    if (ratios) {
        const json_t *ratio = json_array_get(ratios, l);
        double number = json_is_number(ratio) ? json_number_value(ratio) : -1;
        *name = number == 0 ? SLIDING : number == 4 ? SPARSE : number == 128 ? HEAVY : LAYER_NAMES;
        if (*name < LAYER_NAMES) return STATUS_OK;
        return error_set(error,
                         "config.json: compress_ratios has neither 0, 4 nor 128 for layer %u", l);
    }
    *name = l < 2 || l % 2 == 0 ? HEAVY : SPARSE;
    return STATUS_OK;
}

/* How many positions a pool has in layers of this type: compress_rates, or the key of older files;
 * 0 where layers have windows alone. */
static Status pool_rate(const json_t *json, uint32_t name, uint32_t *rate, Error *error) {
    const char *older = name == SPARSE ? "compress_rate_csa" : "compress_rate_hca";
    const json_t *rates = json_value(json, "compress_rates");
    double number = name == SPARSE ? 4 : 128;
    *rate = 0;
    if (name == SLIDING) return STATUS_OK;
    if (rates) number = json_number(rates, layer_names[name], 0);
    number = json_number(json, older, number);
    if (!(number >= 1 && number <= 1 << 12 && number == floor(number)))
        return error_set(error, "config.json: compress_rates of %s is %g", layer_names[name],
                         number);
    *rate = (uint32_t)number;
    return STATUS_OK;
}

/* Whether a table chooses the experts of layer l. */
static Status is_hashed(const json_t *json, uint32_t l, bool *hashed, Error *error) {
    const json_t *types = json_value(json, "mlp_layer_types");
    const char *type = json_string_value(json_array_get(types, l));
    *hashed =
        types ? type && strcmp(type, "hash_moe") == 0 : l < json_number(json, "num_hash_layers", 3);
    if (!types || *hashed || (type && strcmp(type, "moe") == 0)) return STATUS_OK;
    return error_set(error, "config.json: mlp_layer_types has '%.40s' for layer %u",
                     type ? type : "(no text)", l);
}

static Status read_scores(const json_t *json, Config *c, Error *error) {
    const char *scores = json_text(json, "scoring_func");
    if (scores && strcmp(scores, "sigmoid") == 0) {
        c->router.kind = ROUTER_SIGMOID_SCORES;
    } else if (scores && strcmp(scores, "sqrtsoftplus") != 0) {
        return error_set(error, "config.json: scoring_func '%.40s' is not known", scores);
    }
    return STATUS_OK;
}

/* Sets the kind, the window, the pool rate, the RoPE table and the indexer of each layer, and the
 * scores of the router. Refuses zeros that would turn a mechanism off. */
static Status deepseek_v4_finish(const json_t *json, Config *c, Error *error) {
    static const char *const not_zero[] = {"hc_mult", "hc_sinkhorn_iters", "swiglu_limit"};
    double window = json_number(json, "sliding_window", 128);
    for (size_t i = 0; i < sizeof not_zero / sizeof *not_zero; i++)
        if (family_refuse_zero(json, not_zero[i], error) != STATUS_OK) return STATUS_FAILED;
    if (!(window >= 1 && window <= 1 << 28 && window == floor(window)))
        return error_set(error, "config.json: sliding_window is %g", window);
    if (read_scores(json, c, error) != STATUS_OK) return STATUS_FAILED;
    c->attention_scale = (float)(1.0 / sqrt((double)c->head_dim));
    for (uint32_t l = 0; l < c->n_layers; l++) {
        uint32_t name;
        if (layer_name(json, l, &name, error) != STATUS_OK ||
            pool_rate(json, name, &c->compressed.pool_rate[l], error) != STATUS_OK)
            return STATUS_FAILED;
        c->layer_kind[l] = LAYER_COMPRESSED;
        c->window[l] = (uint32_t)window;
        c->rope_table[l] = name != SLIDING;
        c->indexer.layer[l] = name == SPARSE ? INDEXER_OWN : INDEXER_NONE;
    }
    return STATUS_OK;
}

/* values[n] = whole numbers of 8 (`wide`) or 4 bytes, each the number of an expert. */
static Status read_numbers(const RuleContext *context, const RawTensor *raw, bool wide, size_t n,
                           float *values, Error *error) {
    const Source *source = context->source;
    void *stored = malloc(raw->bytes + 1);
    Status status = stored ? STATUS_OK : error_set(error, "no memory for '%s'", raw->name);
    if (status == STATUS_OK)
        status = input_read(&source->files[raw->file], raw->offset, stored, raw->bytes, error);
    for (size_t i = 0; status == STATUS_OK && i < n; i++) {
        int64_t number = wide ? ((const int64_t *)stored)[i] : ((const int32_t *)stored)[i];
        values[i] = (float)number;
        if (number < 0 || number >= source->config.experts.count)
            status = error_set(error, "%s: tensor '%.100s' names expert %lld", source->path,
                               raw->name, (long long)number);
    }
    free(stored);
    return status;
}

/* Adds the table of each token's experts, the source's tensor `from`. */
static Status add_router_table(const RuleContext *context, uint32_t l, const char *from,
                               Error *error) {
    Source *source = context->source;
    size_t rows = source->config.vocab_size, used = source->config.experts.per_token, n;
    char name[96];
    RawTensor *raw = rules_find(context, from);
    if (!raw) return error_set(error, "%s: tensor '%s' is missing", source->path, from);
    bool wide = strcmp(raw->type_name, "I64") == 0;
    if (!size_mul(rows, used, &n) || n > SIZE_MAX / 8 || raw->n_dims != 2 || raw->dims[0] != rows ||
        raw->dims[1] != used || (!wide && strcmp(raw->type_name, "I32") != 0) ||
        raw->bytes != n * (wide ? 8 : 4))
        return error_set(error, "%s: tensor '%.100s' must be %zu x %zu whole numbers, I64 or I32",
                         source->path, raw->name, rows, used);
    float *values = malloc((n + 1) * sizeof *values);
    if (!values) return error_set(error, "no memory for '%s'", from);
    if (read_numbers(context, raw, wide, n, values, error) != STATUS_OK) {
        free(values);
        return STATUS_FAILED;
    }
    raw->used = true;
    snprintf(name, sizeof name, "layers.%u.router.table", l);
    return source_add_values(source, name, 1, n, values, error);
}

static Status deepseek_v4_more(const RuleContext *context, const json_t *json, Error *error) {
    for (uint32_t l = 0; l < context->source->config.n_layers; l++) {
        bool hashed;
        char from[96];
        snprintf(from, sizeof from, FROM_LAYER "ffn.gate.tid2eid", l);
        if (is_hashed(json, l, &hashed, error) != STATUS_OK ||
            (hashed && add_router_table(context, l, from, error) != STATUS_OK))
            return STATUS_FAILED;
    }
    return STATUS_OK;
}

/* ---- GGUF ---- */

/* Layers with pools have a rate, and those that choose among them an indexer. */
static Status gguf_deepseek_v4_finish(const GgufModel *m, Config *c) {
    const GgufValue *rates = gguf_model_find(m, "attention.compress_ratios", GGUF_AS_WHOLE);
    if (gguf_gate_limit(m, &c->experts.swiglu_limit) != STATUS_OK) return STATUS_FAILED;
    c->ffn_dim = c->experts.ffn_dim;
    for (uint32_t l = 0; l < c->n_layers && l < CONFIG_MAX_LAYERS; l++) {
        double rate = -1.0;
        if (!gguf_element(rates, l, &rate) ||
            !(rate >= 0.0 && rate <= 1 << 12 && rate == floor(rate)))
            return error_set(m->error, "%s: attention.compress_ratios gives layer %u no rate",
                             m->source->path, l);
        c->compressed.pool_rate[l] = (uint32_t)rate;
        c->layer_kind[l] = LAYER_COMPRESSED;
        c->rope_table[l] = rate != 0.0;
        c->indexer.layer[l] =
            gguf_model_layer_has(m, l, "indexer.proj.weight") ? INDEXER_OWN : INDEXER_NONE;
    }
    return STATUS_OK;
}

static Status gguf_deepseek_v4_more(GgufModel *m) {
    const RuleContext context = {.source = m->source, .table = &m->table};
    for (uint32_t l = 0; l < m->source->config.n_layers; l++) {
        char from[64];
        snprintf(from, sizeof from, GGUF_LAYERS "exp_probs_b_vl.bias", l); /* of image tokens */
        RawTensor *of_images = rules_find(&context, from);
        if (of_images) of_images->used = true;
        snprintf(from, sizeof from, GGUF_LAYERS "ffn_gate_tid2eid.weight", l);
        if (rules_find(&context, from) &&
            add_router_table(&context, l, from, m->error) != STATUS_OK)
            return STATUS_FAILED;
    }
    return STATUS_OK;
}

const FamilyHook families_deepseek_v4[] = {
    {"deepseek_v4", .finish = deepseek_v4_finish, .more = deepseek_v4_more,
     .gguf_finish = gguf_deepseek_v4_finish, .gguf_more = gguf_deepseek_v4_more},
    {0},
};
