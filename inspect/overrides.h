/* --override FIELD=VALUE: what a part of the model is worth, by running the model without it or
 * with another value: the scale of scores, positions, windows, the place of norms, RoPE's base.
 *
 * Only fields that say how to compute can be changed, not those that the tensors' shapes follow. */
#ifndef OVERRIDES_H
#define OVERRIDES_H

#include "config.h"
#include "options.h"

typedef struct Overrides {
    char *text;       /* "attention_scale = 1 (the model's: 0.353553), ..."; NULL: none. Owned */
    float rope_theta; /* for ModelOptions; 0: the model's table */
} Overrides;

/* Changes the fields and checks the whole Config again. The Error names what can be changed. Free
 * with overrides_free in any case. */
Status overrides_apply(Overrides *overrides, const OptionList *list, Config *config, Error *error);
void overrides_free(Overrides *overrides);

#endif
