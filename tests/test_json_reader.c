/* The reader of JSON that survives a failed allocation, against jansson's own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/address_sanitizer.h"
#include "json/json_digits.h"
#include "json/json_object.h"
#include "json/json_reader.h"
#include "tests/tier.h"

static const char *const documents[] = {
    "{\"prompt\": \"Once upon\\u0020a \\\"time\\\"\", \"n\": 3, \"temperature\": 0.75e-1}",
    "[1, -0, 0.5, 1e3, -12.5E+2, 9223372036854775807, true, false, null, \"\\ud83d\\ude00\"]",
    ("{\"a\": {\"b\": [[], {}, [{\"c\": \"d\\n\\t\\/\\b\\f\\r\\\\\"}]]}, \"\xc3\xa9\xe2\x82\xac\": "
     "1}"),
    "  [ \"\\u0000x\", 1e-400, 123456789012345678901234567890, 1e999 ]\n",
    "{\"a\": 1, \"a\": 2}",
    "\"text alone\"",
    "17 and more",
    "{\n  \"line\": [\n    1,\n    tru\n  ]\n}",
    "[\"\\ud800\", \"\\udc00\", \"\\ud800\\u0041\"]",
    "[01, -, 1., 1.x, 1e, 1e+, .5, +1]",
    "{\"a\" 1}",
    "{1: 2}",
    "[\"\xf0\x9f\x98\x80\", \"\xed\xa0\x80\", \"\xc0\xaf\"]",
    "",
    "   ",
    "[\"unended",
};

/* Values and errors are the same, to the byte. */
static void compare(const char *text, size_t length, size_t flags) {
    json_error_t own, theirs;
    json_t *value = json_reader_load(text, length, flags, &own);
    json_t *wanted = json_loadb(text, length, flags, &theirs);
    if (memchr(text, '\0', length)) { /* jansson passes over it after a number or a word */
        assert_true(!value || flags & JSON_DISABLE_EOF_CHECK);
        json_decref(value);
        json_decref(wanted);
        return;
    }
    char *dump = value ? json_dumps(value, JSON_ENCODE_ANY) : NULL;
    char *wanted_dump = wanted ? json_dumps(wanted, JSON_ENCODE_ANY) : NULL;
    bool same = !value == !wanted && (!value || json_equal(value, wanted)) &&
                strcmp(dump ? dump : "", wanted_dump ? wanted_dump : "") == 0 &&
                own.position == theirs.position && own.line == theirs.line &&
                own.column == theirs.column && strcmp(own.text, theirs.text) == 0 &&
                (value || json_error_code(&own) == json_error_code(&theirs));
    if (!same)
        print_message("flags %zx, text (%zu) %.*s\n own  %d %d %d %d %s | %s\n jansson %d %d %d %d "
                      "%s | %s\n",
                      flags, length, (int)length, text, own.line, own.column, own.position,
                      json_error_code(&own), own.text, dump ? dump : "-", theirs.line,
                      theirs.column, theirs.position, json_error_code(&theirs), theirs.text,
                      wanted_dump ? wanted_dump : "-");
    assert_true(same);
    free(dump);
    free(wanted_dump);
    json_decref(value);
    json_decref(wanted);
}

static const size_t flag_sets[] = {
    0,
    JSON_ALLOW_NUL,
    JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL,
    JSON_DECODE_ANY | JSON_ALLOW_NUL | JSON_DISABLE_EOF_CHECK,
    JSON_DECODE_ANY | JSON_ALLOW_NUL | JSON_DECODE_INT_AS_REAL | JSON_DISABLE_EOF_CHECK,
};
enum { N_DOCUMENTS = sizeof documents / sizeof *documents, N_SETS = 5 };

static void values_and_errors_are_jansson_s(void **state) {
    (void)state;
    for (size_t i = 0; i < N_DOCUMENTS; i++)
        for (size_t k = 0; k < N_SETS; k++)
            for (size_t n = 0; n <= strlen(documents[i]); n++) {
                char *exact = malloc(n + 1); /* the sanitizer sees a byte read after it */
                memcpy(exact, documents[i], n);
                exact = realloc(exact, n ? n : 1);
                compare(exact, n, flag_sets[k]);
                free(exact);
            }
}

static uint64_t next_random(uint64_t *seed) {
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return *seed >> 33;
}

static void changed_documents_are_read_as_jansson_does(void **state) {
    static const char marks[] = "{}[]:,\"\\u0e1-+.tfn \n\x80\xe2\xff";
    uint64_t seed = 1;
    (void)state;
    for (size_t round = 0; round < tier_count(20000, 100000, 1000000); round++) {
        const char *document = documents[next_random(&seed) % N_DOCUMENTS];
        char text[512];
        size_t n = strlen(document);
        memcpy(text, document, n + 1);
        for (size_t changes = 1 + next_random(&seed) % 3; changes > 0 && n > 0; changes--) {
            size_t at = next_random(&seed) % n;
            char c = next_random(&seed) % 4 ? marks[next_random(&seed) % (sizeof marks)]
                                            : (char)next_random(&seed);
            switch (next_random(&seed) % 3) {
            case 0:
                text[at] = c;
                break;
            case 1:
                memmove(text + at, text + at + 1, n-- - at);
                break;
            default:
                if (n + 2 > sizeof text) break;
                memmove(text + at + 1, text + at, n++ - at + 1);
                text[at] = c;
            }
        }
        compare(text, n, flag_sets[next_random(&seed) % N_SETS]);
    }
}

