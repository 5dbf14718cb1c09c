/* Shapes of answers: what each front end accepts, refuses and cannot enforce, and that masks allow
 * exactly the tokens that the text may go on with. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "constraint/acceptor_nodes_internal.h"
#include "constraint/forced_tokens.h"
#include "constraint/matcher.h"
#include "constraint/shape_source.h"
#include "constraint/shape_store.h"
#include "draft/forced.h"
#include "core/modelfile.h"
#include "tests/tier.h"

static const GenerationOptions options = {.decode_flags = TOKEN_DECODER_CONTINUE};
static const Vocabulary no_vocabulary;

/* Most cases are about what a value may be, not about the form of its JSON. */
enum { ANY_FORM = JSON_ANY_ORDER | JSON_ANY_SPACE, ONE_LINE = 0 };

static Shape *shape_in(unsigned form, ShapeKind kind, const char *text,
                       const Vocabulary *vocabulary) {
    const ShapeSource source = {.kind = kind, .text = text, .length = strlen(text), .form = form};
    Acceptor *acceptor;
    Shape *shape = NULL;
    Error error = {""};
    if (shape_source_compile(&source, &acceptor, &error) != STATUS_OK ||
        shape_new(&shape, acceptor, vocabulary, &error) != STATUS_OK)
        fail_msg("%s: %s", text, error.text);
    return shape;
}

static Shape *shape_of(ShapeKind kind, const char *text, const Vocabulary *vocabulary) {
    return shape_in(ANY_FORM, kind, text, vocabulary);
}

static bool has(Shape *shape, const char *text) {
    Matcher *m;
    Error error;
    if (matcher_new(&m, shape, &options, &error) != STATUS_OK) fail_msg("%s", error.text);
    bool accepted = matcher_push(m, text, strlen(text), NULL) && matcher_accepts(m);
    matcher_free(m);
    return accepted;
}

/* Expects each of the texts (the list ends with NULL) to have the shape, or not to. */
static void expect_in(unsigned form, ShapeKind kind, const char *source, bool accepted,
                      const char *const *texts) {
    Shape *shape = shape_in(form, kind, source, &no_vocabulary);
    for (; *texts; texts++)
        if (has(shape, *texts) != accepted)
            fail_msg("%s: '%s' is %s", source, *texts, accepted ? "refused" : "accepted");
    shape_free(shape);
}

/* A text that no form allows is refused in one line as well. */
static void expect(ShapeKind kind, const char *source, bool accepted, const char *const *texts) {
    expect_in(ANY_FORM, kind, source, accepted, texts);
    if (!accepted) expect_in(ONE_LINE, kind, source, false, texts);
}

#define ACCEPTS(kind, source, ...)                                                                 \
    expect(kind, source, true, (const char *const[]){__VA_ARGS__, NULL})
#define REFUSES(kind, source, ...)                                                                 \
    expect(kind, source, false, (const char *const[]){__VA_ARGS__, NULL})

/* Expects the source to be refused with an error that has `part` in it. */
static void cannot(ShapeKind kind, const char *text, const char *part) {
    const ShapeSource source = {.kind = kind, .text = text, .length = strlen(text)};
    Acceptor *acceptor = NULL;
    Error error = {""};
    assert_int_equal(shape_source_compile(&source, &acceptor, &error), STATUS_FAILED);
    assert_null(acceptor);
    if (!strstr(error.text, part)) fail_msg("%s: %s", text, error.text);
}

/* ---- Regular expressions --------------------------------------------------------------------- */

static void a_regex_is_matched_by_all_of_the_text(void **state) {
    (void)state;
    ACCEPTS(SHAPE_REGEX, "a(b|c)*d{2,3}", "add", "abcbddd");
    REFUSES(SHAPE_REGEX, "a(b|c)*d{2,3}", "ad", "abdddd", "", "xadd");
    ACCEPTS(SHAPE_REGEX, "^[^a-c\\d]+$", "xyz", "\xC3\xA9", "\xF0\x9F\x98\x80");
    REFUSES(SHAPE_REGEX, "^[^a-c\\d]+$", "a", "x1", "\xC3", "\xED\xA0\x80");
    ACCEPTS(SHAPE_REGEX, "\\p{Lu}\\p{Ll}*", "\xC3\x89t\xC3\xA9");
    ACCEPTS(SHAPE_REGEX, "(?!bad)(?=.*\\d)\\w+", "good1");
    REFUSES(SHAPE_REGEX, "(?!bad)(?=.*\\d)\\w+", "bad1", "good", "good1!");
    ACCEPTS(SHAPE_REGEX, "(a$|^b|c)?", "a", "b", "c", "");
    ACCEPTS(SHAPE_REGEX, "[\\u00e9-\\u{1F600}]", "\xC3\xA9", "\xF0\x9F\x98\x80");
    cannot(SHAPE_REGEX, "a\\bc", "word boundaries");
    cannot(SHAPE_REGEX, "(a)\\1", "references to groups");
    cannot(SHAPE_REGEX, "(?<=a)b", "lookbehinds");
    cannot(SHAPE_REGEX, "a{1,200000}", "beyond 100000");
    cannot(SHAPE_REGEX, "(a", "( has no )");
    cannot(SHAPE_REGEX, "a(?!)", "no text has this shape");
    /* ECMAScript, 22.2.1: ClassContents may be empty. In POSIX and Python [] opens a class of ]. */
    cannot(SHAPE_REGEX, "[]a]",
           "no text has this shape: [] is a class of no characters (as in ECMAScript); one that "
           "holds ] is written [\\]], at byte 0 of the pattern");
    ACCEPTS(SHAPE_REGEX, "[\\]a]", "]", "a");
}

static void a_regex_that_explodes_is_refused_in_time(void **state) {
    (void)state;
    cannot(SHAPE_REGEX, "(?=((a|b)*a(a|b){40}c))(?=((a|b)*b(a|b){41}c))((a|b)*a(a|b){42}d)", "");
    ACCEPTS(SHAPE_REGEX, "(a?){1000}a{3}", "aaaaa");
}

/* `first`, then `part` n times, then `last`. */
static char *repeated(const char *first, const char *part, size_t n, const char *last) {
    size_t length = strlen(part), at = strlen(first);
    char *out = malloc(at + n * length + strlen(last) + 1);
    assert_non_null(out);
    memcpy(out, first, at);
    for (size_t i = 0; i < n; i++, at += length) memcpy(out + at, part, length);
    strcpy(out + at, last);
    return out;
}

/* Expects a source that repeats `part` often to be refused, without a crash and soon. */
static void cannot_repeat(ShapeKind kind, const char *first, const char *part, size_t n,
                          const char *last, const char *error) {
    char *source = repeated(first, part, n, last);
    cannot(kind, source, error);
    free(source);
}

static void long_patterns_are_refused_in_time(void **state) {
    (void)state;
    cannot_repeat(SHAPE_REGEX, "", "(?=)", 200000, "a", "too many lookaheads");
    cannot_repeat(SHAPE_REGEX, "[", "\\pL", 100000, "]", "too many steps");
    ACCEPTS(SHAPE_REGEX, "(?=a)(?=.b)ab|(?=c)cd", "ab", "cd");
}

/* ---- Choices and grammars -------------------------------------------------------------------- */

static void a_choice_is_one_of_its_texts(void **state) {
    (void)state;
    ACCEPTS(SHAPE_CHOICE, "[\"yes\", \"no\", \"not at all\"]", "yes", "no", "not at all");
    REFUSES(SHAPE_CHOICE, "[\"yes\", \"no\", \"not at all\"]", "not", "nono", "");
    cannot(SHAPE_CHOICE, "[]", "list of texts");
}

