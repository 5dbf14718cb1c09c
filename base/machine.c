#include "base/machine.h"

#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/control_group.h"
#include "base/size.h"

/* ---- The description of another machine ---- */

const char *machine_described(void) {
    const char *text = getenv("VERBATIM_MACHINE");
    return text && *text ? text : NULL;
}

/* Copies the value of a part of the description, "processors=64"; false: it has no such part. */
static bool described(const char *name, char *value, size_t size) {
    size_t n = strlen(name);
    for (const char *at = machine_described(); at;
         at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL) {
        if (strncmp(at, name, n) != 0 || at[n] != '=') continue;
        snprintf(value, size, "%.*s", (int)strcspn(at + n + 1, ","), at + n + 1);
        return true;
    }
    return false;
}

static bool described_bytes(const char *name, double *bytes) {
    char value[32];
    Error error;
    size_t size;
    if (!described(name, value, sizeof value)) return false;
    if (size_parse(value, name, &size, &error) != STATUS_OK) return false;
    *bytes = (double)size;
    return true;
}

bool machine_ends_at_isa(const char *isa) {
    char value[32];
    return described("isa", value, sizeof value) && strcmp(value, isa) == 0;
}

/* ---- Processors ---- */

/* The lowest logical processor on the same core as `cpu`; `cpu` itself where that is unknown. */
static int first_sibling(int cpu) {
    char path[96];
    int first = cpu;
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list", cpu);
    FILE *file = fopen(path, "r");
    if (file && fscanf(file, "%d", &first) != 1) first = cpu;
    if (file) fclose(file);
    return first >= 0 && first < CPU_SETSIZE ? first : cpu;
}

/* A core counts once, however many of its logical processors are allowed. */
static int allowed_cores(void) {
    cpu_set_t allowed, seen;
    CPU_ZERO(&seen);
    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return 1;
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, &allowed)) CPU_SET(first_sibling(cpu), &seen);
    return CPU_COUNT(&seen);
}

int machine_cores(void) {
    char value[32];
    if (described("processors", value, sizeof value)) return atoi(value) > 0 ? atoi(value) : 1;
    int cores = allowed_cores();
    double limit = ceil(control_group_processors(""));
    if (limit < cores) cores = (int)limit;
    return cores > 0 ? cores : 1;
}

/* Reads what a file of the kernel says of cache i, one word; false: there is none. */
static bool read_cache_word(int i, const char *what, char word[16]) {
    char path[80];
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu0/cache/index%d/%s", i, what);
    FILE *file = fopen(path, "r");
    if (!file) return false;
    bool read = fscanf(file, "%15s", word) == 1;
    fclose(file);
    return read;
}

bool machine_cache_at(int i, MachineCache *cache) {
    char word[16], unit = 0;
    unsigned long size;
    if (!read_cache_word(i, "size", word) || sscanf(word, "%lu%c", &size, &unit) < 1) return false;
    *cache = (MachineCache){.bytes = (size_t)size << (unit == 'M' ? 20 : unit == 'K' ? 10 : 0)};
    if (read_cache_word(i, "level", word)) cache->level = atoi(word);
    if (read_cache_word(i, "type", word)) memcpy(cache->type, word, sizeof cache->type);
    return true;
}

size_t machine_cache(void) {
    size_t largest = 0;
    double described_size;
    MachineCache cache;
    if (described_bytes("cache", &described_size)) return (size_t)described_size;
    for (int i = 0; i < 8; i++)
        if (machine_cache_at(i, &cache) && cache.bytes > largest) largest = cache.bytes;
    return largest;
}

/* The value of a line "key : value" of /proc/cpuinfo; false: it is another line. */
static bool cpuinfo_value(const char *line, const char *key, const char **value, int *length) {
    const char *colon = strchr(line, ':');
    if (!colon || strncmp(line, key, strlen(key)) != 0) return false;
    *value = colon + 1 + strspn(colon + 1, " \t");
    *length = (int)strcspn(*value, "\n");
    return true;
}

void machine_processor(char *name, size_t size) {
    char line[256], designer[16] = "";
    const char *value;
    int length;
    FILE *file = fopen("/proc/cpuinfo", "r");
    name[0] = '\0';
    while (file && !name[0] && fgets(line, sizeof line, file)) {
        if (cpuinfo_value(line, "model name", &value, &length))
            snprintf(name, size, "%.*s", length, value);
        else if (cpuinfo_value(line, "CPU implementer", &value, &length))
            snprintf(designer, sizeof designer, "%.*s", length, value);
        else if (cpuinfo_value(line, "CPU part", &value, &length))
            snprintf(name, size, "Arm designer %s, part %.*s", designer, length, value);
    }
    if (file) fclose(file);
}

/* ---- Memory ---- */

double machine_memory(void) {
    double bytes;
    if (described_bytes("memory", &bytes)) return bytes;
    long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGE_SIZE);
    return pages > 0 && page > 0 ? (double)pages * (double)page : 0.0;
}

/* MemAvailable of /proc/meminfo; half of the memory where that is not told. */
static double available_memory(void) {
    char line[256];
    double kilobytes = 0.0;
    FILE *file = fopen("/proc/meminfo", "r");
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "MemAvailable: %lf", &kilobytes) == 1) break;
    if (file) fclose(file);
    return kilobytes > 0.0 ? kilobytes * 1024.0 : machine_memory() / 2.0;
}

double machine_free_memory(void) {
    double bytes;
    if (described_bytes("memory", &bytes)) return bytes;
    return fmin(available_memory(), control_group_memory(""));
}
