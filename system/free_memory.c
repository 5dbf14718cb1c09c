#include "system/free_memory.h"

#include <math.h>
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

double free_memory_bytes(void) {
    double bytes = number_in("/proc/meminfo", "MemAvailable:") * 1024.0;
    if (bytes <= 0.0)
        bytes = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGE_SIZE) / 2.0;
    double limit = number_in("/sys/fs/cgroup/memory.max", NULL);
    double used = number_in("/sys/fs/cgroup/memory.current", NULL);
    if (limit > 0.0 && limit - used < bytes) bytes = fmax(limit - used, 0.0);
    return bytes;
}
