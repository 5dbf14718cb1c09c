#include "formats/family/own_model.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "formats/family/own_names.h"
#include "json/json_object.h"

enum { NAME = 200 }; /* bytes of a tensor's name that is looked for */

/* What is known while a model is described. */
typedef struct Description {
    OwnModel *own;
    json_t *config;
    RawTable *table;
    const OwnStyle *style;                                  /* NULL: config.json has all names */
    char layers[NAME];                                      /* the prefix of the layers' tensors */
    char weights[OWN_PARTS][NAME], biases[OWN_PARTS][NAME]; /* %u for the layer; "": has none */
    Error *error;
} Description;

bool own_model_is(const json_t *config) {
    const char *type = json_text(config, "model_type");
    return type && strcmp(type, "own_transformer") == 0;
}

/* ---- Names ----------------------------------------------------------------------------------- */

/* Copies `pattern` into out[NAME] with "%u" or "*" replaced by the layer's number, "%h" by the
 * head's. */
static void own_model_fill(char *out, const char *pattern, size_t layer, size_t head) {
    size_t n = 0;
    for (; *pattern && n + 24 < NAME; pattern++) {
        if (strncmp(pattern, "%u", 2) == 0 || strncmp(pattern, "%h", 2) == 0) {
            n += (size_t)snprintf(out + n, NAME - n, "%zu", pattern[1] == 'u' ? layer : head);
            pattern++;
        } else {
            out[n++] = *pattern;
        }
    }
    out[n] = '\0';
}

static RawTensor *own_model_find(const Description *d, const char *pattern) {
    char name[NAME];
    own_model_fill(name, pattern, 0, 0);
    return raw_table_find(d->table, name);
}

/* torch.compile and DataParallel put a word before every name. */
static Status drop_wrappers(const Description *d) {
    static const char *const words[] = {"_orig_mod.", "module.", "model."};
    for (size_t w = 0; w < sizeof words / sizeof *words; w++) {
        size_t n = strlen(words[w]), with = 0;
        for (size_t i = 0; i < d->table->n; i++)
            with += strncmp(d->table->items[i].name, words[w], n) == 0;
        if (with < d->table->n) continue;
        for (size_t i = 0; i < d->table->n; i++) {
            char *name = d->table->items[i].name;
            memmove(name, name + n, strlen(name + n) + 1);
        }
    }
    return raw_table_sort(d->table, d->error);
}

static bool has_end(const char *name, const char *end) {
    size_t n = strlen(name), m = strlen(end);
    return n >= m && strcmp(name + n - m, end) == 0;
}

/* Finds the style whose probe is in the table, after a prefix that ends with "0."; `wanted` is the
 * style that config.json names, or NULL. */
static bool find_style(Description *d, const char *wanted) {
    for (const OwnStyle *style = own_styles; style->name; style++) {
        char end[NAME];
        if (wanted && strcmp(wanted, style->name) != 0) continue;
        snprintf(end, sizeof end, "0.%s", style->probe);
        for (size_t i = 0; i < d->table->n; i++) {
            const char *name = d->table->items[i].name;
            size_t n = strlen(name) - (has_end(name, end) ? strlen(end) : 0);
            bool begins = n == 0 || name[n - 1] == '.';
            /* "%" means something in the patterns that are made of the prefix. */
            bool plain = n < NAME / 2 && !memchr(name, '%', n);
            if (!has_end(name, end) || !begins || !plain) continue;
            snprintf(d->layers, sizeof d->layers, "%.*s", (int)n, name);
            d->style = style;
            return true;
        }
    }
    return false;
}

/* Sets the names of a part's weight and bias from `name`, which may lack ".weight". */
static void set_names(Description *d, OwnPart part, const char *name) {
    char *weight = d->weights[part], *bias = d->biases[part];
    size_t n = strlen(name), word = strlen("weight");
    if (has_end(name, "weight")) {
        snprintf(weight, NAME, "%s", name);
        snprintf(bias, NAME, "%.*sbias", (int)(n - word), name);
    } else if (has_end(name, "a_2")) { /* the annotated transformer's LayerNorm */
        snprintf(weight, NAME, "%s", name);
        snprintf(bias, NAME, "%.*sb_2", (int)(n - 3), name);
    } else if (own_model_find(d, name)) {
        snprintf(weight, NAME, "%s", name);
        bias[0] = '\0';
    } else {
        snprintf(weight, NAME, "%s.weight", name);
        snprintf(bias, NAME, "%s.bias", name);
    }
}

/* Sets the names of the layers' parts by the style, and of the others by the usual names that the
 * model has. */
