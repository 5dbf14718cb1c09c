#include "convert/default_model.h"

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

char *default_model_path(Error *error) {
    char program[PATH_MAX], path[PATH_MAX + 64];
    ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
    if (length > 0) {
        program[length] = '\0';
        *strrchr(program, '/') = '\0';
        for (size_t i = 0; i < sizeof candidates / sizeof *candidates; i++) {
            snprintf(path, sizeof path, "%s/%s", program, candidates[i]);
            if (access(path, R_OK) == 0) return realpath(path, NULL);
        }
    }
    error_set(error, "no model is named, and stories.bin, which comes with the program, is not "
                     "where it was installed: name a model, --help says how");
    return NULL;
}
