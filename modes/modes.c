#include "modes/modes.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "advice/foreign.h"
#include "advice/option_hints.h"
#include "core/isa.h"
#include "modes/batch/batch_mode.h"
#include "modes/batch/batch_options.h"
#include "modes/chat/chat_mode.h"
#include "modes/chat/chat_options.h"
#include "modes/chat/chat_receipt.h"
#include "modes/chat/check_session.h"
#include "modes/open/conversion_options.h"
#include "modes/open/convert_modes.h"
#include "modes/open/default_model.h"
#include "modes/proof/check_text.h"
#include "modes/inspect/bug_report.h"
#include "modes/inspect/eval_tasks.h"
#include "modes/inspect/inspect_modes.h"
#include "modes/inspect/inspect_options.h"
#include "modes/inspect/shape_test.h"
#include "modes/proof/proof_modes.h"
#include "modes/proof/proof_options.h"
#include "session/embedding_options.h"
#include "session/versions.h"
#include "system/standard_streams.h"
#include "system/terminal.h"

/* ---- One text: where no option asks for another mode ---- */

static bool always(const Options *options) {
    (void)options;
    return true;
}

static Status run_text(void *state, Session *session, Error *error) {
    (void)state;
    return proof_generate(session, NULL, error);
}

static const Mode text_mode = {.traits = MODE_CONTINUES_TEXT, .asked = always, .run = run_text};

/* ---- --help and --version ---- */

static bool asks_help(const Options *options) {
    return options->help != HELP_NO;
}

/* --help WORD, whose word has been taken for a model: the options that speak of it. */
static Status help_about(const CommandLine *line, const char *word, Error *error) {
    if (command_line_help_about(stdout, line, word)) return standard_streams_finish(error);
    error_set(error, "--help: no option mentions '%s'; --help all lists them all", word);
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

static const Mode help_mode = {.traits = MODE_WITHOUT_MODEL, .asked = asks_help, .run = run_help};
static const Mode version_mode = {
    .traits = MODE_WITHOUT_MODEL, .asked = asks_version, .run = run_version};

/* ---- All modes ---- */

/* A mode that stands later wins, so that the first one, which is always asked for, runs where there
 * is no other; and the conversation of -m chat can be looked at, too. */
const Mode *const modes[] = {
    &text_mode,
    &proof_record_kind_mode,
    &chat_mode,
    &batch_mode,
    &batch_merge_mode,
    &inspect_info_mode,
    &inspect_layers_mode,
    &bug_report_mode,
    &inspect_verify_mode,
    &inspect_tokenize_mode,
    &inspect_detokenize_mode,
    &inspect_render_mode,
    &inspect_eval_mode,
    &inspect_score_mode,
    &inspect_attention_mode,
    &inspect_positions_mode,
    &inspect_layer_mode,
    &inspect_no_cache_mode,
    &inspect_trace_mode,
    &convert_list_mode,
    &convert_families_mode,
    &convert_cache_list_mode,
    &convert_cache_clear_mode,
    &shape_test_mode,
    &check_text_mode,
    &check_session_mode,
    &eval_tasks_mode,
    &inspect_side_by_side_mode,
    &proof_replay_mode,
    &version_mode,
    &help_mode,
    NULL,
};

const Mode *const modes_replay[] = {&proof_replay_text, &chat_replay, &batch_replay, NULL};

/* In the order of --help. */
static const ModeOptions *const tables[] = {
    &inspect_shape_test_option,
    &options_chat,
    &chat_option_table,
    &options_messages,
    &options_batch,
    &proof_check_option,
    &batch_option_table,
    &proof_option_table,
    &inspect_option_table,
    &options_override,
    &conversion_option_table,
    &embedding_option_table,
    NULL,
};

const MoreOptions modes_options = {.tables = tables,
                                   .advise = advice_option,
                                   .look = foreign_value,
                                   .takes_words = batch_takes_words};
