#include "modes/batch/json_prefix.h"

#include <string.h>

#include "base/utf8.h"

#define MOST_DEPTH 2048 /* jansson's own limit, so no record is deeper */

/* How far a token reaches: it is whole, the text ends inside it, or it is not a token of JSON. */
typedef enum Token { TOKEN_WHOLE, TOKEN_CUT, TOKEN_WRONG } Token;

/* What may come next. */
typedef enum Next {
    NEXT_VALUE,
    NEXT_VALUE_OR_END, /* after "[" */
    NEXT_KEY,
    NEXT_KEY_OR_END, /* after "{" */
    NEXT_COLON,
    NEXT_COMMA_OR_END
} Next;

typedef struct Scan {
    const char *at, *end;
    size_t depth;
    bool is_object[MOST_DEPTH]; /* the objects and arrays that are open, the outermost first */
} Scan;

static bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

static Token scan_escape(Scan *s) {
    if (s->at == s->end) return TOKEN_CUT;
    char c = *s->at++;
    if (c != 'u') return c != '\0' && strchr("\"\\/bfnrt", c) ? TOKEN_WHOLE : TOKEN_WRONG;
    for (int i = 0; i < 4; i++) {
        if (s->at == s->end) return TOKEN_CUT;
        c = *s->at++;
        if (!is_digit(c) && !(c >= 'a' && c <= 'f') && !(c >= 'A' && c <= 'F')) return TOKEN_WRONG;
    }
    return TOKEN_WHOLE;
}

/* Reads the rest of a string, whose quote has been read. */
static Token scan_string(Scan *s) {
    while (s->at < s->end) {
        char c = *s->at++;
        if (c == '"') return TOKEN_WHOLE;
        if ((unsigned char)c < 0x20) return TOKEN_WRONG;
        Token escape = c == '\\' ? scan_escape(s) : TOKEN_WHOLE;
        if (escape != TOKEN_WHOLE) return escape;
    }
    return TOKEN_CUT;
}

/* Reads one digit or more. */
static Token scan_digits(Scan *s) {
    if (s->at < s->end && !is_digit(*s->at)) return TOKEN_WRONG;
    while (s->at < s->end && is_digit(*s->at)) s->at++;
    return s->at < s->end ? TOKEN_WHOLE : TOKEN_CUT; /* an object goes on after its numbers */
}

static Token scan_number(Scan *s) {
    if (*s->at == '-') s->at++;
    Token token;
    if (s->at < s->end && *s->at == '0')
        token = ++s->at < s->end ? TOKEN_WHOLE : TOKEN_CUT; /* no digit may follow */
    else
        token = scan_digits(s);
    if (token == TOKEN_WHOLE && *s->at == '.') {
        s->at++;
        token = scan_digits(s);
    }
    if (token == TOKEN_WHOLE && (*s->at == 'e' || *s->at == 'E')) {
        s->at++;
        if (s->at < s->end && (*s->at == '+' || *s->at == '-')) s->at++;
        token = scan_digits(s);
    }
    return token;
}

static Token scan_word(Scan *s, const char *word) {
    size_t length = strlen(word), left = (size_t)(s->end - s->at);
    if (memcmp(s->at, word, left < length ? left : length) != 0) return TOKEN_WRONG;
    if (left <= length) return TOKEN_CUT;
    s->at += length;
    return TOKEN_WHOLE;
}

static Token scan_open(Scan *s, bool is_object, Next *next) {
    if (s->depth == MOST_DEPTH) return TOKEN_WRONG;
    s->at++;
    s->is_object[s->depth++] = is_object;
    *next = is_object ? NEXT_KEY_OR_END : NEXT_VALUE_OR_END;
    return TOKEN_WHOLE;
}

static Token scan_value(Scan *s, Next *next) {
    char c = *s->at;
    if (c == '{' || c == '[') return scan_open(s, c == '{', next);
    *next = NEXT_COMMA_OR_END;
    if (c == '"') {
        s->at++;
        return scan_string(s);
    }
    if (c == 't') return scan_word(s, "true");
    if (c == 'f') return scan_word(s, "false");
    if (c == 'n') return scan_word(s, "null");
    return c == '-' || is_digit(c) ? scan_number(s) : TOKEN_WRONG;
}

/* Takes the one character that closes the innermost object or array, if it comes next. */
static bool scan_close(Scan *s, Next *next) {
    if (*s->at != (s->is_object[s->depth - 1] ? '}' : ']')) return false;
    s->at++;
    s->depth--;
    *next = NEXT_COMMA_OR_END;
    return true;
}

/* Reads one token inside the outermost object. */
static Token scan_token(Scan *s, Next *next) {
    char c = *s->at;
    switch (*next) {
    case NEXT_VALUE_OR_END:
        if (scan_close(s, next)) return TOKEN_WHOLE;
        return scan_value(s, next);
    case NEXT_VALUE:
        return scan_value(s, next);
    case NEXT_KEY_OR_END:
        if (scan_close(s, next)) return TOKEN_WHOLE;
        __attribute__((fallthrough));
    case NEXT_KEY:
        if (c != '"') return TOKEN_WRONG;
        s->at++;
        *next = NEXT_COLON;
        return scan_string(s);
    case NEXT_COLON:
        s->at++;
        *next = NEXT_VALUE;
        return c == ':' ? TOKEN_WHOLE : TOKEN_WRONG;
    case NEXT_COMMA_OR_END:
        if (scan_close(s, next)) return TOKEN_WHOLE;
        s->at++;
        *next = s->is_object[s->depth - 1] ? NEXT_KEY : NEXT_VALUE;
        return c == ',' ? TOKEN_WHOLE : TOKEN_WRONG;
    }
    return TOKEN_WRONG;
}

static void skip_blanks(Scan *s) {
    while (s->at < s->end && *s->at != '\0' && strchr(" \t\r\n", *s->at)) s->at++;
}

bool json_prefix_is_cut(const char *text, size_t n) {
    Scan s = {.at = text, .end = text + n};
    Next next;
    if (utf8_valid_prefix(text, n) + utf8_incomplete_tail(text, n) < n) return false;
    skip_blanks(&s);
    if (s.at == s.end || *s.at != '{') return false;
    Token token = scan_open(&s, true, &next);
    while (token == TOKEN_WHOLE && s.depth > 0) {
        skip_blanks(&s);
        token = s.at < s.end ? scan_token(&s, &next) : TOKEN_CUT;
    }
    return token == TOKEN_CUT;
}
