/* The tests of test_faults.c and soak_faults.c: what fails in turn is what differs. */
#ifndef FAULT_TESTS_H
#define FAULT_TESTS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "fault_runs.h"

static FaultRuns *runs;

/* Lets calls of every kind fail, one in each run; the including file says which. */
static void stands(FaultMode mode);

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

static void shaped_answers_stand_every_fault(void **state) {
    (void)state;
    stands(FAULT_SHAPES);
}

static void a_picture_of_attention_stands_every_fault(void **state) {
    (void)state;
    stands(FAULT_ATTENTION);
}

static void joining_parts_stands_every_fault(void **state) {
    (void)state;
    stands(FAULT_MERGE);
}

#endif
