#include "constraint/grammar.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "base/array.h"
#include "base/unicode.h"
#include "constraint/character_sets.h"

enum {
    MOST_DEPTH = 200,
    MOST_LEVELS = 4000,
    MOST_REPEATS = 100000,
    MOST_PARTS = 500000,
    SMALL = 3000
};
enum { MOST_RULES = 20000 };

/* A part of a rule. */
typedef enum PartKind { PART_REGEX, PART_RULE, PART_SEQUENCE, PART_CHOICE, PART_REPEAT } PartKind;

typedef struct Part {
    PartKind kind;
    uint32_t a, b, c; /* regex a; rule a; items a, b of them; part a, b to c times */
} Part;

typedef struct Rule {
    const char *name;
    size_t length;
    uint32_t part; /* UINT32_MAX: not defined yet */
    bool visiting, visited, recursive;
    size_t size; /* of its expression, where it is not recursive */
    Regex regex;
    bool has_regex;
    AcceptorNode node;
} Rule;

typedef struct Grammar {
    Acceptor *acceptor;
    RegexArena *regexes;
    const char *text;
    size_t length, at;
    Error *error;
    Part *parts;
    size_t n_parts, parts_capacity;
    uint32_t *items;
    size_t n_items, items_capacity;
    Rule *rules;
    size_t n_rules, rules_capacity;
    IndexTable rule_table; /* by their names */
    unsigned depth;
} Grammar;

/* ---- Reading --------------------------------------------------------------------------------- */

static Status grammar_refuse(Grammar *g, size_t at, const char *what) {
    size_t line = 1;
    for (size_t i = 0; i < at && i < g->length; i++) line += g->text[i] == '\n';
    return error_set(g->error, "line %zu of the grammar: %s", line, what);
}

static char peek(const Grammar *g) {
    return g->at < g->length ? g->text[g->at] : '\0';
}

static bool grammar_take(Grammar *g, const char *text) {
    size_t n = strlen(text);
    if (g->length - g->at < n || memcmp(g->text + g->at, text, n) != 0) return false;
    g->at += n;
    return true;
}

/* Skips spaces and comments, and line ends where `lines`. */
static void skip(Grammar *g, bool lines) {
    for (; g->at < g->length; g->at++) {
        char c = peek(g);
        if (c == '#') {
            while (g->at < g->length && peek(g) != '\n') g->at++;
            if (!lines || g->at == g->length) return;
            continue;
        }
        if (c != ' ' && c != '\t' && !(lines && (c == '\n' || c == '\r'))) return;
    }
}

static bool is_name(char c) {
    return isalnum((unsigned char)c) || c == '-' || c == '_';
}

static Status add_part(Grammar *g, Part part, uint32_t *index) {
    if (g->n_parts >= MOST_PARTS) return grammar_refuse(g, g->at, "it has too many parts");
    if (!array_reserve(&g->parts, &g->parts_capacity, g->n_parts + 1, sizeof *g->parts))
        return error_set(g->error, "no memory for a grammar");
    g->parts[g->n_parts] = part;
    *index = (uint32_t)g->n_parts++;
    return STATUS_OK;
}

/* Indices of parts that are being collected. */
typedef struct PartList {
    uint32_t *items;
    size_t n, capacity;
} PartList;

static Status list_add(Grammar *g, PartList *list, uint32_t part) {
    if (!array_reserve(&list->items, &list->capacity, list->n + 1, sizeof *list->items))
        return error_set(g->error, "no memory for a grammar");
    list->items[list->n++] = part;
    return STATUS_OK;
}

/* Makes one part of the list and empties it. */
static Status list_part(Grammar *g, PartKind kind, PartList *list, uint32_t *index) {
    Status status = STATUS_OK;
    if (list->n == 1) {
        *index = list->items[0];
    } else if (!array_reserve(&g->items, &g->items_capacity, g->n_items + list->n + 1,
                              sizeof *g->items)) {
        status = error_set(g->error, "no memory for a grammar");
    } else {
        Part part = {kind, (uint32_t)g->n_items, (uint32_t)list->n, 0};
        if (list->n > 0) memcpy(g->items + g->n_items, list->items, list->n * sizeof *g->items);
        g->n_items += list->n;
        status = add_part(g, part, index);
    }
    free(list->items);
    *list = (PartList){0};
    return status;
}

