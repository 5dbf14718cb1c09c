/* BitNet b1.58: ternary weights, and norms inside attention and feed-forward. */
#include "families/shared.h"

/* Quantized, the inputs of all products but the output head's are rounded to 8 bits. */
static Status bitnet_finish(const json_t *json, Config *config, Error *error) {
    const json_t *quantization = json_value(json, "quantization_config");
    config->round_inputs = quantization != NULL;
    if (family_refuse(quantization, "quantization_mode", "\"offline\"", error) != STATUS_OK)
        return STATUS_FAILED;
    return family_refuse(quantization, "use_rms_norm", "false", error);
}

const FamilyHook families_bitnet[] = {
    {"bitnet", .finish = bitnet_finish},
    {0},
};