/* RFC 8259 has no zero byte outside of a text, where it is written \\u0000. Python's json refuses
 * these, too. */
static void a_zero_byte_is_no_white_space(void **state) {
    (void)state;
    static const struct {
        const char *text;
        size_t n;
    } wrong[] = {{"[1\0]", 4},
                 {"[1.5e3\0]", 8},
                 {"[-1\0, 2]", 8},
                 {"[true\0]", 7},
                 {"{\"a\": 1\0}", 9},
                 {"[1]\0", 4},
                 {"[\0"
                  "1]",
                  4},
                 {"[\"a\0\"]", 6}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        for (size_t k = 0; k < 3; k++) {
            json_error_t where;
            if (json_reader_load(wrong[i].text, wrong[i].n, flag_sets[k], &where))
                fail_msg("text %zu", i);
        }
}

/* An empty file is mapped as no bytes at all. */
static void no_bytes_are_no_object(void **state) {
    (void)state;
    Error error;
    json_t *root;
    assert_int_equal(json_parse(&root, "a.json", NULL, 0, &error), STATUS_FAILED);
    assert_null(root);
    assert_string_equal(error.text, "a.json: line 1: '[' or '{' expected near end of file");
}

static void depth_is_limited(void **state) {
    enum { DEEP = 3000 };
    char text[2 * DEEP];
    (void)state;
    memset(text, '[', DEEP);
    memset(text + DEEP, ']', DEEP);
    compare(text, 2 * DEEP, 0);
    compare(text + DEEP - 2048, 4096, 0);
    compare(text + DEEP - 2047, 4094, 0);
}

/* Numbers keep the digits that they were read with, also beyond jansson's limits. */
static void numbers_keep_their_digits(void **state) {
    static const char text[] = "{\"a\": [0, -0, 1.50, 1E5, 18446744073709551615, -1e999, 0.1, 7], "
                               "\"b\": {\"c\": 123456789012345678901234567890}}";
    JsonDigits *digits = json_digits_new(), *whole = json_digits_new();
    json_t *value = json_reader_load_digits(text, strlen(text), 0, digits, NULL);
    json_t *again =
        json_reader_load_digits(text, strlen(text), JSON_READER_WHOLE_NUMBERS, whole, NULL);
    (void)state;
    assert_non_null(value);
    assert_int_equal(json_digits_count(digits), 7); /* without 0 and 7 */
    assert_int_equal(json_digits_count(whole), 3);
    char *written = json_digits_dumps(value, digits, 0);
    assert_string_equal(written, text);
    free(written);
    written = json_digits_dumps(value, digits, JSON_COMPACT);
    assert_string_equal(written, "{\"a\":[0,-0,1.50,1E5,18446744073709551615,-1e999,0.1,7],"
                                 "\"b\":{\"c\":123456789012345678901234567890}}");
    free(written);
    json_decref(again);
    json_decref(value);
    /* The number of a key that comes twice is gone; no other one has its address. */
    static const char twice[] = "{\"a\": 1.50, \"a\": 2, \"b\": 3, \"c\": 4}";
    value = json_reader_load_digits(twice, strlen(twice), 0, digits, NULL);
    written = json_digits_dumps(value, digits, 0);
    assert_string_equal(written, "{\"a\": 2, \"b\": 3, \"c\": 4}");
    free(written);
    json_decref(value);
    static const char lone[] =
        "[\"\\ud800\", \"\\udc00b\", \"\\ud800\\u0041\", \"\\ud83d\\ude00\"]";
    value = json_reader_load_digits(lone, strlen(lone), JSON_READER_LONE_SURROGATES, NULL, NULL);
    written = json_dumps(value, JSON_COMPACT);
    assert_string_equal(written, "[\"\xEF\xBF\xBD\",\"\xEF\xBF\xBD"
                                 "b\",\"\xEF\xBF\xBD"
                                 "A\",\"\xF0\x9F\x98\x80\"]");
    free(written);
    json_decref(value);
    json_digits_free(whole);
    json_digits_free(digits);
}

/* Each number of a long line costs its value and some bytes for its digits, not a tree of jansson's
 * (345 bytes). The process is its own, whose memory is its own. 160 bytes are what 64-bit glibc
 * needs, with room: a value of 32, an array's place while it grows (8 + 16), an entry that grows
 * (16 + 32), the digits (4 + 8) and two slots (8 + 4). */
static void a_number_with_its_digits_is_small(void **state) {
    enum { N = 200000, MOST_BYTES = 160 };
    static const char item[] = ",1.5";
    const size_t length = 1 + 4 * (size_t)N;
    (void)state;
    if (ADDRESS_SANITIZER) skip();
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        struct rusage before, after;
        char *text = malloc(length);
        if (!text) _exit(1);
        for (size_t i = 0; i < N; i++) memcpy(text + 4 * i, item, 4);
        text[0] = '[', text[length - 1] = ']';
        getrusage(RUSAGE_SELF, &before);
        JsonDigits *digits = json_digits_new();
        json_t *value = json_reader_load_digits(text, length, 0, digits, NULL);
        getrusage(RUSAGE_SELF, &after);
        long bytes = (after.ru_maxrss - before.ru_maxrss) * 1024 / N;
        bool whole = json_array_size(value) == N && json_digits_count(digits) == N;
        for (size_t i = 0; whole && i < N; i++) {
            const char *found = json_digits_find(digits, json_array_get(value, i));
            whole = found && strcmp(found, "1.5") == 0;
        }
        print_message("%ld bytes a number\n", bytes);
        json_decref(value);
        json_digits_free(digits);
        free(text);
        _exit(whole && bytes < MOST_BYTES ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* Infinity, NaN and integers of any length, as Python's json module writes them: the nearest double
 * of 2^64 - 1 is 2^64, and 400 digits are beyond all doubles. */
static void what_python_writes_is_read(void **state) {
    static const char text[] = "[Infinity, -Infinity,NaN, \"NaN\", -1, 18446744073709551615, "
                               "-18446744073709551616, 9223372036854775807, {\"a\":Infinity}]";
    char digits[402] = "[", *dump;
    json_error_t where;
    (void)state;
    memset(digits + 1, '9', 399);
    memcpy(digits + 400, "]", 2);
    json_t *value = json_reader_load(text, strlen(text), JSON_READER_PYTHON, &where);
    dump = json_dumps(value, JSON_COMPACT);
    assert_string_equal(dump, "[[],[],{},\"NaN\",-1,1.8446744073709552e19,"
                              "-1.8446744073709552e19,9223372036854775807,{\"a\":[]}]");
    free(dump);
    json_decref(value);
    value = json_reader_load(digits, strlen(digits), JSON_READER_PYTHON, &where);
    assert_true(json_is_array(json_array_get(value, 0)));
    json_decref(value);
    static const struct {
        const char *text, *says;
    } wrong[] = {{"[NaNx]", "']' expected near 'x'"},
                 {"[+Infinity]", "invalid token near '+'"},
                 {"[Infinit", "invalid token near 'Infinit'"},
                 {"[-Inf]", "invalid token near '-'"},
                 {"[nan]", "invalid token near 'nan'"},
                 {"[00000000000000000000]", "invalid token near '0'"},
                 {"[1e999]", "real number overflow near '1e999'"}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_null(
            json_reader_load(wrong[i].text, strlen(wrong[i].text), JSON_READER_PYTHON, &where));
        assert_string_equal(where.text, wrong[i].says);
    }
    /* Without the flag these are no JSON, as jansson says. */
    compare("[Infinity]", 10, 0);
    compare("[-Infinity]", 11, 0);
    compare("[NaN]", 5, 0);
}

/* ---- Refused allocations ---- */

static size_t allowed; /* allocations until one is refused; then all are */

static void *allocate_few(size_t bytes) {
    return allowed > 0 && allowed-- ? malloc(bytes) : NULL;
}

/* Whichever allocation is refused: the reading ends without a value, and says why. */
static void a_refused_allocation_ends_the_reading(void **state) {
    static const char more[] = "{\"a\":[1,2.5,NaN,18446744073709551616,[],{},\"t\",\"\\u00e9\"],"
                               "\"b\":[0,1,2,3,4,5,6,7,8,9],\"c\":0,\"d\":1,\"e\":2,\"f\":3,"
                               "\"g\":4,\"h\":5,\"i\":6,\"j\":{\"k\":Infinity}}";
    json_malloc_t allocate;
    json_free_t release;
    size_t n = 0;
    json_t *value = NULL;
    (void)state;
    json_get_alloc_funcs(&allocate, &release);
    json_set_alloc_funcs(allocate_few, free);
    while (!value && n < 1000) {
        json_error_t where;
        allowed = n++;
        value = json_reader_load(more, strlen(more), JSON_READER_PYTHON, &where);
        if (!value && json_error_code(&where) != json_error_out_of_memory) break;
    }
    json_decref(value);
    json_set_alloc_funcs(allocate, release);
    assert_non_null(value);
    assert_true(n > 60); /* the buffer, values, names, members and room in lists */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_and_errors_are_jansson_s),
        cmocka_unit_test(changed_documents_are_read_as_jansson_does),
        cmocka_unit_test(a_zero_byte_is_no_white_space),
        cmocka_unit_test(no_bytes_are_no_object),
        cmocka_unit_test(depth_is_limited),
        cmocka_unit_test(numbers_keep_their_digits),
        cmocka_unit_test(what_python_writes_is_read),
        cmocka_unit_test(a_refused_allocation_ends_the_reading),
        cmocka_unit_test(a_number_with_its_digits_is_small),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
