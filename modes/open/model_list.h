/* --list: the models on this machine, whose names `run` takes, and the conversions. */
#ifndef MODEL_LIST_H
#define MODEL_LIST_H

#include <signal.h>
#include <stdio.h>

#include "base/status.h"

/* Prints name, size, type and place of every model that is found (model_names.h), and of those that
 * do not run the reason; then the conversions (conversion_list.h). */
Status model_list_print(FILE *out, const char *cache_dir, const volatile sig_atomic_t *interrupted,
                        Error *error);

#endif
