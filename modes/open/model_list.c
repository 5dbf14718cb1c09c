#include "modes/open/model_list.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "families/reading/source_open.h"
#include "modes/open/conversion_list.h"
#include "modes/open/model_names.h"
#include "system/descriptor.h"
#include "system/helper_process.h"
#include "system/sandbox.h"
#include "system/terminal.h"

/* ---- Whether a model runs ---- */

/* What a model's headers say. They are read as a conversion would read them, in a process that
 * gives up its rights first, because the file may come from a stranger. */
typedef struct ModelCheck {
    bool runs;
    char type[32]; /* the type of most weights */
    char why[400]; /* it does not run */
} ModelCheck;

/* The name of the type that most weights have. */
static const char *usual_type(const Source *source) {
    double largest = 0.0, sums[STORED_TYPES + TENSOR_TYPES] = {0};
    const char *name = "-";
    for (size_t i = 0; i < source->n_tensors; i++) {
        const SourceTensor *t = &source->tensors[i];
        if (t->is_vector || t->shares || t->values) continue;
        bool panels = t->stored == STORED_PANELS;
        double *sum = &sums[panels ? STORED_TYPES + t->panels : (size_t)t->stored];
        *sum += (double)t->rows * (double)t->cols;
        if (*sum <= largest) continue;
        largest = *sum;
        name = panels ? tensor_type_info(t->panels)->name : stored_type_info(t->stored)->name;
    }
    return name;
}

static void check_here(const char *path, ModelCheck *check) {
    const SandboxRules rules = {.writable = {NULL}};
    SandboxReport report;
    Source *source = NULL;
    Error error = {{0}};
    Status status = source_open(&source, path, NULL, &error);
    if (status == STATUS_OK) status = sandbox_enter(&rules, &report, &error);
    if (status == STATUS_OK) status = source_parse(source, &error);
    if (status == STATUS_OK) snprintf(check->type, sizeof check->type, "%s", usual_type(source));
    check->runs = status == STATUS_OK;
    size_t n = strlen(path);
    bool named = strncmp(error.text, path, n) == 0 && error.text[n] == ':';
    if (status != STATUS_OK)
        snprintf(check->why, sizeof check->why, "%.*s", (int)sizeof check->why - 1,
                 error.text + (named ? n + 2 : 0));
}

/* Reads the model's headers in a child process and waits for what it finds. A child that ends early
 * or takes too long makes the model one that does not run. */
static void check_model(const char *path, ModelCheck *check) {
    enum { MILLISECONDS = 60000 };
    HelperProcess helper;
    Error error;
    *check = (ModelCheck){0};
    if (helper_process_start(&helper, "looks at models", &error) != STATUS_OK) {
        snprintf(check->why, sizeof check->why, "not looked at: %.200s", error.text);
        return;
    }
    if (helper.process == 0) {
        check_here(path, check);
        descriptor_write(helper.to, (const char *)check, sizeof *check);
        _exit(0);
    }
    bool answered = helper_process_read(&helper, check, sizeof *check, MILLISECONDS);
    if (!answered) *check = (ModelCheck){.why = "its files could not be looked at"};
    check->type[sizeof check->type - 1] = check->why[sizeof check->why - 1] = '\0';
    helper_process_end(&helper, !answered);
}

/* ---- The list ---- */

static bool print_model(FILE *out, const FoundModel *model, int width) {
    ModelCheck check;
    check_model(model->path, &check);
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
