#include "template/format.h"

#include "template/number.h"
#include "template/print.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MAX_PRECISION = 200, NUMBER_SIZE = FLOAT_TEXT_SIZE + MAX_PRECISION };

bool jinja_is_one_of(uint8_t c, const char *set) {
    return c && strchr(set, c);
}

int64_t jinja_read_digits(Machine *m, Text t, size_t *at) {
    int64_t n = 0;
    for (; *at < t.length && t.bytes[*at] >= '0' && t.bytes[*at] <= '9'; ++*at) {
        n = n * 10 + (t.bytes[*at] - '0');
        if (n > INT32_MAX) jinja_fail(m, "too many decimal digits in a format string");
    }
    return n;
}

/* Writes `body` padded to the width. Padding of '=' goes after its first `prefix` bytes (sign,
 * 0x). */
static void pad(Machine *m, Builder *out, Text body, const Spec *spec, size_t prefix) {
    int64_t room = spec->width - (int64_t)jinja_text_count(m, body);
    int64_t left = room <= 0 ? 0 : spec->align == '<' ? 0 : spec->align == '^' ? room / 2 : room;
    bool inside = spec->align == '=';
    if (inside) jinja_build(m, out, jinja_text_cut(body, 0, prefix));
    jinja_build_repeat(m, out, spec->fill, left);
    jinja_build(m, out, inside ? jinja_text_cut(body, prefix, body.length) : body);
    if (room > left) jinja_build_repeat(m, out, spec->fill, room - left);
}

void jinja_format_text(Machine *m, Builder *out, Text t, const Spec *spec) {
    if (spec->precision >= 0) {
        t = jinja_text_cut(t, 0, jinja_text_offset(m, t, (size_t)spec->precision));
    }
    pad(m, out, t, spec, 0);
}

void jinja_format_char(Machine *m, Builder *out, Value code, const Spec *spec) {
    int64_t c = code.as.integer;
    if (c < 0 || c > 0x10FFFF || (c >= 0xD800 && c <= 0xDFFF)) {
        jinja_fail(m, "%%c needs the code of a character");
    }
    Builder b = {0};
    jinja_build_char(m, &b, (uint32_t)c, code.from_template);
    pad(m, out, jinja_built(&b), spec, 0);
}

/* Puts a separator between groups of `size` digits, from the right. The first `count` bytes of
 * `digits` are digits. */
static void group_digits(char *digits, size_t count, int size, char separator) {
    char grouped[2 * NUMBER_SIZE];
    size_t n = 0;
    for (size_t i = 0; i < count; i++) {
        if (i && (count - i) % (size_t)size == 0) grouped[n++] = separator;
        grouped[n++] = digits[i];
    }
    strcpy(grouped + n, digits + count);
    strcpy(digits, grouped);
}

/* Writes sign, prefix and digits, padded. `digits` has room for 2 * NUMBER_SIZE bytes. */
static void format_digits(Machine *m, Builder *out, bool negative, const char *prefix, char *digits,
                          int group_size, uint8_t from_template, const Spec *spec) {
    if (spec->group)
        group_digits(digits, strspn(digits, "0123456789abcdefABCDEF"), group_size, spec->group);
    Builder body = {0};
    char sign[2] = {negative ? '-' : spec->sign == '-' ? 0 : spec->sign, 0};
    jinja_build_c(m, &body, sign, from_template);
    jinja_build_c(m, &body, prefix, from_template);
    size_t fixed = body.length;
    jinja_build_c(m, &body, digits, from_template);
    pad(m, out, jinja_built(&body), spec, fixed);
}

/* Formats an integer as Python's format() does by a specification: base, sign, prefix, grouping,
 * width. */
void jinja_format_int(Machine *m, Builder *out, Value v, const Spec *spec) {
    uint64_t magnitude = v.as.integer < 0 ? -(uint64_t)v.as.integer : (uint64_t)v.as.integer;
    char digits[2 * NUMBER_SIZE];
    const char *prefix = "";
    switch (spec->type) {
    case 'x':
        snprintf(digits, sizeof digits, "%llx", (unsigned long long)magnitude), prefix = "0x";
        break;
    case 'X':
        snprintf(digits, sizeof digits, "%llX", (unsigned long long)magnitude), prefix = "0X";
        break;
    case 'o':
        snprintf(digits, sizeof digits, "%llo", (unsigned long long)magnitude), prefix = "0o";
        break;
    case 'b': {
        int n = 1;
        while (n < 64 && magnitude >> n) n++;
        for (int i = 0; i < n; i++) digits[i] = (char)('0' + (magnitude >> (n - 1 - i) & 1));
        digits[n] = 0;
        prefix = "0b";
        break;
    }
    default:
        snprintf(digits, sizeof digits, "%llu", (unsigned long long)magnitude);
    }
    if (spec->precision > 0) { /* only '%.5d': a minimum of digits */
        size_t have = strlen(digits), want = (size_t)spec->precision;
        if (have < want && want < NUMBER_SIZE) {
            memmove(digits + want - have, digits, have + 1);
            memset(digits, '0', want - have);
        }
    }
    int group = jinja_is_one_of((uint8_t)spec->type, "xXob") ? 4 : 3;
    format_digits(m, out, v.as.integer < 0, spec->alternate ? prefix : "", digits, group,
                  v.from_template, spec);
}

/* Appends a number as Python's float.__format__ does; a spec without type and precision gives
 * repr's digits. */
void jinja_format_float(Machine *m, Builder *out, Value v, const Spec *spec) {
    double f = jinja_to_double(v);
    char type = spec->type, digits[2 * NUMBER_SIZE], layout[16];
    bool percent = type == '%';
    int precision = spec->precision < 0 ? 6 : (int)spec->precision;
    if (spec->precision > MAX_PRECISION) jinja_fail(m, "precision too big");
    if (percent) f *= 100, type = 'f';
    if (type == 'n') type = 'g';
    bool negative = signbit(f) && !isnan(f);
    if (type == 0 && spec->precision < 0) {
        jinja_float_repr(fabs(f), digits);
    } else {
        snprintf(layout, sizeof layout, "%%%s.*%c", spec->alternate ? "#" : "", type ? type : 'g');
        snprintf(digits, NUMBER_SIZE, layout, precision, fabs(f));
        bool whole = !strpbrk(digits, ".einf");
        if (type == 0 && whole) strcat(digits, ".0");
    }
    if (percent) strcat(digits, "%");
    format_digits(m, out, negative, "", digits, 3, v.from_template, spec);
}
