#include "base/threads.h"

#include <linux/futex.h>
#include <omp.h>
#include <sched.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The lowest logical processor on the same core as `cpu`; `cpu` itself where that is unknown. */
static int first_sibling(int cpu) {
    char path[96];
    int first = cpu;
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list", cpu);
    FILE *file = fopen(path, "r");
    if (!file) return cpu;
    if (fscanf(file, "%d", &first) != 1) first = cpu;
    fclose(file);
    return first;
}

/* The processors' worth of time that the control group allows, rounded up; 0: no limit. */
static int quota(void) {
    long limit, period;
    int processors = 0;
    FILE *file = fopen("/sys/fs/cgroup/cpu.max", "r");
    if (file) {
        if (fscanf(file, "%ld %ld", &limit, &period) == 2 && limit > 0 && period > 0)
            processors = (int)((limit + period - 1) / period);
        fclose(file);
        return processors;
    }
    FILE *limit_file = fopen("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "r");
    FILE *period_file = fopen("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "r");
    if (limit_file && period_file && fscanf(limit_file, "%ld", &limit) == 1 &&
        fscanf(period_file, "%ld", &period) == 1 && limit > 0 && period > 0)
        processors = (int)((limit + period - 1) / period);
    if (limit_file) fclose(limit_file);
    if (period_file) fclose(period_file);
    return processors;
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
    for (int i = 0; i < SPINS; i++) {
        if (atomic_load_explicit(&b->generation, memory_order_acquire) != generation) return;
        pause_briefly();
    }
    atomic_fetch_add(&b->sleepers, 1);
    while (atomic_load(&b->generation) == generation)
        syscall(SYS_futex, &b->generation, FUTEX_WAIT_PRIVATE, generation, NULL, NULL, 0);
    atomic_fetch_sub(&b->sleepers, 1);
}