static void a_grammar_derives_its_texts(void **state) {
    static const char arithmetic[] = "# sums\n"
                                     "root  ::= (expr \"=\" ws term \"\\n\")+\n"
                                     "expr  ::= term ([-+*/] term)*\n"
                                     "term  ::= ident | num | \"(\" ws expr \")\" ws\n"
                                     "ident ::= [a-z] [a-z0-9_]* ws\n"
                                     "num   ::= [0-9]+ ws\n"
                                     "ws    ::= [ \\t\\n]*\n";
    (void)state;
    ACCEPTS(SHAPE_GRAMMAR, arithmetic, "x +( 1 -y)=2\n", "a=b\n((c)) *2=d\n");
    REFUSES(SHAPE_GRAMMAR, arithmetic, "x +=2\n", "(a=b\n", "a=b");
    ACCEPTS(SHAPE_GRAMMAR, "root ::= \"(\" root \")\" |\n  [a-z]{2,3}", "((ab))", "abc");
    cannot(SHAPE_GRAMMAR, "root ::= root \"a\" | \"b\"", "left recursion");
    cannot(SHAPE_GRAMMAR, "root ::= x root \"a\" | \"b\"\nx ::= \"c\"?", "left recursion");
    cannot(SHAPE_GRAMMAR, "root ::= a", "no rule 'a'");
    cannot(SHAPE_GRAMMAR, "a ::= \"x\"", "no rule 'root'");
    cannot(SHAPE_GRAMMAR, "root ::= <think>", "tokens");
    cannot(SHAPE_GRAMMAR, "root ::= \"a\" root", "no text has this shape");
}

static void a_grammar_may_have_many_rules(void **state) {
    enum { N = 3000 };
    size_t size = N * 40, at = 0;
    char *rules = malloc(size);
    (void)state;
    assert_non_null(rules);
    at += (size_t)snprintf(rules, size, "root ::= \"x\"");
    for (int i = 0; i < N; i++) at += (size_t)snprintf(rules + at, size - at, " | r%d", i);
    for (int i = 0; i < N; i++)
        at += (size_t)snprintf(rules + at, size - at, "\nr%d ::= \"<%d>\"", i, i);
    ACCEPTS(SHAPE_GRAMMAR, rules, "x", "<0>", "<1234>", "<2999>");
    REFUSES(SHAPE_GRAMMAR, rules, "<3000>");
    free(rules);
}

static void a_grammar_of_any_depth_is_refused_in_time(void **state) {
    (void)state;
    cannot_repeat(SHAPE_GRAMMAR, "root ::= \"a\"", "*", 400000, "", "nested too deeply");
    ACCEPTS(SHAPE_GRAMMAR, "root ::= \"a\"{2}*", "aaaa");
    /* 1,000 rules, each with the next one in 199 groups */
    char *open = repeated("", "(\"a\" ", 199, ""), *close = repeated("", ")", 199, "");
    size_t size = 1000 * 1400, at = 0;
    char *rules = malloc(size);
    assert_non_null(rules);
    for (int i = 0; i < 1000; i++) {
        char name[16];
        snprintf(name, sizeof name, i == 0 ? "root" : "r%d", i);
        at +=
            (size_t)snprintf(rules + at, size - at, "%s ::= %s r%d %s\n", name, open, i + 1, close);
    }
    snprintf(rules + at, size - at, "r1000 ::= \"b\"\n");
    cannot(SHAPE_GRAMMAR, rules, "nested too deeply");
    free(rules);
    free(close);
    free(open);
}

/* Expects the text to be closed with `end`. */
static void closes_in(unsigned form, const char *schema, const char *text, const char *end) {
    Shape *shape = shape_in(form, SHAPE_JSON_SCHEMA, schema, &no_vocabulary);
    const char *out;
    size_t n = 0;
    Matcher *m;
    Error error = {""};
    if (matcher_new(&m, shape, &options, &error) != STATUS_OK) fail_msg("%s", error.text);
    assert_true(matcher_push(m, text, strlen(text), NULL));
    if (matcher_closing(m, &out, &n, &error) != STATUS_OK) fail_msg("%s: %s", schema, error.text);
    if (n != strlen(end) || memcmp(out, end, n) != 0) fail_msg("%s: %.*s", schema, (int)n, out);
    matcher_free(m);
    shape_free(shape);
}

static void closes(const char *schema, const char *text, const char *end) {
    closes_in(ANY_FORM, schema, text, end);
}

/* ---- JSON Schema ----------------------------------------------------------------------------- */

#define IN_ORDER(schema, ...)                                                                      \
    expect_in(ONE_LINE, SHAPE_JSON_SCHEMA, schema, true, (const char *const[]){__VA_ARGS__, NULL})
#define OUT_OF_ORDER(schema, ...)                                                                  \
    expect_in(ONE_LINE, SHAPE_JSON_SCHEMA, schema, false, (const char *const[]){__VA_ARGS__, NULL})

/* The order of `properties`, as xgrammar, llguidance and outlines have it; members that it does not
 * name come last. */
static void members_come_in_the_order_of_the_schema(void **state) {
    (void)state;
    static const char schema[] =
        "{\"properties\":{\"b\":{\"enum\":[1]},\"a\":{\"enum\":[2]},\"c\":{\"enum\":[3]}},"
        "\"required\":[\"c\",\"b\"],\"type\":\"object\",\"additionalProperties\":{\"enum\":[0]}}";
    IN_ORDER(schema, "{\"b\":1,\"a\":2,\"c\":3}", "{\"b\":1,\"c\":3}",
             "{\"b\":1,\"c\":3,\"z\":0,\"y\":0}");
    OUT_OF_ORDER(schema, "{\"a\":2,\"b\":1,\"c\":3}", "{\"c\":3,\"b\":1}", "{\"c\":3}",
                 "{\"b\":1,\"a\":2}", "{\"b\":1,\"z\":0,\"c\":3}", "{\"b\":1,\"c\":3,\"a\":2}");
    closes_in(ONE_LINE, schema, "", "{\"b\":1,\"c\":3}");
    closes_in(ONE_LINE, schema, "{\"b\":1,\"a", "\":2,\"c\":3}");
    /* A schema's own properties come first, then those of $ref and allOf in turn, of what applies
     * in some cases, and names that stand in `required` alone. */
    static const char joined[] =
        "{\"$defs\":{\"d\":{\"properties\":{\"z\":{},\"x\":{}}}},\"required\":[\"q\",\"z\"],"
        "\"allOf\":[{\"$ref\":\"#/$defs/d\"},{\"properties\":{\"y\":{},\"z\":{\"enum\":[1]}}}],"
        "\"anyOf\":[{\"properties\":{\"w\":{}},\"required\":[\"w\"]}],\"type\":\"object\","
        "\"properties\":{\"v\":{}}}";
    IN_ORDER(joined, "{\"v\":0,\"z\":1,\"x\":0,\"y\":0,\"w\":0,\"q\":0,\"more\":0}");
    OUT_OF_ORDER(joined, "{\"z\":1,\"v\":0,\"w\":0,\"q\":0}",
                 "{\"z\":1,\"y\":0,\"x\":0,\"w\":0,\"q\":0}", "{\"z\":1,\"q\":0,\"w\":0}",
                 "{\"z\":1,\"w\":0,\"y\":0,\"q\":0}");
    /* A value that two schemas speak of has its members in the order of both, the first first. */
    static const char both[] =
        "{\"properties\":{\"o\":{\"properties\":{\"b\":{},\"a\":{}}}},\"allOf\":[{\"properties\":"
        "{\"o\":{\"type\":\"object\",\"properties\":{\"a\":{},\"c\":{},\"b\":{}}}}}],"
        "\"required\":[\"o\"],\"type\":\"object\"}";
    IN_ORDER(both, "{\"o\":{\"b\":0,\"a\":0,\"c\":0}}");
    OUT_OF_ORDER(both, "{\"o\":{\"a\":0,\"b\":0", "{\"o\":{\"c\":0,\"b\":0");
    IN_ORDER("{\"const\":{\"b\":1,\"a\":[{\"d\":1,\"c\":2}]}}",
             "{\"b\":1,\"a\":[{\"d\":1,\"c\":2}]}");
}

