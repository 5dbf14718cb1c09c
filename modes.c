#include "modes.h"

#include <stddef.h>

#include "advice/options.h"
#include "batch/batch_mode.h"
#include "chat/chat_mode.h"
#include "convert/convert_modes.h"
#include "draft/drafter.h"
#include "inspect/inspect_modes.h"

/* A mode that stands later wins: the conversation of -m chat can be looked at, too. */
const Mode *const modes[] = {
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

const MoreOptions modes_options = {.tables = tables, .advise = advice_option};
