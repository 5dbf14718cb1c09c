/* Several drafters together: who is asked, how many tokens they propose, and what that may cost. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "draft/drafter_set.h"

/* ---- When to guess, by times that the test makes up ---- */

enum { TOKENS = 4000, MOST = 7 };

/* A drafter whose guesses are right with a probability that changes at some place in the text. The
 * text is its own index everywhere, so a right guess is the next index. */
typedef struct Guesser {
    Drafter drafter;
    double before, after; /* probability of a right token */
    size_t change;
    size_t proposed;
    uint64_t random;
} Guesser;

static double next_random(Guesser *g) {
    g->random = g->random * 6364136223846793005u + 1442695040888963407u;
    return (double)(g->random >> 40) / 0x1p24;
}

static size_t propose(Drafter *drafter, const int32_t *text, size_t n, int32_t *drafts,
                      size_t most) {
    Guesser *g = (Guesser *)drafter;
    (void)text;
    for (size_t i = 0; i < most; i++)
        drafts[i] = next_random(g) < (n < g->change ? g->before : g->after) ? (int32_t)(n + i) : -1;
    g->proposed += most;
    return most;
}

static void learn(Drafter *drafter, size_t n, size_t accepted) {
    (void)drafter;
    assert_true(n > 0 && accepted <= n);
}

static void keep(Drafter *drafter) {
    (void)drafter; /* the test's */
}

static Guesser guesser(double before, size_t change, double after) {
    return (Guesser){{MOST, propose, learn, keep, NULL}, before, after, change, 0, 7};
}

/* The seconds of a pass: one for its first row, `row` for each further one. */
typedef struct Run {
    double seconds;
    size_t passes, rows;
} Run;

static Run decode(Guesser *guessers, size_t n_guessers, double row, size_t n_texts,
                  DraftRecord *records) {
    static const char *const names[] = {"first", "second"};
    int32_t text[TOKENS + MOST + 1], drafts[DRAFTS_MAX];
    PassCosts costs = {.row_share = 0.3, .n_texts = n_texts};
    Run run = {0};
    Drafter *set = drafter_set_new(&costs);
    assert_non_null(set);
    for (size_t i = 0; i < n_guessers; i++) {
        records[i] = draft_record(names[i], 0.6);
        drafter_set_add(set, &guessers[i].drafter, &records[i]);
    }
    for (size_t i = 0; i < sizeof text / sizeof *text; i++) text[i] = (int32_t)i;
    for (size_t n = 1; n < TOKENS;) {
        size_t n_drafts = set->propose(set, text, n, drafts, set->most), right = 0;
        while (right < n_drafts && drafts[right] == (int32_t)(n + right)) right++;
        size_t rows = n_texts * (1 + n_drafts);
        double seconds = 1.0 + row * (double)(rows - 1);
        pass_costs_add(&costs, rows, seconds);
        run.seconds += seconds;
        run.passes++;
        run.rows += 1 + n_drafts;
        n += 1 + right;
        if (n_drafts > 0) set->learn(set, n_drafts, right);
    }
    drafter_free(set);
    return run;
}

static void wrong_guesses_cost_less_than_two_percent(void **state) {
    static const double rows[] = {0.02, 0.1, 0.5, 1.0};
    (void)state;
    for (size_t i = 0; i < 4; i++) {
        DraftRecord records[2];
        Guesser wrong[] = {guesser(0.0, TOKENS, 0.0), guesser(0.0, TOKENS, 0.0)};
        Run run = decode(wrong, 2, rows[i], 1, records);
        assert_true(run.seconds < TOKENS / 0.98);
        assert_true(wrong[0].proposed > 0 && wrong[1].proposed > 0);
        /* Nor does a text that is easy first and then turns. */
        Guesser turns = guesser(1.0, TOKENS / 2, 0.0);
        run = decode(&turns, 1, rows[i], 1, records);
        assert_true(run.seconds < TOKENS / 0.98);
    }
}

static void right_guesses_are_found_and_used(void **state) {
    DraftRecord records[2];
    (void)state;
    Guesser right = guesser(0.7, TOKENS, 0.7);
    Run run = decode(&right, 1, 0.05, 1, records);
    assert_true(TOKENS / run.seconds > 1.8);
    assert_true(records[0].gained > 0.0);
    /* Also by a drafter whose guesses were wrong for long. */
    Guesser late = guesser(0.0, TOKENS / 4, 1.0);
    run = decode(&late, 1, 0.05, 1, records);
    assert_true(TOKENS / run.seconds > 1.5);
    assert_true(records[0].right > TOKENS / 2);
}

static void who_was_right_goes_first(void **state) {
    DraftRecord records[2];
    (void)state;
    Guesser both[] = {guesser(0.1, TOKENS, 0.1), guesser(0.9, TOKENS, 0.9)};
    decode(both, 2, 0.05, 1, records);
    assert_true(records[1].drafted > 10 * records[0].drafted);
}

static void rows_that_are_not_cheap_get_no_guesses(void **state) {
    DraftRecord records[2];
    (void)state;
    /* As many texts as make a pass expensive, each guess right in half of the cases. */
    Guesser half = guesser(0.5, TOKENS, 0.5);
    Run run = decode(&half, 1, 0.9, 8, records);
    assert_true(run.rows < run.passes + run.passes / 10);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wrong_guesses_cost_less_than_two_percent),
        cmocka_unit_test(right_guesses_are_found_and_used),
        cmocka_unit_test(who_was_right_goes_first),
        cmocka_unit_test(rows_that_are_not_cheap_get_no_guesses),
    };
    return cmocka_run_group_tests_name("drafts", tests, NULL, NULL);
}
