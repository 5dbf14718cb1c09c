/* Advice for people who name something that is not a model. */
#ifndef ADVICE_H
#define ADVICE_H

#include "base/status.h"

/* To be called when `path` could not be opened as a model and `error` says why: replaces the error
 * by one that says what to give instead, where that is known (for a prompt, the name of a
 * repository, a pickle, an ONNX graph, one file of a model, a directory of GGUF files). It is not
 * a prompt where `has_prompt` says that there is one. Returns STATUS_FAILED. */
Status advice_add(const char *path, bool has_prompt, Error *error);

#endif
