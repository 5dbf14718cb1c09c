#include "constraint/pattern.h"

#include <string.h>

#include "base/unicode.h"

enum { MOST_DEPTH = 200, MOST_REPEATS = 100000 };
/* What a look at all characters counts as, how many names of categories there are, and what copying
 * a range of one counts as. */
enum { CATEGORY_STEPS = 30000, MOST_CATEGORIES = 40, RANGE_STEPS = 8 };

/* An expression with its anchors: at[s][e] are the texts matched where ^ (s) and $ (e) were
 * required at its ends. */
typedef struct Anchored {
    Regex at[2][2];
} Anchored;

/* The characters of a category of Unicode, which take long to find. */
typedef struct Category {
    char name[2];
    size_t length;
    CharSet set;
} Category;

typedef struct Parser {
    RegexArena *arena;
    const char *text;
    size_t length, at;
    Writing writing;
    Error *error;
    unsigned depth; /* of groups */
    unsigned ahead; /* lookaheads that the rest of a sequence follows */
    Regex any;      /* any character, any number of times */
    bool loose;     /* PATTERN_PART_LOOSE */
    Regex around;   /* what may stand before and after a match */
    bool has_empty_class;
    size_t empty_class;                   /* where its first [] is */
    Category categories[MOST_CATEGORIES]; /* that the pattern has used */
    size_t n_categories;
} Parser;

static Status pattern_refuse(Parser *p, size_t at, const char *what) {
    return error_set(p->error, "%s, at byte %zu of the pattern", what, at);
}

static bool next_is(const Parser *p, char c) {
    return p->at < p->length && p->text[p->at] == c;
}

static bool pattern_take(Parser *p, char c) {
    if (!next_is(p, c)) return false;
    p->at++;
    return true;
}

static bool take_text(Parser *p, const char *text) {
    size_t n = strlen(text);
    if (p->length - p->at < n || memcmp(p->text + p->at, text, n) != 0) return false;
    p->at += n;
    return true;
}

static Status next_char(Parser *p, uint32_t *code) {
    size_t n = utf8_decode(p->text + p->at, p->length - p->at, code);
    if (n == 0)
        return pattern_refuse(p, p->at,
                              p->at == p->length ? "it ends too early" : "it is not UTF-8");
    p->at += n;
    return STATUS_OK;
}

static bool take_hex(Parser *p, size_t n, uint32_t *code) {
    if (!charset_hex(p->text + p->at, p->length - p->at, n, code)) return false;
    p->at += n;
    return true;
}

/* \xHH, \uHHHH (perhaps a surrogate pair), \u{H...}; the letter was read. */
static Status hex_escape(Parser *p, char letter, uint32_t *code) {
    size_t start = p->at;
    uint32_t low = 0;
    if (letter == 'x' && take_hex(p, 2, code)) return STATUS_OK;
    if (letter == 'u' && pattern_take(p, '{')) {
        size_t n = 6;
        while (n > 0 && !take_hex(p, n, code)) n--;
        if (n > 0 && pattern_take(p, '}') && *code <= 0x10FFFF) return STATUS_OK;
    } else if (letter == 'u' && take_hex(p, 4, code)) {
        size_t before = p->at;
        if (*code >= 0xD800 && *code < 0xDC00 && take_text(p, "\\u") && take_hex(p, 4, &low)) {
            if (low >= 0xDC00 && low < 0xE000)
                *code = 0x10000 + ((*code - 0xD800) << 10) + (low - 0xDC00);
            else
                p->at = before;
        }
        return STATUS_OK;
    }
    return pattern_refuse(p, start, "an escape \\x or \\u has wrong digits");
}

static void add_digits(CharSet *set) {
    charset_add(set, '0', '9');
}

static void add_word(CharSet *set) {
    add_digits(set);
    charset_add(set, 'A', 'Z');
    charset_add(set, 'a', 'z');
    charset_add(set, '_', '_');
}

static void add_space(CharSet *set) {
    static const CharRange space[] = {
        {9, 13},          {32, 32},         {0xA0, 0xA0},     {0x1680, 0x1680}, {0x2000, 0x200A},
        {0x2028, 0x2029}, {0x202F, 0x202F}, {0x205F, 0x205F}, {0x3000, 0x3000}, {0xFEFF, 0xFEFF}};
    for (size_t i = 0; i < sizeof space / sizeof *space; i++)
        charset_add(set, space[i].from, space[i].to);
}

