/* peft's adapters: adapter_config.json and the tensors of adapter_model.safetensors. The keys
 * follow LoraConfig in peft 0.21 (src/peft/tuners/lora/config.py). */
#define PCRE2_CODE_UNIT_WIDTH 8
#include "adapters/adapter_peft.h"

#include <math.h>
#include <pcre2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "adapters/adapter_experts.h"
#include "adapters/adapter_modules.h"
#include "adapters/adapter_names.h"
#include "formats/family/families.h"
#include "formats/containers/safetensors.h"
#include "json/json_object.h"

/* ---- Keys ---- */

/* Change nothing about a trained adapter: how it was trained or loaded, or what its tensors say
 * themselves. */
static const char *const irrelevant_keys[] = {"auto_mapping",
                                              "base_model_name_or_path",
                                              "corda_config",
                                              "eva_config",
                                              "exclude_modules",
                                              "fan_in_fan_out",
                                              "inference_mode",
                                              "layers_pattern",
                                              "layers_to_transform",
                                              "loftq_config",
                                              "lora_dropout",
                                              "lora_ga_config",
                                              "megatron_config",
                                              "megatron_core",
                                              "peft_version",
                                              "qalora_group_size",
                                              "revision",
                                              "runtime_config",
                                              "target_modules",
                                              "target_parameters",
                                              "task_type",
                                              NULL};

static const char *const read_keys[] = {"alpha_pattern", "bias",       "init_lora_weights",
                                        "lora_alpha",    "peft_type",  "r",
                                        "rank_pattern",  "use_rslora", NULL};

/* Ask for something else than plain LoRA unless they are null, false, 0 or empty. */
static const struct {
    const char *key, *what;
} refused_keys[] = {
    {"alora_invocation_tokens", "an adapter that begins at a sequence of tokens (aLoRA)"},
    {"arrow_config", "adapters chosen by a router (Arrow)"},
    {"ensure_weight_tying", "adapters that follow tied weights"},
    {"kasa_config", "KaSA"},
    {"layer_replication", "replicated layers"},
    {"lora_bias", "a bias beside B"},
    {"modules_to_save", "whole modules"},
    {"monteclora_config", "MonteCLoRA"},
    {"trainable_token_indices", "single trained tokens"},
    {"use_bdlora", "block-diagonal LoRA"},
    {"use_dora", "DoRA"},
    {"use_qalora", "QALoRA"},
    {"velora_config", "VeLoRA"},
};
enum { REFUSED = sizeof refused_keys / sizeof *refused_keys };

static bool is_listed(const char *const *keys, const char *key) {
    for (; *keys; keys++)
        if (strcmp(*keys, key) == 0) return true;
    return false;
}

/* Whether a key is absent or has a value that asks for nothing: null, false, 0, or empty. */
static bool is_unset(const json_t *value) {
    return !value || json_is_null(value) || json_is_false(value) ||
           (json_is_string(value) && json_string_length(value) == 0) ||
           (json_is_number(value) && json_number_value(value) == 0.0) ||
           (json_is_array(value) && json_array_size(value) == 0) ||
           (json_is_object(value) && json_object_size(value) == 0);
}

/* Refuses a key of adapter_config.json: the message says its value and what it asks for. */
static Status peft_refuse(const char *path, const char *key, const json_t *value, const char *what,
                          Error *error) {
    char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);
    error_set(error, "%s: %s is %.80s: %s: not known to this program", path, key,
              text ? text : "set", what);
    free(text);
    return STATUS_FAILED;
}

/* Refuses initializations that change the base model's weights (PiSSA and others): the adapter is
 * only right on the changed weights. */
static Status check_initialization(const char *path, const json_t *config, Error *error) {
    static const char *const plain[] = {"gaussian", "eva", "orthogonal", "true", "false", NULL};
    const json_t *value = json_value(config, "init_lora_weights");
    const char *name = json_string_value(value);
    if (!value || json_is_boolean(value) || (name && is_listed(plain, name))) return STATUS_OK;
    return peft_refuse(
        path, "init_lora_weights", value,
        "it changes the base's weights; peft can convert such an adapter to plain LoRA", error);
}

