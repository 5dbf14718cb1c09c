/* What tells the results of one batch from those of another model, or of other options. */
#ifndef BATCH_FINGERPRINT_H
#define BATCH_FINGERPRINT_H

#include "template/chat_prompt.h"

enum { BATCH_FINGERPRINT_BYTES = 24 };

/* "fp_" and 16 digits: a hash of everything beside a request that its result depends on, the model
 * file, the numeric options and the defaults of the command line. */
void batch_fingerprint(char text[BATCH_FINGERPRINT_BYTES], const Session *session,
                       const GenerationOptions *defaults, const ChatPrompt *chat);

#endif
