/* LFM2 and LFM3: short convolutions beside attention. */
#include "families/shared.h"

static GgufFinish gguf_convolution_kinds;

static FamilyFinish lfm3_finish;
static FamilyMore lfm3_more;
static FamilyFinish lfm2_finish;
static FamilyFinish lfm2_moe_finish;

static const BiasRule lfm2_biases[] = {
    {" convolution.b convolution.c convolution.x convolution.out convolution.taps ", "conv_bias",
     false},
    {0},
};

#define LFM2_ATTENTION                                                                             \
    SOME_QKV, LINEAR("wo", ".self_attn.out_proj", "dim", "n_heads * value_dim", .optional = true), \
        VECTOR("q_norm", ".self_attn.q_layernorm.weight", "head_dim", .optional = true),           \
        VECTOR("k_norm", ".self_attn.k_layernorm.weight", "head_dim", .optional = true)

/* A layer has a convolution or attention, and a feed-forward or experts. */
#define CONVOLUTION_AND_FFN                                                                        \
    LINEAR("convolution.b convolution.c convolution.x", ".conv.in_proj", "dim + dim + dim", "dim", \
           .optional = true),                                                                      \
        LINEAR("convolution.out", ".conv.out_proj", "dim", "dim", .optional = true),               \
        TABLE("convolution.taps", ".conv.conv.weight", "state_kernel", "dim",                      \
              .turned = TURNED_ALWAYS, .optional = true),                                          \
        VECTOR("convolution.taps.bias", ".conv.conv.bias", "dim", .optional = true),               \
        MATRIX("w_gate", ".feed_forward.w1.weight", "ffn_dim", "dim", .optional = true),           \
        MATRIX("w_up", ".feed_forward.w3.weight", "ffn_dim", "dim", .optional = true),             \
        MATRIX("w_down", ".feed_forward.w2.weight", "dim", "ffn_dim", .optional = true)

static const TensorRule gguf_lfm2_tensors[] = {
    EMBEDDING("token_embd"),
    NORM("attention_norm", ".attn_norm"),
    NORM("ffn_norm", ".ffn_norm"),
    GGUF_SOME_ATTENTION,
    VECTOR("q_norm", ".attn_q_norm.weight", "head_dim", .optional = true),
    VECTOR("k_norm", ".attn_k_norm.weight", "head_dim", .optional = true),
    LINEAR("convolution.b convolution.c convolution.x", ".shortconv.in_proj", "dim + dim + dim",
           "dim", .optional = true),
    LINEAR("convolution.out", ".shortconv.out_proj", "dim", "dim", .optional = true),
    TABLE("convolution.taps", ".shortconv.conv.weight", "state_kernel", "dim",
          .turned = TURNED_ALWAYS, .optional = true),
    VECTOR("convolution.taps.bias", ".shortconv.conv.bias", "dim", .optional = true),
    GGUF_SOME_FFN_WEIGHTS,
    GGUF_SOME_EXPERTS,
    CORRECTION(".exp_probs_b.bias"),
    NORM("final_norm", "token_embd_norm"),
    OUTPUT("output"),
    {0},
};