/* A member is passed by only where the object can still end. */
static void members_in_order_leave_no_dead_end(void **state) {
    (void)state;
    /* b calls for c, which calls for a */
    static const char calls[] =
        "{\"properties\":{\"a\":{\"enum\":[1]},\"b\":{\"enum\":[1]},\"c\":{\"enum\":[1]}},"
        "\"dependentRequired\":{\"b\":[\"c\"],\"c\":[\"a\"]},\"additionalProperties\":false}";
    IN_ORDER(calls, "{}", "{\"a\":1}", "{\"a\":1,\"b\":1,\"c\":1}", "{\"a\":1,\"c\":1}");
    OUT_OF_ORDER(calls, "{\"b\":1", "{\"c\":1", "{\"a\":1,\"b\":1}", "{\"b\":1,\"c\":1,\"a\":1}");
    static const char three[] =
        "{\"properties\":{\"a\":{\"enum\":[1]},\"b\":{\"enum\":[1]},\"c\":{\"enum\":[1]},\"d\":"
        "{\"enum\":[1]}},\"minProperties\":3,\"additionalProperties\":false,\"type\":\"object\"}";
    IN_ORDER(three, "{\"b\":1,\"c\":1,\"d\":1}", "{\"a\":1,\"c\":1,\"d\":1}");
    OUT_OF_ORDER(three, "{\"c\":1", "{\"a\":1,\"d\":1", "{\"a\":1,\"b\":1}");
    closes_in(ONE_LINE, three, "{\"b\":", "1,\"c\":1,\"d\":1}");
    static const char most[] =
        "{\"properties\":{\"a\":{},\"b\":{},\"c\":{}},\"required\":[\"c\"],\"maxProperties\":2,"
        "\"type\":\"object\"}";
    IN_ORDER(most, "{\"a\":0,\"c\":0}", "{\"b\":0,\"c\":0}", "{\"c\":0,\"d\":0}");
    OUT_OF_ORDER(most, "{\"a\":0,\"b\":0", "{\"a\":0,\"d\":0");
    /* two names of one letter x or y, and two named members, make three */
    static const char names[] =
        "{\"properties\":{\"a\":{\"enum\":[1]},\"b\":{\"enum\":[1]}},\"patternProperties\":{\"^[xy]"
        "$\":"
        "{\"enum\":[1]}},\"minProperties\":3,\"additionalProperties\":false,\"type\":\"object\"}";
    IN_ORDER(names, "{\"b\":1,\"x\":1,\"y\":1}", "{\"a\":1,\"b\":1,\"y\":1}");
    OUT_OF_ORDER(names, "{\"x\":1", "{\"b\":1,\"x\":1,\"x\":1");
}

/* An object of members a to d, all 1, and at most two more with the names x and y. */
typedef struct Counted {
    unsigned required, calls[4]; /* bits of members; what each one calls for */
    size_t min, max;
} Counted;

static bool counted_is_valid(const Counted *o, unsigned set, size_t more) {
    size_t n = more + (size_t)__builtin_popcount(set);
    bool valid = (set & o->required) == o->required && n >= o->min && n <= o->max;
    for (unsigned i = 0; i < 4; i++) valid &= !(set >> i & 1) || (set & o->calls[i]) == o->calls[i];
    return valid;
}

/* Whether an object that has the members `set`, and `more` of x and y, can become valid with more
 * members. `ordered`: named members come in order, and none comes after x or y. */
static bool counted_can_end(const Counted *o, unsigned set, size_t more, bool ordered) {
    for (unsigned all = 0; all < 16; all++) {
        unsigned added = all & ~set;
        if ((all & set) != set || (ordered && added && more)) continue;
        if (ordered && added && set && __builtin_ctz(added) < 31 - __builtin_clz(set)) continue;
        for (size_t k = more; k <= 2; k++)
            if (counted_is_valid(o, all, k)) return true;
    }
    return false;
}

static void counted_print(const Counted *o, char *text, size_t size) {
    size_t n = (size_t)snprintf(text, size,
                                "{\"type\":\"object\",\"properties\":{\"a\":{\"const\":1},\"b\":{"
                                "\"const\":1},\"c\":{\"const\":1},\"d\":{\"const\":1}},"
                                "\"patternProperties\":{\"^[xy]$\":{\"const\":1}},"
                                "\"additionalProperties\":false,\"minProperties\":%zu,"
                                "\"maxProperties\":%zu,\"dependentRequired\":{",
                                o->min, o->max);
    for (unsigned i = 0; i <= 4; i++) {
        unsigned names = i < 4 ? o->calls[i] : o->required;
        n += (size_t)snprintf(text + n, size - n, i == 4 ? "},\"required\":[" : "%s\"%c\":[",
                              i ? "," : "", 'a' + i);
        for (unsigned k = 0, any = 0; k < 4; k++)
            if (names >> k & 1)
                n += (size_t)snprintf(text + n, size - n, "%s\"%c\"", any++ ? "," : "", 'a' + k);
        n += (size_t)snprintf(text + n, size - n, "]");
    }
    snprintf(text + n, size - n, "}");
}

/* Compares each beginning of an object, and its end, with what the lists of members say. */
static void counted_compare(const Counted *o, unsigned form) {
    char schema[700], text[100];
    const char *end;
    size_t length;
    Error error = {""};
    bool ordered = !(form & JSON_ANY_ORDER);
    counted_print(o, schema, sizeof schema);
    if (!counted_can_end(o, 0, 0, ordered)) {
        cannot(SHAPE_JSON_SCHEMA, schema, "no text has this shape");
        return;
    }
    Shape *shape = shape_in(form, SHAPE_JSON_SCHEMA, schema, &no_vocabulary);
    for (unsigned set = 0; set < 16 * 3; set++) {
        size_t n = 1;
        text[0] = '{';
        for (unsigned i = 0; i < 6; i++) { /* backwards in any order */
            unsigned k = ordered ? i : 5 - i;
            if (k < 4 ? !(set >> k & 1) : set / 16 < k - 3) continue;
            n += (size_t)snprintf(text + n, sizeof text - n, "%s\"%c\":1", n > 1 ? "," : "",
                                  "abcdxy"[k]);
        }
        Matcher *m;
        if (matcher_new(&m, shape, &options, &error) != STATUS_OK) fail_msg("%s", error.text);
        bool begins = matcher_push(m, text, n, NULL);
        if (begins != counted_can_end(o, set % 16, set / 16, ordered))
            fail_msg("%s: '%.*s' is %s", schema, (int)n, text, begins ? "accepted" : "refused");
        if (begins && matcher_closing(m, &end, &length, &error) != STATUS_OK)
            fail_msg("%s: '%.*s': %s", schema, (int)n, text, error.text);
        if (begins) snprintf(text + n, sizeof text - n, "%.*s", (int)length, end);
        if (begins && !has(shape, text)) fail_msg("%s: closed '%s'", schema, text);
        matcher_free(m);
        snprintf(text + n, sizeof text - n, "}");
        if (has(shape, text) != counted_is_valid(o, set % 16, set / 16))
            fail_msg("%s: '%s' is wrong", schema, text);
    }
    shape_free(shape);
}

/* What a member calls for takes room as well. */
static void members_that_call_for_others_are_counted(void **state) {
    (void)state;
    uint64_t bits = 0x9e3779b97f4a7c15u;
    for (size_t i = 0; i < tier_count(60, 200, 1000); i++) {
        Counted o = {0};
        for (unsigned k = 0; k < 8; k++) {
            bits = bits * 6364136223846793005u + 1442695040888963407u;
            unsigned drawn = (unsigned)(bits >> 33);
            if (k < 4 && drawn % 2) o.calls[k] = 1u << (drawn >> 1) % 4 | 1u << (drawn >> 3) % 4;
            if (k == 4 && drawn % 2) o.required = 1u << (drawn >> 1) % 4;
            if (k == 5) o.min = drawn % 2;
            if (k == 6) o.max = drawn % 6;
        }
        counted_compare(&o, ONE_LINE);
        counted_compare(&o, ANY_FORM);
    }
    /* A least number that what is required makes says nothing; others would be a search. */
    IN_ORDER("{\"type\":\"object\",\"required\":[\"b\"],\"minProperties\":2,\"maxProperties\":3,"
             "\"dependentRequired\":{\"b\":[\"c\"]}}",
             "{\"b\":1,\"c\":1}", "{\"b\":1,\"c\":1,\"d\":1}");
    cannot(SHAPE_JSON_SCHEMA,
           "{\"type\":\"object\",\"minProperties\":2,\"maxProperties\":3,\"dependentRequired\":{"
           "\"b\":[\"c\"]}}",
           "'minProperties' of 2 beside 'maxProperties' and 'dependentRequired'");
}

