#include "formats/family/family_configure.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "core/config_fields.h"
#include "formats/family/verb_steps.h"
#include "json/json_object.h"

enum { KEY_BYTES = 128 };

/* Sets the activation function from its name in transformers. */
static Status set_activation(Config *config, const json_t *value, Error *error) {
    static const struct {
        const char *name;
        Activation activation;
    } names[] = {
        {"silu", ACTIVATION_SILU},
        {"swish", ACTIVATION_SILU},
        {"gelu", ACTIVATION_GELU},
        {"gelu_new", ACTIVATION_GELU_TANH},
        {"gelu_fast", ACTIVATION_GELU_TANH},
        {"gelu_pytorch_tanh", ACTIVATION_GELU_TANH},
        {"gelu_python", ACTIVATION_GELU},
        {"gelu_python_tanh", ACTIVATION_GELU_TANH},
        {"gelu_accurate", ACTIVATION_GELU_TANH},
        {"relu", ACTIVATION_RELU},
        {"quick_gelu", ACTIVATION_GELU_QUICK},
        {"relu2", ACTIVATION_RELU2},
        {"xielu", ACTIVATION_XIELU},
    };
    const char *name = json_string_value(value);
    for (size_t i = 0; name && i < sizeof names / sizeof *names; i++) {
        if (strcmp(names[i].name, name) != 0) continue;
        config->activation = names[i].activation;
        return STATUS_OK;
    }
    return error_set(error, "config.json: activation '%.40s' is not known to this program",
                     name ? name : "(no text)");
}

/* Writes which of the rule's keys the value is of; all of them where config.json has none. */
static void name_key(const ConfigRule *rule, const json_t *json, const json_t *value,
                     char key[KEY_BYTES]) {
    snprintf(key, KEY_BYTES, "%s", rule->keys);
    for (const char *p = rule->keys; *p && value; p += strcspn(p, "|"), p += *p == '|') {
        snprintf(key, KEY_BYTES, "%.*s", (int)strcspn(p, "|"), p);
        if (json_first(json, key) == value) return;
    }
}

/* Sets a Config field to a key's value (null is 0, true is 1), or to the rule's `absent` where
 * config.json lacks the key. `key` is for errors. */
static Status set_field(Config *config, const ConfigRule *rule, const char *key,
                        const ConfigField *field, const json_t *value, Error *error) {
    void *out = (char *)config + field->offset;
    double number = value ? json_number_value(value) : rule->absent;
    if (value && json_is_boolean(value)) number = json_is_true(value);
    if (value && json_is_null(value)) number = 0.0;
    if (value && !json_is_number(value) && !json_is_boolean(value) && !json_is_null(value))
        return error_set(error, "config.json: %s is not a number", key);
    switch (field->kind) {
    case FIELD_UINT:
        if (number < 0 || number > UINT32_MAX || number != floor(number))
            return error_set(error, "config.json: %s is %g", key, number);
        *(uint32_t *)out = (uint32_t)number;
        return STATUS_OK;
    case FIELD_FLOAT:
        *(float *)out = (float)number;
        return STATUS_OK;
    case FIELD_BOOL:
        *(bool *)out = number != 0.0;
        return STATUS_OK;
    default:
        return error_set(error, "config.json: %s cannot be read", key);
    }
}

/* Whether null in config.json is 0 for this rule, and not an error. Of a switch it is always
 * false. */
static bool may_be_null(const ConfigRule *rule) {
    static const char *const fields[] = {"n_kv_heads",         "head_dim",       "ffn_dim",
                                         "qkv_clip",           "latent_q_dim",   "router_groups",
                                         "router_groups_used", "value_dim",      "zero_experts",
                                         "expert_dim",         "attention_scale"};
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        if (strcmp(fields[i], rule->field) == 0) return true;
    return false;
}

