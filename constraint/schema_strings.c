#include "constraint/schema_strings.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/unicode.h"
#include "constraint/character_sets.h"
#include "constraint/exact_json.h"
#include "constraint/pattern.h"
#include "constraint/schema_numbers.h"

/* ---- Formats --------------------------------------------------------------------------------- */

/* Patterns for formats of RFC 3339, 3986 and similar ones, in the dialect of pattern.h. */
#define DATE                                                                                       \
    "(?:\\d{4}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12]\\d|3[01])|(?:0[469]|11)-(?:0[1-9]|[12]\\d|30)" \
    "|02-(?:0[1-9]|1\\d|2[0-8]))"                                                                  \
    "|(?:\\d\\d(?:0[48]|[2468][048]|[13579][26])|(?:[02468][048]|[13579][26])00)-02-29)"
#define YEAR "(?!0000)" /* which no calendar has, nor Python's datetime */
#define TIME                                                                                       \
    "(?:(?:[01]\\d|2[0-3]):[0-5]\\d:[0-5]\\d(?:\\.\\d+)?"                                          \
    "(?:[Zz]|[+-](?:[01]\\d|2[0-3]):[0-5]\\d)|23:59:60(?:\\.\\d+)?[Zz])"
#define DAYS "(?:\\d+D|\\d+M(?:\\d+D)?|\\d+Y(?:\\d+M(?:\\d+D)?)?)"
#define HOURS "T(?:\\d+H(?:\\d+M(?:\\d+S)?)?|\\d+M(?:\\d+S)?|\\d+S)"
#define ATOM "[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+"
#define LABEL "[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
#define OCTET "(?:25[0-5]|2[0-4]\\d|1\\d\\d|[1-9]?\\d)"
#define IPV4 OCTET "(?:\\." OCTET "){3}"
#define H16 "[0-9A-Fa-f]{1,4}"
#define LS32 "(?:" H16 ":" H16 "|" IPV4 ")"
#define IPV6                                                                                       \
    "(?:(?:" H16 ":){6}" LS32 "|::(?:" H16 ":){5}" LS32 "|(?:" H16 ")?::(?:" H16 ":){4}" LS32      \
    "|(?:(?:" H16 ":){0,1}" H16 ")?::(?:" H16 ":){3}" LS32 "|(?:(?:" H16 ":){0,2}" H16             \
    ")?::(?:" H16 ":){2}" LS32 "|(?:(?:" H16 ":){0,3}" H16 ")?::" H16 ":" LS32 "|(?:(?:" H16       \
    ":){0,4}" H16 ")?::" LS32 "|(?:(?:" H16 ":){0,5}" H16 ")?::" H16 "|(?:(?:" H16 ":){0,6}" H16   \
    ")?::)"
#define PERCENT "%[0-9A-Fa-f]{2}"
#define UNRESERVED "A-Za-z0-9._~!$&'()*+,;=\\-"
#define BEYOND "\\u00A0-\\uD7FF\\uF900-\\uFDCF\\uFDF0-\\uFFEF\\u{10000}-\\u{EFFFD}"
/* For URIs (x empty) and IRIs (x BEYOND). */
#define PCHAR(x) "(?:[" UNRESERVED ":@" x "]|" PERCENT ")"
#define TAIL(x)                                                                                    \
    "(?:\\?(?:[" UNRESERVED ":@/?" x "]|" PERCENT ")*)?(?:#(?:[" UNRESERVED ":@/?" x "]|" PERCENT  \
    ")*)?"
#define AUTHORITY(x)                                                                               \
    "(?:(?:[" UNRESERVED ":" x "]|" PERCENT ")*@)?(?:\\[" IPV6 "\\]|(?:[" UNRESERVED x             \
    "]|" PERCENT ")*)(?::\\d*)?"
#define HIER(x)                                                                                    \
    "(?://" AUTHORITY(x) "(?:/" PCHAR(x) "*)*|/(?:" PCHAR(x) "+(?:/" PCHAR(x) "*)*)?|" PCHAR(      \
        x) "+(?:/" PCHAR(x) "*)*|)"
