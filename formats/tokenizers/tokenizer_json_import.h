/* What the parts of the tokenizer.json reader share. tokenizer_json.c reads the file as a whole,
 * its added tokens and the configuration; tokenizer_json_steps.c and tokenizer_json_model.c read
 * its components. */
#ifndef FORMATS_TOKENIZERS_TOKENIZER_JSON_IMPORT_H
#define FORMATS_TOKENIZERS_TOKENIZER_JSON_IMPORT_H

#include "formats/tokenizers/tokenizer_build.h"
#include "json/json_object.h"

typedef struct JsonImport {
    Builder b;
    json_t *vocab; /* BPE and WordLevel: token to id; borrowed */
    int depth;     /* of nested Sequences */
    Error *error;
} JsonImport;

/* node["type"]; "(no type)" where there is none. */
static inline const char *json_import_type(const json_t *node) {
    const char *type = json_text(node, "type");
    return type ? type : "(no type)";
}

static inline bool json_import_is(const json_t *node, const char *type) {
    return !strcmp(json_import_type(node), type);
}

/* Copies node[key] to the builder's texts; empty where there is no such text. */
static inline TextRange json_import_text(JsonImport *im, const json_t *node, const char *key) {
    const json_t *value = json_object_get(node, key);
    if (!json_is_string(value)) return (TextRange){0, 0};
    return builder_text(&im->b, json_string_value(value), json_string_length(value));
}

#endif
