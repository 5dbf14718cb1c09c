/* --override FIELD=VALUE: changes fields of the model's Config for one run (an ablation), such as
 * the scale of attention, the position code, windows, norms or RoPE's base.
 *
 * Only fields that say how to compute can be changed; those that decide the shapes of tensors
 * cannot. Beside them stand what no model has (masks.h): mask, positions and global_tokens; and
 * branches that are switched off (branches_off.h): attention and ffn. */
#ifndef OVERRIDES_H
#define OVERRIDES_H

#include "core/config.h"
#include "modes/open/branches_off.h"
#include "modes/open/masks.h"
#include "session/options.h"

typedef struct Overrides {
    char *text; /* "attention_scale = 1 (the model's: 0.353553), ..."; NULL: nothing changed */
    float rope_theta;   /* for ModelOptions; 0: the file's table of frequencies */
    MaskOverride masks; /* for masks_apply, when the model is open */
    BranchOffList off;  /* for branches_off_apply, after that */
} Overrides;

/* Changes the fields of *config as the list of FIELD=VALUE says, and validates the Config again.
 * STATUS_USAGE when a field or a value is wrong; the Error then lists what is allowed. Call
 * overrides_free afterwards, also when this fails. */
Status overrides_apply(Overrides *overrides, const OptionList *list, Config *config, Error *error);
void overrides_free(Overrides *overrides);

#endif
