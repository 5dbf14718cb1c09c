/* Makes single calls (allocations, reads, writes ...) of the programs fail, chosen by number. Each
 * run must end with an error or be unharmed. This is a sample; `make soak` tries every call. */
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

/* Lets calls of every kind fail, one in each run: every call when there are fewer than 70, else
 * about thirty of them. */
static void stands(FaultMode mode) {
    if (!runs) skip();
    for (FaultKind kind = 0; kind < FAULT_KINDS; kind++) {
        long calls = runs->calls[mode][kind], step = calls < 70 ? 1 : calls / 30 + 1;
        fault_runs_try(runs, mode, kind, step, false);
    }
    fault_runs_try(runs, mode, FAULT_WRITE, runs->calls[mode][FAULT_WRITE] / 5 + 1, true);
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

int main(int argc, char **argv) {
    (void)argc, (void)argv;
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
