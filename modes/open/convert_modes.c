#include "modes/open/convert_modes.h"

#include <stddef.h>
#include <string.h>
#include <sys/stat.h>

#include "base/size.h"
#include "modes/open/conversion_list.h"
#include "modes/open/model_list.h"
#include "formats/family/families_print.h"
#include "families/reading/source_open.h"
#include "system/sandbox.h"

#define FIELD(name) offsetof(Options, name)

const OptionRow convert_options[] = {
    HEADING_ROW("Conversion: formats other than model.bin are converted once, before use"),
    TEXT_ROW(USUAL, 0, "type", "TYPE", FIELD(type),
             "f32 f16 bf16 q8 q6 q5 q4m q4 q3 q2 auto [as stored]"),
    TEXT_ROW(RARE, 'z', "tokenizer", "FILE", FIELD(tokenizer),
             "instead of the model's; .tiktoken: --split-pattern"),
    TEXT_ROW(RARE, 0, "split-pattern", "REGEX", FIELD(split_pattern), NULL),
    TEXT_ROW(RARE, 0, "family", "FILE", FIELD(family),
             "defines a new model_type; --families lists all"),
    {OPTION_TEXT, 0, "families", "NAME", FIELD(families), 0, 0, NULL, RARE, ""},
    TEXT_ROW(RARE, 0, "cache-dir", "DIR", FIELD(cache_dir),
             "cached conversions; none: off [~/.cache/verbatim]"),
    TEXT_ROW(RARE, 0, "cache-limit", "SIZE", FIELD(cache_limit), NULL),
    FLAG_ROW(USUAL, 0, "list", FIELD(list), "the models and conversions on this machine"),
    FLAG_ROW(RARE, 0, "cache-list", FIELD(cache_list), NULL),
    {OPTION_TEXT, 0, "cache-clear", "NAME", FIELD(cache_clear), 0, 0,
     "delete one conversion; without NAME all", RARE, ""},
    END_ROW,
};

static bool models_asked(const Options *options) {
    return options->list;
}

static bool list_asked(const Options *options) {
    return options->cache_list;
}

static bool clear_asked(const Options *options) {
    return options->cache_clear;
}

/* Called whatever the mode: these options concern all of them. */
static Status modes_check(Options *o, Error *error) {
    if (o->split_pattern && !o->tokenizer) {
        error_set(error, "--split-pattern says how the tokenizer of -z splits text: give -z FILE");
        return STATUS_USAGE;
    }
    size_t limit;
    if (o->cache_limit && size_parse(o->cache_limit, "--cache-limit", &limit, error) != STATUS_OK)
        return STATUS_USAGE;
    if (!o->cache_dir || o->cache_dir[0] != '\0') return STATUS_OK;
    error_set(error, "--cache-dir: the directory's name is empty");
    return STATUS_USAGE;
}

/* The lists show all there is: a name or a form that is asked for would be ignored. */
static Status check_lists(Options *o, Error *error) {
    const char *list = o->list ? "--list" : o->cache_list ? "--cache-list" : NULL;
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
    return model_list_print(stdout, session->options->cache_dir, session->interrupted, error);
}

static Status modes_list(void *state, Session *session, Error *error) {
    (void)state;
    return conversion_list_print(stdout, session->options->cache_dir, error);
}

static Status clear(void *state, Session *session, Error *error) {
    (void)state;
    return conversion_list_clear(stdout, session->options->cache_dir, session->options->cache_clear,
                                 error);
}

/* ---- Families ---- */

static bool is_directory(const char *path) {
    struct stat info;
    return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

static bool families_asked(const Options *options) {
    return options->families;
}

/* Prints the draft of a page for the directory, with the rights to files given up: its config.json
 * and its tensors' names are a stranger's. */
static Status draft_family(const Options *options, Error *error) {
    const SandboxRules rules = {.writable = {NULL}};
    SandboxReport report;
    Source *source;
    if (source_open(&source, options->families, NULL, error) != STATUS_OK) return STATUS_FAILED;
    Status status = options->no_sandbox ? STATUS_OK : sandbox_enter(&rules, &report, error);
    if (status == STATUS_OK) status = source_print_draft(source, stdout, error);
    source_close(source);
    return status;
}

static Status list_families(void *state, Session *session, Error *error) {
    (void)state;
    const Options *options = session->options;
    bool is_path = strchr(options->families, '/') || is_directory(options->families);
    return is_path ? draft_family(options, error)
                   : families_print(stdout, options->families, error);
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
