#include "system/program_name.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

void program_names_put(const char *message, char *out, size_t size) {
    static const struct {
        const char *checkout, *installed;
    } names[] = {{"./export", "verbatim-export"}, {"./get", "verbatim-get"}};
    bool installed = strcmp(program_invocation_short_name, "verbatim") == 0;
    FILE *to = size > 0 ? fmemopen(out, size, "w") : NULL;
    if (size > 0) out[0] = '\0';
    if (!to) return;
    for (const char *at = message; *at;) {
        size_t i = 0, n = sizeof names / sizeof *names;
        while (i < n && strncmp(at, names[i].checkout, strlen(names[i].checkout)) != 0) i++;
        if (installed && i < n) {
            fputs(names[i].installed, to);
            at += strlen(names[i].checkout);
        } else {
            fputc(*at++, to);
        }
    }
    fclose(to);
    out[size - 1] = '\0';
}
