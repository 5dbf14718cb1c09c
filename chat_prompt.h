/* Messages to the tokens that an answer follows, by the model's chat template. */
#ifndef CHAT_PROMPT_H
#define CHAT_PROMPT_H

#include "chat_template.h"
#include "session.h"

typedef struct ChatPrompt {
    const Session *session;
    ChatTemplate *template;
    /* The model has no template: messages become lines ("User: ..."), and these end an answer. */
    bool plain;
    const char *const *stop;
    size_t n_stop;
    struct tm now; /* what strftime_now() tells the template */
} ChatPrompt;

/* What a template may know beside the messages: JSON values, each NULL where not given. */
typedef struct ChatPromptInput {
    const json_t *messages, *tools;
    const json_t *variables; /* an object; its entries go before everything else */
    const char *reasoning_effort;
} ChatPromptInput;

/* The session's --chat-template, else the model's template, else a plain one of our own. */
Status chat_prompt_open(ChatPrompt *prompt, const Session *session, Error *error);
void chat_prompt_close(ChatPrompt *prompt);

/* Appends the ids, as many as they are. *opens_thinking (may be NULL): the prompt itself ends
 * with <think>. Any number of threads may call it at once. */
Status chat_prompt_encode(const ChatPrompt *prompt, const ChatPromptInput *input, TokenList *ids,
                          bool *opens_thinking, Error *error);

#endif
