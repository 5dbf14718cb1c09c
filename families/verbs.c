#include "families/verbs.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "families/gguf_helpers.h"
#include "families/helpers.h"
#include "formats/family/family_lists.h"
#include "formats/family/page_tables.h"
#include "formats/family/presets.h"
#include "json/json_object.h"

enum { MOST_KIND_NAMES = 8 };

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

/* The number that the key gives, or the length of a text with a letter for each layer: "LLLG". */
static double number_or_length(const json_t *json, const char *key, double absent) {
    const json_t *value = json_value(json, key);
    return json_is_string(value) ? (double)json_string_length(value)
                                 : json_number(json, key, absent);
}

/* windows NUMBER ...: verbs.h tells its words. */
static Status run_windows(const StepCall *c) {
    WindowWords w;
    if (!read_windows(c->words, &w)) return wrong_words(c, "windows");
    if (w.every_key[0]) w.every = number_or_length(c->json, w.every_key, w.every);
    bool none = json_is_null(json_object_get(c->json, "sliding_window"));
    if (w.every_key[0] && !(w.every >= (none ? 0 : 1) && w.every < 1e6))
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

static bool check_rope_layers(const char *words) {
    return strcmp(words, "sliding") == 0 || strcmp(words, "sliding_if_any") == 0 ||
           strcmp(words, "local") == 0 || strcmp(words, "listed") == 0;
}

static Status run_rope_layers(const StepCall *c) {
    if (!check_rope_layers(c->words)) return wrong_words(c, "rope_layers");
    if (strcmp(c->words, "listed") == 0) return family_no_rope_layers(c->json, c->config, c->error);
    bool none = json_is_null(json_object_get(c->json, "sliding_window"));
    bool all = strcmp(c->words, "sliding_if_any") == 0 && none;
    bool local = strcmp(c->words, "local") == 0;
    for (uint32_t i = 0; i < c->config->n_layers; i++) {
        bool slides = c->config->window[i] > 0;
        c->config->rope_table[i] = local ? (slides ? 1 : 0) : (slides || all ? 0 : 2);
    }
    return STATUS_OK;
}

/* set FIELD VALUE */
static Status run_set(const StepCall *c) {
    const char *words = c->words;
    char field[STEP_WORD], value[STEP_WORD];
    if (!step_word(&words, field) || !step_word(&words, value)) return wrong_words(c, "set");
    return preset_text(field, value, c->config, c->error);
}

/* cap KEY FIELD VALUE: the field is config.json's KEY, or VALUE where that is absent. null, which
 * json_number_value reads as 0, is not a cap. */
static Status run_cap(const StepCall *c) {
    const char *words = c->words;
    char key[STEP_WORD], field[STEP_WORD], absent[STEP_WORD];
    if (!step_word(&words, key) || !step_word(&words, field) || !step_word(&words, absent))
        return wrong_words(c, "cap");
    const json_t *value = json_first(c->json, key);
    const Preset preset[] = {{field, json_number_value(value)}, {0}};
    if (family_refuse_zero(c->json, key, c->error) != STATUS_OK) return STATUS_FAILED;
    return value ? preset_apply(preset, c->config, c->error)
                 : preset_text(field, absent, c->config, c->error);
}

/* Reads "KEY NUMBER". */
static bool read_key_and_number(const char **words, char key[STEP_WORD], double *number) {
    char word[STEP_WORD];
    return step_word(words, key) && step_word(words, word) && step_number(word, number);
}

/* Whether the words of `scale` are "scores KEY NUMBER". */
static bool is_of_scores(const char *words, char key[STEP_WORD], double *absent) {
    char what[STEP_WORD], more[STEP_WORD];
    return step_word(&words, what) && strcmp(what, "scores") == 0 &&
           read_key_and_number(&words, key, absent) && !step_word(&words, more);
}

static bool check_scale(const char *words) {
    char key[STEP_WORD];
    double absent;
    return strcmp(words, "embeddings") == 0 || is_of_scores(words, key, &absent);
}

/* scale embeddings: embedding_scale is sqrt(dim); scale scores KEY NUMBER: attention_scale is
 * 1 / sqrt(KEY). */
static Status run_scale(const StepCall *c) {
    char key[STEP_WORD];
    double absent;
    if (strcmp(c->words, "embeddings") == 0) {
        c->config->embedding_scale = (float)sqrt((double)c->config->dim);
        return STATUS_OK;
    }
    if (!c->json || !is_of_scores(c->words, key, &absent)) return wrong_words(c, "scale");
    double scalar = json_number(c->json, key, absent);
    if (!(scalar > 0)) return error_set(c->error, "config.json: %s is %g", key, scalar);
    c->config->attention_scale = (float)(1.0 / sqrt(scalar));
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

/* wide_ffn [KEY NUMBER]: ffn_dim is KEY * dim, or 4 * dim where config.json has none. */
static Status run_wide_ffn(const StepCall *c) {
    Config *config = c->config;
    const char *words = c->words;
    char key[STEP_WORD];
    double times = 4;
    if (!*c->words && config->ffn_dim > 0) return STATUS_OK;
    if (*c->words && !read_key_and_number(&words, key, &times)) return wrong_words(c, "wide_ffn");
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
    const char *words = c->words;
    char key[STEP_WORD];
    double absent;
    if (!read_key_and_number(&words, key, &absent)) return wrong_words(c, "shared_width");
    return family_shared_width(c->json, key, absent, c->config, c->error);
}

static bool check_latent_heads(const char *words) {
    return !*words || strcmp(words, "indexers") == 0 || strcmp(words, "indexers all") == 0;
}

/* latent_heads [indexers [all]] */
static Status run_latent_heads(const StepCall *c) {
    if (!check_latent_heads(c->words)) return wrong_words(c, "latent_heads");
    if (strcmp(c->words, "indexers") == 0 &&
        family_indexers(c->json, c->config, c->error) != STATUS_OK)
        return STATUS_FAILED;
    bool all = strcmp(c->words, "indexers all") == 0;
    for (uint32_t i = 0; all && i < c->config->n_layers; i++)
        c->config->indexer.layer[i] = INDEXER_OWN;
    return family_latent_heads(c->json, &c->family->rope, c->config, c->error);
}

/* latent_heads [indexers]: which layers have one, the file's tensors say. */
static Status run_gguf_latent_heads(const StepCall *c) {
    bool indexers = strcmp(c->words, "indexers") == 0;
    if (*c->words && !indexers) return wrong_words(c, "latent_heads");
    if (gguf_latent_finish(c->gguf, c->config) != STATUS_OK) return STATUS_FAILED;
    gguf_scale_scores(c->gguf, c->config);
    if (indexers) gguf_indexers(c->gguf, c->config);
    return STATUS_OK;
}

/* The kinds of layers that `kinds` gives where config.json has no list of them: `usual`, and of
 * every `every`-th layer, or as many as `key` says, `other`. */
typedef struct OtherKinds {
    char key[STEP_WORD];
    double every; /* 0: all layers are usual */
    uint32_t usual, other;
} OtherKinds;

static bool next_kind(const char **words, uint32_t *kind) {
    char word[STEP_WORD];
    return step_word(words, word) && page_kind(word, kind);
}

/* Reads what stands after "else": KIND [KIND every M | KIND every KEY M]. */
static bool read_other_kinds(const char *words, OtherKinds *k) {
    char word[STEP_WORD];
    *k = (OtherKinds){0};
    if (!next_kind(&words, &k->usual)) return false;
    if (!*(words + strspn(words, " "))) return true;
    return next_kind(&words, &k->other) && step_word(&words, word) && strcmp(word, "every") == 0 &&
           read_number_or_key(&words, k->key, &k->every) && k->every >= 1 &&
           !step_word(&words, word);
}

/* Splits "NAME=KIND". */
static bool read_named_kind(char word[STEP_WORD], uint32_t *kind) {
    char *equals = strchr(word, '=');
    if (!equals || equals == word || !page_kind(equals + 1, kind)) return false;
    *equals = '\0';
    return true;
}

static bool check_kinds(const char *words) {
    char word[STEP_WORD];
    uint32_t kind;
    OtherKinds others;
    if (!step_word(&words, word)) return false;
    if (!*words || strcmp(words, " alone") == 0) return page_kind(word, &kind);
    size_t n = 0;
    while (step_word(&words, word) && strcmp(word, "else") != 0 && read_named_kind(word, &kind))
        n++;
    return n > 0 && n <= MOST_KIND_NAMES && strcmp(word, "else") == 0 &&
           read_other_kinds(words, &others);
}

static Status set_other_kinds(const StepCall *c, const OtherKinds *k) {
    double every = k->key[0] ? json_number(c->json, k->key, k->every) : k->every;
    if (k->every > 0 && !(every >= 1 && every <= 1 << 24 && every == floor(every)))
        return error_set(c->error, "config.json: %s is %g", k->key, every);
    for (uint32_t l = 0; l < c->config->n_layers; l++)
        c->config->layer_kind[l] =
            every > 0 && (l + 1) % (uint32_t)every == 0 ? k->other : k->usual;
    return STATUS_OK;
}

/* kinds KIND [alone] */
static Status set_all_kinds(const StepCall *c, const char *name, bool alone) {
    uint32_t kind;
    if (!page_kind(name, &kind)) return wrong_words(c, "kinds");
    for (uint32_t l = 0; l < c->config->n_layers && l < CONFIG_MAX_LAYERS; l++) {
        c->config->layer_kind[l] = kind;
        if (alone) c->config->without_ffn[l] = 1;
    }
    return STATUS_OK;
}

static bool check_all_kinds(const char *words) {
    return check_kinds(words) && !strchr(words, '=');
}

static Status run_gguf_kinds(const StepCall *c) {
    const char *rest = c->words;
    char kind[STEP_WORD];
    if (!check_all_kinds(c->words) || !step_word(&rest, kind)) return wrong_words(c, "kinds");
    return set_all_kinds(c, kind, *rest != '\0');
}

/* kinds KIND [alone], or kinds KEY NAME=KIND... else KIND [KIND every M | KIND every KEY M] */
static Status run_kinds(const StepCall *c) {
    char key[STEP_WORD], words[MOST_KIND_NAMES][STEP_WORD];
    KindName names[MOST_KIND_NAMES + 1] = {0};
    const char *rest = c->words;
    OtherKinds others;
    uint32_t kind;
    if (!check_kinds(c->words)) return wrong_words(c, "kinds");
    if (check_all_kinds(c->words)) return run_gguf_kinds(c);
    step_word(&rest, key);
    for (size_t n = 0; step_word(&rest, words[n]) && read_named_kind(words[n], &kind); n++)
        names[n] = (KindName){words[n], (LayerKindNumber)kind};
    const json_t *list = json_first(c->json, key);
    if (list && !json_is_null(list))
        return family_state_read_kinds(list, names, c->config, c->error);
    return read_other_kinds(rest, &others) ? set_other_kinds(c, &others) : STATUS_FAILED;
}

const Verb verbs_all[] = {
    {"windows", run_windows, NULL, "NUMBER ...", check_windows, "sliding_window|layer_types"},
    {"no_windows", run_no_windows, NULL, "", NULL, "layer_types"},
    {"rope_layers", run_rope_layers, NULL, "sliding, sliding_if_any, local or listed",
     check_rope_layers, NULL},
    {"set", run_set, run_set, "FIELD VALUE", NULL, NULL},
    {"cap", run_cap, NULL, "KEY FLOAT VALUE", NULL, NULL},
    {"scale", run_scale, run_scale, "embeddings, or scores KEY NUMBER", check_scale, NULL},
    {"granite", run_granite, run_gguf_granite, "[NUMBER]", NULL,
     "logits_scaling|attention_multiplier"},
    {"wide_ffn", run_wide_ffn, NULL, "[KEY NUMBER]", NULL, NULL},
    {"shared_width", run_shared_width, NULL, "KEY NUMBER", NULL, NULL},
    {"kinds", run_kinds, run_gguf_kinds,
     "KIND [alone], or KEY NAME=KIND ... else KIND [KIND every [KEY] NUMBER]", check_kinds,
     "layer_types|layers_block_type"},
    {"latent_heads", run_latent_heads, run_gguf_latent_heads, "indexers, indexers all or no word",
     check_latent_heads, NULL},
    {0},
};
