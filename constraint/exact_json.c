#include "constraint/exact_json.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/numbers.h"
#include "json/json_digits.h"
#include "json/json_reader.h"

enum { SAFE_DIGITS = 15 };     /* decimals of so many digits survive a double */
enum { MOST_EXPONENT = 9999 }; /* past EXACT_DECIMAL_SIZE; larger ones are taken for it */

/* ---- Numbers ----------------------------------------------------------------------------------
 */

/* A number of JSON, taken apart: 0.<digits> * 10^point. */
typedef struct Literal {
    bool negative;
    const char *first; /* its first digit that is not 0 */
    size_t n_digits;   /* from there to its last that is not 0 */
    long point;
} Literal;

/* Splits a number that JSON allows into a Literal. */
static Literal take_apart(const char *text) {
    const char *at = text, *last = NULL;
    Literal l = {.negative = *text == '-'}, *out = &l;
    long exponent = 0, before = 0;
    bool point = false;
    for (at += out->negative; *at == '.' || (*at >= '0' && *at <= '9'); at++) {
        if (*at == '.') {
            point = true;
            continue;
        }
        if (*at != '0') {
            if (!out->first) out->first = at;
            last = at;
        }
        if (out->first && !point) before++;
        if (!out->first && point) before--;
    }
    if (*at) { /* an exponent */
        bool minus = false;
        at++;
        if (*at == '+' || *at == '-') minus = *at++ == '-';
        for (; *at >= '0' && *at <= '9'; at++)
            if (exponent < MOST_EXPONENT) exponent = exponent * 10 + (*at - '0');
        if (minus) exponent = -exponent;
    }
    out->point = before + exponent;
    for (const char *digit = out->first; digit && digit <= last; digit++)
        out->n_digits += *digit != '.';
    return l;
}

/* Writes the number without an exponent; false: it is too long. */
static bool write_decimal(const Literal *l, char *out) {
    const char *digit = l->first;
    if (!digit) {
        memcpy(out, "0", 2);
        return true;
    }
    long n = (long)l->n_digits, least = l->point < n ? l->point : n;
    long size = (least < 0 ? n - least : n) + (l->point > n ? l->point - n : 0);
    if (n > EXACT_DECIMAL_SIZE || size + 4 > EXACT_DECIMAL_SIZE) return false;
    if (l->negative) *out++ = '-';
    if (l->point <= 0) {
        *out++ = '0', *out++ = '.';
        for (long i = l->point; i < 0; i++) *out++ = '0';
    }
    for (long i = 0; i < n || i < l->point; i++) {
        if (i > 0 && i == l->point) *out++ = '.';
        if (i < n && *digit == '.') digit++;
        *out++ = i < n ? *digit++ : '0';
    }
    *out = '\0';
    return true;
}

/* ---- Loading ---------------------------------------------------------------------------------
 */

/* Refuses numbers that are too long for a decimal. */
static Status check_lengths(const JsonDigits *digits, Error *error) {
    char decimal[EXACT_DECIMAL_SIZE];
    const char *text;
    for (size_t i = 0; i < json_digits_count(digits); i++) {
        json_digits_at(digits, i, &text);
        const Literal literal = take_apart(text);
        if (!write_decimal(&literal, decimal))
            return error_set(error, "the number %.40s%s has too many digits to be compared", text,
                             strlen(text) > 40 ? "..." : "");
    }
    return STATUS_OK;
}

Status exact_json_load(const char *text, size_t length, json_t **json, JsonDigits **digits,
                       Error *error) {
    const size_t flags = JSON_DECODE_ANY | JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL;
    json_error_t where;
    *digits = json_digits_new();
    *json = *digits ? json_reader_load_digits(text, length, flags, *digits, &where) : NULL;
    Status status = *json     ? check_lengths(*digits, error)
                    : *digits ? error_set(error, "not JSON: line %d, column %d: %s", where.line,
                                          where.column, where.text)
                              : error_set(error, "no memory for JSON");
    if (status == STATUS_OK) return STATUS_OK;
    json_decref(*json);
    json_digits_free(*digits);
    *json = NULL;
    *digits = NULL;
    return status;
}

/* ---- Decimals --------------------------------------------------------------------------------
 */

/* Writes the shortest decimal that reads back as `value`. */
static void shortest(double value, char *out, size_t size) {
    /* Of 15 digits or fewer, 15 are the same and zeros, unless the double has lost bits. */
    int precision = numbers_digits(value, fabs(value) < 1e-290 ? 1 : SAFE_DIGITS) - 1;
    snprintf(out, size, "%.*e", precision, value);
}

void exact_json_decimal(const JsonDigits *digits, const json_t *number,
                        char out[EXACT_DECIMAL_SIZE]) {
    char text[40];
    const char *written = json_digits_find(digits, number);
    if (!written && json_is_integer(number)) {
        snprintf(out, EXACT_DECIMAL_SIZE, "%lld", (long long)json_integer_value(number));
        return;
    }
    if (!written) shortest(json_real_value(number), text, sizeof text);
    const Literal literal = take_apart(written ? written : text);
    if (!write_decimal(&literal, out)) memcpy(out, "0", 2); /* exact_json_load refused it */
}

int exact_json_compare(const char *x, const char *y) {
    int sign = *x == '-' ? -1 : 1;
    if ((*x == '-') != (*y == '-')) return sign;
    x += *x == '-', y += *y == '-';
    size_t n = strcspn(x, "."), m = strcspn(y, ".");
    if (n != m) return n < m ? -sign : sign;
    int order =
        strcmp(x, y); /* '.' and the end come before digits; there are no zeros at the end */
    return order < 0 ? -sign : order > 0 ? sign : 0;
}
