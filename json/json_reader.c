#include "json/json_reader.h"

#include <errno.h>
#include <float.h>
#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/unicode.h"
#include "json/json_digits.h"

/* As jansson's. */
enum { MOST_LEVELS = 2048, MOST_CONTEXT = 20 };

typedef enum TokenKind {
    TOKEN_END,
    TOKEN_WRONG,
    TOKEN_SIGN, /* one of []{}:, */
    TOKEN_TEXT,
    TOKEN_INTEGER,
    TOKEN_REAL,
    TOKEN_TRUE,
    TOKEN_FALSE,
    TOKEN_NULL,
    TOKEN_INFINITY,
    TOKEN_NAN /* of Python */
} TokenKind;

/* Where the reader is: the characters before `at` have been read. */
typedef struct Place {
    size_t at;
    int position, line, column, last_column; /* for errors */
} Place;

typedef struct Reader {
    const char *text;
    size_t length;
    size_t flags;
    bool any_number;     /* of any size */
    JsonDigits *digits;  /* of the numbers that are noted; NULL: none is */
    json_error_t *where; /* NULL: nobody asks */
    bool told;           /* the first error, which counts */
    bool broken;         /* the text is not UTF-8 at the place */
    Place place;
    size_t checked;                /* bytes of whole characters */
    size_t token_begin, token_end; /* bytes of the token, as far as it is right */
    TokenKind kind;
    char sign;
    char *value; /* of TOKEN_TEXT, [value_length]; has room for the whole document */
    size_t value_length;
    json_int_t integer;
    double real;
    int level;
} Reader;

/* ---- Errors ---- */

static void set_error(json_error_t *where, const Place *place, enum json_error_code code,
                      const char *text) {
    where->line = place->line;
    where->column = place->column;
    where->position = place->position;
    memcpy(where->text, text, strnlen(text, sizeof where->text - 2) + 1);
    where->text[sizeof where->text - 1] = (char)code; /* where json_error_code finds it */
}

/* Notes an error, with what was read of the token; always NULL. */
__attribute__((format(printf, 3, 4))) static json_t *json_fails(Reader *r,
                                                                enum json_error_code code,
                                                                const char *format, ...) {
    char text[JSON_ERROR_TEXT_LENGTH - 40], whole[JSON_ERROR_TEXT_LENGTH];
    size_t n = r->token_end - r->token_begin;
    va_list list;
    if (!r->where || r->told) return NULL;
    r->told = true;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    snprintf(whole, sizeof whole, "%s", text);
    if (n > 0 && r->text[r->token_begin]) {
        const char *token = r->text + r->token_begin;
        if (n <= MOST_CONTEXT)
            snprintf(whole, sizeof whole, "%s near '%.*s'", text, (int)strnlen(token, n), token);
    } else {
        if (code == json_error_invalid_syntax) code = json_error_premature_end_of_input;
        if (!r->broken) snprintf(whole, sizeof whole, "%s near end of file", text);
    }
    set_error(r->where, &r->place, code, whole);
    return NULL;
}

static json_t *no_memory(Reader *r) {
    if (r->where && !r->told)
        set_error(r->where, &r->place, json_error_out_of_memory, "no memory for JSON");
    r->told = true;
    return NULL;
}

/* ---- Characters ---- */

enum { AT_END = -1, AT_BROKEN = -2 };

/* Reads the next byte, or returns AT_END or AT_BROKEN. A character's UTF-8 is checked at its first
 * byte. */
static int next_byte(Reader *r) {
    Place *p = &r->place;
    if (r->broken) return AT_BROKEN;
    if (p->at == r->length) return AT_END;
    int c = (unsigned char)r->text[p->at];
    if (p->at >= r->checked) {
        uint32_t code;
        size_t n = utf8_decode(r->text + p->at, r->length - p->at, &code);
        r->checked = p->at + n;
        r->broken = n == 0;
        if (r->broken) {
            json_fails(r, json_error_invalid_utf8, "unable to decode byte 0x%x", (unsigned)c);
            return AT_BROKEN;
        }
    }
    p->at++;
    p->position++;
    if (c == '\n') {
        p->line++;
        p->last_column = p->column;
        p->column = 0;
    } else if (!utf8_continues((char)c)) {
        p->column++;
    }
    return c;
}

