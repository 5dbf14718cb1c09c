/* Oniguruma (Ruby syntax, used by the tokenizers library) and the regex crate (used by tiktoken)
 * differ from PCRE2 with UCP in these, which are translated; everything else is copied:
 *
 *     \s \w \b \h \v and POSIX classes hold other characters
 *     ^ and $ match at every line (Oniguruma) or only at the ends of the text (regex)
 *     classes may be nested and intersected
 *     names of scripts and properties
 *     characters after Unicode 14.0, which PCRE2 10.42 does not know
 * (formats/tokenizers/unicode_new.h) {n,m}+ repeats the repetition (Ruby) instead of being
 * possessive */
#define PCRE2_CODE_UNIT_WIDTH 8
#include "formats/tokenizers/tokenizer_regex.h"

#include <pcre2.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/unicode.h"
#include "formats/tokenizers/tokenizer_patterns.h"
#include "formats/tokenizers/unicode_new.h"

/* White_Space, as class items. PCRE2's own \s also holds U+180E. */
#define SPACE                                                                                      \
    "\\x09-\\x0d\\x20\\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}\\x{"    \
    "205f}\\x{3000}"
#define NOT_SPACE                                                                                  \
    "\\x00-\\x08\\x0e-\\x1f\\x21-\\x{84}\\x{86}-\\x{9f}\\x{a1}-\\x{167f}\\x{1681}-\\x{1fff}"       \
    "\\x{200b}-\\x{2027}\\x{202a}-\\x{202e}\\x{2030}-\\x{205e}\\x{2060}-\\x{2fff}"                 \
    "\\x{3001}-\\x{10ffff}"
/* Alphabetic, with the marks that became alphabetic after Unicode 14.0 and that Oniguruma knows. */
#define OLD_ALPHA                                                                                  \
    "\\p{Alphabetic}\\x{363}-\\x{36f}\\x{c04}\\x{f82}\\x{f83}\\x{1dd3}-\\x{1de6}\\x{11080}\\x{"    \
    "11081}"
#define ALPHA OLD_ALPHA NEW_ALPHABETIC
#define WORD "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}" NEW_WORD
#define RUST_WORD WORD "\\x{200c}\\x{200d}"
/* Outside brackets Oniguruma's \w uses an older table for Latin-1, which has the superscripts and
 * fractions in it. */
#define ONIGURUMA_WORD WORD "\\x{b2}\\x{b3}\\x{b9}\\x{bc}-\\x{be}"

typedef struct Regex {
    const char *p, *end; /* the rest of the pattern */
    RegexFlavour flavour;
    TextBuffer out;
    int depth;           /* of nested classes */
    bool bare;           /* outside brackets */
    const char *refused; /* what stopped the translation; NULL: nothing */
} Regex;

static void emit(Regex *r, const char *text) {
    text_put(&r->out, text, strlen(text), 0);
}

static bool regex_refuse(Regex *r, const char *what) {
    if (!r->refused) r->refused = what;
    return false;
}

static bool starts(const Regex *r, const char *text) {
    size_t n = strlen(text);
    return (size_t)(r->end - r->p) >= n && memcmp(r->p, text, n) == 0;
}

/* The items of a class with that name, as they stand within brackets; NULL: not known. `word` are
 * the items of the class "word". */
