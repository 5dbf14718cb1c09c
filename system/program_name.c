#include "system/program_name.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

void program_names_put(const char *message, char *out, size_t size) {
    static const struct {
        const char *checkout, *installed;
    } names[] = {
        {"./export", "verbatim-export"}, {"./get", "verbatim-get"}, {"./serve", "verbatim-serve"}};
    bool installed = strcmp(program_invocation_short_name, "verbatim") == 0;
    size_t used = 0;
    if (size == 0) return;
    for (const char *at = message; *at;) {
        size_t i = 0, n = sizeof names / sizeof *names;
        while (i < n && strncmp(at, names[i].checkout, strlen(names[i].checkout)) != 0) i++;
        const char *put = installed && i < n ? names[i].installed : at;
        size_t length = put == at ? 1 : strlen(put), left = size - 1 - used;
        if (length > left) length = left;
        memcpy(out + used, put, length);
        used += length;
        at += put == at ? 1 : strlen(names[i].checkout);
    }
    out[used] = '\0';
}
