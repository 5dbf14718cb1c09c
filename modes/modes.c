#include "modes/modes.h"

#include <stddef.h>

#include "advice/foreign.h"
#include "advice/options.h"
#include "modes/batch/batch_mode.h"
#include "modes/chat/chat_mode.h"
#include "modes/chat/chat_receipt.h"
#include "modes/chat/check_session.h"
#include "modes/open/convert_modes.h"
#include "draft/drafter.h"
#include "modes/proof/check_text.h"
#include "modes/inspect/bug_report.h"
#include "modes/inspect/eval_tasks.h"
#include "modes/inspect/inspect_modes.h"
#include "modes/inspect/shape_test.h"
#include "modes/proof/proof_modes.h"
#include "modes/help_modes.h"
#include "modes/text_mode.h"

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
    &help_version_mode,
    &help_mode,
    NULL,
};

const Mode *const modes_replay[] = {&proof_replay_text, &chat_replay, &batch_replay, NULL};

#define FIELD(name) offsetof(Options, name)

/* Without a heading: they follow the core's options of the machine. */
static const OptionRow more_machine_rows[] = {
    TEXT_ROW(RARE, 0, "draft", "NAMES", FIELD(draft),
             "speculative decoding; --lookup N, --draft-model M"),
    TEXT_ROW(RARE, 0, "draft-model", "MODEL", FIELD(draft_model), NULL),
    UINT_ROW(RARE, 0, "lookup", FIELD(lookup), 0, DRAFTS_MAX, NULL),
    FLAG_ROW(RARE, 0, "no-sandbox", FIELD(no_sandbox), "run without the sandbox (files, network)"),
    END_ROW,
};

static const OptionRow shape_rows[] = {
    HEADING_ROW("Structured output: the shape of the answer (docs/shapes.md)"),
    TEXT_ROW(USUAL, 0, "json-schema", "TEXT", FIELD(json_schema),
             "JSON valid under a JSON Schema; @FILE reads it"),
    FLAG_ROW(RARE, 0, "json", FIELD(json_object),
             "any JSON object; form: --json-order, --json-space"),
    TEXT_ROW(RARE, 0, "regex", "TEXT", FIELD(regex),
             "text matching a regular expression; or @FILE"),
    TEXT_ROW(RARE, 0, "grammar", "TEXT", FIELD(grammar), "a GBNF grammar; or @FILE"),
    LIST_ROW(RARE, "choice", "TEXT", FIELD(choice), "one of these texts; repeatable"),
    CHOICE_ROW(RARE, 0, "json-order", "schema|any", FIELD(json_order), NULL, NULL),
    CHOICE_ROW(RARE, 0, "json-space", "line|any", FIELD(json_space), NULL, NULL),
    CHOICE_ROW(RARE, 0, "on-length", "cut|close", FIELD(on_length), NULL,
               "at the -n limit: cut, or complete it [cut]"),
    TEXT_ROW(RARE, 0, "shape-test", "FILE", FIELD(shape_test), "check each line against the shape"),
    END_ROW,
};

static const OptionRow *const tables[] = {
    more_machine_rows,
    shape_rows,
    chat_options,
    batch_options,
    proof_receipt_options,
    inspect_options,
    convert_options,
    batch_embedding_options,
    NULL,
};

const MoreOptions modes_options = {
    .tables = tables, .advise = advice_option, .look = foreign_value};
