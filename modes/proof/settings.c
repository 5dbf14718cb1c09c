#include "modes/proof/settings.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "json/json_reader.h"
#include "session/embedding_options.h"
#include "session/sampling_numbers.h"
#include "base/sha256.h"

/* ---- The numbers of the sampler ---------------------------------------------------------------
 */

/* The shortest decimal that gives this float: 0.8 and not 0.800000012. */
static json_t *json_float(float value) {
    char text[32];
    for (int digits = 6; digits <= 9; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, (double)value);
        if (strtof(text, NULL) == value) break;
    }
    return json_real(strtod(text, NULL));
}

/* JSON's whole numbers are signed: a larger seed is a text. */
static json_t *json_seed(uint64_t seed) {
    char text[24];
    if (seed <= INT64_MAX) return json_integer((json_int_t)seed);
    snprintf(text, sizeof text, "%llu", (unsigned long long)seed);
    return json_string(text);
}

json_t *settings_of_sampling(const GenerationOptions *g) {
    json_t *json = json_object();
    for (size_t i = 0; i < N_SAMPLING_NUMBERS; i++) {
        const SamplingNumber *n = &sampling_numbers[i];
        if (!n->whole)
            json_object_set_new(json, n->name,
                                json_float((float)sampling_numbers_get(n, &g->sampling)));
    }
    json_object_set_new(json, "top-k", json_integer(g->sampling.top_k));
    json_object_set_new(json, "tokens", json_integer((json_int_t)g->max_tokens));
    json_object_set_new(json, "seed", json_seed(g->sampling.seed));
    return json;
}

static bool read_seed(const json_t *json, uint64_t *seed) {
    const char *text = json_reader_word(json);
    if (text) return sscanf(text, "%20llu", (unsigned long long *)seed) == 1;
    *seed = (uint64_t)json_integer_value(json);
    return json_is_integer(json) && json_integer_value(json) >= 0;
}

/* Reads back what settings_of_sampling wrote; fails where a number is missing or out of its
 * range. */
Status settings_read_sampling(const json_t *json, GenerationOptions *g, Error *error) {
    for (size_t i = 0; i < N_SAMPLING_NUMBERS; i++) {
        const SamplingNumber *n = &sampling_numbers[i];
        const json_t *value = json_object_get(json, n->name);
        double number = json_number_value(value);
        if (n->whole) continue; /* top-k, which a model may recommend beyond the option's range */
        if (!json_is_number(value) || !(number >= n->low && number <= n->high))
            return error_set(error, "'%s' is not a number from %g to %g", n->name, n->low, n->high);
        sampling_numbers_set(n, &g->sampling, number);
    }
    const json_t *top_k = json_object_get(json, "top-k"), *tokens = json_object_get(json, "tokens");
    if (!json_is_integer(top_k) || json_integer_value(top_k) < 0 ||
        json_integer_value(top_k) > UINT32_MAX || !json_is_integer(tokens) ||
        json_integer_value(tokens) < 0 ||
        !read_seed(json_object_get(json, "seed"), &g->sampling.seed))
        return error_set(error, "the settings of an answer are damaged");
    g->sampling.top_k = (uint32_t)json_integer_value(top_k);
    g->max_tokens = (size_t)json_integer_value(tokens);
    return STATUS_OK;
}

/* ---- All settings -----------------------------------------------------------------------------
 */

static const char *const shape_names[] = {[SHAPE_JSON_OBJECT] = "json",
                                          [SHAPE_JSON_SCHEMA] = "json-schema",
                                          [SHAPE_REGEX] = "regex",
                                          [SHAPE_GRAMMAR] = "grammar",
                                          [SHAPE_CHOICE] = "choice"};
enum { N_SHAPES = sizeof shape_names / sizeof *shape_names };

/* Options that are written down as they were given, under their own names. */
static void put_words(json_t *json, const Options *o) {
    const EmbeddingOptions *embedding = embedding_options(o);
    static const char *const bos[] = {"auto", "no", "yes"};
    static const char *const reasoning[] = {
        [REASONING_AUTO] = "auto", [REASONING_ON] = "on", [REASONING_OFF] = "off"};
    const struct {
        const char *name;
        bool given;
    } flags[] = {{"special", o->special},
                 {"ignore-eos", o->ignore_eos},
                 {"batch-text", options_ask(o, "batch-text")},
                 {"embed", embedding->embed != NULL}}; /* its file is in no receipt */
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++)
        if (flags[i].given) json_object_set_new(json, flags[i].name, json_true());
    if (o->bos) json_object_set_new(json, "bos", json_string(bos[o->bos]));
    if (o->json_order) json_object_set_new(json, "json-order", json_string("any"));
    if (o->json_space) json_object_set_new(json, "json-space", json_string("any"));
    if (o->on_length) json_object_set_new(json, "on-length", json_string("close"));
    if (o->reasoning) json_object_set_new(json, "reasoning", json_string(reasoning[o->reasoning]));
    if (o->reasoning_effort)
        json_object_set_new(json, "reasoning-effort", json_string(o->reasoning_effort));
    if (options_given(o, &o->reasoning_budget))
        json_object_set_new(json, "reasoning-budget",
                            json_integer((json_int_t)o->reasoning_budget));
}

