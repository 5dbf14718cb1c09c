/* The peak of plain C's multiply-adds. It stands apart from reference.c because the core has no
 * bench. */
#ifndef KERNELS_REFERENCE_SPIN_H
#define KERNELS_REFERENCE_SPIN_H

#include "kernels/kernels.h"

/* kernels_reference.spin */
double reference_spin(TensorType type, size_t rounds);

#endif