static void set_names_of_style(Description *d) {
    for (OwnPart part = 0; part < OWN_PARTS; part++) {
        char name[2 * NAME];
        if (part >= OWN_LAYER) {
            if (!d->style || !d->style->parts[part]) continue;
            snprintf(name, sizeof name, "%s%%u.%s", d->layers, d->style->parts[part]);
            if (strlen(name) < NAME - 8) set_names(d, part, name);
            continue;
        }
        for (const char *const *usual = own_outer_names(part); *usual; usual++) {
            const char *end = "";
            snprintf(name, sizeof name, "%s.weight", *usual);
            if (part == OWN_FINAL_NORM && !own_model_find(d, name)) end = ".a_2";
            if (part == OWN_POSITIONS && !own_model_find(d, name) && own_model_find(d, *usual))
                end = " ";
            snprintf(name, sizeof name, "%s%s", *usual, end[0] ? end : ".weight");
            if (end[0] == ' ') snprintf(name, sizeof name, "%s", *usual);
            if (!own_model_find(d, name)) continue;
            set_names(d, part, name);
            break;
        }
    }
}

/* Sets the names that config.json's "tensors" gives: "*" is the layer, and a second one the head.
 */
static Status set_given_names(Description *d) {
    const json_t *given = json_value(d->config, "tensors"), *value;
    const char *key;
    if (given && !json_is_object(given))
        return error_set(d->error, "config.json: tensors is not an object");
    json_object_foreach((json_t *)given, key, value) {
        OwnPart part = 0;
        char name[NAME];
        const char *text = json_string_value(value);
        while (part < OWN_PARTS && strcmp(own_part_keys[part], key) != 0) part++;
        if (part == OWN_PARTS)
            return error_set(d->error,
                             "config.json: tensors: '%.40s' is none of token_embedding, "
                             "position_embedding, output, final_norm, wq, wk, wv, wqkv, wo, w_up, "
                             "w_gate, w_down, attention_norm, ffn_norm",
                             key);
        if (!text || strlen(text) > NAME - 40 || strchr(text, '%'))
            return error_set(d->error, "config.json: tensors: %s is not a name", key);
        size_t n = 0, stars = 0;
        for (; *text; text++) {
            if (*text == '*') {
                name[n++] = '%';
                name[n++] = stars++ ? 'h' : 'u';
            } else {
                name[n++] = *text;
            }
            if (n + 3 > NAME) break;
        }
        name[n] = '\0';
        if (stars != (part >= OWN_LAYER) && !(stars == 2 && part <= OWN_WV && part >= OWN_WQ))
            return error_set(d->error, "config.json: tensors: %s: %s", key,
                             part >= OWN_LAYER ? "a * stands for the layer's number"
                                               : "it is outside the layers, so it has no *");
        set_names(d, part, name);
        if (!own_model_find(d, d->weights[part]))
            return error_set(d->error, "config.json: tensors: %s: no tensor is called '%.150s'",
                             key, d->weights[part]);
    }
    return STATUS_OK;
}

/* ---- Sizes ----------------------------------------------------------------------------------- */

static void set_default(const Description *d, const char *key, json_t *value) {
    if (json_object_get(d->config, key)) {
        json_decref(value);
    } else {
        json_object_set_new(d->config, key, value);
    }
}

/* A dimension of the part's tensor in layer 0; 0: there is none. */
static json_int_t dimension(const Description *d, OwnPart part, uint32_t i) {
    const RawTensor *raw = d->weights[part][0] ? own_model_find(d, d->weights[part]) : NULL;
    return raw && i < raw->n_dims && raw->dims[i] < 1u << 30 ? (json_int_t)raw->dims[i] : 0;
}

static size_t count_layers(const Description *d) {
    size_t n = 0;
    for (OwnPart part = OWN_LAYER; part < OWN_PARTS; part++) {
        char name[NAME];
        if (!d->weights[part][0] || strstr(d->weights[part], "%h")) continue;
        for (n = 0; n < CONFIG_MAX_LAYERS; n++) {
            own_model_fill(name, d->weights[part], n, 0);
            if (!raw_table_find(d->table, name)) break;
        }
        return n;
    }
    return n;
}

static size_t count_heads(const Description *d) {
    char name[NAME];
    for (size_t n = 0;; n++) {
        own_model_fill(name, d->weights[OWN_WQ], 0, n);
        if (n >= 4096 || !raw_table_find(d->table, name)) return n;
    }
}

/* Whether the last words of a tensor's name are these. */
static bool is_called(const RawTensor *raw, const char *words) {
    size_t n = strlen(raw->name), m = strlen(words);
    return has_end(raw->name, words) && (n == m || strchr("._", raw->name[n - m - 1]));
}

