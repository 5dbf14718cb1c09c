/* The full program: the core with every mode, format, drafter and instruction set. */
#include "session/program.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include "advice/options.h"
#include "batch/batch_mode.h"
#include "chat/chat_mode.h"
#include "convert/convert_modes.h"
#include "convert/default_model.h"
#include "convert/modelopen.h"
#include "draft/lookup.h"
#include "formats/json_memory.h"
#include "inspect/inspect_modes.h"
#include "inspect/overrides.h"
#include "system/terminal.h"

/* ---- Modes and options ---- */

/* A mode that stands later wins: the conversation of -m chat can be looked at, too. */
static const Mode *const modes[] = {
    &chat_mode,        &batch_mode,    &info_mode,
    &verify_mode,      &tokenize_mode, &detokenize_mode,
    &eval_mode,        &score_mode,    &attention_mode,
    &positions_mode,   &no_cache_mode, &cache_list_mode,
    &cache_clear_mode, NULL,
};

#define FIELD(name) offsetof(Options, name)

/* Without a heading: they follow the core's options of the machine. */
static const OptionRow more_machine_rows[] = {
    UINT_ROW(RARE, 0, "lookup", FIELD(lookup), 0, DRAFTS_MAX,
             "drafts ahead from what was said [7, if large; 0]"),
    FLAG_ROW(RARE, 0, "no-sandbox", FIELD(no_sandbox), "keep the rights to files and network"),
    END_ROW,
};

static const OptionRow *const tables[] = {
    more_machine_rows, chat_options, batch_options, inspect_options, convert_options, NULL,
};

/* ---- Models of any format ---- */

static Status begin(void **out, const char *path, const char *tokenizer, const Session *session,
                    Error *error) {
    ModelOpening *opening = malloc(sizeof *opening);
    if (!opening) return error_set(error, "no memory for a model");
    *out = opening;
    return modelopen_begin(opening, path, tokenizer, session->options, session->interrupted, error);
}

static const char *writes_in(const void *opening) {
    return modelopen_writes_in(opening);
}

static Status finish(void *opening, const Session *session, ModelFile **file, Error *error) {
    return modelopen_finish(opening, session, session->n_threads, file, error);
}

static Status tokenizer(void *opening, const ModelFile *file, Tokenizer **out, Error *error) {
    return modelopen_tokenizer(opening, file, out, error);
}

static Status blame(const void *opening, Error *error) {
    return modelopen_blame(opening, error);
}

static void close_opening(void *opening) {
    if (opening) modelopen_close(opening);
    free(opening);
}

/* Said on stderr as well, so that no output is taken for the model's own. */
static Status change_model(Session *session, float *rope_theta, Error *error) {
    const Options *o = session->options;
    Overrides overrides;
    if (o->override.n == 0) return STATUS_OK;
    Status status =
        overrides_apply(&overrides, &o->override, modelfile_config_to_change(session->file), error);
    session->overridden = overrides.text;
    *rope_theta = overrides.rope_theta;
    if (status == STATUS_OK && !o->info) terminal_say("overridden: %s", overrides.text);
    return status;
}

/* ---- Drafts ---- */

/* Prompt lookup, unless --lookup 0. */
static Status new_drafter(const Session *session, Drafter **drafter, Error *error) {
    const Options *o = session->options;
    size_t most = options_given(o, &o->lookup) ? o->lookup : lookup_default(session->file);
    *drafter = most > 0 ? lookup_new(most) : NULL;
    return most > 0 && !*drafter ? error_set(error, "no memory for drafts") : STATUS_OK;
}

static void print_version(void) {
#ifdef HAVE_LIBEDIT
    printf("libedit: yes\n");
#else
    printf("libedit: no\n");
#endif
}

const Program program = {
    .modes = modes,
    .options = {tables, advice_option},
    .opener = {begin, writes_in, finish, tokenizer, blame, close_opening},
    .start = json_memory_guard,
    .default_model = default_model_path,
    .change_model = change_model,
    .new_drafter = new_drafter,
    .print_version = print_version,
};
