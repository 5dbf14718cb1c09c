/* Dory: a looped normalized transformer (layers/arrangements/looped.c). Its learned vectors are
 * folded in: the vectors of queries and of residual rates into weights of norms, the others into
 * the rows that they multiply. Released files number attention and feed-forwards as layers of their
 * own. */
#include <math.h>

#include "families/shared.h"

/* The layer of the checkpoint that layer l is a run of. */
static uint32_t stored_layer(const Config *c, uint32_t l) {
    uint32_t repeated = (c->loops - 1) * c->block_layers, middle = c->loop_from + c->block_layers;
    if (l < middle) return l;
    if (l >= middle + repeated) return l - repeated;
    return c->loop_from + (l - c->loop_from) % c->block_layers;
}

/* Refuses scalings of RoPE that stretch queries and keys: they are normalized after RoPE here. */
static Status check_rope(const json_t *json, Error *error) {
    static const char *const kinds[] = {"full_attention", "sliding_attention"};
    for (size_t i = 0; i < 2; i++) {
        const json_t *parameters = json_value(json_value(json, "rope_parameters"), kinds[i]);
        const char *type = json_text(parameters, "rope_type");
        if (!type) type = json_text(parameters, "type");
        if (type && (strcmp(type, "yarn") == 0 || strcmp(type, "longrope") == 0))
            return error_set(
                error, "config.json: RoPE scaling '%s', which this model_type cannot have", type);
    }
    return STATUS_OK;
}

/* Unrolls the middle layers. A list with "mlp" counts attention and feed-forwards separately. */
static Status dory_finish(const json_t *json, Config *c, Error *error) {
    const json_t *types = json_value(json, "layer_types");
    double window = json_number(json, "sliding_window", 1024);
    uint32_t each = 1, stored;
    for (size_t i = 0; i < json_array_size(types); i++) {
        const char *type = json_string_value(json_array_get(types, i));
        if (type && strcmp(type, "mlp") == 0) each = 2;
    }
    stored = c->n_layers / each;
    double out = floor(json_number(json, "n_output_layers", 8) / each);
    c->loop_from /= each;
    double middle = json_number(json, "n_recurrent_layers", -1);
    middle = middle < 0 ? stored - c->loop_from - out : floor(middle / each);
    double layers = stored + (c->loops - 1.0) * middle;
    if (!(out >= 0 && middle >= 1 && c->loops >= 1 && c->loop_from + middle + out == stored &&
          layers <= CONFIG_MAX_LAYERS))
        return error_set(error,
                         "config.json: %u layers are not n_input_layers, n_recurrent_layers and "
                         "n_output_layers (%u, %g, %g), or n_recurrent_loops (%u) is too large",
                         stored, c->loop_from, middle, out, c->loops);
    if (!(window >= 1 && window <= 1 << 28 && window == floor(window)))
        return error_set(error, "config.json: sliding_window is %g", window);
    if (check_rope(json, error) != STATUS_OK) return STATUS_FAILED;
    c->block_layers = (uint32_t)middle;
    c->n_layers = (uint32_t)layers;
    c->norm_eps = 1e-6f / (float)c->dim;
    for (uint32_t l = 0; l < c->n_layers; l++) {
        uint32_t from = stored_layer(c, l);
        const char *type = json_string_value(json_array_get(types, (size_t)from * each));
        bool full = types ? type && strcmp(type, "full_attention") == 0 : from % 4 == 3;
        if (types && !full && (!type || strcmp(type, "sliding_attention") != 0))
            return error_set(error, "config.json: layer type '%.40s' is not known",
                             type ? type : "(no text)");
        c->window[l] = full ? 0 : (uint32_t)window;
        c->rope_table[l] = full ? 0 : 1;
    }
    return STATUS_OK;
}

static const uint32_t NO_LAYER = UINT32_MAX;

/* Adds a vector of n equal values, as `layers.N.to` or, where l is NO_LAYER, as `to`. */
static Status add_constant(const RuleContext *c, uint32_t l, const char *to, size_t n, double value,
                           Error *error) {
    char name[MODELFILE_NAME_BYTES];
    float *values = malloc((n + 1) * sizeof *values);
    for (size_t i = 0; values && i < n; i++) values[i] = (float)value;
    if (l == NO_LAYER)
        snprintf(name, sizeof name, "%s", to);
    else
        snprintf(name, sizeof name, "layers.%u.%s", l, to);
    return source_add_values(c->source, name, 1, n, values, error);
}

