#include "base/size.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

Status size_parse(const char *text, const char *what, size_t *bytes, Error *error) {
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
        error_set(error, "%s: '%s' is not a size like 512M or 4G", what, text);
        return STATUS_USAGE;
    }
    *bytes = (size_t)(number * scale);
    return STATUS_OK;
}

const char *size_text(double bytes, char *text, size_t size) {
    static const char *const units[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
    size_t unit = 0;
    while (bytes >= 1024.0 && unit < 4) bytes /= 1024.0, unit++;
    snprintf(text, size, unit ? "%.1f %s" : "%.0f %s", bytes, units[unit]);
    return text;
}
