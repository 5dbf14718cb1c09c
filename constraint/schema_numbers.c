#include "constraint/schema_numbers.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "constraint/exact_json.h"
#include "constraint/regex_decimal.h"

/* One end of the range of a number. */
typedef struct Limit {
    char text[EXACT_DECIMAL_SIZE]; /* a decimal */
    int sign;                      /* of the decimal: -1, 0 or 1 */
    bool given, exclusive;
} Limit;

/* Writes a keyword's number as a decimal without exponent. */
static Status decimal_of(SchemaCompiler *c, const char *keyword, const json_t *value,
                         char out[EXACT_DECIMAL_SIZE]) {
    if (!json_is_number(value)) return error_set(c->error, "'%s' must be a number", keyword);
    exact_json_decimal(c->digits, value, out);
    return STATUS_OK;
}

/* The digits of the limit's absolute value. */
static const char *magnitude(const Limit *limit) {
    return limit->text + (limit->sign < 0);
}

/* Replaces the limit if `decimal` is stricter: larger with sign 1 (a minimum), smaller with -1, or
 * equal and exclusive. */
static void tighten(Limit *limit, const char *decimal, bool exclusive, int sign) {
    int order = limit->given ? exact_json_compare(decimal, limit->text) * sign : 1;
    if (order < 0 || (order == 0 && !exclusive)) return;
    limit->given = true;
    limit->exclusive = exclusive;
    limit->sign = *decimal == '-' ? -1 : strcmp(decimal, "0") != 0;
    snprintf(limit->text, sizeof limit->text, "%s", decimal);
}

/* Reads the lower limit, of minimum and exclusiveMinimum (sign 1), or the upper one (sign -1): the
 * stricter of both. In draft 4 exclusiveMinimum is a boolean that makes minimum exclusive. */
static Status read_limit(SchemaCompiler *c, const json_t *schema, int sign, Limit *limit) {
    const char *inclusive = sign > 0 ? "minimum" : "maximum";
    const char *exclusive = sign > 0 ? "exclusiveMinimum" : "exclusiveMaximum";
    const json_t *value = json_object_get(schema, inclusive);
    const json_t *other = json_object_get(schema, exclusive);
    char decimal[EXACT_DECIMAL_SIZE];
    bool is_exclusive = json_is_true(other);
    if (json_is_boolean(other)) other = NULL;
    if (value) {
        if (decimal_of(c, inclusive, value, decimal) != STATUS_OK) return STATUS_FAILED;
        tighten(limit, decimal, is_exclusive, sign);
    }
    if (other) {
        if (decimal_of(c, exclusive, other, decimal) != STATUS_OK) return STATUS_FAILED;
        tighten(limit, decimal, true, sign);
    }
    return STATUS_OK;
}

/* Adds multipleOf to *out: as a divisor of 31 bits and at most 9 decimal places. */
static Status read_multiple(SchemaCompiler *c, const json_t *value, Regex *out) {
    char text[EXACT_DECIMAL_SIZE];
    if (decimal_of(c, "multipleOf", value, text) != STATUS_OK) return STATUS_FAILED;
    if (*text == '-' || strcmp(text, "0") == 0)
        return error_set(c->error, "'multipleOf' must be above 0");
    uint64_t divisor = 0;
    uint32_t scale = 0;
    bool point = false;
    for (const char *d = text; *d && divisor < ((uint64_t)1 << 32); d++) {
        if (*d == '.') {
            point = true;
            continue;
        }
        divisor = divisor * 10 + (uint64_t)(*d - '0');
        scale += point;
    }
    if (divisor >= ((uint64_t)1 << 31) || scale > 9)
        return error_set(c->error, "'multipleOf': %.40s has too many digits to be enforced", text);
    Regex multiple = regex_multiple(c->regexes, (uint32_t)divisor, scale);
    *out = regex_and2(c->regexes, *out, multiple);
    return STATUS_OK;
}

/* Digits without sign: whole numbers, fractions or both. */
static Regex digits_syntax(SchemaCompiler *c, unsigned types, bool exponent) {
    RegexArena *r = c->regexes;
    Regex digit = regex_range(r, '0', '9'), some = regex_repeat(r, digit, 1, REGEX_MANY);
    Regex whole =
        regex_or2(r, regex_byte(r, '0'),
                  regex_concat(r, regex_range(r, '1', '9'), regex_repeat(r, digit, 0, REGEX_MANY)));
    if (types == TYPE_INTEGER) return whole;
    Regex point = regex_byte(r, '.');
    if (types == TYPE_FRACTION) /* what is not whole */
        return regex_concat(r, whole,
                            regex_concat(r, point,
                                         regex_concat(r, regex_repeat(r, digit, 0, REGEX_MANY),
                                                      regex_range(r, '1', '9'))));
    Regex out = regex_concat(r, whole, regex_repeat(r, regex_concat(r, point, some), 0, 1));
    if (!exponent) return out;
    Regex sign = regex_or2(r, regex_byte(r, '+'), regex_byte(r, '-'));
    Regex e = regex_or2(r, regex_byte(r, 'e'), regex_byte(r, 'E'));
    e = regex_concat(r, e, regex_concat(r, regex_repeat(r, sign, 0, 1), some));
    return regex_concat(r, out, regex_repeat(r, e, 0, 1));
}