/* A reader of JSON Lines takes each answer as it is. */
static void json_is_one_line(void **state) {
    (void)state;
    static const char any[] = "{\"type\":\"object\"}";
    IN_ORDER(any, "{}", "{\"a\": [1, 2,3], \"b\":{\"c\":[]}}");
    OUT_OF_ORDER(any, "{ }", "{\n}", "{ \"a\":1}", "{\"a\":  1}", "{\"a\":1,  \"b\":2}",
                 "{\"a\":1 }", "{\"a\":[ 1]}", "{\"a\":[1 ]}", "{\"a\":[1,\n2]}",
                 "{\"a\":1,\n\"b\":2}", "{\"a\" :1}");
    expect_in(JSON_ANY_SPACE, SHAPE_JSON_SCHEMA, "{\"properties\":{\"b\":{},\"a\":{}}}", true,
              (const char *const[]){"{\n  \"b\": 1,\n  \"a\": 2\n}", NULL});
    expect_in(JSON_ANY_SPACE, SHAPE_JSON_SCHEMA, "{\"properties\":{\"b\":{},\"a\":{}}}", false,
              (const char *const[]){"{\n  \"a\": 1,\n  \"b\"", NULL});
    expect_in(JSON_ANY_ORDER, SHAPE_JSON_SCHEMA, "{\"properties\":{\"b\":{},\"a\":{}}}", true,
              (const char *const[]){"{\"a\": 1, \"b\": 2}", NULL});
    expect_in(JSON_ANY_ORDER, SHAPE_JSON_SCHEMA, "{\"properties\":{\"b\":{},\"a\":{}}}", false,
              (const char *const[]){"{\n", NULL});
}

static void members_come_in_any_order_and_once(void **state) {
    static const char schema[] =
        "{\"properties\": {\"a\": {\"type\": \"integer\", \"minimum\": -3, \"maximum\": 120},"
        "\"b\": {\"type\": \"string\", \"maxLength\": 3}}, \"required\": [\"a\"],"
        "\"type\": \"object\", \"additionalProperties\": false}";
    (void)state;
    ACCEPTS(SHAPE_JSON_SCHEMA, schema, "{\"a\":1}", "{\"b\": \"x\", \"a\": 120}",
            "{\n  \"a\": -3\n}", "{\"a\": 0, \"b\": \"\xC3\xA9\\u00e9\\\"\"}");
    REFUSES(SHAPE_JSON_SCHEMA, schema, "{}", "{\"a\": 121}", "{\"a\": -4}", "{\"a\": 1.5}",
            "{\"a\":1, \"a\":2}", "{\"a\": 1, \"b\": \"four\"}", "{\"a\": 1, \"c\": 2}",
            "{\"a\" : 1}", "{\"a\": 01}", "[1]");
}

/* A line end with at most four spaces or a tab for each level: a model that loves blanks comes to
 * the next token all the same. */
static void indentation_follows_the_nesting(void **state) {
    (void)state;
    static const char any[] = "{\"type\":\"object\"}";
    ACCEPTS(SHAPE_JSON_SCHEMA, any, "{}", "{ }", "{\n}", "{\"a\":1}", "{ \"a\": [1, 2] }",
            "{\n    \"a\": [\n        1,\n        {\n            \"b\": {}\n        }\n    ]\n}",
            "{\r\n\t\"a\": [\r\n\t\t1,\r\n\t\t[]\r\n\t]\r\n}",
            "{\n  \"a\": [\n    1\n  ],\n  \"b\": 2\n}", "{\n\"a\":1,\n\"b\":[ ]\n}");
    REFUSES(SHAPE_JSON_SCHEMA, any, "{\n }", "{\n     \"a\":1}", "{\n\t\t\"a\":1}",
            "{\n \t\"a\":1}", "{\"a\":1\n }", "{\"a\":[\n         1]}", "{\"a\":[1\n     ]}",
            "{\n\n\"a\":1}", "{  \"a\":1}", "{\"a\" :1}", "{\"a\":\n1}");
    char *deep = repeated("{\"a\":", "[\n", 30, ""), text[200];
    char *close = repeated("", "]", 30, "}");
    for (int spaces = 40; spaces <= 41; spaces++) {
        snprintf(text, sizeof text, "%s%*s%s", deep, spaces, "", close);
        expect(SHAPE_JSON_SCHEMA, any, spaces == 40, (const char *const[]){text, NULL});
    }
    free(deep);
    free(close);
}

static void arrays_contain_what_they_must(void **state) {
    static const char two[] =
        "{\"type\":\"array\",\"contains\":{\"type\":\"integer\",\"minimum\":5},"
        "\"minContains\":2,\"maxContains\":3,\"maxItems\":4}";
    (void)state;
    ACCEPTS(SHAPE_JSON_SCHEMA, two, "[5,6]", "[1,5,\"a\",7]", "[5,6,7]", "[{},9,9,9]");
    REFUSES(SHAPE_JSON_SCHEMA, two, "[]", "[5]", "[1,2,3", "[5,6,7,8]", "[1,2,5,6,7");
    closes(two, "[1,", "5,5]");
    static const char some[] = "{\"type\":\"array\",\"items\":{\"type\":[\"integer\",\"null\"]},"
                               "\"contains\":{\"type\":\"null\"}}";
    ACCEPTS(SHAPE_JSON_SCHEMA, some, "[null]", "[1,null,2]", "[null, null]");
    REFUSES(SHAPE_JSON_SCHEMA, some, "[]", "[1]", "[\"a\"");
    closes(some, "[1", ",null]");
    static const char not_all[] =
        "{\"type\":\"array\",\"maxItems\":3,\"not\":{\"items\":{\"type\":\"integer\"}}}";
    ACCEPTS(SHAPE_JSON_SCHEMA, not_all, "[1,null]", "[\"a\"]");
    REFUSES(SHAPE_JSON_SCHEMA, not_all, "[]", "[1,2]", "[1,2,3");
    static const char rest[] =
        "{\"type\":\"array\",\"prefixItems\":[{}],\"contains\":{\"const\":\"x\"},"
        "\"minContains\":0,\"unevaluatedItems\":{\"type\":\"null\"}}";
    ACCEPTS(SHAPE_JSON_SCHEMA, rest, "[1,\"x\",null]", "[1]", "[]");
    REFUSES(SHAPE_JSON_SCHEMA, rest, "[1,2", "[1,\"x\",\"y\"");
    cannot(SHAPE_JSON_SCHEMA,
           "{\"type\":\"array\",\"items\":{\"type\":\"null\"},\"contains\":{\"type\":\"string\"}}",
           "no text has this shape");
}

static void only_different_names_count_as_members(void **state) {
    static const char three[] =
        "{\"type\":\"object\",\"properties\":{\"id\":{}},\"minProperties\":3}";
    (void)state;
    ACCEPTS(SHAPE_JSON_SCHEMA, three, "{\"a\":1,\"ab\":{\"a\":1},\"\":3}",
            "{\"id\":1, \"\\\"\": 2,\n\"\\\"\\\"\": 3, \"x\":{}}");
    REFUSES(SHAPE_JSON_SCHEMA, three, "{\"a\":1,\"a\":2", "{\"a\":1,\"id\":2, \"a\":3",
            "{\"a\":1,\"id\":2}", "{\"id\":1, \"id\":2");
    static const char few[] = "{\"type\":\"object\",\"patternProperties\":{\"^[ab]$\":{}},"
                              "\"additionalProperties\":false,\"minProperties\":%d}";
    char schema[sizeof few];
    snprintf(schema, sizeof schema, few, 2);
    ACCEPTS(SHAPE_JSON_SCHEMA, schema, "{\"b\":1,\"a\":2}");
    REFUSES(SHAPE_JSON_SCHEMA, schema, "{\"b\":1,\"b\":2}");
    snprintf(schema, sizeof schema, few, 3);
    cannot(SHAPE_JSON_SCHEMA, schema, "no text has this shape");
}

