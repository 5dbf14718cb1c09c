/* Inkling and Inkling 2: attention with a learned bias of distances, convolutions over the
 * positions after keys, values, attention and feed-forwards; Inkling 2's blocks attend over sums
 * of layers, and its variant with loops runs its middle layers several times, with messages from
 * one run to the next (layers/arrangements/messages.h). Each run is layers of their own here.
 *
 * Files have transformers' names or the names of the first released files. Both are listed here:
 * model.layers.N.self_attn.q_proj.weight is model.llm.layers.N.attn.wq_du.weight there. Rows of
 * gate and up alternate in the latter. */
#include "kvcache/kv_shape.h"
#include "families/shared.h"

#define BOTH(form, to, new_name, old_name, ...)                                                    \
    form(to, new_name, __VA_ARGS__, .optional = true),                                             \
        form(to, old_name, __VA_ARGS__, .optional = true)
#define GATE_UP(to, from, width, ...)                                                              \
    MATRIX(to, from, width " + " width, "dim", .by = width, .optional = true, __VA_ARGS__)

#define INKLING_ATTENTION                                                                          \
    BOTH(MATRIX, "wq", ".self_attn.q_proj.weight", ".attn.wq_du.weight", "n_heads * head_dim",     \
         "dim"),                                                                                   \
        BOTH(MATRIX, "wk", ".self_attn.k_proj.weight", ".attn.wk_dv.weight",                       \
             "n_kv_heads * head_dim", "dim"),                                                      \
        BOTH(MATRIX, "wv", ".self_attn.v_proj.weight", ".attn.wv_dv.weight",                       \
             "n_kv_heads * head_dim", "dim"),                                                      \
        BOTH(MATRIX, "relative", ".self_attn.r_proj.weight", ".attn.wr_du.weight",                 \
             "n_heads * relative_dim", "dim"),                                                     \
        BOTH(MATRIX, "wo", ".self_attn.o_proj.weight", ".attn.wo_ud.weight", "dim",                \
             "n_heads * head_dim")

#define INKLING2_LAYER                                                                             \
    VECTOR("attention_norm", ".attn_norm.weight", "dim", .optional = true),                        \
        VECTOR("attention_norm", ".q_input_norm.weight", "dim", .optional = true),                 \
        VECTOR("k_input_norm", ".k_input_norm.weight", "dim", .optional = true),                   \
        VECTOR("v_input_norm", ".v_input_norm.weight", "dim", .optional = true),                   \
        INKLING_ATTENTION,                                                                         \
        MATRIX("attention_gate", ".attn.gate_attn.weight", "n_heads * head_dim", "dim"),           \
        MATRIX("row_sinks", ".attn.attn_sink_proj.weight", "n_heads", "dim"),                      \
        VECTOR("q_scale", ".attn.q_l2_clip.scale", "n_heads * head_dim"),                          \
        VECTOR("relative.scale", ".attn.rel_l2_clip.scale", "n_heads * relative_dim"),             \
        MATRIX("k.taps_by_row", ".attn.k_sconv.weight_proj", "n_kv_heads * state_kernel", "dim",   \
               .optional = true),                                                                  \
        MATRIX("v.taps_by_row", ".attn.v_sconv.weight_proj", "n_kv_heads * state_kernel", "dim",   \
               .optional = true),                                                                  \
        VECTOR("ffn_norm", ".mlp_norm.weight", "dim"),                                             \
        MATRIX("router", ".mlp.gate.weight", "n_experts", "dim"),                                  \
        VECTOR("router.correction", ".mlp.gate.bias", "n_experts"),                                \
        GATE_UP("experts.%u.w_gate experts.%u.w_up", ".mlp.experts.w13_weight", "expert_ffn_dim"), \
        MATRIX("experts.%u.w_down", ".mlp.experts.w2_weight", "dim", "expert_ffn_dim")

enum { MOST_RUNS = 16 }; /* of middle layers: of Config.loops */

/* The layer of the file that layer l is a run of. */
static uint32_t stored_layer(const Config *c, uint32_t l) {
    if (c->stack != STACK_BLOCK_SUMS || c->loop_layers == 0 || l < c->loop_from) return l;
    if (l >= c->loop_from + c->loops * c->loop_layers) return l - (c->loops - 1) * c->loop_layers;
    return c->loop_from + (l - c->loop_from) % c->loop_layers;
}

/* ---- The configuration ---- */

/* Whether layer l slides: by layer_types, by a list of the layers that do, or all but every sixth.
 */
