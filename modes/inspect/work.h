/* The multiply-adds that a model's tokens take. */
#ifndef INSPECT_WORK_H
#define INSPECT_WORK_H

#include <stdbool.h>

#include "core/config.h"

typedef struct Work {
    double token;        /* multiply-adds of a token: layers and vocabulary, without attention */
    double layers;       /* multiply-adds of the layers */
    double per_position; /* multiply-adds of attention for each position that a token sees */
    bool grows;          /* every layer attends to all positions, so that what follows is known */
    double equal;        /* positions from which on attention takes more than the layers */
} Work;

Work work_of(const Config *config);

#endif