/* The numbers of one sign (1 or -1) within the limits, without their sign. */
static Regex within(SchemaCompiler *c, Regex syntax, const Limit *low, const Limit *high,
                    int sign) {
    RegexArena *r = c->regexes;
    const Limit *near = sign > 0 ? low : high, *far = sign > 0 ? high : low;
    Regex out = syntax;
    /* `near` limits from below, once both are seen from 0 in the direction of the sign. */
    if (near->given && near->sign * sign > 0)
        out =
            regex_and2(r, out, regex_bound(r, magnitude(near), near->exclusive ? ABOVE : AT_LEAST));
    if (near->given && near->sign == 0 && near->exclusive)
        out = regex_and2(r, out, regex_bound(r, "0", ABOVE));
    if (far->given && (far->sign * sign < 0 || (far->sign == 0 && (far->exclusive || sign < 0))))
        return REGEX_NONE;
    if (far->given)
        out = regex_and2(r, out, regex_bound(r, magnitude(far), far->exclusive ? BELOW : AT_MOST));
    return out;
}

/* Whether the schema excludes numbers, of which schema_number_forms has no form with an exponent.
 */
static bool excludes_numbers(const json_t *schema) {
    size_t i;
    json_t *value;
    json_array_foreach(json_object_get(schema, SCHEMA_NONE_OF), i, value) {
        if (json_is_number(value)) return true;
    }
    return false;
}

Status schema_numbers(SchemaCompiler *c, const SchemaList *schemas, unsigned types, Regex *out) {
    RegexArena *r = c->regexes;
    Limit low = {.given = false}, high = {.given = false};
    bool divided = false, excluded = false;
    for (size_t i = 0; i < schemas->n; i++) {
        const json_t *s = schemas->items[i];
        if (read_limit(c, s, 1, &low) != STATUS_OK || read_limit(c, s, -1, &high) != STATUS_OK)
            return STATUS_FAILED;
        divided |= json_object_get(s, "multipleOf") != NULL;
        excluded |= excludes_numbers(s);
    }
    bool only_sign = (!low.given || low.sign == 0) && (!high.given || high.sign == 0) &&
                     !low.exclusive && !high.exclusive && !divided && !excluded;
    Regex syntax = digits_syntax(c, types, only_sign);
    for (size_t i = 0; i < schemas->n; i++) {
        const json_t *multiple = json_object_get(schemas->items[i], "multipleOf");
        if (multiple && read_multiple(c, multiple, &syntax) != STATUS_OK) return STATUS_FAILED;
    }
    Regex above =
        only_sign && low.given && !high.given ? syntax : within(c, syntax, &low, &high, 1);
    Regex below = within(c, syntax, &low, &high, -1);
    *out = regex_or2(r, above, regex_concat(r, regex_byte(r, '-'), below));
    /* Whether a large divisor and limits can be enforced shows at the first digit: look now. */
    for (unsigned char digit = '1'; divided && digit <= '9'; digit++) regex_derive(r, *out, digit);
    return STATUS_OK;
}

Regex schema_number(SchemaCompiler *c, const json_t *value) {
    RegexArena *r = c->regexes;
    char text[EXACT_DECIMAL_SIZE];
    exact_json_decimal(c->digits, value, text);
    Regex out = regex_text(r, text, strlen(text));
    /* Zero has no sign when it is compared; the model may still write the one that the schema has.
     */
    if (json_is_real(value) && signbit(json_real_value(value)) && strcmp(text, "0") == 0)
        out = regex_concat(r, regex_repeat(r, regex_byte(r, '-'), 0, 1), out);
    if (json_is_integer(value) || strchr(text, '.')) return out;
    return regex_concat(r, out, regex_repeat(r, regex_text(r, ".0", 2), 0, 1));
}

Regex schema_number_forms(SchemaCompiler *c, const json_t *value) {
    RegexArena *r = c->regexes;
    char text[EXACT_DECIMAL_SIZE];
    exact_json_decimal(c->digits, value, text);
    Regex zero = regex_byte(r, '0'), end;
    if (strchr(text, '.')) {
        end = regex_repeat(r, zero, 0, REGEX_MANY);
    } else {
        end = regex_concat(r, regex_byte(r, '.'), regex_repeat(r, zero, 1, REGEX_MANY));
        end = regex_repeat(r, end, 0, 1);
    }
    Regex out = regex_concat(r, regex_text(r, text, strlen(text)), end);
    if (strcmp(text, "0") != 0) return out;
    return regex_concat(r, regex_repeat(r, regex_byte(r, '-'), 0, 1), out);
}
