/* How many threads run a part of a pass: what the choice begins with, and when it ends a pass. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "session/thread_choice.h"

enum { MOST = 8 };

static int begin(AdaptiveThreads *threads, int most, size_t n_rows, double work, double done) {
    return threads->observer.part_begins(&threads->observer, most, n_rows, work, done);
}

/* A small model's single tokens are work for one thread; its next prompt is not. */
static void parts_for_one_thread_leave_the_others_their_number(void **state) {
    (void)state;
    AdaptiveThreads threads;
    adaptive_threads_init(&threads, NULL);
    for (int i = 0; i < 10; i++) {
        assert_int_equal(begin(&threads, 1, 1, 1e6, 0), 1);
        threads.observer.part_ends(&threads.observer);
    }
    assert_int_equal(begin(&threads, MOST, 512, 1e9, 0), MOST);
    threads.observer.part_ends(&threads.observer);
}

static void an_interruption_ends_a_pass_between_its_parts(void **state) {
    (void)state;
    volatile sig_atomic_t interrupted = 1;
    AdaptiveThreads threads;
    adaptive_threads_init(&threads, &interrupted);
    assert_int_equal(begin(&threads, MOST, 512, 1e10, 0), MOST);
    threads.observer.part_ends(&threads.observer);
    assert_int_equal(begin(&threads, MOST, 512, 1e10, 0.5), 0);
    interrupted = 0;
    assert_int_equal(begin(&threads, MOST, 512, 1e10, 0.5), MOST);
    threads.observer.part_ends(&threads.observer);
}

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_for_one_thread_leave_the_others_their_number),
        cmocka_unit_test(an_interruption_ends_a_pass_between_its_parts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
