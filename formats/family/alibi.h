/* ALiBi (arXiv:2108.12409): attention scores fall with the distance, by a slope for each head. */
#ifndef FORMATS_FAMILY_ALIBI_H
#define FORMATS_FAMILY_ALIBI_H

#include "core/config.h"

/* The slopes[n_heads] that config->alibi_max_bias gives. malloc'ed; NULL: no memory. */
float *alibi_slopes(const Config *config);

#endif
