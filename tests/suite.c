/* All test programs in one, because linking each with the library takes longer than compiling a
 * change. build/tests/test_NAME is a link to build/tests/suite, which runs the program whose name
 * it was called by. `make build/tests/test_NAME` links that program alone.
 *
 *     build/tests/suite test_NAME [ARGUMENT...]      the same under the suite's own name
 *     VERBATIM_CASE=NAME build/tests/test_NAME       of its cases one, or those of a pattern with *
 * and ?
 *
 * Each test program's main is compiled as main_of_test_NAME; see the Makefile. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* The Makefile defines SUITE(X) as X(test_adapters) X(test_added_tokens) and so on. */
#define DECLARE(name) int main_of_##name(int argc, char **argv);
SUITE(DECLARE)

static const struct {
    const char *name;
    int (*run)(int argc, char **argv);
} programs[] = {
#define ROW(name) {#name, main_of_##name},
    SUITE(ROW)};

static const char *base_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

int main(int argc, char **argv) {
    if (getenv("VERBATIM_CASE")) cmocka_set_test_filter(getenv("VERBATIM_CASE"));
    if (argc > 0 && strcmp(base_name(argv[0]), "suite") == 0) argc--, argv++;
    for (size_t i = 0; argc > 0 && i < sizeof programs / sizeof *programs; i++)
        if (strcmp(base_name(argv[0]), programs[i].name) == 0) return programs[i].run(argc, argv);
    fprintf(stderr, "usage: suite test_NAME [ARGUMENT...], where tests/test_NAME.c is a test\n");
    return 2;
}
