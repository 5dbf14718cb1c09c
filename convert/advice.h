/* What to do instead, for what people hand over that is no model. */
#ifndef ADVICE_H
#define ADVICE_H

#include "base/status.h"

/* `path` could not be opened as a model and `error` says why: says more where something is known
 * to help (a prompt, the name of a repository, a pickle, an ONNX graph, one file of a model, a
 * directory of GGUF files). Returns STATUS_FAILED. */
Status advice_add(const char *path, Error *error);

#endif
