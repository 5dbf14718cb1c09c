#include "formats/family/gguf_model.h"

#include <stdio.h>

typedef struct Key {
    char text[128];
} Key;

static Key key_of(const GgufModel *model, const char *name) {
    Key key;
    snprintf(key.text, sizeof key.text, "%s.%s", model->prefix, name);
    return key;
}

const GgufValue *gguf_model_find(const GgufModel *model, const char *name, GgufKind kind) {
    Key key = key_of(model, name);
    return gguf_find_kind(&model->gguf, key.text, kind);
}

const GgufValue *gguf_model_value(const GgufModel *model, const char *name) {
    Key key = key_of(model, name);
    return gguf_find(&model->gguf, key.text);
}

bool gguf_model_uint(const GgufModel *model, const char *name, uint32_t *value) {
    uint64_t wide;
    Key key = key_of(model, name);
    if (!gguf_uint(&model->gguf, key.text, UINT32_MAX, &wide)) return false;
    *value = (uint32_t)wide;
    return true;
}

bool gguf_model_float(const GgufModel *model, const char *name, double *value) {
    Key key = key_of(model, name);
    return gguf_float(&model->gguf, key.text, value);
}

bool gguf_model_bool(const GgufModel *model, const char *name, bool *value) {
    Key key = key_of(model, name);
    return gguf_bool(&model->gguf, key.text, value);
}

bool gguf_model_text(const GgufModel *model, const char *name, TokenizerString *value) {
    Key key = key_of(model, name);
    return gguf_text(&model->gguf, key.text, value);
}

bool gguf_model_has(const GgufModel *m, const char *name) {
    return raw_table_find(&m->table, name) != NULL;
}

bool gguf_model_layer_has(const GgufModel *m, uint32_t layer, const char *rest) {
    char name[64];
    snprintf(name, sizeof name, "blk.%u.%s", layer, rest);
    return gguf_model_has(m, name);
}
