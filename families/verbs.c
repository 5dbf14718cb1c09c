#include "families/verbs.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "families/helpers.h"
#include "formats/json.h"

enum { WORD = 64 };

/* Takes the next word; false, and an empty word, where there is none. */
static bool next_word(const char **words, char word[WORD]) {
    size_t n;
    while (**words == ' ') ++*words;
    n = strcspn(*words, " ");
    if (n >= WORD) n = WORD - 1;
    memcpy(word, *words, n);
    word[n] = '\0';
    *words += n;
    return n > 0;
}

static Status wrong_words(const StepCall *call, const char *verb) {
    return error_set(call->error, "family '%s': %s '%s'", call->family->model_type, verb,
                     call->words);
}

/* Reads a whole number from 0 on; false: the word is none. */
static bool whole(const char *word, double *out) {
    char *end;
    *out = strtod(word, &end);
    return end != word && *end == '\0' && *out >= 0 && *out <= 1 << 28 && *out == floor(*out);
}

/* Reads "M" or "KEY M"; *key is empty for the former. */
static bool number_or_key(const char **words, char key[WORD], double *out) {
    char word[WORD];
    key[0] = '\0';
    if (!next_word(words, word)) return false;
    if (whole(word, out)) return true;
    memcpy(key, word, WORD);
    return next_word(words, word) && whole(word, out);
}

static Status run_windows(const StepCall *c) {
    const char *words = c->words;
    char word[WORD], every_key[WORD] = "", from_key[WORD] = "";
    double absent, every = 0, from = 0;
    bool listed = true;
    if (!next_word(&words, word) || !whole(word, &absent)) return wrong_words(c, "windows");
    while (next_word(&words, word)) {
        bool right = strcmp(word, "every") == 0  ? number_or_key(&words, every_key, &every)
                     : strcmp(word, "from") == 0 ? number_or_key(&words, from_key, &from)
                                                 : strcmp(word, "unlisted") == 0;
        if (!right) return wrong_words(c, "windows");
        if (strcmp(word, "unlisted") == 0) listed = false;
    }
    if (every_key[0]) every = json_number(c->json, every_key, every);
    if (every_key[0] && !(every >= 1 && every < 1e6))
        return error_set(c->error, "config.json: %s is %g", every_key, every);
    if (from_key[0]) from = json_number(c->json, from_key, from);
    return family_windows(c->json, listed ? json_value(c->json, "layer_types") : NULL, c->config,
                          absent, from > 0 ? (uint32_t)fmin(from, 1e6) : 0, (uint32_t)every,
                          c->error);
}

static Status run_no_windows(const StepCall *c) {
    return family_no_windows(c->json, c->error);
}

static Status run_rotate_windows(const StepCall *c) {
    for (uint32_t i = 0; i < c->config->n_layers; i++)
        c->config->rope_table[i] = c->config->window[i] ? 0 : 2;
    return STATUS_OK;
}

static Status run_window_tables(const StepCall *c) {
    for (uint32_t i = 0; i < c->config->n_layers; i++)
        c->config->rope_table[i] = c->config->window[i] ? 1 : 0;
    return STATUS_OK;
}

static Status run_no_rope_layers(const StepCall *c) {
    return family_no_rope_layers(c->json, c->config, c->error);
}

static Status run_query_scaling(const StepCall *c) {
    return family_query_scaling(c->json, &c->family->rope, c->config, c->error);
}

static Status run_set(const StepCall *c) {
    const char *words = c->words;
    char field[WORD], value[WORD];
    if (!next_word(&words, field) || !next_word(&words, value)) return wrong_words(c, "set");
    return preset_text(field, value, c->config, c->error);
}

static Status run_cap(const StepCall *c) {
    const char *words = c->words;
    char key[WORD], field[WORD], absent[WORD];
    if (!next_word(&words, key) || !next_word(&words, field) || !next_word(&words, absent))
        return wrong_words(c, "cap");
    const json_t *value = json_object_get(c->json, key); /* null: none */
    const Preset preset[] = {{field, json_number_value(value)}, {0}};
    if (family_refuse_zero(c->json, key, c->error) != STATUS_OK) return STATUS_FAILED;
    return value ? preset_apply(preset, c->config, c->error)
                 : preset_text(field, absent, c->config, c->error);
}

static Status run_score_scale(const StepCall *c) {
    const char *words = c->words;
    char key[WORD], word[WORD];
    double absent;
    if (!next_word(&words, key) || !next_word(&words, word) || !whole(word, &absent))
        return wrong_words(c, "score_scale");
    double scalar = json_number(c->json, key, absent);
    if (!(scalar > 0)) return error_set(c->error, "config.json: %s is %g", key, scalar);
    c->config->attention_scale = (float)(1.0 / sqrt(scalar));
    return STATUS_OK;
}

static Status run_scale_embeddings(const StepCall *c) {
    c->config->embedding_scale = (float)sqrt((double)c->config->dim);
    return STATUS_OK;
}

static Status run_granite(const StepCall *c) {
    return family_granite(c->json, c->config, c->error);
}

static Status run_refuse_zero(const StepCall *c) {
    return family_refuse_zero(c->json, c->words, c->error);
}

static Status run_wide_ffn(const StepCall *c) {
    Config *config = c->config;
    if (config->ffn_dim > 0) return STATUS_OK;
    if (config->dim > 1 << 18)
        return error_set(c->error, "config.json: a width of %u", config->dim);
    config->ffn_dim = 4 * config->dim;
    return STATUS_OK;
}

static Status run_shared_width(const StepCall *c) {
    const char *words = c->words;
    char key[WORD], word[WORD];
    double absent;
    if (!next_word(&words, key) || !next_word(&words, word) || !whole(word, &absent))
        return wrong_words(c, "shared_width");
    return family_shared_width(c->json, key, absent, c->config, c->error);
}

static Status run_latent_heads(const StepCall *c) {
    return latent_heads(c->json, &c->family->rope, c->config, c->error);
}

static Status run_indexers(const StepCall *c) {
    return family_indexers(c->json, c->config, c->error);
}

static Status run_own_indexers(const StepCall *c) {
    for (uint32_t i = 0; i < c->config->n_layers; i++) c->config->indexer[i] = INDEXER_OWN;
    return STATUS_OK;
}

static Status run_no_step_limit(const StepCall *c) {
    return state_no_step_limit(c->json, c->error);
}

const Verb all_verbs[] = {
    {"windows", run_windows},
    {"no_windows", run_no_windows},
    {"rotate_windows", run_rotate_windows},
    {"window_tables", run_window_tables},
    {"no_rope_layers", run_no_rope_layers},
    {"query_scaling", run_query_scaling},
    {"set", run_set},
    {"cap", run_cap},
    {"score_scale", run_score_scale},
    {"scale_embeddings", run_scale_embeddings},
    {"granite", run_granite},
    {"refuse_zero", run_refuse_zero},
    {"wide_ffn", run_wide_ffn},
    {"shared_width", run_shared_width},
    {"latent_heads", run_latent_heads},
    {"indexers", run_indexers},
    {"own_indexers", run_own_indexers},
    {"no_step_limit", run_no_step_limit},
    {0},
};
