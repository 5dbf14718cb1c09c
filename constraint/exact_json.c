#include "constraint/exact_json.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/numbers.h"
#include "constraint/json_reader.h"

enum { SAFE_DIGITS = 15 };     /* decimals of so many digits survive a double */
enum { SAFE_EXPONENT = 290 };  /* up to which a double keeps all of its bits */
enum { MOST_EXPONENT = 9999 }; /* past EXACT_DECIMAL_SIZE; larger ones are taken for it */

/* ---- Numbers in a text -----------------------------------------------------------------------
 */

/* Finds the next number at or after *at, which must not lie within a string. */
static bool next_number(const char *text, size_t length, size_t *at, size_t *n) {
    bool in_string = false;
    for (size_t i = *at; i < length; i++) {
        if (in_string) {
            if (text[i] == '\\')
                i++;
            else if (text[i] == '"')
                in_string = false;
        } else if (text[i] == '"') {
            in_string = true;
        } else if (text[i] == '-' || (text[i] >= '0' && text[i] <= '9')) {
            *at = i;
            for (*n = 1;
                 i + *n < length && text[i + *n] && strchr("0123456789+-.eE", text[i + *n]);)
                ++*n;
            return true;
        }
    }
    return false;
}

/* A number of JSON, taken apart: 0.<digits> * 10^point. */
typedef struct Literal {
    bool negative, whole_form; /* neither point nor exponent */
    const char *first;         /* its first digit that is not 0 */
    size_t n_digits;           /* from there to its last that is not 0 */
    long point;
} Literal;

static const char *skip_digits(const char *at, const char *end) {
    while (at < end && *at >= '0' && *at <= '9') at++;
    return at;
}

/* Whether this is a number by the grammar of JSON: no leading zeros, digits around the point. */
static bool is_number(const char *at, const char *end) {
    const char *first = at += at < end && *at == '-';
    at = skip_digits(at, end);
    if (at == first || (*first == '0' && at > first + 1)) return false;
    if (at < end && *at == '.') {
        first = ++at;
        if ((at = skip_digits(at, end)) == first) return false;
    }
    if (at < end && (*at == 'e' || *at == 'E')) {
        at++;
        if (at < end && (*at == '+' || *at == '-')) at++;
        first = at;
        if ((at = skip_digits(at, end)) == first) return false;
    }
    return at == end;
}

