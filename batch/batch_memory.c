#include "batch/batch_memory.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static Status parse_size(const char *text, size_t *bytes, Error *error) {
    static const char units[] = "KMGT";
    char *end;
    double number = strtod(text, &end), scale = 1.0;
    const char *unit = *end & ~0x20 ? strchr(units, *end & ~0x20) : NULL;
    bool digits = end != text && (text[0] == '.' || (text[0] >= '0' && text[0] <= '9'));
    if (unit) {
        for (const char *u = units; u <= unit; u++) scale *= 1024.0;
        end++;
        if (*end == 'i') end++;
    }
    if (*end == 'B') end++;
    if (!digits || *end != '\0' || !(number * scale < 0x1p62)) {
        error_set(error, "--kv-memory: '%s' is not a size like 512M or 4G", text);
        return STATUS_USAGE;
    }
    *bytes = (size_t)(number * scale);
    return STATUS_OK;
}

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

static double free_bytes(void) {
    double bytes = number_in("/proc/meminfo", "MemAvailable:") * 1024.0;
    if (bytes <= 0.0)
        bytes = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGE_SIZE) / 2.0;
    double limit = number_in("/sys/fs/cgroup/memory.max", NULL);
    double used = number_in("/sys/fs/cgroup/memory.current", NULL);
    if (limit > 0.0 && limit - used < bytes) bytes = fmax(limit - used, 0.0);
    return bytes;
}

Status batch_memory(const char *text, size_t *bytes, Error *error) {
    if (text) return parse_size(text, bytes, error);
    *bytes = (size_t)(free_bytes() / 2.0);
    return STATUS_OK;
}
