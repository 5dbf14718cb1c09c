#include "modes/open/model_list.h"

#include <errno.h>
#include <string.h>

#include "modes/open/conversion_list.h"
#include "modes/open/model_check.h"
#include "modes/open/model_names.h"
#include "system/terminal.h"

static bool print_model(FILE *out, const FoundModel *model, int width) {
    ModelCheck check;
    model_check(model->path, &check);
    double bytes = (double)model->bytes;
    const char *unit = bytes < 1e9 ? "MB" : "GB";
    bytes /= bytes < 1e9 ? 1e6 : 1e9;
    if (check.runs)
        return terminal_line(out, "%-*s %7.1f %s  %-7s  %s", width, model->name, bytes, unit,
                             check.type, model->place);
    return terminal_line(out, "%-*s %7.1f %s  -        %s; does not run: %s", width, model->name,
                         bytes, unit, model->place, check.why);
}

Status model_list_print(FILE *out, const char *cache_dir, const volatile sig_atomic_t *interrupted,
                        Error *error) {
    enum { WIDEST = 60 };
    ModelNames names;
    int width = 0;
    bool written = true;
    model_names_find(&names);
    for (size_t i = 0; i < names.n; i++) {
        int n = (int)strlen(names.models[i].name);
        width = n > width && n <= WIDEST ? n : width;
    }
    width = width < 5 ? 5 : width;
    if (names.n > 0)
        written =
            terminal_line(out, "%-*s %10s  %-7s  %s", width, "MODEL", "SIZE", "TYPE", "WHERE");
    for (size_t i = 0; i < names.n && written && !*interrupted; i++)
        written = print_model(out, &names.models[i], width);
    bool none = names.n == 0 || strcmp(names.models[0].place, MODEL_NAMES_OWN) == 0;
    bool only_own = names.n > 0, failed = names.failed;
    model_names_free(&names);
    if (*interrupted) return STATUS_INTERRUPTED;
    if (failed) return error_set(error, "no memory for the names of the models");
    if (none)
        written =
            terminal_line(out,
                          "no %smodels where they are looked for: VERBATIM_MODELS (directories "
                          "with : between), Hugging Face's cache, ollama's",
                          only_own ? "other " : "");
    if (!written && errno != EPIPE)
        return error_set(error, "stdout: cannot be written: %s", strerror(errno));
    return written ? conversion_list_print(out, cache_dir, error) : STATUS_OK;
}