const Family families_lfm2[] = {
    {
        .model_type = "lfm3",
        .set = SET({"rope_theta", 1e6}, {"qk_norm", QK_NORM_HEAD}),
        .keys =
            KEYS(SIZE_KEYS(128000, 2048, 7680, 24, 16), KV_HEADS(4), HEAD_DIM(128), CONTEXT(128000),
                 {"norm_eps|rms_norm_eps", "norm_eps", 1e-5}, {"conv_L_cache", "state_kernel", 7}),
        .biases =
            BIASES({QKVO, "attention_bias", false},
                   {" convolution.b convolution.c convolution.x convolution.out convolution.taps ",
                    "conv_bias", false}),
        .tensors =
            (const TensorRule[]){
                EMBEDDING("model.embed_tokens"),
                NORM("attention_norm", ".operator_norm"),
                NORM("ffn_norm", ".ffn_norm"),
                SOME_ATTENTION,
                VECTOR("q_norm", ".self_attn.q_norm.weight", "head_dim", .optional = true),
                VECTOR("k_norm", ".self_attn.k_norm.weight", "head_dim", .optional = true),
                CONVOLUTION_AND_FFN,
                NORM("final_norm", "model.embedding_norm"),
                OUTPUT("lm_head"),
                {0},
            },
        .rope = {.absent = "{\"rope_type\": \"proportional\", \"partial_rotary_factor\": 0.5, "
                           "\"rope_theta\": 1000000}",
                 .local_theta = 10000,
                 .local_theta_key = "sliding_attention.rope_theta",
                 .local_theta_given = 1e6},
        .tied = true,
        .bos_id = 124894,
        .eos_id = 124900,
        .finish = lfm3_finish,
        .more = lfm3_more,
    },
    {
        .model_type = "lfm2",
        .set = SET({"rope_theta", 1e6}, {"qk_norm", QK_NORM_HEAD}),
        .keys = KEYS(SIZES_WITHOUT_FFN(65536, 2560, 32, 32),
                     {"block_ff_dim|intermediate_size", "ffn_dim", 12288}, KV_HEADS(8), HEAD_DIM(0),
                     CONTEXT(128000), {"norm_eps", "norm_eps", 1e-5},
                     {"conv_L_cache", "state_kernel", 3}),
        .biases = lfm2_biases,
        .tensors =
            (const TensorRule[]){
                EMBEDDING("model.embed_tokens"),
                NORM("attention_norm", ".operator_norm"),
                NORM("ffn_norm", ".ffn_norm"),
                LFM2_ATTENTION,
                CONVOLUTION_AND_FFN,
                NORM("final_norm", "model.embedding_norm"),
                OUTPUT("lm_head"),
                {0},
            },
        .tied = true,
        .tied_key = "tie_embedding",
        .bos_id = 1,
        .eos_id = 2,
        .finish = lfm2_finish,
        .gguf =
            (const GgufFamily[]){
                {
                    .architecture = "lfm2",
                    .required = "shortconv.l_cache",
                    .set = SET({"qk_norm", QK_NORM_HEAD}, {"router", ROUTER_SIGMOID_SCORES},
                               {"router_normalize", 1}),
                    .keys = GGUF_KEYS({"shortconv.l_cache", "state_kernel"}),
                    .tensors = gguf_lfm2_tensors,
                    .finish = gguf_convolution_kinds,
                },
                {0},
            },
    },
    {
        .model_type = "lfm2_moe",
        .set =
            SET({"rope_theta", 1e6}, {"qk_norm", QK_NORM_HEAD}, {"router", ROUTER_SIGMOID_SCORES}),
        .keys = KEYS(
            SIZE_KEYS(65536, 2048, 7168, 32, 32), KV_HEADS(8), HEAD_DIM(0), CONTEXT(128000),
            {"num_experts", "n_experts", 32}, {"num_experts_per_tok", "n_experts_used", 4},
            {"moe_intermediate_size", "expert_ffn_dim", 1792},
            {"norm_topk_prob", "router_normalize", 1}, {"routed_scaling_factor", "router_scale", 1},
            {"norm_eps", "norm_eps", 1e-5}, {"conv_L_cache", "state_kernel", 3}),
        .biases = lfm2_biases,
        .tensors =
            (const TensorRule[]){
                EMBEDDING("model.embed_tokens"),
                NORM("attention_norm", ".operator_norm"),
                NORM("ffn_norm", ".ffn_norm"),
                LFM2_ATTENTION,
                CONVOLUTION_AND_FFN,
                MATRIX("router", ".feed_forward.gate.weight", "n_experts", "dim", .optional = true),
                CORRECTION(".feed_forward.expert_bias"),
                SOME_W123_EXPERTS(".feed_forward.experts."),
                NORM("final_norm", "model.embedding_norm"),
                OUTPUT("lm_head"),
                {0},
            },
        .tied = true,
        .tied_key = "tie_embedding",
        .bos_id = 1,
        .eos_id = 2,
        .finish = lfm2_moe_finish,
        .gguf =
            (const GgufFamily[]){
                {
                    .architecture = "lfm2moe",
                    .required = "shortconv.l_cache",
                    .set = SET({"qk_norm", QK_NORM_HEAD}, {"router", ROUTER_SIGMOID_SCORES},
                               {"router_normalize", 1}),
                    .keys = GGUF_KEYS({"shortconv.l_cache", "state_kernel"}),
                    .tensors = gguf_lfm2_tensors,
                    .finish = gguf_convolution_kinds,
                },
                {0},
            },
    },
    {0},
};

/* What two switches add. transformers calls the gate g_proj. */
static const TensorRule lfm3_gate[] = {
    MATRIX("attention_gate", ".self_attn.gate_proj.weight", "n_heads", "dim", .optional = true),
    MATRIX("attention_gate", ".self_attn.g_proj.weight", "n_heads", "dim", .optional = true),
    {0},
};

static const TensorRule lfm3_sandwich[] = {
    NORM("post_attention_norm", ".post_operator_norm"),
    NORM("post_ffn_norm", ".post_ffn_norm"),
    {0},
};

