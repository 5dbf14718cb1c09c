/* --eval-tasks FILE: accuracy on questions with choices, perplexity of documents, with --against
 * also of a second model on the same items. docs/evaluation.md describes the file. */
#ifndef EVAL_TASKS_H
#define EVAL_TASKS_H

#include "session/mode.h"

extern const Mode eval_tasks_mode;

#endif
