/* Random texts of shapes: none comes to a dead end, each is closed and has its shape, and texts are
 * as frequent as the masked distribution says. */
#include <fcntl.h>
#include <jansson.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "constraint/matcher.h"
#include "constraint/shape_source.h"
#include "generation.h"
#include "core/isa.h"
#include "core/modelfile.h"
#include "shape_walk.h"

static Acceptor *compile(ShapeKind kind, const char *text, unsigned form) {
    const ShapeSource source = {.kind = kind, .text = text, .length = strlen(text), .form = form};
    Acceptor *acceptor;
    Error error = {""};
    if (shape_source_compile(&source, &acceptor, &error) != STATUS_OK)
        fail_msg("%s: %s", text, error.text);
    return acceptor;
}

/* ---- Dead ends ------------------------------------------------------------------------------- */

static const char *const schemas[] = {
    "{}",
    "{\"type\":[\"integer\",\"array\"],\"minimum\":-17,\"maximum\":305,\"maxItems\":2}",
    "{\"type\":\"number\",\"exclusiveMinimum\":0.125,\"exclusiveMaximum\":0.13}",
    "{\"type\":\"number\",\"multipleOf\":0.75,\"minimum\":100}",
    "{\"type\":\"integer\",\"multipleOf\":17,\"minimum\":1000,\"maximum\":1100}",
    "{\"type\":\"string\",\"minLength\":3,\"maxLength\":5,\"pattern\":\"^a.*\\\"b|\\\\p{Lu}$\"}",
    "{\"type\":\"string\",\"pattern\":\"^(?!ab)(?=.*z)[a-z]{4,7}$\"}",
    "{\"type\":\"string\",\"format\":\"date-time\"}",
    "{\"type\":\"string\",\"format\":\"email\",\"maxLength\":12}",
    "{\"type\":\"string\",\"format\":\"ipv6\",\"minLength\":20}",
    "{\"type\":\"string\",\"format\":\"uri\",\"pattern\":\"^https://\"}",
    "{\"type\":\"string\",\"format\":\"hostname\",\"maxLength\":9}",
    "{\"enum\":[1,1.5,\"a\\nb\",null,{\"x\":[1,2]},[],[[]],\"\\u00e9\",\"\\\"\"]}",
    "{\"type\":\"object\",\"required\":[\"a\",\"b\"],\"properties\":{\"a\":{\"type\":\"integer\"}},"
    "\"maxProperties\":3}",
    "{\"type\":\"object\",\"properties\":{\"a\":{},\"ab\":{\"type\":\"null\"},\"abc\":{}},"
    "\"additionalProperties\":false,\"minProperties\":2,\"maxProperties\":2}",
    "{\"type\":\"object\",\"patternProperties\":{\"^x\":{\"type\":\"integer\"},\"y$\":{\"maximum\":"
    "5},"
    "\"z\":false},\"propertyNames\":{\"maxLength\":4}}",
    "{\"type\":\"object\",\"dependentRequired\":{\"a\":[\"b\"],\"b\":[\"c\"],\"d\":[\"e\"]},"
    "\"properties\":{\"e\":false,\"c\":{\"enum\":[1]}}}",
    "{\"type\":\"object\",\"dependentRequired\":{\"a\":[\"b\"]},\"properties\":{\"b\":{\"$ref\":\"#"
    "/$defs/n"
    "\"}},\"$defs\":{\"n\":{\"type\":\"array\",\"minItems\":1,\"items\":{\"$ref\":\"#/$defs/"
    "n\"}}}}",
    "{\"type\":\"object\",\"dependentSchemas\":{\"a\":{\"required\":[\"b\"],\"properties\":{\"b\":{"
    "\"type\":"
    "\"boolean\"}}}}}",
    "{\"type\":\"object\",\"properties\":{\"v\":{\"type\":\"integer\"},\"kids\":{\"type\":"
    "\"array\",\"items\":{"
    "\"$ref\":\"#\"},\"minItems\":1}},\"required\":[\"v\"],\"additionalProperties\":false}",
    "{\"anyOf\":[{\"type\":\"array\",\"items\":{\"$ref\":\"#\"},\"minItems\":2},{\"type\":\"null\"}"
    "]}",
    "{\"type\":\"array\",\"prefixItems\":[{\"type\":\"string\"},{\"enum\":[2]}],\"items\":{"
    "\"type\":\"null\"},"
    "\"minItems\":1,\"maxItems\":4}",
    "{\"type\":\"array\",\"prefixItems\":[{},false],\"minItems\":1}",
    "{\"oneOf\":[{\"required\":[\"a\"]},{\"required\":[\"b\"]}],\"type\":\"object\","
    "\"maxProperties\":2}",
    "{\"if\":{\"properties\":{\"k\":{\"const\":1}},\"required\":[\"k\"]},\"then\":{\"required\":["
    "\"x\"]},"
    "\"else\":{\"required\":[\"y\"],\"maxProperties\":2},\"type\":\"object\"}",
    "{\"allOf\":[{\"properties\":{\"a\":{\"minLength\":2}}},{\"properties\":{\"a\":{\"type\":"
    "\"string\","
    "\"pattern\":\"^[ab]\"}}}],\"required\":[\"a\"],\"type\":\"object\"}",
    "{\"type\":\"object\",\"properties\":{\"a\":{}},\"allOf\":[{\"properties\":{\"b\":{}}}],"
    "\"unevaluatedProperties\":false,\"minProperties\":1}",
    "{\"type\":\"object\",\"minProperties\":4,\"properties\":{\"a\":{}},\"patternProperties\":{\"^."
    "$\":{}},"
    "\"additionalProperties\":{\"type\":\"integer\"}}",
    "{\"type\":\"array\",\"contains\":{\"type\":\"string\",\"maxLength\":2},\"minContains\":2,"
    "\"maxContains\":3,"
    "\"prefixItems\":[{\"type\":\"null\"},{\"type\":\"string\"}],\"maxItems\":6}",
    "{\"not\":{\"enum\":[1,\"a\",null]},\"type\":[\"number\",\"string\",\"null\"]}",
    "{\"type\":\"object\",\"dependentRequired\":{\"c\":[\"a\",\"f\"],\"b\":[\"d\"],\"e\":[\"b\"]},"
    "\"properties\":{\"a\":{},\"b\":{},\"c\":{},\"d\":{},\"e\":{},\"f\":{}},\"minProperties\":3,"
    "\"additionalProperties\":false}",
    "{\"type\":\"object\",\"properties\":{\"a\":{},\"b\":{},\"c\":{}},\"required\":[\"b\"],"
    "\"minProperties\":4,\"maxProperties\":5,\"patternProperties\":{\"^[xy]$\":{\"type\":\"null\"}}"
    ","
    "\"additionalProperties\":false}",
};

