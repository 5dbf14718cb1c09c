#include "template/literal.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "base/unicode.h"
#include "json/json_reader.h"
#include "template/cursor.h"

enum { MOST_LEVELS = 64 };

/* Gemma's template writes None for null, because it prints what is neither a text nor a boolean. */
const LiteralStyle literal_gemma = {
    .quotes = {"<|\"|>"}, .bare_keys = true, .words = {{"true", "false", "null"}, {[2] = "None"}}};
/* LFM2.5's template writes an argument that is an object as JSON, and texts between single quotes
 * without escapes, whatever they hold. */
const LiteralStyle literal_python = {
    .quotes = {"\"", "'"},
    .escapes = true,
    .open_quotes = true,
    .words = {{"True", "False", "None"}, {"true", "false", "null"}}};

typedef struct Reader {
    Cursor in;
    const LiteralStyle *style;
    JsonDigits *digits;
    int level;
} Reader;

static bool take_hex(Cursor *in, size_t n, uint32_t *code) {
    *code = 0;
    if (cursor_left(in) < n) return false;
    for (size_t i = 0; i < n; i++) {
        char c = in->at[i], low = (char)(c | 32);
        bool is_digit = c >= '0' && c <= '9';
        if (!is_digit && !(low >= 'a' && low <= 'f')) return false;
        *code = *code * 16 + (uint32_t)(is_digit ? c - '0' : low - 'a' + 10);
    }
    in->at += n;
    return true;
}

/* Takes \xHH, \uHHHH (JSON: perhaps a surrogate pair) or \UHHHHHHHH, whose backslash was taken; a
 * surrogate that stands alone is U+FFFD. False: it is none of them. */
static bool take_code(Cursor *in, uint32_t *code) {
    Cursor c = *in, next;
    uint32_t low;
    bool taken = (cursor_take(&c, "x") && take_hex(&c, 2, code)) ||
                 (cursor_take(&c, "u") && take_hex(&c, 4, code)) ||
                 (cursor_take(&c, "U") && take_hex(&c, 8, code));
    if (!taken) return false;
    next = c;
    if (*code >= 0xD800 && *code <= 0xDBFF && cursor_take(&next, "\\u") &&
        take_hex(&next, 4, &low) && low >= 0xDC00 && low <= 0xDFFF) {
        *code = 0x10000 + ((*code - 0xD800) << 10) + (low - 0xDC00);
        c = next;
    }
    if (*code > 0x10FFFF || (*code >= 0xD800 && *code <= 0xDFFF)) *code = 0xFFFD;
    *in = c;
    return true;
}

/* Appends what the escape after a backslash stands for. */
static void put_escape(Reader *r, TextBuffer *text) {
    static const char names[] = "ntrbf\\'\"", values[] = "\n\t\r\b\f\\'\"";
    const char *found = r->in.at < r->in.end && *r->in.at ? strchr(names, *r->in.at) : NULL;
    uint32_t code;
    char bytes[4];
    if (found) {
        text_put(text, &values[found - names], 1, 0);
        r->in.at++;
    } else if (take_code(&r->in, &code)) {
        text_put(text, bytes, utf8_encode(code, bytes), 0);
    } else {
        text_put(text, "\\", 1, 0);
    }
}

/* Takes the quote that ends a text. In a style with open_quotes a text may have quotes inside: the
 * one that ends it stands before , ) ] } : or the end. */
static bool take_end(Reader *r, const char *quote) {
    Cursor c = r->in;
    if (!cursor_take(&c, quote)) return false;
    Cursor next = c;
    cursor_skip_space(&next);
    if (r->style->open_quotes && next.at < next.end && !strchr(",)]}:", *next.at)) return false;
    r->in = c;
    return true;
}