static const char *named_class(const char *name, size_t n, const char *word) {
    static const struct {
        const char *name, *items;
    } classes[] = {
        {"alpha", ALPHA},
        {"alphabetic", ALPHA},
        {"digit", "\\p{Nd}" NEW_ND},
        {"alnum", OLD_ALPHA "\\p{Nd}" NEW_ALNUM},
        {"upper", "\\p{Uppercase}" NEW_UPPERCASE},
        {"lower", "\\p{Lowercase}" NEW_LOWERCASE},
        {"space", SPACE},
        {"white_space", SPACE},
        {"blank", "\\p{Zs}\\t"},
        {"cntrl", "\\p{Cc}"},
        {"punct", "\\p{P}" NEW_P},
        {"xdigit", "0-9A-Fa-f"},
        {"word", NULL},
        {"ascii", "\\x00-\\x7f"},
        {"any", "\\x{0}-\\x{10ffff}"},
        {"l", "\\p{L}" NEW_L},
        {"letter", "\\p{L}" NEW_L},
        {"m", "\\p{M}" NEW_M},
        {"mark", "\\p{M}" NEW_M},
        {"n", "\\p{N}" NEW_N},
        {"number", "\\p{N}" NEW_N},
        {"p", "\\p{P}" NEW_P},
        {"punctuation", "\\p{P}" NEW_P},
        {"s", "\\p{S}" NEW_S},
        {"symbol", "\\p{S}" NEW_S},
        {"z", "\\p{Z}"},
        {"separator", "\\p{Z}"},
        {"lu", "\\p{Lu}" NEW_LU},
        {"uppercase_letter", "\\p{Lu}" NEW_LU},
        {"ll", "\\p{Ll}" NEW_LL},
        {"lowercase_letter", "\\p{Ll}" NEW_LL},
        {"lt", "\\p{Lt}"},
        {"titlecase_letter", "\\p{Lt}"},
        {"lm", "\\p{Lm}" NEW_LM},
        {"modifier_letter", "\\p{Lm}" NEW_LM},
        {"lo", "\\p{Lo}" NEW_LO},
        {"other_letter", "\\p{Lo}" NEW_LO},
        {"mn", "\\p{Mn}" NEW_MN},
        {"nonspacing_mark", "\\p{Mn}" NEW_MN},
        {"mc", "\\p{Mc}" NEW_MC},
        {"spacing_mark", "\\p{Mc}" NEW_MC},
        {"me", "\\p{Me}"},
        {"enclosing_mark", "\\p{Me}"},
        {"nd", "\\p{Nd}" NEW_ND},
        {"decimal_number", "\\p{Nd}" NEW_ND},
        {"nl", "\\p{Nl}"},
        {"letter_number", "\\p{Nl}"},
        {"no", "\\p{No}" NEW_NO},
        {"other_number", "\\p{No}" NEW_NO},
        {"pd", "\\p{Pd}" NEW_PD},
        {"dash_punctuation", "\\p{Pd}" NEW_PD},
        {"po", "\\p{Po}" NEW_PO},
        {"other_punctuation", "\\p{Po}" NEW_PO},
        {"sm", "\\p{Sm}" NEW_SM},
        {"math_symbol", "\\p{Sm}" NEW_SM},
        {"so", "\\p{So}" NEW_SO},
        {"other_symbol", "\\p{So}" NEW_SO},
        {"cc", "\\p{Cc}"},
        {"control", "\\p{Cc}"},
        {"cf", "\\p{Cf}" NEW_CF},
        {"format", "\\p{Cf}" NEW_CF},
        {"han", "\\p{sc:Han}" NEW_HAN},
        {"hiragana", "\\p{sc:Hiragana}" NEW_HIRAGANA},
        {"katakana", "\\p{sc:Katakana}" NEW_KATAKANA},
        {"latin", "\\p{sc:Latin}" NEW_LATIN},
        {"cyrillic", "\\p{sc:Cyrillic}" NEW_CYRILLIC},
        {"arabic", "\\p{sc:Arabic}" NEW_ARABIC},
    };
    for (size_t i = 0; i < sizeof classes / sizeof *classes; i++)
        if (strlen(classes[i].name) == n && strncasecmp(classes[i].name, name, n) == 0)
            return classes[i].items ? classes[i].items : word;
    return NULL;
}

/* The items of \w at this place of the pattern. */
static const char *word_items(const Regex *r) {
    return r->flavour == REGEX_RUST ? RUST_WORD : r->bare ? ONIGURUMA_WORD : WORD;
}

/* A class under construction: the items that PCRE2 takes inside one pair of brackets, and those
 * that it does not (nested negations and intersections) as alternatives, patterns of one character.
 */