static uint64_t hash_rule(const void *grammar, uint32_t i) {
    const Rule *rule = &((const Grammar *)grammar)->rules[i];
    return XXH3_64bits(rule->name, rule->length);
}

/* The rule of this name, made where there is none. */
static Status rule_index(Grammar *g, const char *name, size_t length, uint32_t *index) {
    IndexTable *table = &g->rule_table;
    if (!index_table_reserve(table, hash_rule, g))
        return error_set(g->error, "no memory for a grammar");
    size_t at = index_table_first(table, XXH3_64bits(name, length));
    for (; table->slots[at]; at = index_table_next(table, at)) {
        const Rule *known = &g->rules[table->slots[at] - 1];
        if (known->length != length || memcmp(known->name, name, length) != 0) continue;
        *index = table->slots[at] - 1;
        return STATUS_OK;
    }
    if (g->n_rules > MOST_RULES) return grammar_refuse(g, g->at, "it has too many rules");
    if (!array_reserve(&g->rules, &g->rules_capacity, g->n_rules + 1, sizeof *g->rules))
        return error_set(g->error, "no memory for a grammar");
    g->rules[g->n_rules] =
        (Rule){.name = name, .length = length, .part = UINT32_MAX, .node = ACCEPTOR_NO_NODE};
    *index = (uint32_t)g->n_rules++;
    index_table_set(table, at, *index);
    return STATUS_OK;
}

static bool take_hex(Grammar *g, size_t n, uint32_t *code) {
    if (!charset_hex(g->text + g->at, g->length - g->at, n, code)) return false;
    g->at += n;
    return true;
}

/* One character of a literal or a class, with its escapes. */
static Status read_char(Grammar *g, uint32_t *code) {
    size_t start = g->at;
    if (!grammar_take(g, "\\")) {
        size_t n = utf8_decode(g->text + g->at, g->length - g->at, code);
        g->at += n;
        return n > 0 ? STATUS_OK : grammar_refuse(g, start, "it is not UTF-8");
    }
    char c = peek(g);
    g->at += g->at < g->length;
    static const char plain[] = "nrt\\\"[]'-^/", meant[] = "\n\r\t\\\"[]'-^/";
    const char *found = c ? strchr(plain, c) : NULL;
    if (found) {
        *code = (unsigned char)meant[found - plain];
        return STATUS_OK;
    }
    size_t digits = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
    if (digits > 0 && take_hex(g, digits, code) && *code <= 0x10FFFF &&
        !(*code >= 0xD800 && *code < 0xE000))
        return STATUS_OK;
    return grammar_refuse(g, start, "there is no such escape");
}

static Status read_literal(Grammar *g, Regex *out) {
    size_t start = g->at - 1;
    TextBuffer text = {0};
    Status status = STATUS_OK;
    while (status == STATUS_OK && !grammar_take(g, "\"")) {
        uint32_t code;
        if (g->at == g->length || peek(g) == '\n')
            status = grammar_refuse(g, start, "a text has no closing quote");
        else if ((status = read_char(g, &code)) == STATUS_OK)
            utf8_put(&text, code, 0);
    }
    if (status == STATUS_OK && text.failed) status = error_set(g->error, "no memory for a grammar");
    if (status == STATUS_OK)
        *out = regex_string(g->regexes, text.bytes ? text.bytes : "", text.length, WRITING_PLAIN);
    text_free(&text);
    return status;
}

/* Reads a character class from after its '[' to its ']': characters, escapes and ranges, which a
 * leading '^' negates. */
static Status read_class(Grammar *g, Regex *out) {
    size_t start = g->at - 1;
    CharSet set = {0};
    Status status = STATUS_OK;
    bool negate = grammar_take(g, "^");
    while (status == STATUS_OK && !grammar_take(g, "]")) {
        uint32_t from = 0, to;
        if (g->at == g->length) {
            status = grammar_refuse(g, start, "[ has no ]");
            break;
        }
        status = read_char(g, &from);
        to = from;
        if (status == STATUS_OK && peek(g) == '-' && g->at + 1 < g->length &&
            g->text[g->at + 1] != ']') {
            g->at++;
            status = read_char(g, &to);
        }
        if (status == STATUS_OK && to < from)
            status = grammar_refuse(g, start, "a range in [...] goes backwards");
        if (status == STATUS_OK) charset_add(&set, from, to);
    }
    charset_normalize(&set, negate);
    if (status == STATUS_OK) *out = regex_charset(g->regexes, &set, WRITING_PLAIN);
    charset_free(&set);
    return status;
}

