/* Makes every single call of each run fail in turn; tests/test_faults.c runs a sample of this.
 * Takes minutes (`make soak`). */
#include "fault_tests.h"

static void stands(FaultMode mode) {
    if (!runs) skip();
    for (FaultKind kind = 0; kind < FAULT_KINDS; kind++) {
        fault_runs_try(runs, mode, kind, 1, false);
        fault_runs_try(runs, mode, kind, 1, true);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_export_stands_every_fault),
        cmocka_unit_test(a_generation_stands_every_fault),
        cmocka_unit_test(a_chat_stands_every_fault),
        cmocka_unit_test(a_batch_stands_every_fault),
        cmocka_unit_test(shaped_answers_stand_every_fault),
        cmocka_unit_test(a_picture_of_attention_stands_every_fault),
        cmocka_unit_test(joining_parts_stands_every_fault),
    };
    return cmocka_run_group_tests_name("faults", tests, set_up, tear_down);
}