static void add_line_ends(CharSet *set) {
    charset_add(set, '\n', '\n');
    charset_add(set, '\r', '\r');
    charset_add(set, 0x2028, 0x2029);
}

/* Adds a category to the set. */
static Status add_category(Parser *p, CharSet *set, const char *name, size_t length, size_t start) {
    Category *c = NULL;
    for (size_t i = 0; i < p->n_categories && !c; i++)
        if (p->categories[i].length == length && memcmp(p->categories[i].name, name, length) == 0)
            c = &p->categories[i];
    if (!c) {
        CharSet found = {0};
        if (!regex_count_work(p->arena, CATEGORY_STEPS))
            return pattern_refuse(p, start, p->arena->failed);
        if (p->n_categories == MOST_CATEGORIES || !charset_add_category(&found, name, length)) {
            charset_free(&found);
            return pattern_refuse(p, start, "this \\p property is not supported");
        }
        c = &p->categories[p->n_categories++];
        memcpy(c->name, name, length);
        c->length = length;
        c->set = found;
    }
    if (!regex_count_work(p->arena, RANGE_STEPS * c->set.n))
        return pattern_refuse(p, start, p->arena->failed);
    charset_add_all(set, &c->set);
    return STATUS_OK;
}

/* Takes the NAME of \p{NAME}, \p{KEY=NAME} or, of one letter, \pN; the p was read. */
static Status take_property(Parser *p, const char **name, size_t *length) {
    size_t start = p->at;
    *name = p->text + p->at;
    if (!pattern_take(p, '{')) {
        *length = p->at < p->length;
        p->at += *length;
        return STATUS_OK;
    }
    ++*name;
    const char *end = memchr(*name, '}', p->length - p->at);
    if (!end) return pattern_refuse(p, start, "\\p has no }");
    *length = (size_t)(end - *name);
    p->at = (size_t)(end + 1 - p->text);
    const char *equals = memchr(*name, '=', *length);
    if (equals) *length -= (size_t)(equals + 1 - *name), *name = equals + 1;
    return STATUS_OK;
}

/* Puts a category's short name in the place of its long one. */
static void shorten_category(const char **name, size_t *length) {
    static const struct {
        const char *name, *category;
    } longer[] = {{"Letter", "L"},
                  {"Number", "N"},
                  {"Punctuation", "P"},
                  {"Symbol", "S"},
                  {"Mark", "M"},
                  {"Separator", "Z"},
                  {"Uppercase_Letter", "Lu"},
                  {"Lowercase_Letter", "Ll"},
                  {"Decimal_Number", "Nd"},
                  {"digit", "Nd"}};
    for (size_t i = 0; i < sizeof longer / sizeof *longer; i++)
        if (strlen(longer[i].name) == *length && memcmp(longer[i].name, *name, *length) == 0)
            *name = longer[i].category, *length = strlen(longer[i].category);
}

/* Adds the characters that have the property of a \p, or with `negate` those that have it not. */
static Status add_property(Parser *p, CharSet *set, bool negate) {
    size_t start = p->at, length = 0;
    const char *name = NULL;
    CharSet own = {0};
    if (take_property(p, &name, &length) != STATUS_OK) return STATUS_FAILED;
    shorten_category(&name, &length);
    if (length == 5 && memcmp(name, "ASCII", 5) == 0) {
        charset_add(&own, 0, 0x7F);
    } else if (add_category(p, &own, name, length, start) != STATUS_OK) {
        charset_free(&own);
        return STATUS_FAILED;
    }
    charset_normalize(&own, negate);
    charset_add_all(set, &own);
    charset_free(&own);
    return STATUS_OK;
}

