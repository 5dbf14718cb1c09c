#include "core/config_fields.h"

#include "core/layer_kind.h"

#include <math.h>
#include <stddef.h>

#define FIELD(field, kind_, ...)                                                                   \
    { .name = #field, .kind = kind_, .offset = offsetof(Config, field), __VA_ARGS__ }
#define UINT(field, least_, most_) FIELD(field, FIELD_UINT, .least = least_, .most = most_)
#define FLOAT(field) FIELD(field, FIELD_FLOAT, .not_negative = false)
#define AMOUNT(field) FIELD(field, FIELD_FLOAT, .not_negative = true)
#define BOOL(field) FIELD(field, FIELD_BOOL, .least = 0)
#define ENUM(field, ...) FIELD(field, FIELD_ENUM, .names = (const char *const[]){__VA_ARGS__, NULL})
#define TEXT(field) FIELD(field, FIELD_TEXT, .capacity = sizeof(((Config *)0)->field))

#define ACTIVATION_NAMES                                                                           \
    [ACTIVATION_SILU] = "silu", [ACTIVATION_GELU] = "gelu", [ACTIVATION_GELU_TANH] = "gelu_tanh",  \
    [ACTIVATION_RELU] = "relu", [ACTIVATION_GELU_QUICK] = "gelu_quick",                            \
    [ACTIVATION_SIGMOID] = "sigmoid", [ACTIVATION_SOFTPLUS] = "softplus",                          \
    [ACTIVATION_RELU2] = "relu2", [ACTIVATION_XIELU] = "xielu"

/* FLOAT may be negative, AMOUNT may not. No real model comes near the limits of UINT, which keep
 * every product of sizes in range. */
static const ConfigField fields[] = {
    TEXT(family),
    TEXT(name),
    UINT(dim, 1, 1 << 18),
    UINT(n_layers, 1, CONFIG_MAX_LAYERS),
    UINT(n_heads, 1, 1 << 12),
    UINT(n_kv_heads, 1, 1 << 12),
    UINT(head_dim, 1, 1 << 12),
    UINT(value_dim, 0, 1 << 12),
    UINT(ffn_dim, 1, 1 << 20),
    UINT(vocab_size, 1, 1 << 24),
    UINT(context, 1, 1 << 28),
    ENUM(norm, [NORM_RMS] = "rms", [NORM_LAYER] = "layer"),
    ENUM(norm_place, [NORM_BEFORE] = "before", [NORM_AFTER] = "after", [NORM_OUTPUT] = "output",
         [NORM_AROUND] = "around", [NORM_STREAM] = "stream"),
    AMOUNT(norm_eps),
    AMOUNT(post_norm_eps),
    AMOUNT(final_norm_eps),
    BOOL(final_norm),
    BOOL(parallel_block),
    ENUM(position, [POSITION_NONE] = "none", [POSITION_ROPE] = "rope",
         [POSITION_SINUSOIDAL] = "sinusoidal", [POSITION_LEARNED] = "learned",
         [POSITION_ALIBI] = "alibi"),
    ENUM(rope_pairing, [ROPE_HALVES] = "halves", [ROPE_INTERLEAVED] = "interleaved"),
    UINT(rotary_dim, 0, 1 << 12),
    UINT(rope_local_rotary_dim, 0, 1 << 12),
    FLOAT(rope_attention_factor),
    FLOAT(rope_local_attention_factor),
    FLOAT(rope_theta),
    UINT(rope_original_context, 0, 1 << 28),
    FLOAT(rope_dynamic_factor),
    ENUM(sinusoid_layout, [SINUSOID_INTERLEAVED] = "interleaved", [SINUSOID_HALVES] = "halves"),
    FLOAT(sinusoid_base),
    UINT(position_offset, 0, 64),
    FLOAT(attention_scale),
    BOOL(attention_scale_falls),
    AMOUNT(attention_softcap),
    ENUM(gate_activation, ACTIVATION_NAMES),
    FLOAT(value_scale),
    AMOUNT(qkv_clip),
    ENUM(qk_norm, [QK_NORM_NONE] = "none", [QK_NORM_HEAD] = "head", [QK_NORM_ALL] = "all",
         [QK_NORM_EACH] = "each"),
    AMOUNT(qk_layer_norm_eps),
    BOOL(qk_norm_after_rope),
    FLOAT(query_scaling),
    UINT(query_scaling_floor, 0, 1 << 28),
    BOOL(query_scaling_unrotated),
    BOOL(value_norm),
    FLOAT(alibi_max_bias),
    ENUM(activation, ACTIVATION_NAMES),
    BOOL(gated),
    BOOL(round_inputs),
    {.name = "n_experts",
     .kind = FIELD_UINT,
     .offset = offsetof(Config, experts.count),
     .most = CONFIG_MAX_EXPERTS},
    FLOAT(embedding_scale),
    FLOAT(residual_scale),
    FLOAT(logit_scale),
    AMOUNT(logit_softcap),
    ENUM(stack, [STACK_PLAIN] = "plain", [STACK_GEMMA4] = "gemma4", [STACK_ALTUP] = "altup",
         [STACK_MIXED_NORMS] = "mixed_norms", [STACK_SHORTCUT] = "shortcut",
         [STACK_HYPER] = "hyper", [STACK_GATED_STREAMS] = "gated_streams",
         [STACK_SCALED_SUMS] = "scaled_sums", [STACK_CONVOLVED] = "convolved",
         [STACK_BLOCK_SUMS] = "block_sums", [STACK_RESIDUAL_GATES] = "residual_gates",
         [STACK_CYCLES] = "cycles", [STACK_LOOPED] = "looped"),
    FIELD(window, FIELD_PER_LAYER, .most = UINT32_MAX),
    FIELD(rope_table, FIELD_PER_LAYER, .most = 2),
    FIELD(chunk, FIELD_PER_LAYER, .most = UINT32_MAX),
    FIELD(layer_kind, FIELD_PER_LAYER, .most = LAYER_KINDS - 1),
    FIELD(layer_n_heads, FIELD_PER_LAYER, .most = 1 << 12),
    FIELD(layer_n_kv_heads, FIELD_PER_LAYER, .most = 1 << 12),
    FIELD(layer_head_dim, FIELD_PER_LAYER, .most = 1 << 12),
    FIELD(layer_ffn_dim, FIELD_PER_LAYER, .most = 1 << 20),
    FIELD(without_ffn, FIELD_PER_LAYER, .most = 1),
    FIELD(kv_distance, FIELD_PER_LAYER, .most = CONFIG_MAX_LAYERS - 1),
    {.name = "bos_id", .kind = FIELD_INT, .offset = offsetof(Config, bos_id)},
    BOOL(add_bos),
    FIELD(eos_id, FIELD_LIST, .capacity = sizeof(((Config *)0)->eos_id) / sizeof(uint32_t),
          .count_offset = offsetof(Config, n_eos)),
};

const ConfigField *config_field(size_t i) {
    size_t n = sizeof fields / sizeof *fields;
    return i < n ? &fields[i] : layer_config.field(i - n);
}

/* Checks one field by itself, as the table says. */
static Status check_field(const Config *c, const ConfigField *field, Error *error) {
    const void *value = (const char *)c + field->offset;
    if (field->kind == FIELD_FLOAT) {
        float number = *(const float *)value;
        if (!isfinite(number)) return error_set(error, "%s is not a finite number", field->name);
        if (number < 0.0f && field->not_negative)
            return error_set(error, "%s is negative", field->name);
    } else if (field->kind == FIELD_UINT) {
        uint32_t number = *(const uint32_t *)value;
        if (number < field->least || number > field->most)
            return error_set(error, "%s is %u, but must be from %u to %u", field->name, number,
                             field->least, field->most);
    } else if (field->kind == FIELD_PER_LAYER) {
        const uint32_t *numbers = value;
        for (uint32_t layer = 0; layer < c->n_layers; layer++)
            if (numbers[layer] > field->most)
                return error_set(error, "%s of layer %u is %u, but must be from 0 to %u",
                                 field->name, layer, numbers[layer], field->most);
    }
    return STATUS_OK;
}

/* Checks the heads of a layer that attends. */
static Status check_heads(const Config *c, uint32_t l, Error *error) {
    const HeadShape h = config_heads(c, l);
    if (h.n_heads % h.n_kv_heads != 0)
        return error_set(error, "layer %u: n_heads (%u) is not a multiple of n_kv_heads (%u)", l,
                         h.n_heads, h.n_kv_heads);
    if ((uint64_t)h.n_heads * (h.head_dim > h.value_dim ? h.head_dim : h.value_dim) > 1 << 20)
        return error_set(error, "layer %u: %u heads of %u elements are too many", l, h.n_heads,
                         h.head_dim);
    if (config_check_rotary(c, l, error) != STATUS_OK) return STATUS_FAILED;
    if (c->position == POSITION_ALIBI && h.n_heads != c->n_heads)
        return error_set(error, "layer %u: %u heads, but ALiBi has slopes for %u", l, h.n_heads,
                         c->n_heads);
    uint32_t distance = c->kv_distance[l];
    if (distance == 0) return STATUS_OK;
    if (distance > l || c->layer_kind[l - distance] != LAYER_ATTENTION ||
        c->kv_distance[l - distance] != 0)
        return error_set(error, "layer %u: kv_distance %u leads to no layer with keys", l,
                         distance);
    const HeadShape other = config_heads(c, l - distance);
    if (other.n_kv_heads != h.n_kv_heads || other.head_dim != h.head_dim ||
        other.value_dim != h.value_dim)
        return error_set(error, "layer %u reads the keys of layer %u, which have another shape", l,
                         l - distance);
    return STATUS_OK;
}

static Status check_layers(const Config *c, Error *error) {
    for (uint32_t l = 0; l < c->n_layers; l++) {
        Status status = c->layer_kind[l] == LAYER_ATTENTION ? check_heads(c, l, error)
                                                            : layer_config.validate(c, l, error);
        if (status != STATUS_OK) return status;
        if (c->without_ffn[l] && (c->parallel_block || c->norm_place != NORM_BEFORE))
            return error_set(error, "layer %u: without_ffn needs norm_place 'before'", l);
    }
    return STATUS_OK;
}

static Status check_positions(const Config *c, Error *error) {
    bool is_sinusoidal = c->position == POSITION_SINUSOIDAL;
    if (c->rope_dynamic_factor != 0.0f &&
        (c->rope_dynamic_factor < 1.0f || c->rope_original_context == 0 || c->rotary_dim <= 2 ||
         !(c->rope_theta > 1.0f)))
        return error_set(error,
                         "rope_dynamic_factor is %g with a context of %u, rotary_dim %u and "
                         "rope_theta %g",
                         (double)c->rope_dynamic_factor, c->rope_original_context, c->rotary_dim,
                         (double)c->rope_theta);
    if (is_sinusoidal && c->dim % 2 != 0)
        return error_set(error, "dim is %u, but sinusoidal positions need an even one", c->dim);
    if (is_sinusoidal && !(c->sinusoid_base > 1.0f))
        return error_set(error, "sinusoid_base must be above 1");
    return STATUS_OK;
}

static Status check_operations(const Config *c, Error *error) {
    if (c->query_scaling != 0.0f && c->query_scaling_floor == 0)
        return error_set(error, "query_scaling is set, but query_scaling_floor is 0");
    if (c->qk_norm_after_rope && c->qk_norm == QK_NORM_ALL)
        return error_set(error, "qk_norm_after_rope is set, but qk_norm is 'all'");
    if (c->gate_activation == ACTIVATION_XIELU ||
        (c->activation == ACTIVATION_XIELU &&
         (c->gated || c->experts.count > 0 || c->stack != STACK_PLAIN)))
        return error_set(error, "activation 'xielu' with a gate or experts");
    return STATUS_OK;
}

static Status check_special_tokens(const Config *c, Error *error) {
    if (c->bos_id < -1 || (c->bos_id >= 0 && (uint32_t)c->bos_id >= c->vocab_size))
        return error_set(error, "bos_id is %d, but vocab_size is %u", c->bos_id, c->vocab_size);
    if (c->add_bos && c->bos_id < 0) return error_set(error, "add_bos is set without a bos_id");
    if (c->n_eos > sizeof c->eos_id / sizeof *c->eos_id)
        return error_set(error, "n_eos is %u", c->n_eos);
    for (uint32_t i = 0; i < c->n_eos; i++)
        if (c->eos_id[i] >= c->vocab_size)
            return error_set(error, "eos_id is %u, but vocab_size is %u", c->eos_id[i],
                             c->vocab_size);
    return STATUS_OK;
}

/* Checks each field by itself, then the fields of all layers, then what belongs together. */
Status config_validate(const Config *c, Error *error) {
    const ConfigField *field;
    for (size_t i = 0; (field = config_field(i)); i++)
        if (check_field(c, field, error) != STATUS_OK) return STATUS_FAILED;
    if (c->parallel_block && c->norm_place != NORM_BEFORE)
        return error_set(error, "parallel_block needs norm_place 'before'");
    if (check_layers(c, error) != STATUS_OK) return STATUS_FAILED;
    if (c->stack != STACK_PLAIN && layer_config.validate_arrangement(c, error) != STATUS_OK)
        return STATUS_FAILED;
    if (check_positions(c, error) != STATUS_OK) return STATUS_FAILED;
    if (check_operations(c, error) != STATUS_OK) return STATUS_FAILED;
    if ((c->experts.count > 0 || c->experts.swiglu_limit > 0.0f) &&
        layer_config.validate_mixture(c, error) != STATUS_OK)
        return STATUS_FAILED;
    return check_special_tokens(c, error);
}

double config_work(const Config *c, double n_rows, double n_logits) {
    double layers = c->stack == STACK_PLAIN ? 0 : layer_config.arrangement_work(c);
    for (uint32_t l = 0; l < c->n_layers; l++) {
        const HeadShape h = config_heads(c, l);
        double each = (double)h.head_dim + h.value_dim;
        layers += c->experts.count > 0 ? layer_config.mixture_work(c)
                                       : c->dim * (c->gated ? 3.0 : 2.0) * config_ffn_dim(c, l);
        layers += c->layer_kind[l] == LAYER_ATTENTION
                      ? c->dim * each * ((double)h.n_heads + h.n_kv_heads)
                      : layer_config.work(c, l);
    }
    return n_rows * layers + n_logits * c->dim * c->vocab_size;
}
