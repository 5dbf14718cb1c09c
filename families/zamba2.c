/* Zamba 2: Mamba 2, and blocks of attention that layers share; and Zamba, with Mamba instead. */
#include "families/shared.h"

/* The layers of both families: plain ones, and those with a shared block. */
static bool has_block(const Config *config, uint32_t layer) {
    uint32_t kind = config->layer_kind[layer];
    return kind == LAYER_SHARED || kind == LAYER_SHARED_MAMBA;
}

/* Reads the kinds of the layers, where config.json has them. */
static Status read_block_types(const json_t *json, LayerKindNumber plain, LayerKindNumber shared,
                               bool *present, Config *config, Error *error) {
    const KindName names[] = {
        {"mamba", plain}, {"linear_attention", plain}, {"hybrid", shared}, {0}};
    const json_t *types = json_value(json, "layers_block_type");
    if (!types) types = json_value(json, "layer_types");
    *present = types;
    if (!types) return STATUS_OK;
    if (json_array_size(types) != config->n_layers)
        return error_set(error, "config.json: layers_block_type is not a list of %u layers",
                         config->n_layers);
    return family_state_read_kinds(types, names, config, error);
}

/* What follows from the kinds. Where embeddings are not tied, transformers ties no blocks either:
 * each layer has a block of its own. */
static void count_blocks(const json_t *json, Config *config) {
    uint32_t n_shared = 0;
    for (uint32_t l = 0; l < config->n_layers; l++) {
        config->without_ffn[l] = 1;
        n_shared += has_block(config, l);
    }
    if (!json_switch(json, "tie_word_embeddings", true) && config->shared_blocks > 0 &&
        n_shared > 0)
        config->shared_blocks = n_shared;
}

/* ---- Zamba 2 ---- */

/* The kinds of the layers; without layers_block_type, Zamba2-2.7B's. */
static Status zamba2_kinds(const json_t *json, Config *config, Error *error) {
    bool present;
    if (read_block_types(json, LAYER_MAMBA2, LAYER_SHARED, &present, config, error) != STATUS_OK)
        return STATUS_FAILED;
    if (!present && config->n_layers != 54)
        return error_set(error, "config.json: layers_block_type is missing");
    for (uint32_t l = 0; l < config->n_layers && !present; l++) {
        bool is_shared = (l > 0 && l % 6 == 0 && l <= 42) || l == 47 || l == 51;
        config->layer_kind[l] = is_shared ? LAYER_SHARED : LAYER_MAMBA2;
    }
    count_blocks(json, config);
    return STATUS_OK;
}

/* Heads of the blocks, whose input is twice as wide as the residual stream, and of the states. */
static Status zamba2_finish(const json_t *json, Config *config, Error *error) {
    uint32_t expand = 1;
    uint64_t wide = 2 * (uint64_t)config->dim;
    double width = (double)(wide / config->n_heads);
    if (wide % config->n_heads != 0 || width < 2 ||
        json_number(json, "attention_head_dim", width) != width)
        return error_set(error,
                         "config.json: attention_head_dim is not twice hidden_size %u, "
                         "divided by num_attention_heads %u",
                         config->dim, config->n_heads);
    if (family_state_read_whole(json, "mamba_expand", 2, &expand, error) != STATUS_OK)
        return STATUS_FAILED;
    uint64_t inner = (uint64_t)expand * config->dim;
    if (config->state.n_heads == 0 || inner % config->state.n_heads != 0 || inner > 1 << 24)
        return error_set(error, "config.json: n_mamba_heads %u, mamba_expand %u",
                         config->state.n_heads, expand);
    config->state.value_dim = (uint32_t)(inner / config->state.n_heads);
    config->head_dim = (uint32_t)width;
    config->attention_scale = (float)(1.0 / sqrt(width / 2));
    if (config->ffn_dim == 0) config->ffn_dim = config->dim > 1 << 18 ? 0 : 4 * config->dim;
    return zamba2_kinds(json, config, error);
}

