#include "formats/family/verb_steps.h"

#include <string.h>

#include "core/config_fields.h"
#include "formats/family/family_lists.h"
#include "formats/family/presets.h"
#include "json/json_object.h"

const Verb *verb_find(const char *name) {
    const Verb *verb = verbs_all;
    while (verb->name && strcmp(verb->name, name) != 0) verb++;
    return verb->name ? verb : NULL;
}

/* Whether the field is known and holds something else than a float: a name's number, say, which a
 * config.json must not choose unchecked. */
static bool is_other_than_float(const char *name) {
    const ConfigField *field;
    for (size_t i = 0; (field = config_field(i)); i++)
        if (strcmp(field->name, name) == 0) return field->kind != FIELD_FLOAT;
    return false;
}

/* Checks one word; `field` is the one that the words have named (FIELD, or FLOAT). */
static Status check_word(const char *what, const char *word, char field[STEP_WORD], Error *error) {
    double number;
    if (strcmp(what, "FLOAT") == 0 && is_other_than_float(word))
        return error_set(error, "'%s' is no field of numbers with a fraction", word);
    if (strncmp(what, "NUMBER", 6) == 0 && !step_number(word, &number))
        return error_set(error, "'%s' is not a whole number", word);
    if (strcmp(what, "VALUE") == 0) return preset_value(field, word, &number, error);
    if (strcmp(what, "FIELD") == 0 || strcmp(what, "FLOAT") == 0) memcpy(field, word, STEP_WORD);
    return STATUS_OK;
}

static Status wrong_words(const Verb *verb, Error *error) {
    return error_set(error, "%s takes %s", verb->name, *verb->words ? verb->words : "no words");
}

Status verb_check(const Verb *verb, const char *words, Error *error) {
    const char *expected = verb->words + (verb->words[0] == '['), *given = words;
    char what[STEP_WORD], word[STEP_WORD], field[STEP_WORD] = "";
    if (verb->check) return verb->check(words) ? STATUS_OK : wrong_words(verb, error);
    if (verb->words[0] == '[' && !*words) return STATUS_OK;
    while (step_word(&expected, what)) {
        if (!step_word(&given, word)) return wrong_words(verb, error);
        if (check_word(what, word, field, error) != STATUS_OK) return STATUS_FAILED;
    }
    return step_word(&given, word) ? wrong_words(verb, error) : STATUS_OK;
}

/* Whether the file has the tensor, or the key, whose number or switch must not be 0. */
static bool is_true_of_gguf(const GgufModel *m, const char *name) {
    uint32_t n = m->source->config.n_layers;
    const GgufValue *value = gguf_model_value(m, name);
    double number;
    if (n > CONFIG_MAX_LAYERS) n = CONFIG_MAX_LAYERS;
    if (value && !value->is_array && gguf_element(value, 0, &number)) return number != 0.0;
    if (value || gguf_model_has(m, name)) return true;
    for (uint32_t l = 0; name[0] == '.' && l < n; l++)
        if (gguf_model_layer_has(m, l, name + 1)) return true;
    return false;
}

static bool is_true(const StepCall *call, const Step *step, const char *name) {
    if (call->gguf) return is_true_of_gguf(call->gguf, name);
    return json_is_object(json_first(call->json, name)) ||
           json_switch(call->json, name, step->absent);
}

static Status run_step(const Step *step, StepCall *call) {
    if (step->where.field && preset_holds(&step->where, call->config) == step->where_not)
        return STATUS_OK;
    if (step->when && !is_true(call, step, step->when)) return STATUS_OK;
    if (step->unless && is_true(call, step, step->unless)) return STATUS_OK;
    const Verb *verb = verb_find(step->verb);
    VerbRun *run = !verb ? NULL : call->gguf ? verb->run_gguf : verb->run;
    if (!run) return error_set(call->error, "no verb '%s'", step->verb);
    call->words = step->words ? step->words : "";
    if (run(call) != STATUS_OK) return STATUS_FAILED;
    if (call->config->n_layers > CONFIG_MAX_LAYERS || (call->json && call->config->n_heads == 0))
        return error_set(call->error, "the family's line '%s %s' gives %u layers of %u heads",
                         step->verb, call->words, call->config->n_layers, call->config->n_heads);
    return STATUS_OK;
}

Status steps_run(const Step *steps, StepCall call) {
    for (; steps && steps->verb; steps++)
        if (run_step(steps, &call) != STATUS_OK) return STATUS_FAILED;
    return STATUS_OK;
}
