#include "template/jinja_text.h"

#include "base/unicode.h"
#include "template/character_classes.h"

#include <string.h>

static const uint8_t all_from_template[64] = {
    1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,
    1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,
};

Text jinja_text_c(Machine *m, const char *s) {
    size_t length = strlen(s);
    if (length > sizeof all_from_template) return jinja_text_fill(m, s, length, FROM_TEMPLATE);
    return (Text){(const uint8_t *)s, all_from_template, length};
}

Text jinja_text_fill(Machine *m, const char *bytes, size_t length, uint8_t from_template) {
    Builder b = {0};
    jinja_build_bytes(m, &b, bytes, length, from_template);
    return jinja_built(&b);
}

Text jinja_text_cut(Text t, size_t from, size_t to) {
    if (t.length == 0) return t;
    return (Text){t.bytes + from, t.from_template + from, to - from};
}

bool jinja_text_is(Text t, const char *s) {
    return t.length == strlen(s) && (t.length == 0 || memcmp(t.bytes, s, t.length) == 0);
}

bool jinja_text_equal(Text a, Text b) {
    return a.length == b.length && (a.length == 0 || memcmp(a.bytes, b.bytes, a.length) == 0);
}

/* The bytes of UTF-8 have the same order as its code points. */
int jinja_text_compare(Text a, Text b) {
    size_t common = a.length < b.length ? a.length : b.length;
    int order = common ? memcmp(a.bytes, b.bytes, common) : 0;
    if (order != 0) return order < 0 ? -1 : 1;
    return (a.length > b.length) - (a.length < b.length);
}

uint8_t jinja_text_from_template(Text t) {
    return t.length && memchr(t.from_template, FROM_MESSAGE, t.length) ? FROM_MESSAGE
                                                                       : FROM_TEMPLATE;
}

int jinja_text_shown(Text t) {
    return t.length < 80 ? (int)t.length : 80;
}

/* ---- code points ---- */

uint32_t jinja_text_char(Text t, size_t at, size_t *size) {
    uint32_t code;
    *size = utf8_next((const char *)t.bytes + at, t.length - at, &code);
    return code;
}

size_t jinja_text_count(Machine *m, Text t) {
    jinja_spend(m, t.length);
    return utf8_count((const char *)t.bytes, t.length);
}

size_t jinja_text_offset(Machine *m, Text t, size_t index) {
    jinja_spend_slow(m, index < t.length ? index : t.length);
    size_t at = 0;
    while (index > 0 && at < t.length) at += utf8_length((char)t.bytes[at]), index--;
    return at;
}

size_t jinja_text_before(Text t, size_t end) {
    return utf8_previous((const char *)t.bytes, end);
}

size_t jinja_text_line(Text t, size_t at, size_t *next) {
    size_t size = 0;
    while (at < t.length && !jinja_char_ends_line(jinja_text_char(t, at, &size))) at += size;
    if (at < t.length && t.bytes[at] == '\r' && at + 1 < t.length && t.bytes[at + 1] == '\n')
        size = 2;
    *next = at < t.length ? at + size : at;
    return at;
}

/* ---- searching and cutting ---- */

size_t jinja_text_find(Machine *m, Text t, Text needle, size_t from) {
    if (from > t.length || needle.length > t.length - from) return SIZE_MAX;
    jinja_spend(m, t.length - from);
    if (needle.length == 0) return from;
    const uint8_t *found = memmem(t.bytes + from, t.length - from, needle.bytes, needle.length);
    return found ? (size_t)(found - t.bytes) : SIZE_MAX;
}

size_t jinja_text_find_last(Machine *m, Text t, Text needle) {
    if (needle.length > t.length) return SIZE_MAX;
    if (needle.length == 0) return t.length;
    for (size_t at = t.length - needle.length + 1; at-- > 0;) {
        if (at % 64 == 0) jinja_spend_slow(m, 64);
        if (t.bytes[at] != needle.bytes[0]) continue;
        jinja_spend(m, needle.length);
        if (memcmp(t.bytes + at, needle.bytes, needle.length) == 0) return at;
    }
    return SIZE_MAX;
}

bool jinja_text_starts(Text t, Text prefix) {
    return prefix.length <= t.length &&
           jinja_text_equal(jinja_text_cut(t, 0, prefix.length), prefix);
}

bool jinja_text_ends(Text t, Text suffix) {
    return suffix.length <= t.length &&
           jinja_text_equal(jinja_text_cut(t, t.length - suffix.length, t.length), suffix);
}

bool jinja_text_next_part(Machine *m, Text *rest, const char *separator, Text *part) {
    size_t at = jinja_text_find(m, *rest, jinja_text_c(m, separator), 0);
    bool found = at != SIZE_MAX;
    *part = found ? jinja_text_cut(*rest, 0, at) : *rest;
    if (found) *rest = jinja_text_cut(*rest, at + strlen(separator), rest->length);
    return found;
}

static bool in_set(Machine *m, uint32_t c, const Text *chars) {
    if (!chars) return jinja_char_is_space(c);
    jinja_spend_slow(m, chars->length);
    for (size_t at = 0, size; at < chars->length; at += size) {
        if (jinja_text_char(*chars, at, &size) == c) return true;
    }
    return false;
}

