#include "families/verbs.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "families/gguf_helpers.h"
#include "families/helpers.h"
#include "formats/json.h"
#include "formats/presets.h"

static Status wrong_words(const StepCall *call, const char *verb) {
    return error_set(call->error, "the family's line '%s %s' is wrong", verb, call->words);
}

/* Reads "M" or "KEY M"; *key is empty for the former. */
static bool read_number_or_key(const char **words, char key[STEP_WORD], double *out) {
    char word[STEP_WORD];
    key[0] = '\0';
    if (!step_word(words, word)) return false;
    if (step_number(word, out)) return true;
    memcpy(key, word, STEP_WORD);
    return step_word(words, word) && step_number(word, out);
}

/* The words of `windows`. */
typedef struct WindowWords {
    char every_key[STEP_WORD], from_key[STEP_WORD];
    double absent, every, from;
    bool listed, first;
} WindowWords;

static bool read_windows(const char *words, WindowWords *w) {
    char word[STEP_WORD];
    *w = (WindowWords){.listed = true};
    if (!step_word(&words, word) || !step_number(word, &w->absent)) return false;
    while (step_word(&words, word)) {
        bool every = strcmp(word, "every") == 0, from = strcmp(word, "from") == 0;
        bool unlisted = strcmp(word, "unlisted") == 0, first = strcmp(word, "first") == 0;
        if (every && !read_number_or_key(&words, w->every_key, &w->every)) return false;
        if (from && !read_number_or_key(&words, w->from_key, &w->from)) return false;
        if (unlisted) w->listed = false;
        if (first) w->first = true;
        if (!every && !from && !unlisted && !first) return false;
    }
    return true;
}

static bool check_windows(const char *words) {
    WindowWords w;
    return read_windows(words, &w);
}

/* windows NUMBER ...: verbs.h tells its words. */
static Status run_windows(const StepCall *c) {
    WindowWords w;
    if (!read_windows(c->words, &w)) return wrong_words(c, "windows");
    if (w.every_key[0]) w.every = json_number(c->json, w.every_key, w.every);
    if (w.every_key[0] && !(w.every >= 1 && w.every < 1e6))
        return error_set(c->error, "config.json: %s is %g", w.every_key, w.every);
    if (w.from_key[0]) w.from = json_number(c->json, w.from_key, w.from);
    const json_t *types = w.listed ? json_value(c->json, "layer_types") : NULL;
    uint32_t every = (uint32_t)w.every, from = w.from > 0 ? (uint32_t)fmin(w.from, 1e6) : 0;
    if (family_windows(c->json, types, c->config, w.absent, from, w.first ? 0 : every, c->error) !=
        STATUS_OK)
        return STATUS_FAILED;
    for (uint32_t i = 0; w.first && !types && every && i < c->config->n_layers; i += every)
        c->config->window[i] = 0;
    return STATUS_OK;
}

static Status run_no_windows(const StepCall *c) {
    return family_no_windows(c->json, c->error);
}

static bool check_window_rope(const char *words) {
    return strcmp(words, "alone") == 0 || strcmp(words, "alone_if_any") == 0 ||
           strcmp(words, "local") == 0;
}

static Status run_window_rope(const StepCall *c) {
    if (!check_window_rope(c->words)) return wrong_words(c, "window_rope");
    bool none = json_is_null(json_object_get(c->json, "sliding_window"));
    bool all = strcmp(c->words, "alone_if_any") == 0 && none;
    bool local = strcmp(c->words, "local") == 0;
    for (uint32_t i = 0; i < c->config->n_layers; i++) {
        bool slides = c->config->window[i] > 0;
        c->config->rope_table[i] = local ? (slides ? 1 : 0) : (slides || all ? 0 : 2);
    }
    return STATUS_OK;
}

static Status run_no_rope_layers(const StepCall *c) {
    return family_no_rope_layers(c->json, c->config, c->error);
}

static Status run_query_scaling(const StepCall *c) {
    return family_query_scaling(c->json, &c->family->rope, c->config, c->error);
}

static Status run_gguf_query_scaling(const StepCall *c) {
    return gguf_query_scaling(c->gguf, c->config);
}

/* set FIELD VALUE */
static Status run_set(const StepCall *c) {
    const char *words = c->words;
    char field[STEP_WORD], value[STEP_WORD];
    if (!step_word(&words, field) || !step_word(&words, value)) return wrong_words(c, "set");
    return preset_text(field, value, c->config, c->error);
}

/* cap KEY FIELD VALUE: the field is config.json's KEY, or VALUE where that is absent. null, which
 * json_number_value reads as 0, is no cap. */
static Status run_cap(const StepCall *c) {
    const char *words = c->words;
    char key[STEP_WORD], field[STEP_WORD], absent[STEP_WORD];
    if (!step_word(&words, key) || !step_word(&words, field) || !step_word(&words, absent))
        return wrong_words(c, "cap");
    const json_t *value = json_object_get(c->json, key);
    const Preset preset[] = {{field, json_number_value(value)}, {0}};
    if (family_refuse_zero(c->json, key, c->error) != STATUS_OK) return STATUS_FAILED;
    return value ? preset_apply(preset, c->config, c->error)
                 : preset_text(field, absent, c->config, c->error);
}