/* Whether the name is one that guides give to a buffer with a table of sinusoids. */
static bool is_sinusoids(const RawTensor *raw) {
    static const char *const names[] = {"pe", "pos_encoding", "positional_encoding",
                                        "position_encoding", "pos_enc"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (is_called(raw, names[i])) return true;
    return false;
}

/* The positions of a buffer of sinusoids, whose values check_sinusoids checks; 0: there is none. */
static json_int_t count_sinusoids(const Description *d) {
    for (size_t i = 0; i < d->table->n; i++) {
        const RawTensor *raw = &d->table->items[i];
        json_int_t longest = 0;
        if (!is_sinusoids(raw)) continue;
        for (uint32_t k = 0; k + 1 < raw->n_dims; k++) /* [n][dim], [1][n][dim] or [n][1][dim] */
            if (raw->dims[k] < 1u << 30 && (json_int_t)raw->dims[k] > longest)
                longest = (json_int_t)raw->dims[k];
        return longest;
    }
    return 0;
}

/* Adds to config.json what the tensors and the style say. */
static Status add_sizes(Description *d) {
    bool turned = json_flag(d->config, "transposed", false);
    json_int_t vocab = dimension(d, OWN_EMBEDDING, 0), dim = dimension(d, OWN_EMBEDDING, 1);
    set_default(d, "vocab_size", json_integer(vocab));
    set_default(d, "hidden_size", json_integer(dim));
    set_default(d, "intermediate_size", json_integer(dimension(d, OWN_UP, turned)));
    size_t n_layers = count_layers(d);
    set_default(d, "num_hidden_groups", json_integer((json_int_t)n_layers));
    set_default(d, "num_hidden_layers", json_integer((json_int_t)n_layers));
    if (strstr(d->weights[OWN_WQ], "%h"))
        set_default(d, "num_attention_heads", json_integer((json_int_t)count_heads(d)));
    json_int_t heads = json_integer_value(json_object_get(d->config, "num_attention_heads"));
    if (heads < 1)
        return error_set(d->error, "config.json: num_attention_heads is missing: the tensors do "
                                   "not tell how many heads share their rows");
    json_int_t keys = dimension(d, OWN_WK, turned), head_dim = dim / heads;
    if (keys && head_dim && !strstr(d->weights[OWN_WK], "%h"))
        set_default(d, "num_key_value_heads", json_integer(keys / head_dim));
    bool learned = d->weights[OWN_POSITIONS][0] != '\0';
    const char *positions = d->style ? d->style->positions : "sinusoidal";
    if (learned) {
        const RawTensor *table = own_model_find(d, d->weights[OWN_POSITIONS]);
        /* nn.Parameter tables may have a dimension of 1 before: [1][positions][dim]. */
        uint32_t at = table && table->n_dims == 3 ? 1 : 0;
        set_default(d, "max_position_embeddings", json_integer(dimension(d, OWN_POSITIONS, at)));
        positions = "learned";
    } else if (strcmp(positions, "learned") == 0) {
        positions = "sinusoidal";
    }
    set_default(d, "positions", json_string(positions));
    if (count_sinusoids(d))
        set_default(d, "max_position_embeddings", json_integer(count_sinusoids(d)));
    if (!json_object_get(d->config, "max_position_embeddings"))
        return error_set(d->error, "config.json: max_position_embeddings is missing: how many "
                                   "positions was the model trained with?");
    set_default(d, "norm_place",
                json_string(d->style && d->style->norm_before ? "before" : "after"));
    set_default(d, "norm",
                json_string(d->style && d->style->annotated_norm ? "annotated" : "layer"));
    set_default(d, "activation", json_string(d->style ? d->style->activation : "relu"));
    positions = json_text(d->config, "positions");
    bool scaled = positions && strncmp(positions, "sinusoidal", 10) == 0;
    set_default(d, "embedding_scale", scaled ? json_string("sqrt") : json_real(1.0));
    return STATUS_OK;
}

/* ---- Rules ----------------------------------------------------------------------------------- */

#define Q_ROWS "n_heads * head_dim"
#define KV_ROWS "n_kv_heads * head_dim"

static const char *keep_name(Description *d, const char *name) {
    OwnModel *own = d->own;
    return own->names[own->n_names++] = strdup(name);
}

static void add_rule(Description *d, const char *to, OwnPart part, TensorRule rule) {
    OwnModel *own = d->own;
    char bias_to[64];
    if (!d->weights[part][0]) return;
    rule.to = keep_name(d, to);
    rule.from = keep_name(d, d->weights[part]);
    own->rules[own->n_rules++] = rule;
    if (!d->biases[part][0]) return;
    size_t end = strcspn(to, "w"); /* of the name, where `to` is that of one part: "- wk -" */
    end += strcspn(to + end, " ");
    snprintf(bias_to, sizeof bias_to, "%.*s.bias%s", (int)end, to, to + end);
    rule.to = keep_name(d, bias_to);
    rule.from = keep_name(d, d->biases[part]);
    rule.form = FORM_VECTOR;
    rule.cols = rule.same_as = NULL;
    rule.optional = true;
    own->rules[own->n_rules++] = rule;
}

static RuleTurned turned(const Description *d) {
    return json_flag(d->config, "transposed", false) ? TURNED_ALWAYS : TURNED_NEVER;
}

static void add_matrix(Description *d, const char *to, OwnPart part, const char *rows,
                       const char *cols) {
    if (!strstr(d->weights[part], "%h"))
        add_rule(
            d, to, part,
            (TensorRule){.form = FORM_MATRIX, .rows = rows, .cols = cols, .turned = turned(d)});
}

static void add_norm(Description *d, const char *to, OwnPart part) {
    const char *kind = json_text(d->config, "norm");
    if (kind && strcmp(kind, "annotated") == 0) return; /* `more` adds it */
    add_rule(d, to, part, (TensorRule){.form = FORM_VECTOR, .rows = "dim"});
}

/* Adds wq, wk and wv, which lie below one another in one matrix: `to` names one of the three parts
 * and leaves the others ('-'). */
static void add_fused(Description *d) {
    const TensorRule rule = {.form = FORM_MATRIX,
                             .rows = Q_ROWS " + " KV_ROWS " + " KV_ROWS,
                             .cols = "dim",
                             .turned = turned(d)};
    add_rule(d, "wq - -", OWN_WQKV, rule);
    add_rule(d, "- wk -", OWN_WQKV, rule);
    add_rule(d, "- - wv", OWN_WQKV, rule);
}

/* Makes the rules that read the model's tensors, from the names that were found or given. */
static Status add_rules(Description *d) {
    enum { MOST_RULES = 40 };
    d->own->rules = calloc(MOST_RULES, sizeof *d->own->rules);
    d->own->names = calloc(2 * MOST_RULES, sizeof *d->own->names);
    if (!d->own->rules || !d->own->names) return error_set(d->error, "no memory");
    if (d->weights[OWN_WQKV][0] &&
        (d->weights[OWN_WQ][0] || d->weights[OWN_WK][0] || d->weights[OWN_WV][0]))
        return error_set(d->error, "config.json: tensors: wq, wk or wv beside wqkv");
    for (OwnPart part = OWN_WQ; part <= OWN_WV; part++)
        if (strstr(d->weights[part], "%h") && json_flag(d->config, "transposed", false))
            return error_set(d->error, "config.json: transposed: not known where each head has "
                                       "matrices of its own");
    add_rule(d, "token_embedding", OWN_EMBEDDING,
             (TensorRule)MATRIX(NULL, NULL, "vocab_size", "dim"));
    const char *positions = json_text(d->config, "positions");
    if (positions && strcmp(positions, "learned") == 0)
        add_rule(d, "position_embedding", OWN_POSITIONS,
                 (TensorRule)TABLE(NULL, NULL, "context + position_offset", "dim"));
    add_matrix(d, "wq", OWN_WQ, Q_ROWS, "dim");
    add_matrix(d, "wk", OWN_WK, KV_ROWS, "dim");
    add_matrix(d, "wv", OWN_WV, KV_ROWS, "dim");
    add_fused(d);
    add_matrix(d, "wo", OWN_WO, "dim", Q_ROWS);
    add_norm(d, "attention_norm", OWN_ATTENTION_NORM);
    add_matrix(d, "w_gate", OWN_GATE, "ffn_dim", "dim");
    add_matrix(d, "w_up", OWN_UP, "ffn_dim", "dim");
    add_matrix(d, "w_down", OWN_DOWN, "dim", "ffn_dim");
    add_norm(d, "ffn_norm", OWN_FFN_NORM);
    add_norm(d, "final_norm", OWN_FINAL_NORM);
    if (!d->weights[OWN_OUTPUT][0]) snprintf(d->weights[OWN_OUTPUT], NAME, "output.weight");
    add_rule(d, "output", OWN_OUTPUT,
             (TensorRule)MATRIX(NULL, NULL, "vocab_size", "dim", .same_as = "token_embedding",
                                .if_tied = true));
    for (size_t i = 0; i < d->own->n_names; i++)
        if (!d->own->names[i]) return error_set(d->error, "no memory");
    return STATUS_OK;
}

/* Writes into config.json, for `more`, the names of what rules cannot describe. */
static void keep_special(const Description *d) {
    static const OwnPart parts[] = {OWN_WQ,         OWN_WK,       OWN_WV,
                                    OWN_FINAL_NORM, OWN_FFN_NORM, OWN_ATTENTION_NORM};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        char key[64];
        snprintf(key, sizeof key, "#%s", own_part_keys[parts[i]]);
        json_object_set_new(d->config, key, json_string(d->weights[parts[i]]));
        snprintf(key, sizeof key, "#%s.bias", own_part_keys[parts[i]]);
        json_object_set_new(d->config, key, json_string(d->biases[parts[i]]));
    }
}

