/* Any source into a model.bin: behind `export`, and behind `run` when MODEL is no model.bin.
 *
 * Weights stream through: a few panels a thread are read, checked, quantized where asked for
 * and packed, in the order of the file, so that memory does not grow with the model. */
#ifndef FORMATS_CONVERT_H
#define FORMATS_CONVERT_H

#include <signal.h>

#include "formats/source.h"

typedef struct Calibration Calibration;

typedef enum ConvertStep {
    CONVERT_WRITING,    /* bytes of a model.bin: of the target, or of what calibration runs */
    CONVERT_CALIBRATING /* tokens */
} ConvertStep;

typedef struct ConvertOptions {
    const char *type; /* of the matrices, as mix.h has it: "f16", "q8", "q4m"; NULL: lossless */
    const char *tokenizer; /* path of a tokenizer to use instead of the source's; NULL: none */
    const char *target;    /* what an error of writing calls the target; NULL: the source's path */
    int n_threads;         /* 0: threads_default() */
    /* For convert_to_path: the path of a text. The model runs over it, from a lossless conversion
     * into an unlinked file beside the target, and the error of quantized weights is weighted by
     * how much their inputs matter. NULL: all inputs matter alike. */
    const char *calibrate;
    const Calibration *calibration; /* the same for convert_parsed: what came of it, or NULL */
    /* Called now and then, never twice at once. May be NULL. */
    void (*progress)(ConvertStep step, uint64_t done, uint64_t total, void *context);
    void *progress_context;
    /* Called when every file is open and no byte of the source was looked at: the moment to give
     * up rights. convert_to_path still links and renames in its target's directory. May be NULL. */
    Status (*ready)(void *context, Error *error);
    void *ready_context;
    /* Called at the end for each type of the source that no type of ours holds without loss, with
     * a line that says what it became and the error that it cost. May be NULL. */
    void (*note)(const char *line, void *context);
    const volatile sig_atomic_t *cancel; /* nonzero: stop with STATUS_INTERRUPTED; may be NULL */
} ConvertOptions;

/* Writes the model.bin that `source` gives to out_fd (a new, empty, seekable file that is open
 * for reading and writing). The file is whole only when STATUS_OK comes back. */
Status convert_source(const char *source, const ConvertOptions *options, int out_fd, Error *error);

/* The same for a source that is open and parsed. */
Status convert_parsed(const Source *source, const ConvertOptions *options, int out_fd,
                      Error *error);

/* Everything but the weights: configuration, tensor directory, tokenizer and template stand where
 * the whole file has them, and where the weights would be is a hole (the checksum of the data is
 * of no use). Takes no time and no room, whatever the model's size. */
Status convert_description(const Source *source, const char *type, int out_fd, Error *error);

/* A file in `directory` that has no name, for reading and writing; -1 with errno when there can be
 * none. */
int convert_unlinked(const char *directory);
/* The same in the first directory that takes it: `first` (NULL: none), $TMPDIR, /var/tmp, /tmp. */
int convert_unlinked_anywhere(const char *first);

/* Converts into an unlinked temporary file, which vanishes with its last descriptor, and gives
 * that: what `bench` maps. It lies beside the conversions that `run` keeps (cache_directory.h),
 * where there is room for what is large, else where convert_unlinked_anywhere finds a place. */
Status convert_temporary(const char *source, const ConvertOptions *options, int *fd, Error *error);

/* Converts into `path`, which is replaced atomically: there is the old file (or none) until the
 * new one is whole and synced to the disk. */
Status convert_to_path(const char *source, const ConvertOptions *options, const char *path,
                       Error *error);

#endif
