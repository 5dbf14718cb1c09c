/* One turn of a chat: the user says something, and the model answers on the screen. */
#ifndef TURN_H
#define TURN_H

#include "modes/chat/chat_state.h"

/* Adds a message of the user and answers it. A message that does not fit into the context is taken
 * back and kept in chat->returned; after another failure it stays in the conversation. The error
 * says which. */
Status turn_say(Chat *chat, const char *text, Error *error);

/* Answers the last message and shows the answer. An interrupted answer is kept. chat->last gets the
 * token counts and times. */
Status turn_answer(Chat *chat, Error *error);

/* Prints what /stats shows of the last answer; turn_answer does so where --stats is given. */
void turn_show_stats(const Chat *chat);

/* The number of messages, without the system prompt. */
size_t turn_messages(const Chat *chat);

#endif