static Status find_slides(const json_t *types, const json_t *local, uint32_t l, bool *slides,
                          Error *error) {
    const json_t *id;
    size_t i;
    *slides = !local && (l + 1) % 6 != 0;
    if (types) {
        const char *type = json_string_value(json_array_get(types, l));
        *slides = type && strcmp(type, "hybrid_sliding") == 0;
        if (*slides || (type && strcmp(type, "hybrid") == 0)) return STATUS_OK;
        return error_set(error, "config.json: layer type '%.40s' of layer %u is not known",
                         type ? type : "(no text)", l);
    }
    json_array_foreach((json_t *)local, i,
                       id) if (json_is_integer(id) && json_number_value(id) == l) *slides = true;
    return STATUS_OK;
}

/* Reads what layers with a window have of their own. */
static Status read_layers(const json_t *json, const json_t *local, double window, double heads,
                          double kv_heads, Config *c, Error *error) {
    const json_t *types = json_value(json, "layer_types");
    const char *key = json_value(json, "sliding_window") ? "sliding_window" : "sliding_window_size";
    uint32_t size, n_heads, n_kv_heads, head_dim;
    if (family_read_whole(json, key, window, 1, 1 << 28, &size, error) != STATUS_OK ||
        family_read_whole(json, "swa_num_attention_heads", heads, 1, 1 << 28, &n_heads, error) !=
            STATUS_OK ||
        family_read_whole(json, "swa_num_key_value_heads", kv_heads, 1, 1 << 28, &n_kv_heads,
                          error) != STATUS_OK ||
        family_read_whole(json, "swa_head_dim", 128, 1, 1 << 28, &head_dim, error) != STATUS_OK)
        return STATUS_FAILED;
    for (uint32_t l = 0; l < c->n_layers; l++) {
        bool slides;
        c->layer_kind[l] = LAYER_RELATIVE;
        if (find_slides(types, local, stored_layer(c, l), &slides, error) != STATUS_OK)
            return STATUS_FAILED;
        if (!slides) continue;
        c->window[l] = size;
        c->layer_n_heads[l] = n_heads;
        c->layer_n_kv_heads[l] = n_kv_heads;
        c->layer_head_dim[l] = head_dim;
    }
    return STATUS_OK;
}

/* Reads how queries grow, and how many rows of the output head count. `floor_absent`: 0 for none.
 */
static Status read_common(const json_t *json, double floor_absent, double unpadded, Config *c,
                          Error *error) {
    const json_t *given = json_object_get(json, "log_scaling_n_floor");
    double from =
        given && json_is_null(given) ? 0 : json_number(json, "log_scaling_n_floor", floor_absent);
    double rows = json_number(json, "unpadded_vocab_size", unpadded);
    if (from != 0 || json_value(json, "log_scaling_n_floor")) {
        if (!(from >= 1 && from <= 1 << 28 && from == floor(from)))
            return error_set(error, "config.json: log_scaling_n_floor is %g", from);
        c->query_scaling = (float)json_number(json, "log_scaling_alpha", 0.1);
        c->query_scaling_floor = (uint32_t)from;
    }
    if (!(rows >= 0 && rows <= 1 << 24 && rows == floor(rows)) ||
        (rows == 0 && json_value(json, "unpadded_vocab_size")))
        return error_set(error, "config.json: unpadded_vocab_size is %g", rows);
    if (rows > 0 && rows < c->vocab_size) c->vocab_size = (uint32_t)rows;
    return STATUS_OK;
}

/* Sets the scale of the logits, the widths of dense layers and experts, and what layers with a
 * window have of their own. Shared experts are counted among the experts, as ones that are always
 * chosen. */
static Status inkling_finish(const json_t *json, Config *c, Error *error) {
    const char *key = json_value(json, "embedding_multiplier") ? "embedding_multiplier"
                                                               : "logits_mup_width_multiplier";
    double width = json_number(json, key, 24);
    if (!(fabs(width) > 0) || !isfinite(1.0 / width))
        return error_set(error, "config.json: %s is %g", key, width);
    c->logit_scale = (float)(1.0 / width);
    if (json_value(json, "dense_intermediate_size")) {
        c->experts.ffn_dim = c->ffn_dim; /* intermediate_size is that of experts then */
        if (family_read_whole(json, "dense_intermediate_size", 0, 1, 1 << 28, &c->ffn_dim, error) !=
            STATUS_OK)
            return STATUS_FAILED;
    }
    if (c->experts.always == 0) return error_set(error, "config.json: n_shared_experts is 0");
    if (c->experts.count <= CONFIG_MAX_EXPERTS && c->experts.per_token <= CONFIG_MAX_EXPERTS) {
        c->experts.count += c->experts.always;
        c->experts.per_token += c->experts.always;
    }
    if (read_common(json, 0, 0, c, error) != STATUS_OK) return STATUS_FAILED;
    return read_layers(json, json_value(json, "local_layer_ids"), 512, 64, 16, c, error);
}