static Status peft_check_keys(const char *path, const json_t *config, Error *error) {
    const char *key, *type = json_text(config, "peft_type"), *bias = json_text(config, "bias");
    json_t *value;
    if (!type || strcmp(type, "LORA") != 0)
        return error_set(error, "%s: peft_type is '%.40s': only LORA is known to this program",
                         path, type ? type : "");
    if (bias && strcmp(bias, "none") != 0)
        return error_set(error, "%s: bias is '%.40s': trained biases are not known to this program",
                         path, bias);
    json_object_foreach((json_t *)config, key, value) {
        if (is_listed(irrelevant_keys, key) || is_listed(read_keys, key)) continue;
        size_t i = 0;
        while (i < REFUSED && strcmp(refused_keys[i].key, key) != 0) i++;
        if (i == REFUSED)
            return error_set(error, "%s: the key '%.60s' is not known to this program", path, key);
        if (!is_unset(value)) return peft_refuse(path, key, value, refused_keys[i].what, error);
    }
    return check_initialization(path, config, error);
}

/* ---- Ranks and scales ---- */

/* What rank_pattern and alpha_pattern mean by a key: a regular expression for the end of a module's
 * name, from its beginning or after a dot. */
static Status matches(const char *path, const char *key, const char *name, bool *found,
                      Error *error) {
    enum { MOST_STEPS = 20000 };
    char pattern[600];
    int number;
    PCRE2_SIZE at;
    if (snprintf(pattern, sizeof pattern, "^(?:.*\\.)?(?:%s)$", key) >= (int)sizeof pattern)
        return error_set(error, "%s: the pattern '%.60s...' is too long", path, key);
    pcre2_code *code =
        pcre2_compile((PCRE2_SPTR)pattern, PCRE2_ZERO_TERMINATED, PCRE2_UTF, &number, &at, NULL);
    pcre2_match_data *data = code ? pcre2_match_data_create(1, NULL) : NULL;
    pcre2_match_context *context = data ? pcre2_match_context_create(NULL) : NULL;
    int result = PCRE2_ERROR_NOMEMORY;
    if (context) {
        pcre2_set_match_limit(context, MOST_STEPS);
        pcre2_set_heap_limit(context, 1024);
        result = pcre2_match(code, (PCRE2_SPTR)name, PCRE2_ZERO_TERMINATED, 0, 0, data, context);
    }
    bool compiled = code != NULL;
    pcre2_match_context_free(context);
    pcre2_match_data_free(data);
    pcre2_code_free(code);
    if (!compiled) return error_set(error, "%s: '%.60s' is not a regular expression", path, key);
    if (result < 0 && result != PCRE2_ERROR_NOMATCH)
        return error_set(error, "%s: the pattern '%.60s' cannot be matched", path, key);
    *found = result != PCRE2_ERROR_NOMATCH;
    return STATUS_OK;
}

/* The number that the table (a member of the config, NULL: none) has for the module, or `number`.
 */
static Status number_of(const char *path, const json_t *table, const char *name, double *number,
                        Error *error) {
    const char *key;
    json_t *value;
    if (table && !json_is_object(table))
        return error_set(error, "%s: a table of patterns is not an object", path);
    json_object_foreach((json_t *)table, key, value) {
        bool found = false;
        if (matches(path, key, name, &found, error) != STATUS_OK) return STATUS_FAILED;
        if (!found) continue;
        if (!json_is_number(value))
            return error_set(error, "%s: the value of the pattern '%.60s' is not a number", path,
                             key);
        *number = json_number_value(value);
        return STATUS_OK;
    }
    return STATUS_OK;
}

/* Every pattern is tried on every module: hostile files could keep that up for hours. */
static Status check_patterns(const AdapterModules *modules, const char *path, const json_t *config,
                             Error *error) {
    enum { MOST_TRIES = 1 << 20 };
    size_t n = json_object_size(json_value(config, "rank_pattern")) +
               json_object_size(json_value(config, "alpha_pattern"));
    if (n == 0 || modules->n <= MOST_TRIES / n) return STATUS_OK;
    return error_set(error, "%s: %zu patterns for %zu modules are too many", path, n, modules->n);
}