/* Reads "KEY NUMBER". */
static bool read_key_and_number(const char *words, char key[STEP_WORD], double *number) {
    char word[STEP_WORD];
    return step_word(&words, key) && step_word(&words, word) && step_number(word, number);
}

/* score_scale KEY NUMBER: attention_scale is 1 / sqrt(KEY). */
static Status run_score_scale(const StepCall *c) {
    char key[STEP_WORD];
    double absent;
    if (!read_key_and_number(c->words, key, &absent)) return wrong_words(c, "score_scale");
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
    double absent = 1;
    if (*c->words && !step_number(c->words, &absent)) return wrong_words(c, "granite");
    return family_granite(c->json, absent, c->config, c->error);
}

static Status run_gguf_granite(const StepCall *c) {
    if (*c->words) return wrong_words(c, "granite");
    return gguf_granite(c->gguf, c->config);
}

static Status run_refuse_zero(const StepCall *c) {
    return family_refuse_zero(c->json, c->words, c->error);
}

/* wide_ffn [KEY NUMBER]: ffn_dim is KEY * dim, or 4 * dim where config.json has none. */
static Status run_wide_ffn(const StepCall *c) {
    Config *config = c->config;
    char key[STEP_WORD];
    double times = 4;
    if (!*c->words && config->ffn_dim > 0) return STATUS_OK;
    if (*c->words && !read_key_and_number(c->words, key, &times)) return wrong_words(c, "wide_ffn");
    if (*c->words) times = json_number(c->json, key, times);
    double width = times * config->dim;
    if (!(width >= 1 && width <= 1 << 24))
        return error_set(c->error, "config.json: a feed-forward of %g times %u", times,
                         config->dim);
    config->ffn_dim = (uint32_t)width;
    return STATUS_OK;
}

/* shared_width KEY NUMBER: the shared expert is as wide as KEY experts. */
static Status run_shared_width(const StepCall *c) {
    char key[STEP_WORD];
    double absent;
    if (!read_key_and_number(c->words, key, &absent)) return wrong_words(c, "shared_width");
    return family_shared_width(c->json, key, absent, c->config, c->error);
}

static Status run_latent_heads(const StepCall *c) {
    return family_latent_heads(c->json, &c->family->rope, c->config, c->error);
}

static Status run_gguf_latent_heads(const StepCall *c) {
    if (gguf_latent_finish(c->gguf, c->config) != STATUS_OK) return STATUS_FAILED;
    gguf_scale_scores(c->gguf, c->config);
    return STATUS_OK;
}

static bool check_indexers(const char *words) {
    return !*words || strcmp(words, "all") == 0;
}

static Status run_indexers(const StepCall *c) {
    if (!*c->words) return family_indexers(c->json, c->config, c->error);
    for (uint32_t i = 0; i < c->config->n_layers; i++) c->config->indexer.layer[i] = INDEXER_OWN;
    return STATUS_OK;
}

static Status run_gguf_indexers(const StepCall *c) {
    if (*c->words) return wrong_words(c, "indexers");
    gguf_indexers(c->gguf, c->config);
    return STATUS_OK;
}

static Status run_no_step_limit(const StepCall *c) {
    return family_state_no_step_limit(c->json, c->error);
}

const Verb verbs_all[] = {
    {"windows", run_windows, NULL, "NUMBER ...", check_windows, "sliding_window|layer_types"},
    {"no_windows", run_no_windows, NULL, "", NULL, "layer_types"},
    {"window_rope", run_window_rope, NULL, "alone, alone_if_any or local", check_window_rope, NULL},
    {"no_rope_layers", run_no_rope_layers, NULL, "", NULL, "no_rope_layers|no_rope_layer_interval"},
    {"query_scaling", run_query_scaling, run_gguf_query_scaling, "", NULL,
     "rope_scaling|rope_parameters"},
    {"set", run_set, run_set, "FIELD VALUE", NULL, NULL},
    {"cap", run_cap, NULL, "KEY FIELD VALUE", NULL, NULL},
    {"score_scale", run_score_scale, NULL, "KEY NUMBER", NULL, NULL},
    {"scale_embeddings", run_scale_embeddings, run_scale_embeddings, "", NULL, NULL},
    {"granite", run_granite, run_gguf_granite, "[NUMBER]", NULL,
     "logits_scaling|attention_multiplier"},
    {"refuse_zero", run_refuse_zero, NULL, "KEY", NULL, NULL},
    {"wide_ffn", run_wide_ffn, NULL, "[KEY NUMBER]", NULL, NULL},
    {"shared_width", run_shared_width, NULL, "KEY NUMBER", NULL, NULL},
    {"latent_heads", run_latent_heads, run_gguf_latent_heads, "", NULL, NULL},
    {"indexers", run_indexers, run_gguf_indexers, "all, or no word", check_indexers,
     "indexer_types|index_topk_pattern|index_topk_freq|index_skip_topk_offset"},
    {"no_step_limit", run_no_step_limit, NULL, "", NULL, "time_step_limit"},
    {0},
};
