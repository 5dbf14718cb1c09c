/* Opening a model for the library: its options, and what answers its requests. */
#ifndef LIBRARY_OPENING_H
#define LIBRARY_OPENING_H

#include <locale.h>

#include "modes/batch/answering.h"
#include "session/drafting.h"

/* A model and all that the requests on it share. */
typedef struct LibraryOpening {
    Options options;
    char **words;        /* [n_words] that the options borrow from, as a command line */
    size_t n_words;      /* ended by NULL */
    bool maps;           /* the file is mapped, not read */
    char *chat_template; /* NULL: the model's */
    Session session;
    AdaptiveThreads threads;
    Drafting drafting;
    Answering answering;
    size_t kv_bytes;
    volatile sig_atomic_t interrupted; /* never */
} LibraryOpening;

/* Opens `path` with options that are JSON (NULL: none), as verbatim.h describes them. After a
 * failure, too, the caller closes it. */
Status library_open(LibraryOpening *opening, const char *path, const char *options, Error *error);

void library_close(LibraryOpening *opening);

#endif
