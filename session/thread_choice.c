#include "session/thread_choice.h"

#include <string.h>
#include <time.h>

#include "base/clock.h"

/* Seconds. A time slice of another process is 3 to 10 ms, so that less than this says little. */
static const double LEAST_SAMPLE = 0.03, TRIAL = 0.05, USED_MEMORY = 0.3;
static const double FIRST_INTERVAL = 0.25, LAST_INTERVAL = 8.0;
/* Shares: of lost time that makes fewer threads worth a trial, of gained time that makes a change
 * worth it; and how much slower a trial is given up at once. */
static const double LOST = 0.12, GAINED = 0.05, HOPELESS = 1.3;
/* Parts of passes shorter than this are compared with fewer threads even when no time is lost:
 * waking the others may cost more than they do. */
static const double SHORT_PART = 0.001;

/* Multiply-adds of a part of a pass: some 20 to 100 ms. */
static const double PART_WORK = 1e10;

static double processor_seconds(void) {
    struct timespec t;
    if (clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t) != 0) return 0;
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static double cost(const ThreadSample *s) {
    return s->work > 0 ? s->seconds / s->work : 0;
}

/* The share of the threads' time in which they did not run. */
static double lost(const ThreadSample *s, int n_threads) {
    double all = s->seconds * n_threads;
    return all > 0 && s->useful < all ? 1.0 - s->useful / all : 0;
}

/* How many threads to try next; 0: none. */
static int next_trial(AdaptiveThreads *t, int most, double now) {
    const ThreadSample *s = &t->used;
    if (s->n < 3 || s->seconds < LEAST_SAMPLE) return 0;
    bool is_short = s->seconds / (double)s->n < SHORT_PART;
    if (is_short && !t->compared && t->now > 1) {
        t->compared = true;
        return t->now / 2;
    }
    if (now < t->next_trial) return 0;
    double share = lost(s, t->now);
    if (t->now > 1 && share > LOST) {
        int running = (int)((1.0 - share) * t->now); /* threads' worth of time */
        running = running < t->now ? running : t->now - 1;
        return running > 1 ? running : 1;
    }
    return t->now < most ? (2 * t->now < most ? 2 * t->now : most) : 0;
}

/* Ends a trial when it is decided. */
static void judge_trial(AdaptiveThreads *t, double now) {
    bool slower = t->tried.n >= 2 && cost(&t->tried) > HOPELESS * cost(&t->used);
    if (!slower && (t->tried.n < 3 || t->tried.seconds < TRIAL)) return;
    if (cost(&t->tried) < (1.0 - GAINED) * cost(&t->used)) {
        t->now = t->trial;
        t->used = t->tried;
        t->interval = FIRST_INTERVAL;
        t->n_changes++;
    } else {
        t->interval = t->interval * 2 < LAST_INTERVAL ? t->interval * 2 : LAST_INTERVAL;
    }
    t->trial = 0;
    t->next_trial = now + t->interval;
}

/* PassObserver.part_begins: returns how many threads the next part of a pass uses (0: stop), now
 * and then another number to try whether that is faster. A new order of magnitude of rows starts
 * the search afresh. */
static int threads_begin(PassObserver *observer, int most, size_t n_rows, double work,
                         double done) {
    AdaptiveThreads *t = (AdaptiveThreads *)observer;
    if (t->on_part) t->on_part(t->part_context, n_rows, done);
    if (done > 0 && t->interrupted && *t->interrupted) return 0;
    t->alone = most == 1;
    if (t->alone) return 1;
    int rows_class = 0;
    while (n_rows >>= 1) rows_class++;
    if (rows_class != t->rows_class) {
        t->rows_class = rows_class;
        t->used = t->tried = (ThreadSample){0};
        t->trial = 0;
    }
    if (t->now == 0 || t->now > most) t->now = most;
    t->work = work;
    t->useful = processor_seconds();
    t->began = clock_seconds();
    if (t->trial == 0) {
        t->trial = next_trial(t, most, t->began);
        t->tried = (ThreadSample){0};
        t->n_trials += t->trial > 0;
    }
    return t->trial ? t->trial : t->now;
}

static void threads_end(PassObserver *observer) {
    AdaptiveThreads *t = (AdaptiveThreads *)observer;
    if (t->alone) return;
    double now = clock_seconds();
    ThreadSample *s = t->trial ? &t->tried : &t->used;
    s->n++;
    s->work += t->work;
    s->seconds += now - t->began;
    s->useful += processor_seconds() - t->useful;
    if (t->trial) {
        judge_trial(t, now);
    } else if (s->seconds > USED_MEMORY) { /* what was long ago counts less */
        s->n = (s->n + 1) / 2;
        s->work /= 2;
        s->seconds /= 2;
        s->useful /= 2;
    }
}

void adaptive_threads_init(AdaptiveThreads *threads, const volatile sig_atomic_t *interrupted) {
    *threads = (AdaptiveThreads){.observer = {.part_begins = threads_begin,
                                              .part_work = PART_WORK,
                                              .part_ends = threads_end},
                                 .interrupted = interrupted,
                                 .rows_class = -1,
                                 .interval = FIRST_INTERVAL};
}