static void numbers_are_compared_as_decimals(void **state) {
    (void)state;
    ACCEPTS(SHAPE_JSON_SCHEMA, "{\"type\":\"number\",\"exclusiveMinimum\":0.5,\"maximum\":12}",
            "0.51", "1", "12", "12.0", "9.99");
    REFUSES(SHAPE_JSON_SCHEMA, "{\"type\":\"number\",\"exclusiveMinimum\":0.5,\"maximum\":12}",
            "0.5", "0.50", "12.01", "0", "-1", "13", "100");
    ACCEPTS(SHAPE_JSON_SCHEMA, "{\"type\":\"number\",\"minimum\":0}", "1e-7", "0", "3.5E2");
    ACCEPTS(SHAPE_JSON_SCHEMA, "{\"type\":\"number\",\"multipleOf\":0.25}", "0.75", "-1.5", "2",
            "0");
    REFUSES(SHAPE_JSON_SCHEMA, "{\"type\":\"number\",\"multipleOf\":0.25}", "0.7", "0.125");
    ACCEPTS(SHAPE_JSON_SCHEMA, "{\"type\":\"integer\",\"multipleOf\":7,\"minimum\":10}", "14",
            "700");
    REFUSES(SHAPE_JSON_SCHEMA, "{\"type\":\"integer\",\"multipleOf\":7,\"minimum\":10}", "7", "15");
    ACCEPTS(SHAPE_JSON_SCHEMA, "{\"type\":\"integer\",\"multipleOf\":1000003,\"minimum\":5}",
            "1000003", "7000021");
    REFUSES(SHAPE_JSON_SCHEMA, "{\"type\":\"integer\",\"multipleOf\":1000003,\"minimum\":5}",
            "1000004", "-1000003", "0");
    ACCEPTS(SHAPE_JSON_SCHEMA, "{\"type\":\"number\",\"multipleOf\":123.4567}", "123.4567",
            "246.91340", "1234567", "0");
    REFUSES(SHAPE_JSON_SCHEMA, "{\"type\":\"number\",\"multipleOf\":123.4567}", "123.4568", "1");
    cannot(SHAPE_JSON_SCHEMA,
           "{\"type\":\"integer\",\"multipleOf\":1000003,\"maximum\":1e15,\"minimum\":0}",
           "takes too many steps");
    static const char excluded[] = "{\"type\":\"number\",\"not\":{\"enum\":[1,0,-2.5]}}";
    ACCEPTS(SHAPE_JSON_SCHEMA, excluded, "2", "1.01", "10", "-1", "2.5", "-2.51", "0.1");
    REFUSES(SHAPE_JSON_SCHEMA, excluded, "1", "1.0", "1.00", "1e0", "10e-1", "0", "-0", "0.0",
            "-0.0", "-2.5", "-2.50");
    ACCEPTS(SHAPE_JSON_SCHEMA, "{\"type\":\"number\",\"not\":{\"const\":\"x\"}}", "1e3");
    cannot(SHAPE_JSON_SCHEMA,
           "{\"type\":\"integer\",\"exclusiveMinimum\":3,\"exclusiveMaximum\":4}",
           "no text has this shape");
}

/* json.dumps writes -0.0 so. */
static void a_zero_may_have_the_sign_that_the_schema_writes(void **state) {
    (void)state;
    ACCEPTS(SHAPE_JSON_SCHEMA, "{\"enum\":[-0.0]}", "-0.0", "0.0", "-0", "0");
    ACCEPTS(SHAPE_JSON_SCHEMA, "{\"const\":-0e0}", "-0.0", "0");
    ACCEPTS(SHAPE_JSON_SCHEMA, "{\"const\":[-0.0]}", "[-0.0]");
    REFUSES(SHAPE_JSON_SCHEMA, "{\"enum\":[0.0]}", "-0.0", "-0", "0.00");
    REFUSES(SHAPE_JSON_SCHEMA, "{\"enum\":[-0.0]}", "--0", "-0.00", "-1");
}

static void numbers_keep_all_their_digits(void **state) {
    static const char long_const[] = "{\"const\":0.1234567890123456789012}";
    static const char rounds_up[] =
        "{\"type\":\"integer\",\"minimum\":9007199254740992,\"allOf\":[{"
        "\"minimum\":9007199254740993}]}";
    static const char excluded[] =
        "{\"type\":\"integer\",\"not\":{\"const\":36893488147419103232}}";
    (void)state;
    ACCEPTS(SHAPE_JSON_SCHEMA, "{\"type\":\"integer\",\"maximum\":18446744073709551615}",
            "18446744073709551615", "-18446744073709551616");
    REFUSES(SHAPE_JSON_SCHEMA, "{\"type\":\"integer\",\"maximum\":18446744073709551615}",
            "18446744073709551616");
    ACCEPTS(SHAPE_JSON_SCHEMA, "{\"const\":9223372036854775808}", "9223372036854775808");
    REFUSES(SHAPE_JSON_SCHEMA, "{\"const\":9223372036854775808}", "9223372036854775807",
            "9223372036854776000");
    ACCEPTS(SHAPE_JSON_SCHEMA, long_const, "0.1234567890123456789012");
    REFUSES(SHAPE_JSON_SCHEMA, long_const, "0.12345678901234568", "0.1234567890123456789013");
    ACCEPTS(SHAPE_JSON_SCHEMA, "{\"minimum\":0.10000000000000001}", "0.10000000000000001", "0.11");
    REFUSES(SHAPE_JSON_SCHEMA, "{\"minimum\":0.10000000000000001}", "0.1", "-1");
    ACCEPTS(SHAPE_JSON_SCHEMA, rounds_up, "9007199254740993");
    REFUSES(SHAPE_JSON_SCHEMA, rounds_up, "9007199254740992");
    ACCEPTS(SHAPE_JSON_SCHEMA, excluded, "36893488147419103231", "36893488147419103233");
    REFUSES(SHAPE_JSON_SCHEMA, excluded, "36893488147419103232");
    ACCEPTS(SHAPE_JSON_SCHEMA, "{\"enum\":[\"1\\\"2\",18446744073709551617,{\"a\":1e400}]}",
            "18446744073709551617", "\"1\\\"2\"");
    cannot(SHAPE_JSON_SCHEMA, "{\"maximum\":1e999}", "1e999 has too many digits");
    cannot(SHAPE_JSON_SCHEMA, "{\"maximum\":1.234567890123456789.5}", "not JSON");
    cannot(SHAPE_JSON_SCHEMA, "{\"maximum\":00000000000000000000001}", "not JSON");
    cannot(SHAPE_JSON_SCHEMA, "{\"maximum\":123456789012345678901.}", "not JSON");
    cannot(SHAPE_JSON_SCHEMA, "{\"maximum\":123456789012345678901e+}", "not JSON");
    cannot(SHAPE_JSON_SCHEMA, "{\"minItems\":2.00000000000000000001}", "must be a whole number");
}

static void what_is_compared_as_a_whole_evaluates_nothing(void **state) {
    static const char items[] = "{\"enum\":[[1,2],[],\"x\"],\"unevaluatedItems\":false}";
    static const char members[] = "{\"const\":{\"a\":1,\"b\":2},\"properties\":{\"a\":true},"
                                  "\"unevaluatedProperties\":%s}";
    char schema[200];
    (void)state;
    ACCEPTS(SHAPE_JSON_SCHEMA, items, "[]", "\"x\"");
    REFUSES(SHAPE_JSON_SCHEMA, items, "[1,2]");
    snprintf(schema, sizeof schema, members, "false");
    cannot(SHAPE_JSON_SCHEMA, schema, "no text has this shape");
    snprintf(schema, sizeof schema, members, "{\"maximum\":2}");
    ACCEPTS(SHAPE_JSON_SCHEMA, schema, "{\"a\":1,\"b\":2}");
    cannot(SHAPE_JSON_SCHEMA, "{\"allOf\":[{\"const\":{\"a\":1}}],\"unevaluatedProperties\":false}",
           "no text has this shape");
}

