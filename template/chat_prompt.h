/* Messages to the tokens that an answer follows, by the model's chat template. */
#ifndef CHAT_PROMPT_H
#define CHAT_PROMPT_H

#include "generation.h"
#include "template/chat_template.h"

typedef struct ChatPrompt {
    const Session *session;
    ChatTemplate *template;
    /* The model has no template. Its vocabulary is that of a family, whose template is used; `end`
     * ends a turn there. NULL and -1 otherwise. */
    const char *family;
    int32_t end;
    /* Nor a family: messages become lines ("User: ..."), and these end an answer. */
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

/* The session's --chat-template, else the model's template, else that of its family, else a plain
 * one of our own. */
Status chat_prompt_open(ChatPrompt *prompt, const Session *session, Error *error);

/* Has the token that ends a turn of the family end an answer, too. */
void chat_prompt_end(const ChatPrompt *prompt, GenerationOptions *options);
void chat_prompt_close(ChatPrompt *prompt);

/* Appends the ids, as many as they are. *opens_thinking (may be NULL): the prompt itself ends
 * with <think>. Any number of threads may call it at once. */
Status chat_prompt_encode(const ChatPrompt *prompt, const ChatPromptInput *input, TokenList *ids,
                          bool *opens_thinking, Error *error);

#endif