#define URI(x) "[A-Za-z][A-Za-z0-9+.-]*:" HIER(x) TAIL(x)
#define RELATIVE(x)                                                                                \
    "(?://" AUTHORITY(x) "(?:/" PCHAR(x) "*)*|/(?:" PCHAR(x) "+(?:/" PCHAR(                        \
        x) "*)*)?|(?:[" UNRESERVED "@" x "]|" PERCENT ")+(?:/" PCHAR(x) "*)*|)" TAIL(x)
#define POINTER "(?:/(?:[^~/]|~[01])*)*"

static const struct {
    const char *name, *pattern;
    uint32_t most; /* characters */
} formats[] = {
    {"date", YEAR DATE, 0},
    {"time", TIME, 0},
    {"date-time", YEAR DATE "[Tt]" TIME, 0},
    {"duration", "P(?:\\d+W|" DAYS "(?:" HOURS ")?|" HOURS ")", 0},
    {"email",
     "(?:" ATOM "(?:\\." ATOM ")*|\"(?:[ !#-\\[\\]-~]|\\\\[ -~])+\")@(?:" LABEL "(?:\\." LABEL
     ")*|\\[" IPV4 "\\]|\\[IPv6:" IPV6 "\\])",
     0},
    {"hostname", LABEL "(?:\\." LABEL ")*", 253},
    {"ipv4", IPV4, 0},
    {"ipv6", IPV6, 0},
    {"uri", URI(""), 0},
    {"uri-reference", "(?:" URI("") "|" RELATIVE("") ")", 0},
    {"iri", URI(BEYOND), 0},
    {"iri-reference", "(?:" URI(BEYOND) "|" RELATIVE(BEYOND) ")", 0},
    {"uuid", "[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}", 0},
    {"json-pointer", POINTER, 0},
    {"relative-json-pointer", "(?:0|[1-9]\\d*)(?:#|" POINTER ")", 0},
};

/* The regular expression of a schema's `format`, within the length that the format allows. */
static Status format_regex(SchemaCompiler *c, const char *name, Regex *out) {
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
        if (strcmp(formats[i].name, name) != 0) continue;
        if (pattern_compile_regex(c->regexes, formats[i].pattern, strlen(formats[i].pattern),
                                  PATTERN_WHOLE, WRITING_JSON, out, c->error) != STATUS_OK)
            return error_prefix(c->error, "'format': '%s'", name);
        Regex most = regex_repeat(c->regexes, c->canonical_char, 0, formats[i].most);
        if (formats[i].most > 0) *out = regex_and2(c->regexes, *out, most);
        return STATUS_OK;
    }
    return error_set(c->error, "'format': '%.60s' cannot be enforced", name);
}

/* ---- Texts ----------------------------------------------------------------------------------- */

Regex schema_quoted(SchemaCompiler *c, Regex content) {
    Regex quote = regex_byte(c->regexes, '"');
    return regex_concat(c->regexes, quote, regex_concat(c->regexes, content, quote));
}

Regex schema_string(SchemaCompiler *c, const char *text, size_t n) {
    return regex_string(c->regexes, text, n, WRITING_JSON);
}

void schema_escape(TextBuffer *out, const char *text, size_t n) {
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < n; i++) {
        unsigned char byte = (unsigned char)text[i];
        const char *letter = byte && byte < 0x20 ? strchr("\bb\ff\nn\rr\tt", byte) : NULL;
        char escaped[] = {'\\', 'u', '0', '0', digits[byte >> 4], digits[byte & 15]};
        if (byte >= 0x20 && byte != '"' && byte != '\\') {
            text_put(out, text + i, 1, 0);
        } else if (byte >= 0x20 || letter) {
            escaped[1] = letter ? letter[1] : (char)byte;
            text_put(out, escaped, 2, 0);
        } else {
            text_put(out, escaped, sizeof escaped, 0);
        }
    }
}

static bool matches_bytes(SchemaCompiler *c, Regex regex, const char *bytes, size_t n) {
    for (size_t i = 0; i < n && regex != REGEX_NONE; i++)
        regex = regex_derive(c->regexes, regex, (unsigned char)bytes[i]);
    return regex != REGEX_NONE && regex_nullable(c->regexes, regex);
}

