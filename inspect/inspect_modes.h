/* The modes that look at a model instead of writing a text, and their options. */
#ifndef INSPECT_MODES_H
#define INSPECT_MODES_H

#include "session/mode.h"

extern const OptionRow inspect_options[];
extern const Mode info_mode, layers_mode, verify_mode, tokenize_mode, detokenize_mode, render_mode,
    eval_mode, attention_mode, score_mode, positions_mode, no_cache_mode;

#endif
