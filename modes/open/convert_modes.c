#include "modes/open/convert_modes.h"

#include <stddef.h>
#include <string.h>
#include <sys/stat.h>

#include "modes/open/conversion_options.h"
#include "base/size.h"
#include "modes/open/conversion_list.h"
#include "modes/open/model_list.h"
#include "formats/family/families_print.h"
#include "families/reading/source_open.h"
#include "system/sandbox.h"

static bool models_asked(const Options *options) {
    return conversion_options(options)->list;
}

static bool list_asked(const Options *options) {
    return conversion_options(options)->cache_list;
}

static bool clear_asked(const Options *options) {
    return conversion_options(options)->cache_clear;
}

/* Called whatever the mode: these options concern all of them. */
static Status modes_check(Options *o, Error *error) {
    const ConversionOptions *conversion = conversion_options(o);
    if (conversion->split_pattern && !conversion->tokenizer) {
        error_set(error, "--split-pattern says how the tokenizer of -z splits text: give -z FILE");
        return STATUS_USAGE;
    }
    size_t limit;
    if (conversion->cache_limit &&
        size_parse(conversion->cache_limit, "--cache-limit", &limit, error) != STATUS_OK)
        return STATUS_USAGE;
    if (!conversion->cache_dir || conversion->cache_dir[0] != '\0') return STATUS_OK;
    error_set(error, "--cache-dir: the directory's name is empty");
    return STATUS_USAGE;
}

/* The lists show all there is: a name or a form that is asked for would be ignored. */
static Status check_lists(Options *o, Error *error) {
    const ConversionOptions *conversion = conversion_options(o);
    const char *list = conversion->list ? "--list" : conversion->cache_list ? "--cache-list" : NULL;
    const char *extra = o->json_object   ? "--json"
                        : o->json_schema ? "--json-schema"
                        : o->prompt      ? "-i"
                        : o->prompt_file ? "-f"
                        : o->output      ? "-o"
                                         : o->model;
    if (!list || !extra) return STATUS_OK;
    error_set(error, "%s shows all of them as a table: %s does not go with it%s", list, extra,
              extra == o->model ? " (run NAME --info shows one model)" : "");
    return STATUS_USAGE;
}

static Status list_models(void *state, Session *session, Error *error) {
    (void)state;
    return model_list_print(stdout, conversion_options(session->options)->cache_dir,
                            session->interrupted, error);
}

static Status modes_list(void *state, Session *session, Error *error) {
    (void)state;
    return conversion_list_print(stdout, conversion_options(session->options)->cache_dir, error);
}

static Status clear(void *state, Session *session, Error *error) {
    const ConversionOptions *conversion = conversion_options(session->options);
    (void)state;
    return conversion_list_clear(stdout, conversion->cache_dir, conversion->cache_clear, error);
}

/* ---- Families ---- */

static bool is_directory(const char *path) {
    struct stat info;
    return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

static bool families_asked(const Options *options) {
    return conversion_options(options)->families;
}

/* Prints the draft of a page for the directory, with the rights to files given up: its config.json
 * and its tensors' names are a stranger's. */
static Status draft_family(const Options *options, Error *error) {
    const ConversionOptions *conversion = conversion_options(options);
    const SandboxRules rules = {.writable = {NULL}};
    SandboxReport report;
    Source *source;
    if (source_open(&source, conversion->families, NULL, error) != STATUS_OK) return STATUS_FAILED;
    Status status = options->no_sandbox ? STATUS_OK : sandbox_enter(&rules, &report, error);
    if (status == STATUS_OK) status = source_print_draft(source, stdout, error);
    source_close(source);
    return status;
}

static Status list_families(void *state, Session *session, Error *error) {
    (void)state;
    const Options *options = session->options;
    const ConversionOptions *conversion = conversion_options(options);
    bool is_path = strchr(conversion->families, '/') || is_directory(conversion->families);
    return is_path ? draft_family(options, error)
                   : families_print(stdout, conversion->families, error);
}

const Mode convert_families_mode = {.name = "--families",
                                    .traits = MODE_WITHOUT_MODEL,
                                    .asked = families_asked,
                                    .run = list_families};
const Mode convert_list_mode = {.name = "--list",
                                .traits = MODE_WITHOUT_MODEL,
                                .asked = models_asked,
                                .check = check_lists,
                                .run = list_models};
const Mode convert_cache_list_mode = {.name = "--cache-list",
                                      .traits = MODE_WITHOUT_MODEL,
                                      .asked = list_asked,
                                      .check = modes_check,
                                      .run = modes_list};
const Mode convert_cache_clear_mode = {
    .name = "--cache-clear", .traits = MODE_WITHOUT_MODEL, .asked = clear_asked, .run = clear};
