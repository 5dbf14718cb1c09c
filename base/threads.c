#include "base/threads.h"

#include <linux/futex.h>
#include <omp.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Reads the one or two numbers at the beginning of a file; returns how many there are. */
static int read_numbers(const char *path, long *first, long *second) {
    FILE *file = fopen(path, "r");
    int n = file ? fscanf(file, "%ld %ld", first, second) : 0;
    if (file) fclose(file);
    return n;
}

/* The lowest logical processor on the same core as `cpu`; `cpu` itself where that is unknown. */
static int first_sibling(int cpu) {
    char path[96];
    long first, ignored;
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list", cpu);
    return read_numbers(path, &first, &ignored) >= 1 ? (int)first : cpu;
}

/* The processors' worth of time that the control group allows, rounded up; 0: no limit. */
static int quota(void) {
    long limit = 0, period = 0, ignored;
    if (read_numbers("/sys/fs/cgroup/cpu.max", &limit, &period) < 2) { /* not of version 2 */
        read_numbers("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", &limit, &ignored);
        read_numbers("/sys/fs/cgroup/cpu/cpu.cfs_period_us", &period, &ignored);
    }
    return limit > 0 && period > 0 ? (int)((limit + period - 1) / period) : 0;
}

int threads_default(void) {
    cpu_set_t allowed, seen;
    int cores = 0, limit = quota();
    CPU_ZERO(&seen);
    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return 1;
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (!CPU_ISSET(cpu, &allowed)) continue;
        int core = first_sibling(cpu);
        /* A core counts once, however many of its logical processors are allowed. */
        if (core >= 0 && core < CPU_SETSIZE && CPU_ISSET(core, &seen)) continue;
        if (core >= 0 && core < CPU_SETSIZE) CPU_SET(core, &seen);
        cores++;
    }
    if (limit > 0 && limit < cores) cores = limit;
    return cores > 0 ? cores : 1;
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
