#include "system/free_memory.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The number at the beginning of a file, or of its line that begins with `key`; 0: there is none.
 */
static double number_in(const char *path, const char *key) {
    char line[256];
    double number = 0.0;
    FILE *f = fopen(path, "r");
    while (f && fgets(line, sizeof line, f)) {
        if (key && strncmp(line, key, strlen(key)) != 0) continue;
        number = strtod(line + (key ? strlen(key) : 0), NULL);
        break;
    }
    if (f) fclose(f);
    return isfinite(number) ? number : 0.0; /* "max" */
}

/* Reduces `bytes` to what a control group leaves. `used` includes the page cache, which the kernel
 * gives up before it refuses memory; both lines of `stat` count that. */
static double below_limit(double bytes, const char *limit_path, const char *used_path,
                          const char *stat_path, const char *const keys[2]) {
    double limit = number_in(limit_path, NULL), used = number_in(used_path, NULL);
    if (limit <= 0.0) return bytes;
    used -= number_in(stat_path, keys[0]) + number_in(stat_path, keys[1]);
    double left = fmax(limit - fmax(used, 0.0), 0.0);
    return left < bytes ? left : bytes;
}

/* The folder of this process's group of version 1 that limits memory; false: there is none. */
static bool old_group(char *folder, size_t size) {
    static const char root[] = "/sys/fs/cgroup/memory", name[] = ":memory:";
    char line[512];
    FILE *f = fopen("/proc/self/cgroup", "r");
    bool found = false;
    while (f && !found && fgets(line, sizeof line, f)) {
        char *at = strstr(line, name);
        if (!at) continue;
        at[strcspn(at, "\n")] = '\0';
        int n = snprintf(folder, size, "%s%s", root, at + strlen(name));
        found = n > 0 && (size_t)n < size;
    }
    if (f) fclose(f);
    /* In a container the path is the host's, and the root is the container's own group. */
    if (found && access(folder, F_OK) != 0) snprintf(folder, size, "%s", root);
    return found;
}

static double below_old_limit(double bytes) {
    static const char *const keys[2] = {"total_inactive_file ", "total_active_file "};
    char folder[512], limit[600], used[600], stat[600];
    if (!old_group(folder, sizeof folder)) return bytes;
    snprintf(limit, sizeof limit, "%s/memory.limit_in_bytes", folder);
    snprintf(used, sizeof used, "%s/memory.usage_in_bytes", folder);
    snprintf(stat, sizeof stat, "%s/memory.stat", folder);
    return below_limit(bytes, limit, used, stat, keys);
}

double free_memory_bytes(void) {
    static const char *const keys[2] = {"inactive_file ", "active_file "};
    double bytes = number_in("/proc/meminfo", "MemAvailable:") * 1024.0;
    if (bytes <= 0.0)
        bytes = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGE_SIZE) / 2.0;
    bytes = below_limit(bytes, "/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current",
                        "/sys/fs/cgroup/memory.stat", keys);
    return below_old_limit(bytes);
}