/* ---- The family ------------------------------------------------------------------------------ */

static const ConfigRule own_config[] = {
    {"vocab_size", "vocab_size", REQUIRED},
    {"hidden_size", "dim", REQUIRED},
    {"intermediate_size", "ffn_dim", REQUIRED},
    {"num_hidden_layers", "n_layers", REQUIRED},
    {"num_attention_heads", "n_heads", REQUIRED},
    {"num_key_value_heads", "n_kv_heads", 0},
    {"head_dim", "head_dim", 0},
    {"max_position_embeddings", "context", REQUIRED},
    {"norm_eps", "norm_eps", 1e-5},
    {"activation", "activation", ACTIVATION_RELU},
    {"attention_scale", "attention_scale", 0},
    {0},
};

/* Every key that is read; others are refused. (Keys that begin with # are added afterwards.) */
static Status own_model_check_keys(const json_t *config, Error *error) {
    static const char *const keys[] = {"model_type",
                                       "names",
                                       "tensors",
                                       "vocab_size",
                                       "hidden_size",
                                       "intermediate_size",
                                       "num_hidden_layers",
                                       "num_hidden_groups",
                                       "num_attention_heads",
                                       "num_key_value_heads",
                                       "head_dim",
                                       "max_position_embeddings",
                                       "norm_eps",
                                       "activation",
                                       "attention_scale",
                                       "positions",
                                       "rope_theta",
                                       "norm",
                                       "norm_place",
                                       "embedding_scale",
                                       "transposed",
                                       "vocabulary",
                                       "bos_token_id",
                                       "eos_token_id"};
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)config, key, value) {
        size_t i = 0, n = sizeof keys / sizeof *keys;
        while (i < n && strcmp(keys[i], key) != 0) i++;
        if (i == n)
            return error_set(error,
                             "config.json: an own_transformer has no key '%.60s' "
                             "(docs/your-own-model.md lists them)",
                             key);
    }
    return STATUS_OK;
}

