/* From what the user calls a model to a mapped model.bin, in two steps: first every file is
 * opened, then, when the process has given up its rights, what they hold is parsed and, where
 * it is another format, converted. */
#ifndef MODELOPEN_H
#define MODELOPEN_H

#include "convert/conversions.h"
#include "session.h"

typedef struct ModelOpening {
    const char *path, *type;
    int fd;                    /* of a model.bin */
    Source *source;            /* of another format; NULL for a model.bin */
    ConversionSlot conversion; /* of the source */
    bool describes;            /* the weights are not wanted */
    bool needs_tokenizer;      /* the mode has no use for a model without one */
    InputFile tokenizer;       /* given beside a model.bin */
    char *kept;                /* the name of the conversion that was found, once it is mapped */
    TokenizerBlob section;     /* made from it; lives until modelopen_close */
} ModelOpening;

/* An opening that modelopen_close may see. */
#define MODELOPEN_NONE                                                                             \
    ((ModelOpening){.fd = -1, .tokenizer.fd = -1, .conversion = {.fd = -1, .lock_fd = -1}})

/* Opens whatever `path` names; `tokenizer` (NULL: none) is used instead of the model's own. The
 * Error says what to give instead of a pickle, an ONNX graph or a prompt. */
Status modelopen_begin(ModelOpening *opening, const char *path, const char *tokenizer,
                       const Options *options, const volatile sig_atomic_t *interrupted,
                       Error *error);

/* The directory in which files are still to be created and renamed; NULL: none. */
const char *modelopen_writes_in(const ModelOpening *opening);

/* Converts where need be, saying so on stderr, and maps the model.bin. */
Status modelopen_finish(ModelOpening *opening, const Session *session, int n_threads,
                        ModelFile **file, Error *error);

/* Behind the error of a file that is damaged: where it is a conversion from the cache, not the
 * user's own file, says so, and what to do. STATUS_FAILED. */
Status modelopen_blame(const ModelOpening *opening, Error *error);

/* The model's tokenizer, or the one given beside it; NULL when there is neither. */
Status modelopen_tokenizer(ModelOpening *opening, const ModelFile *file, Tokenizer **tokenizer,
                           Error *error);

void modelopen_close(ModelOpening *opening);

#endif