/* Applies rules[n] to one layer's names: each `from` follows `prefix`, each `to` follows `at`,
 * after the "- " that stands for a part before it. */
static Status apply_named(const RuleContext *context, const TensorRule *rules, const char *prefix,
                          const char *at, Error *error) {
    Status status = STATUS_OK;
    for (; rules->to && status == STATUS_OK; rules++) {
        char from[160], to[MODELFILE_NAME_BYTES];
        TensorRule one[2] = {*rules, {0}};
        snprintf(from, sizeof from, "%s%s", prefix, rules->from);
        const char *skip = strncmp(rules->to, "- ", 2) == 0 ? "- " : "";
        snprintf(to, sizeof to, "%s%s%s", skip, at, rules->to + strlen(skip));
        one[0].from = from;
        one[0].to = to;
        status = rules_apply(context, one, error);
    }
    return status;
}

/* Adds the tensors of a shared block from the first layer that uses it. */
static Status zamba2_block(const RuleContext *context, const json_t *json, uint32_t layer,
                           uint32_t block, Error *error) {
    static const TensorRule rules[] = {
        VECTOR("norm", "input_layernorm.weight", "2 * dim"),
        MATRIX("wq", "self_attn.q_proj.weight", "n_heads * head_dim", "2 * dim"),
        MATRIX("wk", "self_attn.k_proj.weight", "n_kv_heads * head_dim", "2 * dim"),
        MATRIX("wv", "self_attn.v_proj.weight", "n_kv_heads * value_dim", "2 * dim"),
        MATRIX("wo", "self_attn.o_proj.weight", "dim", "n_heads * value_dim"),
        VECTOR("ffn_norm", "pre_ff_layernorm.weight", "dim"),
        MATRIX("w_gate -", "feed_forward.gate_up_proj.weight", "ffn_dim + ffn_dim", "dim"),
        MATRIX("- w_up", "feed_forward.gate_up_proj.weight", "ffn_dim + ffn_dim", "dim"),
        MATRIX("w_down", "feed_forward.down_proj.weight", "dim", "ffn_dim"),
        {0}};
    static const TensorRule biases[] = {
        VECTOR("w_gate.bias -", "feed_forward.gate_up_proj.bias", "ffn_dim + ffn_dim"),
        VECTOR("- w_up.bias", "feed_forward.gate_up_proj.bias", "ffn_dim + ffn_dim"),
        VECTOR("w_down.bias", "feed_forward.down_proj.bias", "dim"),
        {0}};
    char prefix[80], at[32];
    snprintf(prefix, sizeof prefix, "model.layers.%u.shared_transformer.", layer);
    snprintf(at, sizeof at, "blocks.%u.", block);
    Status status = apply_named(context, rules, prefix, at, error);
    if (status == STATUS_OK && json_flag(json, "add_bias_linear", false))
        status = apply_named(context, biases, prefix, at, error);
    return status;
}

/* The adapters of the use-th layer with a block, which are lists in the layer `first` that holds
 * the block. */
