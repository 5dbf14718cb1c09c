/* RecurrentGemma: recurrent blocks (RG-LRU) beside attention with windows. */
#include "base/numbers.h"
#include "families/shared.h"

static FamilyFinish recurrent_gemma_finish;
static FamilyMore recurrent_gemma_more;

#define CHANNELS "state_heads * state_value_dim"

/* Block H of a gate's matrix, which is stored as inputs x outputs. */
#define GATE(to, name)                                                                             \
    MATRIX(to ".%u", ".temporal_block.rg_lru." name "_weight", "state_value_dim",                  \
           "state_value_dim", .turned = TURNED_ALWAYS, .each_head = true, .parts = "state_heads",  \
           .optional = true),                                                                      \
        VECTOR(to ".bias", ".temporal_block.rg_lru." name "_bias", CHANNELS, .optional = true)

const Family families_recurrent_gemma[] = {
    {
        .model_type = "recurrent_gemma",
        .set = SET({"context", 1048576}),
        .keys = KEYS(SIZE_KEYS(256000, 2560, 7680, 26, 10), KV_HEADS(0), HEAD_DIM(0),
                     {"conv1d_width", "state_kernel", 4}, {"rms_norm_eps", "norm_eps", 1e-6},
                     {"logits_soft_cap", "logit_softcap", 30},
                     {"hidden_activation", "activation", ACTIVATION_GELU_TANH}),
        .biases = BIASES({QKV, "attention_bias", false},
                         {" wo w_gate w_up w_down rg_lru.x rg_lru.y rg_lru.out rg_lru.taps "
                          "rg_lru.input_gate rg_lru.decay_gate ",
                          NULL, true}),
        .tensors =
            (const TensorRule[]){
                EMBEDDING("model.embed_tokens"),
                VECTOR("attention_norm", ".temporal_pre_norm.weight", "dim",
                       .values = VALUES_PLUS_ONE),
                VECTOR("ffn_norm", ".channel_pre_norm.weight", "dim", .values = VALUES_PLUS_ONE),
                LINEAR("wq", ".temporal_block.q_proj", "n_heads * head_dim", "dim",
                       .optional = true),
                LINEAR("wk", ".temporal_block.k_proj", "n_kv_heads * head_dim", "dim",
                       .optional = true),
                LINEAR("wv", ".temporal_block.v_proj", "n_kv_heads * head_dim", "dim",
                       .optional = true),
                LINEAR("wo", ".temporal_block.o_proj", "dim", "n_heads * head_dim",
                       .optional = true),
                LINEAR("rg_lru.x", ".temporal_block.linear_x", CHANNELS, "dim", .optional = true),
                LINEAR("rg_lru.y", ".temporal_block.linear_y", CHANNELS, "dim", .optional = true),
                LINEAR("rg_lru.out", ".temporal_block.linear_out", "dim", CHANNELS,
                       .optional = true),
                TABLE("rg_lru.taps", ".temporal_block.conv_1d.weight", "state_kernel", CHANNELS,
                      .turned = TURNED_ALWAYS, .optional = true),
                VECTOR("rg_lru.taps.bias", ".temporal_block.conv_1d.bias", CHANNELS,
                       .optional = true),
                GATE("rg_lru.input_gate", "input_gate"),
                GATE("rg_lru.decay_gate", "recurrent_gate"),
                GATED_FFN(".mlp_block."),
                VECTOR("final_norm", "model.final_norm.weight", "dim", .values = VALUES_PLUS_ONE),
                OUTPUT("lm_head"),
                {0},
            },
        .rope = {.part = "partial_rotary_factor", .part_absent = 0.5},
        .tied = true,
        .bos_id = 2,
        .eos_id = 1,
        .finish = recurrent_gemma_finish,
        .more = recurrent_gemma_more,
    },
    {0},
};