static const char *const others[] = {
    "(a|b){3,5}c?|x(yz)+",     "(?=.*[0-9])(?=.*[A-Z])[A-Za-z0-9]{8,10}",
    "\\p{L}+( \\p{L}+)*[.!?]", "[^\\x00-\\x7f]{2}",
    "(?!.*aa)[ab]{6}",
};

static const char *const grammars[] = {
    "root ::= \"(\" root \")\" | [a-z]{2,3}",
    "root ::= (e \"=\" t \"\\n\")+\ne ::= t ([-+*/] t)*\nt ::= [a-z] [a-z0-9]* | \"(\" e \")\"\n",
    "root ::= a{0,3} b+ \"c\"\na ::= \"x\" | \"y\" a\nb ::= (\"1\" | \"2\")?  \"3\"\n",
};

static bool accepts(Acceptor *acceptor, const TextBuffer *text) {
    AcceptorState state = acceptor_start(acceptor);
    for (size_t k = 0; k < text->length; k++)
        state = acceptor_step(acceptor, state, (unsigned char)text->bytes[k]);
    return state != ACCEPTOR_DEAD && acceptor_accepts(acceptor, state);
}

/* Walks through a shape `n` times; each text has the shape, and has it in any form. */
static void walk_in(unsigned form, ShapeKind kind, const char *source, int n) {
    Acceptor *acceptor = compile(kind, source, form);
    Acceptor *free_form = compile(kind, source, JSON_ANY_ORDER | JSON_ANY_SPACE);
    uint64_t seed = 88172645463325252u;
    for (int i = 0; i < n; i++) {
        TextBuffer text = {0};
        const char *wrong = random_walk(acceptor, &seed, 1 + walk_random(&seed) % 120, &text);
        if (wrong) fail_msg("%s: %s after '%.*s'", source, wrong, (int)text.length, text.bytes);
        if (!accepts(acceptor, &text) || !accepts(free_form, &text))
            fail_msg("%s: '%.*s' is not accepted", source, (int)text.length, text.bytes);
        json_error_t error;
        size_t flags = JSON_DECODE_ANY | JSON_ALLOW_NUL | JSON_DECODE_INT_AS_REAL;
        json_t *value = json_loadb(text.bytes, text.length, flags, &error);
        if (kind == SHAPE_JSON_SCHEMA && !value &&
            json_error_code(&error) != json_error_numeric_overflow) /* 1e999 is JSON */
            fail_msg("%s: '%.*s': %s", source, (int)text.length, text.bytes, error.text);
        json_decref(value);
        text_free(&text);
    }
    acceptor_free(acceptor);
    acceptor_free(free_form);
}

