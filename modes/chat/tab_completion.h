/* What Tab completes in a chat: the names of commands, of files after /save and /load, and of
 * settings after /set. */
#ifndef TAB_COMPLETION_H
#define TAB_COMPLETION_H

#include <stddef.h>

#include "modes/chat/courier.h"

/* A LineCompletion (line_editor.h), whose context is the Courier that lists files. */
size_t tab_completion(void *courier, const char *line, size_t length, char **result);

#endif
