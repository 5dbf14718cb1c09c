/* What a request's messages may hold: nothing in them is left out silently. */
#ifndef REQUEST_MESSAGES_H
#define REQUEST_MESSAGES_H

#include <jansson.h>

#include "template/chat_prompt.h"

/* Fails unless `messages` is a list of objects with a "role". */
Status request_messages_are_list(const json_t *messages, Error *error);

/* Fails, with an Error that names the message and the key, for a key that the chat template does
 * not read, for a role that it does not know, for a message without content, and for parts of a
 * content that are not text: images, audio, video and files. */
Status request_messages_are_read(const json_t *messages, const ChatPrompt *chat, Error *error);

/* Whether the chat template's text holds the word, not as part of a longer one. */
bool request_template_mentions(const ChatPrompt *chat, const char *word);

#endif
