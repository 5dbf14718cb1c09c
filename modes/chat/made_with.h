/* How an answer of a conversation was made: "made_with" of its message, in the session's file and
 * in receipts. With the messages before it, the answer can be repeated from this. */
#ifndef MADE_WITH_H
#define MADE_WITH_H

#include "template/chat_prompt.h"

typedef struct MadeWith {
    const GenerationOptions *options;
    const ChatPrompt *prompt; /* what reasoning was asked for */
    int64_t budget;           /* of the reasoning, in tokens; or REASONING_UNLIMITED */
    const char *common;       /* settings_common */
    size_t n_generated;
    Finish finish;
} MadeWith;

/* A new object: the sampler's settings and seed, "sample", the reasoning asked for, how many tokens
 * were "generated" and how they ended, "finish"; and "under", a digest of the other settings. NULL:
 * no memory. chat_receipt.c reads it. */
json_t *made_with(const MadeWith *how);

#endif