/* The index of the key's text among names[n]. */
static Status own_model_choose(const json_t *config, const char *key, const char *const *names,
                               size_t n, size_t *chosen, Error *error) {
    char list[200] = "";
    const char *text = json_text(config, key);
    for (size_t i = 0, at = 0; i < n; i++) {
        if (text && strcmp(text, names[i]) == 0) {
            *chosen = i;
            return STATUS_OK;
        }
        at += (size_t)snprintf(list + at, sizeof list - at, "%s%s", i ? ", " : "", names[i]);
    }
    return error_set(error, "config.json: %s is '%.40s', but must be one of %s", key,
                     text ? text : "(no text)", list);
}

/* The words of "positions", "norm" and "norm_place". */
enum {
    OWN_SINUSOIDS,
    OWN_SINUSOID_HALVES,
    OWN_LEARNED,
    OWN_ROPE,
    OWN_ROPE_INTERLEAVED,
    OWN_ALIBI,
    OWN_NO_POSITIONS,
    OWN_POSITION_WORDS
};
enum { OWN_LAYER_NORM, OWN_RMS_NORM, OWN_ANNOTATED_NORM, OWN_NORM_WORDS };
enum { OWN_NORM_AFTER, OWN_NORM_BEFORE, OWN_PLACE_WORDS };

static void set_positions(Config *c, size_t word) {
    static const PositionKind kinds[OWN_POSITION_WORDS] = {
        [OWN_SINUSOIDS] = POSITION_SINUSOIDAL,  [OWN_SINUSOID_HALVES] = POSITION_SINUSOIDAL,
        [OWN_LEARNED] = POSITION_LEARNED,       [OWN_ROPE] = POSITION_ROPE,
        [OWN_ROPE_INTERLEAVED] = POSITION_ROPE, [OWN_ALIBI] = POSITION_ALIBI,
        [OWN_NO_POSITIONS] = POSITION_NONE};
    c->position = kinds[word];
    c->sinusoid_layout = word == OWN_SINUSOID_HALVES ? SINUSOID_HALVES : SINUSOID_INTERLEAVED;
    c->rope_pairing = word == OWN_ROPE_INTERLEAVED ? ROPE_INTERLEAVED : ROPE_HALVES;
}

