/* The commands of a chat: lines that begin with a slash. /help lists them. */
#ifndef COMMANDS_H
#define COMMANDS_H

#include "modes/chat/chat_state.h"

/* Whether the text begins with a slash and a word. A pasted path ("/usr/bin/env ...") is a message.
 */
bool commands_is(const char *text);

/* A paste or a burst that begins with a command is a list of commands and messages. Returns the
 * length of the first of them: a command's line (/system and /edit take several), or the lines of a
 * message before the next line that is a command. A newline or the text's end follows it. */
size_t commands_part(const char *text);

/* Runs the command that `line` names with its argument, the rest of the line, which it may change.
 * Fails also for a name that no command has. */
Status commands_run(Chat *chat, char *line, Error *error);

/* The name of command i with its slash, for Tab; NULL after the last one. */
const char *commands_name(size_t i);

#endif