bool schema_string_matches(SchemaCompiler *c, Regex content, const char *text, size_t n) {
    TextBuffer escaped = {0};
    schema_escape(&escaped, text, n);
    if (escaped.failed && !c->regexes->failed) c->regexes->failed = "there is no memory for it";
    bool matches = !escaped.failed && matches_bytes(c, content, escaped.bytes, escaped.length);
    text_free(&escaped);
    return matches;
}

Regex schema_scalar(SchemaCompiler *c, const json_t *value) {
    switch (json_typeof(value)) {
    case JSON_NULL:
        return regex_text(c->regexes, "null", 4);
    case JSON_TRUE:
        return regex_text(c->regexes, "true", 4);
    case JSON_FALSE:
        return regex_text(c->regexes, "false", 5);
    case JSON_INTEGER:
    case JSON_REAL:
        return schema_number(c, value);
    case JSON_STRING:
        return schema_quoted(c,
                             schema_string(c, json_string_value(value), json_string_length(value)));
    default:
        return REGEX_NONE;
    }
}

Status schema_pattern(SchemaCompiler *c, const char *keyword, const char *pattern, size_t length,
                      Regex *out) {
    if (pattern_compile_regex(c->regexes, pattern, length, PATTERN_PART, WRITING_JSON, out,
                              c->error) != STATUS_OK)
        return error_prefix(c->error, "'%s': '%.*s'", keyword, (int)(length < 100 ? length : 100),
                            pattern);
    return STATUS_OK;
}

Status schema_loose_pattern(SchemaCompiler *c, const char *pattern, Regex *out) {
    return pattern_compile_regex(c->regexes, pattern, strlen(pattern), PATTERN_PART_LOOSE,
                                 WRITING_JSON, out, c->error);
}

static Status text_of(SchemaCompiler *c, const json_t *schema, const char *keyword,
                      const json_t **value) {
    *value = json_object_get(schema, keyword);
    if (!*value || json_is_string(*value)) return STATUS_OK;
    return error_set(c->error, "'%s' must be a text", keyword[0] == 1 ? keyword + 1 : keyword);
}

/* Narrows *content by the keywords of one schema, except its lengths. *narrowed says what
 * REGEX_NONE in *content means: true, no string fits; false, no keyword has been met yet. */
static Status narrow(SchemaCompiler *c, const json_t *schema, Regex *content, bool *narrowed) {
    static const char *const keywords[] = {"pattern", SCHEMA_NO_PATTERN, "format",
                                           SCHEMA_NO_FORMAT};
    for (int i = 0; i < 4; i++) {
        const json_t *value;
        Regex own = REGEX_NONE;
        if (text_of(c, schema, keywords[i], &value) != STATUS_OK) return STATUS_FAILED;
        if (!value) continue;
        Status status = i < 2 ? schema_pattern(c, "pattern", json_string_value(value),
                                               json_string_length(value), &own)
                              : format_regex(c, json_string_value(value), &own);
        if (status != STATUS_OK) return status;
        if (i % 2 == 1)
            own = regex_and2(c->regexes, c->canonical_string, regex_not(c->regexes, own));
        *content = *narrowed ? regex_and2(c->regexes, *content, own) : own;
        *narrowed = true;
    }
    return STATUS_OK;
}

/* Raises *min and lowers *max by the schema's minLength and maxLength. */
static Status narrow_lengths(SchemaCompiler *c, const json_t *schema, uint32_t *min,
                             uint32_t *max) {
    uint32_t size;
    bool given;
    if (schema_size(c, schema, "minLength", &size, &given) != STATUS_OK) return STATUS_FAILED;
    if (given && size > *min) *min = size;
    if (schema_size(c, schema, "maxLength", &size, &given) != STATUS_OK) return STATUS_FAILED;
    if (given && size < *max) *max = size;
    return STATUS_OK;
}

/* Whether the schema asks for the characters of a text, so that each may be written in one form
 * only. */