static Status read_choice(Grammar *g, bool nested, uint32_t *part);

/* Reads one item of a sequence: the name of a rule, a group in parentheses, a text in quotes, a
 * character class or '.'. */
static Status read_item(Grammar *g, uint32_t *part) {
    size_t start = g->at;
    Regex regex = REGEX_NONE;
    if (is_name(peek(g))) {
        uint32_t rule = 0;
        while (g->at < g->length && is_name(peek(g))) g->at++;
        if (rule_index(g, g->text + start, g->at - start, &rule) != STATUS_OK) return STATUS_FAILED;
        return add_part(g, (Part){PART_RULE, rule, 0, 0}, part);
    }
    if (grammar_take(g, "(")) {
        if (++g->depth > MOST_DEPTH)
            return grammar_refuse(g, start, "groups are nested too deeply");
        if (read_choice(g, true, part) != STATUS_OK) return STATUS_FAILED;
        g->depth--;
        skip(g, true);
        return grammar_take(g, ")") ? STATUS_OK : grammar_refuse(g, start, "( has no )");
    }
    if (grammar_take(g, "\"")) {
        if (read_literal(g, &regex) != STATUS_OK) return STATUS_FAILED;
    } else if (grammar_take(g, "[")) {
        if (read_class(g, &regex) != STATUS_OK) return STATUS_FAILED;
    } else if (grammar_take(g, ".")) {
        regex = regex_any_char(g->regexes, WRITING_PLAIN);
    } else if (peek(g) == '<' || peek(g) == '!') {
        return grammar_refuse(g, start,
                              "tokens (<...>) are not supported: a shape is made of text");
    } else {
        return grammar_refuse(g, start, "a rule, a text, a class or a group is expected");
    }
    return add_part(g, (Part){PART_REGEX, regex, 0, 0}, part);
}

static bool read_number(Grammar *g, uint32_t *number) {
    uint64_t value = 0;
    bool any = false;
    for (; isdigit((unsigned char)peek(g)); g->at++, any = true)
        if (value <= MOST_REPEATS) value = value * 10 + (uint64_t)(peek(g) - '0');
    *number = value > MOST_REPEATS ? MOST_REPEATS + 1 : (uint32_t)value;
    return any;
}

/* Reads the repetitions after an item (+, ?, *, {n}, {n,m}, {n,}) and wraps *part in a
 * PART_REPEAT for each of them. */
static Status read_repeats(Grammar *g, bool nested, uint32_t *part) {
    for (size_t n = 0;; n++) {
        uint32_t min = 0, max = ACCEPTOR_NO_LIMIT;
        size_t start = g->at;
        skip(g, nested);
        if (grammar_take(g, "+")) {
            min = 1;
        } else if (grammar_take(g, "?")) {
            max = 1;
        } else if (grammar_take(g, "{")) {
            skip(g, nested);
            bool low = read_number(g, &min);
            if (!low) min = 0;
            skip(g, nested);
            if (grammar_take(g, ",")) {
                skip(g, nested);
                if (!read_number(g, &max)) max = ACCEPTOR_NO_LIMIT;
            } else {
                max = min;
                if (!low) return grammar_refuse(g, start, "{ } has no number");
            }
            skip(g, nested);
            if (!grammar_take(g, "}")) return grammar_refuse(g, start, "{ has no }");
            if (min > MOST_REPEATS || (max != ACCEPTOR_NO_LIMIT && max > MOST_REPEATS))
                return grammar_refuse(g, start, "a repetition goes beyond 100000");
            if (max < min)
                return grammar_refuse(g, start, "a repetition's limits are the wrong way round");
        } else if (!grammar_take(g, "*")) {
            g->at = start;
            return STATUS_OK;
        }
        if (n == MOST_DEPTH) return grammar_refuse(g, start, "repetitions are nested too deeply");
        if (add_part(g, (Part){PART_REPEAT, *part, min, max}, part) != STATUS_OK)
            return STATUS_FAILED;
    }
}