typedef struct Class {
    TextBuffer items, others;
} Class;

static void class_add(Class *c, const char *items) {
    text_put(&c->items, items, strlen(items), 0);
}

static void class_other(Class *c, const char *pattern, size_t n) {
    text_put(&c->others, "|", c->others.length ? 1 : 0, 0);
    text_put(&c->others, pattern, n, 0);
}

/* Adds every character that the items do not contain. */
static void class_other_than(Class *c, const char *items) {
    TextBuffer other = {0};
    text_put(&other, "[^", 2, 0);
    text_put(&other, items, strlen(items), 0);
    text_put(&other, "]", 1, 0);
    if (!other.failed) class_other(c, other.bytes, other.length);
    text_free(&other);
}

/* Adds \p{NAME}, \P{NAME} or \pL to the class; r->p is after the 'p' or 'P'. */
static bool property(Regex *r, Class *c, bool negated) {
    char text[96] = "";
    const char *name = r->p;
    size_t n = 1;
    if (r->p == r->end) return regex_refuse(r, "\\p");
    if (*r->p == '{') {
        const char *close = memchr(r->p, '}', (size_t)(r->end - r->p));
        if (!close || close - r->p > 40) return regex_refuse(r, "\\p{");
        name = r->p + 1;
        n = (size_t)(close - name);
        r->p = close + 1;
    } else {
        r->p++;
    }
    if (n > 0 && *name == '^') name++, n--, negated = !negated;
    for (size_t i = 0; i < n; i++)
        if (!((name[i] | 32) >= 'a' && (name[i] | 32) <= 'z') && name[i] != '_' && name[i] != '=' &&
            name[i] != ' ' && name[i] != '-')
            return regex_refuse(r, "a property name");
    const char *equals = memchr(name, '=', n);
    if (equals) n -= (size_t)(equals + 1 - name), name = equals + 1;
    const char *items = named_class(name, n, word_items(r));
    bool other = (n == 1 && (*name | 32) == 'c') || (n == 5 && strncasecmp(name, "other", 5) == 0);
    if (other || (n == 2 && strncasecmp(name, "cn", 2) == 0)) {
        /* PCRE2 takes these for unassigned; newer versions of Unicode assign them. */
        static const char any[] = "(?![" NEW_NOT_OTHER "])\\p{C}";
        static const char unassigned[] = "(?![" NEW_NOT_OTHER NEW_CF "])\\p{Cn}";
        if (negated)
            class_other_than(c, other ? "\\p{C}" : "\\p{Cn}");
        else
            class_other(c, other ? any : unassigned,
                        other ? sizeof any - 1 : sizeof unassigned - 1);
        if (negated) class_add(c, other ? NEW_NOT_OTHER : NEW_NOT_OTHER NEW_CF);
    } else if (items) {
        if (!negated) {
            class_add(c, items);
        } else if (items == named_class("space", 5, NULL)) {
            class_add(c, NOT_SPACE);
        } else {
            class_other_than(c, items);
        }
    } else { /* One or two letters are a general category; anything else is a script. */
        snprintf(text, sizeof text, "\\%c{%s%.*s}", negated ? 'P' : 'p',
                 n <= 2 ? "" : "sc:", (int)n, name);
        class_add(c, text);
    }
    return true;
}

/* Reads an escape that stands for one character (\n, \x41, \x{41}, \u0041, \0 and escaped
 * punctuation); r->p is after the backslash. False, with r->p unmoved, when it stands for something
 * else; false with r->refused set when it is malformed. */
