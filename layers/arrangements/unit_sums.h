/* Attention of one query over vectors of a row, whose keys and values are the vectors themselves:
 *
 *     s[j] = (query . u[j]) / sqrt(dim)
 *     out  = sum over j of softmax(s)[j] * u[j] */
#ifndef LAYERS_ARRANGEMENTS_UNIT_SUMS_H
#define LAYERS_ARRANGEMENTS_UNIT_SUMS_H

#include "core/forward_steps.h"

/* out[dim] of units[n][dim]; works in scores[n]. */
void unit_sums_attend(const Model *model, const float *query, const float *units, size_t n,
                      float *scores, float *out);

/* out[dim] = x[dim] over its root mean square. */
void unit_sums_normalize(const Model *model, const float *x, float *out);

#endif