static void schemas_are_combined(void **state) {
    static const char tree[] = "{\"$ref\":\"#/$defs/n\",\"$defs\":{\"n\":{\"type\":\"object\","
                               "\"properties\":{\"v\":{\"type\":\"integer\"},\"kids\":{\"type\":"
                               "\"array\",\"items\":{\"$ref\":\"#/$defs/n\"},\"maxItems\":2}},"
                               "\"required\":[\"v\"],\"additionalProperties\":false}}}";
    (void)state;
    ACCEPTS(SHAPE_JSON_SCHEMA, tree, "{\"v\":1}",
            "{\"kids\": [{\"v\":2}, {\"v\":3, \"kids\":[]}], \"v\":1}");
    REFUSES(SHAPE_JSON_SCHEMA, tree, "{\"kids\": [{}], \"v\":1}",
            "{\"v\":1,\"kids\":[{\"v\":1},{\"v\":1},{\"v\":1}]}");
    static const char all[] =
        "{\"allOf\":[{\"properties\":{\"a\":{\"minLength\":2}}},{\"properties\":"
        "{\"a\":{\"type\":\"string\",\"maxLength\":2}}}],\"type\":\"object\","
        "\"required\":[\"a\"]}";
    ACCEPTS(SHAPE_JSON_SCHEMA, all, "{\"a\":\"xy\",\"b\":null}");
    REFUSES(SHAPE_JSON_SCHEMA, all, "{\"a\":\"x\"}", "{\"a\":\"xyz\"}");
    static const char one[] = "{\"oneOf\":[{\"required\":[\"a\"]},{\"required\":[\"b\"]}],"
                              "\"type\":\"object\"}";
    ACCEPTS(SHAPE_JSON_SCHEMA, one, "{\"a\":1}", "{\"b\":1}");
    REFUSES(SHAPE_JSON_SCHEMA, one, "{}", "{\"a\":1,\"b\":2}");
    static const char conditional[] =
        "{\"if\":{\"properties\":{\"k\":{\"const\":1}},\"required\":[\"k\"]},\"then\":{"
        "\"required\":"
        "[\"x\"]},\"else\":{\"required\":[\"y\"]},\"type\":\"object\"}";
    ACCEPTS(SHAPE_JSON_SCHEMA, conditional, "{\"k\":1,\"x\":0}", "{\"k\":2,\"y\":0}", "{\"y\":0}");
    REFUSES(SHAPE_JSON_SCHEMA, conditional, "{\"k\":1,\"y\":0}", "{\"x\":0}");
    static const char dependent[] = "{\"type\":\"object\",\"dependentSchemas\":{\"a\":false,"
                                    "\"b\":false,\"c\":{\"required\":[\"d\"]}}}";
    ACCEPTS(SHAPE_JSON_SCHEMA, dependent, "{}", "{\"d\":1}", "{\"c\":1,\"d\":1}");
    REFUSES(SHAPE_JSON_SCHEMA, dependent, "{\"a\":1}", "{\"b\":1}", "{\"c\":1}");
    static const char patterns[] =
        "{\"type\":\"object\",\"patternProperties\":{\"^s_\":{\"type\":\"string\"},\"_n$\":"
        "{\"maxLength\":1}},\"additionalProperties\":{\"type\":\"integer\"}}";
    ACCEPTS(SHAPE_JSON_SCHEMA, patterns, "{\"s_a\":\"long\",\"s_n\":\"x\",\"b\":1,\"_n\":[]}");
    REFUSES(SHAPE_JSON_SCHEMA, patterns, "{\"s_n\":\"long\"}", "{\"s_a\":1}", "{\"b\":\"x\"}");
}

static void strings_keep_their_formats(void **state) {
    (void)state;
    ACCEPTS(SHAPE_JSON_SCHEMA, "{\"type\":\"string\",\"format\":\"date-time\"}",
            "\"2024-02-29T23:59:59.5Z\"", "\"1999-12-31T00:00:00+01:00\"");
    REFUSES(SHAPE_JSON_SCHEMA, "{\"type\":\"string\",\"format\":\"date-time\"}",
            "\"2023-02-29T23:59:59Z\"", "\"2024-02-29 23:59:59Z\"");
    ACCEPTS(SHAPE_JSON_SCHEMA, "{\"format\":\"ipv6\"}", "\"::1\"", "\"2001:db8::8a2e:370:7334\"",
            "7");
    REFUSES(SHAPE_JSON_SCHEMA, "{\"format\":\"ipv6\"}", "\"12345::\"", "\"1::2::3\"");
    ACCEPTS(SHAPE_JSON_SCHEMA, "{\"format\":\"uri\"}", "\"https://a.b/c?d=e#f\"", "\"urn:x:y\"");
    REFUSES(SHAPE_JSON_SCHEMA, "{\"format\":\"uri\"}", "\"//a.b\"", "\"a b:c\"");
    ACCEPTS(SHAPE_JSON_SCHEMA, "{\"pattern\":\"^a.*\\\"$\"}", "\"ab\\\"\"", "\"a\\\\\\\"\"");
}

static void combinations_of_choices_are_limited(void **state) {
    (void)state;
    cannot_repeat(SHAPE_JSON_SCHEMA, "{\"type\":\"string\",\"allOf\":[true",
                  ",{\"anyOf\":[true,true]}", 40, "]}", "too many combinations");
}

static void a_pattern_without_a_match_leaves_no_string(void **state) {
    (void)state;
    REFUSES(SHAPE_JSON_SCHEMA, "{\"type\":[\"string\",\"null\"],\"pattern\":\"[]\"}", "\"\"",
            "\"a\"");
    REFUSES(SHAPE_JSON_SCHEMA, "{\"type\":[\"string\",\"null\"],\"pattern\":\"a^b\"}", "\"ab\"");
    REFUSES(SHAPE_JSON_SCHEMA,
            "{\"type\":[\"string\",\"null\"],\"allOf\":[{\"pattern\":\"[]\"},{\"minLength\":2}]}",
            "\"abc\"");
    cannot(SHAPE_JSON_SCHEMA, "{\"type\":\"string\",\"pattern\":\"[]\"}", "no text has this shape");
}

static void what_cannot_be_enforced_is_refused_by_name(void **state) {
    (void)state;
    cannot(SHAPE_JSON_SCHEMA, "{\"uniqueItems\":true}", "'uniqueItems'");
    cannot(SHAPE_JSON_SCHEMA,
           "{\"contains\":{\"type\":\"null\"},\"allOf\":[{\"contains\":{\"const\":1}}]}",
           "several 'contains'");
    cannot(SHAPE_JSON_SCHEMA, "{\"format\":\"idn-hostname\"}", "'idn-hostname'");
    cannot(SHAPE_JSON_SCHEMA, "{\"$ref\":\"https://elsewhere.org/x\"}", "leads to no schema");
    /* RFC 6901, 4: the digits of an index have no leading zero. */
    cannot(SHAPE_JSON_SCHEMA,
           "{\"$ref\":\"#/$defs/a/anyOf/00\",\"$defs\":{\"a\":{\"anyOf\":[{}]}}}",
           "leads to no schema");
    cannot(SHAPE_JSON_SCHEMA,
           "{\"$ref\":\"#/$defs/a/anyOf/01\",\"$defs\":{\"a\":{\"anyOf\":[1,{}]}}}",
           "leads to no schema");
    cannot(SHAPE_JSON_SCHEMA, "{\"$ref\":\"#\"}", "without end");
    cannot(SHAPE_JSON_SCHEMA, "{\"not\":{\"propertyNames\":{\"maxLength\":3}}}", "'propertyNames'");
    cannot(SHAPE_JSON_SCHEMA, "{\"type\":\"text\"}", "'type'");
    cannot(SHAPE_JSON_SCHEMA, "{\"not\":{\"type\":\"text\"}}", "'type'");
    cannot(SHAPE_JSON_SCHEMA,
           "{\"type\":\"object\",\"required\":[\"a\"],\"properties\":{\"a\":false}}",
           "no text has this shape");
    cannot(SHAPE_JSON_SCHEMA,
           "{\"type\":\"object\",\"required\":[\"a\",\"b\",\"c\"],\"maxProperties\":2}",
           "no text has this shape");
    cannot(SHAPE_JSON_SCHEMA, "[", "not JSON");
}

