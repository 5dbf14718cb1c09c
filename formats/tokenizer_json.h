/* What the files of the tokenizer.json reader share: tokenizer_json.c (the file, its added tokens
 * and configuration), tokenizer_json_steps.c (what happens to text before and after the model, and
 * to ids), tokenizer_json_model.c (vocabularies and merges). */
#ifndef FORMATS_TOKENIZER_JSON_H
#define FORMATS_TOKENIZER_JSON_H

#include "formats/tokenizer_build.h"
#include <jansson.h>
#include <string.h>

typedef struct JsonImport {
    Builder b;
    json_t *vocab; /* BPE and WordLevel: token to id */
    int depth;
    Error *error;
} JsonImport;

/* node["type"]; "(no type)" where there is none. */
static inline const char *json_import_type(const json_t *node) {
    const char *type = json_string_value(json_object_get(node, "type"));
    return type ? type : "(no type)";
}

static inline bool json_import_is(const json_t *node, const char *type) {
    return !strcmp(json_import_type(node), type);
}

static inline bool json_import_flag(const json_t *node, const char *key, bool otherwise) {
    const json_t *value = json_object_get(node, key);
    return json_is_boolean(value) ? json_is_true(value) : otherwise;
}

/* node[key] among the builder's texts; empty where there is none. */
static inline TextRange json_import_text(JsonImport *im, const json_t *node, const char *key) {
    const json_t *value = json_object_get(node, key);
    if (!json_is_string(value)) return (TextRange){0, 0};
    return builder_text(&im->b, json_string_value(value), json_string_length(value));
}

/* The components before the model (normalizer, pre_tokenizer), and those behind it (decoder,
 * post_processor), which need the tokens. */
Status json_import_steps_before(JsonImport *im, const json_t *root);
Status json_import_steps_after(JsonImport *im, const json_t *root);

/* GPT-2's splits and decoder, which a slow vocabulary goes with. */
Status json_import_gpt2_steps(JsonImport *im, bool prefix_space);

/* Puts ids before those that stand before every text already. */
void json_import_put_before(int32_t *ids, size_t *n, const int32_t *more, size_t n_more);

Status json_import_model(JsonImport *im, const json_t *model);

/* vocab.json and merges.txt. */
Status json_import_slow_model(JsonImport *im, json_t *vocab, const char *merges, size_t size);

/* The id of the token in the vocabulary, or -1. */
int64_t json_import_id(const JsonImport *im, const char *token, size_t n);

#endif
