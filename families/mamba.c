/* Mamba, Falcon Mamba, Mamba 2, and Jamba, some of whose layers attend. */
#include "families/shared.h"

static FamilyFinish jamba_finish;
static GgufFinish gguf_jamba_finish;
static FamilyFinish mamba_finish;
static GgufFinish gguf_mamba_finish;
static GgufMore gguf_mamba_more;
static FamilyFinish falcon_mamba_finish;
static FamilyMore falcon_mamba_more;
static FamilyFinish mamba2_finish;
static GgufFinish gguf_mamba2_finish;

/* The activation of the feed-forward is that of the convolution as well. */
static const FixedKey silu_fixed[] = {
    {"hidden_act", "\"silu\""},
    {0},
};

static const BiasRule pure_biases[] = {
    {MAMBA_IN, "use_bias", false},
    {" mamba.taps ", "use_conv_bias", true},
    {0},
};

static const TensorRule mamba_tensors[] = {
    EMBEDDING("model.embeddings"),
    NORM("attention_norm", ".norm"),
    MAMBA(".mixer."),
    NORM("final_norm", "model.norm_f"),
    OUTPUT("lm_head"),
    {0},
};

const Family families_mamba[] = {
    {
        .model_type = "jamba",
        .keys =
            KEYS(SIZE_KEYS(65536, 4096, 14336, 32, 32), KV_HEADS(8), HEAD_DIM(0), CONTEXT(262144),
                 {"rms_norm_eps", "norm_eps", 1e-6}, {"hidden_act", "activation", ACTIVATION_SILU},
                 {"num_local_experts|num_experts", "n_experts", 16},
                 {"num_experts_per_tok", "n_experts_used", 2},
                 {"intermediate_size", "expert_ffn_dim", 14336},
                 {"mamba_d_state", "state_key_dim", 16}, {"mamba_d_conv", "state_kernel", 4}),
        .fixed = silu_fixed,
        .biases = BIASES({" mamba.z mamba.x mamba.out ", "mamba_proj_bias", false},
                         {" mamba.taps ", "mamba_conv_bias", true}),
        .tensors =
            (const TensorRule[]){
                EMBEDDING("model.embed_tokens"),
                NORM("attention_norm", ".input_layernorm"),
                NORM("ffn_norm", ".pre_ff_layernorm"),
                SOME_ATTENTION,
                MAMBA(".mamba."),
                VECTOR("mamba.rank_norm", ".mamba.dt_layernorm.weight", "state_rank",
                       .optional = true),
                VECTOR("mamba.b_norm", ".mamba.b_layernorm.weight",
                       "state_key_heads * state_key_dim", .optional = true),
                VECTOR("mamba.c_norm", ".mamba.c_layernorm.weight",
                       "state_key_heads * state_key_dim", .optional = true),
                SOME_FFN(".feed_forward."),
                MATRIX("router", ".feed_forward.router.weight", "n_experts", "dim",
                       .optional = true),
                SOME_EXPERTS(".feed_forward.experts."),
                NORM("final_norm", "model.final_layernorm"),
                OUTPUT("lm_head"),
                {0},
            },
        .rope = {.none = true},
        .bos_id = 1,
        .eos_id = 2,
        .finish = jamba_finish,
        .gguf =
            (const GgufFamily[]){
                {
                    .architecture = "jamba",
                    .required = "ssm.conv_kernel ssm.inner_size ssm.state_size ssm.time_step_rank",
                    .tensors =
                        (const TensorRule[]){
                            EMBEDDING("token_embd"),
                            NORM("attention_norm", ".attn_norm"),
                            NORM("ffn_norm", ".ffn_norm"),
                            GGUF_SOME_ATTENTION,
                            GGUF_MAMBA,
                            GGUF_SOME_FFN_WEIGHTS,
                            GGUF_SOME_EXPERTS,
                            GGUF_END,
                            {0},
                        },
                    .finish = gguf_jamba_finish,
                },
                {0},
            },
    },
    {
        .model_type = "mamba",
        .set = SET({"n_heads", 1}, {"n_kv_heads", 1}, {"head_dim", 1}, {"ffn_dim", 1},
                   {"context", 1048576}, {"position", POSITION_NONE}),
        .keys = KEYS({"vocab_size", "vocab_size", 50280}, {"hidden_size", "dim", 768},
                     {"num_hidden_layers", "n_layers", 32}, {"state_size", "state_key_dim", 16},
                     {"conv_kernel", "state_kernel", 4}, {"layer_norm_epsilon", "norm_eps", 1e-5}),
        .fixed = silu_fixed,
        .biases = pure_biases,
        .tensors = mamba_tensors,
        .rope = {.none = true},
        .tied = true,
        .bos_id = 0,
        .eos_id = 0,
        .finish = mamba_finish,
        .gguf =
            (const GgufFamily[]){
                {
                    .architecture = "mamba",
                    .required = "ssm.conv_kernel ssm.inner_size ssm.state_size ssm.time_step_rank",
                    .tensors =
                        (const TensorRule[]){
                            EMBEDDING("token_embd"),
                            NORM("attention_norm", ".attn_norm"),
                            GGUF_MAMBA,
                            GGUF_END,
                            {0},
                        },
                    .finish = gguf_mamba_finish,
                    .more = gguf_mamba_more,
                },
                {0},
            },
    },
    {
        .model_type = "falcon_mamba",
        .set = SET({"n_heads", 1}, {"n_kv_heads", 1}, {"head_dim", 1}, {"ffn_dim", 1},
                   {"context", 1048576}, {"position", POSITION_NONE}),
        .keys = KEYS({"vocab_size", "vocab_size", 50280}, {"hidden_size", "dim", 768},
                     {"num_hidden_layers", "n_layers", 32}, {"state_size", "state_key_dim", 16},
                     {"conv_kernel", "state_kernel", 4}, {"layer_norm_epsilon", "norm_eps", 1e-5},
                     {"mixer_rms_eps", "state_norm_eps", 1e-6}),
        .fixed = silu_fixed,
        .biases = pure_biases,
        .tensors = mamba_tensors,
        .rope = {.none = true},
        .tied = true,
        .bos_id = 0,
        .eos_id = 0,
        .finish = falcon_mamba_finish,
        .more = falcon_mamba_more,
    },
    {
        .model_type = "mamba2",
        .set = SET({"n_heads", 1}, {"n_kv_heads", 1}, {"head_dim", 1}, {"ffn_dim", 1},
                   {"context", 1048576}, {"position", POSITION_NONE}),
        .keys = KEYS({"vocab_size", "vocab_size", 32768}, {"hidden_size", "dim", 4096},
                     {"num_hidden_layers", "n_layers", 64}, {"state_size", "state_key_dim", 128},
                     {"conv_kernel", "state_kernel", 4}, {"layer_norm_epsilon", "norm_eps", 1e-5},
                     {"num_heads", "state_heads", 128}, {"head_dim", "state_value_dim", 64},
                     {"n_groups", "state_key_heads", 8}),
        .fixed = silu_fixed,
        .biases = pure_biases,
        .tensors =
            (const TensorRule[]){
                EMBEDDING("model.embeddings"),
                NORM("attention_norm", ".norm"),
                MAMBA2(".mixer."),
                NORM("final_norm", "model.norm_f"),
                OUTPUT("lm_head"),
                {0},
            },
        .rope = {.none = true},
        .bos_id = 0,
        .eos_id = 2,
        .finish = mamba2_finish,
        .gguf =
            (const GgufFamily[]){
                {
                    .architecture = "mamba2",
                    .required = "ssm.conv_kernel ssm.inner_size ssm.state_size ssm.time_step_rank "
                                "ssm.group_count",
                    .tensors =
                        (const TensorRule[]){
                            EMBEDDING("token_embd"),
                            NORM("attention_norm", ".attn_norm"),
                            GGUF_MAMBA2,
                            GGUF_END,
                            {0},
                        },
                    .finish = gguf_mamba2_finish,
                },
                {0},
            },
    },
    {0},
};