/* Reads what both variants of Inkling 2 have. `floor_absent` and `heads` where keys are absent. */
static Status finish_inkling2(const json_t *json, double floor_absent, double heads, Config *c,
                              Error *error) {
    const char *scores = json_text(json, "scoring_func");
    c->router.kind = ROUTER_SIGMOID_SCORES;
    if (scores && strcmp(scores, "sqrtsoftplus") == 0) c->router.kind = ROUTER_ROOT_SCORES;
    if (scores && c->router.kind != ROUTER_ROOT_SCORES && strcmp(scores, "sigmoid") != 0)
        return error_set(error, "config.json: scoring_func '%.40s' is not known", scores);
    static const char *const amounts[] = {"qk_l2_clip_threshold", "rel_l2_clip_threshold",
                                          "mlp_gate_softcap", "mlp_up_softcap",
                                          "final_logit_softcapping"};
    for (size_t i = 0; i < sizeof amounts / sizeof *amounts; i++)
        if (family_refuse_zero(json, amounts[i], error) != STATUS_OK) return STATUS_FAILED;
    if (read_common(json, floor_absent, 200058, c, error) != STATUS_OK) return STATUS_FAILED;
    return read_layers(json, NULL, 1024, heads, 8, c, error);
}

static Status inkling2_finish(const json_t *json, Config *c, Error *error) {
    return finish_inkling2(json, 128000, 48, c, error);
}

/* Unrolls the middle layers. */
static Status inkling2_loop_finish(const json_t *json, Config *c, Error *error) {
    uint32_t from, end, runs;
    const json_t *loops = json_value(json, "loop_config");
    if (loops && !json_is_object(loops))
        return error_set(error, "config.json: loop_config is not an object");
    if (family_read_whole(json, "loop_config.core_start|loop_layer_index_start", 6, 1, 1 << 28,
                          &from, error) != STATUS_OK ||
        family_read_whole(json, "loop_config.core_end|loop_layer_index_end", 18, 1, 1 << 28, &end,
                          error) != STATUS_OK ||
        family_read_whole(json, "loop_config.num_passes|loop_num_passes", 3, 1, 1 << 28, &runs,
                          error) != STATUS_OK ||
        family_read_whole(json, "loop_config.gate_rank|loop_gate_rank", 64, 1, 1 << 28,
                          &c->message_rank, error) != STATUS_OK)
        return STATUS_FAILED;
    if (c->block_layers == 0 || from % c->block_layers != 0 || end % c->block_layers != 0)
        return error_set(error,
                         "config.json: loop_layer_index_start is %u, loop_layer_index_end %u: both "
                         "must be multiples of n_layers_per_attn_res_block (%u)",
                         from, end, c->block_layers);
    if (end < from || end > c->n_layers || runs > MOST_RUNS ||
        c->n_layers + (runs - 1.0) * (end - from) > CONFIG_MAX_LAYERS)
        return error_set(error,
                         "config.json: layers %u to %u of %u cannot run %u times: there may be %d "
                         "runs, and %d layers of all runs",
                         from, end, c->n_layers, runs, MOST_RUNS, CONFIG_MAX_LAYERS);
    c->loop_from = from;
    c->loop_layers = end - from;
    c->loops = runs;
    c->n_layers += (runs - 1) * c->loop_layers;
    return finish_inkling2(json, 8192, 24, c, error);
}

/* ---- Tensors that are computed ---- */

/* Which of two names of a tensor in layer l the file has; NULL: neither. */
static const char *name_of(const RuleContext *context, uint32_t l, const char *new_name,
                           const char *old_name, char out[128]) {
    uint32_t from = stored_layer(&context->source->config, l);
    snprintf(out, 128, FROM_LAYER "%s", from, new_name);
    if (rules_find(context, out)) return out;
    snprintf(out, 128, FROM_LAYER "%s", from, old_name);
    return rules_find(context, out) ? out : NULL;
}

