#include "session/mode.h"

#include <stdio.h>
#include <string.h>

Status mode_choose(const Mode *const *modes, Options *o, const Mode **chosen, Error *error) {
    char names[512] = "";
    size_t n_asked = 0;
    *chosen = NULL;
    for (const Mode *const *mode = modes; *mode; mode++) {
        if ((*mode)->check && (*mode)->check(o, error) != STATUS_OK) return STATUS_USAGE;
        if (!(*mode)->asked(o)) continue;
        *chosen = *mode;
        if (!(*mode)->name) continue;
        size_t length = strlen(names);
        snprintf(names + length, sizeof names - length, "%s%s", n_asked++ ? " or " : "",
                 (*mode)->name);
    }
    if (n_asked < 2) return STATUS_OK;
    error_set(error, "one at a time: %s", names);
    return STATUS_USAGE;
}