/* An escape that stands for a set; false: it stands for a character. The letter was not read. */
static bool class_escape(Parser *p, CharSet *set, Status *status) {
    char letter = p->at < p->length ? p->text[p->at] : '\0';
    CharSet own = {0};
    *status = STATUS_OK;
    if (letter == 'p' || letter == 'P') {
        p->at++;
        *status = add_property(p, set, letter == 'P');
        return true;
    }
    if (!letter || !strchr("dDwWsS", letter)) return false;
    p->at++;
    if (letter == 'd' || letter == 'D') add_digits(&own);
    if (letter == 'w' || letter == 'W') add_word(&own);
    if (letter == 's' || letter == 'S') add_space(&own);
    charset_normalize(&own, letter < 'a');
    charset_add_all(set, &own);
    charset_free(&own);
    return true;
}

/* An escape that stands for a character; the backslash was read. */
static Status char_escape(Parser *p, bool in_class, uint32_t *code) {
    size_t start = p->at;
    if (next_char(p, code) != STATUS_OK) return STATUS_FAILED;
    switch (*code) {
    case 'n':
        *code = '\n';
        return STATUS_OK;
    case 'r':
        *code = '\r';
        return STATUS_OK;
    case 't':
        *code = '\t';
        return STATUS_OK;
    case 'f':
        *code = '\f';
        return STATUS_OK;
    case 'v':
        *code = '\v';
        return STATUS_OK;
    case 'a':
        *code = 7;
        return STATUS_OK;
    case 'x':
    case 'u':
        return hex_escape(p, (char)*code, code);
    case 'c':
        if (p->at == p->length) return pattern_refuse(p, start, "it ends too early");
        *code = (unsigned char)p->text[p->at++] & 31;
        return STATUS_OK;
    case '0':
        *code = 0;
        return STATUS_OK;
    case 'b':
        if (in_class) {
            *code = 8;
            return STATUS_OK;
        }
        return pattern_refuse(p, start, "word boundaries (\\b) are not supported");
    case 'B':
        return pattern_refuse(p, start, "word boundaries (\\B) are not supported");
    case 'k':
        return pattern_refuse(p, start, "references to groups are not supported");
    default:
        break;
    }
    if (*code >= '1' && *code <= '9')
        return pattern_refuse(p, start, "references to groups are not supported");
    if ((*code >= 'a' && *code <= 'z') || (*code >= 'A' && *code <= 'Z'))
        return pattern_refuse(p, start, "there is no such escape");
    return STATUS_OK;
}

/* [...]; the bracket was read. */
static Status parse_class(Parser *p, Regex *out) {
    CharSet set = {0};
    size_t start = p->at;
    bool negate = pattern_take(p, '^');
    Status status = STATUS_OK;
    if (next_is(p, ']') && !negate && !p->has_empty_class) {
        p->has_empty_class = true;
        p->empty_class = start - 1;
    }
    while (status == STATUS_OK && !pattern_take(p, ']')) {
        uint32_t from = 0, to;
        if (p->at == p->length) {
            status = pattern_refuse(p, start, "[ has no ]");
            break;
        }
        if (pattern_take(p, '\\')) {
            if (class_escape(p, &set, &status)) continue;
            status = char_escape(p, true, &from);
        } else {
            status = next_char(p, &from);
        }
        if (status != STATUS_OK) break;
        to = from;
        if (next_is(p, '-') && p->at + 1 < p->length && p->text[p->at + 1] != ']') {
            size_t dash = p->at++;
            if (pattern_take(p, '\\')) {
                size_t before = p->at;
                CharSet ignored = {0};
                if (class_escape(p, &ignored, &status)) { /* [a-\d]: three of them */
                    charset_free(&ignored);
                    p->at = before - 1;
                    charset_add(&set, '-', '-');
                } else {
                    status = char_escape(p, true, &to);
                }
            } else {
                status = next_char(p, &to);
            }
            if (status == STATUS_OK && to < from)
                status = pattern_refuse(p, dash, "a range in [...] goes backwards");
        }
        charset_add(&set, from, to);
    }
    charset_normalize(&set, negate);
    if (status == STATUS_OK) *out = regex_charset(p->arena, &set, p->writing);
    charset_free(&set);
    return status;
}

/* ---- Structure ------------------------------------------------------------------------------ */

static Anchored plain(Regex regex) {
    Anchored out = {{{REGEX_NONE, REGEX_NONE}, {REGEX_NONE, REGEX_NONE}}};
    out.at[0][0] = regex;
    return out;
}