static Status set_embedding_scale(const json_t *config, Config *c, Error *error) {
    const json_t *scale = json_value(config, "embedding_scale");
    const char *text = json_string_value(scale);
    if (text && strcmp(text, "sqrt") == 0) {
        c->embedding_scale = (float)sqrt((double)c->dim);
    } else if (json_is_number(scale)) {
        c->embedding_scale = (float)json_number_value(scale);
    } else {
        return error_set(error, "config.json: embedding_scale is neither a number nor \"sqrt\"");
    }
    return STATUS_OK;
}

/* Sets what config.json of a model without a family says in words: positions, norms and where they
 * are. */
static Status own_finish(const json_t *config, Config *c, Error *error) {
    static const char *const positions[OWN_POSITION_WORDS] = {
        [OWN_SINUSOIDS] = "sinusoidal",
        [OWN_SINUSOID_HALVES] = "sinusoidal_halves",
        [OWN_LEARNED] = "learned",
        [OWN_ROPE] = "rope",
        [OWN_ROPE_INTERLEAVED] = "rope_interleaved",
        [OWN_ALIBI] = "alibi",
        [OWN_NO_POSITIONS] = "none"};
    static const char *const norms[OWN_NORM_WORDS] = {
        [OWN_LAYER_NORM] = "layer", [OWN_RMS_NORM] = "rms", [OWN_ANNOTATED_NORM] = "annotated"};
    static const char *const places[OWN_PLACE_WORDS] = {
        [OWN_NORM_AFTER] = "after", [OWN_NORM_BEFORE] = "before"};
    size_t position = 0, norm = 0, place = 0;
    if (own_model_choose(config, "positions", positions, OWN_POSITION_WORDS, &position, error) !=
            STATUS_OK ||
        own_model_choose(config, "norm", norms, OWN_NORM_WORDS, &norm, error) != STATUS_OK ||
        own_model_choose(config, "norm_place", places, OWN_PLACE_WORDS, &place, error) !=
            STATUS_OK ||
        set_embedding_scale(config, c, error) != STATUS_OK)
        return STATUS_FAILED;
    set_positions(c, position);
    c->norm = norm == OWN_RMS_NORM ? NORM_RMS : NORM_LAYER;
    c->norm_place = place == OWN_NORM_BEFORE ? NORM_BEFORE : NORM_AFTER;
    const char *final_norm = json_text(config, "#final_norm");
    c->final_norm = final_norm && final_norm[0];
    c->gated = json_flag(config, "#gated", false);
    json_int_t groups = json_integer_value(json_object_get(config, "num_hidden_groups"));
    if (groups < 1 || (uint64_t)groups > c->n_layers || c->n_layers % (uint64_t)groups != 0)
        return error_set(error, "config.json: %u layers cannot share the weights of %lld",
                         c->n_layers, (long long)groups);
    c->n_layers = (uint32_t)groups; /* `more` adds those that share their weights */
    return STATUS_OK;
}

/* Adds the annotated transformer's norm `to`: it divides by the standard deviation of n - 1
 * elements plus an epsilon that is added after the root, where others take n and add it before. */
static Status add_annotated_norm(const RuleContext *c, const char *to, const char *weight,
                                 const char *bias, Error *error) {
    size_t n = c->source->config.dim;
    char bias_to[96];
    float *values;
    if (rules_read(c, weight, 1, n, &values, error) != STATUS_OK) return STATUS_FAILED;
    double factor = n > 1 ? sqrt((double)(n - 1) / (double)n) : 1.0;
    for (size_t i = 0; i < n; i++) values[i] = (float)((double)values[i] * factor);
    if (source_add_values(c->source, to, 1, n, values, error) != STATUS_OK ||
        rules_read(c, bias, 1, n, &values, error) != STATUS_OK)
        return STATUS_FAILED;
    size_t end = strcspn(to, "w"); /* of the name, where `to` is that of one part: "- wk -" */
    end += strcspn(to + end, " ");
    snprintf(bias_to, sizeof bias_to, "%.*s.bias%s", (int)end, to, to + end);
    return source_add_values(c->source, bias_to, 1, n, values, error);
}

/* Adds the norms of a model with "norm": "annotated": two in each layer, and the final one where
 * there is one. The keys "#attention_norm" and so on give the names of their tensors. */
