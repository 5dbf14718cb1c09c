#include "convert/cache_directory.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

char *cache_directory(const char *chosen) {
    const char *xdg = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    char *directory = NULL;
    int length = -1;
    if (chosen) return strdup(chosen);
    if (xdg && xdg[0] == '/') { /* the specification ignores a relative path */
        length = asprintf(&directory, "%s/verbatim", xdg);
    } else if (home && home[0] == '/') {
        length = asprintf(&directory, "%s/.cache/verbatim", home);
    }
    return length < 0 ? NULL : directory;
}

bool cache_directory_make(const char *directory) {
    char *path = strdup(directory);
    if (!path) return false;
    for (char *slash = path + 1; (slash = strchr(slash, '/')); slash++) {
        *slash = '\0';
        mkdir(path, 0700);
        *slash = '/';
    }
    bool made = mkdir(path, 0700) == 0 || errno == EEXIST;
    free(path);
    return made && access(directory, W_OK | X_OK) == 0;
}
