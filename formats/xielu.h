/* The parameters of xIELU (arXiv:2411.13010), the activation of Apertus. */
#ifndef FORMATS_XIELU_H
#define FORMATS_XIELU_H

#include "formats/source.h"

typedef struct Xielu {
    double alpha_p, alpha_n; /* before their softplus, as checkpoints hold them */
    double beta, eps;
} Xielu;

/* Adds the tensor layers.N.xielu, which Numeric.xielu reads. */
Status xielu_add(Source *source, uint32_t layer, const Xielu *xielu, Error *error);

#endif
