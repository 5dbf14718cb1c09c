/* Whether a model that lies on this machine runs: its headers are read as a conversion would read
 * them, in a process that gives up its rights first, because the file may come from a stranger. */
#ifndef MODEL_CHECK_H
#define MODEL_CHECK_H

#include <stdbool.h>

typedef struct ModelCheck {
    bool runs;
    char type[32]; /* the type of most weights */
    char why[400]; /* it does not run */
} ModelCheck;

void model_check(const char *path, ModelCheck *check);

#endif