static bool escaped_character(Regex *r, uint32_t *code) {
    static const char names[] = "tnrfvae", codes[] = "\t\n\r\f\v\a\x1b";
    char c = *r->p;
    const char *named = memchr(names, c, sizeof names - 1);
    if (named) {
        *code = (uint8_t)codes[named - names];
        r->p++;
        return true;
    }
    if (c == 'x' || c == 'u' || c == 'U') {
        const char *p = r->p + 1;
        bool braces = p < r->end && *p == '{';
        size_t most = braces ? 8 : c == 'x' ? 2 : c == 'u' ? 4 : 8, n = 0;
        uint32_t value = 0;
        for (p += braces; p < r->end && n < most; p++, n++) {
            int digit = *p >= '0' && *p <= '9'                 ? *p - '0'
                        : (*p | 32) >= 'a' && (*p | 32) <= 'f' ? (*p | 32) - 'a' + 10
                                                               : -1;
            if (digit < 0) break;
            value = value << 4 | (uint32_t)digit;
        }
        if (n == 0 || (braces && (p == r->end || *p != '}')) || value > 0x10FFFF ||
            (c == 'x' && !braces && value > 0x7F && r->flavour == REGEX_ONIGURUMA))
            return regex_refuse(r, "a hexadecimal escape");
        r->p = p + braces;
        *code = value;
        return true;
    }
    if (c == '0') {
        r->p++;
        *code = 0;
        return true;
    }
    if ((uint8_t)c < 0x80 && !((c | 32) >= 'a' && (c | 32) <= 'z') && !(c >= '0' && c <= '9')) {
        *code = (uint8_t)c;
        r->p++;
        return true;
    }
    return false;
}

static void put_literal(TextBuffer *out, uint32_t code) {
    char text[16];
    snprintf(text, sizeof text, "\\x{%x}", code);
    text_put(out, text, strlen(text), 0);
}

/* Adds an escape that is a set of characters (\s, \W, \p{..} ...); r->p is at its letter. */
static bool escaped_class(Regex *r, Class *c) {
    char letter = *r->p++;
    const char *word = word_items(r);
    switch (letter) {
    case 'p':
    case 'P':
        return property(r, c, letter == 'P');
    case 's':
        class_add(c, SPACE);
        return true;
    case 'S':
        class_add(c, NOT_SPACE);
        return true;
    case 'd':
        class_add(c, "\\p{Nd}" NEW_ND);
        return true;
    case 'D':
        class_other_than(c, "\\p{Nd}" NEW_ND);
        return true;
    case 'w':
        class_add(c, word);
        return true;
    case 'W':
        class_other_than(c, word);
        return true;
    case 'h':
        class_add(c, "0-9A-Fa-f");
        return r->flavour == REGEX_ONIGURUMA || regex_refuse(r, "\\h");
    case 'H':
        class_other_than(c, "0-9A-Fa-f");
        return r->flavour == REGEX_ONIGURUMA || regex_refuse(r, "\\H");
    default:
        return regex_refuse(r, "an escape");
    }
}

static bool class_body(Regex *r, TextBuffer *out);

/* Writes the class as a pattern of one character, and frees it. */
static void class_finish(Class *c, bool negated, TextBuffer *out) {
    bool items = c->items.length > 0, others = c->others.length > 0;
    if (!items && !others) {
        text_put(out, negated ? "[\\x{0}-\\x{10ffff}]" : "(?!)", negated ? 19 : 4, 0);
    } else if (!others) {
        text_put(out, negated ? "[^" : "[", negated ? 2 : 1, 0);
        text_put(out, c->items.bytes, c->items.length, 0);
        text_put(out, "]", 1, 0);
    } else {
        text_put(out, negated ? "(?:(?!" : "(?:", negated ? 6 : 3, 0);
        if (items) {
            text_put(out, "[", 1, 0);
            text_put(out, c->items.bytes, c->items.length, 0);
            text_put(out, "]|", 2, 0);
        }
        text_put(out, c->others.bytes, c->others.length, 0);
        text_put(out, negated ? ")(?s:.))" : ")", negated ? 8 : 1, 0);
    }
    text_free(&c->items);
    text_free(&c->others);
}

