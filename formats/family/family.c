#include "formats/family/family.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "json/json_object.h"
#include "json/json_reader.h"

Status family_refuse(const json_t *json, const char *key, const char *value, Error *error) {
    const json_t *given = json_first(json, key);
    if (!given || json_is_null(given)) return STATUS_OK;
    json_t *accepted = json_reader_load(value, strlen(value), JSON_DECODE_ANY, NULL);
    bool is_same = json_is_number(given) && json_is_number(accepted)
                       ? json_number_value(given) == json_number_value(accepted)
                       : json_equal(given, accepted);
    json_decref(accepted);
    if (is_same) return STATUS_OK;
    char *text = json_dumps(given, JSON_ENCODE_ANY | JSON_COMPACT | JSON_REAL_PRECISION(6));
    error_set(error, "config.json: %s is %.60s, which this program cannot compute (only %s)", key,
              text ? text : "?", value);
    free(text);
    return STATUS_FAILED;
}

const char *family_layers(const Family *family) {
    return family->layers ? family->layers : "model.layers.%u.";
}

void family_biases(const Family *family, const json_t *json, const Config *config,
                   char out[FAMILY_BIASES_BYTES]) {
    bool norms = config->norm == NORM_LAYER && !family->norms_have_no_bias;
    size_t n = (size_t)snprintf(out, FAMILY_BIASES_BYTES, "%s", norms ? " norms " : "");
    for (const BiasRule *rule = family->biases; rule && rule->matrices; rule++) {
        bool has = !rule->key || json_switch(json, rule->key, rule->absent);
        if (n < FAMILY_BIASES_BYTES && has)
            n += (size_t)snprintf(out + n, FAMILY_BIASES_BYTES - n, "%s", rule->matrices);
    }
}

const char *family_prefix(const Family *family, const RawTable *table) {
    const TensorRule *rules = family->tensors;
    static const char *const prefixes[] = {"model.",
                                           "",
                                           "language_model.model.",
                                           "model.language_model.",
                                           "transformer.",
                                           "gpt_neox.",
                                           "model.text_model.",
                                           "text_model.",
                                           "text_model.model.",
                                           "model.language_model.model.",
                                           "model.model.language_model.",
                                           "model.model.language_model.model.",
                                           "thinker.model.",
                                           "thinker.model.language_model.",
                                           "language_model.backbone.",
                                           "backbone.",
                                           "model.llm."};
    if (!rules->to || strncmp(rules->from, "model.", 6) != 0) return NULL;
    /* The embedding comes first. A file that has it under the head's name alone shows the prefix by
     * the final norm. */
    for (; rules->to; rules++) {
        if (strncmp(rules->from, "model.", 6) != 0 || strchr(rules->from, '%')) continue;
        for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++) {
            char name[128];
            snprintf(name, sizeof name, "%s%s%s", prefixes[i], rules->from + 6,
                     rules_weight(rules));
            if (raw_table_find(table, name)) return prefixes[i];
        }
    }
    return NULL;
}
