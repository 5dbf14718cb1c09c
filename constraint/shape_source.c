#include "constraint/shape_source.h"

#include <jansson.h>
#include <string.h>

#include "base/unicode.h"
#include "constraint/character_sets.h"
#include "constraint/exact_json.h"
#include "constraint/grammar.h"
#include "constraint/pattern.h"
#include "constraint/schema.h"

enum { MOST_TEXT = 16 << 20 };

static Status compile_schema(const ShapeSource *source, Acceptor *acceptor, AcceptorNode *node,
                             Error *error) {
    json_t *schema;
    JsonDigits *digits;
    if (exact_json_load(source->text, source->length, &schema, &digits, error) != STATUS_OK)
        return error_prefix(error, "the JSON schema");
    Status status = json_is_object(schema) || json_is_boolean(schema)
                        ? schema_compile(acceptor, schema, digits, node, error)
                        : error_set(error, "it must be an object, true or false");
    json_decref(schema);
    json_digits_free(digits);
    return status == STATUS_OK ? status : error_prefix(error, "the JSON schema");
}

/* Compiles a JSON list of strings into a node that matches exactly one of them. */
static Status compile_choice(const ShapeSource *source, Acceptor *acceptor, AcceptorNode *node,
                             Error *error) {
    json_t *list, *item;
    JsonDigits *digits;
    size_t i;
    RegexArena *r = acceptor_regexes(acceptor);
    Regex all = REGEX_NONE;
    if (exact_json_load(source->text, source->length, &list, &digits, error) != STATUS_OK)
        return error_prefix(error, "the choice");
    json_digits_free(digits);
    Status status = json_is_array(list) && json_array_size(list) > 0
                        ? STATUS_OK
                        : error_set(error, "the choice must be a list of texts");
    json_array_foreach(list, i, item) {
        if (status != STATUS_OK) break;
        if (!json_is_string(item) || json_string_length(item) == 0)
            status = error_set(error, "the choice must be of texts that are not empty");
        else
            all =
                regex_or2(r, all, regex_text(r, json_string_value(item), json_string_length(item)));
    }
    json_decref(list);
    *node = acceptor_term(acceptor, all);
    return status;
}

static Status compile_regex(const ShapeSource *source, Acceptor *acceptor, AcceptorNode *node,
                            Error *error) {
    Regex regex;
    if (pattern_compile_regex(acceptor_regexes(acceptor), source->text, source->length,
                              PATTERN_WHOLE, WRITING_PLAIN, &regex, error) != STATUS_OK)
        return error_prefix(error, "the regular expression");
    *node = acceptor_term(acceptor, regex);
    return STATUS_OK;
}

Status shape_source_node(const ShapeSource *source, Acceptor *acceptor, AcceptorNode *node,
                         Error *error) {
    if (source->length > MOST_TEXT)
        return error_set(error, "the shape is longer than %d MiB", MOST_TEXT >> 20);
    switch (source->kind) {
    case SHAPE_JSON_OBJECT:
        return schema_any_object(acceptor, node, error);
    case SHAPE_JSON_SCHEMA:
        return compile_schema(source, acceptor, node, error);
    case SHAPE_REGEX:
        return compile_regex(source, acceptor, node, error);
    case SHAPE_CHOICE:
        return compile_choice(source, acceptor, node, error);
    case SHAPE_GRAMMAR:
        return grammar_compile(acceptor, source->text, source->length, node, error);
    case SHAPE_STRUCTURE:
    case SHAPE_NONE:
        break;
    }
    return error_set(error, "no shape is given");
}

Status shape_source_compile(const ShapeSource *source, Acceptor **acceptor, Error *error) {
    const AcceptorLimits limits = acceptor_limits_default();
    return shape_source_compile_within(source, &limits, acceptor, error);
}

Status shape_source_compile_within(const ShapeSource *source, const AcceptorLimits *limits,
                                   Acceptor **acceptor, Error *error) {
    AcceptorNode node = ACCEPTOR_NO_NODE;
    Acceptor *m = acceptor_new(limits, source->form);
    *acceptor = NULL;
    if (!m) return error_set(error, "no memory for a shape");
    Status status = shape_source_node(source, m, &node, error);
    if (status == STATUS_OK) status = acceptor_finish(m, node, error);
    if (status == STATUS_OK)
        *acceptor = m;
    else
        acceptor_free(m);
    return status;
}
