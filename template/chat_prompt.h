/* The prompt of a dialogue: messages to token ids by the model's chat template. */
#ifndef CHAT_PROMPT_H
#define CHAT_PROMPT_H

#include "generation.h"
#include "session/session.h"
#include "template/answer.h"
#include "template/chat_template.h"
#include "template/contents.h"
#include "template/message_forms.h"

typedef struct ChatPrompt {
    const Session *session;
    ChatTemplate *template;
    const char *text; /* the template's source, borrowed, not NUL-terminated */
    size_t text_length;
    AnswerFormat answers; /* what the template says of the form of answers */
    /* Where the model has no template and its vocabulary belongs to a family (chat_family.h): the
     * family's name and the token that ends a turn. Otherwise NULL and -1. */
    const char *family;
    int32_t end;
    /* Where there is no family either: messages become lines ("User: ..."), and an answer ends
     * before any of these n_stop strings. */
    bool plain;
    const char *const *stop;
    size_t n_stop;
    struct tm now;      /* what strftime_now() tells the template */
    CallStyle calls;    /* how the template wants calls of tools in messages */
    ContentForms forms; /* what it takes as the content of a message */
    /* Whether the model reasons, and how much (NULL: as the template has it): --reasoning and
     * --reasoning-effort, until the caller changes them. */
    ReasoningChoice reasoning;
    const char *effort;
} ChatPrompt;

/* The variables of the chat template: JSON values, each NULL where not given. */
typedef struct ChatPromptInput {
    const json_t *messages, *tools;
    const json_t *variables; /* an object of further variables; they replace the defaults */
    const char *reasoning_effort;
    const JsonDigits *digits; /* of the numbers in all of them (json/json_digits.h); NULL: none */
    bool is_cut; /* the caller will cut the prompt: it may be longer than the context */
} ChatPromptInput;

/* Compiles the template: the session's --chat-template, else the model's own, else the template of
 * its family, else lines of "Role: content". */
Status chat_prompt_open(ChatPrompt *prompt, const Session *session, Error *error);

/* The time for prompts of requests: $SOURCE_DATE_EPOCH (specified for reproducible builds,
 * https://reproducible-builds.org/specs/source-date-epoch/), else a fixed one, so that the same
 * request has the same prompt and answer tomorrow. */
struct tm chat_prompt_request_time(void);

/* What a request (an object) says to the template, as a batch takes it: its messages, tools,
 * variables and reasoning_effort. What is not of its type counts as absent. */
ChatPromptInput chat_prompt_request(const json_t *request);

/* Makes the token that ends a turn of the family end an answer. */
void chat_prompt_end(const ChatPrompt *prompt, GenerationOptions *options);
void chat_prompt_close(ChatPrompt *prompt);

/* Renders the prompt's text: what chat_prompt_encode makes token ids of. */
Status chat_prompt_render(const ChatPrompt *prompt, const ChatPromptInput *input,
                          ChatTemplateOutput *out, Error *error);

/* Appends the token ids of the prompt to *ids, as many as there are. *start (may be NULL) tells how
 * the prompt leaves the reasoning. Any number of threads may call it at once. */
Status chat_prompt_encode(const ChatPrompt *prompt, const ChatPromptInput *input, TokenList *ids,
                          ReasoningStart *start, Error *error);

/* Whether the template knows of reasoning: it names marks around it, or reads whether to reason. */
bool chat_prompt_reasons(const ChatPrompt *prompt);
/* Whether the template reads how much to reason. */
bool chat_prompt_has_effort(const ChatPrompt *prompt);

/* False when the model is told to leave the reasoning out. */
bool chat_prompt_may_reason(const ChatPrompt *prompt, const ChatPromptInput *input);

#endif
