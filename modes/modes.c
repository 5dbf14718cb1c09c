#include "modes/modes.h"

#include "advice/foreign.h"
#include "advice/option_hints.h"
#include "modes/batch/batch_mode.h"
#include "modes/batch/batch_options.h"
#include "modes/chat/chat_mode.h"
#include "modes/chat/chat_options.h"
#include "modes/chat/chat_receipt.h"
#include "modes/chat/check_session.h"
#include "modes/open/conversion_options.h"
#include "modes/open/convert_modes.h"
#include "modes/proof/check_text.h"
#include "modes/inspect/bug_report.h"
#include "modes/inspect/eval_tasks.h"
#include "modes/inspect/inspect_modes.h"
#include "modes/inspect/inspect_options.h"
#include "modes/inspect/shape_test.h"
#include "modes/proof/proof_modes.h"
#include "modes/proof/proof_options.h"
#include "session/embedding_options.h"
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
    &help_version_mode,
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