/* Adds a POSIX class, [:name:] or [:^name:]; r->p is at its '['. */
static bool posix_class(Regex *r, Class *c) {
    const char *name = r->p + 2, *close = name;
    while (close + 1 < r->end && !(close[0] == ':' && close[1] == ']')) close++;
    bool negated = name < r->end && *name == '^';
    name += negated;
    if (close + 1 >= r->end || close < name) return regex_refuse(r, "[:");
    size_t n = (size_t)(close - name);
    const char *items = named_class(name, n, WORD);
    if (n == 5 && memcmp(name, "punct", 5) == 0) items = "\\p{P}\\p{S}" NEW_P NEW_S;
    if (!items || r->flavour == REGEX_RUST) return regex_refuse(r, "a POSIX class");
    r->p = close + 2;
    if (negated) {
        class_other_than(c, items);
    } else {
        class_add(c, items);
    }
    return true;
}

/* Adds a class inside a class; r->p is at its '['. */
static bool nested_class(Regex *r, Class *c) {
    TextBuffer text = {0};
    r->p++;
    bool ok = class_body(r, &text);
    if (ok && text.bytes) class_other(c, text.bytes, text.length);
    text_free(&text);
    return ok;
}

static bool plain_character(Regex *r, uint32_t *code) {
    size_t n = utf8_decode(r->p, (size_t)(r->end - r->p), code);
    if (n == 0) return regex_refuse(r, "bytes that are not UTF-8");
    r->p += n;
    return true;
}

/* Reads the end of a range whose first character is `from`, if a hyphen and a character follow;
 * else *to is `from`. A hyphen before a set or a nested class is a plain hyphen. */
static bool range_end(Regex *r, uint32_t from, uint32_t *to) {
    *to = from;
    if (r->p + 1 >= r->end || r->p[0] != '-' || r->p[1] == ']' || r->p[1] == '[') return true;
    const char *hyphen = r->p++;
    if (*r->p == '\\') {
        r->p++;
        if (r->p == r->end || !escaped_character(r, to)) {
            if (r->refused) return false;
            r->p = hyphen;
            *to = from;
        }
    } else if (!plain_character(r, to)) {
        return false;
    }
    return *to >= from || regex_refuse(r, "a range out of order");
}

/* Adds one member of a class: a POSIX class, a nested class, an escape, a character or a range. */
static bool class_member(Regex *r, Class *c) {
    uint32_t code, to;
    if (starts(r, "[:")) return posix_class(r, c);
    if (*r->p == '[') return nested_class(r, c);
    if (*r->p == '\\') {
        if (++r->p == r->end) return regex_refuse(r, "a final backslash");
        if (*r->p == 'b') { /* within brackets a backspace */
            code = 8;
            r->p++;
        } else if (!escaped_character(r, &code)) {
            return !r->refused && escaped_class(r, c);
        }
    } else if (!plain_character(r, &code)) {
        return false;
    }
    if (!range_end(r, code, &to)) return false;
    put_literal(&c->items, code);
    if (to != code) text_put(&c->items, "-", 1, 0), put_literal(&c->items, to);
    return true;
}

/* Translates a class, from after its '[' to after its ']'. A&&B becomes a look-ahead for A before
 * B. */
static bool class_body(Regex *r, TextBuffer *out) {
    Class c = {0};
    TextBuffer before = {0}; /* the operands of && so far, as look-aheads */
    bool ok = true, first = true, negated = r->p < r->end && *r->p == '^';
    if (++r->depth > 50) return regex_refuse(r, "classes nested too deeply");
    r->p += negated;
    for (;; first = false) {
        if (!ok || r->p >= r->end) {
            ok = regex_refuse(r, "a class without an end");
            break;
        }
        if (*r->p == ']' && !first) break;
        if (starts(r, "&&")) {
            r->p += 2;
            text_put(&before, "(?=", 3, 0);
            class_finish(&c, false, &before);
            text_put(&before, ")", 1, 0);
            c = (Class){0};
        } else {
            ok = class_member(r, &c);
        }
    }
    if (ok) r->p++;
    if (before.length == 0) {
        class_finish(&c, negated, out);
    } else {
        if (negated) text_put(out, "(?:(?!", 6, 0);
        if (!negated) text_put(out, "(?:", 3, 0);
        text_put(out, before.bytes, before.length, 0);
        class_finish(&c, false, out);
        if (negated) text_put(out, ")(?s:.))", 8, 0);
        if (!negated) text_put(out, ")", 1, 0);
    }
    text_free(&before);
    r->depth--;
    return ok;
}