/* Reads the channels of Mamba (`inner` where the key is there, else expand * dim) and the rank of
 * its steps ("auto": a sixteenth of dim). */
static Status read_mamba(const json_t *json, const char *inner, const char *expand,
                         const char *rank, Config *config, Error *error) {
    uint32_t times = 1;
    const char *text = json_text(json, rank);
    double least = ceil(config->dim / 16.0);
    if (family_state_read_whole(json, expand, 2, &times, error) != STATUS_OK) return STATUS_FAILED;
    if (family_state_read_whole(json, inner, (double)times * config->dim, &config->state.n_heads,
                                error) != STATUS_OK)
        return STATUS_FAILED;
    config->state.n_key_heads = config->state.value_dim = 1;
    if (text && strcmp(text, "auto") == 0) {
        config->state.dt_rank = (uint32_t)least;
        return STATUS_OK;
    }
    if (text) return error_set(error, "config.json: %s is '%.40s'", rank, text);
    return family_state_read_whole(json, rank, least, &config->state.dt_rank, error);
}

/* Every attn_layer_period-th layer attends, from attn_layer_offset on. */
static Status jamba_finish(const json_t *json, Config *config, Error *error) {
    double period = json_number(json, "attn_layer_period", 8);
    double offset = json_number(json, "attn_layer_offset", 4);
    if (!(period >= 1 && period <= 1e6 && offset >= 0 && offset < period) ||
        period != floor(period) || offset != floor(offset))
        return error_set(error, "config.json: attn_layer_period is %g, attn_layer_offset %g",
                         period, offset);
    for (uint32_t l = 0; l < config->n_layers; l++)
        config->layer_kind[l] =
            l % (uint32_t)period == (uint32_t)offset ? LAYER_ATTENTION : LAYER_MAMBA;
    if (config->experts.count == 1) config->experts.count = 0;
    config->position = POSITION_NONE;
    config->router.kind = ROUTER_SOFTMAX;
    return read_mamba(json, "", "mamba_expand", "mamba_dt_rank", config, error);
}

