#include "formats/family/gate_limits.h"

#include <stdio.h>
#include <stdlib.h>

static Status gate_limits_add(Source *source, const char *name, double limit, Error *error) {
    float *value = malloc(sizeof *value);
    if (value) *value = (float)limit;
    return source_add_values(source, name, 1, 1, value, error);
}

Status gate_limit_add(Source *source, uint32_t layer, bool of_experts, double limit, Error *error) {
    char name[MODELFILE_NAME_BYTES];
    Status status = STATUS_OK;
    if (!of_experts) {
        snprintf(name, sizeof name, "layers.%u.gate_limit", layer);
        status = gate_limits_add(source, name, limit, error);
        snprintf(name, sizeof name, "layers.%u.shared.gate_limit", layer);
        return status == STATUS_OK ? gate_limits_add(source, name, limit, error) : status;
    }
    for (uint32_t e = 0; status == STATUS_OK && e < source->config.experts.count; e++) {
        snprintf(name, sizeof name, "layers.%u.experts.%u.gate_limit", layer, e);
        status = gate_limits_add(source, name, limit, error);
    }
    return status;
}
