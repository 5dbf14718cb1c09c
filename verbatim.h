/* verbatim as a library: answers requests with a decoder-only language model, on the CPU, with the
 * same bytes every time.
 *
 *     char why[VERBATIM_ERROR_BYTES];
 *     VerbatimModel *model = verbatim_open("model.bin", "{\"threads\": 2}", why, sizeof why);
 *     VerbatimRequest *request = verbatim_begin(model, line, strlen(line));
 *     while (verbatim_pass(model) > 0) continue;
 *     if (verbatim_result(request, &result, &length) == 1) ...
 *     verbatim_end(request);
 *     verbatim_close(model);
 *
 * Requests and results are lines of JSON, as `run MODEL.bin --batch` reads and prints them
 * (docs/batch.md), and have the same bytes. Link with `pkg-config --libs verbatim`.
 *
 * What the library does not promise, because only a whole program can:
 *
 *   - No sandbox. `run` gives up its rights to files and network before it reads a byte of a model.
 *     A library cannot take rights from its host: every count and offset of a file is checked, but
 *     whoever opens models of strangers does it in a process of its own.
 *   - A mapped file that becomes shorter, or whose disk fails, raises SIGBUS, which is the host's.
 *     "map": false reads the file into memory instead.
 *   - The OpenMP runtime (libgomp) ends the process when it cannot start a thread or gets no memory
 *     for one. It does so at most when a thread of the host makes its first passes.
 *   - A process killed for its memory by the system is killed.
 *   - Conversion. Only model.bin files are opened: `verbatim-export` makes them. Adapters
 *     (--lora), draft models, "stream" and the lines that ask the program itself ("info", "cancel")
 *     are not there.
 *
 * What it promises: no function prints, exits, aborts, writes a file, installs a handler of
 * signals, changes the locale of the process or the allocator of jansson. It opens no file but the
 * model's and what the C library and the system tell (/proc, /sys, /etc/localtime, /dev/urandom);
 * no text of an option or a request names a file ("system": "@notes" is these six characters). A
 * failed allocation is an error like any other: the call says so and changes nothing else, or the
 * requests that needed the memory fail.
 *
 * Threads. One thread at a time uses a model and its requests; different models may be used at the
 * same time, and a model by one thread after another (a mutex of the host is enough). No call waits
 * for anything but its own work, and none can be stopped from outside: verbatim_pass is short where
 * "chunk" is small. Each call sets the floating-point control (rounding, denormals, traps) and
 * the locale of its threads and restores the old ones; signals that arrive meanwhile do no harm.
 * The runtime's threads take the signal mask of the thread that makes the first passes. A call
 * needs 1 MiB of stack. Once loaded, the library stays: dlclose(3) does not unload it, because
 * threads of the runtime sleep in it.
 *
 * After fork(2) the child may only call verbatim_close and verbatim_end, because the threads of the
 * runtime do not exist there. Other calls with a model of its parent fail, or give only what was
 * there before the fork. A model that the child itself opens may wait for these threads for ever:
 * fork before the first pass, or call exec(3).
 *
 * Pointers. No argument may be NULL but those of which it is said, and a text of 0 bytes or a list
 * of 0 ids. What a function gives belongs to the model or the request and is not freed by the
 * caller; what is valid until the next call may be an argument of that call. Out-parameters are set
 * to NULL (a text: "") and 0 by each call that gives nothing. After verbatim_close the model and
 * all its requests are gone, after verbatim_end that request is: nothing may be called with them.
 *
 * Errors. Strings are UTF-8 unless a function says otherwise; a reason may have the name of a file
 * as it was given. Functions that return int give -1 for a failure, those that return a pointer
 * NULL; verbatim_error says why. errno means nothing afterwards. */
#ifndef VERBATIM_H
#define VERBATIM_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define VERBATIM_API __attribute__((visibility("default")))
#else
#define VERBATIM_API
#endif

enum { VERBATIM_ERROR_BYTES = 1024 };

typedef struct VerbatimModel VerbatimModel;
typedef struct VerbatimRequest VerbatimRequest;

/* The version of the library, "0.1"; static. The functions of libverbatim.so.1 stay: later versions
 * only add. */
VERBATIM_API const char *verbatim_version(void);

/* Opens a model.bin. `options` is NULL or a JSON object: the options of the command line by their
 * long names, with `-` or `_` between words, as defaults of all requests and for the machine:
 *
 *     threads isa context chunk kv-type kv-memory max-concurrent snapshots draft lookup
 *     tokens stop ignore-eos special bos temperature top-k top-p min-p repetition-penalty
 *     presence-penalty frequency-penalty logit-bias seed
 *     system reasoning reasoning-effort reasoning-budget hide-reasoning
 *     pooling dimensions embed-normalize embed-prompt embed-truncate
 *
 * A value is a number, a text, a boolean or, of `stop` and `logit-bias`, a list of texts. Two more
 * are the library's: "map" (true: the file is mapped; false: read into memory) and "chat-template"
 * (the text of a template, not a file). null is as if the option were not there. What a line of a
 * batch does not say has the same defaults as there: the seed is 0.
 *
 * The KV cache of all requests takes "kv-memory" bytes at most (a text such as "2G", or a
 * number of bytes); the default is half of the memory that is free. "threads" counts the calling
 * thread. The environment is read for $SOURCE_DATE_EPOCH, the date of chat templates, and by the
 * OpenMP runtime.
 *
 * Returns NULL on failure. error[error_bytes] (NULL, or 0 bytes: not wanted) gets the reason, or ""
 * after success, NUL-terminated and cut where it does not fit. The caller closes the model with
 * verbatim_close. */
