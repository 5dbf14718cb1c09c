#include "base/threads.h"

#include <linux/futex.h>
#include <omp.h>
#include <stdlib.h>
#include <strings.h>
#include <sys/syscall.h>
#include <unistd.h>

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