static void walk(ShapeKind kind, const char *source, int n) {
    bool json = kind == SHAPE_JSON_SCHEMA;
    for (unsigned form = 0; form < (json ? 4 : 1); form++) walk_in(form, kind, source, n);
}

static void random_texts_come_to_no_dead_end(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof schemas / sizeof *schemas; i++)
        walk(SHAPE_JSON_SCHEMA, schemas[i], 12);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) walk(SHAPE_REGEX, others[i], 12);
    for (size_t i = 0; i < sizeof grammars / sizeof *grammars; i++)
        walk(SHAPE_GRAMMAR, grammars[i], 12);
}

/* ---- Frequencies ----------------------------------------------------------------------------- */

enum { N_TEXTS = 6000, MOST_TEXTS = 2000, MOST_TOKENS = 8 };

typedef struct Case {
    int32_t ids[MOST_TOKENS];
    size_t n;
    double probability;
    size_t count;
} Case;

typedef struct Cases {
    Case items[MOST_TEXTS];
    size_t n;
    Matcher *matcher;
    const Vocabulary *vocabulary;
    int32_t eos;
    float *logits;
} Cases;

/* Any logits, another row for each position. */
static void logits_at(const Cases *c, size_t position) {
    uint64_t seed = 0x2545F4914F6CDD1Du + position;
    for (int i = 0; i < 4; i++) walk_random(&seed);
    for (size_t t = 0; t < c->vocabulary->size; t++)
        c->logits[t] = (float)(walk_random(&seed) % 4001) / 1000.0f - 2.0f;
}

/* Adds all texts that begin with a case's tokens, with their probabilities. */
static void enumerate(Cases *c, Case text) {
    const uint64_t *mask;
    Error error;
    double sum = 0.0;
    size_t words = c->vocabulary->words, length = c->matcher->length;
    uint64_t *allowed = malloc(words * sizeof *allowed);
    assert_non_null(allowed);
    if (matcher_complete(c->matcher)) {
        assert_true(c->n < MOST_TEXTS);
        c->items[c->n++] = text;
        free(allowed);
        return;
    }
    assert_int_equal(c->matcher->rule.allowed(&c->matcher->rule, &mask, &error), STATUS_OK);
    memcpy(allowed, mask, words * sizeof *allowed);
    assert_true(text.n < MOST_TOKENS);
    logits_at(c, text.n);
    for (size_t t = 0; t < c->vocabulary->size; t++)
        if (allowed[t / 64] >> (t % 64) & 1) sum += exp((double)c->logits[t]);
    for (size_t t = 0; t < c->vocabulary->size; t++) {
        if (!(allowed[t / 64] >> (t % 64) & 1)) continue;
        Case next = text;
        size_t n;
        const char *bytes = vocabulary_bytes(c->vocabulary, (int32_t)t, false, &n);
        logits_at(c, text.n);
        next.probability *= exp((double)c->logits[t]) / sum;
        next.ids[next.n++] = (int32_t)t;
        if ((int32_t)t == c->eos) {
            assert_true(c->n < MOST_TEXTS);
            c->items[c->n++] = next;
            continue;
        }
        assert_true(matcher_push(c->matcher, bytes, n, NULL));
        enumerate(c, next);
        matcher_rewind(c->matcher, length);
    }
    free(allowed);
}