/* Reads the vector `from`[n], times `factor`, and its absolute values or squares. */
static Status read_scaled(const RuleContext *c, const char *from, size_t n, double factor,
                          bool squares, float **out, Error *error) {
    if (rules_read(c, from, 1, n, out, error) != STATUS_OK) return STATUS_FAILED;
    for (size_t i = 0; i < n; i++) {
        double value = (*out)[i] * factor;
        (*out)[i] = (float)(squares ? value * value : value);
    }
    return STATUS_OK;
}

/* Multiplies the rows of our tensor `name` by scales[rows], which it then owns. */
static Status scale_rows(const RuleContext *c, const char *name, float *scales, Error *error) {
    for (size_t i = 0; i < c->source->n_tensors; i++)
        if (strcmp(c->source->tensors[i].name, name) == 0) {
            c->source->tensors[i].row_scales = scales;
            return STATUS_OK;
        }
    free(scales);
    return error_set(error, "%s: tensor '%s' is missing", c->source->path, name);
}

/* Where layer i of the checkpoint has its attention and its feed-forward. */
typedef struct Places {
    char attention[64], ffn[64], attention_rate[64], ffn_rate[64];
} Places;

static Places places_of(const RuleContext *c, uint32_t i) {
    Places p;
    bool pairs = rules_find(c, "model.layers.0.mixer.q_proj.weight") != NULL;
    uint32_t a = pairs ? 2 * i : i, b = pairs ? 2 * i + 1 : i;
    snprintf(p.attention, sizeof p.attention, "model.layers.%u.%s.", a,
             pairs ? "mixer" : "self_attn");
    snprintf(p.ffn, sizeof p.ffn, "model.layers.%u.%s.", b, pairs ? "mixer" : "mlp");
    snprintf(p.attention_rate, sizeof p.attention_rate, "model.layers.%u.%s", a,
             pairs ? "attn_alpha" : "lambda_1");
    snprintf(p.ffn_rate, sizeof p.ffn_rate, "model.layers.%u.%s", b,
             pairs ? "mlp_alpha" : "lambda_2");
    return p;
}

/* Adds how a block's output is added: `norm` and `keep` of the rates `from`. */
static Status add_rate(const RuleContext *c, uint32_t l, const char *from, double factor,
                       const char *norm, const char *keep, Error *error) {
    uint32_t dim = c->source->config.dim;
    char name[MODELFILE_NAME_BYTES];
    float *rates;
    if (read_scaled(c, from, dim, factor, false, &rates, error) != STATUS_OK) return STATUS_FAILED;
    float *kept = malloc(dim * sizeof *kept);
    for (uint32_t i = 0; kept && i < dim; i++) {
        double rate = fabs((double)rates[i]);
        kept[i] = (float)(1.0 - rate);
        rates[i] = (float)(rate / sqrt(dim));
    }
    snprintf(name, sizeof name, "layers.%u.%s", l, norm);
    if (source_add_values(c->source, name, 1, dim, rates, error) != STATUS_OK) {
        free(kept);
        return STATUS_FAILED;
    }
    snprintf(name, sizeof name, "layers.%u.%s", l, keep);
    return source_add_values(c->source, name, 1, dim, kept, error);
}

/* Multiplies the rows of layers.N.`to` by the vector at/`from`. */
static Status fold(const RuleContext *c, uint32_t l, const char *to, const char *at,
                   const char *from, size_t n, double factor, bool squares, Error *error) {
    char source[96], name[MODELFILE_NAME_BYTES];
    float *scales;
    snprintf(source, sizeof source, "%s%s", at, from);
    snprintf(name, sizeof name, "layers.%u.%s", l, to);
    if (read_scaled(c, source, n, factor, squares, &scales, error) != STATUS_OK)
        return STATUS_FAILED;
    return scale_rows(c, name, scales, error);
}

/* Adds the norms of layer l. */
static Status add_norms(const RuleContext *c, uint32_t l, const Places *p, double range,
                        Error *error) {
    const Config *config = &c->source->config;
    const HeadShape h = config_heads(config, l);
    size_t q = (size_t)h.n_heads * h.head_dim, k = (size_t)h.n_kv_heads * h.head_dim;
    char source[96], name[MODELFILE_NAME_BYTES];
    float *scales;
    double of_dim = 1.0 / sqrt(config->dim), of_head = 1.0 / sqrt(h.head_dim);
    snprintf(source, sizeof source, "%ssqk", p->attention);
    if (read_scaled(c, source, q, sqrt(h.head_dim) / range, true, &scales, error) != STATUS_OK)
        return STATUS_FAILED;
    for (size_t i = 0; i < q; i++) scales[i] = (float)(scales[i] * of_head);
    snprintf(name, sizeof name, "layers.%u.q_norm", l);
    if (source_add_values(c->source, name, 1, q, scales, error) != STATUS_OK ||
        add_constant(c, l, "k_norm", k, of_head, error) != STATUS_OK ||
        add_constant(c, l, "attention_norm", config->dim, of_dim, error) != STATUS_OK ||
        add_constant(c, l, "ffn_norm", config->dim, of_dim, error) != STATUS_OK ||
        add_constant(c, l, "attention_inner_norm", q, 1.0 / sqrt((double)q), error) != STATUS_OK)
        return STATUS_FAILED;
    return add_constant(c, l, "ffn_inner_norm", config->ffn_dim, 1.0 / sqrt(config->ffn_dim),
                        error);
}

