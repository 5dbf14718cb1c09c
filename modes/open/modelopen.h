/* Opens what the user names as a model and maps it as a model.bin, in two steps: modelopen_begin
 * opens every file; modelopen_finish, when the process has given up its rights, parses them and
 * converts another format. */
#ifndef MODELOPEN_H
#define MODELOPEN_H

#include "modes/open/conversion_cache.h"
#include "modes/open/ollama_defaults.h"
#include "session/session.h"

typedef struct ModelOpening {
    const char *path;
    const char *type;          /* of the conversion; NULL: as the weights are */
    char chosen[8];            /* by --type auto */
    int fd;                    /* of a model.bin */
    Source *source;            /* of another format; NULL for a model.bin */
    ConversionSlot conversion; /* of the source */
    bool describes;            /* the mode does not read the weights */
    bool needs_tokenizer;      /* the mode cannot do without a tokenizer */
    InputFile tokenizer;       /* given beside a model.bin */
    const char *split_pattern; /* of the given tokenizer; borrowed; NULL: none */
    char *found;               /* the path of a model that was named, not its file; owned */
    OllamaDefaults defaults;   /* of a model that was named */
    char *kept;                /* path of the conversion that was found in the cache and mapped */
    TokenizerBlob section;     /* made from `tokenizer` */
    bool digests;              /* a receipt wants the digests of the source's files */
    json_t *sources;           /* the source files, {"type", "files": [...]}; NULL: none */
} ModelOpening;

/* An empty opening, which modelopen_close accepts. */
#define MODELOPEN_NONE                                                                             \
    ((ModelOpening){.fd = -1,                                                                      \
                    .tokenizer.fd = -1,                                                            \
                    .defaults = OLLAMA_DEFAULTS_NONE,                                              \
                    .conversion = {.fd = -1, .lock_fd = -1, .memory_fd = -1}})

/* Opens whatever `path` names, a file, a directory or a model by its name (model_names.h);
 * `tokenizer` (NULL: none) replaces the model's own. For a pickle, an ONNX graph, a prompt and the
 * like the Error says what to give instead (advice.h). */
Status modelopen_begin(ModelOpening *opening, const char *path, const char *tokenizer,
                       const Options *options, const volatile sig_atomic_t *interrupted,
                       Error *error);

/* Converts if necessary, with progress on stderr, and maps the model.bin. */
Status modelopen_finish(ModelOpening *opening, const Session *session, int n_threads,
                        ModelFile **file, Error *error);

/* Extends the error of a damaged file: if it is a conversion from the cache and not the user's own
 * file, says so and what to do. Returns STATUS_FAILED. */
Status modelopen_blame(const ModelOpening *opening, Error *error);

/* Opens the model's tokenizer, or the one given beside it; leaves *tokenizer as it is when there is
 * neither. */
Status modelopen_tokenizer(ModelOpening *opening, const ModelFile *file, Tokenizer **tokenizer,
                           Error *error);

void modelopen_close(ModelOpening *opening);

#endif
