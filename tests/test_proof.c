/* What --check and --replay call the same: no forged record of a sample, and every honest one.
 * `make soak` tries all (soak_forger.c). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "core/isa.h"
#include "tests/forgery.h"

static const char MODEL[] = "models/stories.bin";

static void expect_none(ForgerySum sum, size_t least) {
    assert_true(sum.tried >= least);
    assert_int_equal(sum.same, 0);
}

static void no_forged_result_is_the_same(void **state) {
    (void)state;
    expect_none(forge_results(MODEL, 47), 50);
}

static void no_forged_receipt_is_the_same(void **state) {
    (void)state;
    expect_none(forge_receipts(MODEL, 257), 3);
}

static void no_forged_conversation_is_the_same(void **state) {
    (void)state;
    expect_none(forge_conversations(MODEL, 47), 4);
}

static void no_forged_text_is_the_same(void **state) {
    (void)state;
    expect_none(forge_texts(MODEL, 211), 4);
}

static void honest_records_are_the_same(void **state) {
    (void)state;
    const Isa *isa = isa_available(1) ? isa_available(1) : isa_available(0);
    ForgerySum sum = honest_records(MODEL, isa->name, 16);
    assert_int_equal(sum.same, sum.tried);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_forged_result_is_the_same),
        cmocka_unit_test(no_forged_receipt_is_the_same),
        cmocka_unit_test(no_forged_conversation_is_the_same),
        cmocka_unit_test(no_forged_text_is_the_same),
        cmocka_unit_test(honest_records_are_the_same),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
