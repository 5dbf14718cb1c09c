#include "config.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const char *const norm_names[] = {"rms", "layer", NULL};
static const char *const norm_place_names[] = {"before", "after", "output", "around", NULL};
static const char *const position_names[] = {"none",    "rope",  "sinusoidal",
                                             "learned", "alibi", NULL};
static const char *const rope_pairing_names[] = {"halves", "interleaved", NULL};
static const char *const sinusoid_names[] = {"interleaved", "halves", NULL};
static const char *const qk_norm_names[] = {"none", "head", "all", "each", NULL};
static const char *const router_names[] = {"softmax", "softmax_chosen", "sparse_mixer", NULL};
static const char *const activation_names[] = {"silu", "gelu",       "gelu_tanh",
                                               "relu", "gelu_quick", NULL};

#define FIELD(field, kind_)                                                                        \
    { .name = #field, .kind = kind_, .offset = offsetof(Config, field) }
#define ENUM(field, names_)                                                                        \
    { .name = #field, .kind = FIELD_ENUM, .offset = offsetof(Config, field), .names = names_ }
#define TEXT(field)                                                                                \
    {                                                                                              \
        .name = #field, .kind = FIELD_TEXT, .offset = offsetof(Config, field),                     \
        .capacity = sizeof(((Config *)0)->field)                                                   \
    }

static const ConfigField fields[] = {
    TEXT(family),
    TEXT(name),
    FIELD(dim, FIELD_UINT),
    FIELD(n_layers, FIELD_UINT),
    FIELD(n_heads, FIELD_UINT),
    FIELD(n_kv_heads, FIELD_UINT),
    FIELD(head_dim, FIELD_UINT),
    FIELD(ffn_dim, FIELD_UINT),
    FIELD(vocab_size, FIELD_UINT),
    FIELD(context, FIELD_UINT),
    ENUM(norm, norm_names),
    ENUM(norm_place, norm_place_names),
    FIELD(norm_eps, FIELD_FLOAT),
    FIELD(final_norm, FIELD_BOOL),
    FIELD(parallel_block, FIELD_BOOL),
    ENUM(position, position_names),
    ENUM(rope_pairing, rope_pairing_names),
    FIELD(rotary_dim, FIELD_UINT),
    FIELD(rope_attention_factor, FIELD_FLOAT),
    FIELD(rope_theta, FIELD_FLOAT),
    FIELD(rope_original_context, FIELD_UINT),
    FIELD(rope_dynamic_factor, FIELD_FLOAT),
    ENUM(sinusoid_layout, sinusoid_names),
    FIELD(sinusoid_base, FIELD_FLOAT),
    FIELD(position_offset, FIELD_UINT),
    FIELD(attention_scale, FIELD_FLOAT),
    FIELD(attention_scale_falls, FIELD_BOOL),
    FIELD(attention_softcap, FIELD_FLOAT),
    FIELD(qkv_clip, FIELD_FLOAT),
    ENUM(qk_norm, qk_norm_names),
    FIELD(alibi_max_bias, FIELD_FLOAT),
    ENUM(activation, activation_names),
    FIELD(gated, FIELD_BOOL),
    FIELD(swiglu_limit, FIELD_FLOAT),
    FIELD(n_experts, FIELD_UINT),
    FIELD(n_experts_used, FIELD_UINT),
    FIELD(expert_ffn_dim, FIELD_UINT),
    FIELD(shared_ffn_dim, FIELD_UINT),
    ENUM(router, router_names),
    FIELD(router_jitter, FIELD_FLOAT),
    FIELD(embedding_scale, FIELD_FLOAT),
    FIELD(residual_scale, FIELD_FLOAT),
    FIELD(logit_scale, FIELD_FLOAT),
    FIELD(logit_softcap, FIELD_FLOAT),
    FIELD(window, FIELD_PER_LAYER),
    FIELD(rope_table, FIELD_PER_LAYER),
    FIELD(bos_id, FIELD_INT),
    FIELD(add_bos, FIELD_BOOL),
    {.name = "eos_id",
     .kind = FIELD_LIST,
     .offset = offsetof(Config, eos_id),
     .capacity = sizeof(((Config *)0)->eos_id) / sizeof(uint32_t),
     .count_offset = offsetof(Config, n_eos)},
};

const ConfigField *config_field(size_t i) {
    return i < sizeof fields / sizeof *fields ? &fields[i] : NULL;
}

Config config_default(void) {
    return (Config){
        .norm = NORM_RMS,
        .norm_place = NORM_BEFORE,
        .norm_eps = 1e-5f,
        .final_norm = true,
        .position = POSITION_ROPE,
        .rope_attention_factor = 1.0f,
        .rope_theta = 10000.0f,
        .sinusoid_base = 10000.0f,
        .alibi_max_bias = 8.0f,
        .activation = ACTIVATION_SILU,
        .gated = true,
        .embedding_scale = 1.0f,
        .residual_scale = 1.0f,
        .logit_scale = 1.0f,
        .bos_id = -1,
    };
}

/* Limits that no real model comes near; they keep every later product of sizes in range. */
typedef struct Limit {
    const char *name;
    uint32_t low, high;
} Limit;

static const Limit limits[] = {
    {"dim", 1, 1 << 18},
    {"n_layers", 1, CONFIG_MAX_LAYERS},
    {"n_heads", 1, 1 << 12},
    {"n_kv_heads", 1, 1 << 12},
    {"head_dim", 1, 1 << 12},
    {"ffn_dim", 1, 1 << 20},
    {"vocab_size", 1, 1 << 24},
    {"context", 1, 1 << 28},
    {"rotary_dim", 0, 1 << 12},
    {"position_offset", 0, 64},
    {"rope_original_context", 0, 1 << 28},
    {"n_experts", 0, EXPERTS_MAX},
    {"n_experts_used", 0, EXPERTS_MAX_USED},
    {"expert_ffn_dim", 0, 1 << 20},
    {"shared_ffn_dim", 0, 1 << 20},
};

static const void *field_value(const Config *config, const ConfigField *field) {
    return (const char *)config + field->offset;
}

static Status check_limits(const Config *config, Error *error) {
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        const ConfigField *field = &fields[i];
        if (field->kind == FIELD_FLOAT && !isfinite(*(const float *)field_value(config, field)))
            return error_set(error, "%s is not a finite number", field->name);
        if (field->kind != FIELD_UINT) continue;
        uint32_t value = *(const uint32_t *)field_value(config, field);
        for (size_t k = 0; k < sizeof limits / sizeof *limits; k++) {
            if (strcmp(limits[k].name, field->name) != 0) continue;
            if (value < limits[k].low || value > limits[k].high)
                return error_set(error, "%s is %u, but must be from %u to %u", field->name, value,
                                 limits[k].low, limits[k].high);
        }
    }
    return STATUS_OK;
}

Status config_validate(const Config *c, Error *error) {
    if (check_limits(c, error) != STATUS_OK) return STATUS_FAILED;
    if (c->n_heads % c->n_kv_heads != 0)
        return error_set(error, "n_heads (%u) is not a multiple of n_kv_heads (%u)", c->n_heads,
                         c->n_kv_heads);
    if ((uint64_t)c->n_heads * c->head_dim > 1 << 20)
        return error_set(error, "n_heads * head_dim is %llu, more than %d",
                         (unsigned long long)c->n_heads * c->head_dim, 1 << 20);
    if (!(c->norm_eps >= 0.0f)) return error_set(error, "norm_eps is negative");
    if (c->position == POSITION_ROPE) {
        if (c->rotary_dim == 0 || c->rotary_dim % 2 != 0 || c->rotary_dim > c->head_dim)
            return error_set(error, "rotary_dim is %u, but must be even and at most head_dim (%u)",
                             c->rotary_dim, c->head_dim);
    }
    if (c->rope_dynamic_factor != 0.0f &&
        (c->rope_dynamic_factor < 1.0f || c->rope_original_context == 0 || c->rotary_dim <= 2 ||
         !(c->rope_theta > 1.0f)))
        return error_set(error,
                         "rope_dynamic_factor is %g with a context of %u, rotary_dim %u and "
                         "rope_theta %g",
                         (double)c->rope_dynamic_factor, c->rope_original_context, c->rotary_dim,
                         (double)c->rope_theta);
    if (c->position == POSITION_SINUSOIDAL) {
        if (c->dim % 2 != 0)
            return error_set(error, "dim is %u, but sinusoidal positions need an even one", c->dim);
        if (!(c->sinusoid_base > 1.0f)) return error_set(error, "sinusoid_base must be above 1");
    }
    if (c->attention_softcap < 0.0f) return error_set(error, "attention_softcap is negative");
    if (c->logit_softcap < 0.0f) return error_set(error, "logit_softcap is negative");
    if (c->qkv_clip < 0.0f) return error_set(error, "qkv_clip is negative");
    if (c->swiglu_limit < 0.0f) return error_set(error, "swiglu_limit is negative");
    if (c->swiglu_limit > 0.0f && !c->gated)
        return error_set(error, "swiglu_limit needs a gated feed-forward");
    if (c->router_jitter < 0.0f) return error_set(error, "router_jitter is negative");
    if (c->n_experts > 0) {
        if (c->n_experts_used == 0 || c->n_experts_used > c->n_experts)
            return error_set(error, "n_experts_used is %u of n_experts %u", c->n_experts_used,
                             c->n_experts);
        if (c->expert_ffn_dim == 0) return error_set(error, "expert_ffn_dim is 0");
    }
    if (c->parallel_block && c->norm_place != NORM_BEFORE)
        return error_set(error, "parallel_block needs norm_place 'before'");
    for (uint32_t layer = 0; layer < c->n_layers; layer++) {
        if (c->rope_table[layer] > 2)
            return error_set(error, "rope_table of layer %u is %u, but must be 0, 1 or 2", layer,
                             c->rope_table[layer]);
    }
    if (c->bos_id < -1 || (c->bos_id >= 0 && (uint32_t)c->bos_id >= c->vocab_size))
        return error_set(error, "bos_id is %d, but vocab_size is %u", c->bos_id, c->vocab_size);
    if (c->add_bos && c->bos_id < 0) return error_set(error, "add_bos is set without a bos_id");
    if (c->n_eos > sizeof c->eos_id / sizeof *c->eos_id)
        return error_set(error, "n_eos is %u", c->n_eos);
    for (uint32_t i = 0; i < c->n_eos; i++) {
        if (c->eos_id[i] >= c->vocab_size)
            return error_set(error, "eos_id is %u, but vocab_size is %u", c->eos_id[i],
                             c->vocab_size);
    }
    return STATUS_OK;
}

/* A per-layer field as "0 x 12, 4096 x 12" or, when it alternates, value by value. */
static int per_layer_text(const uint32_t *values, size_t n, char *text, size_t size) {
    int length = 0;
    for (size_t i = 0; i < n;) {
        size_t run = 1;
        while (i + run < n && values[i + run] == values[i]) run++;
        size_t room = (size_t)length < size ? size - (size_t)length : 0;
        char *at = room ? text + length : NULL;
        const char *comma = i ? ", " : "";
        length += run > 1 ? snprintf(at, room, "%s%u x %zu", comma, values[i], run)
                          : snprintf(at, room, "%s%u", comma, values[i]);
        i += run;
    }
    return length;
}

int config_field_text(const Config *config, const ConfigField *field, char *text, size_t size) {
    const void *value = field_value(config, field);
    if (size) text[0] = '\0';
    switch (field->kind) {
    case FIELD_UINT:
        return snprintf(text, size, "%u", *(const uint32_t *)value);
    case FIELD_INT:
        return snprintf(text, size, "%d", *(const int32_t *)value);
    case FIELD_FLOAT:
        return snprintf(text, size, "%.9g", (double)*(const float *)value);
    case FIELD_BOOL:
        return snprintf(text, size, "%s", *(const bool *)value ? "yes" : "no");
    case FIELD_ENUM:
        return snprintf(text, size, "%s", field->names[*(const unsigned *)value]);
    case FIELD_TEXT:
        return snprintf(text, size, "%s", (const char *)value);
    case FIELD_PER_LAYER:
        return per_layer_text(value, config->n_layers, text, size);
    case FIELD_LIST:
        return per_layer_text(
            value, *(const uint32_t *)((const char *)config + field->count_offset), text, size);
    }
    return 0;
}
