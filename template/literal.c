#include "template/literal.h"

#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "constraint/json_reader.h"
#include "template/cursor.h"

enum { MOST_LEVELS = 64 };

const LiteralStyle literal_gemma = {{"<|\"|>"}, false, true, "true", "false", "null"};
const LiteralStyle literal_python = {{"\"", "'"}, true, false, "True", "False", "None"};

typedef struct Reader {
    Cursor in;
    const LiteralStyle *style;
    int level;
} Reader;

/* Appends what the escape after a backslash stands for. */
static void put_escape(Reader *r, TextBuffer *text) {
    static const char names[] = "ntr\\'\"", values[] = "\n\t\r\\'\"";
    const char *found = r->in.at < r->in.end && *r->in.at ? strchr(names, *r->in.at) : NULL;
    if (found) {
        text_put(text, &values[found - names], 1, 0);
        r->in.at++;
    } else {
        text_put(text, "\\", 1, 0);
    }
}

/* Reads up to the closing quote. */
static json_t *read_text(Reader *r, const char *quote) {
    TextBuffer text = {0};
    text_put(&text, "", 0, 0);
    json_t *json = NULL;
    while (r->in.at < r->in.end) {
        if (cursor_take(&r->in, quote)) {
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

/* Reads the key of an object and the colon behind it; freed by the caller. */
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
    json_t *number = n > 0 ? json_reader_load(r->in.at, n, JSON_DECODE_ANY, &where) : NULL;
    if (number) r->in.at += n;
    return number;
}

static json_t *read_value(Reader *r) {
    cursor_skip_space(&r->in);
    if (cursor_take(&r->in, "{")) return read_members(r, json_object(), "}");
    if (cursor_take(&r->in, "[")) return read_members(r, json_array(), "]");
    if (cursor_take(&r->in, r->style->yes)) return json_true();
    if (cursor_take(&r->in, r->style->no)) return json_false();
    if (cursor_take(&r->in, r->style->none)) return json_null();
    json_t *text = read_quoted(r);
    return text ? text : read_number(r);
}

json_t *literal_read(const char **at, const char *end, const LiteralStyle *style) {
    Reader r = {.in = {*at, end}, .style = style};
    json_t *value = read_value(&r);
    *at = r.in.at;
    return value;
}
