/* XGLM: sinusoids, scaled embeddings. */
#include "families/shared.h"

/* The row pad_token_id of XGLM's table of sinusoids is zero, which is that of position pad - 2. */
static Status xglm_finish(const json_t *json, Config *config, Error *error) {
    double pad = json_number(json, "pad_token_id", 1);
    if (pad >= 2)
        return error_set(error,
                         "config.json: pad_token_id is %g, which this program cannot compute "
                         "(only 0 and 1)",
                         pad);
    (void)config;
    return STATUS_OK;
}

const FamilyHook families_xglm[] = {
    {"xglm", .finish = xglm_finish},
    {0},
};
