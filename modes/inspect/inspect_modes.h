/* The modes that look at a model instead of writing a text, and their options. */
#ifndef INSPECT_MODES_H
#define INSPECT_MODES_H

#include "session/mode.h"

extern const Mode inspect_info_mode, inspect_layers_mode, inspect_verify_mode,
    inspect_tokenize_mode, inspect_detokenize_mode, inspect_render_mode, inspect_eval_mode,
    inspect_attention_mode, inspect_score_mode, inspect_positions_mode, inspect_no_cache_mode,
    inspect_trace_mode, inspect_side_by_side_mode, inspect_layer_mode;

#endif