static Case generate(Cases *c, const GenerationOptions *options, const Tokenizer *tokenizer) {
    Generation g;
    GenerationStep step;
    Error error;
    Case text = {.n = 0};
    assert_int_equal(generation_init(&g, options, tokenizer, c->vocabulary->size,
                                     isa_available(0)->numeric, &error),
                     STATUS_OK);
    while (g.finish == FINISH_NOT) {
        logits_at(c, text.n);
        if (generation_next(&g, c->logits, text.n, &step, &error) != STATUS_OK)
            fail_msg("%s", error.text);
        assert_true(text.n < MOST_TOKENS);
        text.ids[text.n++] = step.token;
    }
    generation_free(&g);
    matcher_rewind(c->matcher, 0);
    return text;
}

/* Pearson's statistic of the counts, with all rare texts in one bin, is below the value that it
 * passes once in 10,000 times (Wilson and Hilferty's approximation). */
static void assert_frequencies(const Cases *c) {
    double statistic = 0.0, rare = 0.0, all = 0.0;
    size_t n_rare = 0, n_bins = 0, n = 0;
    for (size_t i = 0; i < c->n; i++) {
        double expected = c->items[i].probability * N_TEXTS, count = (double)c->items[i].count;
        all += c->items[i].probability;
        n += c->items[i].count;
        if (expected < 5.0) {
            rare += expected;
            n_rare += c->items[i].count;
            continue;
        }
        statistic += (count - expected) * (count - expected) / expected;
        n_bins++;
    }
    if (rare > 0.0) statistic += ((double)n_rare - rare) * ((double)n_rare - rare) / rare, n_bins++;
    assert_true(n_bins > 10 && fabs(all - 1.0) < 1e-9);
    assert_int_equal(n, N_TEXTS);
    double k = (double)n_bins - 1.0, root = 1.0 - 2.0 / (9.0 * k) + 3.719 * sqrt(2.0 / (9.0 * k));
    if (statistic > k * root * root * root) fail_msg("%.1f of %zu bins", statistic, n_bins);
}

static void texts_are_as_frequent_as_the_mask_says(void **state) {
    static const char path[] = "models/stories.bin", shape_text[] = "[eth]{1,3}( [abc]|\\.)?";
    ModelFile *file;
    Tokenizer *tokenizer;
    Vocabulary *vocabulary;
    Shape *shape;
    Error error;
    size_t bytes;
    (void)state;
    Cases *c = calloc(1, sizeof *c);
    assert_non_null(c);
    assert_int_equal(modelfile_open(&file, path, open(path, O_RDONLY), &error), STATUS_OK);
    const void *section = modelfile_section(file, SECTION_TOKENIZER, &bytes);
    assert_int_equal(tokenizer_open(&tokenizer, section, bytes, &error), STATUS_OK);
    size_t size = modelfile_config(file)->vocab_size;
    assert_int_equal(vocabulary_new(&vocabulary, tokenizer, size, &error), STATUS_OK);
    assert_int_equal(shape_new(&shape, compile(SHAPE_REGEX, shape_text, 0), vocabulary, &error),
                     STATUS_OK);
    GenerationOptions options = {.sampling = sampler_options_default(),
                                 .decode_flags = TOKEN_DECODER_CONTINUE,
                                 .eos = {2},
                                 .n_eos = 1};
    assert_int_equal(matcher_new(&c->matcher, shape, &options, &error), STATUS_OK);
    c->vocabulary = vocabulary;
    c->eos = options.eos[0];
    c->logits = malloc(size * sizeof *c->logits);
    assert_non_null(c->logits);
    enumerate(c, (Case){.probability = 1.0});
    matcher_rewind(c->matcher, 0);
    options.rule = &c->matcher->rule;
    for (size_t i = 0; i < N_TEXTS; i++) {
        options.sampling.seed = i;
        Case text = generate(c, &options, tokenizer);
        size_t at = 0;
        while (at < c->n && (c->items[at].n != text.n ||
                             memcmp(c->items[at].ids, text.ids, text.n * sizeof *text.ids) != 0))
            at++;
        assert_true(at < c->n);
        c->items[at].count++;
    }
    assert_frequencies(c);
    matcher_free(c->matcher);
    shape_free(shape);
    free(c->logits);
    free(c);
    vocabulary_free(vocabulary);
    tokenizer_close(tokenizer);
    modelfile_close(file);
}

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_texts_come_to_no_dead_end),
        cmocka_unit_test(texts_are_as_frequent_as_the_mask_says),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
