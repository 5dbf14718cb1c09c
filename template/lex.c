/* jinja2's lexer with trim_blocks and lstrip_blocks on, as transformers sets them. White space
 * control is decided here and nowhere else:
 *
 *     {%- {{- {#-    drop all white space before           -%} -}} -#}    and after
 *     {%  {#         drop the spaces between the start of the line and the tag
 *     {%+            keep them
 *     %}  #}         drop one newline after                 +%} +#}    keep it */
#include "template/lex.h"

#include "template/character_classes.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

typedef struct Lexer {
    Machine *m;
    Text source;
    size_t at;
    size_t line_counted; /* the byte that m->line is the line of */
    bool line_start;     /* `at` begins a line: the last tag took the newline */
    Token *tokens;
    size_t count, capacity;
} Lexer;

static Token *add_token(Lexer *x, TokenKind kind, Text text) {
    jinja_reserve(x->m, &x->tokens, &x->capacity, x->count, x->count + 1, sizeof *x->tokens);
    for (; x->line_counted < x->at; x->line_counted++) {
        x->m->line += x->source.bytes[x->line_counted] == '\n';
    }
    x->tokens[x->count] = (Token){.kind = kind, .line = x->m->line, .text = text};
    return &x->tokens[x->count++];
}

static bool looking_at(const Lexer *x, size_t at, const char *s) {
    size_t n = strlen(s);
    return x->source.length - at >= n && memcmp(x->source.bytes + at, s, n) == 0;
}

static uint8_t byte_at(const Lexer *x, size_t at) {
    return at < x->source.length ? x->source.bytes[at] : 0;
}

static size_t skip_space(const Lexer *x, size_t at) {
    size_t size;
    while (at < x->source.length && jinja_char_is_space(jinja_text_char(x->source, at, &size)))
        at += size;
    return at;
}

/* If a tag ends at `at` ("%}", perhaps with '-' or '+'): where the text after it begins, after the
 * white space that the tag takes. Otherwise 0. */
static size_t tag_end(const Lexer *x, size_t at, const char *end) {
    bool is_print = strcmp(end, "}}") == 0;
    uint8_t sign = byte_at(x, at);
    if (sign == '-' && looking_at(x, at + 1, end)) return skip_space(x, at + 3);
    if (sign == '+' && !is_print && looking_at(x, at + 1, end)) return at + 3;
    if (!looking_at(x, at, end)) return 0;
    return at + 2 + (!is_print && byte_at(x, at + 2) == '\n');
}

/* If "{% WORD %}" (raw or endraw) stands at `at`: where the text after it begins. Otherwise 0. Only
 * endraw takes the newline after it. */
static size_t word_tag(const Lexer *x, size_t at, const char *word) {
    at += 2;
    if (byte_at(x, at) == '-' || byte_at(x, at) == '+') at++;
    at = skip_space(x, at);
    if (!looking_at(x, at, word)) return 0;
    at = skip_space(x, at + strlen(word));
    if (strcmp(word, "endraw") == 0) return tag_end(x, at, "%}");
    if (looking_at(x, at, "-%}")) return skip_space(x, at + 3);
    return looking_at(x, at, "%}") ? at + 2 : 0;
}

/* Adds the text before a tag, without the white space that the tag takes. */
static void lex_data(Lexer *x, size_t tag) {
    Text data = jinja_text_cut(x->source, x->at, tag);
    uint8_t sign = byte_at(x, tag + 2);
    if (sign == '-') {
        data = jinja_text_strip(x->m, data, STRIP_RIGHT);
    } else if (sign != '+' && byte_at(x, tag + 1) != '{') {
        size_t line = data.length;
        while (line > 0 && data.bytes[line - 1] != '\n') line--;
        bool blank =
            jinja_text_strip(x->m, jinja_text_cut(data, line, data.length), STRIP_LEFT).length == 0;
        if ((line > 0 || x->line_start) && blank) data = jinja_text_cut(data, 0, line);
    }
    if (data.length) add_token(x, T_DATA, data)->value = jinja_value_text(x->m, data);
}

static void move_to(Lexer *x, size_t at) {
    x->at = at;
    x->line_start = at > 0 && x->source.bytes[at - 1] == '\n';
}