static Status zamba2_adapters(const RuleContext *context, const json_t *json, uint32_t layer,
                              uint32_t first, uint32_t use, Error *error) {
    static const struct {
        const char *list;
        TensorRule rules[4];
    } parts[] = {
        {"self_attn.linear_q_adapter_list",
         {MATRIX("q.in", "0.weight", "adapter_rank", "2 * dim"),
          MATRIX("q.out", "1.weight", "n_heads * head_dim", "adapter_rank")}},
        {"self_attn.linear_k_adapter_list",
         {MATRIX("k.in", "0.weight", "adapter_rank", "2 * dim"),
          MATRIX("k.out", "1.weight", "n_kv_heads * head_dim", "adapter_rank")}},
        {"self_attn.linear_v_adapter_list",
         {MATRIX("v.in", "0.weight", "adapter_rank", "2 * dim"),
          MATRIX("v.out", "1.weight", "n_kv_heads * value_dim", "adapter_rank")}},
        {"feed_forward.gate_up_proj_adapter_list",
         {MATRIX("ffn.in", "0.weight", "adapter_rank", "dim"),
          MATRIX("gate.out -", "1.weight", "ffn_dim + ffn_dim", "adapter_rank"),
          MATRIX("- up.out", "1.weight", "ffn_dim + ffn_dim", "adapter_rank")}},
    };
    bool of_attention = json_flag(json, "use_shared_attention_adapter", false);
    Status status = STATUS_OK;
    for (size_t i = of_attention ? 0 : 3; i < 4 && status == STATUS_OK; i++) {
        char prefix[128], at[48];
        snprintf(prefix, sizeof prefix, "model.layers.%u.shared_transformer.%s.%u.", first,
                 parts[i].list, use);
        snprintf(at, sizeof at, "layers.%u.adapter.", layer);
        status = apply_named(context, parts[i].rules, prefix, at, error);
    }
    return status;
}

/* Ignores copies of a block and of its adapters that a file holds for its later uses, as
 * transformers does. */
static void ignore_copies(const RuleContext *context, uint32_t layer, const char *block) {
    char prefix[128];
    size_t n = (size_t)snprintf(prefix, sizeof prefix, "%.80slayers.%u.%s.",
                                context->prefix ? context->prefix : "model.", layer, block);
    for (size_t i = 0; i < context->table->n; i++)
        if (strncmp(context->table->items[i].name, prefix, n) == 0)
            context->table->items[i].used = true;
}

/* Adds the shared blocks, each from the first layer that uses it, and the adapters of each use. */
static Status zamba2_more(const RuleContext *context, const json_t *json, Error *error) {
    const Config *c = &context->source->config;
    uint32_t first[CONFIG_MAX_LAYERS], use = 0;
    Status status = STATUS_OK;
    for (uint32_t l = 0; l < c->n_layers && status == STATUS_OK; l++) {
        char norm[96];
        bool is_shared = has_block(c, l);
        snprintf(norm, sizeof norm, "model.layers.%u.%sinput_layernorm.weight", l,
                 is_shared ? "mamba_decoder." : "");
        if (!rules_find(context, norm))
            return error_set(error, "%s: tensor '%s' is missing", context->source->path, norm);
        if (!is_shared) continue;
        uint32_t block = use % c->shared_blocks;
        if (use < c->shared_blocks) {
            first[use] = l;
            status = zamba2_block(context, json, l, block, error);
        }
        if (status == STATUS_OK)
            status = zamba2_adapters(context, json, l, first[block], use, error);
        ignore_copies(context, l, "shared_transformer");
        use++;
    }
    return status;
}

/* ---- Zamba ---- */

/* The kinds of the layers: without layers_block_type the third layer has a block, and after it
 * every attn_layer_period-th, from attn_layer_offset on. */
static Status zamba_kinds(const json_t *json, Config *config, Error *error) {
    bool present;
    double period = json_number(json, "attn_layer_period", 6);
    double offset = json_number(json, "attn_layer_offset", 4);
    if (read_block_types(json, LAYER_MAMBA, LAYER_SHARED_MAMBA, &present, config, error) !=
        STATUS_OK)
        return STATUS_FAILED;
    if (!present &&
        (config->n_layers < 3 || !(period >= 1 && period <= 1e6 && offset >= 0 && offset <= 1e6) ||
         period != floor(period) || offset != floor(offset)))
        return error_set(error,
                         "config.json: attn_layer_period is %g, attn_layer_offset %g, with %u "
                         "layers",
                         period, offset, config->n_layers);
    for (uint32_t l = 0; l < config->n_layers && !present; l++) {
        bool is_shared = l == 2 || (l > 2 && (l - 3) % (uint32_t)period == (uint32_t)offset);
        config->layer_kind[l] = is_shared ? LAYER_SHARED_MAMBA : LAYER_MAMBA;
    }
    count_blocks(json, config);
    return STATUS_OK;
}

