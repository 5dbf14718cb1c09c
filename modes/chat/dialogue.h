/* A conversation with a model, without a screen: what turn.h shows and tests drive.
 *
 * Each turn renders all messages with the chat template, keeps what the cache already holds of
 * the resulting tokens, computes the rest and generates. What is computed is therefore always
 * what a fresh conversation with the same messages would compute, bit for bit; the cache only
 * saves time.
 *
 * When the messages outgrow three quarters of the context, whole oldest exchanges are left out
 * (the system prompt stays) until they fill at most half of it. What is left out follows from
 * the messages alone, so that a resumed conversation agrees. */
#ifndef DIALOGUE_H
#define DIALOGUE_H

#include "modes/chat/conversation.h"
#include "modes/proof/settings.h"
#include "session/generate.h"
#include "template/answer_hold.h"
#include "template/chat_prompt.h"

typedef struct Dialogue {
    const Session *session;
    Conversation conversation;
    GenerationOptions options;
    ChatPrompt prompt;
    KvCache *cache;                            /* sequence 0 */
    TokenList cached;                          /* its tokens */
    float *logits;                             /* [vocab_size] */
    uint64_t attempt;                          /* /retry: the sample of the next answer */
    ReasoningStart start;                      /* how the last prompt leaves the reasoning */
    bool may_reason;                           /* the model was not told to leave it out */
    int64_t budget;                            /* tokens of reasoning; REASONING_UNLIMITED */
    char settings_digest[SETTINGS_COMMON_HEX]; /* settings_common, for the answers' made_with */
    char *effort;                              /* of dialogue_set_effort; NULL: none */
    size_t shown_left_out;
    bool told_unkept; /* that PATH.kv cannot be written */

    /* firsts[n]: of n messages, the first in the prompt (beside the system prompt): later than the
     * start once the oldest exchanges were dropped to fit the context. */
    size_t *firsts, n_firsts, firsts_capacity;
} Dialogue;

/* The token counts and times of one answer. */
typedef struct AnswerStats {
    size_t n_prompt;    /* tokens of the rendered prompt */
    size_t n_cached;    /* prompt tokens found in the KV cache */
    size_t n_generated; /* tokens of the answer */
    size_t left_out;    /* messages that did not fit */
    double prefill_seconds, decode_seconds;
    Finish finish; /* FINISH_NOT: interrupted */
    bool too_long; /* nothing was answered: n_prompt tokens do not fit into the context */
    bool unshaped; /* its length ended it before it had the shape that was asked for */
} AnswerStats;

/* Callbacks that watch an answer being made. `starts` is told whether it starts inside of a
 * reasoning; `text` gets its text. `left_out` is called when more old messages had to be left out
 * of the context than for the last answer. `unkept` is told, once, why PATH.kv cannot be written:
 * the answer is kept. Each may be NULL. */
typedef struct AnswerWatcher {
    void (*starts)(void *context, bool reasoning);
    void (*text)(void *context, const char *text, size_t length);
    void (*left_out)(void *context, size_t messages); /* more than for the last answer */
    void (*unkept)(void *context, const char *why);
    void *context;
} AnswerWatcher;

/* Opens a dialogue on the conversation in the file `path`; NULL: it is not saved. `note` says what
 * a person should know (a damaged file, no template) and is empty when there is nothing. */
Status dialogue_open(Dialogue *dialogue, const Session *session, const char *path, Error *note,
                     Error *error);
/* As dialogue_open, with files that are open (conversation_open_file) and a `note` that may hold a
 * remark already. */
Status dialogue_open_file(Dialogue *dialogue, const Session *session, SessionFile *file,
                          Courier *courier, Error *note, Error *error);
void dialogue_close(Dialogue *dialogue);

/* Adds what the user says. */
Status dialogue_say(Dialogue *dialogue, const char *text, size_t length, Error *error);

/* Answers the last message, which must not be an answer, and keeps the answer, also one that
 * the user interrupted. */
Status dialogue_answer(Dialogue *dialogue, const AnswerWatcher *watcher, AnswerStats *stats,
                       Error *error);

/* The number of exchanges: of messages that the user said. */
size_t dialogue_exchanges(const Dialogue *dialogue);

/* Takes back the last n exchanges, or all when there are fewer; *text (freed by the caller; NULL
 * when there was none) is what the user had said first in them. */
Status dialogue_undo(Dialogue *dialogue, size_t n, char **text, Error *error);

/* The content of the last message of the user, or of the answer to it; NULL: there is none. */
const char *dialogue_last_said(const Dialogue *dialogue, bool answer);

/* Puts a text in the place of the last answer. It is the user's: it was not made by the model. */
Status dialogue_replace_answer(Dialogue *dialogue, const char *text, size_t length, Error *error);

/* Takes back the last answer, so that dialogue_answer gives another one. False: none. */
Status dialogue_retract(Dialogue *dialogue, bool *retracted, Error *error);

/* The tokens that the next answer would begin from, also more than the context holds. */
Status dialogue_tokens(Dialogue *dialogue, TokenList *ids, Error *error);

/* The system prompt, or NULL. */
const char *dialogue_system(const Dialogue *dialogue);
Status dialogue_set_system(Dialogue *dialogue, const char *text, Error *error);

/* Whether the model thinks, and how much (NULL: as the template has it), from the next answer on.
 */
void dialogue_set_reasoning(Dialogue *dialogue, ReasoningChoice reasoning);
Status dialogue_set_effort(Dialogue *dialogue, const char *effort, Error *error);

/* Goes on from the messages of another conversation's text (conversation.h). The session's file of
 * keys and values is emptied, so that nothing of the erased messages stays in it. */
Status dialogue_adopt(Dialogue *dialogue, const char *path, const char *text, size_t length,
                      Error *error);

/* Forgets everything but the system prompt, also in the session's file of keys and values. */
Status dialogue_reset(Dialogue *dialogue, Error *error);

#endif
