#include "formats/xielu.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static double softplus(double x) {
    return x > 20.0 ? x : log1p(exp(x));
}

Status xielu_add(Source *source, uint32_t layer, const Xielu *xielu, Error *error) {
    char name[64];
    float *parameters = malloc(4 * sizeof *parameters);
    if (parameters) {
        parameters[0] = (float)softplus(xielu->alpha_p);
        parameters[1] = (float)(xielu->beta + softplus(xielu->alpha_n));
        parameters[2] = (float)xielu->beta;
        parameters[3] = (float)xielu->eps;
    }
    snprintf(name, sizeof name, "layers.%u.xielu", layer);
    return source_add_values(source, name, 1, 4, parameters, error);
}