/* The heads of the blocks, whose input is twice as wide as the residual stream, and Mamba's. */
static Status zamba_finish(const json_t *json, Config *config, Error *error) {
    uint32_t expand = 1, rank = 1, n_heads = 1;
    uint64_t wide = 2 * (uint64_t)config->dim;
    const char *text = json_text(json, "mamba_dt_rank");
    double given = json_number(json, "head_dim", json_number(json, "attention_head_dim", 0));
    if (json_number(json, "attention_hidden_size", (double)wide) != (double)wide)
        return error_set(error, "config.json: attention_hidden_size is not twice hidden_size %u",
                         config->dim);
    if (text && strcmp(text, "auto") != 0)
        return error_set(error, "config.json: mamba_dt_rank is '%.40s'", text);
    if (family_state_read_whole(json, "mamba_expand", 2, &expand, error) != STATUS_OK ||
        family_state_read_whole(json, "n_mamba_heads", 2, &n_heads, error) != STATUS_OK ||
        (!text && family_state_read_whole(json, "mamba_dt_rank", ceil(config->dim / 16.0), &rank,
                                          error) != STATUS_OK))
        return STATUS_FAILED;
    uint64_t inner = (uint64_t)expand * config->dim;
    if (inner % n_heads != 0 || inner > 1 << 24)
        return error_set(error, "config.json: n_mamba_heads %u, mamba_expand %u", n_heads, expand);
    if (given == 0) config->head_dim = (uint32_t)(wide / config->n_heads);
    config->attention_scale = (float)(1.0 / sqrt(config->head_dim / 2.0));
    config->state.n_heads = (uint32_t)inner;
    config->state.n_key_heads = n_heads;
    config->state.value_dim = 1;
    config->state.dt_rank = text ? (uint32_t)ceil(config->dim / 16.0) : rank;
    return zamba_kinds(json, config, error);
}

/* The tensors of a layer's Mamba. The rows of a channel, its input and its gate, are neighbours. */
#define ZAMBA_MAMBA(at)                                                                            \
    LINEAR("mamba.x -", at "in_proj", "state_heads + state_heads", "dim", .by = "state_heads"),    \
        LINEAR("- mamba.z", at "in_proj", "state_heads + state_heads", "dim",                      \
               .by = "state_heads"),                                                               \
        TABLE("mamba.taps", at "conv1d.weight", "state_kernel", "state_heads",                     \
              .turned = TURNED_ALWAYS),                                                            \
        VECTOR("mamba.taps.bias", at "conv1d.bias", "state_heads", .optional = true),              \
        VECTOR("mamba.step_bias", at "dt_proj_bias", "state_heads"),                               \
        VECTOR("mamba.skip", at "D", "state_heads"),                                               \
        LINEAR("mamba.out", at "out_proj", "dim", "state_heads")

/* What each of its heads has: one, or several, whose tensors are stacked. */
#define ZAMBA_ONE_HEAD(at)                                                                         \
    MATRIX("mamba.rank mamba.b mamba.c", at "x_proj_weight",                                       \
           "state_rank + state_key_dim + state_key_dim", "state_group"),                           \
        MATRIX("mamba.step", at "dt_proj_weight", "state_group", "state_rank"),                    \
        TABLE("mamba.decay", at "A_log", "state_key_dim", "state_group", .turned = TURNED_ALWAYS,  \
              .values = VALUES_MINUS_EXP)