static Status add_annotated_norms(const RuleContext *c, const json_t *config, Error *error) {
    Config *own = &c->source->config;
    const char *final_norm = json_text(config, "#final_norm");
    Status status = STATUS_OK;
    own->norm_eps = 1e-12f;
    for (uint32_t l = 0; status == STATUS_OK && l < own->n_layers; l++) {
        static const char *const norms[] = {"attention_norm", "ffn_norm"};
        for (size_t i = 0; status == STATUS_OK && i < 2; i++) {
            char key[64], to[64], weight[NAME], bias[NAME];
            snprintf(key, sizeof key, "#%s", norms[i]);
            own_model_fill(weight, json_text(config, key), l, 0);
            snprintf(key, sizeof key, "#%s.bias", norms[i]);
            own_model_fill(bias, json_text(config, key), l, 0);
            snprintf(to, sizeof to, "layers.%u.%s", l, norms[i]);
            status = add_annotated_norm(c, to, weight, bias, error);
        }
    }
    if (status == STATUS_OK && own->final_norm)
        status = add_annotated_norm(c, "final_norm", final_norm,
                                    json_text(config, "#final_norm.bias"), error);
    return status;
}

/* Adds one matrix of a layer by joining the matrices of n_heads heads, whose names follow
 * `pattern`. */
static Status join_heads(const RuleContext *c, const char *to, const char *pattern, uint32_t layer,
                         size_t n_heads, Error *error) {
    const Config *own = &c->source->config;
    size_t rows = own->head_dim, cols = own->dim, n;
    bool fits = size_mul(rows * n_heads, cols, &n) && n < SIZE_MAX / 8;
    float *joined = fits ? malloc((n + 1) * sizeof *joined) : NULL;
    Status status = joined ? STATUS_OK : error_set(error, "no memory for the heads");
    for (size_t h = 0; status == STATUS_OK && h < n_heads; h++) {
        char name[NAME];
        float *values;
        own_model_fill(name, pattern, layer, h);
        status = rules_read(c, name, rows, cols, &values, error);
        if (status == STATUS_OK)
            memcpy(joined + h * rows * cols, values, rows * cols * sizeof *values);
        free(values);
    }
    if (status == STATUS_OK) {
        status = source_add_values(c->source, to, rows * n_heads, cols, joined, error);
        if (status == STATUS_OK) c->source->tensors[c->source->n_tensors - 1].is_vector = false;
        return status;
    }
    free(joined);
    return status;
}

/* Joins the matrices that a source has for each head (%h in its name) to one for all heads. */
static Status join_all_heads(const RuleContext *c, const json_t *config, Error *error) {
    static const char *const parts[] = {"wq", "wk", "wv"};
    const Config *own = &c->source->config;
    Status status = STATUS_OK;
    for (size_t i = 0; i < 3; i++) {
        char key[16], to[64];
        snprintf(key, sizeof key, "#%s", parts[i]);
        const char *pattern = json_text(config, key);
        if (!pattern || !strstr(pattern, "%h")) continue;
        for (uint32_t l = 0; status == STATUS_OK && l < own->n_layers; l++) {
            snprintf(to, sizeof to, "layers.%u.%s", l, parts[i]);
            status = join_heads(c, to, pattern, l, i ? own->n_kv_heads : own->n_heads, error);
        }
    }
    return status;
}

/* Refuses a table of positions that is not made of the sinusoids which are computed in its place:
 * it was learned, or has another formula. */
static Status check_sinusoids(const RuleContext *c, const RawTensor *raw, Error *error) {
    enum { ENOUGH = 64 };            /* positions */
    static const double NEAR = 0.02; /* rounding to bfloat16, and more */
    const Config *own = &c->source->config;
    bool halves = own->sinusoid_layout == SINUSOID_HALVES;
    size_t n = 1, dim = own->dim, pairs = dim / 2;
    bool fits = raw->n_dims > 0 && raw->dims[raw->n_dims - 1] == dim, differs = false;
    for (uint32_t i = 0; fits && i < raw->n_dims; i++) fits = size_mul(n, raw->dims[i], &n);
    float *table = NULL;
    if (own->position != POSITION_SINUSOIDAL) return STATUS_OK;
    if (fits && rules_read(c, raw->name, 1, n, &table, error) != STATUS_OK) return STATUS_FAILED;
    for (size_t at = 0; fits && at < n && at < ENOUGH * dim; at += dim) {
        for (size_t i = 0; i < pairs; i++) {
            double width = (double)dim, turns = -2.0 * (double)i / width;
            double angle = (double)(at / dim) * exp(turns * log((double)own->sinusoid_base));
            double sine = (double)table[at + (halves ? i : 2 * i)];
            double cosine = (double)table[at + (halves ? pairs + i : 2 * i + 1)];
            differs =
                differs || !(fabs(sine - sin(angle)) < NEAR) || !(fabs(cosine - cos(angle)) < NEAR);
        }
    }
    free(table);
    if (fits && !differs) return STATUS_OK;
    return error_set(error,
                     "%s: tensor '%.100s' is not the table of sinusoids of \"positions\" in "
                     "config.json: if it was learned, \"tensors\" must name it as "
                     "position_embedding",
                     c->source->path, raw->name);
}

