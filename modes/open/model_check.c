#include "modes/open/model_check.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "families/reading/source_open.h"
#include "system/descriptor.h"
#include "system/helper_process.h"
#include "system/sandbox.h"

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
void model_check(const char *path, ModelCheck *check) {
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
