/* The fingerprint in every result of a batch, by which --resume recognizes another model or other
 * options. */
#ifndef BATCH_FINGERPRINT_H
#define BATCH_FINGERPRINT_H

#include "template/chat_prompt.h"

enum { BATCH_FINGERPRINT_BYTES = 24 };

/* Fills `text` with "fp_" and 16 digits, a hash of everything besides the request that a result
 * depends on: the model file, the numeric options and the defaults from the command line. The
 * request of a table's row counts as one of these where a column is the id, which then is all of
 * its key. */
void batch_fingerprint(char text[BATCH_FINGERPRINT_BYTES], const Session *session,
                       const GenerationOptions *defaults, const ChatPrompt *chat);

#endif
