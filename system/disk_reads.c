#include "system/disk_reads.h"

#include <stdio.h>
#include <sys/resource.h>

#include "system/terminal.h"

double disk_reads_mib(void) {
    enum { BLOCK = 512 }; /* bytes, whatever the device's are */
    struct rusage usage;
    if (getrusage(RUSAGE_SELF, &usage) != 0) return 0.0;
    return (double)usage.ru_inblock * BLOCK / 0x1p20;
}

void disk_reads_print(double before, size_t n, const char *what) {
    double all = disk_reads_mib();
    terminal_print(stderr, "disk:    %.1f MiB read", all);
    if (n > 0) terminal_print(stderr, ", %.1f MiB a %s", (all - before) / (double)n, what);
    terminal_print(stderr, "\n");
}