static void set_kinds(Config *config, LayerKindNumber kind) {
    for (uint32_t l = 0; l < config->n_layers; l++) {
        config->layer_kind[l] = kind;
        config->without_ffn[l] = 1;
    }
}

static Status mamba_finish(const json_t *json, Config *config, Error *error) {
    set_kinds(config, LAYER_MAMBA);
    return read_mamba(json, "intermediate_size", "expand", "time_step_rank", config, error);
}

static Status falcon_mamba_more(const RuleContext *context, const json_t *json, Error *error) {
    (void)json;
    return family_add_mamba_norms(context, error);
}

static Status falcon_mamba_finish(const json_t *json, Config *config, Error *error) {
    if (family_refuse_zero(json, "mixer_rms_eps", error) != STATUS_OK) return STATUS_FAILED;
    return mamba_finish(json, config, error);
}

static Status mamba2_finish(const json_t *json, Config *config, Error *error) {
    uint32_t expand = 1;
    set_kinds(config, LAYER_MAMBA2);
    if (family_state_no_step_limit(json, error) != STATUS_OK ||
        family_state_read_whole(json, "expand", 2, &expand, error) != STATUS_OK)
        return STATUS_FAILED;
    if ((uint64_t)expand * config->dim != (uint64_t)config->state.n_heads * config->state.value_dim)
        return error_set(
            error,
            "config.json: expand %u of hidden_size %u are not num_heads %u of head_dim "
            "%u",
            expand, config->dim, config->state.n_heads, config->state.value_dim);
    return STATUS_OK;
}

/* Reads the sizes of Mamba's states. */
static Status gguf_read_mamba(const GgufModel *m, Config *c) {
    gguf_model_uint(m, "ssm.conv_kernel", &c->state.conv_kernel);
    gguf_model_uint(m, "ssm.state_size", &c->state.key_dim);
    gguf_model_uint(m, "ssm.inner_size", &c->state.n_heads);
    gguf_model_uint(m, "ssm.time_step_rank", &c->state.dt_rank);
    c->state.n_key_heads = c->state.value_dim = 1;
    c->position = POSITION_NONE;
    return STATUS_OK;
}

static Status gguf_jamba_finish(const GgufModel *m, Config *c) {
    if (c->experts.count == 1) c->experts.count = 0;
    if (gguf_kinds_by_heads(m, c, LAYER_ATTENTION, LAYER_MAMBA) != STATUS_OK) return STATUS_FAILED;
    return gguf_read_mamba(m, c);
}

/* Layers without attention and without a feed-forward, whose sizes are then of no use. */
static void gguf_pure_layers(Config *c, LayerKindNumber kind) {
    c->n_heads = c->n_kv_heads = c->head_dim = c->ffn_dim = 1;
    c->position = POSITION_NONE;
    for (uint32_t l = 0; l < c->n_layers && l < CONFIG_MAX_LAYERS; l++) {
        c->layer_kind[l] = kind;
        c->without_ffn[l] = 1;
    }
}

static Status gguf_mamba2_finish(const GgufModel *m, Config *c) {
    gguf_pure_layers(c, LAYER_MAMBA2);
    return gguf_read_state(m, c);
}

/* Falcon Mamba has norms without weights, whose epsilon no key gives. */
static Status gguf_mamba_finish(const GgufModel *m, Config *c) {
    bool has_norms = false;
    gguf_model_bool(m, "ssm.dt_b_c_rms", &has_norms);
    if (has_norms) c->state.norm_eps = 1e-6f;
    if (has_norms) snprintf(c->family, sizeof c->family, "falcon_mamba");
    gguf_pure_layers(c, LAYER_MAMBA);
    return gguf_read_mamba(m, c);
}

static Status gguf_mamba_more(GgufModel *m) {
    const RuleContext context = {.source = m->source, .table = &m->table, .layers = GGUF_LAYERS};
    bool has_norms = false;
    gguf_model_bool(m, "ssm.dt_b_c_rms", &has_norms);
    return has_norms ? family_add_mamba_norms(&context, m->error) : STATUS_OK;
}
