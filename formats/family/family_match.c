#include "formats/family/family_match.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "formats/family/families.h"
#include "formats/family/family_configure.h"
#include "formats/family/sizes.h"
#include "formats/family/verb_steps.h"
#include "json/json_object.h"

/* ---- Kinds of tensors ---- */

/* Copies the name with "%u" for each part that is a number; false: too long. */
static bool name_kind(const char *name, char out[MATCH_NAME]) {
    size_t n = 0;
    while (*name) {
        size_t length = strcspn(name, "."), digits = strspn(name, "0123456789");
        bool is_number = length > 0 && digits == length;
        if (n + (is_number ? 2 : length) + 2 > MATCH_NAME) return false;
        memcpy(out + n, is_number ? "%u" : name, is_number ? 2 : length);
        n += is_number ? 2 : length;
        name += length;
        if (*name == '.') out[n++] = *name++;
    }
    out[n] = '\0';
    return true;
}

/* Tensors of more kinds than a family can have, or with longer names, are not looked at. */
static void add_tensors(FamilyMatch *match, const RawTable *table) {
    char name[MATCH_NAME];
    for (size_t i = 0; i < table->n; i++) {
        size_t k = match->n_kinds;
        if (table->items[i].used || !name_kind(table->items[i].name, name)) continue;
        while (k > 0 && strcmp(match->kinds[k - 1].name, name) != 0) k--;
        if (k > 0) {
            match->kinds[k - 1].n++;
        } else if (match->n_kinds < MATCH_KINDS) {
            TensorKind *kind = &match->kinds[match->n_kinds++];
            *kind = (TensorKind){.first = &table->items[i], .n = 1};
            memcpy(kind->name, name, MATCH_NAME);
        }
    }
}

/* Finds the prefix of the layers' tensors: the most frequent part of a name before its number. */
static void find_layers(FamilyMatch *match) {
    size_t most = 0;
    for (size_t i = 0; i < match->n_kinds; i++) {
        const char *name = match->kinds[i].name, *number = strstr(name, "%u.");
        size_t bytes = number ? (size_t)(number - name) + 3 : 0, n = 0;
        for (size_t k = 0; bytes && k < match->n_kinds; k++)
            n += strncmp(match->kinds[k].name, name, bytes) == 0;
        if (n > most) snprintf(match->layers, MATCH_NAME, "%.*s", (int)bytes, name);
        if (n > most) most = n;
    }
}

void family_match_kinds(FamilyMatch *match, const RawTable *table) {
    add_tensors(match, table);
    find_layers(match);
}

/* ---- Names of rules ---- */

/* Replaces the placeholders by "%u", and a leading "model." by the prefix. */
static void add_text(char out[MATCH_NAME], const char *text, const char *prefix) {
    size_t n = strlen(out);
    if (n == 0 && prefix && strncmp(text, "model.", 6) == 0) {
        n = (size_t)snprintf(out, MATCH_NAME, "%s", prefix);
        text += 6;
    }
    for (; *text && n + 1 < MATCH_NAME; text++) {
        bool is_place = *text == '%' && text[1] && strchr("uqph", text[1]);
        if (is_place) out[n++] = '%';
        if (is_place) text++;
        if (n + 1 < MATCH_NAME) out[n++] = is_place ? 'u' : *text;
    }
    out[n < MATCH_NAME ? n : MATCH_NAME - 1] = '\0';
}

/* The name of the rule's tensor as one of TensorKind, with the model's own name of a layer. */
static void name_rule(const FamilyMatch *match, const TensorRule *rule, const char *prefix,
                      char out[MATCH_NAME]) {
    out[0] = '\0';
    if (rule->from[0] == '.') add_text(out, match->layers, NULL);
    add_text(out, rule->from[0] == '.' ? rule->from + 1 : rule->from, prefix);
    add_text(out, rules_weight(rule), NULL);
}

static TensorKind *find_kind(FamilyMatch *match, const char *name) {
    for (size_t i = 0; i < match->n_kinds; i++)
        if (strcmp(match->kinds[i].name, name) == 0) return &match->kinds[i];
    return NULL;
}

/* ---- What a family takes ---- */

static uint32_t layer_of(const FamilyMatch *match, const TensorKind *kind) {
    size_t at = strlen(match->layers);
    if (at < 3 || strncmp(kind->name, match->layers, at) != 0) return 0;
    unsigned long layer = strtoul(kind->first->name + at - 3, NULL, 10);
    return layer < match->family_config.n_layers ? (uint32_t)layer : 0;
}

/* Whether the tensor, or each of a stack, has as many elements as the rule says. Where no size is
 * known every shape fits. */
