/* The small model that comes with the program and runs when the command line names no model. */
#ifndef DEFAULT_MODEL_H
#define DEFAULT_MODEL_H

#include "base/status.h"

/* Finds stories.bin from the directory of the running program: in share/verbatim/ beside the bin/
 * that the program was installed to, else in models/ of the source tree that it was built in.
 * Returns the path, malloc'ed, or NULL with an Error that says to name a model. */
char *default_model_path(Error *error);

/* The directory docs/ of an installation, malloc'ed; NULL: the program runs where it was built. */
char *default_model_docs_path(void);

#endif