static Regex if_empty(const Parser *p, Regex regex) {
    return regex_nullable(p->arena, regex) ? REGEX_EMPTY : REGEX_NONE;
}

static Anchored unite(Parser *p, Anchored x, Anchored y) {
    for (int s = 0; s < 2; s++)
        for (int e = 0; e < 2; e++) x.at[s][e] = regex_or2(p->arena, x.at[s][e], y.at[s][e]);
    return x;
}

/* x, then y: where y requires ^, x must match the empty text, and the other way round. */
static Anchored follow(Parser *p, Anchored x, Anchored y) {
    Anchored out = plain(REGEX_NONE);
    for (int i = 0; i < 16; i++) {
        int xs = i & 1, xe = i >> 1 & 1, ys = i >> 2 & 1, ye = i >> 3 & 1;
        Regex a = x.at[xs][xe], b = y.at[ys][ye];
        if (a == REGEX_NONE || b == REGEX_NONE) continue;
        if (ys) a = if_empty(p, a);
        if (xe) b = if_empty(p, b);
        Regex *to = &out.at[xs | ys][xe | ye];
        *to = regex_or2(p->arena, *to, regex_concat(p->arena, a, b));
    }
    return out;
}

/* Joins the four expressions with and without ^ and $ to one of the whole text: `before` may
 * precede one without ^, `after` may follow one without $. */
static Regex close_ends(const Parser *p, const Anchored *x, Regex before, Regex after) {
    Regex all[4];
    for (int i = 0; i < 4; i++) {
        Regex r = x->at[i & 1][i >> 1];
        if (!(i & 1)) r = regex_concat(p->arena, before, r);
        if (!(i >> 1)) r = regex_concat(p->arena, r, after);
        all[i] = r;
    }
    return regex_or(p->arena, all, 4);
}

static Status parse_alternatives(Parser *p, Anchored *out);

/* (...) but lookaheads; the parenthesis was read. */
static Status parse_group(Parser *p, Anchored *out) {
    size_t start = p->at;
    if (pattern_take(p, '?')) {
        if (take_text(p, "P<") || (next_is(p, '<') && p->at + 1 < p->length &&
                                   !strchr("=!", p->text[p->at + 1]) && pattern_take(p, '<'))) {
            while (p->at < p->length && p->text[p->at] != '>') p->at++;
            if (!pattern_take(p, '>')) return pattern_refuse(p, start, "a group's name has no >");
        } else if (!pattern_take(p, ':')) {
            return pattern_refuse(p, start,
                                  next_is(p, '<') ? "lookbehinds are not supported"
                                  : next_is(p, '=') || next_is(p, '!')
                                      ? "lookaheads are supported only outside of groups"
                                      : "this kind of group is not supported");
        }
    }
    if (++p->depth > MOST_DEPTH) return pattern_refuse(p, start, "groups are nested too deeply");
    Status status = parse_alternatives(p, out);
    p->depth--;
    if (status != STATUS_OK) return status;
    return pattern_take(p, ')') ? STATUS_OK : pattern_refuse(p, start, "( has no )");
}

/* Parses one atom of a pattern: an anchor, a group, a class, '.', an escape or a single character.
 */
static Status parse_atom(Parser *p, Anchored *out) {
    uint32_t code = 0;
    size_t start = p->at;
    *out = plain(REGEX_NONE);
    if (pattern_take(p, '^')) {
        out->at[1][0] = REGEX_EMPTY;
        return STATUS_OK;
    }
    if (pattern_take(p, '$')) {
        out->at[0][1] = REGEX_EMPTY;
        return STATUS_OK;
    }
    if (pattern_take(p, '(')) return parse_group(p, out);
    if (pattern_take(p, '[')) return parse_class(p, &out->at[0][0]);
    CharSet set = {0};
    Status status = STATUS_OK;
    if (pattern_take(p, '.')) {
        if (!p->loose) add_line_ends(&set);
        charset_normalize(&set, true);
    } else if (pattern_take(p, '\\')) {
        if (pattern_take(p, 'A')) {
            out->at[1][0] = REGEX_EMPTY;
            return STATUS_OK;
        }
        if (pattern_take(p, 'Z') || pattern_take(p, 'z')) {
            out->at[0][1] = REGEX_EMPTY;
            return STATUS_OK;
        }
        if (class_escape(p, &set, &status)) {
            charset_normalize(&set, false);
        } else {
            status = char_escape(p, false, &code);
            charset_add(&set, code, code);
        }
    } else if (p->text[p->at] == '*' || p->text[p->at] == '+' || p->text[p->at] == '?') {
        return pattern_refuse(p, start, "nothing stands before a repetition");
    } else {
        status = next_char(p, &code);
        charset_add(&set, code, code);
    }
    if (status == STATUS_OK) out->at[0][0] = regex_charset(p->arena, &set, p->writing);
    charset_free(&set);
    return status;
}

