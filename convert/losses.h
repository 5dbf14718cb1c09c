/* What a conversion loses, counted while panels are made and said at its end: types without an
 * equal here, weights that are rounded a second time, weights beyond the range of their type. */
#ifndef CONVERT_LOSSES_H
#define CONVERT_LOSSES_H

#include <stdatomic.h>

#include "convert/panel_maker.h"

typedef struct ConvertLosses {
    double errors[STORED_TYPES], squares[STORED_TYPES]; /* of tensors whose error is measured */
    size_t *saturated; /* [source->n_tensors] weights that the tensor's type does not hold; owned */
    float largest;     /* the largest of them */
    atomic_size_t cleared; /* weights that became 0: bf16_act has no such small numbers */
} ConvertLosses;

/* False when memory is short. */
bool losses_new(ConvertLosses *losses, const Source *source);
void losses_free(ConvertLosses *losses);

/* Counts which of a panel's weights x[PANEL_ROWS + 1][padded cols], whose last row is working
 * memory, its type does not hold. */
void losses_count_saturated(ConvertLosses *losses, const TensorPlan *tensor, float *x,
                            const uint8_t *panel);

/* Counts which of the weights x[PANEL_ROWS][cols] of a float type become 0. */
void losses_count_cleared(ConvertLosses *losses, const TensorPlan *tensor, const float *x);

/* Adds the squares of a panel's weights and of their errors to the sums of its stored type.
 * x[PANEL_ROWS + 1][padded cols] is working memory. */
Status losses_measure(ConvertLosses *losses, const TensorPlan *tensor, size_t first,
                      const uint8_t *panel, float *x, Error *error);

/* Says what was lost of tensors[n], a line each. */
void losses_tell(const ConvertLosses *losses, const TensorPlan *tensors, size_t n,
                 void (*note)(const char *line, void *context), void *context);

#endif