/* Refuses a tensor that no rule took, but for masks and tables that can be computed. */
static Status check_used(const RuleContext *c, Error *error) {
    static const char *const harmless[] = {"masked_bias", "tril",      "inv_freq",    "causal_mask",
                                           "mask",        "freqs_cis", "position_ids"};
    for (size_t i = 0; i < c->table->n; i++) {
        const RawTensor *raw = &c->table->items[i];
        bool known = raw->used || has_end(raw->name, ".attn.bias");
        for (size_t k = 0; !known && k < sizeof harmless / sizeof *harmless; k++)
            known = is_called(raw, harmless[k]);
        if (!known && is_sinusoids(raw)) {
            if (check_sinusoids(c, raw, error) != STATUS_OK) return STATUS_FAILED;
            known = true;
        }
        if (known) continue;
        bool crosses = strstr(raw->name, "multihead_attn") || strstr(raw->name, "src_attn");
        return error_set(error, "%s: tensor '%.100s' %s", c->source->path, raw->name,
                         crosses ? "attends to an encoder's output, which a decoder alone has not: "
                                   "train nn.TransformerEncoderLayer with a causal mask"
                                 : "has no place: name it in \"tensors\" of config.json, or leave "
                                   "it out of the file");
    }
    return STATUS_OK;
}

static Status own_more(const RuleContext *c, const json_t *config, Error *error) {
    const char *norm = json_text(config, "norm");
    if (join_all_heads(c, config, error) != STATUS_OK) return STATUS_FAILED;
    if (norm && strcmp(norm, "annotated") == 0 &&
        add_annotated_norms(c, config, error) != STATUS_OK)
        return STATUS_FAILED;
    json_int_t n_layers = json_integer_value(json_object_get(config, "num_hidden_layers"));
    if (check_used(c, error) != STATUS_OK) return STATUS_FAILED;
    return source_share_layers(c->source, (uint32_t)n_layers, error);
}

/* Says what is missing where the names were not found. */
static Status no_names(const Description *d) {
    char first[NAME] = "none";
    if (d->table->n) snprintf(first, sizeof first, "'%.150s'", d->table->items[0].name);
    return error_set(d->error,
                     "the names of the tensors (the first is %s) are not those of nanogpt, torch, "
                     "annotated, lecture, guide or modules: config.json must say which is which in "
                     "\"tensors\" (docs/your-own-model.md)",
                     first);
}

Status own_model_describe(OwnModel *own, json_t *config, RawTable *table, Error *error) {
    Description d = {.own = own, .config = config, .table = table, .error = error};
    const char *wanted = json_text(config, "names");
    *own = (OwnModel){.family = {.model_type = "own_transformer",
                                 .keys = own_config,
                                 .finish = own_finish,
                                 .more = own_more,
                                 .any_biases = true,
                                 .tied = true,
                                 .bos_id = -1,
                                 .eos_id = -1}};
    if (drop_wrappers(&d) != STATUS_OK || own_model_check_keys(config, error) != STATUS_OK)
        return STATUS_FAILED;
    bool found = find_style(&d, wanted);
    if (wanted && !found)
        return error_set(error, "config.json: the tensors' names are not those of '%.40s'", wanted);
    set_names_of_style(&d);
    if (set_given_names(&d) != STATUS_OK) return STATUS_FAILED;
    if (!d.weights[OWN_EMBEDDING][0] || !d.weights[OWN_WO][0] || !d.weights[OWN_UP][0])
        return no_names(&d);
    json_object_set_new(config, "#gated", json_boolean(d.weights[OWN_GATE][0]));
    keep_special(&d);
    if (add_sizes(&d) != STATUS_OK || add_rules(&d) != STATUS_OK) return STATUS_FAILED;
    own->family.tensors = own->rules;
    return STATUS_OK;
}

void own_model_free(OwnModel *own) {
    for (size_t i = 0; i < own->n_names; i++) free(own->names[i]);
    free(own->names);
    free(own->rules);
    *own = (OwnModel){0};
}