static bool fits(const FamilyMatch *match, const TensorRule *rule, const TensorKind *kind) {
    const RawTensor *t = kind->first;
    if (!match->knows_sizes || rule->each_head) return true;
    uint32_t layer = layer_of(match, kind);
    bool is_vector = rule->form == FORM_VECTOR || rule->form == FORM_NORM;
    size_t rows = size_of(rule->rows ? rule->rows : "dim", &match->family_config, layer);
    size_t cols = is_vector ? 1 : size_of(rule->cols, &match->family_config, layer);
    uint64_t all = 1, one = 1;
    for (uint32_t i = 0; i < t->n_dims; i++)
        if (__builtin_mul_overflow(all, t->dims[i], &all)) return false;
    for (uint32_t i = 1; i < t->n_dims; i++) one *= t->dims[i];
    size_t expected;
    return size_mul(rows, cols, &expected) && (all == expected || one == expected);
}

static const char *biases_word(const TensorRule *rule, char out[MATCH_NAME]) {
    snprintf(out, MATCH_NAME, " %.*s ", (int)strcspn(rule->to, " "), rule->to);
    return out;
}

/* Whether the model that the family describes has this rule's bias. */
static bool has_bias(const FamilyMatch *match, const TensorRule *rule, const char *biases) {
    char word[MATCH_NAME];
    if (match->family->any_biases || strstr(biases, biases_word(rule, word))) return true;
    return rule->form == FORM_NORM && strstr(biases, " norms ");
}

static bool may_lack(const TensorRule *rule) {
    return rule->optional || rule->same_as || rule->own_keys || rule->where.field;
}

size_t family_match_take(FamilyMatch *match, double *lacking) {
    char name[MATCH_NAME], biases[FAMILY_BIASES_BYTES] = "";
    size_t n_taken = 0;
    *lacking = 0.0;
    if (match->is_configured)
        family_biases(match->family, match->config, &match->family_config, biases);
    for (size_t i = 0; i < match->n_kinds; i++) match->kinds[i].taken = false;
    for (const TensorRule *rule = match->family->tensors; rule->to; rule++) {
        bool is_linear = rule->form == FORM_LINEAR || rule->form == FORM_NORM;
        name_rule(match, rule, match->prefix, name);
        TensorKind *kind = find_kind(match, name), *bias = NULL;
        if (kind && fits(match, rule, kind)) kind->taken = true;
        if (!kind) *lacking += may_lack(rule) ? 0.25 : 1.0;
        if (kind && is_linear && ends_with(name, ".weight")) {
            memcpy(name + strlen(name) - strlen("weight"), "bias", sizeof "bias");
            bias = find_kind(match, name);
        }
        if (bias && has_bias(match, rule, biases)) bias->taken = true;
    }
    for (size_t i = 0; i < match->n_kinds; i++) n_taken += match->kinds[i].taken;
    return n_taken;
}

const TensorRule *family_match_missing(const FamilyMatch *match, size_t i, char *name) {
    for (const TensorRule *rule = match->family->tensors; rule->to; rule++) {
        if (may_lack(rule)) continue;
        name_rule(match, rule, match->prefix, name);
        if (!find_kind((FamilyMatch *)match, name) && i-- == 0) return rule;
    }
    return NULL;
}

/* ---- Keys ---- */

/* Keys that change no logits. */
static bool is_harmless(const char *key) {
    static const char *const keys[] = {
        "model_type",
        "architectures",
        "auto_map",
        "dtype",
        "torch_dtype",
        "transformers_version",
        "use_cache",
        "id2label",
        "label2id",
        "return_dict",
        "tokenizer_class",
        "name_or_path",
        "is_decoder",
        "is_encoder_decoder",
        "pretraining_tp",
        "router_aux_loss_coef",
        "router_jitter_noise",
        "attn_implementation",
        "tie_word_embeddings",
        "quantization_config",
        "is_causal",
        "gradient_checkpointing",
        "chunk_size_feed_forward",
        "problem_type",
        "num_nextn_predict_layers",
        "initializer_range",
        "init_std",
        "generation_config",
        "use_bidirectional_attention",
    };
    static const char *const ends[] = {
        "dropout", "_pdrop", "_token_id", "_dropout_prob", "initializer_range", "_token_index"};
    if (key[0] == '_' || strncmp(key, "output_", 7) == 0) return true;
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (strcmp(keys[i], key) == 0) return true;
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        if (ends_with(key, ends[i])) return true;
    return false;
}

