/* The options of a chat that /set shows and changes while it goes on. */
#ifndef CHAT_SETTINGS_H
#define CHAT_SETTINGS_H

#include <stdbool.h>
#include <stddef.h>

#include "modes/chat/dialogue.h"

/* Does /set with its argument, which it changes: "" shows all settings, "NAME VALUE" or
 * "NAME=VALUE" changes one from the next answer on; '_' in a name is '-'. */
Status settings_command(Dialogue *dialogue, bool *hides_reasoning, char *argument, Error *error);

/* Says when the chat template ignores that reasoning is on, or its effort. */
void settings_note_reasoning(const Dialogue *dialogue);

/* The name of setting i, for Tab; NULL after the last one. */
const char *settings_name(size_t i);

#endif
