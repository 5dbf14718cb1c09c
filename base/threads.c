#include "base/threads.h"

#include <linux/futex.h>
#include <omp.h>
#include <pthread.h>
#include <stdlib.h>
#include <strings.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

static void *wait_for_all(void *started) {
    pthread_mutex_lock(started);
    pthread_mutex_unlock(started);
    return NULL;
}

int threads_startable(int n_threads) {
    struct rlimit limit;
    if (n_threads < 2 || getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
        return n_threads;
    int n = 0, failed = 0;
    pthread_t *threads = malloc((size_t)n_threads * sizeof *threads);
    pthread_mutex_t started = PTHREAD_MUTEX_INITIALIZER; /* held: all stacks are there at once */
    if (!threads) return 1;
    pthread_mutex_lock(&started);
    while (n < n_threads - 1 && !failed) {
        failed = pthread_create(&threads[n], NULL, wait_for_all, &started);
        n += !failed;
    }
    pthread_mutex_unlock(&started);
    for (int i = 0; i < n; i++) pthread_join(threads[i], NULL);
    free(threads);
    if (!failed) n++; /* the one that asks; else its room is left */
    if (n < 2) return 1;
    atomic_int n_running = 0;
#pragma omp parallel num_threads(n)
    atomic_fetch_add(&n_running, 1); /* what is allocated from now on takes no room from them */
    return n;
}

static void pause_briefly(void) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("isb");
#endif
}

/* The largest team whose threads all have a processor, so that one that spins delays no other. */
static unsigned largest_spinning_team(void) {
    const char *policy = getenv("OMP_WAIT_POLICY");
    return policy && strcasecmp(policy, "passive") == 0 ? 1 : (unsigned)omp_get_num_procs();
}

void barrier_wait(Barrier *b) {
    enum { SPINS = 2000 };
    unsigned team = (unsigned)omp_get_num_threads(), generation = atomic_load(&b->generation);
    if (team == 1) return;
    if (atomic_fetch_add(&b->arrived, 1) + 1 == team) {
        atomic_store(&b->arrived, 0);
        atomic_store(&b->generation, generation + 1);
        if (atomic_load(&b->sleepers) > 0)
            syscall(SYS_futex, &b->generation, FUTEX_WAKE_PRIVATE, team, NULL, NULL, 0);
        return;
    }
    unsigned spinning = atomic_load_explicit(&b->spinning, memory_order_relaxed);
    if (spinning == 0) atomic_store(&b->spinning, spinning = largest_spinning_team());
    for (int i = 0; team <= spinning && i < SPINS; i++) {
        if (atomic_load_explicit(&b->generation, memory_order_acquire) != generation) return;
        pause_briefly();
    }
    atomic_fetch_add(&b->sleepers, 1);
    while (atomic_load(&b->generation) == generation)
        syscall(SYS_futex, &b->generation, FUTEX_WAIT_PRIVATE, generation, NULL, NULL, 0);
    atomic_fetch_sub(&b->sleepers, 1);
}