static bool needs_one_form(const json_t *schema) {
    static const char *const keywords[] = {"enum",    "const",           SCHEMA_NONE_OF,
                                           "pattern", SCHEMA_NO_PATTERN, "format"};
    for (size_t i = 0; i < sizeof keywords / sizeof *keywords; i++)
        if (json_object_get(schema, keywords[i])) return true;
    return false;
}

/* Sets *out to what a string that all of the schemas allow may hold between its quotes; REGEX_NONE:
 * there is no such string. */
Status schema_strings(SchemaCompiler *c, const SchemaList *schemas, Regex *out) {
    Regex content = REGEX_NONE;
    uint32_t min = 0, max = REGEX_MANY;
    bool one_form = false, narrowed = false;
    for (size_t i = 0; i < schemas->n; i++) {
        const json_t *s = schemas->items[i];
        if (narrow(c, s, &content, &narrowed) != STATUS_OK) return STATUS_FAILED;
        if (narrowed && content == REGEX_NONE) goto none;
        if (narrow_lengths(c, s, &min, &max) != STATUS_OK) return STATUS_FAILED;
        one_form |= needs_one_form(s);
    }
    if (min > max) goto none;
    if (one_form && !narrowed) content = c->canonical_string, narrowed = true;
    /* Where nothing but the length counts, a character may have any of its forms. */
    Regex one = narrowed ? c->canonical_char : c->any_json_char;
    Regex sized = regex_repeat(c->regexes, one, min, max);
    bool limited = min > 0 || max != REGEX_MANY;
    *out = !narrowed ? sized : limited ? regex_and2(c->regexes, content, sized) : content;
    return STATUS_OK;
none:
    *out = REGEX_NONE;
    return STATUS_OK;
}

/* ---- Scalars --------------------------------------------------------------------------------- */

/* The text of a scalar of an enum, in the form that schema_numbers and schema_strings know. */
static void scalar_text(const SchemaCompiler *c, TextBuffer *out, const json_t *value) {
    if (json_is_string(value)) {
        text_put(out, "\"", 1, 0);
        schema_escape(out, json_string_value(value), json_string_length(value));
        text_put(out, "\"", 1, 0);
        return;
    }
    char number[EXACT_DECIMAL_SIZE] = "";
    const char *text = json_is_null(value)    ? "null"
                       : json_is_true(value)  ? "true"
                       : json_is_false(value) ? "false"
                                              : number;
    if (json_is_number(value)) exact_json_decimal(c->digits, value, number);
    text_put(out, text, strlen(text), 0);
}

/* Whether two scalars are the same value of JSON. */
static bool same_value(const SchemaCompiler *c, const json_t *x, const json_t *y) {
    char decimals[2][EXACT_DECIMAL_SIZE];
    if (!json_is_number(x) || !json_is_number(y)) return json_equal(x, y);
    if (json_is_integer(x) && json_is_integer(y))
        return json_integer_value(x) == json_integer_value(y);
    if (json_number_value(x) != json_number_value(y)) return false; /* nor are what these round */
    exact_json_decimal(c->digits, x, decimals[0]);
    exact_json_decimal(c->digits, y, decimals[1]);
    return strcmp(decimals[0], decimals[1]) == 0;
}

static bool is_among(const SchemaCompiler *c, const json_t *list, const json_t *value) {
    size_t i;
    json_t *item;
    json_array_foreach((json_t *)list, i, item) {
        if (same_value(c, item, value)) return true;
    }
    return false;
}

/* Whether the lists of all schemas but `own` have the value. */
static bool by_other_lists(const SchemaCompiler *c, const SchemaAlternative *a, size_t own,
                           const json_t *value) {
    for (size_t i = 0; i < a->schemas.n; i++) {
        const json_t *s = a->schemas.items[i], *constant = json_object_get(s, "const");
        const json_t *list = json_object_get(s, "enum"), *none = json_object_get(s, SCHEMA_NONE_OF);
        if (is_among(c, none, value)) return false;
        if (i == own) continue;
        if ((constant && !same_value(c, constant, value)) || (list && !is_among(c, list, value)))
            return false;
    }
    return true;
}

