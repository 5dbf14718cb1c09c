/* Makes every single call of each run fail in turn; tests/test_faults.c runs a sample of this.
 * Takes minutes (`make soak`). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "fault_runs.h"

static FaultRuns *runs;

static int set_up(void **state) {
    (void)state;
    runs = fault_runs_new();
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    fault_runs_free(runs);
    return 0;
}

static void stands(FaultMode mode) {
    if (!runs) skip();
    for (FaultKind kind = 0; kind < FAULT_KINDS; kind++) {
        fault_runs_try(runs, mode, kind, 1, false);
        fault_runs_try(runs, mode, kind, 1, true);
    }
}

static void an_export_stands_every_fault(void **state) {
    (void)state;
    stands(FAULT_EXPORT);
}

static void a_generation_stands_every_fault(void **state) {
    (void)state;
    stands(FAULT_GENERATE);
}

static void a_chat_stands_every_fault(void **state) {
    (void)state;
    stands(FAULT_CHAT);
}

static void a_batch_stands_every_fault(void **state) {
    (void)state;
    stands(FAULT_BATCH);
}

static void a_picture_of_attention_stands_every_fault(void **state) {
    (void)state;
    stands(FAULT_ATTENTION);
}

static void joining_parts_stands_every_fault(void **state) {
    (void)state;
    stands(FAULT_MERGE);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_export_stands_every_fault),
        cmocka_unit_test(a_generation_stands_every_fault),
        cmocka_unit_test(a_chat_stands_every_fault),
        cmocka_unit_test(a_batch_stands_every_fault),
        cmocka_unit_test(a_picture_of_attention_stands_every_fault),
        cmocka_unit_test(joining_parts_stands_every_fault),
    };
    return cmocka_run_group_tests_name("faults", tests, set_up, tear_down);
}