static void a_text_that_passes_a_limit_leaves_others_alone(void **state) {
    static const char schema[] =
        "{\"type\":[\"null\",\"string\"],\"allOf\":[{\"pattern\":\"^x(a|b)*a(a|b){40}c$\"},"
        "{\"pattern\":\"^x(a|b)*b(a|b){41}d$\"}]}";
    Shape *shape = shape_of(SHAPE_JSON_SCHEMA, schema, &no_vocabulary);
    (void)state;
    assert_true(has(shape, "null"));
    assert_false(has(shape, "\"x\""));
    assert_true(has(shape, "null"));
    shape_free(shape);
}

/* A text whose states were forgotten is read again, however long it is: the limit is that of one
 * mask. */
static void a_forgotten_text_is_read_again(void **state) {
    static const char schema[] = "{\"type\":\"array\",\"items\":{\"type\":\"object\","
                                 "\"minProperties\":3}}";
    const ShapeSource source = {
        .kind = SHAPE_JSON_SCHEMA, .text = schema, .length = strlen(schema)};
    AcceptorLimits limits = acceptor_limits_default();
    Acceptor *acceptor;
    Matcher *m;
    Shape *shape;
    Error error = {""};
    (void)state;
    limits.step_work = 5000;
    if (shape_source_compile_within(&source, &limits, &acceptor, &error) != STATUS_OK ||
        shape_new(&shape, acceptor, &no_vocabulary, &error) != STATUS_OK ||
        matcher_new(&m, shape, &options, &error) != STATUS_OK)
        fail_msg("%s", error.text);
    for (int i = 100; i < 200; i++) {
        char text[64];
        snprintf(text, sizeof text, "%s{\"a%d\":1,\"b%d\":2,\"c%d\":3}", i == 100 ? "[" : ",", i, i,
                 i);
        for (const char *c = text; *c; c++) assert_true(matcher_push(m, c, 1, NULL));
    }
    matcher_rewind(m, m->length - 1);
    acceptor->limits.bytes = 1; /* all states are forgotten now */
    if (!matcher_push(m, "}", 1, NULL)) fail_msg("%s", m->failed);
    matcher_free(m);
    shape_free(shape);
}

static void texts_are_closed_in_time(void **state) {
    char *end = repeated("", " ", 2000, "\"");
    (void)state;
    closes("{\"type\":\"string\",\"minLength\":2000}", "\"", end);
    closes("{\"type\":\"string\",\"minLength\":2000,\"pattern\":\"^ *$\"}", "\"", end);
    free(end);
}

/* What is left of a long list is not added up again for each of its items. */
static void long_lists_are_closed_in_time(void **state) {
    enum { N = 50000 };
    char *items = repeated("{\"type\":\"array\",\"prefixItems\":[true", ",true", N - 1, "],");
    char *schema = malloc(strlen(items) + 40), *end = repeated("[0", ",0", N - 1, "]");
    (void)state;
    assert_non_null(schema);
    sprintf(schema, "%s\"minItems\":%d}", items, N);
    clock_t start = clock();
    closes(schema, "", end);
    closes(schema, "[1", end + 2);
    assert_true(clock() - start < (clock_t)10 * CLOCKS_PER_SEC);
    free(schema);
    free(items);
    free(end);
}

static void any_text_is_closed_by_a_short_way(void **state) {
    static const char open[] =
        "{\"type\":\"object\",\"properties\":{\"name\":{\"type\":\"string\",\"minLength\":2},"
        "\"next\":{\"$ref\":\"#\"}},\"required\":[\"name\",\"id\"],\"minProperties\":3}";
    (void)state;
    closes(open, "", "{\"name\":\"  \",\"id\":0,\"\":0}");
    closes(open, "{\"a\":1,", "\"name\":\"  \",\"id\":0}");
    closes(open, "{\"name", "\":\"  \",\"id\":0,\"\":0}");
    closes(open, "{\"named\":[1,{\"x", "\":0}],\"name\":\"  \",\"id\":0}");
    closes(open, "{\"next\":{\"id\"", ":0,\"name\":\"  \",\"\":0},\"name\":\"  \",\"id\":0}");
    closes("{\"type\":\"object\",\"additionalProperties\":false,\"properties\":{\"a\":{},"
           "\"b\":{\"enum\":[12345]},\"c\":{},\"dd\":{}},\"minProperties\":2,"
           "\"dependentRequired\":{\"a\":[\"b\"],\"c\":[\"a\"]}}",
           "{\"", "a\":0,\"b\":12345}");
    closes("{\"type\":\"array\",\"prefixItems\":[{\"enum\":[true]},{\"enum\":[\"xyz\",\"xy\"]}],"
           "\"minItems\":3,\"items\":{\"anyOf\":[{\"type\":\"array\"},{\"type\":\"object\"}]}}",
           "[t", "rue,\"xy\",[]]");
}

/* A member that calls for one that cannot be is no way to go. */
static void members_that_lead_nowhere_are_not_allowed(void **state) {
    static const char dependent[] =
        "{\"type\":\"object\",\"properties\":{\"a\":{},\"b\":{\"$ref\":\"#/$defs/never\"}},"
        "\"dependentRequired\":{\"a\":[\"b\"],\"c\":[\"a\"]},\"$defs\":{\"never\":{\"type\":"
        "\"array\","
        "\"minItems\":1,\"items\":{\"$ref\":\"#/$defs/never\"}}}}";
    (void)state;
    ACCEPTS(SHAPE_JSON_SCHEMA, dependent, "{}", "{\"d\":1}");
    REFUSES(SHAPE_JSON_SCHEMA, dependent, "{\"a", "{\"c", "{\"b");
    closes(dependent, "{\"", "\":0}");
    cannot(SHAPE_JSON_SCHEMA,
           "{\"type\":\"object\",\"required\":[\"a\"],\"dependentRequired\":{\"a\":[\"b\"]},"
           "\"properties\":{\"b\":{\"not\":{}}}}",
           "no text has this shape");
}

/* ---- Masks ----------------------------------------------------------------------------------- */

/* The tokenizer of the model that comes with the program. */
static Tokenizer *open_tokenizer(ModelFile **file) {
    static const char path[] = "models/stories.bin";
    Tokenizer *tokenizer = NULL;
    Error error = {""};
    const void *section;
    size_t bytes;
    if (modelfile_open(file, path, open(path, O_RDONLY), &error) != STATUS_OK ||
        !(section = modelfile_section(*file, SECTION_TOKENIZER, &bytes)) ||
        tokenizer_open(&tokenizer, section, bytes, &error) != STATUS_OK)
        fail_msg("%s", error.text);
    return tokenizer;
}

/* Its vocabulary. */
static int open_vocabulary(void **state) {
    ModelFile *file;
    Tokenizer *tokenizer = open_tokenizer(&file);
    Vocabulary *vocabulary;
    Error error;
    if (vocabulary_new(&vocabulary, tokenizer, modelfile_config(file)->vocab_size, &error) !=
        STATUS_OK)
        return -1;
    tokenizer_close(tokenizer);
    modelfile_close(file);
    *state = vocabulary;
    return 0;
}

static int close_vocabulary(void **state) {
    vocabulary_free(*state);
    return 0;
}

/* At each byte of the text: the mask has exactly the tokens that the matcher takes. */
static void check_masks(ShapeKind kind, const char *source, const char *text,
                        const Vocabulary *vocabulary) {
    Shape *shape = shape_of(kind, source, vocabulary);
    Matcher *m;
    Error error = {""};
    assert_int_equal(matcher_new(&m, shape, &options, &error), STATUS_OK);
    for (size_t at = 0; at < strlen(text); at++) {
        const uint64_t *mask;
        if (m->rule.allowed(&m->rule, &mask, &error) != STATUS_OK) fail_msg("%s", error.text);
        for (size_t token = 0; token < vocabulary->size; token++) {
            size_t n;
            const char *bytes = vocabulary_bytes(vocabulary, (int32_t)token, false, &n);
            bool taken = n > 0 && matcher_push(m, bytes, n, NULL);
            if (taken != (mask[token / 64] >> (token % 64) & 1))
                fail_msg("%s at byte %zu: token %zu '%.*s'", source, at, token, (int)n, bytes);
            matcher_rewind(m, at);
        }
        assert_true(matcher_push(m, text + at, 1, NULL));
    }
    assert_true(matcher_accepts(m));
    matcher_free(m);
    shape_free(shape);
}