/* {m}, {m,} or {m,n}; false, and nothing is read, when it is none: then it is text. */
static bool take_counts(Parser *p, uint32_t *min, uint32_t *max) {
    size_t start = p->at;
    uint64_t counts[2] = {0, 0};
    bool given[2] = {false, false}, comma = false;
    if (!pattern_take(p, '{')) return false;
    for (int i = 0; i < 2; i++) {
        while (p->at < p->length && p->text[p->at] >= '0' && p->text[p->at] <= '9') {
            if (counts[i] < UINT32_MAX)
                counts[i] = counts[i] * 10 + (uint64_t)(p->text[p->at] - '0');
            given[i] = true;
            p->at++;
        }
        if (i == 0 && !(comma = pattern_take(p, ','))) break;
    }
    if (!pattern_take(p, '}') || (!given[0] && !given[1])) {
        p->at = start;
        return false;
    }
    *min = counts[0] < UINT32_MAX ? (uint32_t)counts[0] : UINT32_MAX;
    *max = !comma                   ? *min
           : !given[1]              ? REGEX_MANY
           : counts[1] < UINT32_MAX ? (uint32_t)counts[1]
                                    : UINT32_MAX - 1;
    return true;
}

static bool is_anchored(const Anchored *x) {
    return x->at[1][0] != REGEX_NONE || x->at[0][1] != REGEX_NONE || x->at[1][1] != REGEX_NONE;
}

/* Parses the repetitions after an atom (+, ?, *, {n,m}) and applies them to *x. An atom that
 * holds anchors may only be repeated at most once. */
static Status parse_repeats(Parser *p, Anchored *x) {
    for (;;) {
        uint32_t min = 0, max = REGEX_MANY;
        size_t start = p->at;
        if (pattern_take(p, '+')) {
            min = 1;
        } else if (pattern_take(p, '?')) {
            max = 1;
        } else if (!pattern_take(p, '*') && !take_counts(p, &min, &max)) {
            return STATUS_OK;
        }
        if (min > max)
            return pattern_refuse(p, start, "a repetition's limits are the wrong way round");
        if (min > MOST_REPEATS || (max != REGEX_MANY && max > MOST_REPEATS))
            return pattern_refuse(p, start, "a repetition goes beyond 100000");
        if (next_is(p, '+'))
            return pattern_refuse(p, p->at, "possessive repetitions are not supported");
        pattern_take(p, '?'); /* a lazy one matches the same texts */
        if (is_anchored(x)) {
            if (max == 1) {
                if (min == 0) *x = unite(p, *x, plain(REGEX_EMPTY));
                continue;
            }
            return pattern_refuse(p, start, "a repetition of ^ or $ is not supported");
        }
        *x = plain(regex_repeat(p->arena, x->at[0][0], min, max));
    }
}

static Status parse_sequence(Parser *p, Anchored *out);

/* (?=...) and (?!...) with the rest of a sequence that is not in a group; (? and its mark were
 * read. What is looked at begins where the rest does and may end anywhere. */
