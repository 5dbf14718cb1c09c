#include "constraint/structure.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/unicode.h"
#include "constraint/character_sets.h"
#include "constraint/exact_json.h"
#include "constraint/pattern.h"
#include "constraint/schema.h"
#include "constraint/shape_source.h"
#include "constraint/vocabulary.h"

enum { MOST_LEVELS = 32, MOST_ITEMS = 4096 };

typedef struct Compiler {
    Acceptor *acceptor;
    RegexArena *regexes;
    const JsonDigits *digits; /* of the numbers in the schemas (json_digits.h) */
    Error *error;
    int level;
} Compiler;

static Status structure_wrong(Compiler *c, const char *kind) {
    return error_set(c->error, "a structure is not well formed at '%.20s'", kind);
}

/* ---- Texts ----------------------------------------------------------------------------------- */

/* Any text without control tokens. */
static Regex any_text(Compiler *c) {
    return regex_repeat(c->regexes, regex_range(c->regexes, 0, VOCABULARY_TOKEN_BEGIN - 1), 0,
                        REGEX_MANY);
}

/* Takes texts that hold one of `stops`, from item `first` on, out of `all`. */
static Status without_stops(Compiler *c, const json_t *element, size_t first, Regex *all) {
    RegexArena *r = c->regexes;
    for (size_t i = first; i < json_array_size(element); i++) {
        const json_t *stop = json_array_get(element, i);
        if (!json_is_string(stop) || json_string_length(stop) == 0)
            return structure_wrong(c, "stop");
        Regex text = regex_text(r, json_string_value(stop), json_string_length(stop));
        Regex holds = regex_concat(r, any_text(c), regex_concat(r, text, any_text(c)));
        *all = regex_and2(r, *all, regex_not(r, holds));
    }
    return STATUS_OK;
}

static Status compile_pattern(Compiler *c, const json_t *pattern, PatternScope scope, Regex *out) {
    if (!json_is_string(pattern)) return structure_wrong(c, "pattern");
    return pattern_compile_regex(c->regexes, json_string_value(pattern),
                                 json_string_length(pattern), scope, WRITING_PLAIN, out, c->error);
}

static Status token_node(Compiler *c, const json_t *name, Regex *out) {
    static const char begin = (char)VOCABULARY_TOKEN_BEGIN, end = (char)VOCABULARY_TOKEN_END;
    RegexArena *r = c->regexes;
    if (!json_is_string(name)) return structure_wrong(c, "token");
    Regex text = regex_text(r, json_string_value(name), json_string_length(name));
    *out = regex_concat(r, regex_text(r, &begin, 1), regex_concat(r, text, regex_text(r, &end, 1)));
    return STATUS_OK;
}

/* ---- Strings as plain text ------------------------------------------------------------------- */

/* One of the strings in `list`. */
static Regex listed(Compiler *c, const json_t *list) {
    Regex out = REGEX_NONE;
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *item = json_array_get(list, i);
        if (!json_is_string(item)) continue; /* no string is equal to it */
        Regex text = regex_string(c->regexes, json_string_value(item), json_string_length(item),
                                  WRITING_PLAIN);
        out = regex_or2(c->regexes, out, text);
    }
    return out;
}

static Status read_length(Compiler *c, const json_t *schema, const char *key, uint32_t *out) {
    const json_t *value = json_object_get(schema, key);
    if (!value) return STATUS_OK;
    if (!json_is_integer(value) || json_integer_value(value) < 0 ||
        json_integer_value(value) > 1000000000)
        return error_set(c->error, "'%s' must be a whole number from 0 to 1e9", key);
    *out = (uint32_t)json_integer_value(value);
    return STATUS_OK;
}

/* Refuses what a string's schema says beyond what string_regex knows. */
static Status check_string_schema(Compiler *c, const json_t *schema) {
    static const char *const known[] = {"type",      "enum",     "const",      "minLength",
                                        "maxLength", "pattern",  "title",      "description",
                                        "default",   "examples", "deprecated", "$comment"};
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)schema, key, value) {
        size_t i = 0, n = sizeof known / sizeof *known;
        while (i < n && strcmp(known[i], key) != 0) i++;
        if (i == n)
            return error_set(c->error,
                             "'%.60s' cannot be enforced in strings of this format of calls", key);
    }
    return STATUS_OK;
}