VERBATIM_API VerbatimModel *verbatim_open(const char *path, const char *options, char *error,
                                          size_t error_bytes);

/* Ends all requests of the model and frees it, once. NULL is fine. */
VERBATIM_API void verbatim_close(VerbatimModel *model);

/* The reason of the last failure of a call with this model or its requests, "" before the first;
 * valid until the next call. */
VERBATIM_API const char *verbatim_error(const VerbatimModel *model);

/* A line of JSON with what a program needs to know of the model, as the value of "info" in
 * docs/batch.md: name, version, numeric_revision, context, vocab_size, dim, max_concurrent. Valid
 * until verbatim_close. NULL: no memory, or a forked process. */
VERBATIM_API const char *verbatim_describe(VerbatimModel *model);

/* Begins a request, line[length] without a newline, which is copied. It is parsed and its prompt
 * encoded now, and computed by verbatim_pass. The n-th request of a model has the line number n in
 * its result, where that has no id; ids need not differ.
 *
 * A request that is wrong is not a failure: it is done at once, and its result has the error, as in
 * a batch; so has that of a line of more than 64 MiB. Any number may be begun before or between
 * passes; "max-concurrent" texts are computed at a time, in the order of their requests. Returns
 * NULL when memory is short, or in a forked process. The caller frees it with verbatim_end, or all
 * of them with verbatim_close. */
VERBATIM_API VerbatimRequest *verbatim_begin(VerbatimModel *model, const char *line, size_t length);

/* Computes one pass of all requests that run, which adds at least one token to each that has read
 * its prompt, and reads at most "chunk" tokens of prompts. Returns 1 while there is more to
 * compute, 0 when all requests are done (or there are none). After -1 the requests that ran are
 * done and their results have the error; the model can be used again. */
VERBATIM_API int verbatim_pass(VerbatimModel *model);

/* What the index-th text of a request has so far: *text[*length], whole characters, not
 * NUL-terminated, valid until the next call with its model. These are the bytes that the model
 * generates, with reasoning and calls of tools as it writes them; the result has them taken apart.
 * Where it generates bytes that are not UTF-8, they are there as they are. A request that asks for
 * more than one text has them in the order of the result, from 0. Returns 1 when the text has
 * ended, 0 before; -1 when there is no such text, as in a request that was wrong or is for
 * embeddings. */
VERBATIM_API int verbatim_text(VerbatimRequest *request, size_t index, const char **text,
                               size_t *length);

/* The result of a request, *line[*length], NUL-terminated, without a newline, as --batch prints it;
 * valid until verbatim_end. Returns 1 when it is there, also for a request that failed, and 0 while
 * the request runs. After -1, no memory, it may be called again. */
VERBATIM_API int verbatim_result(VerbatimRequest *request, const char **line, size_t *length);

/* Ends a request that runs: its result has the error "cancelled". Returns 1; 0: it was done. The
 * others go on as if it had never been. */
VERBATIM_API int verbatim_cancel(VerbatimRequest *request);

/* Cancels a request if it still runs, and frees it. NULL is fine. */
VERBATIM_API void verbatim_end(VerbatimRequest *request);

typedef enum VerbatimNumbers {
    /* For a request with "return_logits": the logits from which each token was chosen, before bias
     * and penalties; with "echo" first those after each token of the prompt but the last. The
     * result's "logits_rows" counts them within the text. [n_rows][vocab_size] */
    VERBATIM_LOGITS,
    /* For a request for embeddings, once it is done: [1][dimensions]. */
    VERBATIM_EMBEDDING,
    /* For a request for embeddings with "return_states": the final state of each token, after the
     * last norm, before pooling. [n_rows][dim] */
    VERBATIM_STATES
} VerbatimNumbers;

/* Numbers of the index-th text: *rows[*n_rows][*n_columns], row by row, valid until the next call
 * with its model. The same bits on every machine. Rows of logits and states take memory until
 * verbatim_end. Returns 1 when there are some, 0 when there are none (yet, or because the request
 * did not ask); -1 when there is no such text or kind of numbers. */
VERBATIM_API int verbatim_numbers(VerbatimRequest *request, VerbatimNumbers what, size_t index,
                                  const float **rows, size_t *n_rows, size_t *n_columns);

enum {
    VERBATIM_BARE = 1,   /* verbatim_tokens: without what the tokenizer puts before a text */
    VERBATIM_SPECIAL = 2 /* special tokens are recognized, or shown */
};

/* The tokens of text[length]: *ids[*n], valid until the next call with the model. Bytes that are
 * not UTF-8 have tokens, too. `flags` is 0 or a sum of the above; -1 for any other. Returns 1. */
VERBATIM_API int verbatim_tokens(VerbatimModel *model, const char *text, size_t length, int flags,
                                 const int32_t **ids, size_t *n);

/* The text of ids[n]: *text[*length], NUL-terminated, valid until the next call with the model. It
 * need not be UTF-8. -1 for an id outside the vocabulary; VERBATIM_BARE changes nothing. Returns 1.
 */
VERBATIM_API int verbatim_detokenize(VerbatimModel *model, const int32_t *ids, size_t n, int flags,
                                     const char **text, size_t *length);

#ifdef __cplusplus
}
#endif

#endif
