/* Holds texts to shapes, for scripts that compare with other programs:
 *
 *     print_shapes KIND FILE        the tokenizer: as source_import of tests/tokenizer_sources.h
 *     print_shapes                  no tokenizer: no masks, the texts go byte by byte
 *
 * reads lines of JSON from stdin, {"kind": "schema|regex|grammar|choice|object", "shape": TEXT,
 * "texts": [TEXT...], "walks": N, "length": N, "seed": N}, and writes a line for each:
 *
 *     {"error": TEXT} or {"compile_us": N, "walks": [...],
 *      "results": [{"accepted": B, "at": N, "mask_us": [...], "drafted": N, "right": N}]}
 *
 * where "at" is the first byte that is refused, mask_us the processor time of each token's mask,
 * `drafted` the number of tokens that were proposed because the shape forces them, and `right` of
 * those that the text then had. A walk is {"text": TEXT}, a random text of the shape that is closed
 * at `length` bytes, or {"error": TEXT, "text": TEXT}. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "constraint/forced_tokens.h"
#include "constraint/shape_source.h"
#include "shape_walk.h"
#include "tokenizer_sources.h"

enum { DRAFTS = 31 };

/* Processor time of this thread: machines that measure may be busy. */
static double cpu_seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static Tokenizer *tokenizer;
static Vocabulary *vocabulary;

static _Noreturn void fail(const Error *error) {
    fprintf(stderr, "%s\n", error->text);
    exit(1);
}

static void open_tokenizer(const char *kind, const char *path) {
    static TokenizerBlob blob;
    Error error;
    if (source_import(kind, path, &blob, &error) != STATUS_OK ||
        tokenizer_open(&tokenizer, blob.bytes, blob.size, &error) != STATUS_OK)
        fail(&error);
    double start = cpu_seconds();
    if (vocabulary_new(&vocabulary, tokenizer, tokenizer_vocab_size(tokenizer), &error) !=
        STATUS_OK)
        fail(&error);
    fprintf(stderr, "vocabulary: %zu tokens, %.1f ms\n", vocabulary->size,
            1e3 * (cpu_seconds() - start));
}

/* What a Drafter of forced tokens would have done. */
typedef struct Drafts {
    json_int_t drafted, right;
    size_t n_known; /* tokens of the text that were drafted already */
} Drafts;

static void draft(Matcher *m, const TokenList *ids, size_t at, Drafts *drafts) {
    int32_t forced[DRAFTS];
    if (at < drafts->n_known) return;
    size_t n = forced_tokens_next(m, forced, DRAFTS), right = 0;
    while (right < n && at + right < ids->length && forced[right] == ids->ids[at + right]) right++;
    drafts->drafted += (json_int_t)n;
    drafts->right += (json_int_t)right;
    drafts->n_known = at + right + 1;
}

/* Asks for a mask before each token, and lets the matcher take the token if the mask has it. */
static bool by_tokens(Matcher *m, const char *text, size_t n, json_t *times, size_t *at,
                      Drafts *drafts) {
    TokenList ids = {0};
    Error error;
    bool accepted = true, complete;
    if (tokenizer_encode(tokenizer, text, n, NULL, 0, &ids, &error) != STATUS_OK) fail(&error);
    forced_tokens_propose(m, tokenizer);
    for (size_t i = 0; i < ids.length && accepted; i++) {
        const uint64_t *mask;
        draft(m, &ids, i, drafts);
        double start = cpu_seconds();
        if (m->rule.allowed(&m->rule, &mask, &error) != STATUS_OK) {
            accepted = false;
        } else {
            int32_t id = ids.ids[i];
            accepted = mask[id / 64] >> (id % 64) & 1;
            if (accepted && m->rule.take(&m->rule, id, &complete, &error) != STATUS_OK) abort();
        }
        json_array_append_new(times, json_integer((json_int_t)(1e6 * (cpu_seconds() - start))));
    }
    *at = m->length;
    token_list_free(&ids);
    return accepted && matcher_accepts(m);
}

