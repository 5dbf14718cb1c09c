/* The forger at full size: every single change of each kind of record, and 2,000 honest ones on
 * every instruction set. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "core/isa.h"
#include "tests/forgery.h"

static const char MODEL[] = "models/stories.bin";

static void no_forged_record_is_the_same(void **state) {
    (void)state;
    static ForgerySum (*const forge[])(const char *model, size_t step) = {
        forge_results, forge_receipts, forge_conversations, forge_texts};
    static const char *const names[] = {"results", "receipts", "conversations", "texts"};
    size_t tried = 0;
    for (size_t i = 0; i < 4; i++) {
        ForgerySum sum = forge[i](MODEL, 1);
        print_message("%s: %zu changes, %zu said to be the same\n", names[i], sum.tried, sum.same);
        assert_int_equal(sum.same, 0);
        tried += sum.tried;
    }
    assert_true(tried >= 5000);
}

static void every_honest_record_is_the_same(void **state) {
    (void)state;
    size_t tried = 0;
    for (size_t i = 0; isa_available(i); i++) {
        const char *name = isa_available(i)->name;
        ForgerySum sum = honest_records(MODEL, name, 700);
        print_message("%s: %zu records, %zu the same\n", name, sum.tried, sum.same);
        assert_int_equal(sum.same, sum.tried);
        tried += sum.tried;
    }
    assert_true(tried >= 2000 || !isa_available(2));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_forged_record_is_the_same),
        cmocka_unit_test(every_honest_record_is_the_same),
    };
    return cmocka_run_group_tests_name("forger at full size", tests, NULL, NULL);
}
