#include "modes/help_modes.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/isa.h"
#include "modes/open/default_model.h"
#include "session/versions.h"
#include "system/standard_streams.h"
#include "system/terminal.h"

static bool asks_help(const Options *options) {
    return options->help != HELP_NO;
}

/* --help WORD, whose word has been taken for a model: the options that speak of it. */
static Status help_about(const CommandLine *line, const char *word, Error *error) {
    if (command_line_help_about(stdout, line, word)) return standard_streams_finish(error);
    error_set(error, "--help: no option speaks of '%s'; --help all lists them all", word);
    return STATUS_USAGE;
}

static Status run_help(void *state, Session *session, Error *error) {
    const Options *o = session->options;
    (void)state;
    if (o->model && !strpbrk(o->model, "./")) return help_about(&o->line, o->model, error);
    char *docs = default_model_docs_path();
    options_print_help(stdout, o, program_invocation_short_name, docs, o->help == HELP_ALL);
    free(docs);
    return standard_streams_finish(error);
}

static bool asks_version(const Options *options) {
    return options->version;
}

static Status run_version(void *state, Session *session, Error *error) {
    (void)state;
    (void)session;
    versions_print(stdout);
#ifdef HAVE_LIBEDIT
    terminal_print(stdout, "libedit: yes\n");
#else
    terminal_print(stdout, "libedit: no\n");
#endif
    terminal_print(stdout, "instruction sets:");
    for (size_t i = 0; isa_available(i); i++) terminal_print(stdout, " %s", isa_available(i)->name);
    terminal_print(stdout, "\n");
    return standard_streams_finish(error);
}

const Mode help_mode = {.traits = MODE_WITHOUT_MODEL, .asked = asks_help, .run = run_help};
const Mode help_version_mode = {
    .traits = MODE_WITHOUT_MODEL, .asked = asks_version, .run = run_version};