/* Inserts `text` into the output at `at`. */
static void insert(Regex *r, size_t at, const char *text) {
    size_t n = strlen(text), tail = r->out.length - at;
    text_put(&r->out, text, n, 0);
    if (r->out.failed) return;
    memmove(r->out.bytes + at + n, r->out.bytes + at, tail);
    memcpy(r->out.bytes + at, text, n);
}

/* Translates the quantifier of the atom that begins at `atom` in the output. */
static bool quantifier(Regex *r, size_t atom) {
    if (*r->p != '{') {
        text_put(&r->out, r->p++, 1, 0);
        if (r->p < r->end && (*r->p == '?' || *r->p == '+')) text_put(&r->out, r->p++, 1, 0);
        return true;
    }
    const char *close = memchr(r->p, '}', (size_t)(r->end - r->p));
    size_t n = close ? (size_t)(close - r->p) + 1 : 0;
    bool comma_first = n > 2 && r->p[1] == ',';
    bool counted = n >= 3 && strspn(r->p + 1, "0123456789,") == n - 2;
    if (!counted) { /* a literal brace */
        emit(r, "\\{");
        r->p++;
        return true;
    }
    text_put(&r->out, comma_first ? "{0" : "{", comma_first ? 2 : 1, 0);
    text_put(&r->out, r->p + 1, n - 1, 0);
    r->p = close + 1;
    if (r->p < r->end && *r->p == '+' && r->flavour == REGEX_ONIGURUMA) {
        insert(r, atom, "(?:");
        emit(r, ")+");
        r->p++;
    } else if (r->p < r->end && (*r->p == '?' || *r->p == '+')) {
        text_put(&r->out, r->p++, 1, 0);
    }
    return true;
}

/* Translates the beginning of a group: the parenthesis, its flags, look-around or name. */
static bool group(Regex *r) {
    emit(r, "(");
    r->p++;
    if (r->p < r->end && *r->p == '*') return regex_refuse(r, "a verb");
    if (r->p >= r->end || *r->p != '?') return true;
    emit(r, "?");
    r->p++;
    if (r->p >= r->end) return regex_refuse(r, "a group without an end");
    if (*r->p == 'C' || *r->p == '~' || *r->p == '{' || *r->p == '#' || *r->p == 'R' ||
        *r->p == '(' || *r->p == '|' || *r->p == '&' || (*r->p >= '0' && *r->p <= '9'))
        return regex_refuse(r, "a special group");
    if (strchr(":=!><P'", *r->p)) return true; /* the rest passes as ordinary text */
    for (; r->p < r->end && *r->p != ':' && *r->p != ')'; r->p++) {
        char c = *r->p;
        if (c == 'm' && r->flavour == REGEX_ONIGURUMA) c = 's';
        if (c != 'i' && c != 's' && c != '-' && c != 'u')
            return regex_refuse(r, "an inline option");
        if (c != 'u') text_put(&r->out, &c, 1, 0);
    }
    return true;
}

