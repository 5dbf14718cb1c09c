/* What the program may use of a machine: quotas and limits of control groups, read from folders
 * that look like /proc and /sys/fs/cgroup (man 7 cgroups, the kernel's cgroup-v1 and cgroup-v2
 * documents), and the machine that VERBATIM_MACHINE describes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/control_group.h"
#include "base/machine.h"
#include "base/sha256.h"
#include "core/isa.h"
#include "tests/fixture.h"

/* ---- Control groups ---- */

typedef struct GroupFile {
    const char *path, *text;
} GroupFile;

typedef struct GroupCase {
    const char *what;
    GroupFile files[8];
    double processors, memory;
} GroupCase;

static const GroupCase group_cases[] = {
    {"version 2, its own group",
     {{"/proc/self/cgroup", "0::/jobs/mine\n"},
      {"/proc/self/mountinfo", "31 23 0:28 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw\n"},
      {"/sys/fs/cgroup/cpu.max", "max 100000\n"},
      {"/sys/fs/cgroup/jobs/mine/cpu.max", "150000 100000\n"},
      {"/sys/fs/cgroup/jobs/mine/memory.max", "1000000\n"},
      {"/sys/fs/cgroup/jobs/mine/memory.current", "700000\n"},
      {"/sys/fs/cgroup/jobs/mine/memory.stat",
       "anon 200000\nfile 500000\ninactive_file 300000\nactive_file 200000\n"}},
     1.5,
     800000},
    {"version 2, the slice above it",
     {{"/proc/self/cgroup", "0::/user.slice/user-1000.slice/session-1.scope\n"},
      {"/proc/self/mountinfo", "31 23 0:28 / /sys/fs/cgroup rw - cgroup2 none rw\n"},
      {"/sys/fs/cgroup/user.slice/cpu.max", "max 100000\n"},
      {"/sys/fs/cgroup/user.slice/memory.high", "5000\n"},
      {"/sys/fs/cgroup/user.slice/user-1000.slice/cpu.max", "200000 100000\n"},
      {"/sys/fs/cgroup/user.slice/user-1000.slice/session-1.scope/cpu.max", "400000 100000\n"},
      {"/sys/fs/cgroup/user.slice/user-1000.slice/session-1.scope/memory.max", "9000\n"}},
     2,
     5000},
    {"a container whose group is the root of what it sees",
     {{"/proc/self/cgroup", "0::/\n"},
      {"/proc/self/mountinfo", "31 23 0:28 / /sys/fs/cgroup ro - cgroup2 cgroup rw\n"},
      {"/sys/fs/cgroup/cpu.max", "50000 100000\n"},
      {"/sys/fs/cgroup/memory.max", "max\n"}},
     0.5,
     HUGE_VAL},
    {"a container that sees the host's path and its own group alone (docker --cgroupns=host)",
     {{"/proc/self/cgroup", "4:cpu,cpuacct:/docker/1234\n3:memory:/docker/1234\n0::/\n"},
      {"/proc/self/mountinfo",
       "35 31 0:30 /docker/1234 /sys/fs/cgroup/cpu,cpuacct ro - cgroup cgroup rw,cpu,cpuacct\n"
       "36 31 0:35 /docker/1234 /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n"},
      {"/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "300000\n"},
      {"/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n"},
      {"/sys/fs/cgroup/memory/memory.limit_in_bytes", "4096\n"},
      {"/sys/fs/cgroup/memory/memory.usage_in_bytes", "1096\n"}},
     3,
     3000},
    {"the host's path where its folder cannot be seen",
     {{"/proc/self/cgroup", "1:cpu:/kubepods/pod7/c1\n"},
      {"/proc/self/mountinfo", "35 31 0:30 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n"},
      {"/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "200000\n"},
      {"/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n"}},
     2,
     HUGE_VAL},
    {"version 1, its own group and the one above it",
     {{"/proc/self/cgroup", "9:memory:/a/b\n4:cpu,cpuacct:/a/b\n3:cpuset:/\n0::/\n"},
      {"/proc/self/mountinfo", "35 31 0:30 / /cpu rw - cgroup cgroup rw,cpuacct,cpu\n"
                               "36 31 0:31 / /mem rw - cgroup cgroup rw,memory\n"},
      {"/cpu/a/cpu.cfs_quota_us", "100000\n"},
      {"/cpu/a/cpu.cfs_period_us", "100000\n"},
      {"/cpu/a/b/cpu.cfs_quota_us", "-1\n"},
      {"/cpu/a/b/cpu.cfs_period_us", "100000\n"},
      {"/mem/a/memory.limit_in_bytes", "70000\n"},
      {"/mem/a/b/memory.limit_in_bytes", "9223372036854771712\n"}},
     1,
     70000},
    {"lines that say nothing",
     {{"/proc/self/cgroup", "\n:\n0:\n0::\nx:y\n"},
      {"/proc/self/mountinfo", "\n - \n1 2 3 - cgroup2 cgroup2 rw\n"}},
     HUGE_VAL,
     HUGE_VAL},
    {"no files at all", {{0}}, HUGE_VAL, HUGE_VAL},
};

static void write_below(const char *root, const GroupFile *file) {
    char *command = NULL;
    char path[1024];
    snprintf(path, sizeof path, "%s%s", root, file->path);
    assert_true(asprintf(&command, "mkdir -p \"$(dirname '%s')\"", path) > 0);
    assert_int_equal(system(command), 0);
    free(command);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(file->text, f);
    fclose(f);
}

static void the_limits_of_the_group_and_of_those_above_it_count(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof group_cases / sizeof *group_cases; i++) {
        const GroupCase *c = &group_cases[i];
        char *root = fixture_directory();
        for (size_t k = 0; k < 8 && c->files[k].path; k++) write_below(root, &c->files[k]);
        double processors = control_group_processors(root), memory = control_group_memory(root);
        if (processors != c->processors || memory != c->memory)
            fail_msg("%s: %g processors, %g bytes", c->what, processors, memory);
        fixture_remove_directory(root);
    }
}

/* ---- Described machines ---- */

static void a_described_machine_has_what_it_says(void **state) {
    (void)state;
    const char *before = getenv("VERBATIM_MACHINE");
    char *kept = before ? strdup(before) : NULL;
    setenv("VERBATIM_MACHINE", "isa=reference,processors=64,memory=1G,cache=256K", 1);
    assert_int_equal(machine_cores(), 64);
    assert_true(machine_memory() == 0x1p30);
    assert_true(machine_free_memory() == 0x1p30);
    assert_int_equal(machine_cache(), 256 << 10);
    assert_string_equal(isa_choose(NULL, NULL)->name, "reference");
    assert_null(isa_available(1));
    Sha256 hash;
    sha256_init(&hash);
    assert_false(hash.by_instructions);
    setenv("VERBATIM_MACHINE", "processors=1", 1);
    assert_int_equal(machine_cores(), 1);
    setenv("VERBATIM_MACHINE", "", 1);
    assert_null(machine_described());
    assert_true(machine_memory() > 0);
    if (kept) {
        setenv("VERBATIM_MACHINE", kept, 1);
    } else {
        unsetenv("VERBATIM_MACHINE");
    }
    free(kept);
}

int main(int argc, char **argv) {
    (void)argc, (void)argv;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_limits_of_the_group_and_of_those_above_it_count),
        cmocka_unit_test(a_described_machine_has_what_it_says),
    };
    return cmocka_run_group_tests_name("machine", tests, NULL, NULL);
}
