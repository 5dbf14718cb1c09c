/* --why for --eval-tasks: the likeliest choice of each question is the answer (why.h). */
#ifndef WHY_TASKS_H
#define WHY_TASKS_H

#include "modes/inspect/task_items.h"

/* Asks the questions; documents are left out. `other` is the file of --against, whose tokens must
 * be those of the session's model, and `kv_type` the type of its cache. */
Status why_tasks_run(const Session *session, ModelFile *other, KvType kv_type,
                     const TaskItems *items, Error *error);

#endif
