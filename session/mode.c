#include "session/mode.h"

#include <stdio.h>
#include <string.h>

Status mode_choose(const Mode *const *modes, Options *o, const Mode **chosen, Error *error) {
    char names[512] = "";
    size_t n_named = 0, n_asked = 0;
    *chosen = NULL;
    for (const Mode *const *mode = modes; *mode; mode++) {
        if ((*mode)->check && (*mode)->check(o, error) != STATUS_OK) return STATUS_USAGE;
        if ((*mode)->asked(o)) {
            n_asked += (*mode)->name != NULL;
            *chosen = *mode;
        }
        if (!(*mode)->name) continue;
        size_t length = strlen(names);
        snprintf(names + length, sizeof names - length, "%s%s", n_named++ ? ", " : "",
                 (*mode)->name);
    }
    if (n_asked < 2) return STATUS_OK;
    error_set(error, "only one of %s at a time", names);
    return STATUS_USAGE;
}
