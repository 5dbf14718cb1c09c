#include "modes/inspect/info_json.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/unicode.h"
#include "kvcache/kvcache_sizes.h"
#include "core/config_fields.h"
#include "layers/model_watch.h"
#include "modes/open/fit.h"
#include "modes/open/tensor_totals.h"
#include "modes/inspect/work.h"

/* A JSON string of bytes[n] from the file; what is not UTF-8 becomes U+FFFD. */
static json_t *text_of(const char *bytes, size_t n) {
    TextBuffer text = {0};
    utf8_put_repaired(&text, bytes, n);
    json_t *json = text.failed ? NULL : json_stringn(text.length ? text.bytes : "", text.length);
    text_free(&text);
    return json;
}

/* JSON has no infinities and no NaN. */
static json_t *number_of(double number) {
    return isfinite(number) ? json_real(number) : json_null();
}

static json_t *list_of(const uint32_t *values, size_t n) {
    json_t *list = json_array();
    for (size_t i = 0; i < n; i++) json_array_append_new(list, json_integer(values[i]));
    return list;
}

/* Returns the value of one field of the configuration as JSON. */
static json_t *field_json(const Config *config, const ConfigField *field) {
    const void *value = (const char *)config + field->offset;
    switch (field->kind) {
    case FIELD_UINT:
        return json_integer(*(const uint32_t *)value);
    case FIELD_INT:
        return json_integer(*(const int32_t *)value);
    case FIELD_FLOAT:
        return number_of((double)*(const float *)value);
    case FIELD_BOOL:
        return json_boolean(*(const bool *)value);
    case FIELD_ENUM:
        return json_string(field->names[*(const unsigned *)value]);
    case FIELD_TEXT:
        return text_of(value, strlen(value));
    case FIELD_PER_LAYER:
        return list_of(value, config->n_layers);
    case FIELD_LIST:
        return list_of(value, *(const uint32_t *)((const char *)config + field->count_offset));
    }
    return json_null();
}

static json_t *config_json(const Config *config) {
    json_t *json = json_object();
    for (size_t i = 0; config_field(i); i++)
        json_object_set_new(json, config_field(i)->name, field_json(config, config_field(i)));
    return json;
}

/* Returns a metadata entry as JSON: a text, a single value, or a list of several values. Integers
 * beyond int64, which JSON's library cannot hold, become real numbers. */
static json_t *entry_json(const MetaEntry *entry) {
    const uint64_t *whole = entry->values; /* of META_UINT and META_INT */
    json_t *list = json_array();
    if (entry->type == META_TEXT) {
        json_decref(list);
        return text_of(entry->values, entry->count);
    }
    for (size_t i = 0; i < entry->count; i++) {
        double number = NAN;
        modelfile_entry_float(entry, i, &number);
        json_t *value = entry->type == META_BOOL  ? json_boolean(number != 0.0)
                        : entry->type == META_INT ? json_integer((json_int_t)whole[i])
                        : entry->type == META_FLOAT || whole[i] > INT64_MAX
                            ? number_of(number)
                            : json_integer((json_int_t)whole[i]);
        json_array_append_new(list, value);
    }
    if (entry->count != 1) return list;
    json_t *only = json_incref(json_array_get(list, 0));
    json_decref(list);
    return only;
}

/* What the file says beside the fields of Config: where it comes from, what it recommends. */
static json_t *metadata_json(const ModelFile *file, const json_t *config) {
    json_t *json = json_object();
    for (size_t i = 0; modelfile_meta(file, i); i++) {
        const MetaEntry entry = *modelfile_meta(file, i);
        json_t *key = text_of(entry.key, entry.key_bytes);
        const char *name = json_string_value(key);
        if (name && !json_object_get(config, name))
            json_object_set_new(json, name, entry_json(&entry));
        json_decref(key);
    }
    return json;
}

/* By type: tensors, parameters, bytes. Tensors that share their data count once. */
static json_t *types_json(const ModelFile *file, json_int_t *parameters) {
    TensorTotals totals;
    json_t *types = json_object();
    *parameters = 0;
    if (!tensor_totals(file, &totals)) return types;
    for (size_t i = 0; i < totals.n_met; i++) {
        TensorType type = totals.met[i];
        json_object_set_new(types, tensor_type_info(type)->name,
                            json_pack("{s:I, s:I, s:I}", "tensors",
                                      (json_int_t)totals.tensors[type], "parameters",
                                      (json_int_t)totals.parameters[type], "bytes",
                                      (json_int_t)totals.bytes[type]));
    }
    *parameters = (json_int_t)totals.all;
    return types;
}

