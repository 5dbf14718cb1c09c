/* What holds one answer to messages: its shape, after the reasoning that may come first; the calls
 * of tools that it must or may make; the limit of its reasoning.
 *
 *     answer_hold_init(&hold, &input, &error)    once for a request
 *     answer_hold_rule(&hold, session, &options, &rule, &error)    for each of its texts
 *     answer_hold_free(&hold) */
#ifndef TEMPLATE_ANSWER_HOLD_H
#define TEMPLATE_ANSWER_HOLD_H

#include "constraint/reasoning.h"
#include "session/session.h"
#include "template/chat_prompt.h"

enum { REASONING_UNLIMITED = -1 };

typedef struct AnswerHoldInput {
    const ChatPrompt *prompt;
    ReasoningStart start;     /* how the prompt ends (chat_prompt_encode) */
    bool may_reason;          /* the model was not told to leave the reasoning out */
    const ShapeSource *shape; /* of the answer; NULL or of kind SHAPE_NONE: any text */
    unsigned json_form;       /* of the shape and of calls: flags of JsonForm */
    const json_t *tools;      /* that the answer may call; NULL: none */
    const JsonDigits *digits; /* of the numbers in their schemas (json/json_digits.h), or NULL */
    const char *function;     /* the one that it must call; NULL: any */
    bool required;            /* it must call one */
    bool one_call;            /* it may make one call at most */
    int64_t budget;           /* tokens of reasoning; REASONING_UNLIMITED */
} AnswerHoldInput;

typedef struct AnswerHold {
    ShapeSource source;       /* kind SHAPE_NONE: any text */
    char *text;               /* owned; what source.text points at, or NULL */
    ReasoningLimit reasoning; /* close NULL: without limit */
} AnswerHold;

/* Writes the structure of the answers (constraint/structure.h), or takes the shape itself where
 * nothing stands around it; then it borrows the shape. Fails when the template's formats cannot be
 * held. */
Status answer_hold_init(AnswerHold *hold, const AnswerHoldInput *input, Error *error);
void answer_hold_free(AnswerHold *hold);

/* Makes the rule of one text; NULL where nothing holds it. `options` are its Generation's.
 */
Status answer_hold_rule(const AnswerHold *hold, const Session *session,
                        const GenerationOptions *options, TokenRule **rule, Error *error);

#endif