static Status apply_rule(const ConfigRule *rule, const json_t *json, Config *config, Error *error) {
    const json_t *value = json_first(json, rule->keys);
    char key[KEY_BYTES];
    name_key(rule, json, value, key);
    if (!value && isnan(rule->absent)) return error_set(error, "config.json: %s is missing", key);
    if (strcmp(rule->field, "activation") == 0) {
        if (json_is_null(value)) return error_set(error, "config.json: %s is null", key);
        if (value) return set_activation(config, value, error);
        config->activation = (Activation)rule->absent;
        return STATUS_OK;
    }
    const ConfigField *field;
    size_t i = 0;
    while ((field = config_field(i)) && strcmp(field->name, rule->field) != 0) i++;
    if (!field) return error_set(error, "no field '%s'", rule->field);
    if (json_is_null(value) && field->kind != FIELD_BOOL && !may_be_null(rule))
        return error_set(error, "config.json: %s is null", key);
    return set_field(config, rule, key, field, value, error);
}

Status family_configure(const Family *family, const json_t *json, Config *config, Error *error) {
    if (preset_apply(family->set, config, error) != STATUS_OK) return STATUS_FAILED;
    for (const ConfigRule *rule = family->keys; rule->keys; rule++)
        if (apply_rule(rule, json, config, error) != STATUS_OK) return STATUS_FAILED;
    snprintf(config->family, sizeof config->family, "%s", family->model_type);
    if (config->n_layers > CONFIG_MAX_LAYERS)
        return error_set(error, "config.json: %u layers, more than %d", config->n_layers,
                         CONFIG_MAX_LAYERS);
    if (config->n_heads == 0) return error_set(error, "config.json: no attention heads");
    if (config->n_kv_heads == 0) config->n_kv_heads = config->n_heads;
    if (config->head_dim == 0) config->head_dim = config->dim / config->n_heads;
    if (config->head_dim == 0) return error_set(error, "config.json: heads without a width");
    if (config->attention_scale == 0.0f)
        config->attention_scale = (float)(1.0 / sqrt((double)config->head_dim));
    if (!family->has_layer_config &&
        family_refuse(json, "per_layer_config", "null", error) != STATUS_OK)
        return STATUS_FAILED;
    for (const FixedKey *fixed = family->fixed; fixed && fixed->key; fixed++)
        if (family_refuse(json, fixed->key, fixed->value, error) != STATUS_OK) return STATUS_FAILED;
    if (family->rope.layer_thetas && rope_layer_tables(json, config, error) != STATUS_OK)
        return STATUS_FAILED;
    if (rope_query_scaling(&family->rope, json, config, error) != STATUS_OK) return STATUS_FAILED;
    StepCall call = {.family = family, .json = json, .config = config, .error = error};
    if (steps_run(family->steps, call) != STATUS_OK) return STATUS_FAILED;
    return family->finish ? family->finish(json, config, error) : STATUS_OK;
}

/* Whether the text has the field as a whole word. */
static bool has_word(const char *text, const char *field) {
    size_t n = strlen(field);
    for (const char *at = text; (at = strstr(at, field)); at++) {
        bool begins = at == text || !(isalnum((unsigned char)at[-1]) || at[-1] == '_');
        if (begins && !isalnum((unsigned char)at[n]) && at[n] != '_') return true;
    }
    return false;
}

void family_name_keys(const Family *family, const Config *config, Error *error) {
    char named[400] = "";
    size_t n = 0;
    const uint32_t dim = config->dim, heads = config->n_heads;
    if (has_word(error->text, "head_dim") && heads && dim % heads != 0 &&
        config->head_dim == dim / heads)
        n = (size_t)snprintf(named, sizeof named, "%u heads do not divide the width of %u", heads,
                             dim);
    for (const ConfigRule *rule = family->keys; rule && rule->keys; rule++) {
        size_t length = strcspn(rule->keys, "|");
        bool is_same = strncmp(rule->field, rule->keys, length) == 0 && !rule->field[length];
        if (is_same || !strchr(rule->field, '_') || !has_word(error->text, rule->field)) continue;
        n += (size_t)snprintf(named + n, sizeof named - n, "%s%s by %.*s", n ? ", " : "",
                              rule->field, (int)length, rule->keys);
        if (n >= sizeof named) return;
    }
    if (n) error_set(error, "%s (%s)", error->text, named);
}
