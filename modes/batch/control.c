#include "modes/batch/control.h"

#include <stdlib.h>
#include <string.h>

#include "base/unicode.h"
#include "json/json_text.h"

static const char *const names[] = {[CONTROL_INFO] = "info",
                                    [CONTROL_DETOKENIZE] = "detokenize",
                                    [CONTROL_CANCEL] = "cancel",
                                    [CONTROL_FORGET] = "forget",
                                    [CONTROL_RESULTS] = "results"};

ControlKind control_kind(const json_t *line) {
    for (int kind = CONTROL_INFO; kind <= CONTROL_RESULTS; kind++)
        if (json_object_get(line, names[kind])) return (ControlKind)kind;
    return CONTROL_NONE;
}

static Status read_ids(Control *control, const json_t *value, Error *error) {
    for (size_t i = 0; i < json_array_size(value); i++) {
        const json_t *id = json_array_get(value, i);
        if (!json_is_integer(id) || json_integer_value(id) < 0 ||
            json_integer_value(id) > INT32_MAX)
            return error_set(error, "'detokenize': item %zu is not a token id", i);
    }
    control->ids = value;
    return json_is_array(value) ? STATUS_OK
                                : error_set(error, "'detokenize' must be a list of token ids");
}

static Status read_line_number(Control *control, const json_t *value, const char *name,
                               Error *error) {
    if (!json_is_integer(value) || json_integer_value(value) < 1)
        return error_set(error, "'%s' must be the line of a %s, from 1", name,
                         control->kind == CONTROL_RESULTS ? "file" : "request");
    control->line = (size_t)json_integer_value(value);
    return STATUS_OK;
}

/* Reads a field that only one kind of line has; *own: it was one. */
static Status read_own_field(Control *control, const char *name, const json_t *value, bool *own,
                             Error *error) {
    bool special = control->kind == CONTROL_DETOKENIZE && strcmp(name, "special") == 0;
    bool last = control->kind == CONTROL_RESULTS && strcmp(name, "last") == 0;
    bool first = control->kind == CONTROL_RESULTS && strcmp(name, "first") == 0;
    *own = special || last || first;
    if ((special || last) && !json_is_boolean(value))
        return error_set(error, "'%s' must be true or false", name);
    if (special) control->special = json_is_true(value);
    if (last) control->last = json_is_true(value);
    return first ? read_line_number(control, value, name, error) : STATUS_OK;
}

Status control_read(Control *control, ControlKind kind, const json_t *line, Error *error) {
    const json_t *value = json_object_get(line, names[kind]);
    const char *name;
    json_t *other;
    *control = (Control){.kind = kind, .line = 1};
    json_object_foreach((json_t *)line, name, other) {
        bool own;
        if (read_own_field(control, name, other, &own, error) != STATUS_OK) return STATUS_FAILED;
        if (!own && strcmp(name, "id") != 0 && strcmp(name, names[kind]) != 0)
            return error_set(error, "a line with '%s' has no field '%.80s'", names[kind], name);
    }
    if (kind == CONTROL_INFO)
        return json_is_true(value) ? STATUS_OK : error_set(error, "'info' must be true");
    if (kind == CONTROL_RESULTS) {
        control->text = value;
        return json_is_string(value) ? STATUS_OK
                                     : error_set(error, "'results' must be bytes in base64");
    }
    return kind == CONTROL_DETOKENIZE ? read_ids(control, value, error)
                                      : read_line_number(control, value, names[kind], error);
}

Status control_detokenize(const Control *control, const Tokenizer *tokenizer, json_t *result,
                          Error *error) {
    size_t n = json_array_size(control->ids), length = 0;
    int32_t *ids = malloc((n + 1) * sizeof *ids);
    char *text = NULL;
    if (!ids) return error_set(error, "no memory for %zu tokens", n);
    for (size_t i = 0; i < n; i++)
        ids[i] = (int32_t)json_integer_value(json_array_get(control->ids, i));
    unsigned flags = control->special ? 0 : TOKEN_DECODER_SKIP_SPECIAL;
    Status status = tokenizer_decode(tokenizer, ids, n, flags, &text, &length, error);
    free(ids);
    if (status != STATUS_OK) return status;
    json_object_set_new(result, "text", json_lossy_text(text ? text : "", length));
    if (utf8_valid_prefix(text, length) < length) {
        json_t *bytes = json_array();
        for (size_t i = 0; i < length; i++)
            json_array_append_new(bytes, json_integer((unsigned char)text[i]));
        json_object_set_new(result, "bytes", bytes);
    }
    free(text);
    return STATUS_OK;
}
