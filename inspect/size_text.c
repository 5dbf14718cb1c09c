#include "inspect/size_text.h"

#include <stdio.h>

const char *size_text(double bytes, char *text, size_t size) {
    static const char *const units[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
    size_t unit = 0;
    while (bytes >= 1024.0 && unit < 4) bytes /= 1024.0, unit++;
    snprintf(text, size, unit ? "%.1f %s" : "%.0f %s", bytes, units[unit]);
    return text;
}