/* Layers are convolutions, or attend to everything or to a window; the latter two have a RoPE table
 * each. */
static Status lfm3_finish(const json_t *json, Config *config, Error *error) {
    static const KindName names[] = {{"conv", LAYER_CONVOLUTION},
                                     {"full_attention", LAYER_ATTENTION},
                                     {"sliding_attention", LAYER_ATTENTION},
                                     {0}};
    const json_t *types = json_value(json, "layer_types");
    uint32_t window = 0;
    bool slides_any = false;
    if (types && family_state_read_kinds(types, names, config, error) != STATUS_OK)
        return STATUS_FAILED;
    for (uint32_t l = 0; l < config->n_layers; l++) {
        const char *type = types                 ? json_string_value(json_array_get(types, l))
                           : l % 4 == 2          ? "full_attention"
                           : l % 4 == 0 && l > 0 ? "sliding_attention"
                                                 : "conv";
        bool slides = strcmp(type, "sliding_attention") == 0;
        if (slides && !slides_any &&
            family_state_read_whole(json, "sliding_window", 256, &window, error) != STATUS_OK)
            return STATUS_FAILED;
        slides_any = slides_any || slides;
        config->layer_kind[l] = strcmp(type, "conv") == 0 ? LAYER_CONVOLUTION : LAYER_ATTENTION;
        config->window[l] = slides ? window : 0;
        config->rope_table[l] = slides;
    }
    if (json_switch(json, "use_sandwich_norm", true)) config->norm_place = NORM_AROUND;
    return STATUS_OK;
}

static Status lfm3_more(const RuleContext *context, const json_t *json, Error *error) {
    if (json_switch(json, "use_attention_gate", true) &&
        rules_apply(context, lfm3_gate, error) != STATUS_OK)
        return STATUS_FAILED;
    if (context->source->config.norm_place != NORM_AROUND) return STATUS_OK;
    return rules_apply(context, lfm3_sandwich, error);
}

static const KindName lfm2_kinds[] = {{"conv", LAYER_CONVOLUTION},
                                      {"full_attention", LAYER_ATTENTION},
                                      {"attention", LAYER_ATTENTION},
                                      {0}};

/* The width of the feed-forward is two thirds of the key's, then multiplied and rounded up. */
static Status lfm2_ffn(const json_t *json, Config *config, Error *error) {
    uint32_t multiple = 1;
    double times = json_number(json, "block_ffn_dim_multiplier", 1.0);
    if (!json_switch(json, "block_auto_adjust_ff_dim", true)) return STATUS_OK;
    if (family_state_read_whole(json, "block_multiple_of", 256, &multiple, error) != STATUS_OK)
        return STATUS_FAILED;
    if (!(times > 0 && times < 1e3))
        return error_set(error, "config.json: block_ffn_dim_multiplier is %g", times);
    double width = floor(2.0 * config->ffn_dim / 3.0);
    const json_t *multiplier = json_object_get(json, "block_ffn_dim_multiplier");
    if (!json_is_null(multiplier)) width = multiple * ceil(floor(times * width) / multiple);
    if (!(width <= 1 << 20)) return error_set(error, "config.json: the feed-forward is too wide");
    config->ffn_dim = (uint32_t)width;
    return STATUS_OK;
}

/* Without layer_types the layers of full_attn_idxs attend; without both, all. */
static Status lfm2_finish(const json_t *json, Config *config, Error *error) {
    const json_t *types = json_value(json, "layer_types"), *item;
    const json_t *attending = json_value(json, "full_attn_idxs");
    size_t i;
    if (lfm2_ffn(json, config, error) != STATUS_OK) return STATUS_FAILED;
    if (types) return family_state_read_kinds(types, lfm2_kinds, config, error);
    for (uint32_t l = 0; l < config->n_layers; l++)
        config->layer_kind[l] = attending ? LAYER_CONVOLUTION : LAYER_ATTENTION;
    json_array_foreach((json_t *)attending, i, item) {
        json_int_t layer = json_integer_value(item);
        if (layer >= 0 && layer < config->n_layers) config->layer_kind[layer] = LAYER_ATTENTION;
    }
    return STATUS_OK;
}

static Status lfm2_moe_finish(const json_t *json, Config *config, Error *error) {
    config->activation = ACTIVATION_SILU;
    return family_state_read_kinds(json_value(json, "layer_types"), lfm2_kinds, config, error);
}

static Status gguf_convolution_kinds(const GgufModel *m, Config *c) {
    return gguf_kinds_by_heads(m, c, LAYER_ATTENTION, LAYER_CONVOLUTION);
}