/* Whether one of `keys` is the key. */
static bool is_one_of(const char *keys, char separator, const char *key) {
    const char between[] = {separator, '\0'};
    size_t n = strlen(key);
    for (const char *p = keys; *p; p += strcspn(p, between), p += *p == separator)
        if (strncmp(p, key, n) == 0 && (strcspn(p, between) == n || p[n] == '.')) return true;
    return false;
}

/* Whether the step names the key, or its verb reads it. */
static bool step_reads(const Step *step, const char *key) {
    const Verb *verb = verb_find(step->verb);
    if ((step->when && strcmp(step->when, key) == 0) ||
        (step->unless && strcmp(step->unless, key) == 0))
        return true;
    if (verb && verb->reads && is_one_of(verb->reads, '|', key)) return true;
    return step->words && is_one_of(step->words, ' ', key);
}

/* Whether a line of the family names the key. */
static bool is_named(const Family *family, const char *key) {
    const RopeKeys *rope = &family->rope;
    const char *of_rope[] = {rope->none ? NULL : "rope_scaling|rope_parameters",
                             rope->none    ? NULL
                             : rope->theta ? rope->theta
                                           : "rope_theta",
                             rope->part,
                             rope->width,
                             rope->local_theta_key,
                             family->tied_key};
    for (size_t i = 0; i < sizeof of_rope / sizeof *of_rope; i++)
        if (of_rope[i] && is_one_of(of_rope[i], '|', key)) return true;
    for (const ConfigRule *rule = family->keys; rule && rule->keys; rule++)
        if (is_one_of(rule->keys, '|', key)) return true;
    for (const FixedKey *fixed = family->fixed; fixed && fixed->key; fixed++)
        if (strcmp(fixed->key, key) == 0) return true;
    for (const BiasRule *rule = family->biases; rule && rule->matrices; rule++)
        if (rule->key && is_one_of(rule->key, '|', key)) return true;
    for (const Step *step = family->steps; step && step->verb; step++)
        if (step_reads(step, key)) return true;
    return false;
}

static Status try_configure(const Family *family, const json_t *json, Config *config,
                            Error *error) {
    *config = config_default();
    if (family_configure(family, json, config, error) != STATUS_OK) return STATUS_FAILED;
    return config->position == POSITION_ROPE
               ? rope_set_rotary_dim(&family->rope, json, config, error)
               : STATUS_OK;
}

/* Another value of the same type; NULL: the key is taken away. */
static json_t *other_value(const json_t *value) {
    if (json_is_boolean(value)) return json_boolean(!json_is_true(value));
    if (json_is_integer(value)) return json_integer(json_integer_value(value) / 2 + 1);
    if (json_is_real(value)) return json_real(json_real_value(value) * 0.5 + 0.125);
    return NULL;
}

/* Whether another value of the key (NULL: its absence) changes the Config that the family makes, or
 * is refused: then a verb or hook reads the key. */
static bool changes_config(const FamilyMatch *match, const char *key, json_t *value) {
    Config *config = malloc(sizeof *config);
    bool changes = false;
    Error error;
    if (config) {
        if (value) {
            json_object_set(match->changed, key, value);
        } else {
            json_object_del(match->changed, key);
        }
        changes = try_configure(match->family, match->changed, config, &error) != STATUS_OK ||
                  memcmp(config, &match->family_config, sizeof *config) != 0;
        json_object_set(match->changed, key, json_object_get(match->config, key));
    }
    json_decref(value);
    free(config);
    return changes;
}

bool family_match_reads(const FamilyMatch *match, const char *key) {
    if (is_harmless(key) || is_named(match->family, key)) return true;
    if (!match->is_configured) return false;
    json_t *other = other_value(json_object_get(match->config, key));
    return changes_config(match, key, NULL) || (other && changes_config(match, key, other));
}

/* ---- The nearest ---- */

double family_match_overlap(size_t both, size_t only_one, double only_other) {
    double twice = 2.0 * (double)both, all = twice + (double)only_one + only_other;
    return all > 0.0 ? twice / all : 0.0;
}

/* How well config.json's keys fit those that the family's rules read. A key that the file lacks
 * counts only where its rule names no other. */
static double keys_overlap(const FamilyMatch *match) {
    size_t read = 0, unread = 0, absent = 0;
    const char *key;
    json_t *value;
    json_object_foreach(match->config, key, value) {
        if (is_harmless(key)) continue;
        bool named = is_named(match->family, key);
        read += named;
        unread += !named;
    }
    for (const ConfigRule *rule = match->family->keys; rule->keys; rule++) {
        bool alternatives = strchr(rule->keys, '|') != NULL;
        absent += !alternatives && !json_first(match->config, rule->keys);
    }
    return family_match_overlap(read, unread, (double)absent);
}

