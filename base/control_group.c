#include "base/control_group.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PATH_ROOM = 4096 };

/* Where a controller's hierarchy is mounted, and this process's group in it. */
typedef struct Hierarchy {
    bool is_found, is_version_2;
    char mount[PATH_ROOM];  /* "/sys/fs/cgroup/memory" */
    char hidden[PATH_ROOM]; /* the group that the mount point shows as its root: "/" or a
                               container's */
    char group[PATH_ROOM];  /* "/user.slice/user-1000.slice" */
} Hierarchy;

/* Whether `word` is one of the words of a list with commas. */
static bool list_has(const char *list, const char *word) {
    size_t n = strlen(word);
    for (const char *at = list; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL)
        if (strncmp(at, word, n) == 0 && (at[n] == ',' || at[n] == '\0')) return true;
    return false;
}

static FILE *open_below(const char *root, const char *path) {
    char whole[2 * PATH_ROOM];
    int n = snprintf(whole, sizeof whole, "%s%s", root, path);
    return n > 0 && (size_t)n < sizeof whole ? fopen(whole, "r") : NULL;
}

/* Finds the group's path: a line of /proc/self/cgroup is "4:cpu,cpuacct:/path", of version 2
 * "0::/path". */
static bool find_group(const char *root, const char *controller, Hierarchy *h) {
    char *line = NULL;
    size_t room = 0;
    bool found = false;
    FILE *file = open_below(root, "/proc/self/cgroup");
    while (file && !found && getline(&line, &room, file) > 0) {
        char *list = strchr(line, ':'), *path = list ? strchr(list + 1, ':') : NULL;
        if (!path) continue;
        *path++ = '\0';
        path[strcspn(path, "\n")] = '\0';
        found = h->is_version_2 ? strcmp(line, "0:") == 0 : list_has(list + 1, controller);
        if (found) snprintf(h->group, sizeof h->group, "%s", path);
    }
    free(line);
    if (file) fclose(file);
    return found;
}

/* Finds the mount point: a line of /proc/self/mountinfo is "31 23 0:28 ROOT MOUNT-POINT rw - cgroup
 * cgroup rw,memory" (man 5 proc). */
static bool find_mount(const char *root, const char *controller, Hierarchy *h) {
    char *line = NULL, type[32], options[256];
    size_t room = 0;
    bool found = false;
    FILE *file = open_below(root, "/proc/self/mountinfo");
    while (file && !found && getline(&line, &room, file) > 0) {
        const char *end = strstr(line, " - cgroup");
        if (!end || sscanf(line, "%*s %*s %*s %4095s %4095s", h->hidden, h->mount) != 2) continue;
        if (sscanf(end, " - %31s %*s %255s", type, options) != 2) continue;
        found = h->is_version_2 ? strcmp(type, "cgroup2") == 0
                                : strcmp(type, "cgroup") == 0 && list_has(options, controller);
    }
    free(line);
    if (file) fclose(file);
    return found;
}

/* Finds where the controller's hierarchy is mounted, and this process's group as the mount shows
 * it. A controller belongs to version 2 where no hierarchy of version 1 has it. */
static Hierarchy find_hierarchy(const char *root, const char *controller) {
    Hierarchy h = {.is_found = false};
    for (int version = 1; version <= 2 && !h.is_found; version++) {
        h.is_version_2 = version == 2;
        h.is_found = find_group(root, controller, &h) && find_mount(root, controller, &h);
    }
    /* The mount shows the part of the hierarchy below `hidden`. */
    size_t n = strcmp(h.hidden, "/") == 0 ? 0 : strlen(h.hidden);
    if (strncmp(h.group, h.hidden, n) == 0 && (h.group[n] == '/' || h.group[n] == '\0'))
        memmove(h.group, h.group + n, strlen(h.group + n) + 1);
    return h;
}

/* The number at the beginning of a file, or of its line that begins with `key`; `absent` where
 * there is none, or the word "max". A second number, if any, goes to *second. */
static double read_number(const char *folder, const char *name, const char *key, double absent,
                          double *second) {
    char path[3 * PATH_ROOM], line[256];
    double number = absent;
    int n = snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = n > 0 && (size_t)n < sizeof path ? fopen(path, "r") : NULL;
    while (file && fgets(line, sizeof line, file)) {
        if (key && strncmp(line, key, strlen(key)) != 0) continue;
        char *begin = line + (key ? strlen(key) : 0), *end;
        double value = strtod(begin, &end);
        if (end > begin && isfinite(value)) number = value;
        if (second && end > begin) *second = strtod(end, NULL);
        break;
    }
    if (file) fclose(file);
    return number;
}

static double processors_of(const char *folder, bool is_version_2) {
    double period = 0.0, quota;
    if (is_version_2) {
        quota = read_number(folder, "cpu.max", NULL, 0.0, &period);
    } else {
        quota = read_number(folder, "cpu.cfs_quota_us", NULL, 0.0, NULL);
        period = read_number(folder, "cpu.cfs_period_us", NULL, 0.0, NULL);
    }
    return quota > 0.0 && period > 0.0 ? quota / period : HUGE_VAL;
}

/* The usage that the kernel reports includes the page cache. */
static double memory_of(const char *folder, bool is_version_2) {
    static const char *const names[2][4] = {
        {"memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file ",
         "total_active_file "},
        {"memory.max", "memory.current", "inactive_file ", "active_file "}};
    const char *const *name = names[is_version_2];
    double limit = read_number(folder, name[0], NULL, HUGE_VAL, NULL);
    double used = read_number(folder, name[1], NULL, 0.0, NULL);
    /* Beyond memory.high a group is slowed down until it holds less. */
    if (is_version_2) limit = fmin(limit, read_number(folder, "memory.high", NULL, HUGE_VAL, NULL));
    used -= read_number(folder, "memory.stat", name[2], 0.0, NULL);
    used -= read_number(folder, "memory.stat", name[3], 0.0, NULL);
    return fmax(limit - fmax(used, 0.0), 0.0);
}

/* The smallest limit of the group and of those above it. */
static double least(const char *root, const char *controller,
                    double (*limit_of)(const char *folder, bool is_version_2)) {
    Hierarchy h = find_hierarchy(root, controller);
    double limit = HUGE_VAL;
    while (h.is_found) {
        char folder[3 * PATH_ROOM];
        snprintf(folder, sizeof folder, "%s%s%s", root, h.mount, h.group);
        limit = fmin(limit, limit_of(folder, h.is_version_2));
        char *last = strrchr(h.group, '/');
        if (!last) break;
        *last = '\0';
    }
    return limit;
}

double control_group_processors(const char *root) {
    return least(root, "cpu", processors_of);
}

double control_group_memory(const char *root) {
    return least(root, "memory", memory_of);
}