static Status read_sequence(Grammar *g, bool nested, uint32_t *part) {
    PartList list = {0};
    Status status = STATUS_OK;
    for (;;) {
        uint32_t item = 0;
        skip(g, nested);
        char c = peek(g);
        if (g->at == g->length || c == '|' || c == ')' || c == '\n' || c == '\r') break;
        status = read_item(g, &item);
        if (status == STATUS_OK) status = read_repeats(g, nested, &item);
        if (status == STATUS_OK) status = list_add(g, &list, item);
        if (status != STATUS_OK) break;
    }
    if (status == STATUS_OK) return list_part(g, PART_SEQUENCE, &list, part);
    free(list.items);
    return status;
}

static Status read_choice(Grammar *g, bool nested, uint32_t *part) {
    PartList list = {0};
    Status status;
    do {
        uint32_t item = 0;
        skip(g, true);
        status = read_sequence(g, nested, &item);
        if (status == STATUS_OK) status = list_add(g, &list, item);
        skip(g, nested);
    } while (status == STATUS_OK && grammar_take(g, "|"));
    if (status == STATUS_OK) return list_part(g, PART_CHOICE, &list, part);
    free(list.items);
    return status;
}

static Status read_rule(Grammar *g) {
    size_t start = g->at;
    uint32_t rule = 0, part = 0;
    while (g->at < g->length && is_name(peek(g))) g->at++;
    if (g->at == start) return grammar_refuse(g, start, "a rule's name is expected");
    if (rule_index(g, g->text + start, g->at - start, &rule) != STATUS_OK) return STATUS_FAILED;
    if (g->rules[rule].part != UINT32_MAX)
        return grammar_refuse(g, start, "this rule is defined twice");
    skip(g, false);
    if (!grammar_take(g, "::="))
        return grammar_refuse(g, g->at, "'::=' is expected after a rule's name");
    if (read_choice(g, false, &part) != STATUS_OK) return STATUS_FAILED;
    g->rules[rule].part = part;
    skip(g, false);
    if (g->at < g->length && peek(g) != '\n' && peek(g) != '\r')
        return grammar_refuse(g, g->at, "the end of the rule is expected");
    return STATUS_OK;
}

/* ---- Making nodes ---------------------------------------------------------------------------- */

/* Marks the recursive rules, and adds up sizes. Depth first; `depth` counts the rules and the parts
 * inside of them, so that nothing that walks over them recursively runs out of stack. */
static Status visit_rule(Grammar *g, uint32_t rule, unsigned depth);

/* Computes the size of a part, with that of the rules it names, which are visited first. Sets
 * *recursive where one of these rules is recursive or leads back to a rule that is being visited.
 */
static Status visit_part(Grammar *g, uint32_t index, unsigned depth, size_t *size,
                         bool *recursive) {
    Part p = g->parts[index];
    size_t own = 0;
    *size = 1;
    if (depth > MOST_LEVELS)
        return error_set(g->error, "the grammar's rules are nested too deeply");
    if (p.kind == PART_RULE) {
        if (g->rules[p.a].visiting) {
            *recursive = true;
            return STATUS_OK;
        }
        if (visit_rule(g, p.a, depth + 1) != STATUS_OK) return STATUS_FAILED;
        *recursive |= g->rules[p.a].recursive;
        *size = g->rules[p.a].size;
    } else if (p.kind == PART_REPEAT) {
        return visit_part(g, p.a, depth + 1, size, recursive);
    } else if (p.kind != PART_REGEX) {
        for (size_t i = 0; i < p.b; i++) {
            if (visit_part(g, g->items[p.a + i], depth + 1, &own, recursive) != STATUS_OK)
                return STATUS_FAILED;
            *size += own;
        }
    }
    if (*size > MOST_PARTS) *size = MOST_PARTS;
    return STATUS_OK;
}

static Status visit_rule(Grammar *g, uint32_t rule, unsigned depth) {
    Rule *r = &g->rules[rule];
    if (r->visited) return STATUS_OK;
    if (r->part == UINT32_MAX)
        return error_set(g->error, "the grammar has no rule '%.*s'",
                         (int)(r->length < 100 ? r->length : 100), r->name);
    bool recursive = false;
    size_t size = 0;
    r->visiting = true;
    Status status = visit_part(g, r->part, depth, &size, &recursive);
    r->visiting = false;
    r->visited = true;
    r->recursive = recursive;
    r->size = size;
    return status;
}