/* The class computes RoPE without a scaling alone. */
static Status refuse_scaling(const json_t *json, Error *error) {
    static const char *const objects[] = {"rope_parameters", "rope_scaling"};
    static const char *const types[] = {"rope_type", "type"};
    for (size_t i = 0; i < 2; i++)
        for (size_t k = 0; k < 2; k++) {
            const char *type = json_text(json_value(json, objects[i]), types[k]);
            if (type && strcmp(type, "default") != 0)
                return error_set(error, "config.json: RoPE scaling '%.40s' in %s", type,
                                 objects[i]);
        }
    return STATUS_OK;
}

/* The list block_types is repeated over the layers; every block but "recurrent" attends. */
static Status read_kinds(const json_t *json, uint32_t window, Config *config, Error *error) {
    const json_t *types = json_value(json, "block_types");
    size_t n = types ? json_array_size(types) : 3;
    if (n == 0 || config->n_layers / n > 100 ||
        (config->n_layers / n == 100 && config->n_layers % n))
        return error_set(error, "config.json: block_types has %zu blocks for %u layers", n,
                         config->n_layers);
    for (uint32_t l = 0; l < config->n_layers; l++) {
        const char *type = types ? json_string_value(json_array_get(types, l % n)) : NULL;
        bool recurs = types ? type && strcmp(type, "recurrent") == 0 : l % 3 != 2;
        config->layer_kind[l] = recurs ? LAYER_RG_LRU : LAYER_ATTENTION;
        config->window[l] = recurs ? 0 : window;
    }
    return STATUS_OK;
}

/* intermediate_size counts gate and up together, lru_width all blocks of channels; transformers
 * rounds the embeddings' scale to bfloat16. */
static Status recurrent_gemma_finish(const json_t *json, Config *config, Error *error) {
    uint32_t width = 0, window = 0;
    bool old = json_value(json, "attention_window_size") != NULL;
    const char *key = old ? "attention_window_size" : "sliding_window";
    if (family_refuse_zero(json, "logits_soft_cap", error) != STATUS_OK ||
        refuse_scaling(json, error) != STATUS_OK)
        return STATUS_FAILED;
    if (family_state_read_whole(json, key, 2048, &window, error) != STATUS_OK ||
        family_state_read_whole(json, "lru_width", config->dim, &width, error) != STATUS_OK)
        return STATUS_FAILED;
    if (config->n_heads == 0 || width % config->n_heads != 0)
        return error_set(error, "config.json: lru_width (%u) is not a multiple of %u heads", width,
                         config->n_heads);
    config->state.n_heads = config->n_heads;
    config->state.value_dim = width / config->n_heads;
    config->state.n_key_heads = config->state.key_dim = 1;
    config->ffn_dim /= 2;
    uint32_t bits = float_bits((float)sqrt((double)config->dim));
    config->embedding_scale = float_from_bits((bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000);
    return read_kinds(json, window, config, error);
}

/* Adds the decays' factors, -8 softplus of a parameter. */
static Status recurrent_gemma_more(const RuleContext *context, const json_t *json, Error *error) {
    const Config *c = &context->source->config;
    size_t n = (size_t)c->state.n_heads * c->state.value_dim;
    (void)json;
    for (uint32_t l = 0; l < c->n_layers; l++) {
        char from[80], to[48];
        float *values = NULL;
        if (c->layer_kind[l] != LAYER_RG_LRU) continue;
        snprintf(from, sizeof from, "model.layers.%u.temporal_block.rg_lru.recurrent_param", l);
        snprintf(to, sizeof to, "layers.%u.rg_lru.a", l);
        if (rules_read(context, from, 1, n, &values, error) != STATUS_OK) return STATUS_FAILED;
        for (size_t i = 0; i < n; i++) {
            double x = values[i];
            values[i] = (float)(-8.0 * (x > 20.0 ? x : log1p(exp(x))));
        }
        if (source_add_values(context->source, to, 1, n, values, error) != STATUS_OK)
            return STATUS_FAILED;
    }
    return STATUS_OK;
}