/* Translates an escape outside brackets; r->p is at the backslash. */
static bool escape(Regex *r) {
    uint32_t code;
    if (++r->p == r->end) return regex_refuse(r, "a final backslash");
    char c = *r->p;
    const char *word = r->flavour == REGEX_RUST ? "[" RUST_WORD "]" : "[" ONIGURUMA_WORD "]";
    if (c == 'b' || c == 'B') {
        const char *const parts[2][5] = {{"(?:(?<=", ")(?!", ")|(?<!", ")(?=", "))"},
                                         {"(?:(?<=", ")(?=", ")|(?<!", ")(?!", "))"}};
        for (int i = 0; i < 5; i++) {
            emit(r, parts[c == 'B'][i]);
            if (i < 4) emit(r, word);
        }
        r->p++;
        return true;
    }
    if (c == 'A' || c == 'z' || c == 'Z' || c == 'G' || c == 'R' || c == 'X' || c == 'K' ||
        c == 'N' || (c >= '1' && c <= '9') || c == 'k') {
        text_put(&r->out, "\\", 1, 0);
        text_put(&r->out, r->p++, 1, 0);
        return true;
    }
    if (escaped_character(r, &code)) {
        put_literal(&r->out, code);
        return true;
    }
    if (r->refused) return false;
    Class set = {0};
    r->bare = true;
    bool ok = escaped_class(r, &set);
    r->bare = false;
    class_finish(&set, false, &r->out);
    return ok;
}

/* Translates an expression into PCRE2's syntax, item by item. Quantifiers follow the item that they
 * apply to, which begins at `atom` in the output. */
static bool translate(Regex *r) {
    size_t atom = 0, groups[128], n_groups = 0;
    while (r->p < r->end && !r->out.failed) {
        char c = *r->p;
        size_t start = r->out.length;
        bool ok = true;
        if (c == '*' || c == '+' || c == '?' || c == '{') {
            if (!quantifier(r, atom)) return false;
            continue;
        }
        if (c == '\\') {
            ok = escape(r);
        } else if (c == '[') {
            r->p++;
            ok = class_body(r, &r->out);
        } else if (c == '(') {
            if (n_groups == 128) return regex_refuse(r, "groups nested too deeply");
            groups[n_groups++] = start;
            ok = group(r);
        } else if (c == ')') {
            if (n_groups > 0) start = groups[--n_groups];
            emit(r, ")");
            r->p++;
        } else if (c == '^' || c == '$') {
            bool lines = r->flavour == REGEX_ONIGURUMA;
            emit(r, c == '^' ? lines ? "(?:\\A|(?<=\\n)(?!\\z))" : "\\A"
                    : lines  ? "(?=\\n|\\z)"
                             : "\\z");
            r->p++;
        } else {
            const char *character = r->p;
            uint32_t code;
            if (!plain_character(r, &code)) return false;
            text_put(&r->out, character, (size_t)(r->p - character), 0);
        }
        if (!ok) return false;
        atom = start;
    }
    return true;
}

Status regex_translate(Builder *b, const char *pattern, size_t n, RegexFlavour flavour,
                       TextRange *out, Error *error) {
    Regex r = {.p = pattern, .end = pattern + n, .flavour = flavour};
    int shown = (int)(n < 300 ? n : 300), code;
    size_t offset;
    if (n > 1 << 16) return error_set(error, "tokenizer: a pattern of %zu bytes", n);
    /* For \s+$ a look-behind gives the same matches with one attempt for each run of spaces instead
     * of one for each space. */
    if (n == 4 && memcmp(pattern, "\\s+$", 4) == 0) emit(&r, "(?<![" SPACE "])");
    bool ok = translate(&r);
    Status status = STATUS_OK;
    if (r.out.failed)
        status = error_set(error, "tokenizer: out of memory");
    else if (!ok)
        status = error_set(error, "tokenizer: pattern '%.*s': PCRE2 cannot take %s", shown, pattern,
                           r.refused ? r.refused : "it");
    if (status == STATUS_OK) {
        pcre2_code *compiled =
            pcre2_compile((PCRE2_SPTR)(r.out.bytes ? r.out.bytes : ""), r.out.length,
                          PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C, &code, &offset, NULL);
        if (!compiled) {
            char why[128];
            pcre2_get_error_message(code, (PCRE2_UCHAR *)why, sizeof why);
            status = error_set(error, "tokenizer: pattern '%.*s': PCRE2 cannot take it: %s", shown,
                               pattern, why);
        }
        pcre2_code_free(compiled);
    }
    if (status == STATUS_OK) *out = builder_text(b, r.out.bytes, r.out.length);
    text_free(&r.out);
    return status;
}