/* Rules that are not recursive and small become expressions, which run fastest. */
static bool is_regular(const Grammar *g, uint32_t index) {
    Part p = g->parts[index];
    if (p.kind == PART_REGEX) return true;
    if (p.kind == PART_RULE) return !g->rules[p.a].recursive && g->rules[p.a].size <= SMALL;
    if (p.kind == PART_REPEAT) return is_regular(g, p.a);
    for (size_t i = 0; i < p.b; i++)
        if (!is_regular(g, g->items[p.a + i])) return false;
    return true;
}

/* Builds the regular expression of a part for which is_regular holds. The expression of a rule is
 * built once and kept. */
static Regex part_regex(Grammar *g, uint32_t index) {
    Part p = g->parts[index];
    Regex out = p.kind == PART_SEQUENCE ? REGEX_EMPTY : REGEX_NONE;
    switch (p.kind) {
    case PART_REGEX:
        return p.a;
    case PART_RULE: {
        Rule *r = &g->rules[p.a];
        if (!r->has_regex) r->regex = part_regex(g, r->part);
        r->has_regex = true;
        return r->regex;
    }
    case PART_REPEAT:
        return regex_repeat(g->regexes, part_regex(g, p.a), p.b, p.c);
    case PART_SEQUENCE:
        for (size_t i = p.b; i-- > 0;)
            out = regex_concat(g->regexes, part_regex(g, g->items[p.a + i]), out);
        return out;
    case PART_CHOICE:
        for (size_t i = 0; i < p.b; i++)
            out = regex_or2(g->regexes, out, part_regex(g, g->items[p.a + i]));
        return out;
    }
    return REGEX_NONE;
}

static AcceptorNode part_node(Grammar *g, uint32_t index) {
    Part p = g->parts[index];
    AcceptorNode *items, out;
    if (is_regular(g, index)) return acceptor_term(g->acceptor, part_regex(g, index));
    if (p.kind == PART_RULE) return g->rules[p.a].node;
    if (p.kind == PART_REPEAT) return acceptor_repeat(g->acceptor, part_node(g, p.a), p.b, p.c);
    items = malloc((p.b + 1) * sizeof *items);
    if (!items) {
        if (!g->regexes->failed) g->regexes->failed = "there is no memory for it";
        return ACCEPTOR_NO_NODE;
    }
    for (size_t i = 0; i < p.b; i++) items[i] = part_node(g, g->items[p.a + i]);
    out = p.kind == PART_SEQUENCE ? acceptor_sequence(g->acceptor, items, p.b)
                                  : acceptor_choice(g->acceptor, items, p.b);
    free(items);
    return out;
}

/* Reads all rules, checks that each rule they name is defined, and makes the acceptor's nodes of
 * them; *node is that of the rule 'root'. */
static Status compile(Grammar *g, AcceptorNode *node) {
    uint32_t root = 0;
    skip(g, true);
    while (g->at < g->length) {
        if (read_rule(g) != STATUS_OK) return STATUS_FAILED;
        skip(g, true);
    }
    if (rule_index(g, "root", 4, &root) != STATUS_OK) return STATUS_FAILED;
    if (g->rules[root].part == UINT32_MAX)
        return error_set(g->error, "the grammar has no rule 'root'");
    for (size_t i = 0; i < g->n_rules; i++)
        if (visit_rule(g, (uint32_t)i, 0) != STATUS_OK) return STATUS_FAILED;
    for (size_t i = 0; i < g->n_rules; i++) g->rules[i].node = acceptor_forward(g->acceptor);
    for (size_t i = 0; i < g->n_rules && !g->regexes->failed; i++)
        acceptor_define(g->acceptor, g->rules[i].node, part_node(g, g->rules[i].part));
    *node = g->rules[root].node;
    if (g->regexes->failed)
        return error_set(g->error, "the grammar cannot be enforced: %s", g->regexes->failed);
    return STATUS_OK;
}

Status grammar_compile(Acceptor *acceptor, const char *text, size_t length, AcceptorNode *node,
                       Error *error) {
    Grammar g = {.acceptor = acceptor,
                 .regexes = acceptor_regexes(acceptor),
                 .text = text,
                 .length = length,
                 .error = error};
    Status status = compile(&g, node);
    index_table_free(&g.rule_table);
    free(g.parts);
    free(g.items);
    free(g.rules);
    return status;
}
