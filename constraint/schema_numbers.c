#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "constraint/regex_decimal.h"
#include "constraint/schema_parts.h"

/* Writes |value| with as few digits as tell it apart, without an exponent. */
static void decimal_of(double value, char *out) {
    char digits[40];
    int exponent, n = 0;
    value = fabs(value);
    for (int precision = 0; precision < 18; precision++) {
        snprintf(digits, sizeof digits, "%.*e", precision, value);
        if (strtod(digits, NULL) == value) break;
    }
    exponent = atoi(strchr(digits, 'e') + 1);
    for (char *c = digits; *c != 'e'; c++)
        if (*c != '.') digits[n++] = *c;
    char *to = out;
    if (exponent < 0) {
        *to++ = '0', *to++ = '.';
        for (int i = -1; i > exponent; i--) *to++ = '0';
    }
    for (int i = 0; i < n || i <= exponent; i++) {
        *to++ = i < n ? digits[i] : '0';
        if (i == exponent && i + 1 < n) *to++ = '.';
    }
    *to = '\0';
}

/* One end of the range of a number. */
typedef struct Limit {
    double value;
    char text[SCHEMA_DECIMAL_SIZE]; /* of its absolute value */
    bool given, exclusive;
} Limit;

static Status number_of(SchemaCompiler *c, const char *keyword, const json_t *value, double *out) {
    if (!json_is_number(value)) return error_set(c->error, "'%s' must be a number", keyword);
    *out = json_number_value(value);
    if (!isfinite(*out)) return error_set(c->error, "'%s' is out of range", keyword);
    return STATUS_OK;
}

static void tighten(Limit *limit, double value, const json_t *source, bool exclusive, int sign) {
    bool tighter =
        !limit->given || (value - limit->value) * sign > 0 || (value == limit->value && exclusive);
    if (!tighter) return;
    limit->given = true;
    limit->value = value;
    limit->exclusive = exclusive;
    if (json_is_integer(source)) {
        json_int_t whole = json_integer_value(source);
        snprintf(limit->text, sizeof limit->text, "%llu",
                 whole < 0 ? 0 - (unsigned long long)whole : (unsigned long long)whole);
    } else {
        decimal_of(value, limit->text);
    }
}

/* sign 1: minimum and exclusiveMinimum; -1: the maxima. */
static Status read_limit(SchemaCompiler *c, const json_t *schema, int sign, Limit *limit) {
    const char *inclusive = sign > 0 ? "minimum" : "maximum";
    const char *exclusive = sign > 0 ? "exclusiveMinimum" : "exclusiveMaximum";
    const json_t *value = json_object_get(schema, inclusive);
    const json_t *other = json_object_get(schema, exclusive);
    double number = 0;
    bool both = json_is_true(other); /* draft 4 */
    if (json_is_boolean(other)) other = NULL;
    if (value) {
        if (number_of(c, inclusive, value, &number) != STATUS_OK) return STATUS_FAILED;
        tighten(limit, number, value, both, sign);
    }
    if (other) {
        if (number_of(c, exclusive, other, &number) != STATUS_OK) return STATUS_FAILED;
        tighten(limit, number, other, true, sign);
    }
    return STATUS_OK;
}

static Status read_multiple(SchemaCompiler *c, const json_t *value, Regex *out) {
    char text[SCHEMA_DECIMAL_SIZE];
    double number = 0;
    if (number_of(c, "multipleOf", value, &number) != STATUS_OK) return STATUS_FAILED;
    if (!(number > 0)) return error_set(c->error, "'multipleOf' must be above 0");
    decimal_of(number, text);
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
        return error_set(c->error, "'multipleOf': %.17g has too many digits to be enforced",
                         number);
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
    if (near->given && near->value * sign > 0)
        out = regex_and2(r, out, regex_bound(r, near->text, near->exclusive ? ABOVE : AT_LEAST));
    if (near->given && near->value == 0 && near->exclusive)
        out = regex_and2(r, out, regex_bound(r, "0", ABOVE));
    if (far->given && (far->value * sign < 0 || (far->value == 0 && (far->exclusive || sign < 0))))
        return REGEX_NONE;
    if (far->given)
        out = regex_and2(r, out, regex_bound(r, far->text, far->exclusive ? BELOW : AT_MOST));
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
    bool only_sign = (!low.given || low.value == 0) && (!high.given || high.value == 0) &&
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

void schema_decimal(const json_t *value, char out[SCHEMA_DECIMAL_SIZE]) {
    if (json_is_integer(value)) {
        snprintf(out, SCHEMA_DECIMAL_SIZE, "%lld", (long long)json_integer_value(value));
        return;
    }
    char digits[SCHEMA_DECIMAL_SIZE - 1];
    decimal_of(json_real_value(value), digits);
    snprintf(out, SCHEMA_DECIMAL_SIZE, "%s%s", json_real_value(value) < 0 ? "-" : "", digits);
}

Regex schema_number(SchemaCompiler *c, const json_t *value) {
    RegexArena *r = c->regexes;
    char text[SCHEMA_DECIMAL_SIZE];
    schema_decimal(value, text);
    Regex out = regex_text(r, text, strlen(text));
    if (json_is_integer(value) || strchr(text, '.')) return out;
    return regex_concat(r, out, regex_repeat(r, regex_text(r, ".0", 2), 0, 1));
}

Regex schema_number_forms(SchemaCompiler *c, const json_t *value) {
    RegexArena *r = c->regexes;
    char text[SCHEMA_DECIMAL_SIZE];
    schema_decimal(value, text);
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
