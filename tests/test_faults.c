/* Makes single calls (allocations, reads, writes ...) of the programs fail, chosen by number. Each
 * run must end with an error or be unharmed. This is a sample; `make soak` tries every call. */
#include "fault_tests.h"
#include "tests/tier.h"

/* Lets calls of every kind fail, one in each run: every call when there are fewer than 70, else
 * about thirty of them; in the tier check about six. */
static void stands(FaultMode mode) {
    if (!runs) skip();
    for (FaultKind kind = 0; kind < FAULT_KINDS; kind++) {
        long calls = runs->calls[mode][kind], step = calls < 70 ? 1 : calls / 30 + 1;
        if (tier() == TIER_CHECK) step = calls / 6 + 1;
        fault_runs_try(runs, mode, kind, step, false);
    }
    fault_runs_try(runs, mode, FAULT_WRITE, runs->calls[mode][FAULT_WRITE] / 5 + 1, true);
}

int main(int argc, char **argv) {
    (void)argc, (void)argv;
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