TextRange regex_literal(Builder *b, const char *text, size_t n) {
    TextBuffer out = {0};
    uint32_t code;
    for (size_t at = 0, length; at < n; at += length) {
        if (!(length = utf8_decode(text + at, n - at, &code))) break;
        put_literal(&out, code);
    }
    TextRange range = builder_text(b, out.bytes ? out.bytes : "(?:)", out.bytes ? out.length : 4);
    text_free(&out);
    return range;
}

/* ---- Known patterns that would take quadratic time ---- */

/* Groups of three digits, counted from the right. The pattern in the files looks ahead to the end
 * of the digits at every match. Instead a first split takes out whole runs of digits; this pattern
 * then cuts such a run into the one or two leading digits and threes. */
#define THREES(digit)                                                                              \
    "\\A(?=" digit "++\\z)(?:" digit "{1,2}(?=(?:" digit "{3})++\\z)|" digit "{3}|" digit          \
    "{1,2}\\z)|\\G(?!\\A)" digit "{3}"

/* Empty matches before each group of three digits, counted from the right. The first of a run is
 * found from the run's start; each next one is three digits after the last. (After an empty match
 * the search goes on one character later, where \G matches.) */
#define CUTS                                                                                       \
    "(?<!\\d)(?:\\d{1,2}\\K)?(?=(?:\\d{3})++(?!\\d))|"                                             \
    "\\G(?!\\A)(?<=\\d)\\d{2}\\K(?=\\d{3})"

/* Patterns and what replaces them: one split, or two in a row. (Two cut a text as the one pattern
 * does only where every match becomes a word of its own, SPLIT_ISOLATED.)
 *
 * Jais 2: "\s*[\r\n]+" looks for a line's end after spaces. Where the last match ended in a
 * space that search has failed already, so a look-behind skips it. (Every character is in some
 * match, so \G there is after a match of the alternatives for spaces.) */
static const struct {
    const char *pattern, *first, *second;
} linear[] = {
    {"\\d{1,3}(?=(?:\\d{3})*\\b)", "(?<!\\d)\\d++\\b", THREES("\\d")},
    {"\\p{N}{1,3}(?=(?:\\p{N}{3})*(?!\\p{N}))", "\\p{N}++", THREES("\\p{N}")},
    {"(?=(\\d{3})+(?!\\d))", CUTS, NULL},
    {PATTERN_JAIS2,
     PATTERN_JAIS2_WORDS "(?!\\G(?<=[^\\S\\r\\n]))\\s*[\\r\\n]+|" PATTERN_JAIS2_SPACES, NULL},
};

static Status add_split(Builder *b, const char *pattern, size_t n, RegexFlavour flavour,
                        uint32_t flags, Error *error) {
    TextRange range;
    if (regex_translate(b, pattern, n, flavour, &range, error) != STATUS_OK) return STATUS_FAILED;
    if (builder_split(b, SPLIT_PATTERN, flags, range)) return STATUS_OK;
    return error_set(error, "tokenizer: more than %d splits", SECTION_MAX_STEPS);
}

Status regex_split(Builder *b, const char *pattern, size_t n, RegexFlavour flavour, uint32_t flags,
                   Error *error) {
    for (size_t i = 0; i < sizeof linear / sizeof *linear; i++) {
        const char *first = linear[i].first, *second = linear[i].second;
        if (strlen(linear[i].pattern) != n || memcmp(linear[i].pattern, pattern, n) != 0 ||
            (second && flags != SPLIT_ISOLATED))
            continue;
        if (add_split(b, first, strlen(first), flavour, flags, error) != STATUS_OK)
            return STATUS_FAILED;
        if (!second) return STATUS_OK;
        return add_split(b, second, strlen(second), flavour, flags, error);
    }
    return add_split(b, pattern, n, flavour, flags, error);
}