static json_t *cache_json(const Session *session) {
    const KvShape shape = model_kv_shape(session->model, session->kv_type);
    size_t context = model_context(session->model), most = (size_t)1 << 40;
    size_t token = kvcache_seen_bytes(&shape, most + 1) - kvcache_seen_bytes(&shape, most);
    size_t fixed = kvcache_seen_bytes(&shape, most) - most * token;
    size_t all =
        kvcache_forgets(&shape) ? kvcache_sequence_bytes(&shape, context) : token * context;
    return json_pack("{s:s, s:I, s:I, s:I, s:I}", "type", kv_type_name(shape.type),
                     "bytes_per_token", (json_int_t)token, "fixed_bytes", (json_int_t)fixed,
                     "context", (json_int_t)context, "context_bytes", (json_int_t)all);
}

static json_t *work_json(const Config *config) {
    const Work work = work_of(config);
    return json_pack("{s:f, s:f}", "per_token", work.token, "per_position_seen", work.per_position);
}

static json_t *adapters_json(const Adapters *adapters) {
    json_t *list = json_array();
    for (size_t i = 0; i < adapters->n; i++) {
        const SessionAdapter *a = &adapters->items[i];
        json_t *one = json_pack("{s:s, s:I, s:I, s:I, s:f, s:s}", "name", a->name, "matrices",
                                (json_int_t)a->n_matrices, "rank", (json_int_t)a->rank, "bytes",
                                (json_int_t)a->bytes, "scale", a->scale, "sha256", a->digest);
        json_object_set_new(one, "path", text_of(a->path, strlen(a->path)));
        json_array_append_new(list, one);
    }
    return list;
}

static json_t *memory_json(const Session *session) {
    const Fit fit = fit_of(session, session->free_memory);
    json_t *json =
        json_pack("{s:f, s:f, s:f, s:b, s:I}", "free", fit.free, "weights", fit.weights, "cache",
                  fit.cache, "fits", fit.weights_fit, "context", (json_int_t)fit.context);
    if (fit.type) json_object_set_new(json, "type", json_string(fit.type));
    return json;
}

/* Makes the object that --info prints as JSON. What depends on this run, such as cache, memory and
 * threads, is there only where the model is open. */
static json_t *info_json(const Session *session) {
    const ModelFile *file = session->file;
    const char *path = modelfile_path(file);
    size_t bytes;
    const char *template = modelfile_section(file, SECTION_TEMPLATE, &bytes);
    json_int_t parameters;
    json_t *json = json_object(), *config = config_json(modelfile_config(file));
    json_object_set_new(json, "file", text_of(path, strlen(path)));
    json_object_set_new(json, "bytes", json_integer((json_int_t)modelfile_bytes(file)));
    if (session->overridden)
        json_object_set_new(json, "overridden", json_string(session->overridden));
    json_object_set_new(json, "metadata", metadata_json(file, config));
    json_object_set_new(json, "config", config);
    json_object_set_new(json, "types", types_json(file, &parameters));
    json_object_set_new(json, "parameters", json_integer(parameters));
    json_object_set_new(json, "tokens",
                        session->tokenizer
                            ? json_integer((json_int_t)tokenizer_vocab_size(session->tokenizer))
                            : json_null());
    json_object_set_new(json, "chat_template", template ? text_of(template, bytes) : json_null());
    if (!session->model) return json;
    if (session->adapters) json_object_set_new(json, "adapters", adapters_json(session->adapters));
    json_object_set_new(json, "multiply_adds", work_json(model_config(session->model)));
    json_object_set_new(json, "cache", cache_json(session));
    json_object_set_new(json, "memory", memory_json(session));
    json_object_set_new(json, "machine",
                        json_pack("{s:s, s:i}", "isa", model_isa(session->model)->name, "threads",
                                  model_threads(session->model)));
    if (session->ranks) json_object_set_new(json, "ranks", json_string(session->ranks));
    return json;
}

Status info_json_run(Session *session, Error *error) {
    json_t *json = info_json(session);
    char *text = json ? json_dumps(json, JSON_INDENT(2) | JSON_REAL_PRECISION(9)) : NULL;
    json_decref(json);
    if (!text) return error_set(error, "no memory for the description");
    Status status = output_write(session->output, text, strlen(text), error);
    if (status == STATUS_OK) status = output_write(session->output, "\n", 1, error);
    free(text);
    return status;
}