/* Reads one number of layer l; 1 where the file has none. */
static Status read_number(const RuleContext *context, uint32_t l, const char *name, float *out,
                          Error *error) {
    char full[128];
    float *value;
    *out = 1.0f;
    snprintf(full, sizeof full, FROM_LAYER "%s", stored_layer(&context->source->config, l), name);
    if (!rules_find(context, full)) return STATUS_OK;
    if (rules_read(context, full, 1, 1, &value, error) != STATUS_OK) return STATUS_FAILED;
    *out = *value;
    free(value);
    return STATUS_OK;
}

/* Adds the taps of a convolution [kernel][channels], the oldest first. The file stores taps by
 * channel (or by distance, the newest first: `by_distance`). 1 is added to the newest tap for the
 * input itself, and all are multiplied by a factor. */
static Status add_taps(const RuleContext *context, uint32_t l, const char *to, const char *from,
                       size_t channels, bool by_distance, float factor, Error *error) {
    size_t kernel = context->source->config.state.conv_kernel;
    float *stored, *taps;
    char name[64];
    if (rules_read(context, from, by_distance ? kernel : channels, by_distance ? channels : kernel,
                   &stored, error) != STATUS_OK)
        return STATUS_FAILED;
    taps = malloc((kernel * channels + 1) * sizeof *taps);
    for (size_t k = 0; taps && k < kernel; k++)
        for (size_t i = 0; i < channels; i++) {
            float tap =
                by_distance ? stored[(kernel - 1 - k) * channels + i] : stored[i * kernel + k];
            taps[k * channels + i] = (k == kernel - 1 ? tap + 1.0f : tap) * factor;
        }
    free(stored);
    snprintf(name, sizeof name, "layers.%u.%s", l, to);
    return source_add_values(context->source, name, kernel, channels, taps, error);
}

/* Adds the profiles of the bias, the furthest distance first, between two pages of zeros. */
static Status add_profiles(const RuleContext *context, uint32_t l, Error *error) {
    const Config *c = &context->source->config;
    size_t extent = c->window[l] > 0 ? c->window[l] : c->relative.extent, n = c->relative.dim;
    size_t width = extent + 2 * KV_PAGE;
    float *stored, *profiles;
    char name[128];
    const char *from =
        name_of(context, l, "self_attn.rel_logits_proj.proj", "attn.rel_logits_proj.proj", name);
    if (rules_read(context, from ? from : name, n, extent, &stored, error) != STATUS_OK)
        return STATUS_FAILED;
    profiles = calloc(n * width + 1, sizeof *profiles);
    for (size_t r = 0; profiles && r < n; r++)
        for (size_t d = 0; d < extent; d++)
            profiles[r * width + KV_PAGE + extent - 1 - d] = stored[r * extent + d];
    free(stored);
    snprintf(name, sizeof name, "layers.%u.profiles", l);
    return source_add_values(context->source, name, n, width, profiles, error);
}

/* Adds the tables that have one row for each token. Only the first rows, for real tokens, are
 * taken.
 */
static Status add_tokens(const RuleContext *context, const char *to, const char *new_name,
                         const char *old_name, Error *error) {
    const char *from = rules_find(context, old_name) ? old_name : new_name;
    const TensorRule rules[] = {MATRIX(to, from, "vocab_size", "dim", .longer = true), {0}};
    return rules_apply(context, rules, error);
}

/* Adds what both families compute: profiles and static taps. `factor`: of the sums. */
static Status add_layer(const RuleContext *context, uint32_t l, float factor, Error *error) {
    const Config *c = &context->source->config;
    const HeadShape h = config_heads(c, l);
    const struct {
        const char *to, *new_name, *old_name;
        size_t channels;
    } taps[] = {
        {"k.taps", "self_attn.k_sconv.conv1d.weight", "attn.k_sconv.weight",
         (size_t)h.n_kv_heads * h.head_dim},
        {"v.taps", "self_attn.v_sconv.conv1d.weight", "attn.v_sconv.weight",
         (size_t)h.n_kv_heads * h.head_dim},
        {"attention.taps", "attn_sconv.conv1d.weight", "attn_sconv.weight", c->dim},
        {"ffn.taps", "mlp_sconv.conv1d.weight", "mlp_sconv.weight", c->dim},
    };
    float of_mlp, of_router; /* factors of the whole output of a feed-forward or mixture */
    if (read_number(context, l, "mlp.global_scale", &of_mlp, error) != STATUS_OK ||
        read_number(context, l, "mlp.gate.global_scale", &of_router, error) != STATUS_OK ||
        add_profiles(context, l, error) != STATUS_OK)
        return STATUS_FAILED;
    for (size_t i = 0; i < sizeof taps / sizeof *taps; i++) {
        char name[128];
        const char *from = name_of(context, l, taps[i].new_name, taps[i].old_name, name);
        if (!from && i < 2 && c->stack == STACK_BLOCK_SUMS) continue; /* taps by row */
        float scale = i == 3 ? factor * of_mlp * of_router : factor;
        if (add_taps(context, l, taps[i].to, from ? from : name, taps[i].channels, false, scale,
                     error) != STATUS_OK)
            return STATUS_FAILED;
    }
    return STATUS_OK;
}