static json_t *hold(Shape *shape, const char *text, size_t n) {
    static const GenerationOptions options = {.decode_flags = TOKEN_DECODER_CONTINUE};
    Matcher *m;
    Error error;
    size_t at = 0;
    json_t *times = json_array();
    if (matcher_new(&m, shape, &options, &error) != STATUS_OK) fail(&error);
    Drafts drafts = {0};
    bool accepted = tokenizer ? by_tokens(m, text, n, times, &at, &drafts)
                              : matcher_push(m, text, n, &at) && matcher_accepts(m);
    matcher_free(m);
    return json_pack("{s:b,s:I,s:o,s:I,s:I}", "accepted", accepted, "at", (json_int_t)at, "mask_us",
                     times, "drafted", drafts.drafted, "right", drafts.right);
}

static json_int_t number(const json_t *line, const char *key, json_int_t otherwise) {
    const json_t *value = json_object_get(line, key);
    return value ? json_integer_value(value) : otherwise;
}

static json_t *walk_often(Acceptor *acceptor, const json_t *line) {
    uint64_t seed = (uint64_t)number(line, "seed", 1) * 0x9E3779B97F4A7C15u | 1;
    json_t *out = json_array();
    for (json_int_t i = number(line, "walks", 0); i > 0; i--) {
        TextBuffer text = {0};
        const char *error =
            random_walk(acceptor, &seed, (size_t)number(line, "length", 100), &text);
        json_t *walk = json_pack("{s:s%}", "text", text.bytes ? text.bytes : "", text.length);
        if (!walk) walk = json_pack("{s:s}", "error", "it is not UTF-8");
        if (error) json_object_set_new(walk, "error", json_string(error));
        json_array_append_new(out, walk);
        acceptor_recover(acceptor);
        text_free(&text);
    }
    return out;
}

static json_t *handle(const json_t *line) {
    static const char *const kinds[] = {"none", "object", "schema", "regex", "grammar", "choice"};
    const char *kind = json_string_value(json_object_get(line, "kind"));
    json_t *text = json_object_get(line, "shape"), *results = json_array(), *item;
    unsigned form = (unsigned)number(line, "form", JSON_ANY_ORDER | JSON_ANY_SPACE);
    ShapeSource source = {
        .text = json_string_value(text), .length = json_string_length(text), .form = form};
    Acceptor *acceptor;
    Shape *shape;
    Error error = {""};
    size_t i;
    for (i = 0; i < 6; i++)
        if (kind && strcmp(kind, kinds[i]) == 0) source.kind = (ShapeKind)i;
    double start = cpu_seconds();
    Status status = shape_source_compile(&source, &acceptor, &error);
    double seconds = cpu_seconds() - start;
    if (status != STATUS_OK) {
        json_decref(results);
        return json_pack("{s:s,s:I}", "error", error.text, "compile_us",
                         (json_int_t)(1e6 * seconds));
    }
    static Vocabulary none;
    if (shape_new(&shape, acceptor, vocabulary ? vocabulary : &none, &error) != STATUS_OK)
        fail(&error);
    json_array_foreach(json_object_get(line, "texts"), i, item) {
        json_array_append_new(results,
                              hold(shape, json_string_value(item), json_string_length(item)));
    }
    json_t *walks = walk_often(acceptor, line);
    shape_free(shape);
    return json_pack("{s:I,s:o,s:o}", "compile_us", (json_int_t)(1e6 * seconds), "results", results,
                     "walks", walks);
}

int main(int argc, char **argv) {
    char *bytes = NULL;
    size_t capacity = 0;
    ssize_t n;
    if (argc == 3) open_tokenizer(argv[1], argv[2]);
    while ((n = getline(&bytes, &capacity, stdin)) > 0) {
        json_error_t where;
        json_t *line = json_loadb(bytes, (size_t)n, JSON_ALLOW_NUL, &where);
        json_t *out = line ? handle(line) : json_pack("{s:s}", "error", where.text);
        json_dumpf(out, stdout, JSON_COMPACT);
        printf("\n");
        fflush(stdout);
        json_decref(out);
        json_decref(line);
    }
    free(bytes);
    return 0;
}