static Status parse_lookahead(Parser *p, bool negate, Anchored *out) {
    Anchored ahead, rest;
    size_t start = p->at;
    if (++p->ahead > MOST_DEPTH)
        return pattern_refuse(p, start, "too many lookaheads follow each other");
    if (++p->depth > MOST_DEPTH) return pattern_refuse(p, start, "groups are nested too deeply");
    if (parse_alternatives(p, &ahead) != STATUS_OK) return STATUS_FAILED;
    if (!pattern_take(p, ')')) return pattern_refuse(p, start, "( has no )");
    p->depth--;
    if (ahead.at[1][0] != REGEX_NONE || ahead.at[1][1] != REGEX_NONE)
        return pattern_refuse(p, start, "^ in a lookahead is not supported");
    if (parse_sequence(p, &rest) != STATUS_OK) return STATUS_FAILED;
    p->ahead--;
    if (rest.at[1][0] != REGEX_NONE || rest.at[1][1] != REGEX_NONE)
        return pattern_refuse(p, start, "^ after a lookahead is not supported");
    Regex looked = close_ends(p, &ahead, REGEX_EMPTY, p->any);
    if (negate) looked = regex_not(p->arena, looked);
    Regex followed =
        regex_or2(p->arena, regex_concat(p->arena, rest.at[0][0], p->around), rest.at[0][1]);
    *out = plain(REGEX_NONE);
    out->at[0][1] = regex_and2(p->arena, looked, followed);
    return STATUS_OK;
}

/* Parses an alternative: atoms with their repeats, one after the other, to the next | or ). */
static Status parse_sequence(Parser *p, Anchored *out) {
    *out = plain(REGEX_EMPTY);
    while (p->at < p->length && !next_is(p, '|') && !next_is(p, ')')) {
        Anchored one;
        if (p->depth == 0 && (take_text(p, "(?=") || take_text(p, "(?!"))) {
            if (parse_lookahead(p, p->text[p->at - 1] == '!', &one) != STATUS_OK)
                return STATUS_FAILED;
            *out = follow(p, *out, one);
            break;
        }
        if (parse_atom(p, &one) != STATUS_OK || parse_repeats(p, &one) != STATUS_OK)
            return STATUS_FAILED;
        *out = follow(p, *out, one);
        if (p->arena->failed) return pattern_refuse(p, p->at, p->arena->failed);
    }
    return STATUS_OK;
}

static Status parse_alternatives(Parser *p, Anchored *out) {
    if (parse_sequence(p, out) != STATUS_OK) return STATUS_FAILED;
    while (pattern_take(p, '|')) {
        Anchored other;
        if (parse_sequence(p, &other) != STATUS_OK) return STATUS_FAILED;
        *out = unite(p, *out, other);
    }
    return STATUS_OK;
}

/* Parses the whole pattern and sets *out to an expression of the whole text: p->around may precede
 * a match without ^ and follow one without $; where the scope is loose, so may a last line end. */
static Status compile(Parser *p, PatternScope scope, Regex *out) {
    Anchored all;
    p->any = regex_repeat(p->arena, regex_any_char(p->arena, p->writing), 0, REGEX_MANY);
    p->around = scope == PATTERN_WHOLE ? REGEX_EMPTY : p->any;
    p->loose = scope == PATTERN_PART_LOOSE;
    if (parse_alternatives(p, &all) != STATUS_OK) return STATUS_FAILED;
    if (p->at < p->length) return pattern_refuse(p, p->at, ") has no (");
    *out = close_ends(p, &all, p->around, p->around);
    Regex end = regex_char(p->arena, '\n', p->writing);
    if (p->loose) *out = regex_or2(p->arena, *out, regex_concat(p->arena, *out, end));
    if (p->arena->failed) return pattern_refuse(p, p->length, p->arena->failed);
    if (scope == PATTERN_WHOLE && *out == REGEX_NONE && p->has_empty_class)
        return pattern_refuse(p, p->empty_class,
                              "no text has this shape: [] is a class of no characters (as in "
                              "ECMAScript); one that holds ] is written [\\]]");
    return STATUS_OK;
}

Status pattern_compile_regex(RegexArena *arena, const char *pattern, size_t length,
                             PatternScope scope, Writing writing, Regex *out, Error *error) {
    Parser p = {
        .arena = arena, .text = pattern, .length = length, .writing = writing, .error = error};
    *out = REGEX_NONE;
    Status status = compile(&p, scope, out);
    for (size_t i = 0; i < p.n_categories; i++) charset_free(&p.categories[i].set);
    return status;
}