/* Builds the expression of a string that is written as plain text, from its schema: length, enum,
 * const and pattern, all of which it must match. */
static Status string_regex(Compiler *c, const json_t *schema, Regex *out) {
    RegexArena *r = c->regexes;
    uint32_t min = 0, max = REGEX_MANY;
    const json_t *list = json_object_get(schema, "enum"), *one = json_object_get(schema, "const");
    const json_t *pattern = json_object_get(schema, "pattern");
    Regex part;
    if (check_string_schema(c, schema) != STATUS_OK ||
        read_length(c, schema, "minLength", &min) != STATUS_OK ||
        read_length(c, schema, "maxLength", &max) != STATUS_OK)
        return STATUS_FAILED;
    *out = min > max ? REGEX_NONE : regex_repeat(r, regex_any_char(r, WRITING_PLAIN), min, max);
    if (list) *out = regex_and2(r, *out, listed(c, list));
    if (json_is_string(one))
        *out = regex_and2(
            r, *out,
            regex_string(r, json_string_value(one), json_string_length(one), WRITING_PLAIN));
    else if (one)
        *out = REGEX_NONE;
    if (pattern && !json_is_string(pattern)) return error_set(c->error, "'pattern' must be a text");
    if (pattern) {
        if (compile_pattern(c, pattern, PATTERN_PART, &part) != STATUS_OK) return STATUS_FAILED;
        *out = regex_and2(r, *out, part);
    }
    return STATUS_OK;
}

/* ---- Elements -------------------------------------------------------------------------------- */

static Status compile(Compiler *c, const json_t *element, AcceptorNode *node);

static Status compile_items(Compiler *c, const json_t *element, bool is_choice,
                            AcceptorNode *node) {
    size_t n = json_array_size(element) - 1;
    if (n == 0) return structure_wrong(c, "an empty list");
    if (n > MOST_ITEMS)
        return error_set(c->error,
                         "%zu tools or parameters are too many to be enforced: at most about %d", n,
                         MOST_ITEMS);
    AcceptorNode *nodes = calloc(n + 1, sizeof *nodes);
    if (!nodes) return error_set(c->error, "no memory for a structure of %zu items", n);
    Status status = STATUS_OK;
    for (size_t i = 0; i < n && status == STATUS_OK; i++)
        status = compile(c, json_array_get(element, i + 1), &nodes[i]);
    if (status == STATUS_OK)
        *node = is_choice ? acceptor_choice(c->acceptor, nodes, n)
                          : acceptor_sequence(c->acceptor, nodes, n);
    free(nodes);
    return status;
}

static Status compile_repeat(Compiler *c, const json_t *element, AcceptorNode *node) {
    const json_t *min = json_array_get(element, 2), *max = json_array_get(element, 3);
    json_int_t least = json_integer_value(min), most = json_integer_value(max);
    AcceptorNode item;
    if (!json_is_integer(min) || !json_is_integer(max) || least < 0 || least > 1000 || most < -1 ||
        most > 1000 || (most >= 0 && most < least))
        return structure_wrong(c, "repeat");
    if (compile(c, json_array_get(element, 1), &item) != STATUS_OK) return STATUS_FAILED;
    *node = acceptor_repeat(c->acceptor, item, (uint32_t)least,
                            most < 0 ? ACCEPTOR_NO_LIMIT : (uint32_t)most);
    return STATUS_OK;
}

static Status compile_shape(Compiler *c, const json_t *element, AcceptorNode *node) {
    const json_t *kind = json_array_get(element, 1), *text = json_array_get(element, 2);
    json_int_t number = json_integer_value(kind);
    if (!json_is_integer(kind) || number <= SHAPE_NONE || number >= SHAPE_STRUCTURE ||
        !json_is_string(text))
        return structure_wrong(c, "shape");
    const ShapeSource source = {.kind = (ShapeKind)number,
                                .text = json_string_value(text),
                                .length = json_string_length(text)};
    return shape_source_node(&source, c->acceptor, node, c->error);
}