/* Splits a number into a Literal. False: it is not valid JSON, which the parser will report. */
static bool take_apart(const char *text, size_t n, Literal *out) {
    const char *end = text + n, *at = text, *last = NULL;
    long exponent = 0, before = 0;
    bool point = false;
    *out = (Literal){.negative = *text == '-', .whole_form = true};
    if (!is_number(text, end)) return false;
    for (at += out->negative; at < end && (*at == '.' || (*at >= '0' && *at <= '9')); at++) {
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
    if (at < end) { /* an exponent */
        bool minus = false;
        out->whole_form = false;
        at++;
        if (at < end && (*at == '+' || *at == '-')) minus = *at++ == '-';
        for (; at < end && *at >= '0' && *at <= '9'; at++)
            if (exponent < MOST_EXPONENT) exponent = exponent * 10 + (*at - '0');
        if (minus) exponent = -exponent;
    }
    out->whole_form &= !point;
    out->point = before + exponent;
    for (const char *digit = out->first; digit && digit <= last; digit++)
        out->n_digits += *digit != '.';
    return true;
}

/* Writes the number without an exponent; false: it is too long. */
static bool write_decimal(const Literal *l, char *out) {
    const char *digit = l->first;
    long n = (long)l->n_digits, least = l->point < n ? l->point : n;
    long size = (least < 0 ? n - least : n) + (l->point > n ? l->point - n : 0);
    if (n > EXACT_DECIMAL_SIZE || size + 4 > EXACT_DECIMAL_SIZE) return false;
    if (n == 0) {
        memcpy(out, "0", 2);
        return true;
    }
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

/* Whether an int64 or a double surely has the very value of the number. False may be too careful.
 */
static bool surely_exact(const Literal *l) {
    const char *most = l->negative ? "9223372036854775808" : "9223372036854775807";
    if (l->n_digits == 0) return true;
    if (!l->whole_form) return l->n_digits <= SAFE_DIGITS && labs(l->point) <= SAFE_EXPONENT;
    return l->point < 19 || (l->point == 19 && memcmp(l->first, most, 19) <= 0);
}

/* ---- Loading ---------------------------------------------------------------------------------
 */

/* Loading replaces each number that jansson might round by 0.0, keeps its digits, and puts both
 * into the parsed values afterwards. The numbers of the text and of the values have the same order.
 */
typedef struct Noted {
    char *copy;       /* [length + 1] the text, with 0.0 for the noted numbers */
    json_t *decimals; /* the noted numbers, as exact_json_decimal writes them */
    json_t *places;   /* the index of each among all numbers of the text */
    json_t *digits;   /* what exact_json_load returns */
    size_t n_numbers; /* numbers that restore_noted has passed */
    size_t next;      /* the noted number that comes next there */
} Noted;

/* If jansson might round the number text[n], which lies in noted->copy, keeps its digits and writes
 * 0.0 over it. `place` is its index among the numbers of the text. */
static Status note_inexact(Noted *noted, char *text, size_t n, size_t place, Error *error) {
    char decimal[EXACT_DECIMAL_SIZE];
    Literal literal;
    if (!take_apart(text, n, &literal) || surely_exact(&literal)) return STATUS_OK;
    if (!write_decimal(&literal, decimal))
        return error_set(error, "the number %.*s%s has too many digits to be compared",
                         n < 40 ? (int)n : 40, text, n < 40 ? "" : "...");
    if (json_array_append_new(noted->decimals, json_string_nocheck(decimal)) != 0 ||
        json_array_append_new(noted->places, json_integer((json_int_t)place)) != 0)
        return error_set(error, "no memory for JSON");
    memset(text, ' ', n);
    memcpy(text, "0.0", 3); /* such a number has 5 bytes or more */
    return STATUS_OK;
}

/* Walks through the values: gives each noted number its nearest double, and an entry in
 * noted->digits. Objects keep the order of the text. False: no memory. */
static bool restore_noted(Noted *noted, json_t *value) {
    const char *name;
    json_t *item;
    size_t i;
    if (json_is_array(value)) {
        json_array_foreach(value, i, item) if (!restore_noted(noted, item)) return false;
    } else if (json_is_object(value)) {
        json_object_foreach(value, name, item) if (!restore_noted(noted, item)) return false;
    } else if (json_is_number(value)) {
        size_t number = noted->n_numbers++;
        const json_t *place = json_array_get(noted->places, noted->next);
        if (!place || (size_t)json_integer_value(place) != number) return true;
        json_t *decimal = json_array_get(noted->decimals, noted->next++);
        char key[32];
        double nearest = strtod(json_string_value(decimal), NULL);
        if (isinf(nearest)) nearest = nearest < 0 ? -DBL_MAX : DBL_MAX;
        snprintf(key, sizeof key, "%p", (const void *)value);
        return json_real_set(value, nearest) == 0 &&
               json_object_set(noted->digits, key, decimal) == 0;
    }
    return true;
}

/* Parses noted->copy with the inexact numbers taken out, and puts them into the values. */
static Status load_noted(Noted *noted, size_t length, json_t **json, Error *error) {
    const size_t flags = JSON_DECODE_ANY | JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL;
    json_error_t where;
    size_t n = 0, place = 0;
    for (size_t at = 0; next_number(noted->copy, length, &at, &n); at += n)
        if (note_inexact(noted, noted->copy + at, n, place++, error) != STATUS_OK)
            return STATUS_FAILED;
    *json = json_reader_load(noted->copy, length, flags, &where);
    if (!*json)
        return error_set(error, "not JSON: line %d, column %d: %s", where.line, where.column,
                         where.text);
    if (json_array_size(noted->decimals) == 0 || restore_noted(noted, *json)) return STATUS_OK;
    return error_set(error, "no memory for JSON");
}

Status exact_json_load(const char *text, size_t length, json_t **json, json_t **digits,
                       Error *error) {
    Noted noted = {malloc(length + 1), json_array(), json_array(), json_object(), 0, 0};
    Status status = noted.copy && noted.decimals && noted.places && noted.digits
                        ? STATUS_OK
                        : error_set(error, "no memory for JSON");
    *json = *digits = NULL;
    if (status == STATUS_OK) {
        memcpy(noted.copy, text, length);
        noted.copy[length] = '\0';
        status = load_noted(&noted, length, json, error);
    }
    if (status == STATUS_OK && json_object_size(noted.digits) > 0)
        *digits = json_incref(noted.digits);
    if (status != STATUS_OK) {
        json_decref(*json);
        *json = NULL;
    }
    free(noted.copy);
    json_decref(noted.decimals);
    json_decref(noted.places);
    json_decref(noted.digits);
    return status;
}

/* ---- Decimals --------------------------------------------------------------------------------
 */

/* Writes the shortest decimal that reads back as `value`; returns its precision for %e. */
static int shortest(double value, char *out, size_t size) {
    /* Of 15 digits or fewer, 15 are the same and zeros, unless the double has lost bits. */
    int precision = numbers_digits(value, fabs(value) < 1e-290 ? 1 : SAFE_DIGITS) - 1;
    snprintf(out, size, "%.*e", precision, value);
    return precision;
}

void exact_json_decimal(const json_t *digits, const json_t *number, char out[EXACT_DECIMAL_SIZE]) {
    char text[40];
    Literal literal;
    if (digits) {
        snprintf(text, sizeof text, "%p", (const void *)number);
        const char *noted = json_string_value(json_object_get(digits, text));
        if (noted) {
            snprintf(out, EXACT_DECIMAL_SIZE, "%s", noted);
            return;
        }
    }
    if (json_is_integer(number)) {
        snprintf(out, EXACT_DECIMAL_SIZE, "%lld", (long long)json_integer_value(number));
        return;
    }
    shortest(json_real_value(number), text, sizeof text);
    take_apart(text, strlen(text), &literal);
    write_decimal(&literal, out);
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

void exact_json_shorten(char *text) {
    char real[40], best[40];
    size_t length = strlen(text), n = 0, kept = 0, from = 0;
    for (size_t at = 0; next_number(text, length, &at, &n); at += n) {
        memmove(text + kept, text + from, at - from);
        kept += at - from;
        from = at + n;
        size_t size = n;
        memcpy(best, text + at, n < sizeof best ? n : 0);
        if (n < sizeof real && (memchr(text + at, '.', n) || memchr(text + at, 'e', n))) {
            char own[40];
            memcpy(own, text + at, n);
            own[n] = '\0';
            double value = strtod(own, NULL);
            int precision = shortest(value, real, sizeof real);
            snprintf(best, sizeof best, "%.*g", precision + 1, value);
            if (!strpbrk(best, ".e")) strcat(best, ".0");
            size = strlen(best) < n ? strlen(best) : n;
            if (size == n) memcpy(best, own, n);
        }
        if (n < sizeof best)
            memmove(text + kept, best, size);
        else
            memmove(text + kept, text + at, n);
        kept += size;
    }
    memmove(text + kept, text + from, length - from + 1);
}

bool exact_json_has_long_numbers(const char *text, size_t length) {
    Literal literal;
    size_t n = 0;
    for (size_t at = 0; next_number(text, length, &at, &n); at += n)
        if (take_apart(text + at, n, &literal) && !surely_exact(&literal)) return true;
    return false;
}

bool exact_json_find_rounded(const json_t *value, const json_t *digits,
                             char out[EXACT_DECIMAL_SIZE]) {
    char rounded[EXACT_DECIMAL_SIZE];
    const char *name;
    json_t *item;
    size_t i;
    json_array_foreach((json_t *)value, i, item) {
        if (exact_json_find_rounded(item, digits, out)) return true;
    }
    json_object_foreach((json_t *)value, name, item) {
        if (exact_json_find_rounded(item, digits, out)) return true;
    }
    if (!json_is_real(value)) return false;
    exact_json_decimal(NULL, value, rounded);
    exact_json_decimal(digits, value, out);
    return strcmp(rounded, out) != 0;
}
