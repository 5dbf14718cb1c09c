/* What happens to messages before a chat template sees them.
 *
 * Clients send calls back as they got them: arguments as JSON in a text, and often no content. Most
 * templates want arguments as an object and would quote such a text a second time, but some want
 * the text; most fail without a content, but some write calls only then. Which of these a template
 * reads well is found out by rendering a call.
 *
 * A message's reasoning goes by three names. As in transformers, each message with one of them gets
 * "reasoning_content" and "thinking". */
#ifndef TEMPLATE_MESSAGE_FORMS_H
#define TEMPLATE_MESSAGE_FORMS_H

#include "template/chat_template.h"

typedef enum CallStyle {
    CALLS_AS_GIVEN,         /* the template reads none of the others well */
    CALLS_OF_OBJECTS,       /* arguments are objects, no content is "" */
    CALLS_OF_TEXTS,         /* arguments are texts */
    CALLS_OF_OBJECTS_ALONE, /* the same two, but no content is null */
    CALLS_OF_TEXTS_ALONE
} CallStyle;

/* How the template wants calls. `variables` is an object of those that it may need, without
 * "messages" and "tools". */
CallStyle messages_call_style(const ChatTemplate *template, const json_t *variables, struct tm now);

/* The list as the template wants it: a new reference; NULL: no memory. What is not an object, or
 * not JSON where an object is wanted, stays as it is. Numbers keep their digits: arguments
 * that become a text take them from `given`, those that become an object give theirs to `made`
 * (json/json_digits.h; NULL: none). */
json_t *messages_prepare(const json_t *messages, CallStyle style, const JsonDigits *given,
                         JsonDigits *made);

#endif