/* The elements that are regular expressions; *known is false for others. */
static Status compile_regex(Compiler *c, const char *kind, const json_t *element, Regex *out,
                            bool *known) {
    RegexArena *r = c->regexes;
    const json_t *value = json_array_get(element, 1);
    *known = true;
    if (strcmp(kind, "text") == 0 && json_is_string(value)) {
        *out = regex_text(r, json_string_value(value), json_string_length(value));
        return STATUS_OK;
    }
    if (strcmp(kind, "token") == 0) return token_node(c, value, out);
    if (strcmp(kind, "regex") == 0) return compile_pattern(c, value, PATTERN_WHOLE, out);
    if (strcmp(kind, "free") == 0) {
        *out = any_text(c);
        return without_stops(c, element, 1, out);
    }
    if (strcmp(kind, "unless") == 0) {
        Regex begins;
        if (compile_pattern(c, value, PATTERN_WHOLE, &begins) != STATUS_OK) return STATUS_FAILED;
        *out = regex_and2(r, any_text(c), regex_not(r, regex_concat(r, begins, any_text(c))));
        return STATUS_OK;
    }
    if (strcmp(kind, "string") == 0) {
        if (string_regex(c, value, out) != STATUS_OK) return STATUS_FAILED;
        return without_stops(c, element, 2, out);
    }
    *known = false;
    return STATUS_OK;
}

/* Compiles one element of a structure, the list [kind, ...], into a node. */
static Status compile_element(Compiler *c, const char *kind, const json_t *element,
                              AcceptorNode *node) {
    Regex regex = REGEX_NONE;
    bool known;
    if (strcmp(kind, "sequence") == 0) return compile_items(c, element, false, node);
    if (strcmp(kind, "choice") == 0) return compile_items(c, element, true, node);
    if (strcmp(kind, "repeat") == 0) return compile_repeat(c, element, node);
    if (strcmp(kind, "shape") == 0) return compile_shape(c, element, node);
    if (strcmp(kind, "schema") == 0) {
        const json_t *schema = json_array_get(element, 1);
        if (!json_is_object(schema) && !json_is_boolean(schema)) return structure_wrong(c, kind);
        if (schema_compile(c->acceptor, schema, c->digits, node, c->error) == STATUS_OK)
            return STATUS_OK;
        const char *label = json_string_value(json_array_get(element, 2));
        return label ? error_prefix(c->error, "%s", label) : STATUS_FAILED;
    }
    if (compile_regex(c, kind, element, &regex, &known) != STATUS_OK) return STATUS_FAILED;
    if (!known) return structure_wrong(c, kind);
    *node = acceptor_term(c->acceptor, regex);
    return STATUS_OK;
}

static Status compile(Compiler *c, const json_t *element, AcceptorNode *node) {
    const char *kind = json_string_value(json_array_get(element, 0));
    if (!kind) return structure_wrong(c, "");
    if (c->level == MOST_LEVELS) return error_set(c->error, "a structure is too deep");
    c->level++;
    Status status = compile_element(c, kind, element, node);
    c->level--;
    return status;
}

static Status compile_text(Compiler *c, const char *text, size_t length, AcceptorNode *node) {
    json_t *json;
    JsonDigits *digits;
    if (exact_json_load(text, length, &json, &digits, c->error) != STATUS_OK) return STATUS_FAILED;
    c->digits = digits;
    Status status = compile(c, json, node);
    json_decref(json);
    json_digits_free(digits);
    return status;
}

Status structure_compile(const ShapeSource *source, const AcceptorLimits *limits,
                         Acceptor **acceptor, Error *error) {
    AcceptorNode node = ACCEPTOR_NO_NODE;
    Acceptor *m = acceptor_new(limits, source->form);
    *acceptor = NULL;
    if (!m) return error_set(error, "no memory for a shape");
    Compiler c = {.acceptor = m, .regexes = acceptor_regexes(m), .error = error};
    Status status = compile_text(&c, source->text, source->length, &node);
    if (status == STATUS_OK) status = acceptor_finish(m, node, error);
    if (status == STATUS_OK)
        *acceptor = m;
    else
        acceptor_free(m);
    return status;
}