/* Adds the corrections of a mixture's scores: the experts that every token goes to have none. */
static Status add_correction(const RuleContext *context, uint32_t l, Error *error) {
    const Config *c = &context->source->config;
    size_t n = c->experts.count, routed = n - c->experts.always;
    char name[128];
    const char *from =
        name_of(context, l, "mlp.gate.e_score_correction_bias", "mlp.gate.bias", name);
    float *stored, *correction;
    if (!from) return STATUS_OK;
    if (rules_read(context, from, 1, routed, &stored, error) != STATUS_OK) return STATUS_FAILED;
    correction = calloc(n, sizeof *correction);
    if (correction) memcpy(correction, stored, routed * sizeof *stored);
    free(stored);
    snprintf(name, sizeof name, "layers.%u.router.correction", l);
    return source_add_values(context->source, name, 1, n, correction, error);
}

static Status inkling_more(const RuleContext *context, const json_t *json, Error *error) {
    (void)json;
    for (uint32_t l = 0; l < context->source->config.n_layers; l++)
        if (add_layer(context, l, 1.0f, error) != STATUS_OK ||
            add_correction(context, l, error) != STATUS_OK)
            return STATUS_FAILED;
    if (add_tokens(context, "token_embedding", "model.embed_tokens.weight", "model.embed.weight",
                   error) != STATUS_OK)
        return STATUS_FAILED;
    return add_tokens(context, "output", "lm_head.weight", "model.unembed.weight", error);
}

/* Adds the queries with which the layer reads sums: transformers counts attention's queries from
 * the second layer on. */
static Status add_queries(const RuleContext *context, uint32_t l, Error *error) {
    const Config *c = &context->source->config;
    size_t n = c->window[l] > 0 ? 1 : 3;
    uint32_t stored = stored_layer(c, l);
    char from[64], to[64];
    float *queries;
    if (l > 0) {
        snprintf(from, sizeof from, "model.attn_res.attn_queries.%u", stored - 1);
        snprintf(to, sizeof to, "layers.%u.attention.queries", l);
        if (rules_read(context, from, n, c->dim, &queries, error) != STATUS_OK ||
            source_add_values(context->source, to, n, c->dim, queries, error) != STATUS_OK)
            return STATUS_FAILED;
    }
    snprintf(from, sizeof from, "model.attn_res.mlp_queries.%u", stored);
    snprintf(to, sizeof to, "layers.%u.ffn.query", l);
    if (rules_read(context, from, 1, c->dim, &queries, error) != STATUS_OK) return STATUS_FAILED;
    return source_add_values(context->source, to, 1, c->dim, queries, error);
}

/* Adds what layer l of Inkling 2 computes of the file's tensors. */
static Status add_inkling2_layer(const RuleContext *context, uint32_t l, Error *error) {
    const Config *c = &context->source->config;
    const HeadShape h = config_heads(c, l);
    float kernel = (float)c->state.conv_kernel;
    size_t channels = (size_t)h.n_kv_heads * h.head_dim;
    char name[128];
    if (add_layer(context, l, 1.0f / sqrtf(kernel + 1.0f), error) != STATUS_OK ||
        add_queries(context, l, error) != STATUS_OK)
        return STATUS_FAILED;
    for (int i = 0; i < 2 && c->window[l] == 0; i++) {
        snprintf(name, sizeof name, FROM_LAYER "attn.%c_sconv.static_w", stored_layer(c, l),
                 "kv"[i]);
        if (add_taps(context, l, i ? "v.taps" : "k.taps", name, channels, true,
                     1.0f / sqrtf(2.0f * kernel + 1.0f), error) != STATUS_OK)
            return STATUS_FAILED;
    }
    return STATUS_OK;
}

