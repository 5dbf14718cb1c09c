#include "modes/inspect/bug_report.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "modes/inspect/inspect_options.h"
#include "base/size.h"
#include "modes/inspect/inspect.h"
#include "core/numeric.h"
#include "session/versions.h"
#include "base/machine.h"

/* What is read of the machine while the program may still open files. */
typedef struct Machine {
    struct utsname system;
    char processor[128], library[64];
    long n_processors;
    double memory, free_memory; /* bytes */
} Machine;

static bool bug_report_asked(const Options *options) {
    return inspect_options(options)->bug_report;
}

static Status open_report(void **state, const Session *session, SandboxRules *rules, Error *error) {
    Machine *m = calloc(1, sizeof *m);
    (void)session, (void)rules;
    if (!m) return error_set(error, "no memory for a report");
    *state = m;
    uname(&m->system);
    machine_processor(m->processor, sizeof m->processor);
    if (confstr(_CS_GNU_LIBC_VERSION, m->library, sizeof m->library) == 0)
        snprintf(m->library, sizeof m->library, "an unknown C library");
    m->n_processors = sysconf(_SC_NPROCESSORS_ONLN);
    m->memory = machine_memory();
    m->free_memory = machine_free_memory();
    return STATUS_OK;
}

/* Prints an option that was given: numbers and choices as they are, of texts and files only that
 * they were given. */
static Status print_option(const Session *session, const OptionRow *row, const void *field,
                           Error *error) {
    switch (row->kind) {
    case OPTION_UINT:
        return inspect_print(session, error, " --%s %llu", row->name,
                             (unsigned long long)*(const uint64_t *)field);
    case OPTION_FLOAT:
        return inspect_print(session, error, " --%s %g", row->name, *(const double *)field);
    case OPTION_CHOICE: {
        const char *word = row->value;
        for (unsigned i = *(const unsigned *)field; i > 0; i--) word = strchr(word, '|') + 1;
        return inspect_print(session, error, " --%s %.*s", row->name, (int)strcspn(word, "|"),
                             word);
    }
    case OPTION_FLAG:
        return inspect_print(session, error, " --%s", row->name);
    default:
        return inspect_print(session, error, " --%s ...", row->name);
    }
}

static Status print_options(const Session *session, Error *error) {
    const CommandLine *line = &session->options->line;
    const OptionRow *row;
    Status status = inspect_print(session, error, "options      ");
    for (size_t i = 0; status == STATUS_OK && (row = command_line_row(line, i)); i++)
        if (row->kind != OPTION_HEADING && line->given[i])
            status = print_option(session, row, command_line_field(line, i), error);
    return status == STATUS_OK ? inspect_print(session, error, "\n") : status;
}

/* Prints what a bug report says of the program and the machine: versions, system, processor,
 * memory, instruction sets and sandbox; then the options. */
static Status print_machine(void *state, Options *options, Session *session, Error *error) {
    const Machine *m = state;
    char libraries[256], memory[32], room[32];
    (void)options;
    versions_of_libraries(libraries, sizeof libraries);
    Status status = inspect_print(session, error,
                                  "verbatim      %s, numeric revision %d, compiler %s\n"
                                  "libraries     %s\n"
                                  "system        %s %s %s, %s\n"
                                  "processor     %s, %ld online, %d threads\n"
                                  "memory        %s, %s free\n"
                                  "computes with %s of",
                                  VERBATIM_VERSION, NUMERIC_REVISION, __VERSION__, libraries,
                                  m->system.sysname, m->system.release, m->system.machine,
                                  m->library, m->processor, m->n_processors, session->n_threads,
                                  size_text(m->memory, memory, sizeof memory),
                                  size_text(m->free_memory, room, sizeof room), session->isa->name);
    for (size_t i = 0; isa_available(i) && status == STATUS_OK; i++)
        status = inspect_print(session, error, " %s", isa_available(i)->name);
    if (status == STATUS_OK)
        status =
            inspect_print(session, error, "\nsandbox       %s\n", sandbox_text(&session->sandbox));
    return status == STATUS_OK ? print_options(session, error) : status;
}

static Status print_model(void *state, Session *session, Error *error) {
    const ModelFile *file = session->file;
    const Config *c = modelfile_config(file);
    (void)state;
    Status status = inspect_print(
        session, error,
        "model         %s, file of %zu bytes, checksum %016llx, %u layers, width %u\n", c->family,
        modelfile_bytes(file), (unsigned long long)modelfile_checksum(file), c->n_layers, c->dim);
    return status == STATUS_OK ? inspect_tensors(session, error) : status;
}

static void close_report(void *state) {
    free(state);
}

const Mode bug_report_mode = {.name = "--bug-report",
                              .traits = MODE_WITHOUT_TOKENIZER | MODE_WITHOUT_HEAD,
                              .asked = bug_report_asked,
                              .open = open_report,
                              .prepare = print_machine,
                              .run = print_model,
                              .close = close_report};