/* How many comparisons by_other_lists makes for one value, for the limit of work. */
static size_t comparisons(const SchemaAlternative *a, size_t own) {
    size_t n = 1;
    for (size_t i = 0; i < a->schemas.n; i++) {
        const json_t *s = a->schemas.items[i];
        n += json_array_size(json_object_get(s, SCHEMA_NONE_OF));
        if (i != own) n += json_array_size(json_object_get(s, "enum"));
    }
    return n;
}

/* Writes a regular expression for those values of `list` (the enum or const of schema `own`) that
 * all other schemas allow and `all` matches. */
static Status listed(SchemaCompiler *c, const SchemaAlternative *a, size_t own, const json_t *list,
                     Regex all, Regex *out) {
    size_t i, n = 0, size = json_array_size(list);
    json_t *value;
    TextBuffer text = {0};
    Status status = STATUS_OK;
    if (!schema_count(c, size / 16 * comparisons(a, own) + 1)) return STATUS_FAILED;
    RegexText *texts = calloc(size + 1, sizeof *texts);
    size_t *starts = calloc(size + 1, sizeof *starts);
    *out = REGEX_NONE;
    json_array_foreach((json_t *)list, i, value) {
        if (!texts || !starts || !schema_is_scalar(value) || !by_other_lists(c, a, own, value))
            continue;
        starts[n] = text.length;
        scalar_text(c, &text, value);
        if (text.failed ||
            !matches_bytes(c, all, text.bytes + starts[n], text.length - starts[n])) {
            text.length = starts[n];
        } else if (json_is_real(value)) { /* perhaps with ".0" */
            *out = regex_or2(c->regexes, *out, schema_scalar(c, value));
            text.length = starts[n];
        } else {
            texts[n].n = text.length - starts[n];
            n++;
        }
    }
    for (i = 0; i < n; i++) texts[i].bytes = text.bytes + starts[i];
    if (!texts || !starts || text.failed)
        status = schema_no_memory(c);
    else
        *out = regex_or2(c->regexes, *out, regex_texts(c->regexes, texts, n));
    text_free(&text);
    free(starts);
    free(texts);
    return status;
}

Status schema_scalars(SchemaCompiler *c, const SchemaAlternative *a, Regex *out) {
    RegexArena *r = c->regexes;
    Regex kinds[5] = {REGEX_NONE}, all;
    if (a->types & TYPE_NULL) kinds[0] = regex_text(r, "null", 4);
    if (a->types & TYPE_BOOLEAN)
        kinds[1] = regex_or2(r, regex_text(r, "true", 4), regex_text(r, "false", 5));
    if (a->types & TYPE_NUMBER &&
        schema_numbers(c, &a->schemas, a->types & TYPE_NUMBER, &kinds[2]) != STATUS_OK)
        return STATUS_FAILED;
    if (a->types & TYPE_STRING) {
        if (schema_strings(c, &a->schemas, &kinds[3]) != STATUS_OK) return STATUS_FAILED;
        if (kinds[3] != REGEX_NONE) kinds[3] = schema_quoted(c, kinds[3]);
    }
    all = regex_or(r, kinds, 5);
    *out = REGEX_NONE;
    for (size_t i = 0; i < a->schemas.n; i++) {
        const json_t *s = a->schemas.items[i], *constant = json_object_get(s, "const");
        const json_t *list = json_object_get(s, "enum");
        if (!constant && !list) continue;
        const json_t *one = constant ? schema_own(c, json_pack("[O]", constant)) : list;
        return one ? listed(c, a, i, one, all, out) : STATUS_FAILED;
    }
    for (size_t i = 0; i < a->schemas.n; i++) {
        size_t k;
        json_t *value;
        json_array_foreach(json_object_get(a->schemas.items[i], SCHEMA_NONE_OF), k, value) {
            Regex no =
                json_is_number(value) ? schema_number_forms(c, value) : schema_scalar(c, value);
            all = regex_and2(r, all, regex_not(r, no));
        }
    }
    *out = all;
    return STATUS_OK;
}
