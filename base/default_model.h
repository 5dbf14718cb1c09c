/* The small model that comes with the program, which runs when the command line names none. */
#ifndef DEFAULT_MODEL_H
#define DEFAULT_MODEL_H

#include "base/status.h"

/* The path of stories.bin: models/ of the source tree that holds the program, else
 * share/verbatim/ beside the bin/ that it was installed to, whatever the prefix. malloc'ed;
 * NULL, and an Error that says to name a model, where there is neither. */
char *default_model_path(Error *error);

#endif
