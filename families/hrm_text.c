/* HRM-Text: a low and a high module of decoder layers, which run in turn (layers/cycles.c). Its
 * norms have no weights, and files hold fused matrices but separate biases. The class reads a
 * prompt that is marked by token types in both directions; here a prompt is causal, as it is there
 * without these marks. */
#include "families/shared.h"

static FamilyFinish hrm_text_finish;
static FamilyMore hrm_text_more;

#define HEADS "n_heads * head_dim"

const Family families_hrm_text[] = {
    {
        .model_type = "hrm_text",
        .set = SET({"stack", STACK_CYCLES}),
        .keys =
            KEYS(SIZE_KEYS(151808, 1536, 4096, 16, 12), HEAD_DIM(128), CONTEXT(2048),
                 {"rms_norm_eps", "norm_eps", 1e-6}, {"hidden_act", "activation", ACTIVATION_SILU},
                 {"num_layers_per_stack|num_hidden_layers", "block_layers", 16},
                 {"L_cycles", "altup_streams", 3}),
        .biases = BIASES({" wo ", "attention_bias", false}, {" w_down ", "mlp_bias", false}),
        .tensors =
            (const TensorRule[]){
                EMBEDDING("model.embed_tokens"),
                VECTOR("low_start", "model.z_L_init", "dim"),
                OUTPUT("lm_head"),
                {0},
            },
        .layers = "model.L_module.layers.%u.",
        .bos_id = -1,
        .eos_id = -1,
        .finish = hrm_text_finish,
        .more = hrm_text_more,
    },
    {0},
};

static Status hrm_text_finish(const json_t *json, Config *c, Error *error) {
    double range = json_number(json, "initializer_range", 0.02);
    double scale = json_number(json, "embedding_scale", 1.0 / range);
    double high = json_number(json, "H_cycles", 2);
    double layers = high * (c->low_cycles + 1.0) * c->block_layers;
    if (c->low_cycles < 1 || c->low_cycles > 16)
        return error_set(error, "config.json: L_cycles is %u, but must be 1 to 16", c->low_cycles);
    if (!(scale > 0 && scale <= 1e6))
        return error_set(error, "config.json: initializer_range is %g, embedding_scale %g", range,
                         scale);
    if (!(high >= 1 && high == floor(high) && layers >= 1 && layers <= CONFIG_MAX_LAYERS))
        return error_set(
            error,
            "config.json: H_cycles is %g, L_cycles %u, num_layers_per_stack %u, but there "
            "may be %u runs of a layer at most",
            high, c->low_cycles, c->block_layers, CONFIG_MAX_LAYERS);
    c->embedding_scale = (float)scale;
    c->n_layers = (uint32_t)layers;
    return STATUS_OK;
}

/* Adds the tensors of both modules in the first run of each, which the later runs share. */
static Status hrm_text_more(const RuleContext *context, const json_t *json, Error *error) {
    static const TensorRule rules[] = {
        MATRIX("attention_gate wq wk wv", ".attn.gqkv_proj.weight",
               HEADS " + " HEADS " + " HEADS " + " HEADS, "dim"),
        LINEAR("wo", ".attn.o_proj", "dim", HEADS),
        MATRIX("w_gate w_up", ".mlp.gate_up_proj.weight", "ffn_dim + ffn_dim", "dim"),
        LINEAR("w_down", ".mlp.down_proj", "dim", "ffn_dim"),
        {0},
    };
    static const TensorRule attention_biases[] = {
        VECTOR("wq.bias", ".self_attn.q_proj.bias", HEADS),
        VECTOR("wk.bias", ".self_attn.k_proj.bias", HEADS),
        VECTOR("wv.bias", ".self_attn.v_proj.bias", HEADS),
        VECTOR("attention_gate.bias", ".self_attn.gate_proj.bias", HEADS),
        {0},
    };
    static const TensorRule ffn_biases[] = {
        VECTOR("w_gate.bias", ".mlp.gate_proj.bias", "ffn_dim"),
        VECTOR("w_up.bias", ".mlp.up_proj.bias", "ffn_dim"),
        {0},
    };
    bool has_attention_biases = json_flag(json, "attention_bias", false);
    bool has_ffn_biases = json_flag(json, "mlp_bias", false);
    const Config *c = &context->source->config;
    uint32_t per_module = c->block_layers, runs = c->low_cycles + 1, like[CONFIG_MAX_LAYERS];
    RuleContext at = *context;
    char name[48];
    at.layers = name;
    for (uint32_t l = 0; l < c->n_layers; l++) {
        bool is_high = l / per_module % runs == c->low_cycles;
        uint32_t in_module = l % per_module;
        like[l] = (is_high ? c->low_cycles * per_module : 0) + in_module;
        if (like[l] != l) continue;
        snprintf(name, sizeof name, "model.%c_module.layers.%u.", is_high ? 'H' : 'L', in_module);
        if (rules_apply_to_layer(&at, rules, l, error) != STATUS_OK ||
            (has_attention_biases &&
             rules_apply_to_layer(&at, attention_biases, l, error) != STATUS_OK) ||
            (has_ffn_biases && rules_apply_to_layer(&at, ffn_biases, l, error) != STATUS_OK))
            return STATUS_FAILED;
    }
    return source_repeat_layers(context->source, like, error);
}