/* Ranks families that match equally well; the highest value wins. A family with fewer rules and no
 * hooks is preferred, then the one whose name has the longest common prefix with model_type. */
static double preference(const FamilyMatch *match) {
    const Family *family = match->family;
    size_t lines = 0, same = 0;
    for (const ConfigRule *rule = family->keys; rule->keys; rule++) lines++;
    for (const FixedKey *fixed = family->fixed; fixed && fixed->key; fixed++) lines++;
    for (const Preset *set = family->set; set && set->field; set++) lines++;
    for (const Step *step = family->steps; step && step->verb; step++) lines++;
    for (const TensorRule *rule = family->tensors; rule->to; rule++) lines++;
    if (family->finish || family->more) lines += 20;
    while (match->type[same] && match->type[same] == family->model_type[same]) same++;
    /* In doubt it is a llama, which most families differ from. */
    bool in_doubt = !match->has_kin && strcmp(family->model_type, "llama") == 0;
    double usual = in_doubt ? 0.06 : 0.0;
    return usual + (same > 3 ? 0.01 * (double)(same < 8 ? same : 8) : 0.0) - 0.0002 * (double)lines;
}

/* Whether config.json has the sizes that most matrices have. A wrapper's text_config may be nearly
 * empty; the defaults of a family that may not be its own say nothing of its tensors. */
static bool gives_sizes(const FamilyMatch *match) {
    static const char *const fields[] = {"dim", "n_heads", "ffn_dim"};
    for (const ConfigRule *rule = match->family->keys; rule->keys; rule++)
        for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
            if (strcmp(rule->field, fields[i]) == 0 && !json_first(match->config, rule->keys))
                return false;
    return true;
}

/* How near the family is; below 0: it takes few of the tensors. */
static double rate_family(FamilyMatch *match, const Family *family, const RawTable *table) {
    double lacking;
    match->family = family;
    match->prefix = family_prefix(family, table);
    match->is_configured =
        try_configure(family, match->config, &match->family_config, &match->refusal) == STATUS_OK;
    match->knows_sizes = match->is_configured && gives_sizes(match);
    size_t n_taken = family_match_take(match, &lacking);
    /* Embedding, norm and output head are not enough: all families have those. */
    if (3 * n_taken < match->n_kinds || n_taken == 0) return -1.0;
    return family_match_overlap(n_taken, match->n_kinds - n_taken, lacking) +
           0.5 * keys_overlap(match) + preference(match) - (match->is_configured ? 0.0 : 0.1);
}

static bool names_layers(const FamilyMatch *match) {
    char own[MATCH_NAME] = "";
    add_text(own, family_layers(match->family), match->prefix);
    return match->layers[0] == '\0' || strcmp(own, match->layers) == 0;
}

/* Copies the keys that are looked at; false: no memory. */
static bool copy_keys(FamilyMatch *match, const json_t *config) {
    const char *key;
    json_t *value;
    match->config = json_object();
    json_object_foreach((json_t *)config, key, value) {
        if (json_object_size(match->config) == MATCH_KEYS) break;
        json_object_set(match->config, key, value);
    }
    match->n_more_keys = json_object_size(config) - json_object_size(match->config);
    match->changed = json_copy(match->config);
    return match->changed != NULL;
}

Status family_match(const json_t *config, const RawTable *table, FamilyMatch **out, Error *error) {
    const char *type = json_text(config, "model_type");
    FamilyMatch *match = calloc(1, sizeof *match);
    if (match) match->type = strdup(type ? type : "");
    if (!match || !match->type || !copy_keys(match, config)) {
        family_match_free(match);
        return error_set(error, "no memory");
    }
    const Family *family, *nearest = NULL;
    double most = 0.0;
    for (size_t i = 0; family_name(i); i++)
        match->has_kin = match->has_kin || strncmp(match->type, family_name(i), 4) == 0;
    family_match_kinds(match, table);
    for (size_t i = 0; (family = family_at(i)); i++) {
        if (!family->keys || !family->tensors) continue;
        double rating = rate_family(match, family, table);
        if (rating <= most) continue;
        most = rating;
        nearest = family;
    }
    match->family = NULL;
    if (nearest) {
        rate_family(match, nearest, table);
        match->has_layers = names_layers(match);
    }
    *out = match;
    return STATUS_OK;
}

void family_match_free(FamilyMatch *match) {
    if (match) free(match->type);
    if (match) json_decref(match->config);
    if (match) json_decref(match->changed);
    free(match);
}