static Status add_inkling2_tokens(const RuleContext *context, Error *error) {
    if (add_tokens(context, "token_embedding", "model.embed.weight", "model.embed.weight", error) !=
        STATUS_OK)
        return STATUS_FAILED;
    return add_tokens(context, "output", "model.unembed.weight", "model.unembed.weight", error);
}

static Status inkling2_more(const RuleContext *context, const json_t *json, Error *error) {
    (void)json;
    for (uint32_t l = 0; l < context->source->config.n_layers; l++)
        if (add_inkling2_layer(context, l, error) != STATUS_OK) return STATUS_FAILED;
    return add_inkling2_tokens(context, error);
}

/* Adds row `row` of one of the two tables of message queries, which have two rows for each of the
 * layers that loop. */
static Status add_message_query(const RuleContext *context, uint32_t l, const char *from,
                                uint32_t row, const char *to, Error *error) {
    const Config *c = &context->source->config;
    float *stored, *query;
    char name[64];
    if (rules_read(context, from, 2 * (size_t)c->loop_layers, c->dim, &stored, error) != STATUS_OK)
        return STATUS_FAILED;
    query = malloc(c->dim * sizeof *query);
    if (query) memcpy(query, stored + (size_t)row * c->dim, c->dim * sizeof *query);
    free(stored);
    snprintf(name, sizeof name, "layers.%u.messages.%s.query", l, to);
    return source_add_values(context->source, name, 1, c->dim, query, error);
}

#define MESSAGE_GATE(to, from)                                                                     \
    MATRIX("messages." to ".down", ".controllers." from ".down_weight", "adapter_rank",            \
           "2 * dim"),                                                                             \
        MATRIX("messages." to ".forget", ".controllers." from ".forget_weight", "dim",             \
               "adapter_rank"),                                                                    \
        MATRIX("messages." to ".gain", ".controllers." from ".gain_weight", "dim", "adapter_rank")

/* Adds the gates of messages of layer l, and the queries that make them. */
static Status add_messages(const RuleContext *context, uint32_t l, Error *error) {
    static const TensorRule gates[] = {MESSAGE_GATE("q", "attn"),
                                       MESSAGE_GATE("k", "k"),
                                       MESSAGE_GATE("v", "v"),
                                       MESSAGE_GATE("ffn", "mlp"),
                                       {0}};
    static const char queries[] = "model.middle_cycle_cross_pass_queries";
    static const char of_keys[] = "model.middle_cycle_cross_pass_kv_queries";
    uint32_t at = 2 * (l - context->source->config.loop_from);
    if (rules_apply_to_layer(context, gates, l, error) != STATUS_OK ||
        add_message_query(context, l, queries, at, "q", error) != STATUS_OK ||
        add_message_query(context, l, queries, at + 1, "ffn", error) != STATUS_OK ||
        add_message_query(context, l, of_keys, at, "k", error) != STATUS_OK)
        return STATUS_FAILED;
    return add_message_query(context, l, of_keys, at + 1, "v", error);
}

/* Adds the layers. The middle layers run several times, each time with the first run's weights. */
static Status inkling2_loop_more(const RuleContext *context, const json_t *json, Error *error) {
    static const TensorRule layer[] = {INKLING2_LAYER, {0}};
    const Config *c = &context->source->config;
    uint32_t like[CONFIG_MAX_LAYERS];
    char prefix[48];
    RuleContext at = *context;
    (void)json;
    at.layers = prefix;
    for (uint32_t l = 0; l < c->n_layers; l++) {
        uint32_t stored = stored_layer(c, l);
        bool loops = stored >= c->loop_from && stored < c->loop_from + c->loop_layers;
        like[l] = loops ? stored : l;
        if (like[l] != l) continue;
        snprintf(prefix, sizeof prefix, FROM_LAYER, stored);
        if (rules_apply_to_layer(&at, layer, l, error) != STATUS_OK ||
            add_inkling2_layer(&at, l, error) != STATUS_OK ||
            (loops && add_messages(&at, l, error) != STATUS_OK))
            return STATUS_FAILED;
    }
    if (add_inkling2_tokens(context, error) != STATUS_OK) return STATUS_FAILED;
    return source_repeat_layers(context->source, like, error);
}

const FamilyHook families_inkling[] = {
    {"inkling", .finish = inkling_finish, .more = inkling_more},
    {"inkling2", .finish = inkling2_finish, .more = inkling2_more},
    {"inkling2_loop", .finish = inkling2_loop_finish, .more = inkling2_loop_more},
    {0},
};