/* Adds the tensors of layer l, which is a run of the checkpoint's layer stored_layer(l), with the
 * learned scales folded into norms and rows of matrices. */
static Status add_layer(const RuleContext *context, uint32_t l, double range, double rate,
                        Error *error) {
    static const TensorRule attention[] = {
        LINEAR("wq", ".q_proj", "n_heads * head_dim", "dim"),
        LINEAR("wk", ".k_proj", "n_kv_heads * head_dim", "dim"),
        LINEAR("wv", ".v_proj", "n_kv_heads * head_dim", "dim"),
        MATRIX("attention_gate", ".g_proj.weight", "n_heads * head_dim", "dim"),
        LINEAR("wo", ".o_proj", "dim", "n_heads * head_dim"),
        {0},
    };
    static const TensorRule ffn[] = {
        MATRIX("w_gate", ".gate_proj.weight", "ffn_dim", "dim"),
        MATRIX("w_up", ".up_proj.weight", "ffn_dim", "dim"),
        MATRIX("w_down", ".down_proj.weight", "dim", "ffn_dim"),
        {0},
    };
    const Config *c = &context->source->config;
    const HeadShape h = config_heads(c, l);
    const Places p = places_of(context, stored_layer(c, l));
    double root = sqrt(c->dim);
    RuleContext at = *context;
    at.layers = p.attention;
    if (rules_apply_to_layer(&at, attention, l, error) != STATUS_OK) return STATUS_FAILED;
    at.layers = p.ffn;
    if (rules_apply_to_layer(&at, ffn, l, error) != STATUS_OK ||
        add_norms(context, l, &p, range, error) != STATUS_OK ||
        fold(context, l, "attention_gate", p.attention, "s_gate", (size_t)h.n_heads * h.head_dim,
             sqrt(root) / range, true, error) != STATUS_OK ||
        fold(context, l, "w_gate", p.ffn, "suv_gate", c->ffn_dim, root, false, error) !=
            STATUS_OK ||
        fold(context, l, "w_up", p.ffn, "suv_up", c->ffn_dim, root, false, error) != STATUS_OK ||
        add_rate(context, l, p.attention_rate, rate, "post_attention_norm", "attention_keep",
                 error) != STATUS_OK)
        return STATUS_FAILED;
    return add_rate(context, l, p.ffn_rate, rate, "post_ffn_norm", "ffn_keep", error);
}

/* Adds the layers, each run of the middle ones from the first. */
static Status dory_more(const RuleContext *context, const json_t *json, Error *error) {
    const Config *c = &context->source->config;
    double range = json_number(json, "initializer_range", 0.0177);
    double rate = json_number(json, "ngpt_alpha_init", 0.05) / range;
    uint32_t like[CONFIG_MAX_LAYERS], middle = c->loop_from + c->block_layers;
    float *scales;
    if (!(range > 1e-9 && range < 1e9) || !(fabs(rate) < 1e9))
        return error_set(error, "config.json: initializer_range is %g", range);
    if (read_scaled(context, "lm_head.logit_scale", c->vocab_size, 1.0 / range, false, &scales,
                    error) != STATUS_OK ||
        scale_rows(context, "output", scales, error) != STATUS_OK ||
        add_constant(context, NO_LAYER, "final_norm", c->dim, 1.0 / sqrt(c->dim), error) !=
            STATUS_OK)
        return STATUS_FAILED;
    for (uint32_t l = 0; l < c->n_layers; l++) {
        bool again = l >= middle && l < c->loop_from + c->loops * c->block_layers;
        like[l] = again ? stored_layer(c, l) : l;
        if (!again && add_layer(context, l, range, rate, error) != STATUS_OK) return STATUS_FAILED;
    }
    return source_repeat_layers(context->source, like, error);
}

const FamilyHook families_dory[] = {
    {"dory", .finish = dory_finish, .more = dory_more},
    {0},
};