/* Undoes next_byte, which returned c. */
static void unread(Reader *r, int c) {
    Place *p = &r->place;
    if (c < 0) return;
    p->at--;
    p->position--;
    if (c == '\n') {
        p->line--;
        p->column = p->last_column;
    } else if (!utf8_continues((char)c)) {
        p->column--;
    }
}

/* Reads the next byte and makes it the token's last. */
static int next_of_token(Reader *r) {
    int c = next_byte(r);
    if (c >= 0) r->token_end = r->place.at;
    return c;
}

/* Undoes next_of_token, which returned c. */
static void unread_of_token(Reader *r, int c) {
    if (c < 0) return;
    unread(r, c);
    r->token_end = r->place.at;
}

static bool is_digit(int c) {
    return c >= '0' && c <= '9';
}

static bool is_letter(int c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static int hex_value(int c) {
    return is_digit(c)            ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

/* ---- Tokens ---- */

/* Reads a string up to its closing quote and checks its escapes; the first quote has been read. */
static bool find_text_end(Reader *r) {
    int c = next_of_token(r);
    while (c != '"') {
        if (c == AT_BROKEN) return false;
        if (c == AT_END) {
            json_fails(r, json_error_premature_end_of_input, "premature end of input");
            return false;
        }
        if (c <= 0x1F) {
            unread_of_token(r, c);
            if (c == '\n')
                json_fails(r, json_error_invalid_syntax, "unexpected newline");
            else
                json_fails(r, json_error_invalid_syntax, "control character 0x%x", (unsigned)c);
            return false;
        }
        if (c == '\\') {
            c = next_of_token(r);
            bool is_code = c == 'u';
            bool known = c > 0 && strchr("\"\\/bfnrtu", c);
            if (known) c = next_of_token(r);
            for (int i = 0; is_code && known && i < 4; i++) {
                known = hex_value(c) >= 0;
                if (known) c = next_of_token(r);
            }
            if (!known) {
                json_fails(r, json_error_invalid_syntax, "invalid escape");
                return false;
            }
        } else {
            c = next_of_token(r);
        }
    }
    return true;
}

/* The 16 bits of \uXXXX, whose digits have been checked. */
static unsigned code_unit(const char *digits) {
    unsigned value = 0;
    for (int i = 0; i < 4; i++) value = value * 16 + (unsigned)hex_value((unsigned char)digits[i]);
    return value;
}

/* Decodes the escape \uXXXX (of a surrogate pair: both) at text[*i] and moves *i past it. False:
 * a surrogate stands alone. */
static bool decode_unicode_escape(Reader *r, const char *text, size_t *i) {
    unsigned first = code_unit(text + *i + 2), second = 0;
    bool is_high = first >= 0xD800 && first <= 0xDBFF;
    *i += 6;
    if (first >= 0xD800 && first <= 0xDFFF && r->flags & JSON_READER_LONE_SURROGATES) {
        bool has_low = is_high && text[*i] == '\\' && text[*i + 1] == 'u';
        if (has_low) second = code_unit(text + *i + 2);
        if (second < 0xDC00 || second > 0xDFFF) {
            r->value_length += utf8_encode(0xFFFD, r->value + r->value_length);
            return true;
        }
    }
    if (is_high && text[*i] == '\\' && text[*i + 1] == 'u') {
        second = code_unit(text + *i + 2);
        *i += 6;
        if (second < 0xDC00 || second > 0xDFFF) {
            json_fails(r, json_error_invalid_syntax, "invalid Unicode '\\u%04X\\u%04X'", first,
                       second);
            return false;
        }
        first = 0x10000 + ((first - 0xD800) << 10) + (second - 0xDC00);
    } else if (first >= 0xD800 && first <= 0xDFFF) {
        json_fails(r, json_error_invalid_syntax, "invalid Unicode '\\u%04X'", first);
        return false;
    }
    r->value_length += utf8_encode(first, r->value + r->value_length);
    return true;
}

/* Reads a string, whose first quote has been read, and decodes it into r->value. */
static TokenKind read_text(Reader *r) {
    static const char escapes[] = "bfnrt", meant[] = "\b\f\n\r\t";
    if (!find_text_end(r)) return TOKEN_WRONG;
    const char *text = r->text;
    r->value_length = 0;
    for (size_t i = r->token_begin + 1; i < r->token_end - 1;) {
        if (text[i] != '\\') {
            r->value[r->value_length++] = text[i++];
        } else if (text[i + 1] == 'u') {
            if (!decode_unicode_escape(r, text, &i)) return TOKEN_WRONG;
        } else {
            const char *found = strchr(escapes, text[i + 1]);
            r->value[r->value_length++] = found ? meant[found - escapes] : text[i + 1];
            i += 2;
        }
    }
    return TOKEN_TEXT;
}

/* The token's bytes with a zero after them; they lie in `value`, whose text has been taken. */
static const char *token_text(Reader *r) {
    size_t n = r->token_end - r->token_begin;
    memcpy(r->value, r->text + r->token_begin, n);
    r->value[n] = '\0';
    return r->value;
}

static TokenKind read_real(Reader *r) {
    errno = 0;
    r->real = strtod(token_text(r), NULL);
    if (r->any_number && isinf(r->real)) r->real = r->real < 0 ? -DBL_MAX : DBL_MAX;
    if (errno != ERANGE || !isinf(r->real)) return TOKEN_REAL;
    json_fails(r, json_error_numeric_overflow, "real number overflow");
    return TOKEN_WRONG;
}

static TokenKind read_integer(Reader *r) {
    errno = 0;
    r->integer = strtoll(token_text(r), NULL, 10);
    if (errno != ERANGE) return TOKEN_INTEGER;
    if (r->any_number) return read_real(r);
    if (r->flags & JSON_READER_PYTHON) {
        r->real = strtod(token_text(r), NULL);
        return isinf(r->real) ? TOKEN_INFINITY : TOKEN_REAL;
    }
    json_fails(r, json_error_numeric_overflow,
               r->integer < 0 ? "too big negative integer" : "too big integer");
    return TOKEN_WRONG;
}

static int skip_digits(Reader *r) {
    int c = next_of_token(r);
    while (is_digit(c)) c = next_of_token(r);
    return c;
}

/* Reads a JSON number, whose first byte c has been read: a sign, digits without a leading zero, a
 * fraction and an exponent. A wrong number's token ends before the byte that is wrong. */
static TokenKind read_number(Reader *r, int c) {
    if (c == '-') c = next_of_token(r);
    bool is_zero = c == '0', is_number = is_digit(c);
    if (is_zero) c = next_of_token(r);
    if (!is_number || (is_zero && is_digit(c))) {
        unread_of_token(r, c);
        return TOKEN_WRONG;
    }
    if (!is_zero) c = skip_digits(r);
    if (!(r->flags & JSON_DECODE_INT_AS_REAL) && c != '.' && c != 'e' && c != 'E') {
        unread_of_token(r, c);
        return read_integer(r);
    }
    if (c == '.') {
        c = next_of_token(r);
        if (!is_digit(c)) {
            unread_of_token(r, c);
            return TOKEN_WRONG;
        }
        c = skip_digits(r);
    }
    if (c == 'e' || c == 'E') {
        c = next_of_token(r);
        if (c == '+' || c == '-') c = next_of_token(r);
        if (!is_digit(c)) {
            unread_of_token(r, c);
            return TOKEN_WRONG;
        }
        c = skip_digits(r);
    }
    unread_of_token(r, c);
    return read_real(r);
}

/* Reads true, false or null, whose first letter has been read. */
static TokenKind read_word(Reader *r) {
    static const struct {
        const char *word;
        TokenKind kind;
    } words[] = {{"true", TOKEN_TRUE}, {"false", TOKEN_FALSE}, {"null", TOKEN_NULL}};
    int c = next_of_token(r);
    while (is_letter(c)) c = next_of_token(r);
    unread_of_token(r, c);
    size_t n = r->token_end - r->token_begin;
    for (size_t i = 0; i < 3; i++)
        if (strlen(words[i].word) == n && memcmp(words[i].word, r->text + r->token_begin, n) == 0)
            return words[i].kind;
    return TOKEN_WRONG;
}

/* Reads a word that Python writes for a number which JSON lacks, and whose first byte has been
 * read. False: none begins here, and nothing is read. */
static bool read_python_word(Reader *r) {
    static const struct {
        const char *word;
        TokenKind kind;
    } words[] = {{"-Infinity", TOKEN_INFINITY}, {"Infinity", TOKEN_INFINITY}, {"NaN", TOKEN_NAN}};
    if (!(r->flags & JSON_READER_PYTHON)) return false;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        size_t n = strlen(words[i].word);
        if (r->length - r->token_begin < n ||
            memcmp(r->text + r->token_begin, words[i].word, n) != 0)
            continue;
        for (size_t k = 1; k < n; k++) next_of_token(r);
        r->kind = words[i].kind;
        return true;
    }
    return false;
}

/* Skips white space and reads the next token: sets r->kind, and the token's bytes from token_begin
 * to token_end. */
static void next_token(Reader *r) {
    int c;
    r->token_begin = r->token_end = r->place.at; /* empty: errors name the end of the text */
    do {
        c = next_byte(r);
    } while (c == ' ' || c == '\t' || c == '\n' || c == '\r');
    r->token_begin = r->token_end = r->place.at;
    if (c < 0) {
        r->kind = c == AT_END ? TOKEN_END : TOKEN_WRONG;
        return;
    }
    r->token_begin = r->place.at - 1;
    if (c && strchr("[]{}:,", c)) {
        r->kind = TOKEN_SIGN;
        r->sign = (char)c;
    } else if (c == '"') {
        r->kind = read_text(r);
    } else if ((c == '-' || c == 'I' || c == 'N') && read_python_word(r)) {
        return;
    } else if (is_digit(c) || c == '-') {
        r->kind = read_number(r, c);
    } else if (is_letter(c)) {
        r->kind = read_word(r);
    } else { /* the whole character is wrong */
        uint32_t code;
        r->kind = TOKEN_WRONG;
        size_t n = utf8_decode(r->text + r->token_begin, r->length - r->token_begin, &code);
        r->place.position += (int)n - 1;
        r->place.at = r->token_end = r->token_begin + n;
    }
}

static bool is_sign(const Reader *r, char sign) {
    return r->kind == TOKEN_SIGN && r->sign == sign;
}

/* ---- Values ---- */

static json_t *read_value(Reader *r);

/* Reads a member whose name is the token; false: an error. */
static bool read_member(Reader *r, json_t *object) {
    if (r->kind != TOKEN_TEXT) {
        json_fails(r, json_error_invalid_syntax, "string or '}' expected");
        return false;
    }
    if (memchr(r->value, '\0', r->value_length)) {
        json_fails(r, json_error_null_byte_in_key, "NUL byte in object key not supported");
        return false;
    }
    r->value[r->value_length] = '\0';
    if (r->flags & JSON_REJECT_DUPLICATES && json_object_get(object, r->value)) {
        json_fails(r, json_error_duplicate_key, "duplicate object key");
        return false;
    }
    /* The name must outlive the value's tokens, which use the same buffer. */
    json_t *name = json_stringn_nocheck(r->value, r->value_length);
    if (!name) return no_memory(r) != NULL;
    next_token(r);
    json_t *value = NULL;
    if (is_sign(r, ':')) {
        next_token(r);
        value = read_value(r);
    } else {
        json_fails(r, json_error_invalid_syntax, "':' expected");
    }
    bool is_set = value && json_object_set_new_nocheck(object, json_string_value(name), value) == 0;
    if (value && !is_set) no_memory(r);
    json_decref(name);
    return is_set;
}

static json_t *read_object(Reader *r) {
    json_t *object = json_object();
    if (!object) return no_memory(r);
    next_token(r);
    if (is_sign(r, '}')) return object;
    while (true) {
        if (!read_member(r, object)) break;
        next_token(r);
        if (is_sign(r, '}')) return object;
        if (!is_sign(r, ',')) {
            json_fails(r, json_error_invalid_syntax, "'}' expected");
            break;
        }
        next_token(r);
    }
    json_decref(object);
    return NULL;
}

/* Reads an array from after its '[' to its ']'. Returns NULL after an error. */
static json_t *read_array(Reader *r) {
    json_t *array = json_array();
    if (!array) return no_memory(r);
    next_token(r);
    if (is_sign(r, ']')) return array;
    while (r->kind != TOKEN_END) {
        json_t *item = read_value(r);
        if (!item) break;
        if (json_array_append_new(array, item) != 0) {
            no_memory(r);
            break;
        }
        next_token(r);
        if (is_sign(r, ']')) return array;
        if (!is_sign(r, ',')) break;
        next_token(r);
    }
    if (!r->told && !is_sign(r, ']')) json_fails(r, json_error_invalid_syntax, "']' expected");
    json_decref(array);
    return NULL;
}

static json_t *read_string(Reader *r) {
    if (!(r->flags & JSON_ALLOW_NUL) && memchr(r->value, '\0', r->value_length))
        return json_fails(r, json_error_null_character,
                          "\\u0000 is not allowed without JSON_ALLOW_NUL");
    json_t *text = json_stringn_nocheck(r->value, r->value_length);
    return text ? text : no_memory(r);
}

/* The number that the token is. Its digits are noted unless it is an integer that jansson writes
 * with the same ones. */
static json_t *number_value(Reader *r) {
    json_t *number = r->kind == TOKEN_INTEGER ? json_integer(r->integer) : json_real(r->real);
    const char *text = r->text + r->token_begin;
    size_t n = r->token_end - r->token_begin;
    bool is_plain = r->kind == TOKEN_INTEGER && (r->integer != 0 || n == 1);
    bool is_noted = r->digits && !is_plain;
    if (is_noted && r->flags & JSON_READER_WHOLE_NUMBERS)
        is_noted = !memchr(text, '.', n) && !memchr(text, 'e', n) && !memchr(text, 'E', n);
    if (number && is_noted && !json_digits_note(r->digits, number, text, n)) {
        json_decref(number);
        number = NULL;
    }
    return number ? number : no_memory(r);
}

/* Reads the value that the token begins. */
static json_t *read_value(Reader *r) {
    json_t *value = NULL;
    if (++r->level > MOST_LEVELS)
        return json_fails(r, json_error_stack_overflow, "maximum parsing depth reached");
    switch (r->kind) {
    case TOKEN_TEXT:
        value = read_string(r);
        break;
    case TOKEN_INTEGER:
    case TOKEN_REAL:
        value = number_value(r);
        break;
    case TOKEN_TRUE:
        value = json_true();
        break;
    case TOKEN_FALSE:
        value = json_false();
        break;
    case TOKEN_NULL:
        value = json_null();
        break;
    case TOKEN_INFINITY:
    case TOKEN_NAN:
        value = r->kind == TOKEN_NAN ? json_object() : json_array();
        if (!value) no_memory(r);
        break;
    case TOKEN_WRONG:
        return json_fails(r, json_error_invalid_syntax, "invalid token");
    default:
        if (is_sign(r, '{'))
            value = read_object(r);
        else if (is_sign(r, '['))
            value = read_array(r);
        else
            return json_fails(r, json_error_invalid_syntax, "unexpected token");
    }
    r->level--;
    return value;
}

static json_t *read_document(Reader *r) {
    next_token(r);
    if (!(r->flags & JSON_DECODE_ANY) && !is_sign(r, '[') && !is_sign(r, '{'))
        return json_fails(r, json_error_invalid_syntax, "'[' or '{' expected");
    json_t *value = read_value(r);
    if (!value) return NULL;
    if (!(r->flags & JSON_DISABLE_EOF_CHECK)) {
        next_token(r);
        if (r->kind != TOKEN_END) {
            json_fails(r, json_error_end_of_input_expected, "end of file expected");
            json_decref(value);
            return NULL;
        }
    }
    if (r->where) r->where->position = r->place.position;
    return value;
}

static json_t *read_whole(Reader *r) {
    json_malloc_t allocate; /* jansson's, which a program of ours ends in where memory is short */
    json_free_t release;
    json_get_alloc_funcs(&allocate, &release);
    if (r->where) {
        *r->where = (json_error_t){.line = -1, .column = -1};
        snprintf(r->where->source, sizeof r->where->source, "<buffer>");
    }
    r->place.line = 1;
    r->value = r->length < SIZE_MAX ? allocate(r->length + 1) : NULL;
    if (!r->value) return no_memory(r);
    json_t *value = read_document(r);
    release(r->value);
    return value;
}

json_t *json_reader_load(const char *text, size_t length, size_t flags, json_error_t *where) {
    Reader r = {.text = text, .length = length, .flags = flags, .where = where};
    return read_whole(&r);
}

json_t *json_reader_load_digits(const char *text, size_t length, size_t flags, JsonDigits *digits,
                                json_error_t *where) {
    Reader r = {.text = text,
                .length = length,
                .flags = flags,
                .any_number = true,
                .digits = digits,
                .where = where};
    return read_whole(&r);
}

const char *json_reader_word(const json_t *value) {
    const char *text = json_string_value(value);
    return text && strlen(text) == json_string_length(value) ? text : NULL;
}