/* ---- inside {{ }} and {% %} ---- */

/* The end of the digits at `at`, between which single underscores may stand. */
static size_t skip_digits(const Lexer *x, size_t at, int base, bool leading_underscore) {
    size_t end = at;
    for (;;) {
        size_t next = end;
        if (byte_at(x, next) == '_' && (end > at || leading_underscore)) next++;
        if (jinja_digit_value(byte_at(x, next)) >= base) return end;
        end = next + 1;
    }
}

/* The end of a float at `at`, or `at` if it is an integer. */
static size_t float_end(const Lexer *x, size_t at) {
    if (at > 0 && x->source.bytes[at - 1] == '.') return at;
    size_t whole = skip_digits(x, at, 10, false), end = whole;
    if (byte_at(x, whole) == '.') {
        size_t fraction = skip_digits(x, whole + 1, 10, false);
        if (fraction > whole + 1) end = fraction;
    }
    if ((byte_at(x, end) | 32) == 'e') {
        size_t digits = end + 1;
        if (byte_at(x, digits) == '+' || byte_at(x, digits) == '-') digits++;
        size_t exponent = skip_digits(x, digits, 10, false);
        if (exponent > digits) return exponent;
    }
    return end > whole ? end : at;
}

static size_t integer_end(const Lexer *x, size_t at, int *base) {
    uint8_t letter = byte_at(x, at + 1) | 32;
    *base = letter == 'x' ? 16 : letter == 'o' ? 8 : letter == 'b' ? 2 : 10;
    if (byte_at(x, at) == '0') {
        if (*base != 10) {
            size_t end = skip_digits(x, at + 2, *base, true);
            if (end > at + 2) return end;
            *base = 10;
        }
        return skip_digits(x, at, 1, false); /* only zeros: no other decimal begins with 0 */
    }
    return skip_digits(x, at, 10, false);
}

/* Adds a token for the number at x->at: a float, or an integer in base 10, 16, 8 or 2, in which _
 * may stand between digits. */
static void lex_number(Lexer *x) {
    int base = 0;
    size_t end = float_end(x, x->at);
    bool is_float = end > x->at;
    if (!is_float) end = integer_end(x, x->at, &base);
    char *digits = NEW_ARRAY(x->m, end - x->at + 1, char);
    size_t n = 0;
    for (size_t i = x->at; i < end; i++) {
        if (x->source.bytes[i] != '_') digits[n++] = (char)x->source.bytes[i];
    }
    Token *token = add_token(x, T_CONST, jinja_text_cut(x->source, x->at, end));
    if (is_float) {
        token->value = jinja_value_float(strtod(digits, NULL));
    } else {
        errno = 0;
        long long value = strtoll(digits + (base == 10 ? 0 : 2), NULL, base);
        if (errno == ERANGE) jinja_fail(x->m, "the integer %s is too large", digits);
        token->value = jinja_value_int(value);
    }
    x->at = end;
}

/* The character of \xHH, \uHHHH or \UHHHHHHHH, whose `n` digits begin at `at`. */
static uint32_t hex_escape(Lexer *x, Text t, size_t at, size_t n) {
    uint32_t c = 0;
    for (size_t i = 0; i < n; i++) {
        uint8_t digit = at + i < t.length ? t.bytes[at + i] : 'z';
        if (jinja_digit_value(digit) >= 16) jinja_fail(x->m, "truncated \\ escape in a string");
        c = c << 4 | (uint32_t)jinja_digit_value(digit);
    }
    if (c > 0x10FFFF || (c >= 0xD800 && c <= 0xDFFF)) {
        jinja_fail(x->m, "a string escapes U+%04X, which is not a character", c);
    }
    return c;
}

