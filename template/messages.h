/* What happens to messages before a chat template sees them.
 *
 * Clients send the arguments of calls back as they got them, JSON in a text, but most templates
 * want an object and would quote such a text a second time; some want the text. Which of the two a
 * template reads well is found out by rendering a call with both.
 *
 * A message's reasoning goes by three names. As in transformers, each message with one of them gets
 * "reasoning_content" and "thinking". */
#ifndef TEMPLATE_MESSAGES_H
#define TEMPLATE_MESSAGES_H

#include "template/chat_template.h"

typedef enum CallArguments {
    ARGUMENTS_AS_GIVEN,   /* the template reads neither well */
    ARGUMENTS_AS_OBJECTS, /* as vLLM does for all templates */
    ARGUMENTS_AS_TEXTS
} CallArguments;

/* How the template wants the arguments of calls. `variables` are an object of those that it may
 * need, without "messages" and "tools". */
CallArguments messages_call_arguments(const ChatTemplate *template, const json_t *variables,
                                      struct tm now);

/* The list as the template wants it: a new reference; NULL: no memory. What is no object, or no
 * JSON where an object is wanted, stays as it is. */
json_t *messages_prepare(const json_t *messages, CallArguments arguments);

#endif
