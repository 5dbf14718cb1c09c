/* HRM-Text: a low and a high module of decoder layers, which run in turn
 * (layers/arrangements/cycles.c). Its norms have no weights, and files hold fused matrices but
 * separate biases. The class reads a prompt that is marked by token types in both directions; here
 * a prompt is causal, as it is there without these marks. */
#include "families/shared.h"

#define HEADS "n_heads * head_dim"

/* Sets the scale of the embeddings, 1 / initializer_range unless it is given, and the number of
 * layer runs, H_cycles * (L_cycles + 1) * num_layers_per_stack. */
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

/* Writes what stands before the names of a module's layer. */
typedef void LayerPrefix(const Config *config, bool is_high, uint32_t in_module, char *out,
                         size_t size);

/* Adds the tensors of both modules in the first run of each, which the later runs share. tables[]
 * ends with NULL. */
static Status add_modules(const RuleContext *context, LayerPrefix *prefix,
                          const TensorRule *const *tables, Error *error) {
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
        prefix(c, is_high, in_module, name, sizeof name);
        for (size_t i = 0; tables[i]; i++)
            if (rules_apply_to_layer(&at, tables[i], l, error) != STATUS_OK) return STATUS_FAILED;
    }
    return source_repeat_layers(context->source, like, error);
}

static void hrm_text_prefix(const Config *config, bool is_high, uint32_t in_module, char *out,
                            size_t size) {
    (void)config;
    snprintf(out, size, "model.%c_module.layers.%u.", is_high ? 'H' : 'L', in_module);
}

/* Adds the layers of both modules, whose files hold the gate, queries, keys and values as one
 * matrix, and the biases that attention_bias and mlp_bias announce. */
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
    const TensorRule *tables[4] = {rules};
    size_t n = 1;
    if (json_flag(json, "attention_bias", false)) tables[n++] = attention_biases;
    if (json_flag(json, "mlp_bias", false)) tables[n++] = ffn_biases;
    return add_modules(context, hrm_text_prefix, tables, error);
}

/* ---- GGUF ---- */

/* The low module's layers are the first blocks, the high module's follow. */
static void gguf_hrm_text_prefix(const Config *config, bool is_high, uint32_t in_module, char *out,
                                 size_t size) {
    snprintf(out, size, "blk.%u.", (is_high ? config->block_layers : 0) + in_module);
}

/* block_count counts all runs of the layers. */
static Status gguf_hrm_text_finish(const GgufModel *m, Config *c) {
    uint32_t high = 0;
    gguf_model_uint(m, "hrm.h_cycles", &high);
    if (c->low_cycles < 1 || c->low_cycles > 16 || high < 1 || c->block_layers < 1 ||
        c->n_layers > CONFIG_MAX_LAYERS || high > CONFIG_MAX_LAYERS ||
        c->block_layers > CONFIG_MAX_LAYERS ||
        high * (c->low_cycles + 1) * c->block_layers != c->n_layers)
        return error_set(
            m->error,
            "%s: hrm.h_cycles %u, hrm.l_cycles %u and hrm.layers_per_stack %u do not make "
            "block_count %u",
            m->source->path, high, c->low_cycles, c->block_layers, c->n_layers);
    return STATUS_OK;
}

static Status gguf_hrm_text_more(GgufModel *m) {
    static const TensorRule rules[] = {
        LINEAR("wq", ".attn_q", HEADS, "dim"),
        LINEAR("wk", ".attn_k", HEADS, "dim"),
        LINEAR("wv", ".attn_v", HEADS, "dim"),
        LINEAR("attention_gate", ".attn_gate", HEADS, "dim"),
        LINEAR("wo", ".attn_output", "dim", HEADS),
        GGUF_FFN,
        {0},
    };
    static const TensorRule *const tables[] = {rules, NULL};
    const RuleContext context = {.source = m->source, .table = &m->table};
    return add_modules(&context, gguf_hrm_text_prefix, tables, m->error);
}

const FamilyHook families_hrm_text[] = {
    {"hrm_text", .finish = hrm_text_finish, .more = hrm_text_more,
     .gguf_finish = gguf_hrm_text_finish, .gguf_more = gguf_hrm_text_more},
    {0},
};
