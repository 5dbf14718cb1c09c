/* The text half of Llama 4: chunks of positions, layers without RoPE, a shared expert. */
#include "families/shared.h"

static FamilyFinish llama4_finish;
static GgufFinish gguf_llama4_finish;

const Family families_llama4[] = {
    {
        .model_type = "llama4_text",
        .set = SET({"rope_pairing", ROPE_INTERLEAVED}, {"rope_theta", 500000},
                   {"router", ROUTER_SIGMOID_SCORES}, {"share_on_input", 1}),
        .keys = KEYS(
            SIZES_WITHOUT_FFN(202048, 5120, 48, 40), KV_HEADS(8), HEAD_DIM(128), CONTEXT(131072),
            {"rms_norm_eps", "norm_eps", 1e-5}, {"hidden_act", "activation", ACTIVATION_SILU},
            {"num_local_experts", "n_experts", 16}, {"num_experts_per_tok", "n_experts_used", 1},
            {"intermediate_size", "expert_ffn_dim", 8192},
            {"intermediate_size", "shared_ffn_dim", 8192},
            {"intermediate_size_mlp", "ffn_dim", 16384}),
        .biases = BIASES({QKVO, "attention_bias", false}),
        .tensors =
            (const TensorRule[]){
                EMBEDDING("model.embed_tokens"),
                LLAMA_NORMS,
                LLAMA_ATTENTION,
                SOME_FFN(".feed_forward."),
                MATRIX("router", ".feed_forward.router.weight", "n_experts", "dim",
                       .optional = true),
                MATRIX("experts.%u.w_gate experts.%u.w_up", ".feed_forward.experts.gate_up_proj",
                       "expert_ffn_dim + expert_ffn_dim", "dim", .turned = TURNED_ALWAYS,
                       .optional = true),
                MATRIX("experts.%u.w_down", ".feed_forward.experts.down_proj", "dim",
                       "expert_ffn_dim", .turned = TURNED_ALWAYS, .optional = true),
                SHARED_WEIGHTS(".feed_forward.shared_expert."),
                LLAMA_END,
                {0},
            },
        .bos_id = 1,
        .eos_id = 2,
        .steps = STEPS(STEP("set", "qk_norm head", .when = "use_qk_norm", .absent = true),
                       STEP("rope_layers", "listed")),
        .finish = llama4_finish,
        .gguf =
            (const GgufFamily[]){
                {
                    .architecture = "llama4",
                    .pairing = ROPE_INTERLEAVED,
                    .tensors =
                        (const TensorRule[]){
                            EMBEDDING("token_embd"),
                            GGUF_ATTENTION,
                            NORM("ffn_norm", ".ffn_norm"),
                            GGUF_ROUTED,
                            GGUF_END,
                            {0},
                        },
                    .finish = gguf_llama4_finish,
                },
                {0},
            },
    },
    {0},
};

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
    config->qk_norm_after_rope = true;
    if (llama4_temperature(json, config, error) != STATUS_OK) return STATUS_FAILED;
    return llama4_chunks(json, config, error);
}

/* No key gives Llama 4's chunks, its layers without RoPE and how their queries grow. A window of 0
 * means that there are none of them. Maverick, which has 128 experts, norms no heads. */
static Status gguf_llama4_finish(const GgufModel *m, Config *c) {
    uint32_t window = 1;
    gguf_model_uint(m, "attention.sliding_window", &window);
    c->router.kind = ROUTER_SIGMOID_SCORES;
    c->experts.weight_on_input = true;
    c->qk_norm = c->experts.count == 128 ? QK_NORM_NONE : QK_NORM_HEAD;
    c->qk_norm_after_rope = true;
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