/* Reads up to the closing quote. */
static json_t *read_text(Reader *r, const char *quote) {
    TextBuffer text = {0};
    text_put(&text, "", 0, 0);
    json_t *json = NULL;
    while (r->in.at < r->in.end) {
        if (take_end(r, quote)) {
            if (!text.failed) json = json_stringn(text.bytes, text.length);
            break;
        }
        if (r->style->escapes && cursor_take(&r->in, "\\")) {
            put_escape(r, &text);
        } else {
            text_put(&text, r->in.at++, 1, 0);
        }
    }
    text_free(&text);
    return json;
}

static json_t *read_quoted(Reader *r) {
    for (size_t i = 0; r->style->quotes[i]; i++)
        if (cursor_take(&r->in, r->style->quotes[i])) return read_text(r, r->style->quotes[i]);
    return NULL;
}

static json_t *read_value(Reader *r);

/* Reads the key of an object and the colon after it; freed by the caller. */
static char *read_key(Reader *r) {
    char *key = NULL;
    cursor_skip_space(&r->in);
    json_t *quoted = read_quoted(r);
    if (quoted) {
        key = strdup(json_string_value(quoted));
    } else if (r->style->bare_keys) {
        const char *colon = memchr(r->in.at, ':', (size_t)(r->in.end - r->in.at));
        if (colon) key = strndup(r->in.at, (size_t)(colon - r->in.at));
        if (colon) r->in.at = colon;
    }
    json_decref(quoted);
    cursor_skip_space(&r->in);
    if (key && cursor_take(&r->in, ":")) return key;
    free(key);
    return NULL;
}

/* Reads the members of a list or an object up to `close`; takes the reference to `all`. */
static json_t *read_members(Reader *r, json_t *all, const char *close) {
    bool is_object = json_is_object(all), is_whole = all && ++r->level <= MOST_LEVELS;
    cursor_skip_space(&r->in);
    if (is_whole && cursor_take(&r->in, close)) {
        r->level--;
        return all;
    }
    while (is_whole) {
        char *key = is_object ? read_key(r) : NULL;
        json_t *value = is_object && !key ? NULL : read_value(r);
        is_whole = value && (is_object ? json_object_set(all, key, value)
                                       : json_array_append(all, value)) == 0;
        json_decref(value);
        free(key);
        cursor_skip_space(&r->in);
        if (is_whole && cursor_take(&r->in, close)) {
            r->level--;
            return all;
        }
        is_whole = is_whole && cursor_take(&r->in, ",");
        cursor_skip_space(&r->in);
    }
    json_decref(all);
    return NULL;
}

static json_t *read_number(Reader *r) {
    json_error_t where;
    size_t n = 0;
    while (r->in.at + n < r->in.end && strchr("+-.0123456789eE", r->in.at[n]) && r->in.at[n]) n++;
    json_t *number =
        n > 0 ? json_reader_load_digits(r->in.at, n, JSON_DECODE_ANY, r->digits, &where) : NULL;
    if (number) r->in.at += n;
    return number;
}

/* Takes a word for true, false or null; NULL: there is none. */
static json_t *read_word(Reader *r) {
    json_t *const meant[] = {json_true(), json_false(), json_null()};
    for (size_t i = 0; i < 6; i++) {
        const char *word = r->style->words[i / 3][i % 3];
        if (word && cursor_take(&r->in, word)) return meant[i % 3];
    }
    return NULL;
}

static json_t *read_value(Reader *r) {
    cursor_skip_space(&r->in);
    if (cursor_take(&r->in, "{")) return read_members(r, json_object(), "}");
    if (cursor_take(&r->in, "[")) return read_members(r, json_array(), "]");
    json_t *value = read_word(r);
    if (!value) value = read_quoted(r);
    return value ? value : read_number(r);
}

json_t *literal_read(const char **at, const char *end, const LiteralStyle *style,
                     JsonDigits *digits) {
    Reader r = {.in = {*at, end}, .style = style, .digits = digits};
    json_t *value = read_value(&r);
    *at = r.in.at;
    return value;
}
