#include "system/peak_memory.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

int peak_memory_open(void) {
    int descriptor = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
    return descriptor > 0 ? descriptor : 0;
}

double peak_memory_mib(int descriptor) {
    static const char name[] = "VmHWM:";
    char status[4096];
    struct rusage usage;
    ssize_t n = descriptor > 0 ? pread(descriptor, status, sizeof status - 1, 0) : -1;
    status[n > 0 ? n : 0] = '\0';
    const char *line = strstr(status, name);
    if (line) return strtod(line + strlen(name), NULL) / 1024.0;
    getrusage(RUSAGE_SELF, &usage);
    return (double)usage.ru_maxrss / 1024.0;
}