/* Replaces the escapes in the text between the quotes of a Python string literal. */
static Text unescape(Lexer *x, Text t) {
    static const char simple[] = "\\\\''\"\"a\ab\bf\fn\nr\rt\tv\v";
    Builder b = {0};
    for (size_t i = 0; i < t.length;) {
        const uint8_t *slash = memchr(t.bytes + i, '\\', t.length - i);
        size_t plain = slash ? (size_t)(slash - t.bytes) : t.length;
        jinja_build(x->m, &b, jinja_text_cut(t, i, plain));
        if (!slash) break;
        uint8_t c = t.bytes[plain + 1]; /* lex_string has seen to it that one follows */
        i = plain + 2;
        const char *found = NULL;
        for (const char *s = simple; *s; s += 2) {
            if ((uint8_t)*s == c) found = s + 1;
        }
        if (found) {
            jinja_build_bytes(x->m, &b, found, 1, FROM_TEMPLATE);
        } else if (c == '\n') {
            continue; /* the string continues on the next line */
        } else if (c >= '0' && c <= '7') {
            uint32_t value = c - '0';
            for (int n = 1; n < 3 && i < t.length && jinja_digit_value(t.bytes[i]) < 8; n++) {
                value = value * 8 + (t.bytes[i++] - '0');
            }
            jinja_build_char(x->m, &b, value, FROM_TEMPLATE);
        } else if (c == 'x' || c == 'u' || c == 'U') {
            size_t n = c == 'x' ? 2 : c == 'u' ? 4 : 8;
            jinja_build_char(x->m, &b, hex_escape(x, t, i, n), FROM_TEMPLATE);
            i += n;
        } else if (c == 'N') {
            jinja_fail(x->m, "\\N escapes are not supported");
        } else {
            i = plain + 1; /* an unknown escape stays as it is, with its backslash */
            jinja_build_c(x->m, &b, "\\", FROM_TEMPLATE);
        }
    }
    return jinja_built(&b);
}

static void lex_string(Lexer *x) {
    uint8_t quote = x->source.bytes[x->at];
    size_t end = x->at + 1;
    while (end < x->source.length && x->source.bytes[end] != quote) {
        end += 1 + (x->source.bytes[end] == '\\');
    }
    if (end >= x->source.length) jinja_fail(x->m, "unexpected char %c", quote);
    Text inside = jinja_text_cut(x->source, x->at + 1, end);
    Token *token = add_token(x, T_CONST, inside);
    token->value = jinja_value_text(x->m, unescape(x, inside));
    x->at = end + 1;
}

static bool lex_name(Lexer *x) {
    size_t end = x->at, size;
    while (end < x->source.length && jinja_char_is_word(jinja_text_char(x->source, end, &size)))
        end += size;
    if (end == x->at) return false;
    Text name = jinja_text_cut(x->source, x->at, end);
    if (!jinja_char_is_alpha(jinja_text_char(name, 0, &size)) && name.bytes[0] != '_') return false;
    add_token(x, T_NAME, name);
    x->at = end;
    return true;
}

/* Reads an operator or bracket. `open` is the stack of closing brackets that must still come.
 * Returns its new height. */
static size_t lex_operator(Lexer *x, char *open, size_t n_open) {
    static const char *const operators[] = {"//", "**", "==", "!=", ">=", "<=", "+", "-", "/",
                                            "*",  "%",  "~",  "[",  "]",  "(",  ")", "{", "}",
                                            ">",  "<",  "=",  ".",  ":",  "|",  ",", ";"};
    for (size_t i = 0; i < sizeof operators / sizeof *operators; i++) {
        if (!looking_at(x, x->at, operators[i])) continue;
        size_t length = strlen(operators[i]);
        char c = operators[i][0];
        if (strchr("([{", c)) {
            if (n_open == MAX_PARSE_DEPTH) jinja_fail(x->m, "the template is nested too deeply");
            open[n_open++] = c == '(' ? ')' : c == '[' ? ']' : '}';
        } else if (strchr(")]}", c) && (n_open == 0 || open[--n_open] != c)) {
            jinja_fail(x->m, "unexpected '%c'", c);
        }
        add_token(x, T_OPERATOR, jinja_text_cut(x->source, x->at, x->at + length));
        x->at += length;
        return n_open;
    }
    jinja_fail(x->m, "unexpected char at byte %zu", x->at);
}

