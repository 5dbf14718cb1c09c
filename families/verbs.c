#include "families/verbs.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "families/helpers.h"
#include "formats/json.h"
#include "formats/presets.h"

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

/* The words of `windows`. */
typedef struct WindowWords {
    char every_key[WORD], from_key[WORD];
    double absent, every, from;
    bool listed;
} WindowWords;

static bool read_windows(const char *words, WindowWords *w) {
    char word[WORD];
    *w = (WindowWords){.listed = true};
    if (!next_word(&words, word) || !whole(word, &w->absent)) return false;
    while (next_word(&words, word)) {
        bool right = strcmp(word, "every") == 0  ? number_or_key(&words, w->every_key, &w->every)
                     : strcmp(word, "from") == 0 ? number_or_key(&words, w->from_key, &w->from)
                                                 : strcmp(word, "unlisted") == 0;
        if (!right) return false;
        if (strcmp(word, "unlisted") == 0) w->listed = false;
    }
    return true;
}

static bool check_windows(const char *words) {
    WindowWords w;
    return read_windows(words, &w);
}

static Status run_windows(const StepCall *c) {
    WindowWords w;
    if (!read_windows(c->words, &w)) return wrong_words(c, "windows");
    if (w.every_key[0]) w.every = json_number(c->json, w.every_key, w.every);
    if (w.every_key[0] && !(w.every >= 1 && w.every < 1e6))
        return error_set(c->error, "config.json: %s is %g", w.every_key, w.every);
    if (w.from_key[0]) w.from = json_number(c->json, w.from_key, w.from);
    return family_windows(c->json, w.listed ? json_value(c->json, "layer_types") : NULL, c->config,
                          w.absent, w.from > 0 ? (uint32_t)fmin(w.from, 1e6) : 0, (uint32_t)w.every,
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
    return family_latent_heads(c->json, &c->family->rope, c->config, c->error);
}

static Status run_indexers(const StepCall *c) {
    return family_indexers(c->json, c->config, c->error);
}

static Status run_own_indexers(const StepCall *c) {
    for (uint32_t i = 0; i < c->config->n_layers; i++) c->config->indexer.layer[i] = INDEXER_OWN;
    return STATUS_OK;
}

static Status run_no_step_limit(const StepCall *c) {
    return family_state_no_step_limit(c->json, c->error);
}

const Verb verbs_all[] = {
    {"windows", run_windows, "NUMBER ...", check_windows, "sliding_window|layer_types"},
    {"no_windows", run_no_windows, "", NULL, "layer_types"},
    {"rotate_windows", run_rotate_windows, "", NULL, NULL},
    {"window_tables", run_window_tables, "", NULL, NULL},
    {"no_rope_layers", run_no_rope_layers, "", NULL, "no_rope_layers|no_rope_layer_interval"},
    {"query_scaling", run_query_scaling, "", NULL, "rope_scaling|rope_parameters"},
    {"set", run_set, "FIELD VALUE", NULL, NULL},
    {"cap", run_cap, "KEY FIELD VALUE", NULL, NULL},
    {"score_scale", run_score_scale, "KEY NUMBER", NULL, NULL},
    {"scale_embeddings", run_scale_embeddings, "", NULL, NULL},
    {"granite", run_granite, "", NULL, "logits_scaling|attention_multiplier"},
    {"refuse_zero", run_refuse_zero, "KEY", NULL, NULL},
    {"wide_ffn", run_wide_ffn, "", NULL, NULL},
    {"shared_width", run_shared_width, "KEY NUMBER", NULL, NULL},
    {"latent_heads", run_latent_heads, "", NULL, NULL},
    {"indexers", run_indexers, "", NULL,
     "indexer_types|index_topk_pattern|index_topk_freq|index_skip_topk_offset"},
    {"own_indexers", run_own_indexers, "", NULL, NULL},
    {"no_step_limit", run_no_step_limit, "", NULL, "time_step_limit"},
    {0},
};

/* Checks one word; `field` is the one that the words have named. */
static Status check_word(const char *what, const char *word, char field[WORD], Error *error) {
    double number;
    if (strcmp(what, "NUMBER") == 0 && !whole(word, &number))
        return error_set(error, "'%s' is not a whole number", word);
    if (strcmp(what, "VALUE") == 0) return preset_value(field, word, &number, error);
    if (strcmp(what, "FIELD") == 0) memcpy(field, word, WORD);
    return STATUS_OK;
}

Status verb_check(const Verb *verb, const char *words, Error *error) {
    const char *expected = verb->words, *given = words;
    char what[WORD], word[WORD], field[WORD] = "";
    if (verb->check)
        return verb->check(words) ? STATUS_OK
                                  : error_set(error, "%s takes %s", verb->name, verb->words);
    while (next_word(&expected, what)) {
        if (!next_word(&given, word))
            return error_set(error, "%s takes %s", verb->name, verb->words);
        if (check_word(what, word, field, error) != STATUS_OK) return STATUS_FAILED;
    }
    if (!next_word(&given, word)) return STATUS_OK;
    return error_set(error, "%s takes %s", verb->name, *verb->words ? verb->words : "no words");
}