static Status set_scale(AdapterModule *m, const char *path, const json_t *config, Error *error) {
    double rank = json_number(config, "r", 8), alpha = json_number(config, "lora_alpha", 8);
    if (number_of(path, json_value(config, "rank_pattern"), m->own_name, &rank, error) !=
            STATUS_OK ||
        number_of(path, json_value(config, "alpha_pattern"), m->own_name, &alpha, error) !=
            STATUS_OK)
        return STATUS_FAILED;
    double stored = (double)adapter_rank(m);
    if (rank != stored)
        return error_set(error, "%s: gives '%.100s' rank %g, but its factors have rank %g", path,
                         m->own_name, rank, stored);
    if (!isfinite(alpha) || fabs(alpha) > 1e9)
        return error_set(error, "%s: gives '%.100s' lora_alpha %g", path, m->own_name, alpha);
    m->alpha_over_rank = alpha / (json_flag(config, "use_rslora", false) ? sqrt(rank) : rank);
    return STATUS_OK;
}

/* ---- Factors ---- */

/* Assigns a tensor to its module, or lists it as a whole one. */
static Status add_factor(AdapterModules *modules, const Family *family, const RawTensor *raw,
                         const char *path, Error *error) {
    static const struct {
        const char *end;
        bool is_a, is_embedding;
    } ends[] = {{".lora_A.weight", true, false},
                {".lora_B.weight", false, false},
                {".lora_embedding_A", true, true},
                {".lora_embedding_B", false, true}};
    static const char base[] = "base_model.model.";
    const char *name = raw->name;
    size_t i = 0;
    if (strncmp(name, base, sizeof base - 1) == 0) name += sizeof base - 1;
    while (i < 4 && !ends_with(name, ends[i].end)) i++;
    if (ends_with(name, ".lora_magnitude_vector") ||
        ends_with(name, ".lora_magnitude_vector.weight"))
        return error_set(error, "%s: '%.100s' is DoRA's, which this program does not know", path,
                         raw->name);
    bool may_be_whole = ends_with(name, ".weight") || ends_with(name, ".bias");
    if (i == 4 && may_be_whole && !strstr(name, ".lora_")) {
        if (!array_reserve(&modules->wholes, &modules->wholes_capacity, modules->n_wholes + 1,
                           sizeof *modules->wholes))
            return error_set(error, "%s: no memory", path);
        modules->wholes[modules->n_wholes++] = raw;
        return STATUS_OK;
    }
    if (i == 4)
        return error_set(error, "%s: '%.100s' is not a factor of LoRA, which is all that is known",
                         path, raw->name);
    AdapterModule *m = adapter_module(modules, name, strlen(name) - strlen(ends[i].end));
    if (m && !m->name) {
        m->is_embedding = ends[i].is_embedding;
        m->name = adapter_peft_name(family, m->own_name);
    }
    if (!m || !m->name) return error_set(error, "%s: no memory", path);
    const RawTensor **factor = ends[i].is_a ? &m->a : &m->b;
    if (*factor || m->is_embedding != ends[i].is_embedding)
        return error_set(error, "%s: '%.100s' has factors of two kinds", path, m->own_name);
    *factor = raw;
    return STATUS_OK;
}

Status adapter_read_peft(AdapterModules *modules, const InputFile *config_file,
                         const InputFile *weights, const Config *base, Error *error) {
    const Family *family = family_find(base->family);
    const char *path = config_file->path;
    json_t *config = NULL;
    Status status = json_parse(&config, path, config_file->map, (size_t)config_file->bytes, error);
    if (status == STATUS_OK) status = peft_check_keys(path, config, error);
    if (status == STATUS_OK) status = safetensors_read(weights, 1, &modules->table, error);
    if (status == STATUS_OK) status = raw_table_sort(&modules->table, error);
    for (size_t i = 0; status == STATUS_OK && i < modules->table.n; i++)
        status = add_factor(modules, family, &modules->table.items[i], weights->path, error);
    if (status == STATUS_OK) status = adapter_check_modules(modules, weights->path, error);
    size_t n = modules->n;
    if (status == STATUS_OK)
        status = adapter_split_experts(modules, family, base, weights->path, error);
    bool has_patterns = !is_unset(json_value(config, "rank_pattern")) ||
                        !is_unset(json_value(config, "alpha_pattern"));
    if (status == STATUS_OK && modules->n != n && has_patterns)
        status = error_set(error,
                           "%s: patterns of ranks or scales beside target_parameters are not "
                           "known to this program",
                           path);
    if (status == STATUS_OK) status = check_patterns(modules, path, config, error);
    for (size_t i = 0; status == STATUS_OK && i < modules->n; i++)
        status = set_scale(&modules->items[i], path, config, error);
    json_decref(config);
    return status;
}
