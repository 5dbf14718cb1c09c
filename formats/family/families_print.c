#include "formats/family/families_print.h"

#include <stdlib.h>
#include <string.h>

#include "formats/family/builtin_pages.h"
#include "formats/family/families.h"

static int by_text(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* The names in columns. */
static Status print_names(FILE *out, Error *error) {
    enum { COLUMNS = 3, WIDTH = 26 };
    size_t n = 0;
    while (family_name(n)) n++;
    const char **names = calloc(n + 1, sizeof *names);
    if (!names) return error_set(error, "no memory");
    for (size_t i = 0; i < n; i++) names[i] = family_name(i);
    qsort(names, n, sizeof *names, by_text);
    for (size_t i = 0; i < n; i++) {
        bool ends = i % COLUMNS == COLUMNS - 1 || i + 1 == n;
        fprintf(out, "  %-*s%s", ends ? 0 : WIDTH, names[i], ends ? "\n" : "");
    }
    fprintf(out, "%zu families; --families NAME prints the page of one\n", n);
    free(names);
    return STATUS_OK;
}

Status families_print(FILE *out, const char *name, Error *error) {
    if (!*name) return print_names(out, error);
    const char *page = strcmp(name, "groups") == 0 ? NULL : builtin_pages_text(name);
    if (!page)
        return error_set(error, "--families: '%.60s' is no family; --families lists them", name);
    if (strstr(page, "\nfinish ") || strstr(page, "\nmore "))
        fprintf(out,
                "# This page names functions (finish, more), as only pages of the program may: "
                "\"family NAME like %s\"\n# has those that read config.json, too.\n",
                name);
    fputs(page, out);
    return STATUS_OK;
}
