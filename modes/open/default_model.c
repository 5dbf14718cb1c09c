#include "modes/open/default_model.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Relative to the directory of the program. */
static const char *const candidates[] = {
    "../share/verbatim/stories.bin", /* installed */
    "../models/stories.bin",         /* built as build/run */
    "../../models/stories.bin",      /* built as build/VARIANT/run */
};

/* The path of what lies there as seen from the directory of the program, malloc'ed; NULL: nothing.
 */
static char *default_model_find(const char *relative) {
    char program[PATH_MAX], path[PATH_MAX + 64];
    ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
    if (length <= 0) return NULL;
    program[length] = '\0';
    *strrchr(program, '/') = '\0';
    snprintf(path, sizeof path, "%s/%s", program, relative);
    return access(path, R_OK) == 0 ? realpath(path, NULL) : NULL;
}

char *default_model_docs_path(void) {
    return default_model_find("../share/doc/verbatim/docs");
}

char *default_model_path(Error *error) {
    for (size_t i = 0; i < sizeof candidates / sizeof *candidates; i++) {
        char *path = default_model_find(candidates[i]);
        if (path) return path;
    }
    error_set(error, "no model is named, and stories.bin, which comes with the program, is not "
                     "where it was installed: name a model, --help says how");
    return NULL;
}
