/* The program never calls setlocale for numbers, so strtod speaks C. */
#include "template/number.h"

#include "template/character_classes.h"
#include "template/print.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

double jinja_to_double(Value v) {
    return v.type == V_FLOAT ? v.as.real : (double)v.as.integer;
}

int64_t jinja_to_index(Machine *m, Value v) {
    if (jinja_is_integer(v)) return v.as.integer;
    if (v.type == V_UNDEFINED) jinja_fail_undefined(m, v);
    jinja_fail(m, "'%s' object cannot be interpreted as an integer", jinja_type_name(v));
}

Value jinja_double_to_int(Machine *m, double f) {
    if (!(fabs(f) < 9223372036854775808.0))
        jinja_fail(m, "cannot convert a float to a 64-bit integer");
    return jinja_value_int((int64_t)f);
}

NORETURN void jinja_fail_overflow(Machine *m) {
    jinja_fail(m, "an integer does not fit in 64 bits");
}

bool jinja_parse_int(Text t, int base, int64_t *value, bool *overflow) {
    size_t i = 0;
    bool negative = false, after_digit = false, any = false;
    *value = 0, *overflow = false;
    if (i < t.length && (t.bytes[i] == '-' || t.bytes[i] == '+')) negative = t.bytes[i++] == '-';
    if (i + 1 < t.length && t.bytes[i] == '0') {
        uint8_t letter = t.bytes[i + 1] | 32;
        int prefix = letter == 'x' ? 16 : letter == 'o' ? 8 : letter == 'b' ? 2 : 0;
        if (prefix && (base == prefix || base == 0)) {
            base = prefix, i += 2;
            after_digit = true; /* an underscore may follow the prefix */
        }
    }
    bool leading_zero = base == 0 && i < t.length && t.bytes[i] == '0';
    if (base == 0) base = 10;
    for (; i < t.length; i++) {
        if (t.bytes[i] == '_' && after_digit) {
            after_digit = false;
            continue;
        }
        int digit = jinja_digit_value(t.bytes[i]);
        if (digit >= base) return false;
        if (leading_zero && digit) return false;
        *overflow = *overflow || __builtin_mul_overflow(*value, base, value) ||
                    __builtin_add_overflow(*value, negative ? -digit : digit, value);
        after_digit = any = true;
    }
    return any && after_digit;
}

/* strtod() takes more than Python does, such as hexadecimal digits, but no underscores between
 * digits: only the characters that both may take reach it. */
bool jinja_parse_float(Machine *m, Text t, double *value) {
    jinja_spend_slow(m, t.length);
    char *s = NEW_ARRAY(m, t.length + 1, char);
    size_t n = 0;
    for (size_t i = 0; i < t.length; i++) {
        uint8_t c = t.bytes[i];
        bool between = i > 0 && i + 1 < t.length && jinja_digit_value(t.bytes[i - 1]) < 10 &&
                       jinja_digit_value(t.bytes[i + 1]) < 10;
        if (c == '_' && between) continue;
        if (!strchr("+-.0123456789eEinfatyINFATY", c) || c == 0) return false;
        s[n++] = (char)c;
    }
    char *end;
    if (n == 0) return false;
    *value = strtod(s, &end);
    return *end == 0;
}