static void put_list(json_t *json, const char *name, const OptionList *list) {
    json_t *array = json_array();
    for (size_t i = 0; i < list->n; i++) json_array_append_new(array, json_string(list->items[i]));
    if (list->n > 0) json_object_set(json, name, array);
    json_decref(array);
}

static void put_shape(json_t *json, const ShapeSource *shape, SettingText text,
                      const void *context) {
    if (!shape || shape->kind == SHAPE_NONE || (size_t)shape->kind >= N_SHAPES) return;
    json_object_set_new(json, "shape",
                        json_pack("{s:s, s:o}", "kind", shape_names[shape->kind], "text",
                                  text(context, shape->text ? shape->text : "", shape->length)));
}

/* The option's value as JSON; NULL: it was not given. */
static json_t *given_value(const Options *o, const char *name) {
    size_t i;
    const OptionRow *row = command_line_find(&o->line, name, &i);
    if (!row || !o->line.given[i]) return NULL;
    const void *value = command_line_field(&o->line, i);
    const char *words = row->value;
    switch (row->kind) {
    case OPTION_FLAG:
        return json_true();
    case OPTION_TEXT:
        return json_string(*(const char *const *)value);
    case OPTION_UINT:
        return json_integer((json_int_t) * (const uint64_t *)value);
    case OPTION_CHOICE:
        for (unsigned k = *(const unsigned *)value; k > 0; k--) words = strchr(words, '|') + 1;
        return json_stringn(words, strcspn(words, "|"));
    default:
        return NULL;
    }
}

/* Options of embeddings, which requests of a batch may ask for. */
static const char *const batch_embedding_options[] = {"pooling", "dimensions", "embed-normalize",
                                                      "embed-prompt", "embed-truncate"};
enum { N_EMBEDDING_OPTIONS = sizeof batch_embedding_options / sizeof *batch_embedding_options };

json_t *settings_make(const Session *session, const GenerationOptions *g, const struct tm *clock,
                      SettingText text, const void *context) {
    const Options *o = session->options;
    json_t *json = settings_of_sampling(g), *eos = json_array();
    for (size_t i = 0; i < g->n_eos; i++) json_array_append_new(eos, json_integer(g->eos[i]));
    json_object_set_new(json, "eos", eos);
    json_object_set_new(json, "context", json_integer(model_context(session->model)));
    json_object_set_new(json, "kv-type", json_string(kv_type_name(session->kv_type)));
    put_words(json, o);
    for (size_t i = 0; i < N_EMBEDDING_OPTIONS; i++) {
        json_t *value = given_value(o, batch_embedding_options[i]);
        if (value) json_object_set_new(json, batch_embedding_options[i], value);
    }
    put_list(json, "stop", &o->stop);
    put_list(json, "logit-bias", &o->logit_bias);
    put_list(json, "override", &o->override);
    put_shape(json, session->shape, text, context);
    if (o->system) json_object_set_new(json, "system", text(context, o->system, strlen(o->system)));
    if (clock) {
        char when[64];
        strftime(when, sizeof when, "%Y-%m-%dT%H:%M:%S", clock);
        json_object_set_new(json, "clock", json_string(when));
    }
    return json;
}

static json_t *in_full(const void *context, const char *text, size_t length) {
    (void)context;
    return json_stringn(text, length);
}

/* Hashes the settings without the sampler's and without those that each answer or message records
 * for itself. */
Status settings_common(const Session *session, const GenerationOptions *g,
                       char digest[SETTINGS_COMMON_HEX], Error *error) {
    json_t *json = settings_make(session, g, NULL, in_full, NULL), *value, *own;
    json_t *sampling = settings_of_sampling(g);
    const char *name, *given = session->chat_template;
    void *next;
    char hex[SHA256_HEX];
    json_object_foreach(sampling, name, value) {
        json_object_del(json, name);
    }
    json_object_foreach_safe(json, next, name, own) {
        bool said = strcmp(name, "system") == 0 || strncmp(name, "reasoning", 9) == 0;
        if (said) json_object_del(json, name); /* an answer or its messages say it */
    }
    json_object_set_new(json, "revision", json_integer(NUMERIC_REVISION));
    if (given) json_object_set_new(json, "template", json_string(given));
    json_decref(sampling);
    char *text = json_dumps(json, JSON_COMPACT | JSON_SORT_KEYS);
    json_decref(json);
    if (!text) return error_set(error, "no memory for a chat's settings");
    sha256_text(text, strlen(text), hex);
    free(text);
    snprintf(digest, SETTINGS_COMMON_HEX, "%.16s", hex);
    return STATUS_OK;
}

