/* What answers the requests of a batch and of a program that has the library (verbatim.h): the
 * defaults of requests, the chat template, the fingerprint and the engine of a session whose model
 * is open. Both get the same bytes because both are prepared here.
 *
 *     answering_begin(&answering, session, &error)    defaults, chat template, date
 *     answering_settle(&answering, &error)            what depends on these
 *     answering_start(&answering, bytes, rows, &error)  the engine
 *     answering_end(&answering)                       also after a failure
 */
#ifndef ANSWERING_H
#define ANSWERING_H

#include "modes/batch/batch_fingerprint.h"
#include "modes/batch/job.h"

typedef struct Answering {
    const Session *session;
    GenerationOptions defaults;
    ChatPrompt chat;
    char fingerprint[BATCH_FINGERPRINT_BYTES];
    EmbeddingSetting embedding;
    ResultMaker maker;
    JobSetting setting; /* the caller sets done, context and what else is its own */
    Engine *engine;     /* NULL: not started */
    size_t max_tasks;   /* texts at a time */
    size_t read_ahead;  /* how many texts to have waiting in the engine */
} Answering;

/* Zero-initialized before. The date that templates ask for is $SOURCE_DATE_EPOCH or a fixed one;
 * the caller may change chat.now. */
Status answering_begin(Answering *answering, const Session *session, Error *error);

/* Computes the fingerprint and fills in `embedding`, `maker` and `setting`. */
Status answering_settle(Answering *answering, Error *error);

/* Makes the engine; its KV cache has kv_bytes at most. `draft_rows` is EngineOptions'. */
Status answering_start(Answering *answering, size_t kv_bytes, size_t draft_rows, Error *error);

void answering_end(Answering *answering);

/* What a program needs to know of the model: the value of "info" in docs/batch.md. NULL: no memory.
 */
json_t *answering_info(const Answering *answering);

#endif
