/* One request of a batch being answered: a job, and its texts as tasks of the engine.
 *
 *     job = job_new(&setting)              the caller parses job->request
 *     job_prepare(job, &error)             makes its texts, job->n
 *     job_submit(job, engine, &error)      for each of them
 *     engine_step(engine, &error)          until setting.done is called
 *     job_failure(job), job_result(job)    what came of it
 *     job_free(job)
 *
 * In which order jobs begin and where their results go is the caller's business. */
#ifndef JOB_H
#define JOB_H

#include "modes/batch/check.h"
#include "modes/batch/engine.h"

typedef struct Job Job;
typedef struct Sample Sample; /* one text of a request, being generated */

/* What the jobs of a batch have in common; borrowed, it outlives them. */
typedef struct JobSetting {
    const Session *session;
    const ChatPrompt *chat;
    const ResultMaker *maker;
    Records *check; /* NULL: nothing is checked */
    const EmbeddingSetting *embedding;
    /* Takes logits[vocab_size] of a request with return_logits and gives the number of their row,
     * which the result names; NULL: no request may have return_logits. `index` is the text's.
     * Called from several threads at once, but never for the same text. */
    Status (*add_logits)(Job *job, size_t index, const float *logits, size_t *row, Error *error);
    /* Takes state[dim] of a token of a request with return_states, in order; NULL: no request may
     * have it. */
    Status (*add_state)(Job *job, size_t index, const float *state, Error *error);
    /* All texts of the job are done or have failed. Called from the thread that called engine_step;
     * may free the job. */
    void (*done)(Job *job, void *context);
    void *context;
} JobSetting;

/* One request and its texts. */
struct Job {
    const JobSetting *setting;
    Request request;
    Choice *choices;               /* [n] */
    Sample *samples;               /* [n] */
    size_t n, n_submitted, n_left; /* texts: all, handed to the engine, not yet done */
    Shape *shape;                  /* of its texts; NULL: none */
    Streamed *streamed;            /* [n] of a request with "stream"; else NULL */

    /* --check */
    json_t *recorded;        /* owned, set before job_prepare; NULL: there is no record */
    CheckText *texts;        /* [n] */
    Divergence *divergences; /* [n] */
    char *result;            /* as it should be; NULL: not completed, or nobody asks */
    bool is_same;            /* the record is what the model gives */

    json_t *item; /* of the receipt; owned; NULL: none is kept */

    /* The caller's. */
    char *line;  /* the result, or --check's; owned; NULL: not yet finished */
    Job *next;   /* the next line of the input */
    void *owner; /* whose job it is */
};

Job *job_new(const JobSetting *setting); /* NULL: no memory */
void job_free(Job *job);

/* Frees everything of a finished job but its result line. */
void job_shrink(Job *job);

/* Encodes the request and makes its texts, with --check from their records. A job that fails here
 * has no texts. */
Status job_prepare(Job *job, Error *error);

/* Hands the next text of the job to the engine. An error is not the job's: the run cannot go on. */
Status job_submit(Job *job, Engine *engine, Error *error);

/* Ends the texts of a job that are not done, as failed. The job may be gone afterwards. */
void job_cancel(Job *job, Engine *engine);

/* As job_cancel, because of this error instead of the client's request. */
void job_fail(Job *job, Engine *engine, const Error *why);

/* Why the first text that failed did; NULL: none failed. */
const char *job_failure(const Job *job);

size_t job_n_generated(const Job *job); /* tokens of all texts */

/* What the index-th text has so far: *text[*length], whole characters. True once it has ended. */
bool job_text(const Job *job, size_t index, const char **text, size_t *length);

/* Returns the result line of a job whose texts are all done, freed by the caller. NULL: no memory,
 * or a text was not completed because its record is known to be another. */
char *job_result(const Job *job);

/* Passes each line that a request with "stream" can get now to `add`, a newline not included; stops
 * at its first failure. After the last text has ended the stream is complete;
 * of a native request the result follows. */
Status job_stream(Job *job, Status (*add)(void *context, const char *line, Error *error),
                  void *context, Error *error);

/* With --check: returns what it says in place of the result line (NULL: it was not completed),
 * which the job takes over. NULL: no memory. */
char *job_compare(Job *job, char *line);

#endif