static Text text_strip(Machine *m, Text t, const Text *chars, int sides) {
    size_t from = 0, to = t.length, size;
    if (sides & STRIP_LEFT) {
        while (from < to && in_set(m, jinja_text_char(t, from, &size), chars)) from += size;
    }
    if (sides & STRIP_RIGHT) {
        while (to > from && in_set(m, jinja_text_char(t, jinja_text_before(t, to), &size), chars))
            to -= size;
    }
    jinja_spend_slow(m, t.length - (to - from));
    return jinja_text_cut(t, from, to);
}

Text jinja_text_strip(Machine *m, Text t, int sides) {
    return text_strip(m, t, NULL, sides);
}

Text jinja_text_strip_chars(Machine *m, Text t, Text chars, int sides) {
    return text_strip(m, t, &chars, sides);
}

/* Python's str.replace: at most `count` occurrences (-1: all). */
Text jinja_text_replace(Machine *m, Text t, Text old, Text new, int64_t count) {
    Builder b = {0};
    size_t done = 0;
    while (count != 0) {
        size_t at = jinja_text_find(m, t, old, done);
        if (at == SIZE_MAX) break;
        if (old.length == 0) { /* it stands before each character and at the end */
            jinja_build(m, &b, new);
            if (count > 0) count--;
            if (done == t.length) return jinja_built(&b);
            at = done + utf8_length((char)t.bytes[done]);
            jinja_build(m, &b, jinja_text_cut(t, done, at));
            done = at;
            continue;
        }
        jinja_build(m, &b, jinja_text_cut(t, done, at));
        jinja_build(m, &b, new);
        done = at + old.length;
        if (count > 0) count--;
    }
    jinja_build(m, &b, jinja_text_cut(t, done, t.length));
    return jinja_built(&b);
}

/* Escapes the characters that HTML reserves. */
Text jinja_text_escape(Machine *m, Text t) {
    Builder b = {0};
    for (size_t i = 0; i < t.length; i++) {
        uint8_t from_template = t.from_template[i];
        switch (t.bytes[i]) {
        case '&':
            jinja_build_c(m, &b, "&amp;", from_template);
            break;
        case '<':
            jinja_build_c(m, &b, "&lt;", from_template);
            break;
        case '>':
            jinja_build_c(m, &b, "&gt;", from_template);
            break;
        case '\'':
            jinja_build_c(m, &b, "&#39;", from_template);
            break;
        case '"':
            jinja_build_c(m, &b, "&#34;", from_template);
            break;
        default:
            jinja_build(m, &b, jinja_text_cut(t, i, i + 1));
        }
    }
    return jinja_built(&b);
}

/* ---- builders ---- */

static void grow(Machine *m, Builder *b, size_t more) {
    size_t needed, capacity = b->capacity;
    if (!size_add(b->length, more, &needed)) jinja_fail(m, "the template needs too much memory");
    jinja_reserve(m, &b->bytes, &capacity, b->length, needed, 1);
    jinja_reserve(m, &b->from_template, &b->capacity, b->length, needed, 1);
}

void jinja_build(Machine *m, Builder *b, Text t) {
    if (t.length == 0) return;
    jinja_spend(m, t.length);
    grow(m, b, t.length);
    memcpy(b->bytes + b->length, t.bytes, t.length);
    memcpy(b->from_template + b->length, t.from_template, t.length);
    b->length += t.length;
}

void jinja_build_bytes(Machine *m, Builder *b, const void *bytes, size_t length,
                       uint8_t from_template) {
    if (length == 0) return;
    jinja_spend(m, length);
    grow(m, b, length);
    memcpy(b->bytes + b->length, bytes, length);
    memset(b->from_template + b->length, from_template, length);
    b->length += length;
}

void jinja_build_c(Machine *m, Builder *b, const char *s, uint8_t from_template) {
    jinja_build_bytes(m, b, s, strlen(s), from_template);
}

void jinja_build_char(Machine *m, Builder *b, uint32_t c, uint8_t from_template) {
    char utf8[4];
    size_t length = utf8_encode(c, utf8);
    jinja_build_bytes(m, b, utf8, length, from_template);
}

void jinja_build_repeat(Machine *m, Builder *b, Text t, int64_t times) {
    size_t bytes;
    if (times <= 0 || t.length == 0) return;
    if (!size_mul(t.length, (size_t)times, &bytes)) jinja_fail(m, "the text is too long");
    jinja_spend(m, bytes);
    grow(m, b, bytes);
    uint8_t *to = b->bytes + b->length, *to_flags = b->from_template + b->length;
    memcpy(to, t.bytes, t.length);
    memcpy(to_flags, t.from_template, t.length);
    for (size_t done = t.length, more; done < bytes; done += more) { /* doubles */
        more = done < bytes - done ? done : bytes - done;
        memcpy(to + done, to, more);
        memcpy(to_flags + done, to_flags, more);
    }
    b->length += bytes;
}

Text jinja_built(const Builder *b) {
    return (Text){b->bytes, b->from_template, b->length};
}

Text jinja_text_pad(Machine *m, Text t, Text fill, int64_t left, int64_t right) {
    Builder b = {0};
    jinja_build_repeat(m, &b, fill, left);
    jinja_build(m, &b, t);
    jinja_build_repeat(m, &b, fill, right);
    return jinja_built(&b);
}

/* Python's str.center(): of an odd number of fill characters, the odd one goes to the left where
 * the width is odd, too. */
Text jinja_text_center(Machine *m, Text t, Text fill, int64_t width) {
    int64_t all = width - (int64_t)jinja_text_count(m, t);
    int64_t left = all > 0 ? all / 2 + (all & width & 1) : 0;
    return jinja_text_pad(m, t, fill, left, all - left);
}
