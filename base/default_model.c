#include "base/default_model.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* From the directory of the program: where it was installed, and where it was built (build/run,
 * or build/VARIANT/run). */
static const char *const places[] = {
    "../share/verbatim/stories.bin",
    "../models/stories.bin",
    "../../models/stories.bin",
};

char *default_model_path(Error *error) {
    char program[PATH_MAX], path[PATH_MAX + 64];
    ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
    if (length > 0) {
        program[length] = '\0';
        *strrchr(program, '/') = '\0';
        for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
            snprintf(path, sizeof path, "%s/%s", program, places[i]);
            if (access(path, R_OK) == 0) return realpath(path, NULL);
        }
    }
    error_set(error, "no model is named, and stories.bin, which comes with the program, is not "
                     "where it was installed: name a model, --help says how");
    return NULL;
}