static void masks_have_exactly_the_tokens_that_may_follow(void **state) {
    check_masks(SHAPE_JSON_OBJECT, "", "{\"a b\": [1, true]}", *state);
    check_masks(
        SHAPE_JSON_SCHEMA,
        "{\"type\":\"object\",\"properties\":{\"name\":{\"type\":\"string\",\"maxLength\":9}}}",
        "{\"name\": \"Once\"}", *state);
    check_masks(SHAPE_REGEX, "[A-Z][a-z ]{5,20}\\.", "Once upon a time.", *state);
    check_masks(SHAPE_GRAMMAR, "root ::= \"(\" root \")\" | [^()]+", "((a))", *state);
}

static void forced_bytes_are_known(void **state) {
    Shape *shape = shape_of(SHAPE_JSON_SCHEMA,
                            "{\"type\":\"object\",\"properties\":{\"name\":{\"enum\":[\"Lily\"]}},"
                            "\"required\":[\"name\"],\"additionalProperties\":false}",
                            *state);
    Matcher *m;
    Error error;
    char forced[64];
    ByteSet next;
    assert_int_equal(matcher_new(&m, shape, &options, &error), STATUS_OK);
    assert_int_equal(matcher_forced(m, forced, sizeof forced, &next), 1); /* then perhaps a space */
    assert_true(matcher_push(m, "{\"n", 3, NULL));
    assert_int_equal(matcher_forced(m, forced, sizeof forced, &next), 5);
    assert_memory_equal(forced, "ame\":", 5);
    assert_true(byteset_has(&next, ' ') && byteset_has(&next, '"') && !byteset_has(&next, 'L'));
    matcher_free(m);
    shape_free(shape);
}

/* Forced tokens spell the forced bytes, and a Drafter proposes them. */
static void forced_tokens_are_drafts(void **state) {
    const Vocabulary *v = *state;
    Shape *shape = shape_of(SHAPE_REGEX, "(Once upon a time there was a cat|Ones)\\.", v);
    Matcher *m;
    Error error;
    int32_t ids[DRAFTS_MAX];
    char text[64];
    size_t length = 0, n_bytes;
    assert_int_equal(matcher_new(&m, shape, &options, &error), STATUS_OK);
    forced_tokens_propose(m, NULL);
    Drafter *drafter = forced_new(&m->rule);
    assert_non_null(drafter);
    assert_true(drafter->propose(drafter, NULL, 0, ids, DRAFTS_MAX) <= 1); /* "On" is forced */
    assert_true(matcher_push(m, "Once", 4, NULL));
    size_t n = drafter->propose(drafter, NULL, 0, ids, DRAFTS_MAX);
    assert_true(n > 3);
    assert_int_equal(drafter->propose(drafter, NULL, 0, ids, 2), 2);
    assert_int_equal(matcher_allowed_tokens(m, ids, n), n);
    for (size_t i = 0; i < n; i++) {
        const char *bytes = vocabulary_bytes(v, ids[i], false, &n_bytes);
        memcpy(text + length, bytes, n_bytes);
        length += n_bytes;
    }
    assert_int_equal(length, strlen(" upon a time there was a cat."));
    assert_memory_equal(text, " upon a time there was a cat.", length);
    ids[1] = ids[0];
    assert_int_equal(matcher_allowed_tokens(m, ids, n), 1);
    assert_int_equal(m->length, 4); /* looking ahead changes nothing */
    drafter_free(drafter);
    matcher_free(m);
    shape_free(shape);
}

/* ---- Memory ---------------------------------------------------------------------------------- */

/* The shape of a string that is not shorter than `length`, made now or made again. */
static Shape *small_shape(ShapeStore *store, int length) {
    char schema[64];
    Shape *shape;
    Error error = {""};
    snprintf(schema, sizeof schema, "{\"minLength\":%d,\"type\":\"string\"}", length);
    const ShapeSource source = {
        .kind = SHAPE_JSON_SCHEMA, .text = schema, .length = strlen(schema)};
    if (shape_store_get(store, &source, &shape, &error) != STATUS_OK) fail_msg("%s", error.text);
    assert_true(shape_memory(shape) < 16 << 20);
    return shape;
}

/* Makes a shape take much memory: the way to its end passes the limit of states. */
static void use(ShapeStore *store, int length) {
    const char *bytes;
    size_t n;
    Matcher *m = NULL;
    Error error = {""};
    Shape *shape = small_shape(store, length);
    if (shape_store_matcher(store, shape, &options, &m, &error) != STATUS_OK)
        fail_msg("%s", error.text);
    assert_int_equal(matcher_closing(m, &bytes, &n, &error), STATUS_FAILED);
    assert_true(shape_memory(shape) > 256 << 20);
    matcher_free(m);
}

static void large_shapes_are_not_kept(void **state) {
    if (tier() == TIER_CHECK) skip(); /* half a gigabyte of states */
    ModelFile *file;
    Tokenizer *tokenizer = open_tokenizer(&file);
    ShapeStore *store = shape_store_new(tokenizer, modelfile_config(file)->vocab_size);
    (void)state;
    assert_non_null(store);
    use(store, 1000000);
    use(store, 1000001);
    shape_store_release(store, small_shape(store, 1000000));
    shape_store_free(store);
    tokenizer_close(tokenizer);
    modelfile_close(file);
}

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_regex_is_matched_by_all_of_the_text),
        cmocka_unit_test(a_regex_that_explodes_is_refused_in_time),
        cmocka_unit_test(long_patterns_are_refused_in_time),
        cmocka_unit_test(a_choice_is_one_of_its_texts),
        cmocka_unit_test(a_grammar_derives_its_texts),
        cmocka_unit_test(a_grammar_may_have_many_rules),
        cmocka_unit_test(a_grammar_of_any_depth_is_refused_in_time),
        cmocka_unit_test(members_come_in_the_order_of_the_schema),
        cmocka_unit_test(members_in_order_leave_no_dead_end),
        cmocka_unit_test(members_that_call_for_others_are_counted),
        cmocka_unit_test(json_is_one_line),
        cmocka_unit_test(members_come_in_any_order_and_once),
        cmocka_unit_test(indentation_follows_the_nesting),
        cmocka_unit_test(arrays_contain_what_they_must),
        cmocka_unit_test(only_different_names_count_as_members),
        cmocka_unit_test(numbers_are_compared_as_decimals),
        cmocka_unit_test(numbers_keep_all_their_digits),
        cmocka_unit_test(a_zero_may_have_the_sign_that_the_schema_writes),
        cmocka_unit_test(what_is_compared_as_a_whole_evaluates_nothing),
        cmocka_unit_test(schemas_are_combined),
        cmocka_unit_test(strings_keep_their_formats),
        cmocka_unit_test(combinations_of_choices_are_limited),
        cmocka_unit_test(a_pattern_without_a_match_leaves_no_string),
        cmocka_unit_test(what_cannot_be_enforced_is_refused_by_name),
        cmocka_unit_test(a_text_that_passes_a_limit_leaves_others_alone),
        cmocka_unit_test(a_forgotten_text_is_read_again),
        cmocka_unit_test(texts_are_closed_in_time),
        cmocka_unit_test(long_lists_are_closed_in_time),
        cmocka_unit_test(any_text_is_closed_by_a_short_way),
        cmocka_unit_test(members_that_lead_nowhere_are_not_allowed),
        cmocka_unit_test(masks_have_exactly_the_tokens_that_may_follow),
        cmocka_unit_test(forced_bytes_are_known),
        cmocka_unit_test(forced_tokens_are_drafts),
        cmocka_unit_test(large_shapes_are_not_kept),
    };
    return cmocka_run_group_tests(tests, open_vocabulary, close_vocabulary);
}
