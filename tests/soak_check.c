/* --check over 500 results: each change must be named at the right place. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "tests/check_cases.h"

static const char MODEL[] = "models/stories.bin";

#define MORE(...) ((const char *const[]){__VA_ARGS__, NULL})

static void every_change_of_500_results_is_named(void **state) {
    CheckCases c = check_cases_open(MODEL, 500);
    (void)state;
    check_cases_same(&c, MODEL, NULL);
    check_cases_same(&c, MODEL, MORE("-j", "1", "--max-concurrent", "3", "--chunk", "16"));
    for (unsigned seed = 1; seed <= 4; seed++)
        print_message("%zu bytes changed and named\n", check_cases_bytes(&c, MODEL, seed));
    print_message("another seed: %zu named\n", check_cases_options(&c, MODEL, MORE("-s", "5")));
    print_message("another temperature: %zu named\n",
                  check_cases_options(&c, MODEL, MORE("-t", "0.9")));
    print_message("another cache: %zu named\n",
                  check_cases_options(&c, MODEL, MORE("--kv-type", "q8")));
    check_cases_close(&c);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_change_of_500_results_is_named)};
    return cmocka_run_group_tests_name("check at full size", tests, NULL, NULL);
}