/* Adds the tokens of a tag up to its end, which counts only outside of brackets. */
static void lex_tag(Lexer *x, TokenKind end_kind, const char *end) {
    char open[MAX_PARSE_DEPTH];
    size_t n_open = 0;
    while (x->at < x->source.length) {
        size_t after = n_open == 0 ? tag_end(x, x->at, end) : 0;
        if (after) {
            add_token(x, end_kind, jinja_text_c(x->m, end));
            move_to(x, after);
            return;
        }
        uint8_t c = x->source.bytes[x->at];
        size_t space = skip_space(x, x->at);
        if (space > x->at)
            x->at = space;
        else if (c >= '0' && c <= '9')
            lex_number(x);
        else if (c == '"' || c == '\'')
            lex_string(x);
        else if (!lex_name(x))
            n_open = lex_operator(x, open, n_open);
    }
}

/* ---- outside ---- */

static void lex_comment(Lexer *x, size_t tag) {
    lex_data(x, tag);
    size_t at = tag + 2, end = 0;
    if (byte_at(x, at) == '-' || byte_at(x, at) == '+') at++;
    while (at < x->source.length && !(end = tag_end(x, at, "#}"))) at++;
    if (at >= x->source.length) jinja_fail(x->m, "Missing end of comment tag");
    move_to(x, end);
}

static void lex_raw(Lexer *x, size_t tag, size_t after) {
    lex_data(x, tag);
    move_to(x, after);
    size_t end = 0;
    for (tag = after; tag < x->source.length; tag++) {
        if (looking_at(x, tag, "{%") && (end = word_tag(x, tag, "endraw"))) break;
    }
    if (!end) jinja_fail(x->m, "Missing end of raw directive");
    lex_data(x, tag);
    move_to(x, end);
}

/* Where the next tag begins, from `at` on; the end of the source if there is none. */
static size_t find_tag(const Lexer *x, size_t at) {
    for (; at + 1 < x->source.length; at++) {
        uint8_t next = x->source.bytes[at + 1];
        if (x->source.bytes[at] == '{' && (next == '{' || next == '%' || next == '#')) return at;
    }
    return x->source.length;
}

/* Adds the tokens of the whole template: data between tags, and the insides of {{ }} and {% %}. */
static void lex_template(Lexer *x) {
    while (x->at < x->source.length) {
        size_t tag = find_tag(x, x->at), raw = 0;
        if (tag == x->source.length) {
            Text rest = jinja_text_cut(x->source, x->at, tag);
            add_token(x, T_DATA, rest)->value = jinja_value_text(x->m, rest);
            x->at = tag;
        } else if (x->source.bytes[tag + 1] == '#') {
            lex_comment(x, tag);
        } else if (x->source.bytes[tag + 1] == '%' && (raw = word_tag(x, tag, "raw"))) {
            lex_raw(x, tag, raw);
        } else {
            bool is_print = x->source.bytes[tag + 1] == '{';
            lex_data(x, tag);
            x->at = tag;
            add_token(x, is_print ? T_PRINT_BEGIN : T_BLOCK_BEGIN,
                      jinja_text_cut(x->source, tag, tag + 2));
            x->at += 2;
            if (byte_at(x, x->at) == '-' || byte_at(x, x->at) == '+') x->at++;
            lex_tag(x, is_print ? T_PRINT_END : T_BLOCK_END, is_print ? "}}" : "%}");
        }
    }
}

/* \r\n and \r become \n, and one newline at the very end is dropped. */
static Text normalize_newlines(Machine *m, Text t) {
    Builder b = {0};
    for (size_t i = 0; i < t.length; i++) {
        bool is_return = t.bytes[i] == '\r';
        jinja_build_bytes(m, &b, is_return ? (const uint8_t *)"\n" : t.bytes + i, 1, FROM_TEMPLATE);
        if (is_return && i + 1 < t.length && t.bytes[i + 1] == '\n') i++;
    }
    if (b.length && b.bytes[b.length - 1] == '\n') b.length--;
    return jinja_built(&b);
}

Token *jinja_lex(Machine *m, Text source) {
    m->line = 1;
    Lexer x = {.m = m, .source = normalize_newlines(m, source), .line_start = true};
    lex_template(&x);
    add_token(&x, T_END, jinja_text_c(m, "end of template"));
    return x.tokens;
}
