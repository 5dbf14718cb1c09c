/* What run.c is built around: the full program in program.c, the core (make core) in core.c. One of
 * the two is linked. */
#ifndef PROGRAM_H
#define PROGRAM_H

#include "session/mode.h"

/* From what the user calls a model to a mapped model.bin, in two steps: begin opens every file;
 * when the rights are given up, finish parses what they hold. `opening` is whatever begin made. */
typedef struct ModelOpener {
    /* `tokenizer` (NULL: none) is a file to use instead of the model's. *opening is for close even
     * when it fails. */
    Status (*begin)(void **opening, const char *path, const char *tokenizer, const Session *session,
                    Error *error);
    /* The directory in which files are still to be made; NULL: none. */
    const char *(*writes_in)(const void *opening);
    Status (*finish)(void *opening, const Session *session, ModelFile **file, Error *error);
    /* *tokenizer is NULL when there is none. */
    Status (*tokenizer)(void *opening, const ModelFile *file, Tokenizer **tokenizer, Error *error);
    /* Adds to the error of a damaged file what the user can do about it; STATUS_FAILED. */
    Status (*blame)(const void *opening, Error *error);
    void (*close)(void *opening); /* NULL is fine */
} ModelOpener;

typedef struct Program {
    const Mode *const *modes; /* ends with NULL */
    MoreOptions options;
    ModelOpener opener;
    void (*start)(void); /* called before anything is opened; NULL: nothing */
    /* NULL, or gives a model for a command line without one: malloc'ed, NULL with an Error. */
    char *(*default_model)(Error *error);
    /* NULL, or applies --override to the file's Config before the weights are found; sets
     * session->overridden (malloc'ed) and *rope_theta. */
    Status (*change_model)(Session *session, float *rope_theta, Error *error);
    /* As Session.new_drafter. */
    Status (*new_drafter)(const Session *session, Drafter **drafter, Error *error);
    /* Prints what --version says beyond the core's libraries. NULL: nothing. */
    void (*print_version)(void);
} Program;

extern const Program program;

#endif