#define ZAMBA_EACH_HEAD(at)                                                                        \
    MATRIX("mamba.rank.%u mamba.b.%u mamba.c.%u", at "x_proj_weight",                              \
           "state_rank + state_key_dim + state_key_dim", "state_group", .each_head = true,         \
           .parts = "state_key_heads"),                                                            \
        MATRIX("mamba.step.%u", at "dt_proj_weight", "state_group", "state_rank",                  \
               .each_head = true, .parts = "state_key_heads"),                                     \
        TABLE("mamba.decay.%u", at "A_log", "state_group", "state_key_dim",                        \
              .turned = TURNED_ALWAYS, .values = VALUES_MINUS_EXP, .each_head = true,              \
              .parts = "state_key_heads")

/* Adds the tensors of a layer, without its block's. */
static Status zamba_layer(const RuleContext *context, uint32_t layer, Error *error) {
    static const TensorRule plain[] = {
        NORM("attention_norm", ".input_layernorm"), ZAMBA_MAMBA(".mamba."), {0}};
    static const TensorRule beside_block[] = {
        NORM("attention_norm", ".mamba_decoder.input_layernorm"),
        ZAMBA_MAMBA(".mamba_decoder.mamba."),
        MATRIX("block_out", ".linear.weight", "dim", "dim"),
        {0}};
    /* [beside a block][Mamba has several heads] */
    static const TensorRule heads[2][2][4] = {
        {{ZAMBA_ONE_HEAD(".mamba.")}, {ZAMBA_EACH_HEAD(".mamba.")}},
        {{ZAMBA_ONE_HEAD(".mamba_decoder.mamba.")}, {ZAMBA_EACH_HEAD(".mamba_decoder.mamba.")}}};
    const Config *c = &context->source->config;
    bool block = has_block(c, layer);
    if (rules_apply_to_layer(context, block ? beside_block : plain, layer, error) != STATUS_OK)
        return STATUS_FAILED;
    return rules_apply_to_layer(context, heads[block][c->state.n_key_heads > 1], layer, error);
}

/* Adds the tensors of each layer, and each shared block's tensors from the first layer that uses
 * it; the copies that later layers list are ignored. */
static Status zamba_more(const RuleContext *context, const json_t *json, Error *error) {
    static const TensorRule rules[] = {
        VECTOR("norm", "input_layernorm.weight", "2 * dim"),
        MATRIX("wq", "self_attn.q_proj.weight", "n_heads * head_dim", "2 * dim"),
        MATRIX("wk", "self_attn.k_proj.weight", "n_kv_heads * head_dim", "2 * dim"),
        MATRIX("wv", "self_attn.v_proj.weight", "n_kv_heads * head_dim", "2 * dim"),
        MATRIX("wo", "self_attn.o_proj.weight", "dim", "n_heads * head_dim"),
        VECTOR("ffn_norm", "pre_ff_layernorm.weight", "dim"),
        MATRIX("w_gate", "feed_forward.gate_proj.weight", "ffn_dim", "dim"),
        MATRIX("w_up", "feed_forward.up_proj.weight", "ffn_dim", "dim"),
        MATRIX("w_down", "feed_forward.down_proj.weight", "dim", "ffn_dim"),
        {0}};
    const Config *c = &context->source->config;
    Status status = STATUS_OK;
    uint32_t use = 0;
    (void)json;
    for (uint32_t l = 0; l < c->n_layers && status == STATUS_OK; l++) {
        status = zamba_layer(context, l, error);
        if (!has_block(c, l)) continue;
        char prefix[80], at[32];
        snprintf(prefix, sizeof prefix, "model.layers.%u.shared_transf.", l);
        snprintf(at, sizeof at, "blocks.%u.", use);
        if (status == STATUS_OK && use < c->shared_blocks)
            status = apply_named(context, rules, prefix, at, error);
        ignore_copies(context, l, "shared_transf");
        use++;
    }
    return status;
}

const FamilyHook families_zamba2[] = {
    {"zamba2", .finish = zamba2_finish, .more = zamba2_more},
    {"zamba", .finish = zamba_finish, .more = zamba_more},
    {0},
};
