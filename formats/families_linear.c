/* More families with layers that keep a state: OLMo Hybrid, Kimi Linear, MiniMax-01, LFM3. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "formats/json.h"
#include "formats/state_rules.h"

/* ---- LFM3: short convolutions beside attention with and without windows ---- */

static const ConfigRule lfm3_config[] = {
    SIZE_KEYS(128000, 2048, 7680, 24, 16),
    KV_HEADS(4),
    HEAD_DIM(128),
    CONTEXT(128000),
    {"norm_eps|rms_norm_eps", "norm_eps", 1e-5},
    {"conv_L_cache", "state_kernel", 7},
    {0},
};
static const BiasRule lfm3_biases[] = {
    {QKVO, "attention_bias", false},
    {" convolution.b convolution.c convolution.x convolution.out convolution.taps ", "conv_bias",
     false},
    {0}};

static const TensorRule lfm3_tensors[] = {
    LLAMA_EMBEDDING,
    NORM("attention_norm", FROM_LAYER "operator_norm"),
    NORM("ffn_norm", FROM_LAYER "ffn_norm"),
    SOME_QKV,
    SOME_LINEAR("wo", "self_attn.o_proj", N_DIM, N_OUT),
    SOME_VECTOR("q_norm", "self_attn.q_norm.weight", N_HEAD),
    SOME_VECTOR("k_norm", "self_attn.k_norm.weight", N_HEAD),
    LFM2_CONVOLUTION,
    LFM2_FFN,
    NORM("final_norm", "model.embedding_norm"),
    OUTPUT("lm_head"),
    {0},
};
/* What two switches add. transformers calls the gate g_proj. */
static const TensorRule lfm3_gate[] = {
    SOME_MATRIX("attention_gate", "self_attn.gate_proj", N_HEADS, N_DIM),
    SOME_MATRIX("attention_gate", "self_attn.g_proj", N_HEADS, N_DIM),
    {0},
};
static const TensorRule lfm3_sandwich[] = {
    NORM("post_attention_norm", FROM_LAYER "post_operator_norm"),
    NORM("post_ffn_norm", FROM_LAYER "post_ffn_norm"),
    {0},
};

static void lfm3_preset(Config *config) {
    config->qk_norm = QK_NORM_HEAD;
    config->rope_theta = 1e6f;
}

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
    if (types && state_read_kinds(types, names, config, error) != STATUS_OK) return STATUS_FAILED;
    for (uint32_t l = 0; l < config->n_layers; l++) {
        const char *type = types                 ? json_string_value(json_array_get(types, l))
                           : l % 4 == 2          ? "full_attention"
                           : l % 4 == 0 && l > 0 ? "sliding_attention"
                                                 : "conv";
        bool slides = strcmp(type, "sliding_attention") == 0;
        if (slides && !slides_any &&
            state_read_whole(json, "sliding_window", 256, &window, error) != STATUS_OK)
            return STATUS_FAILED;
        slides_any = slides_any || slides;
        config->layer_kind[l] = strcmp(type, "conv") == 0 ? LAYER_CONVOLUTION : LAYER_ATTENTION;
        config->window[l] = slides ? window : 0;
        config->rope_table[l] = slides;
    }
    if (json_flag(json, "use_sandwich_norm", true)) config->norm_place = NORM_AROUND;
    return STATUS_OK;
}

static Status lfm3_more(const RuleContext *context, const json_t *json, Error *error) {
    if (json_flag(json, "use_attention_gate", true) &&
        rules_apply(context, lfm3_gate, error) != STATUS_OK)
        return STATUS_FAILED;
    if (context->source->config.norm_place != NORM_AROUND) return STATUS_OK;
    return rules_apply(context, lfm3_sandwich, error);
}

#define LFM3_ROPE                                                                                  \
    {                                                                                              \
        .local_theta = 10000, .local_theta_key = "sliding_attention.rope_theta",                   \
        .absent = "{\"rope_type\": \"proportional\", \"partial_rotary_factor\": 0.5, "             \
                  "\"rope_theta\": 1000000}"                                                       \
    }

const Family families_linear[] = {
    {"lfm3", lfm3_config, lfm3_tensors, lfm3_preset, lfm3_finish, lfm3_more, .biases = lfm3_biases,
     .rope = LFM3_ROPE, .tied = true, .bos_id = 124894, .eos_id = 124900},
    {0},
};
