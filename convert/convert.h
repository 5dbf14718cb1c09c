/* Converts any source to a model.bin: for `export`, and for `run` when MODEL is in another format.
 *
 * plan.h says what becomes of each tensor; here the plan is executed. Each thread makes a few
 * panels of a matrix at a time and writes them to their place in the file, so that memory does not
 * grow with the model. Threads write in any order; only the checksum of the weights takes the
 * panels in the order of the file. convert_target.h decides where the file goes. */
#ifndef CONVERT_H
#define CONVERT_H

#include <signal.h>

#include "formats/containers/source.h"

typedef enum ConvertStep {
    CONVERT_WRITING,     /* progress counts bytes of the target, or of the model to calibrate */
    CONVERT_CALIBRATING, /* progress counts tokens */
    CONVERT_CHOOSING     /* progress counts passes over the text, at most `total` */
} ConvertStep;

/* What a source is opened with, beside its path. */
typedef struct SourceOptions {
    const char *tokenizer;     /* path of a tokenizer to use instead of the source's; NULL: none */
    const char *split_pattern; /* how the tokenizer file splits text, as in tokenizer_from_file; may
                                  be NULL */
    const char *family;        /* path of the page of a family that it may be of; NULL: none */
    bool no_mtp;               /* leave out prediction layers (formats/family/prediction.h) */
} SourceOptions;

/* How a model is made of a source. */
typedef struct ConvertOptions {
    SourceOptions source; /* convert_parsed has it open already */
    const char *type;     /* of the matrices, as mix.h has it: "f16", "q8", "q4m"; NULL: lossless */
    const char *target;   /* the target's name in messages; NULL: the source's path */
    int n_threads;        /* 0: machine_cores() */
    bool synced; /* the caller syncs the target, so that the disk may begin with what is written;
                  * false: it may never reach the disk */
    /* How much the inputs of a tensor matter, by its number in the source, in the form of
     * calibration_importance. May be NULL: all matter alike. */
    const float *(*importance)(size_t tensor, void *context);
    void *importance_context;
    /* Called from time to time, never by two threads at once. May be NULL. */
    void (*progress)(ConvertStep step, uint64_t done, uint64_t total, void *context);
    void *progress_context;
    /* Called at the end for each type of the source that none of the runner's types holds without
     * loss, with a line that names the type it became and the error. `context` is
     * progress_context. May be NULL. */
    void (*note)(const char *line, void *context);
    const volatile sig_atomic_t *cancel; /* nonzero: stop with STATUS_INTERRUPTED; may be NULL */
} ConvertOptions;

/* Opens every file of the source; source_parse parses it. */
Status convert_open(Source **source, const char *path, const SourceOptions *options, Error *error);

/* Converts the model at `source` into out_fd (a new, empty, seekable file, open for reading and
 * writing). The file is complete only if the result is STATUS_OK. Fails when a file of the source
 * was changed meanwhile (input_check_unchanged). */
Status convert_source(const char *source, const ConvertOptions *options, int out_fd, Error *error);

/* Like the function above, for a source that is open and parsed. */
Status convert_parsed(const Source *source, const ConvertOptions *options, int out_fd,
                      Error *error);

/* Writes everything but the weights: configuration, tensor directory, tokenizer and template are
 * where the complete file has them, the weights are a hole, and their checksum is wrong. Takes no
 * time and no room, whatever the model's size. */
Status convert_description(const Source *source, const char *type, int out_fd, Error *error);

#endif