/* ---- Taking them over -------------------------------------------------------------------------
 */

/* Whether a receipt may record the option. */
static bool is_option(const char *name) {
    static const char *const names[] = {"tokens",     "seed",
                                        "context",    "kv-type",
                                        "special",    "ignore-eos",
                                        "batch-text", "bos",
                                        "json-order", "json-space",
                                        "on-length",  "reasoning",
                                        "stop",       "logit-bias",
                                        "override",   "reasoning-effort",
                                        "system",     "reasoning-budget"};
    if (sampling_numbers_find(name)) return true;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(name, names[i]) == 0) return true;
    for (size_t i = 0; i < N_EMBEDDING_OPTIONS; i++)
        if (strcmp(name, batch_embedding_options[i]) == 0) return true;
    return false;
}

/* Whether the value is of the option's kind. An option keeps a text where it stands: that must be
 * in the receipt. */
static bool is_of_kind(const json_t *value, OptionKind kind) {
    bool number = json_is_integer(value) || json_is_real(value);
    switch (kind) {
    case OPTION_FLAG:
        return json_is_true(value);
    case OPTION_LIST:
        return json_is_array(value);
    case OPTION_UINT: /* a large seed is a text */
    case OPTION_FLOAT:
        return number || json_is_string(value);
    default:
        return json_is_string(value);
    }
}

/* Sets one option from its JSON value. Numbers become texts that live as long as the call. */
static Status apply_setting(CommandLine *line, const char *name, const json_t *value,
                            Error *error) {
    const char *values[OPTION_LIST_MOST];
    char number[40];
    size_t n = 1, index;
    const OptionRow *row = command_line_find(line, name, &index);
    if (row && !is_of_kind(value, row->kind))
        return error_set(error, "'%s' has a value of the wrong type", name);
    values[0] = json_reader_word(value);
    if (json_is_string(value) && !values[0])
        return error_set(error, "'%s' holds a zero byte", name);
    if (json_is_integer(value)) {
        snprintf(number, sizeof number, "%lld", (long long)json_integer_value(value));
        values[0] = number;
    } else if (json_is_real(value)) {
        snprintf(number, sizeof number, "%.17g", json_real_value(value));
        values[0] = number;
    } else if (json_is_array(value)) {
        n = json_array_size(value);
        if (n > OPTION_LIST_MOST) return error_set(error, "'%s' has %zu values", name, n);
        for (size_t i = 0; i < n; i++) {
            values[i] = json_reader_word(json_array_get(value, i));
            if (!values[i] || !values[i][0])
                return error_set(
                    error, "'%s' is not a list of texts without zero bytes that are not empty",
                    name);
        }
    }
    return command_line_default(line, name, values, n, error);
}

Status settings_apply(const json_t *settings, Options *o, Error *error) {
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)settings, name, value) {
        if (strcmp(name, "eos") == 0 || strcmp(name, "shape") == 0 || strcmp(name, "clock") == 0 ||
            json_is_object(value)) /* keyed: the command line must give it */
            continue;
        if (strcmp(name, "embed") == 0 && json_is_true(value)) continue; /* receipt.c */
        if (!is_option(name))
            return error_set(error, "the setting '%.80s' is not one of this version's", name);
        if (apply_setting(&o->line, name, value, error) != STATUS_OK) return STATUS_FAILED;
    }
    return STATUS_OK;
}

bool settings_clock(const json_t *settings, struct tm *clock) {
    const char *text = json_reader_word(json_object_get(settings, "clock"));
    const char *end = text ? strptime(text, "%Y-%m-%dT%H:%M:%S", clock) : NULL;
    return end && *end == '\0';
}

Status settings_shape(const json_t *settings, ShapeSource *shape, Error *error) {
    const json_t *json = json_object_get(settings, "shape"), *text = json_object_get(json, "text");
    const char *kind = json_reader_word(json_object_get(json, "kind"));
    *shape = (ShapeSource){.kind = SHAPE_NONE};
    if (!json || json_is_object(text)) return STATUS_OK; /* none, or a digest */
    for (size_t i = SHAPE_NONE + 1; kind && i < N_SHAPES; i++)
        if (strcmp(kind, shape_names[i]) == 0) shape->kind = (ShapeKind)i;
    shape->text = json_string_value(text);
    shape->length = json_string_length(text);
    if (shape->kind != SHAPE_NONE && shape->text) return STATUS_OK;
    return error_set(error, "'shape' is not one that this version knows");
}
