#include "modes/text_mode.h"

#include "modes/proof/proof_modes.h"

static bool always(const Options *options) {
    (void)options;
    return true;
}

static Status run_text(void *state, Session *session, Error *error) {
    (void)state;
    return proof_generate(session, NULL, error);
}

const Mode text_mode = {.traits = MODE_CONTINUES_TEXT, .asked = always, .run = run_text};
